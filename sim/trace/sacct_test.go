package trace_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
)

// accounted reads a log of one job.
func accounted(t *testing.T, header string, records ...string) trace.Entry {
	t.Helper()
	got := read(t, header+"\n"+strings.Join(records, "\n")+"\n")
	if len(got.Entries) != 1 {
		t.Fatalf("%v: %d jobs, want one: %+v", records, len(got.Entries), got)
	}
	return noReckoning(got.Entries)[0]
}

// noReckoning are entries without what only Slurm's accounting tells.
func noReckoning(entries []trace.Entry) []trace.Entry {
	all := slices.Clone(entries)
	for i := range all {
		all[i].Told = nil
	}
	return all
}

func TestOldAndNewSacctOptionsGiveTheSameJobs(t *testing.T) {
	want := accounted(t, "JobID|Submit|ElapsedRaw|AllocTRES|User", "7|2026-03-01T08:00:00|93784|gres/gpu=2|ann")
	for header, record := range map[string]string{
		"JobID|Submit|ElapsedRaw|AllocTRES|User|":      "7|2026-03-01T08:00:00|93784|gres/gpu=2|ann|", // --parsable
		"User|AllocTRES|Elapsed|Submit|JobID":          "ann|gres/gpu=2|1-02:03:04|2026-03-01T08:00:00|7",
		"jobid|submit|start|end|reqtres|user":          "7|2026-03-01T08:00:00|2026-03-01T09:00:00|2026-03-02T11:03:04|gres/gpu=2|ann",
		"JobIDRaw|Submit|ElapsedRaw|AllocTRES|User":    "7|1772352000|93784|gres/gpu=2|ann", // SLURM_TIME_FORMAT=%s
		"JobID|Submit|Elapsed|ElapsedRaw|ReqTRES|User": "7|2026-03-01T08:00:00|INVALID|93784|gres/gpu=2|ann",
	} {
		same(t, header, accounted(t, header, record), want)
	}
}

func TestGPUsAreCountedByAllocTRESAndTypesOnlyWhereNothingElseIs(t *testing.T) {
	const header = "JobID|Submit|ElapsedRaw|AllocTRES|ReqTRES"
	for tres, want := range map[string]int{
		"billing=8,cpu=8,gres/gpu=2,mem=64G|gres/gpu=3": 2,
		"gres/gpu:a100=2,gres/gpu=2|":                   2,
		"gres/gpu:a100=2,gres/gpu:v100=1|":              3,
		"GRES/GPU=4|":                                   4,
		"|cpu=1,gres/gpu=5":                             5,
		"gres/gpu=6,gres/gpumem=80G,gres/gpuutil=3|":    6,
	} {
		if got := accounted(t, header, "7|2026-03-01T08:00:00|60|"+tres).GPUs; got != want {
			t.Errorf("%s: %d GPUs, want %d", tres, got, want)
		}
	}
}

