package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/synergy-slurmd/synergy-slurmd/launcher"
	"github.com/synergy-slurmd/synergy-slurmd/profiling/inside"
)

func TestMain(m *testing.M) {
	launcher.Exec() // synergy run is this program once more
	inside.Exec()   // and so is what gives cores back
	testscript.Main(m, map[string]func(){"synergy": main, "plugin-good": goodPlugin, "plugin-greedy": greedyPlugin,
		"plugin-late": latePlugin, "slurm-in-memory": slurmInMemory})
}

// The scripts are what a person at a terminal meets: command lines, exit codes, messages, tables and files.
func TestSimulationsOnTheCommandLine(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/sim"})
}

func TestARunOfATrainer(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/run"})
}
