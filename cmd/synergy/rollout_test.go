package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// canaryRounds are a dozen rounds of a canary, with one job that ended in each.
func canaryRounds(t *testing.T) map[string]string {
	t.Helper()
	served := map[string]string{}
	numbers := ""
	for n := 1; n <= 12; n++ {
		r := bridge.Report{Round: n, Canary: bridge.Canary{Accounts: []string{"vision"}},
			Phases:   []bridge.Phase{{Name: "observe", Took: time.Second}},
			Snapshot: policy.Cluster{Rules: policy.Rules{Round: 5 * time.Minute}},
			Ended:    []bridge.Ended{{Job: n}},
			Waits: []bridge.Wait{{Job: 40, Reason: bridge.ForRoom}, {Job: 41, Reason: bridge.ForRoom},
				{Job: 42, Reason: bridge.Unplanned}}}
		served[fmt.Sprintf("/round/%d", n)] = jsonOf(t, r)
		served["/round"] = jsonOf(t, r)
		numbers += fmt.Sprintf(",%d", n)
	}
	served["/rounds"] = "[" + numbers[1:] + "]"
	return served
}

// TestARolloutFromTheCommandLine has a daemon that says what the script's file about says, and nothing while there is
// one that is called halted.
func TestARolloutFromTheCommandLine(t *testing.T) {
	served := canaryRounds(t)
	testscript.Run(t, testscript.Params{Dir: "testdata/rollout", Setup: func(e *testscript.Env) error {
		at := func(name string) string { return filepath.Join(e.WorkDir, name) }
		daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := os.Stat(at("halted")); err == nil {
				http.Error(w, "halted", http.StatusServiceUnavailable)
				return
			}
			if r.URL.Path == "/status" {
				http.ServeFile(w, r, at("about"))
				return
			}
			fmt.Fprint(w, served[r.URL.Path])
		}))
		e.Defer(daemon.Close)
		e.Setenv("DAEMON", daemon.URL)
		e.Setenv("PATH", at("bin")+":"+os.Getenv("PATH"))
		e.Setenv("TZ", "UTC")
		return nil
	}})
}

// TestADaemonThatWasJustStartedIsWaitedForUntilItLeads: a proof may follow a restart at once.
func TestADaemonThatWasJustStartedIsWaitedForUntilItLeads(t *testing.T) {
	asked := 0
	daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		fmt.Fprintf(w, `{"healthy": true, "behind": %t}`, asked < 2)
	}))
	defer daemon.Close()
	at, err := (&source{daemon: daemon.URL}).remote()
	if err != nil {
		t.Fatal(err)
	}
	if got := at.settled(t.Context()); got.Why != "" || got.Value.Behind || asked != 2 {
		t.Errorf("after %d questions: %+v", asked, got)
	}
}
