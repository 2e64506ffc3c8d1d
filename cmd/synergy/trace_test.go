package main

import (
	"bytes"
	"crypto/md5"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
)

func TestTheTraceCommands(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/trace"})
}

// ran is what a command line of synergy did.
func ran(args ...string) (stdout, stderr string, code int) {
	var out, notes bytes.Buffer
	code = run(args, &out, &notes)
	return out.String(), notes.String(), code
}

func TestAWrongTraceOrOptionIsOneLineAndExitStatus2(t *testing.T) {
	wrong := filepath.Join(t.TempDir(), "wrong.csv")
	if err := os.WriteFile(wrong, []byte("0,res18,0,100,3x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"trace", "inspect", wrong}, {"trace", "inspect", wrong + "x"}, {"trace", "inspect"},
		{"trace", "inspect", wrong, "--colour"}, {"trace", "no"},
		{"trace", "convert", wrong, "--to", "recorded"}, {"trace", "convert", wrong},
		{"trace", "generate", "--load", "-1"},
		{"trace", "generate", "--output", filepath.Join(wrong, "x")},
		{"trace", "generate", "--output", filepath.Dir(wrong)},
	} {
		stdout, stderr, code := ran(args...)
		if code != exitUsage || stdout != "" || strings.Count(stderr, "\n") != 1 ||
			!strings.HasPrefix(stderr, "synergy") {
			t.Errorf("%v: exit status %d\n%s%s", args, code, stdout, stderr)
		}
	}
}

// The artifact's published workload has this sum: 12000 lines, load 9, split 20,70,10, seed 42; and its synthetic one
// of several GPUs this.
func TestPublishedWorkloadsAreGeneratedByteForByte(t *testing.T) {
	for _, w := range []struct{ options, sum string }{
		{"--load 9 --jobs 12000", "6189f925713aef865dc0a6bebb228490"},
		{"--load 3.5 --jobs 160 --multigpu", "7eee201b9a4c725048af4739a00f9522"},
	} {
		stdout, stderr, code := ran(append([]string{"trace", "generate"}, strings.Fields(w.options)...)...)
		if sum := fmt.Sprintf("%x", md5.Sum([]byte(stdout))); code != exitGood || stderr != "" || sum != w.sum {
			t.Errorf("%s: exit status %d, %s, sum %s, want %s", w.options, code, stderr, sum, w.sum)
		}
	}
}

func TestWhatCouldNotBeWrittenIsExitStatus1AndLeavesTheOldFile(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip(
			"there is no disk that is always full; TestAFullDiskIsAnError of sim/trace holds the same of the writers")
	}
	if _, stderr, code := ran("trace", "generate", "-o", "/dev/full"); code != exitFailed ||
		!strings.Contains(stderr, "no space left") {
		t.Errorf("exit status %d, %s", code, stderr)
	}
	old := filepath.Join(t.TempDir(), "jobs.csv")
	if err := os.WriteFile(old, []byte("0,res18,0,100,1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	experiment := filepath.Join(t.TempDir(), "ratio.yaml")
	if err := os.WriteFile(experiment, []byte("ratio: 9\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, said, code := ran("trace", "convert", old, experiment, "--to", "condensed", "-o", old); code != exitUsage ||
		!strings.Contains(said, "ratio 9: want 3 to 6") {
		t.Errorf("exit status %d, %s", code, said)
	}
	if text, err := os.ReadFile(old); err != nil || string(text) != "0,res18,0,100,1\n" {
		t.Errorf("%v, %s", err, text)
	}
	if files, err := os.ReadDir(filepath.Dir(old)); err != nil || len(files) != 1 {
		t.Errorf("%v, %v", err, files)
	}
}

func TestEveryFormatIsOfferedAndExplained(t *testing.T) {
	help, _, _ := ran("trace", "--help")
	for _, f := range trace.Formats() {
		if !strings.Contains(help, "\n  "+string(f)+" ") {
			t.Errorf("synergy trace --help does not explain %s", f)
		}
		if words, _, _ := ran("__complete", "trace", "inspect", "--format", string(f[:2])); !strings.Contains(words,
			string(f)) {
			t.Errorf("%s is not offered", f)
		}
	}
}

func TestEveryExampleOfTheHelpTextsIsACommandLine(t *testing.T) {
	for _, c := range traceCommand().Commands() {
		for line := range strings.Lines(c.Example) {
			words, _, _ := strings.Cut(line[strings.Index(line, "synergy trace "):], "   ")
			args := strings.Fields(words)[2:]
			if args[0] != c.Name() {
				t.Errorf("example of %s: %s", c.Name(), line)
			}
			if err := c.ParseFlags(args[1:]); err != nil {
				t.Errorf("%s: %v", line, err)
			}
		}
	}
}
