package trace_test

import (
	"bytes"
	"cmp"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
)

// seeds are short, because the fuzzer spends its time on making long ones shorter.
const (
	recordedSeed  = "# cpus per gpu: 4\njob_id,model,arrival,iterations,gpus,user\n2,m,0.5,7,4,ann\n1,gnmt,0,9,1,\n"
	phillySeed    = `[{"jobid":"a","submitted_time":"2017-10-07 01:11:39","attempts":[{"start_time":"2017-10-07 01:13:30","end_time":"2017-10-07 03:13:30","detail":[{"gpus":["g"]}]}]}]`
	condensedSeed = condensedHeader + "2017-10-09 07:01:55,66.0,1,66.0,c\n2017-10-09 07:01:54,6.5,8,52.0,d\n"
	openbSeed     = openbHeader + "p,1,1000,Running,5,9,5\nq,1,50,Failed,4,9,5\nr,1,50,Pending,4,,\n"
	sacctSeed     = sacctHeader +
		"1_2|2026-03-01T08:00:00|2026-03-01T08:00:00|Unknown|1-01:00|gres/gpu=1\n3+1|2026-03-01T08:00:00|||1:00|gres/gpu:a=1\n3.0|||||\n"
)

func FuzzRecorded(f *testing.F)  { fuzz(f, trace.Recorded, recordedSeed) }
func FuzzPhilly(f *testing.F)    { fuzz(f, trace.Philly, phillySeed) }
func FuzzCondensed(f *testing.F) { fuzz(f, trace.Condensed, condensedSeed) }
func FuzzOpenb(f *testing.F)     { fuzz(f, trace.Openb, openbSeed) }
func FuzzSacct(f *testing.F)     { fuzz(f, trace.Sacct, sacctSeed) }

// FuzzOldSacct begins with a log of before Slurm 20.11.
func FuzzOldSacct(f *testing.F) {
	fuzz(f, trace.Sacct, "JobID|Submit|ElapsedRaw|AllocGRES|ReqGRES\n"+
		"7|2018-03-01T08:00:00|60|gpu:v100:2,gpu|gres:gpu:1\n")
}

// FuzzAnything leaves it to the reader to tell the format.
func FuzzAnything(f *testing.F) {
	for _, r := range refused {
		if len(r.text) < 200 {
			f.Add([]byte(r.text))
		}
	}
	fuzz(f, "", recordedSeed, phillySeed, condensedSeed, openbSeed, sacctSeed)
}

func fuzz(f *testing.F, format trace.Format, seeds ...string) {
	for _, text := range seeds {
		if _, err := trace.Read("a", strings.NewReader(text), format); err != nil {
			f.Fatal(err)
		}
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := trace.Read("a", bytes.NewReader(text), format)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "trace a: ") {
				t.Errorf("an error that does not name the file: %v", err)
			}
			return
		}
		sound(t, got)
		again(t, got)
		if got.Format == trace.Sacct {
			accountedAgain(t, got)
		}
	})
}

// sound holds what every trace promises, and that no figure of it is unsayable: JSON has no NaN.
func sound(t *testing.T, got *trace.Trace) {
	t.Helper()
	ids := map[string]bool{}
	for _, e := range got.Entries {
		if e.ID == "" || ids[e.ID] || e.GPUs < 1 || !(e.Duration > 0) || !(e.Submitted >= 0) {
			t.Fatalf("entry %+v", e)
		}
		ids[e.ID] = true
	}
	if !slices.IsSortedFunc(got.Entries, func(a, b trace.Entry) int { return cmp.Compare(a.Submitted, b.Submitted) }) ||
		!slices.IsSortedFunc(got.Jobs, func(a, b trace.Job) int { return cmp.Compare(a.Arrival, b.Arrival) }) {
		t.Fatal("not in order")
	}
	if len(got.Jobs)+len(got.Entries) == 0 {
		t.Fatal("empty")
	}
	s := trace.Inspect(got)
	if err := s.WriteJSON(io.Discard); err != nil {
		t.Fatal(err)
	}
	if err := s.WriteText(io.Discard); err != nil {
		t.Fatal(err)
	}
}

// accountedAgain holds that accounting reads the same after it was put together, and that it tells no nonsense.
func accountedAgain(t *testing.T, got *trace.Trace) {
	t.Helper()
	for _, e := range got.Entries {
		if e.Told == nil || !e.Told.Past.Known() {
			continue
		}
		p := e.Told.Past
		if p.Started < e.Submitted || p.Ended <= p.Started || p.Runs < 1 || !(p.Ran > 0) || !(p.Memory >= 0) {
			t.Fatalf("%s, submitted at %v: %+v", e.ID, e.Submitted, p)
		}
	}
	var b bytes.Buffer
	if err := trace.WriteSacct(&b, got); err != nil {
		if strings.Contains(err.Error(), "without |") {
			return // a name that a file can have that is separated otherwise
		}
		t.Fatal(err)
	}
	text := b.String()
	second, err := trace.Read("b", &b, trace.Sacct)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	var c bytes.Buffer
	if err := trace.WriteSacct(&c, second); err != nil || c.String() != text {
		t.Fatalf("%v: wrote first\n%s\nand then\n%s", err, text, c.String())
	}
}

// again holds that what was read can be written and read again, and is the same then.
func again(t *testing.T, got *trace.Trace) {
	t.Helper()
	var b bytes.Buffer
	var err error
	if len(got.Jobs) > 0 {
		err = trace.WriteRecorded(&b, got.Jobs)
	} else {
		err = trace.WriteCondensed(&b, got.Begin, got.Entries)
	}
	if err != nil {
		t.Fatal(err)
	}
	text := b.String()
	second, err := trace.Read("b", &b, "")
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if len(second.Entries) != len(got.Entries) || len(second.Jobs) != len(got.Jobs) {
		t.Fatalf("%d jobs and %d entries became %d and %d in\n%s", len(got.Jobs), len(got.Entries), len(second.Jobs),
			len(second.Entries), text)
	}
	var c bytes.Buffer
	if len(second.Jobs) > 0 {
		err = trace.WriteRecorded(&c, second.Jobs)
	} else {
		err = trace.WriteCondensed(&c, second.Begin, second.Entries)
	}
	if err != nil || c.String() != text {
		t.Fatalf("%v: wrote first\n%s\nand then\n%s", err, text, c.String())
	}
}
