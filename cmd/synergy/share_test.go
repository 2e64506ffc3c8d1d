package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/synergy-slurmd/synergy-slurmd/share/wire"
)

// The scripts have a broker's socket that answers, and one at which nobody does.
func TestSeveralJobsOnOneGPU(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/share", Setup: func(e *testscript.Env) error {
		return tellStatus(e, filepath.Join(e.WorkDir, "broker.sock"))
	}})
}

// tellStatus answers as a node's broker does, with one client whose words are hostile.
func tellStatus(e *testscript.Env, path string) error {
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	status := wire.Status{V: 1, Release: "1.2", Up: 7265, Policy: "strict",
		Refused:     map[string]int{"mem-cap": 2, "busy": 0},
		StillFrozen: []wire.Stuck{{Job: 19, Since: 75, Tries: 9, Error: "thaw job 19: no\x1b"}},
		StampErrors: 2, LastStampError: &wire.Unstamped{Job: 20, Since: 75, Error: "stamp a job: no\x1b"},
		GPUs: []wire.GPU{
			{GPU: 0, Mode: "turns", MemoryBooked: 9216, Freezes: 1, Clients: []wire.Client{
				{ID: 1, Job: 17, PID: 4711, Class: "high", State: wire.Holding, Since: .0123, Turns: 9, Used: 75,
					Memory: 3072, MemoryCap: 4096},
				{ID: 3, Job: 20, Class: "low", Kind: wire.Silent, State: wire.Frozen},
				{ID: 2, Job: 18, PID: 4712, Class: "low\x1b[2J", State: wire.Waiting, Since: 2, Turns: 3, Used: .5,
					MemoryCap: 5120},
			}, Classes: map[string]wire.Had{"low": {Turns: 3, Held: .5, WaitP50: .02, WaitP95: 1.5},
				"high": {Turns: 9, Held: 75, WaitP50: .0001, WaitP95: .0004, Overrun: 1}}},
			{GPU: 1, Mode: "turns", WhyTurns: "its daemon does\x1b not answer"},
		}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		if err := json.NewEncoder(w).Encode(status); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	})
	server := &http.Server{Handler: mux}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	e.Defer(func() { server.Close(); <-ended })
	return nil
}
