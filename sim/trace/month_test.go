package trace_test

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
)

// Two moments a minute apart.
const (
	eight = "2026-03-01T08:00:00"
	later = "2026-03-01T08:01:00"
)

const monthHeader = "JobID|State|Submit|Start|End|ElapsedRaw|TimelimitRaw|Priority|AllocTRES\n"

// told is what a log of one job says beyond its length.
func told(t *testing.T, text string) trace.Told {
	t.Helper()
	got := read(t, text)
	if len(got.Entries) != 1 || got.Entries[0].Told == nil {
		t.Fatalf("%s: %+v", text, got)
	}
	return *got.Entries[0].Told
}

func TestWhenAJobRanIsCountedFromTheFirstSubmission(t *testing.T) {
	got := told(t, monthHeader+
		"7|COMPLETED|"+eight+"|"+later+"|2026-03-01T09:01:00|3600|90|4294|cpu=8,gres/gpu=2,mem=62500M\n")
	same(t, "told", got, trace.Told{Asked: trace.Asked{Limit: 5400, Priority: 4294},
		Past: trace.Past{Started: 60, Ended: 3660, Ran: 3600, Runs: 1, CPUs: 8, Memory: 62.5}})
}

func TestARequeuedJobWasThereFromItsFirstStartToItsLastEnd(t *testing.T) {
	got := told(t, monthHeader+
		"7|NODE_FAIL|2026-03-01T08:00:00|2026-03-01T08:01:00|2026-03-01T08:11:00|600|90|1|cpu=8,gres/gpu=2\n"+
		"7|REQUEUED|2026-03-01T08:12:00|Unknown|2026-03-01T08:13:00|0|90|1|\n"+
		"7|COMPLETED|2026-03-01T08:14:00|2026-03-01T09:00:00|2026-03-01T09:30:00|1800|60|2|cpu=6,gres/gpu=2\n")
	same(t, "told", got, trace.Told{Asked: trace.Asked{Limit: 3600, Priority: 2},
		Past: trace.Past{Started: 60, Ended: 5400, Ran: 2400, Runs: 2, CPUs: 6}})
}

func TestComponentsOfAHeterogeneousJobAreAddedUp(t *testing.T) {
	got := told(t, monthHeader+
		"7+0|COMPLETED|"+eight+"|"+later+"|2026-03-01T09:01:00|3600|90||cpu=8,gres/gpu=2,mem=1000M\n"+
		"7+1|COMPLETED|"+eight+"|"+later+"|2026-03-01T09:02:00|3660|90||cpu=4,gres/gpu=1,mem=500M\n")
	same(t, "past", got.Past, trace.Past{Started: 60, Ended: 3720, Ran: 3660, Runs: 1, CPUs: 12, Memory: 1.5})
}

func TestWhatIsNotToldIsNotMadeUp(t *testing.T) {
	for name, record := range map[string]string{
		"no start":               "7|COMPLETED|2026-03-01T08:00:00|Unknown|2026-03-01T09:00:00|3600|||gres/gpu=1",
		"a start before":         "7|COMPLETED|" + eight + "|2026-03-01T07:00:00|" + eight + "|3600|||gres/gpu=1",
		"an end before":          "7|COMPLETED|" + eight + "|2026-03-01T09:00:00|" + eight + "|3600|||gres/gpu=1",
		"a limit of the cluster": "7|COMPLETED|2026-03-01T08:00:00|None|None|3600|Partition_Limit||gres/gpu=1",
	} {
		if got := read(t, monthHeader+record+"\n"); len(got.Entries) != 1 || got.Entries[0].Told != nil {
			t.Errorf("%s: %+v", name, got.Entries)
		}
	}
}

func TestLimitsAreReadInEveryWayInWhichTheyAreWritten(t *testing.T) {
	for text, want := range map[string]float64{"90": 5400, "1-00:00:00": 86400, "01:30:00": 5400,
		"UNLIMITED": 365 * 86400, "Partition_Limit": 0, "": 0} {
		for _, column := range []string{"TimelimitRaw", "Timelimit"} {
			got := told(t, "JobID|Submit|ElapsedRaw|AllocTRES|Priority|"+column+
				"\n7|2026-03-01T08:00:00|60|gres/gpu=1|1|"+text+"\n").Asked.Limit
			if got != want {
				t.Errorf("%s %q: %v s, want %v", column, text, got, want)
			}
		}
	}
}

