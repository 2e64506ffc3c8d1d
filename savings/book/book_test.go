package book_test

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/savings"
	"github.com/synergy-slurmd/synergy-slurmd/savings/book"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// at is a round so many minutes after noon, of one job that is twice as fast.
func at(minutes int) savings.Round {
	return savings.Round{At: noon.Add(time.Duration(minutes) * time.Minute), Shadow: true, GPUs: 8, Jobs: []savings.Job{
		{ID: 7, GPUs: 4, Started: noon, Known: true, Asked: 1, With: 2}}}
}

func open(t *testing.T, dir string) *book.Book {
	t.Helper()
	b, err := book.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func note(t *testing.T, b *book.Book, rounds ...savings.Round) {
	t.Helper()
	for _, r := range rounds {
		if _, err := b.Note(r, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
}

func read(t *testing.T, dir string, since time.Time) (sum savings.Sums, lines, skipped int) {
	t.Helper()
	all, skipped, err := book.Read(dir, since, noon.Add(1000*24*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range all {
		sum = sum.Plus(l.Sums)
	}
	return sum, len(all), skipped
}

func TestARestartForgetsNoRunAndClaimsNoTimeTwice(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made")
	note(t, open(t, dir), at(0), at(30))
	end := at(90)
	end.Jobs = nil
	note(t, open(t, dir), at(60), end)
	sum, _, skipped := read(t, dir, noon)
	if sum.Seconds != 90*60 || sum.Held != 4*3600 || sum.Saved != 2*3600 ||
		sum.Sooner != 1 || sum.Earlier != 1800 || skipped != 0 {
		t.Errorf("%+v, %d skipped: want 90 minutes, an hour of 4 GPUs, half of it saved", sum, skipped)
	}
}

func TestRoundsOfSecondsShareALine(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir)
	for s := range 181 {
		r := at(0)
		r.At = noon.Add(time.Duration(s) * time.Second)
		note(t, b, r)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if sum, lines, _ := read(t, dir, noon); lines > 4 || sum.Seconds != 180 {
		t.Errorf("%d lines for %v seconds, want at most 4 for 180", lines, sum.Seconds)
	}
}

func TestShadowAndRealAreNeverOneLine(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir)
	real := at(0)
	real.Shadow, real.At = false, noon.Add(20*time.Second)
	later := real
	later.At = noon.Add(2 * time.Minute)
	first := at(0)
	first.At = noon.Add(10 * time.Second)
	note(t, b, at(0), first, real, later)
	lines, _, err := book.Read(dir, noon.Add(-time.Hour), noon.Add(time.Hour))
	if err != nil || len(lines) != 2 || !lines[0].Shadow ||
		lines[0].Seconds != 10 || lines[1].Shadow || lines[1].Seconds != 110 {
		t.Errorf("%+v, %v, want 10 s in the shadow and 110 s not", lines, err)
	}
}

func TestHalfALineCostsThatLineAlone(t *testing.T) {
	dir := t.TempDir()
	note(t, open(t, dir), at(0), at(10))
	path := filepath.Join(dir, "2026-01-01.jsonl")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text[:len(text)-9], 0o644); err != nil {
		t.Fatal(err)
	}
	note(t, open(t, dir), at(20))
	if sum, _, skipped := read(t, dir, noon); skipped != 1 || sum.Seconds != 600 {
		t.Errorf("%d skipped and %v seconds, want the torn line and the ten minutes after it", skipped, sum.Seconds)
	}
}

func TestALineThatClaimsMoreThanWasThereIsSkipped(t *testing.T) {
	dir := t.TempDir()
	lie := `{"at":"2026-01-01T13:00:00Z","seconds":3600,"there":100,"held":100,"known":100,"saved":1e9}`
	if err := os.WriteFile(filepath.Join(dir, "2026-01-01.jsonl"), []byte(lie+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, lines, skipped := read(t, dir, noon); lines != 0 || skipped != 1 {
		t.Errorf("%d lines and %d skipped, want the one skipped", lines, skipped)
	}
}

// TestRestartsMakeNoDifferenceToTheSumsAndCrashesOnlyLessOfThem: whoever opens the ledger anew goes on with it; one
// that dies without a word loses what was not written, a minute at most, and books nothing twice.
func TestRestartsMakeNoDifferenceToTheSumsAndCrashesOnlyLessOfThem(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		once, often := t.TempDir(), t.TempDir()
		straight, b := open(t, once), open(t, often)
		crashed, seconds := false, 0
		last := rapid.IntRange(0, 11).Draw(r, "rounds")
		for k := range last + 1 {
			seconds += rapid.IntRange(1, 100).Draw(r, "seconds")
			round := at(0)
			round.At = noon.Add(time.Duration(seconds) * time.Second)
			if k == last {
				round.Jobs = nil
			}
			note(t, straight, round)
			note(t, b, round)
			switch rapid.SampledFrom([]string{"go on", "restart", "crash"}).Draw(r, "then") {
			case "restart":
				if err := b.Close(); err != nil {
					r.Fatal(err)
				}
				b = open(t, often)
			case "crash":
				crashed, b = true, open(t, often)
			}
		}
		if err := errors.Join(straight.Close(), b.Close()); err != nil {
			r.Fatal(err)
		}
		whole, _, _ := read(t, once, noon.Add(-time.Hour))
		got, _, skipped := read(t, often, noon.Add(-time.Hour))
		if skipped != 0 || got.Seconds > whole.Seconds || got.Saved > whole.Saved+1e-6 || got.Ended > whole.Ended {
			r.Fatalf("%+v, want no more than %+v", got, whole)
		}
		if !crashed && (got.Seconds != whole.Seconds || math.Abs(got.Saved-whole.Saved) > 1e-6 ||
			got.Ended != whole.Ended) {
			r.Fatalf("%+v after restarts, want %+v", got, whole)
		}
	})
}

func TestOldDaysAreRemovedAndNobodyElsesFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"2024-11-01.jsonl", "2024-11-01.runs.jsonl", "2025-06-01.jsonl", "2024-11-01.txt",
		"2025-12-31.jsonl"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	note(t, open(t, dir), at(0), at(10))
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); got != "2024-11-01.txt 2025-06-01.jsonl 2025-12-31.jsonl "+
		"2026-01-01.jsonl state.json" {
		t.Errorf("left: %s", got)
	}
}

// TestAClockThatJumpsAheadRemovesNoDay: it may be wrong for a minute only, and what is removed is gone.
func TestAClockThatJumpsAheadRemovesNoDay(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir)
	note(t, b, at(0), at(10))
	for _, minutes := range []int{6_000_000, 6_000_010, 20, 30} { // eleven years ahead, and back
		note(t, b, at(minutes))
	}
	if sum, _, _ := read(t, dir, noon); sum.Seconds < 20*60 {
		t.Errorf("%v seconds are left of what was booked before, and after", sum.Seconds)
	}
}

