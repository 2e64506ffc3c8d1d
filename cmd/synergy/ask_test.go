package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/plugin"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// TestTheDaemonIsAsked runs the daemon itself on a Slurm in memory, and asks it as people do.
func TestTheDaemonIsAsked(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the daemon")
	}
	programs := t.TempDir()
	daemon := filepath.Join(programs, "synergy-slurmd")
	if out, err := exec.Command("go", "build", "-o", daemon, "../synergy-slurmd").CombinedOutput(); err != nil {
		t.Fatalf("build the daemon: %v\n%s", err, out)
	}
	profiles, err := filepath.Abs("../../etc/profiles")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{Dir: "testdata/ask", Setup: func(e *testscript.Env) error {
		e.Setenv("PLUGINS", filepath.SplitList(e.Getenv("PATH"))[0])
		e.Setenv("PATH", programs+string(os.PathListSeparator)+e.Getenv("PATH"))
		e.Setenv("PROFILES", profiles)
		e.Setenv("TZ", "UTC")
		return nil
	}})
}

// slurmInMemory is a Slurm with three nodes under the wall clock, for a daemon to drive: two jobs run, and the others
// wait each for something else.
func slurmInMemory() {
	plugin.Serve(func(context.Context, plugin.Configuration) (plugin.Driven, error) {
		clock := slurmtest.NewClock(time.Now().Truncate(time.Second))
		nodes := slurmtest.Rack(3, gres.Vector{GPUs: 8, CPUs: 24, Memory: 500000}, "gpu")
		nodes[2].Closed = "DRAIN"
		manager := slurmtest.New(clock, slurmtest.Options{Nodes: nodes})
		for _, spec := range []slurmtest.Spec{
			{Name: "vision", User: "alice", Comment: "synergy-profile=res18.json synergy-checkpoint=USR1@60",
				Request: slurm.Request{GPUs: 8}},
			{Name: "speech", User: "bob", Comment: "synergy-profile=deepspeech.json", Request: slurm.Request{GPUs: 5}},
			{Name: "large", User: "carol", Comment: "synergy-profile=res50.json", Request: slurm.Request{GPUs: 8}},
			{Name: "held", User: "dave", Comment: "synergy-profile=lstm.json", Held: true,
				Request: slurm.Request{GPUs: 1}},
			{Name: "\x1b[2J\u202eevil\n", User: "mallory", Comment: "synergy-profile=none.json",
				Request: slurm.Request{GPUs: 4}},
			{Name: "alone", User: "erin", Comment: "synergy-profile=lstm.json", Shape: "exclusive",
				Request: slurm.Request{GPUs: 1}},
			{Name: "slurm", User: "frank", Request: slurm.Request{GPUs: 1}, Begin: clock.Now().Add(time.Hour)},
		} {
			if spec.Comment != "" {
				spec.Lease = time.Hour
			}
			if _, err := manager.Submit(spec); err != nil {
				return plugin.Driven{}, err
			}
		}
		go func() {
			for {
				const tick = 20 * time.Millisecond
				time.Sleep(tick)
				clock.Advance(tick)
			}
		}()
		return plugin.Driven{Slurm: manager, Tickets: manager.Tickets(), Version: "in memory"}, nil
	})
}
