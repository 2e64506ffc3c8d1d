package ask

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/ledger"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/forecast"
	"github.com/synergy-slurmd/synergy-slurmd/policy/snapshot"
)

// round is what a daemon keeps of one.
func round() bridge.Report {
	c := policy.Cluster{Now: time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC), Jobs: []policy.Job{{ID: 17, GPUs: 8}},
		Nodes: []policy.Node{{Name: "n1", Total: gres.Vector{GPUs: 4, CPUs: 12, Memory: 250000}}}}
	return bridge.Report{Round: 3, Snapshot: c, Profiles: snapshot.ProfilesOf(&c), Policy: "las", Allocator: "greedy",
		Habits: forecast.Habits{0, 1}}
}

func TestThePresentStateIsReadFromALedgerOrADaemon(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	book, err := ledger.Open(path, ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := book.Settle(nil, round()); err != nil {
		t.Fatal(err)
	}
	book.Close()
	text, err := json.Marshal(round())
	if err != nil {
		t.Fatal(err)
	}
	serves := func(page string) string {
		mux := http.NewServeMux()
		mux.HandleFunc(page, func(w http.ResponseWriter, _ *http.Request) { w.Write(text) })
		server := httptest.NewServer(mux)
		t.Cleanup(server.Close)
		return server.URL
	}
	for what, from := range map[string]Source{"ledger": {Ledger: path}, "daemon": {Daemon: serves("/round")}} {
		p := Present{Source: from}
		is, err := p.read(context.Background(), nil, io.Discard)
		if err != nil || len(is.Cluster.Jobs) != 1 || is.Policy.Name != "las" || is.Allocator.Name != "greedy" ||
			len(is.Habits) != 2 {
			t.Errorf("%s: %+v, %v", what, is, err)
		}
	}
}

func TestADaemonThatIsDownAnswersNothingAndItsLedgerIsNamedAsTheRemedy(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	_, err := (&Present{Source: Source{Daemon: server.URL}}).read(context.Background(), nil, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "--ledger") {
		t.Errorf("%v", err)
	}
}

// TestWhomTheLastRoundStartedRunsNow: its snapshot is of before that, and in the shadow nothing was started.
func TestWhomTheLastRoundStartedRunsNow(t *testing.T) {
	grant := &policy.Placement{Nodes: []string{"n1"}, PerNode: gres.Vector{GPUs: 4, CPUs: 12, Memory: 250000}}
	report := round()
	report.Snapshot.Jobs = []policy.Job{{ID: 17, GPUs: 4}, {ID: 18, GPUs: 4}, {ID: 19, GPUs: 4}, {ID: 20, GPUs: 4}}
	report.Steps = []bridge.Step{{Job: 17, Verb: bridge.Start, Grant: grant},
		{Job: 18, Verb: bridge.Start, Grant: grant, Error: "slurmrestd: 503"},
		{Job: 19, Verb: bridge.Start, Grant: grant, PutOff: true}, {Job: 20, Verb: bridge.Arm, Grant: grant}}
	for want, shadow := range map[int]bool{1: false, 0: true} {
		report.Shadow = shadow
		text, err := json.Marshal(report)
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(text) }))
		defer server.Close()
		p := Present{Source: Source{Daemon: server.URL}}
		is, err := p.read(context.Background(), nil, io.Discard)
		if err != nil || is.Cluster.Jobs[0].Running != nil {
			t.Fatalf("%+v, %v", is, err)
		}
		runs := 0
		for _, j := range is.Started(p.started).Cluster.Jobs {
			if j.Running != nil {
				runs += j.ID - 16
			}
		}
		if runs != want || is.Cluster.Jobs[0].Running != nil {
			t.Errorf("shadow %v: %d, want job 17 alone where it was started", shadow, runs)
		}
	}
}