// TestAFullDiskCostsNoMinute: what could not be written is written with the next minute.
func TestAFullDiskCostsNoMinute(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir)
	note(t, b, at(0), at(10))
	state := filepath.Join(dir, "state.json")
	kept, err := os.ReadFile(state)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(state), os.MkdirAll(filepath.Join(state, "in the way"), 0o755)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Note(at(20), time.Hour); err == nil {
		t.Fatal("it was written: the test shows nothing")
	}
	if err := errors.Join(os.RemoveAll(state), os.WriteFile(state, kept, 0o644)); err != nil {
		t.Fatal(err)
	}
	note(t, b, at(30))
	if sum, _, _ := read(t, dir, noon); sum.Seconds != 30*60 {
		t.Errorf("%v s, want 30 minutes", sum.Seconds)
	}
}

func TestADamagedStateIsRefusedByItsPath(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state.json")
	if err := os.WriteFile(path, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := book.Open(dir); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("%v, want an error that names %s", err, path)
	}
}

func TestARunThatEndedIsKeptWithItsSpeedForTheAccounting(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir)
	first := at(0)
	first.Jobs[0].Of = "x"
	first.Jobs = append(first.Jobs, savings.Job{ID: 8, GPUs: 1, Started: noon, Asked: 1, With: 1}) // no profile
	later := at(10)
	later.Jobs, later.Shadow = append(later.Jobs, savings.Job{ID: 9, GPUs: 1, Started: noon, Known: true, Asked: 1,
		With: 2, Of: "y"}), false
	later.Jobs = later.Jobs[1:]
	end := at(20)
	end.Jobs, end.Shadow = nil, false
	note(t, b, first, later, end)
	var got []book.Run
	skipped, err := book.ReadRuns(dir, noon, func(r book.Run) { got = append(got, r) })
	want := []book.Run{{Job: 7, Started: noon, Shadow: true, Speed: 1, Of: "x"},
		{Job: 9, Started: noon, Speed: 2, Of: "y"}}
	if err != nil || skipped != 0 || !slices.Equal(got, want) {
		t.Errorf("%+v, %d skipped, %v, want %+v", got, skipped, err, want)
	}
}