func TestLogsOfOldSlurmsHaveTheirGPUsInAllocGRES(t *testing.T) {
	const header = "JobID|Submit|ElapsedRaw|AllocGRES|ReqGRES"
	for gres, want := range map[string]int{
		"gpu:4|gpu:2":            4,
		"gpu|":                   1,
		"gpu:v100|":              1,
		"gpu:v100:2|":            2,
		"craynetwork:3,gpu:2|":   2,
		"gpu:v100:2,gpu:a100:1|": 3,
		"gres:gpu:3|":            3,
		"gres/gpu=8|":            8,
		"GPU:Tesla:2|":           2,
		"|gpu:5":                 5,
	} {
		if got := accounted(t, header, "7|2018-03-01T08:00:00|60|"+gres).GPUs; got != want {
			t.Errorf("%s: %d GPUs, want %d", gres, got, want)
		}
	}
	both := accounted(t, "JobID|Submit|ElapsedRaw|AllocTRES|AllocGRES",
		"7|2018-03-01T08:00:00|60|billing=8,cpu=8,mem=64G,node=1|gpu:2").GPUs
	if both != 2 {
		t.Errorf("beside a list of TRES without GPUs there are %d, want 2", both)
	}
	for _, wrong := range []string{"gpu:-1", "gpu:v100:2x", "gpu:1000001", "gpu:999999,gpu:2",
		"gpu:99999999999999999999"} {
		_, err := trace.Read("f", strings.NewReader(header+"\n7|2018-03-01T08:00:00|60|"+wrong+"|\n"), trace.Sacct)
		if err == nil || !strings.Contains(err.Error(), "AllocGRES = "+wrong) {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

func TestListingsOfMonthsThatOverlapCountNoRunTwice(t *testing.T) {
	const header = "JobID|State|Submit|Start|End|ElapsedRaw|AllocTRES"
	got := accounted(t, header,
		"7|PENDING|2026-03-01T00:00:00|Unknown|Unknown|0|",
		"7|RUNNING|2026-03-01T00:00:00|2026-03-31T23:00:00|Unknown|3600|gres/gpu=2",
		header,
		"7|COMPLETED|2026-03-01T00:00:00|2026-03-31T23:00:00|2026-04-01T01:00:00|7200|gres/gpu=2",
		"7|RUNNING|2026-03-01T00:00:00|2026-03-31T23:00:00|Unknown|3600|gres/gpu=2",
		"7|TIMEOUT|2026-03-01T00:00:00|2026-03-31T23:00:00|2026-04-01T01:00:00|7200|gres/gpu=2",
	)
	same(t, "entry", got, trace.Entry{ID: "7", Duration: 7200, GPUs: 2, State: "TIMEOUT"})
}

func TestRunsOfARestartedJobAreAddedUpInTheOrderOfTime(t *testing.T) {
	for name, records := range map[string][]string{
		"by submission": {"7|B|2026-03-01T09:00:00|2026-03-01T09:00:05|60|gres/gpu=2|",
			"7|A|2026-03-01T08:00:00|2026-03-01T08:00:05|600|gres/gpu=1|"},
		"by start": {"7|B|2026-03-01T08:00:00|2026-03-01T09:00:05|60|gres/gpu=2|",
			"7|A|2026-03-01T08:00:00|2026-03-01T08:00:05|600|gres/gpu=1|"},
		"without start": {"7|B|2026-03-01T09:00:00||60|gres/gpu=2|", "7|A|2026-03-01T08:00:00||600|gres/gpu=1|"},
		"and waits again": {
			"7|A|2026-03-01T08:00:00|2026-03-01T08:00:05|660|gres/gpu=2|",
			"7|B|2026-03-01T09:00:00|Unknown|0||gres/gpu=4",
		},
	} {
		got := accounted(t, "JobID|State|Submit|Start|ElapsedRaw|AllocTRES|ReqTRES", records...)
		same(t, name, got, trace.Entry{ID: "7", Duration: 660, GPUs: 2, State: "B"})
	}
}

func TestARunningJobIsToldByItsEndOrItsState(t *testing.T) {
	for header, record := range map[string]string{
		"JobID|Submit|State|ElapsedRaw|AllocTRES":     "7|2026-03-01T08:00:00|RUNNING|60|gres/gpu=1",
		"JobID|Submit|Start|End|ElapsedRaw|AllocTRES": "7|2026-03-01T08:00:00|2026-03-01T08:00:00|Unknown|60|gres/gpu=1",
	} {
		got := read(t, header+"\n"+record+"\n")
		same(t, header, got.Adjusted, []trace.Adjusted{{How: "still running, counted for as long as it had run",
			Count: 1}})
	}
}

func TestSecondsOfAccountingAreUnixs(t *testing.T) {
	got := read(t, "JobID|Submit|ElapsedRaw|AllocTRES\n1|1772352000|60|gres/gpu=1\n")
	same(t, "begin", got.Begin, time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC))
}

func TestJobsOfTwoClustersWithOneIDAreTwo(t *testing.T) {
	got := read(t,
		"Cluster|JobID|Submit|ElapsedRaw|AllocTRES\neast|7|2026-03-01T08:00:00|60|gres/gpu=1\nwest|7|2026-03-01T08:00:00|60|gres/gpu=1\n")
	if len(got.Entries) != 2 || got.Entries[0].ID != "east:7" || got.Entries[1].ID != "west:7" {
		t.Errorf("%+v", got.Entries)
	}
}

func TestARestartedComponentOfAHeterogeneousJobIsNoComponentMore(t *testing.T) {
	got := accounted(t, "JobID|Submit|Start|ElapsedRaw|AllocTRES",
		"7+1|2026-03-01T08:00:00|2026-03-01T08:00:10|50|gres/gpu=2",
		"7+0|2026-03-01T08:00:00|2026-03-01T08:00:10|60|",
		"7+1|2026-03-01T09:00:00|2026-03-01T09:00:10|500|gres/gpu=4",
		"7+0|2026-03-01T09:00:00|2026-03-01T09:00:10|600|",
	)
	same(t, "entry", got, trace.Entry{ID: "7", Duration: 660, GPUs: 4})
}

func TestWhyAccountedJobsAreLeftOut(t *testing.T) {
	const header = "JobID|State|Submit|Start|End|Elapsed|AllocTRES|ReqTRES\n1|COMPLETED|2026-03-01T08:00:00|2026-03-01T08:00:00|2026-03-01T09:00:00|01:00:00|gres/gpu=1|\n"
	for record, want := range map[string]string{
		"2_[1-9%2]|PENDING|2026-03-01T08:00:00|Unknown|Unknown|00:00:00||gres/gpu=1":                                         "never started",
		"2_[1-9,...|PENDING|2026-03-01T08:00:00|Unknown|Unknown|00:00:00||gres/gpu=1":                                        "never started",
		"2|CANCELLED by 7|2026-03-01T08:00:00|None|2026-03-01T09:00:00|00:00:00||gres/gpu=1":                                 "never started",
		"2|RUNNING|2026-03-01T08:00:00|2026-03-01T08:00:00|Unknown|INVALID|gres/gpu=1|":                                      "no telling how long it ran",
		"2|FAILED|2026-03-01T08:00:00|2026-03-01T08:00:00|2026-03-01T08:00:00|00:00|gres/gpu=1|":                             "ran for no time at all",
		"2|FAILED|2026-03-01T08:00:00|2026-03-01T08:00:00|2026-03-01T09:00:00|01:00:00|gres/gpu:a=600000,gres/gpu:b=600000|": "more GPUs than there are",
		"2|FAILED|2026-03-01T08:00:00|2026-03-01T08:00:00|2026-03-01T09:00:00|01:00:00|cpu=1,gres/gpu=0|cpu=1":               "no GPU",
	} {
		got := read(t, header+record+"\n")
		same(t, record, got.Dropped, []trace.Dropped{{Why: want, Count: 1}})
	}
}

func TestTimesWithAZoneAreMoments(t *testing.T) {
	got := read(t,
		"JobID|Submit|ElapsedRaw|AllocTRES\n1|2026-03-29T03:30:00+02:00|60|gres/gpu=1\n2|2026-03-29T01:30:00+01:00|60|gres/gpu=1\n3|2026-03-29T00:30:00Z|60|gres/gpu=1\n")
	if got.Entries[1].Submitted != 0 || got.Entries[2].Submitted != 3600 {
		t.Errorf("%+v", got.Entries)
	}
	if want := time.Date(2026, 3, 29, 0, 30, 0, 0, time.UTC); !got.Begin.Equal(want) || got.Begin.Hour() != 2 {
		t.Errorf("begins at %s, want %s in the zone of the first time", got.Begin, want)
	}
}
