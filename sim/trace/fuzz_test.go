package trace_test

import (
	"bytes"
	"cmp"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
)

func FuzzRecorded(f *testing.F)  { fuzz(f, trace.Recorded, "recorded.csv") }
func FuzzPhilly(f *testing.F)    { fuzz(f, trace.Philly, "philly.json") }
func FuzzCondensed(f *testing.F) { fuzz(f, trace.Condensed, "condensed.csv") }
func FuzzOpenb(f *testing.F)     { fuzz(f, trace.Openb, "openb.csv") }
func FuzzSacct(f *testing.F)     { fuzz(f, trace.Sacct, "sacct.txt") }

// FuzzAnything leaves it to the reader to tell the format.
func FuzzAnything(f *testing.F) {
	fuzz(f, "", "recorded.csv", "philly.json", "condensed.csv", "openb.csv", "sacct.txt")
}

func fuzz(f *testing.F, format trace.Format, names ...string) {
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	for _, r := range refused {
		if len(r.text) < 500 {
			f.Add([]byte(r.text))
		}
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
		t.Fatalf("%d jobs and %d entries became %d and %d in\n%s", len(got.Jobs), len(got.Entries), len(second.Jobs), len(second.Entries), text)
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
