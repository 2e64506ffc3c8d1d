package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"deft": main})
}

// The scripts have the emulated job and the tool that reads its profile, and the experiment and the command of
// README.md.
func TestDeftsExperimentsOnTheCommandLine(t *testing.T) {
	pair, err := os.ReadFile("pair.json")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, own, _ := strings.Cut(string(page), "```python\nimport os, sys, time\n")
	own, _, found := strings.Cut("import os, sys, time\n"+own, "```")
	if !found {
		t.Error("the page has no example of a command")
	}
	bin := t.TempDir()
	build := exec.Command("go", "build", "-o", bin+"/", "../../cmd/synergy-emujob", "../../cmd/synergy")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	testscript.Run(t, testscript.Params{Dir: "testdata", Setup: func(e *testscript.Env) error {
		e.Setenv("DEFT", filepath.SplitList(e.Getenv("PATH"))[0])
		e.Setenv("PATH", bin+string(filepath.ListSeparator)+e.Getenv("PATH"))
		if err := os.WriteFile(filepath.Join(e.WorkDir, "pair.json"), pair, 0o644); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(e.WorkDir, "own.py"), []byte(own), 0o644)
	}})
}

// The figures of README.md are of no machine, so they are the same on each.
func TestThePageHasTheFiguresThatArePrinted(t *testing.T) {
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	args := []string{"run", "-f", "pair.json", "--duration", "20m", "--no-files", "--preset",
		"none,deft,turns,lookahead,fill"}
	if code := run(args, &stdout, &stderr); code != 0 {
		t.Fatalf("%q: exit status %d\n%s", args, code, &stderr)
	}
	printed := strings.Join(strings.Fields(stdout.String()), " ")
	rows := 0
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if len(cells) != 6 || !strings.HasPrefix(cells[5], "ours, **emulated**") || cells[0] == "alone" {
			continue
		}
		rows++
		for k, unit := range []string{" ms ", " ", " ms ", " "} {
			want := " " + cells[k+1] + unit
			if !strings.Contains(printed, want) {
				t.Errorf("%s: nothing printed has %q:\n%s", cells[0], want, printed)
			}
		}
	}
	if rows != 5 {
		t.Errorf("%d rows of ours, want 5", rows)
	}
}
