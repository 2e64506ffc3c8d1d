package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/history"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// lastMonth are the rounds of a job that waits, is started by a small round, trains slower than its profile says, and
// is over the next day; beside one that waits, whose user writes what he likes.
func lastMonth() []bridge.Report {
	noon := time.Date(2026, 10, 23, 12, 0, 0, 0, time.UTC)
	job := policy.Job{ID: 17, Name: "vision", User: "alice", GPUs: 2, Tasks: 1, Arrival: noon,
		ProfileName: "res18.json"}
	evil := policy.Job{ID: 18, Name: "=\x1b[2J\nevil", User: "mallory", GPUs: 16, Tasks: 1, Arrival: noon}
	nodes := []policy.Node{{Name: "n1", Total: gres.Vector{GPUs: 8, CPUs: 24, Memory: 500_000}}}
	report := func(round int, after time.Duration, jobs ...policy.Job) bridge.Report {
		c := policy.Cluster{Now: noon.Add(after), Nodes: nodes, Jobs: jobs}
		return bridge.Report{Round: round, Began: c.Now, Policy: "fifo", Allocator: "tune", Snapshot: c,
			Plan: policy.Decide(c, policy.FIFO(), policy.Tune())}
	}
	barred := job
	barred.Barred = "it waits for job 16"
	first, small := report(41, 0, barred, evil), report(41, time.Minute, job, evil)
	grant := small.Plan.Decisions[0].Grant
	small.Small = true
	small.Steps = []bridge.Step{{Job: 17, Verb: bridge.Start, Grant: grant, Why: "its turn"}}
	job.Running, job.Started = grant, noon.Add(time.Minute)
	runs, over := report(42, 5*time.Minute, job, evil), report(43, 20*time.Hour, evil)
	runs.Speeds = []bridge.Speed{{Job: 17, Ran: 10, Claimed: 12.5}}
	over.Ended = []bridge.Ended{{Job: 17, End: slurm.End{State: "COMPLETED"}, Attained: 2 * 19 * 3600}}
	return []bridge.Report{first, small, runs, over}
}

// TestLastMonthIsTold by the folder of a daemon that is down, and by one that answers.
func TestLastMonthIsTold(t *testing.T) {
	dir := t.TempDir()
	store, err := history.Open(dir, history.Options{LeastFree: 1, Version: "0.2.9"})
	if err != nil {
		t.Fatal(err)
	}
	for _, report := range lastMonth() {
		if err := store.Note(&report); err != nil {
			t.Fatal(err)
		}
	}
	round, err := store.Reader().Round(42)
	if err != nil {
		t.Fatal(err)
	}
	store.Close()
	daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/replay/42":
			w.Write(round)
		case r.URL.Path == "/history" && r.URL.Query().Get("user") == "alice":
			w.Write([]byte(`{"runs":[{"job":17,"user":"alice\u001b[2J","began":"2026-10-23T12:01:00Z"}],"more":true}`))
		case r.URL.Path == "/history":
			http.Error(w, "no history is kept\x1b[2J", http.StatusNotFound)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(daemon.Close)
	other := filepath.Join(t.TempDir(), "other.json") // as another version would have planned it
	changed := strings.Replace(string(round), `"gain":1,`, `"gain":1.25,`, 1)
	if changed == string(round) {
		t.Fatalf("nothing to change in %s", round)
	}
	if err := os.WriteFile(other, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{Dir: "testdata/history", Setup: func(e *testscript.Env) error {
		e.Setenv("DAEMON", daemon.URL)
		e.Setenv("HISTORY", dir)
		e.Setenv("OTHER", other)
		e.Setenv("TZ", "UTC")
		return nil
	}})
}
