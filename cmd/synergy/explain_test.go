package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/ledger"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// explained are two rounds: job 17 waits for good, and job 18 is one that users named as they liked.
func explained() []bridge.Report {
	noon := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	first := bridge.Report{
		Round: 41, Began: noon,
		Snapshot: policy.Cluster{Now: noon,
			Nodes: []policy.Node{{Name: "n1", Total: gres.Vector{GPUs: 8, CPUs: 24, Memory: 500_000}}},
			Jobs: []policy.Job{
				{ID: 17, Name: "vision", User: "alice", GPUs: 64, ProfileName: "res18.json", Attained: 7200},
				{ID: 18, Name: "\x1b[2J\nevil", User: "mallory", GPUs: 1},
			}},
		Plan: policy.Plan{Decisions: []policy.Decision{{Job: 17, Why: "no node has 64 GPUs"},
			{Job: 18, Why: "\x1b[2Jturn"}}},
		Waits: []bridge.Wait{
			{Job: 17, Reason: bridge.Misconfigured, Cause: bridge.CauseShape, Why: "no node has 64 GPUs", Place: 1},
			{Job: 18, Reason: bridge.ForRoom, Cause: bridge.CauseTurn, Why: "turn", Place: 9},
			{Job: 19, Reason: bridge.ForRoom, Cause: bridge.CauseTurn, Why: "turn", Place: 3},
			{Job: 20, Reason: bridge.ForRoom, Cause: bridge.CauseTurn, Why: "turn", Place: 2}},
	}
	second := first
	second.Round, second.Began = 42, first.Began.Add(5*time.Minute)
	second.Steps = []bridge.Step{{Job: 18, Verb: bridge.Start, Why: "its turn", Error: "slurmrestd: 503"}}
	return []bridge.Report{first, second}
}

// TestTheStoryOfAJob is told by a daemon, and by its ledger when it is down.
func TestTheStoryOfAJob(t *testing.T) {
	served := map[string]string{"/rounds": "[41,42,43]"}
	file := filepath.Join(t.TempDir(), "closed")
	closed, err := ledger.Open(file, ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, report := range explained() {
		served[fmt.Sprintf("/round/%d", report.Round)] = jsonOf(t, report)
		served["/round"] = jsonOf(t, report) // the last one stays
		if err := closed.Settle(nil, report); err != nil {
			t.Fatal(err)
		}
	}
	closed.Close()
	daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, known := served[r.URL.Path]
		if !known || r.Method != http.MethodGet {
			http.NotFound(w, r) // round 43 was overwritten
			return
		}
		fmt.Fprint(w, text)
	}))
	t.Cleanup(daemon.Close) // scripts run when this function has returned
	testscript.Run(t, testscript.Params{Dir: "testdata/explain", Setup: func(e *testscript.Env) error {
		e.Setenv("DAEMON", daemon.URL)
		e.Setenv("LEDGER", file)
		e.Setenv("TZ", "UTC")
		return nil
	}})
}

func jsonOf(t *testing.T, report bridge.Report) string {
	t.Helper()
	text, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
