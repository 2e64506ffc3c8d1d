package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"synergy": main, "plugin-good": goodPlugin, "plugin-greedy": greedyPlugin, "plugin-late": latePlugin})
}

// The scripts are what a person at a terminal meets: command lines, exit codes, messages, tables and files.
func TestTheCommandLine(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/sim"})
}
