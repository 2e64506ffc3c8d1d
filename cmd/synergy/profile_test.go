package main

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// The scripts have the profiles that are installed with the daemon, and the emulated job as a trainer.
func TestTheProfileCommand(t *testing.T) {
	profiles, err := filepath.Abs("../../etc/profiles")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", bin, "../synergy-emujob").CombinedOutput(); err != nil {
		t.Fatalf("build synergy-emujob: %v\n%s", err, out)
	}
	testscript.Run(t, testscript.Params{Dir: "testdata/profile", Setup: func(e *testscript.Env) error {
		e.Setenv("PROFILES", profiles)
		e.Setenv("PATH", bin+string(filepath.ListSeparator)+e.Getenv("PATH"))
		return nil
	}})
}