func TestMemoryHasTheUnitsOfSlurm(t *testing.T) {
	for text, want := range map[string]float64{"1000K": 1000.0 / 1024 / 1000, "62500M": 62.5, "64G": 65.536,
		"1.50T": 1572.864, "500": 0.5} {
		got := told(t, monthHeader+"7|COMPLETED|"+eight+"|"+later+"|2026-03-01T09:01:00|3600|||gres/gpu=1,mem="+
			text+"\n").Past.Memory
		if got != want {
			t.Errorf("mem=%s: %v GB, want %v", text, got, want)
		}
	}
}

// TestMemoryIsThatOfTheRequestWhereNoneWasAllocated: newer Slurms write it for the whole job, older ones for each node
// or core.
func TestMemoryIsThatOfTheRequestWhereNoneWasAllocated(t *testing.T) {
	const header = "JobID|Submit|Start|End|ElapsedRaw|AllocTRES|NNodes|NCPUS|ReqMem\n"
	for record, want := range map[string]float64{
		"cpu=8,gres/gpu=2,node=2|||4Gn":         8.192,
		"gres/gpu=2|2|8|4Gn":                    8.192,
		"cpu=8,gres/gpu=2||4|2000Mc":            16,
		"gres/gpu=2||4|2000Mc":                  8,
		"cpu=8,gres/gpu=2,node=2|||64G":         65.536,
		"cpu=8,gres/gpu=2,mem=1000M,node=2|||?": 1,
		"cpu=8,gres/gpu=2,mem=1000M|1|8|4Gn":    1,
		"gres/gpu=2|||4Gn":                      0, // nobody says how many nodes
		"gres/gpu=2|||2000Mc":                   0,
		"cpu=8,gres/gpu=2,node=2|||0n":          0,
		"cpu=8,gres/gpu=2,node=2|||?":           0,
	} {
		got := told(t, header+"7|"+eight+"|"+later+"|2026-03-01T09:01:00|3600|"+record+"\n").Past.Memory
		if got != want {
			t.Errorf("%s: %v GB, want %v", record, got, want)
		}
	}
	for record, want := range map[string]string{
		"gres/gpu=1|1|1|4Gx":         `ReqMem = 4Gx: want memory with its unit`,
		"gres/gpu=1|1|1|n":           `ReqMem = n: want memory`,
		"gres/gpu=1|1|-3|4G":         `NCPUS = -3: want a whole number`,
		"gres/gpu=1|1|9|999999999Pc": `ReqMem = 999999999Pc: want memory`,
	} {
		text := header + "7|" + eight + "|" + later + "|2026-03-01T09:01:00|3600|" + record + "\n"
		_, err := trace.Read("f", strings.NewReader(text), trace.Sacct)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", record, err, want)
		}
	}
}

func TestALogWithoutAHeaderIsRefusedWithTheOptionThatWasWrong(t *testing.T) {
	const record = `line 1: .* is a record: want .* without --noheader$`
	for text, want := range map[string]string{
		"1|ann|COMPLETED|" + eight + "|" + eight + "|60|gres/gpu=1\n": record,
		"1234_7.batch|COMPLETED|60\n":                                 record,

		"JobID  JobName  Submit\n------- ----\n": `line 1: .* has no \| between its columns: want .* --parsable2$`,

		"User|State|Submit\nann|COMPLETED|" + eight + "\n": `line 1: no column JobID among User\|State\|Submit`,
	} {
		_, err := trace.Read("f", strings.NewReader(text), trace.Sacct)
		if err == nil || !regexp.MustCompile(want).MatchString(err.Error()) {
			t.Errorf("%q: error %v, want %s", text, err, want)
		}
	}
}

