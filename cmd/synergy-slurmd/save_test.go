package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/savings"
	"github.com/synergy-slurmd/synergy-slurmd/savings/book"
)

// booking is a round so many minutes after noon that has something to book.
func booking(minutes int) bridge.Report {
	at := time.Date(2026, 1, 1, 12, minutes, 0, 0, time.UTC)
	return bridge.Report{Savings: &savings.Round{At: at, Shadow: true, GPUs: 8, Jobs: []savings.Job{
		{ID: 1, GPUs: 8, Started: at.Add(-time.Hour), Known: true, Asked: 1, With: 2}}}}
}

func TestEachGoodRoundIsBookedInTheFolderThatTheConfigurationNames(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	a := &savingsWriter{log: zerolog.Nop()}
	for minute, dir := range []string{first, first, first, second, second} {
		a.note(Config{Savings: dir}, time.Minute, booking(minute))
	}
	a.close()
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for dir, want := range map[string]float64{first: 120, second: 60} {
		lines, _, err := book.Read(dir, noon, noon.Add(time.Hour))
		seconds := 0.
		for _, l := range lines {
			seconds += l.Seconds
		}
		if err != nil || seconds != want {
			t.Errorf("%v seconds, %v, want %v", seconds, err, want)
		}
	}
}

func TestALedgerOfSavingsThatCannotBeWrittenIsToldOnceAndAgainWhenItCan(t *testing.T) {
	var text bytes.Buffer
	a := &savingsWriter{log: zerolog.New(&text)}
	dir := filepath.Join(t.TempDir(), "savings")
	if err := os.WriteFile(dir, nil, 0o600); err != nil { // no folder
		t.Fatal(err)
	}
	for minute := range 3 {
		a.note(Config{Savings: dir}, time.Minute, booking(minute))
	}
	if n := strings.Count(text.String(), "rounds are not booked"); n != 1 {
		t.Errorf("told %d times, want once:\n%s", n, text.String())
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	a.note(Config{Savings: dir}, time.Minute, booking(4))
	if !strings.Contains(text.String(), "booked in the ledger of savings again") {
		t.Errorf("nobody said that it is well again:\n%s", text.String())
	}
}

// TestWhatIsBookedShowsInTheMetricsAndACounterNeverFalls: a round saves half of 8 GPUs' minute, and the next one, whose
// job is slower than it asked for, loses as much.
func TestWhatIsBookedShowsInTheMetricsAndACounterNeverFalls(t *testing.T) {
	m := testMetrics()
	a := &savingsWriter{log: zerolog.Nop(), metrics: m}
	config := Config{Savings: t.TempDir()}
	slow := booking(2)
	slow.Savings.Jobs[0].With, slow.Savings.Idle.Cores = 2./3, 3
	for _, report := range []bridge.Report{booking(0), booking(1), slow} {
		a.note(config, time.Minute, report)
	}
	a.note(Config{Savings: filepath.Join("/dev/null", "no")}, time.Minute, booking(3))
	wantMetrics(t, m, `
# HELP synergy_savings_failed 1 while rounds cannot be booked in the ledger of savings.
# TYPE synergy_savings_failed gauge
synergy_savings_failed 1
# HELP synergy_savings_idle_gpu_seconds_total GPU-seconds that idled though somebody waited, by what he lacked.
# TYPE synergy_savings_idle_gpu_seconds_total counter
synergy_savings_idle_gpu_seconds_total{lacking="cores"} 180
synergy_savings_idle_gpu_seconds_total{lacking="memory"} 0
synergy_savings_idle_gpu_seconds_total{lacking="order"} 0
synergy_savings_idle_gpu_seconds_total{lacking="split"} 0
# HELP synergy_savings_overspent_gpu_seconds_total GPU-seconds of rounds that saved less than nothing, likewise.
# TYPE synergy_savings_overspent_gpu_seconds_total counter
synergy_savings_overspent_gpu_seconds_total{checkpoints="all"} 0
synergy_savings_overspent_gpu_seconds_total{checkpoints="declared"} 240
synergy_savings_overspent_gpu_seconds_total{checkpoints="none"} 0
# HELP synergy_savings_saved_gpu_seconds_total GPU-seconds booked as saved, by who is taken to have a checkpoint.
# TYPE synergy_savings_saved_gpu_seconds_total counter
synergy_savings_saved_gpu_seconds_total{checkpoints="all"} 0
synergy_savings_saved_gpu_seconds_total{checkpoints="declared"} 240
synergy_savings_saved_gpu_seconds_total{checkpoints="none"} 0
`, "synergy_savings_failed", "synergy_savings_idle_gpu_seconds_total", "synergy_savings_overspent_gpu_seconds_total",
		"synergy_savings_saved_gpu_seconds_total")
}

// TestNoRoundWaitsForALedgerOfSavingsWhoseDiskHangs: what waits is bounded, the rest is left out, and that is told.
func TestNoRoundWaitsForALedgerOfSavingsWhoseDiskHangs(t *testing.T) {
	var text bytes.Buffer
	ill := 0
	a := &savingsWriter{log: zerolog.New(&text), queue: make(chan queuedRound, mostBehind), // and nobody books
		ill: func(error) { ill++ }}
	for minute := range 3 * mostBehind {
		a.note(Config{Savings: t.TempDir()}, time.Minute, booking(minute))
	}
	if n := strings.Count(text.String(), "its disk is too slow"); n != 1 || ill != 2*mostBehind {
		t.Errorf("told %d times and %d, want once in the log and each time on the page:\n%s", n, ill, &text)
	}
}

func TestWhatWaitsToBeBookedIsInTheLedgerOfSavingsWhenTheDaemonHasStopped(t *testing.T) {
	dir := t.TempDir()
	a := &savingsWriter{log: zerolog.Nop()}
	stop := a.work()
	for minute := range 5 {
		a.note(Config{Savings: dir}, time.Minute, booking(minute))
	}
	stop()
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	lines, _, err := book.Read(dir, noon, noon.Add(time.Hour))
	seconds := 0.
	for _, l := range lines {
		seconds += l.Seconds
	}
	if err != nil || seconds != 240 {
		t.Errorf("%v seconds, %v, want all four minutes", seconds, err)
	}
}
