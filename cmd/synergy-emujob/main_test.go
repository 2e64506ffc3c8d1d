package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/synergy-slurmd/synergy-slurmd/emulate"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/library"
)

// quickExit keeps a process under the race detector from lingering for a second at its end.
const quickExit = "atexit_sleep_ms=0"

// TestMain lets the tests run this binary as the command: it is synergy-emujob when called by that name.
func TestMain(m *testing.M) {
	os.Setenv("GORACE", quickExit)
	testscript.Main(m, map[string]func(){"synergy-emujob": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:   "testdata",
		Setup: setup,
		Cmds:  map[string]func(*testscript.TestScript, bool, []string){"await": await},
	})
}

// setup puts the shipped profiles into profiles/ of a script's directory.
func setup(env *testscript.Env) error {
	env.Setenv("GORACE", quickExit)
	shipped, err := filepath.Abs("../../etc/profiles")
	if err != nil {
		return err
	}
	return os.Symlink(shipped, filepath.Join(env.WorkDir, "profiles"))
}

// patience is how long a test waits for what must happen, on however slow a machine.
const patience = 20 * time.Second

// await waits until a file matches a pattern: await FILE PATTERN.
func await(ts *testscript.TestScript, negated bool, args []string) {
	if negated || len(args) != 2 {
		ts.Fatalf("usage: await file pattern")
	}
	pattern, path := regexp.MustCompile(args[1]), ts.MkAbs(args[0])
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if text, err := os.ReadFile(path); err == nil && pattern.Match(text) {
			return
		}
	}
	ts.Fatalf("%s never matched %s", args[0], args[1])
}

// job is synergy-emujob with the given arguments, and without Slurm's environment.
func job(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	command := exec.Command("synergy-emujob", append([]string{"--profile-dir", "../../etc/profiles"}, args...)...)
	for _, word := range os.Environ() {
		if !strings.HasPrefix(word, "SLURM_") && !strings.HasPrefix(word, "CUDA_") {
			command.Env = append(command.Env, word)
		}
	}
	return command
}

func output(t *testing.T, command *exec.Cmd) []emulate.Record {
	t.Helper()
	var stderr bytes.Buffer
	command.Stderr = &stderr
	text, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", command.Args, err, stderr.String())
	}
	return records(t, text)
}

func records(t *testing.T, text []byte) []emulate.Record {
	t.Helper()
	var all []emulate.Record
	for line := range bytes.Lines(text) {
		var r emulate.Record
		err := json.Unmarshal(line, &r)
		if next := bytes.LastIndex(line, []byte(`{"t":`)); err != nil && next > 0 {
			err = json.Unmarshal(line[next:], &r) // a kill tears a line, and the next run goes on behind it
		}
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		all = append(all, r)
	}
	return all
}

func TestARunningJobGoesAtTheRateOfItsProfile(t *testing.T) {
	for _, c := range []struct {
		profile           string
		gpus, cpus, memMB int
		gain              float64
	}{
		{"res18.json", 1, 3, 62500, 1},
		{"res18.json", 1, 9, 62500, 2.4},
		{"alexnet.json", 1, 3, 62500, 1},
		{"alexnet.json", 1, 12, 125000, 2.94},
		{"m5.json", 2, 12, 375000, 2.5},
	} {
		t.Run(fmt.Sprint(c.profile, c.gpus, c.cpus), func(t *testing.T) {
			t.Parallel()
			log := output(t, job(t, "--profile", c.profile, "--duration", "2500", "--speedup", "5000", "--virtual-cpu",
				"--gpus", strconv.Itoa(c.gpus), "--cpus", strconv.Itoa(c.cpus), "--memory", strconv.Itoa(c.memMB),
				"--start-cost", "0", "--interval", "0.2"))
			want := proportional(t, c.profile) * c.gain * 5000
			seen := 0
			for _, r := range log {
				if r.Event == "run" {
					seen++
					if math.Abs(r.Iterations/want-1) > .05 {
						t.Errorf("%v iterations/s, want %v", r.Iterations, want)
					}
				}
			}
			if predicted := log[0].Predicted; seen == 0 || math.Abs(predicted/want-1) > 1e-6 {
				t.Errorf("%d lines, predicted %v iterations/s, want %v", seen, predicted, want)
			}
		})
	}
}

// proportional is the iterations a second of a profile with 3 cores and 62.5 GB per GPU.
func proportional(t *testing.T, name string) float64 {
	t.Helper()
	p, err := library.New("../../etc/profiles").Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return p.Rate(sensitivity.Share{Cores: 3, Memory: 62500}) / float64(p.Batch)
}