func TestARunThatEndedWhenTheClockWasSetBackIsKept(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir)
	runs, back := at(60), at(10)
	runs.Jobs[0].Of, back.Jobs = "x", nil
	note(t, b, runs, back)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	kept := 0
	if _, err := book.ReadRuns(dir, noon, func(book.Run) { kept++ }); err != nil || kept != 1 {
		t.Errorf("%d runs are kept, %v, want the one", kept, err)
	}
}

// TestOfOldLinesAllIsAtStake: they do not say in how much of what is known speeds were changed.
func TestOfOldLinesAllIsAtStake(t *testing.T) {
	dir := t.TempDir()
	lines := `{"at":"2026-01-01T13:00:00Z","seconds":3600,"there":100,"held":100,"known":90}
{"at":"2026-01-01T14:00:00Z","seconds":3600,"there":100,"held":100,"known":90,"changed":0}
{"at":"2026-01-01T15:00:00Z","seconds":60,"there":100,"held":100,"known":90,"changed":91}
`
	if err := os.WriteFile(filepath.Join(dir, "2026-01-01.jsonl"), []byte(lines), 0o644); err != nil {
		t.Fatal(err)
	}
	read, skipped, err := book.Read(dir, noon, noon.Add(4*time.Hour))
	if err != nil || skipped != 1 || len(read) != 2 || read[0].Changed != 90 || read[1].Changed != 0 {
		t.Errorf("%+v, %d skipped, %v, want 90, 0 and one that claims too much", read, skipped, err)
	}
}

func TestThePaceOfALedgerIsThatOfMostOfItsLines(t *testing.T) {
	lines := make([]book.Line, 5)
	for k, seconds := range []float64{600, 300, 299, 301, 20} {
		lines[k].Seconds = seconds
	}
	if pace := book.Pace(lines); pace != 5*time.Minute || book.Pace(nil) != 0 {
		t.Errorf("%s, want 5 minutes", pace)
	}
}

func FuzzReadRuns(f *testing.F) {
	f.Add([]byte(`{"job":7,"started":"2026-01-01T12:00:00Z","speed":1,"of":"x"}`))
	f.Add([]byte("{\n\n{\"job\":-1}\n"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(filepath.Join(dir, "2026-01-01.runs.jsonl"), text, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := book.ReadRuns(dir, noon, func(r book.Run) {
			if r.Job < 1 || !(r.Speed > 0) || r.Started.IsZero() {
				t.Errorf("%+v is handed out", r)
			}
		})
		if err != nil {
			t.Error(err)
		}
	})
}
