package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/history"
	"github.com/synergy-slurmd/synergy-slurmd/ledger"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// remembering is a historian that works, and the log that it writes.
func remembering(t *testing.T) (*historyWriter, *bytes.Buffer, func()) {
	t.Helper()
	text := &bytes.Buffer{}
	h := newHistoryWriter(zerolog.New(text))
	return h, text, h.work()
}

// historic is a round in which job 17 of alice runs.
func historic(round int) bridge.Report {
	at := time.Now().Add(time.Duration(round) * time.Second).UTC().Truncate(time.Second)
	runs := policy.Placement{Nodes: []string{"n1"}, PerNode: gres.Vector{GPUs: 1, CPUs: 3, Memory: 1000}}
	node := policy.Node{Name: "n1", Total: gres.Vector{GPUs: 8, CPUs: 24, Memory: 8000}}
	c := policy.Cluster{Now: at, Nodes: []policy.Node{node},
		Jobs: []policy.Job{{ID: 17, Name: "vision", User: "alice", GPUs: 1, Tasks: 1, Running: &runs,
			Started: at.Add(-time.Duration(round) * time.Second)}}}
	return bridge.Report{Round: round, Began: at, Phases: []bridge.Phase{{Name: "diff"}}, Policy: "fifo",
		Allocator: "tune", Snapshot: c, Plan: policy.Decide(c, policy.FIFO(), policy.Tune())}
}

func kept(dir string) Config {
	return Config{History: historyConfig{Path: dir, Keep: day, MostGiB: 1}}
}

func TestWhatWaitsToBeBookedIsInTheHistoryWhenTheDaemonHasStopped(t *testing.T) {
	dir := t.TempDir()
	h, text, stop := remembering(t)
	for round := 1; round <= 5; round++ {
		h.note(kept(dir), historic(round))
	}
	failed := historic(6)
	failed.Phases = nil // it came to no plan
	h.note(kept(dir), failed)
	stop()
	r, err := history.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	for round, want := range map[int]bool{1: true, 5: true, 6: false} {
		if _, err := r.Round(round); (err == nil) != want {
			t.Errorf("round %d: %v, want it: %v", round, err, want)
		}
	}
	if text.Len() > 0 {
		t.Error(text.String())
	}
}

func TestAHistoryThatCannotBeWrittenIsToldOnceAndAgainWhenItCan(t *testing.T) {
	var text bytes.Buffer
	h := newHistoryWriter(zerolog.New(&text))
	dir := filepath.Join(t.TempDir(), "history")
	if err := os.WriteFile(dir, nil, 0o600); err != nil { // no folder
		t.Fatal(err)
	}
	for round := 1; round <= 3; round++ {
		h.book(queuedReport{kept(dir).History, historic(round)})
	}
	if n := strings.Count(text.String(), "rounds are not booked in the history"); n != 1 ||
		!strings.Contains(text.String(), "the daemon's to write") {
		t.Errorf("told %d times, want once, with the remedy:\n%s", n, text.String())
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	h.book(queuedReport{kept(dir).History, historic(4)})
	h.close()
	if !strings.Contains(text.String(), "rounds are booked in the history again") {
		t.Errorf("nobody told that it works:\n%s", text.String())
	}
}

func TestNoRoundWaitsForADiskThatHangs(t *testing.T) {
	var text bytes.Buffer
	h := newHistoryWriter(zerolog.New(&text)) // nobody books
	for round := 1; round <= 3*mostBehind; round++ {
		h.note(kept(t.TempDir()), historic(round))
	}
	if n := strings.Count(text.String(), "its disk is too slow"); n != 1 {
		t.Errorf("told %d times, want once:\n%s", n, text.String())
	}
}

func TestThePagesAnswerFromTheHistoryWhatTheLedgerHasForgotten(t *testing.T) {
	h, _, stop := remembering(t)
	book := &ledger.Memory{Keep: 1}
	for round := 1; round <= 5; round++ {
		r := historic(round)
		h.book(queuedReport{kept(t.TempDir()).History, r}) // as if another folder were named
		if err := book.Settle(nil, r); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	for round := 1; round <= 5; round++ {
		h.book(queuedReport{kept(dir).History, historic(round)})
	}
	all := pages(newHealth(fiveMinutes, time.Now()), testMetrics().registry, archiveWithHistory{book, h})
	for path, want := range map[string]string{
		"/story/17":                           `"user":"alice"`,
		"/story/0":                            "400 want the number of a job",
		"/jobs/17":                            "round 1: runs since",
		"/history":                            `"held":{"nodes":["n1"]`,
		"/history?user=bob":                   `{"runs":[]}`,
		"/history?since=yesterday":            `400 since="yesterday": want a time as 2026`,
		"/history?job=x":                      "400 job=",
		"/history?until=2020-01-01T00:00:00Z": `{"runs":[]}`,
		"/replay/1":                           `"version":"` + programVersion(),
		"/replay/9":                           "404 round 9: no such round is kept",
		"/replay/x":                           "400 want the number of a round",
	} {
		answer := httptest.NewRecorder()
		all.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		text := answer.Body.String()
		if answer.Code != http.StatusOK {
			text = strconv.Itoa(answer.Code) + " " + text
		}
		if !strings.Contains(text, want) {
			t.Errorf("%s: %s, want %s", path, text, want)
		}
	}
	stop()
	none := pages(newHealth(fiveMinutes, time.Now()), testMetrics().registry, book)
	for path, want := range map[string]string{"/story/17": `"round":5`, "/history": "history.path",
		"/replay/5": `"profiles":null`} {
		answer := httptest.NewRecorder()
		none.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		if !strings.Contains(answer.Body.String(), want) {
			t.Errorf("without a history, %s: %s, want %s", path, answer.Body.String(), want)
		}
	}
}