func TestAWrongFieldOfAccountingIsRefusedByNameWithARemedy(t *testing.T) {
	for record, want := range map[string]string{
		"60|gres/gpu=1,mem=12Q|1|60":  `AllocTRES = gres/gpu=1,mem=12Q: want memory with its unit`,
		"60|gres/gpu=1,cpu=-1|1|60":   `AllocTRES = gres/gpu=1,cpu=-1: want whole numbers of cores from 0`,
		"60|gres/gpu=1|-1|60":         `Priority = -1: want a whole number from 0 to 4294967295`,
		"60|gres/gpu=1|1|soon":        `TimelimitRaw = soon: want a length of time`,
		"60|gres/gpu=1|1|99999999999": `TimelimitRaw = 99999999999: want minutes`,
	} {
		text := "JobID|Submit|ElapsedRaw|AllocTRES|Priority|TimelimitRaw\n7|2026-03-01T08:00:00|" + record + "\n"
		_, err := trace.Read("f", strings.NewReader(text), trace.Sacct)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", record, err, want)
		}
	}
}

func TestAStrokeInTheOnlyTextOfUsersTakesNoJobAway(t *testing.T) {
	for header, want := range map[string]int{"JobID|JobName|Submit|ElapsedRaw|AllocTRES": 2,
		"JobID|JobName|Submit|ElapsedRaw|AllocTRES|Comment": 1} {
		tail := ""
		if strings.HasSuffix(header, "Comment") {
			tail = "|"
		}
		got := read(t, header+"\n7|a|b|c|"+eight+"|60|gres/gpu=1"+tail+"\n8|plain|"+eight+"|60|gres/gpu=1"+tail+"\n")
		if len(got.Entries) != want || got.Records.Broken != 2-want {
			t.Errorf("%s: %d jobs and %d broken records, want %d jobs", header, len(got.Entries), got.Records.Broken,
				want)
		}
	}
}

func TestALogIsOnlyAMonthAgainIfItTellsAllThatThisTakes(t *testing.T) {
	const record = "7|COMPLETED|2026-03-01T08:00:00|2026-03-01T08:01:00|2026-03-01T09:01:00|3600|90|1|gres/gpu=2\n"
	if err := read(t, monthHeader+record).CheckReplayable(); err != nil {
		t.Error(err)
	}
	err := read(t, "JobID|Submit|ElapsedRaw|ReqTRES\n7|2026-03-01T08:00:00|60|gres/gpu=1\n").CheckReplayable()
	for _, want := range []string{"Start, for", "End, for", "State, for", "AllocTRES or AllocGRES, for",
		"TimelimitRaw or Timelimit, for"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestWhatTheRecordsOfALogWereIsCounted(t *testing.T) {
	got := open(t, "sacct.txt").Records
	if got.Records != 16 || got.Jobs != 10 || got.Steps != 3 || got.Requeues != 1 || got.Broken != 0 {
		t.Errorf("%+v", got)
	}
}

func TestAccountingThatIsWrittenReadsAsItWasRead(t *testing.T) {
	for name, text := range map[string]string{
		"a zone": monthHeader + "7|COMPLETED|2026-03-29T01:00:00+0100|2026-03-29T03:30:00+0200|" +
			"2026-03-29T04:30:00+0200|3600|90|1|cpu=8,gres/gpu=2,mem=1.50T\n",
		"clusters": "Cluster|JobID|Submit|ElapsedRaw|AllocTRES|User\neast|7_1|" + eight + "|60.5|gres/gpu=1|ann\n" +
			"west|7_1|2026-03-01T08:00:00|60|gres/gpu=1|\n",
		"requeued": monthHeader + "7|NODE_FAIL|" + eight + "|" + later +
			"|2026-03-01T08:11:00|600|90|1|cpu=8,gres/gpu=2\n" +
			"7|RUNNING|2026-03-01T08:14:00|2026-03-01T09:00:00|Unknown|1800|60|2|cpu=6,gres/gpu=2\n",
	} {
		first := read(t, text)
		var b bytes.Buffer
		if err := trace.WriteSacct(&b, first); err != nil {
			t.Fatal(err)
		}
		second := read(t, b.String())
		for i := range first.Entries {
			if first.Entries[i].Told != nil {
				first.Entries[i].Told.Past.Runs = min(first.Entries[i].Told.Past.Runs, 1) // a record is one run
			}
		}
		same(t, name, second.Entries, first.Entries)
		if !second.Begin.Equal(first.Begin) {
			t.Errorf("%s: begins at %s, and then at %s", name, first.Begin, second.Begin)
		}
	}
}