func TestAVirtualJobUsesNextToNoCPU(t *testing.T) {
	command := job(t, "--profile", "lstm.json", "--duration", "1000", "--speedup", "1000", "--virtual-cpu", "--gpus",
		"8", "--cpus", "24",
		"--interval", "0.1", "--start-cost", "0", "--checkpoint", t.TempDir(), "--checkpoint-every", "100",
		"--checkpoint-cost", "0")
	log := output(t, command)
	if end := log[len(log)-1]; end.Iteration < 90000 {
		t.Fatalf("%+v", end)
	}
	// Starting the process takes some 10 ms, more under the race detector; 90909 wake-ups would take far more than the
	// rest.
	if used := command.ProcessState.UserTime() + command.ProcessState.SystemTime(); used > 500*time.Millisecond {
		t.Errorf("used %v of CPU in a second of 90909 iterations", used)
	}
}

func TestARealJobKeepsItsCoreBusy(t *testing.T) {
	command := job(t, "--profile", "lstm.json", "--iterations", "60", "--speedup", "1", "--gpus", "1", "--cpus", "1",
		"--start-cost", "0")
	log := output(t, command)
	if end := log[len(log)-1]; end.Mode != emulate.RealCPU || end.Iteration != 60 || end.Wall < 60*0.011 {
		t.Errorf("%+v", end)
	}
	if used := command.ProcessState.UserTime().Seconds(); used < 60*0.011*.9 {
		t.Errorf("used %v s of CPU for 60 iterations of 11 ms", used)
	}
}

// A job that is killed again and again, at any instant, resumes from its last save each time, never reads a torn one,
// and does all of its iterations in the end.
func TestFiftyKillsLoseAtMostWhatCameAfterTheLastSave(t *testing.T) {
	dir := t.TempDir()
	logPath := filepath.Join(dir, "log")
	args := []string{"--profile", "res18.json", "--virtual-cpu", "--gpus", "1", "--cpus", "3", "--memory", "62500",
		"--speedup", "10000",
		"--start-cost", "0", "--checkpoint-cost", "0", "--checkpoint-every", "20", "--interval", "0.003",
		"--checkpoint", filepath.Join(dir, "ckpt"), "--log", logPath, "--iterations"}
	random := rand.New(rand.NewPCG(1, 2))
	for start := range 50 {
		command := job(t, append(args, "1000000000")...)
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		awaitStart(t, logPath, start+1)
		time.Sleep(time.Duration(random.IntN(40)) * time.Millisecond)
		if err := command.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := command.Wait(); command.ProcessState.Exited() {
			t.Fatalf("start %d ended by itself: %v", start, err)
		}
	}
	last := checkResumes(t, logPath)
	log := output(t, job(t, append(args, strconv.FormatInt(last+20000, 10))...))
	if len(log) != 0 {
		t.Errorf("%d lines beside the log", len(log))
	}
	all := read(t, logPath)
	if end := all[len(all)-1]; end.Event != "end" || end.Iteration != last+20000 || end.Starts != 51 || *end.Lost == 0 {
		t.Errorf("%+v", end)
	}
}

// awaitStart waits until the log has as many lines of start.
func awaitStart(t *testing.T, path string, starts int) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if text, err := os.ReadFile(path); err == nil && bytes.Count(text, []byte(`"ev":"start"`)) >= starts {
			return
		}
	}
	t.Fatalf("start %d never began", starts)
}

// checkResumes sees to it that every start begins where the last save was, and returns the last iteration of the log.
func checkResumes(t *testing.T, path string) int64 {
	t.Helper()
	var saved, last int64
	saves, starts := 0, 0
	for _, r := range read(t, path) {
		switch r.Event {
		case "start":
			starts++
			if r.Iteration < saved { // it may be more: the kill came before the line of a save
				t.Errorf("start %d begins at %d, the last save was at %d", starts, r.Iteration, saved)
			}
			if r.Starts != starts {
				t.Errorf("start %d counts %d", starts, r.Starts)
			}
		case "save":
			saves++
			saved = r.Iteration
		}
		last = r.Iteration
	}
	if saves < 25 {
		t.Errorf("%d saves in 50 starts test little", saves)
	}
	return last
}

// read is the log. A line is written at once, so that no kill cuts one off.
func read(t *testing.T, path string) []emulate.Record {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return records(t, text)
}
