package local

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/profiling"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/profiler"
)

// shell is a trainer that is a script, in a folder of its own.
func shell(t *testing.T, script string) (*Trainer, string) {
	t.Helper()
	folder := t.TempDir()
	t.Chdir(folder)
	cpus, err := Allowed()
	if err != nil {
		t.Fatal(err)
	}
	pattern, err := ParsePattern("step")
	if err != nil {
		t.Fatal(err)
	}
	l := &Trainer{
		Command: []string{"/bin/sh", "-c", script}, CPUs: cpus, Pattern: pattern,
		Progress: filepath.Join(folder, "progress"),
		Log:      filepath.Join(folder, "log"), Patience: 20 * time.Second, Grace: 5 * time.Second,
	}
	t.Cleanup(func() { _ = l.Close() })
	return l, folder
}

// steps is a loop that takes a step every so often.
func steps(pause string) string {
	return "i=0; while :; do i=$((i+1)); echo step $i; sleep " + pause + "; done"
}

func trial(cores int, length time.Duration) profiler.Trial {
	return profiler.Trial{Cores: cores, For: length}
}

func iterations(m profiling.Measured) (n, seconds float64) {
	for _, w := range m.Windows {
		n += w.Iterations
		seconds += w.Seconds
	}
	return n, seconds
}

func TestATrainerMayUseAsManyCPUsAsItsTrialSays(t *testing.T) {
	l, folder := shell(t, "env -u OMP_NUM_THREADS nproc > cpus; echo $SYNERGY_CPUS $OMP_NUM_THREADS >> cpus; "+
		steps("0.01"))
	for cores := 1; cores <= min(2, len(l.CPUs)); cores++ {
		if _, err := l.Run(t.Context(), trial(cores, 50*time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		n := strconv.Itoa(cores)
		if text, err := os.ReadFile(filepath.Join(folder, "cpus")); err != nil || string(text) != n+"\n"+n+" "+n+"\n" {
			t.Errorf("%d cores: %q, %v", cores, text, err)
		}
	}
	if cpus, err := Allowed(); err != nil || len(cpus) != len(l.CPUs) {
		t.Errorf("this process has %v, %v after it, and had %v", cpus, err, l.CPUs)
	}
}

func TestATrialCountsIterationsAndAProlongedOneGoesOn(t *testing.T) {
	l, _ := shell(t, "sleep 0.3; "+steps("0.05"))
	first, err := l.Run(t.Context(), trial(1, time.Second))
	if err != nil {
		t.Fatal(err)
	}
	n, seconds := iterations(first)
	if math.Abs(seconds-1) > .5 || n < 3 || n > 21 || first.Start < 300*time.Millisecond {
		t.Errorf("%g iterations in %g s, started after %s", n, seconds, first.Start)
	}
	process := l.running.command.Process.Pid
	longer := trial(1, 300*time.Millisecond)
	longer.Prolongs = true
	more, err := l.Run(t.Context(), longer)
	if err != nil || l.running.command.Process.Pid != process || more.Start != 0 {
		t.Errorf("%+v, %v", more, err)
	}
}

func TestNothingThatATrainerStartedIsLeftRunning(t *testing.T) {
	l, folder := shell(t, "trap '' TERM; sleep 100 & echo $! > worker; "+steps("0.02"))
	l.Grace = 100 * time.Millisecond
	if _, err := l.Run(t.Context(), trial(1, 50*time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(folder, "worker"))
	if err != nil {
		t.Fatal(err)
	}
	worker, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if gone(worker) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("the loader's process %d is still there", worker)
}

// gone says that a process has ended, even if nobody has waited for it.
func gone(process int) bool {
	if syscall.Kill(process, 0) != nil {
		return true
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(process) + "/stat")
	return err != nil || strings.Contains(string(stat), ") Z ")
}

func TestTheProgressFileIsBelievedBeforeTheOutput(t *testing.T) {
	l, _ := shell(t,
		`sleep 0.3; i=0; while :; do i=$((i+1)); echo step $((i*100)); sleep 0.02; echo "{\"iterations\": $i}" > p; mv p "$SYNERGY_PROGRESS"; sleep 0.05; done`)
	_ = os.WriteFile(l.Progress, []byte("999999"), 0o600) // of an earlier run
	m, err := l.Run(t.Context(), trial(1, 500*time.Millisecond))
	if n, _ := iterations(m); err != nil || n < 1 || n > 20 || m.Start < 300*time.Millisecond {
		t.Errorf("%g iterations, started after %s, %v", n, m.Start, err)
	}
}

// The file counts what earlier runs of the job did, too.
func TestAProgressFileThatComesLateTakesOver(t *testing.T) {
	l, _ := shell(t,
		`echo step 1; sleep 0.3; i=0; while :; do i=$((i+1)); echo step $i; echo $((i+100000)) > p; mv p "$SYNERGY_PROGRESS"; sleep 0.05; done`)
	m, err := l.Run(t.Context(), trial(1, time.Second))
	if n, _ := iterations(m); err != nil || n < 1 || n > 120 {
		t.Errorf("%g iterations, %v", n, err)
	}
}

func TestAFileThatTheTrainerWritesIsWatched(t *testing.T) {
	l, folder := shell(t, "i=0; while :; do i=$((i+1)); echo step 7000; echo $i >> iterations; sleep 0.05; done")
	l.Watch, l.Pattern = filepath.Join(folder, "iterations"), nil
	m, err := l.Run(t.Context(), trial(1, 500*time.Millisecond))
	if n, _ := iterations(m); err != nil || n < 1 || n > 20 {
		t.Errorf("%g iterations, %v", n, err)
	}
}

func TestWhatATrainerDoesWrongIsSaidInASentence(t *testing.T) {
	for _, c := range []struct {
		name, script, want string
		done               bool
	}{
		{"crashes at once", "echo no such data set >&2; exit 3",
			"the trainer crashed (exit status 3) before its first iteration; its last line: no such data set", false},
		{"crashes later", "echo step 1; sleep 0.3; exit 4", "the trainer crashed (exit status 4) after ", false},
		{"ends early", "echo step 1; sleep 0.3; echo step 2; echo bye",
			"iterations, before the 20 s that were to be measured; its last line: bye", true},
		{"prints nothing", "sleep 100", "the trainer made no progress for 200ms that is seen in the progress file",
			false},
		{"prints something else", "echo hello; sleep 100", "or its output by the pattern step; its last line: hello",
			false},
		{"stops in the middle", "echo step 1; sleep 100", "the trainer made no progress for 200ms", false},
		{"prints what a terminal obeys", "printf '\\033[2Jx'; exit 1", "its last line: [2Jx", false},
	} {
		l, _ := shell(t, c.script)
		l.Patience = 20 * time.Second
		if strings.Contains(c.script, "sleep 100") {
			l.Patience = 200 * time.Millisecond
		}
		_, err := l.Run(t.Context(), trial(1, 20*time.Second))
		var fault *profiling.Fault
		if !errors.As(err, &fault) || !strings.Contains(fault.Why, c.want) || fault.Done != c.done {
			t.Errorf("%s: %+v\nwant %s", c.name, err, c.want)
		}
	}
}

func TestAnInterruptionEndsARunAndIsNotTheTrainersFault(t *testing.T) {
	l, _ := shell(t, steps("0.02"))
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := l.Run(ctx, trial(1, time.Minute))
	if !errors.Is(err, context.DeadlineExceeded) || errors.As(err, new(*profiling.Fault)) {
		t.Error(err)
	}
}

// saves is a trainer that saves for a while when it is asked, and goes on where it was.
const saves = `trap 'sleep 0.3; echo $i > saved; exit 98' USR1; i=$(cat saved 2>/dev/null || echo 0); echo step $i; sleep 0.4
while :; do i=$((i+1)); sleep 0.05; echo step $i; done`

func TestLeavingIsMeasuredFromTheSignalAndComingBackFromTheStartToAnIterationMore(t *testing.T) {
	l, folder := shell(t, saves)
	l.Asks = Request{Signal: syscall.SIGUSR1, Name: "USR1", Within: 20 * time.Second}
	if _, err := l.Run(t.Context(), trial(1, 300*time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	process := l.running.command.Process.Pid
	saved, err := l.Save(t.Context(), trial(1, time.Second))
	if err != nil || saved.Checkpoint < .3 || saved.Checkpoint > 10 || saved.Start < .4 || saved.Start > 10 ||
		saved.Remark != "" {
		t.Errorf("%+v, %v", saved, err)
	}
	if text, err := os.ReadFile(filepath.Join(folder, "saved")); err != nil || string(text) == "0\n" {
		t.Errorf("what was saved is %q, %v", text, err)
	}
	if l.running == nil || l.running.command.Process.Pid == process {
		t.Error("it was not started again")
	}
}

func TestATrainerThatDoesNotRunIsStartedBeforeItIsAskedToSave(t *testing.T) {
	l, _ := shell(t, saves)
	l.Asks = Request{Signal: syscall.SIGUSR1, Name: "USR1", Within: 20 * time.Second}
	if saved, err := l.Save(t.Context(), trial(1, 100*time.Millisecond)); err != nil || saved.Checkpoint < .3 {
		t.Errorf("%+v, %v", saved, err)
	}
}

func TestWhatATrainerDoesWrongWhenItIsAskedToSaveIsSaidInASentence(t *testing.T) {
	const loop = "; i=0; while :; do i=$((i+1)); echo step $i; sleep 0.05; done"
	for _, c := range []struct {
		name, script, want string
		fault              bool
	}{
		{"does not listen", "trap '' USR1" + loop,
			"the trainer had not left 300ms after USR1: it does not listen to that, or needs longer to save", true},
		{"dies of it", "true" + loop,
			"the trainer died of USR1: it does not listen to that, and its work would be lost", true},
		{"ends its job", "trap 'exit 0' USR1" + loop,
			"the trainer left with 0 after USR1, which is the end of its job for Slurm: want exit status 98", false},
		{"leaves otherwise", "trap 'echo full disk; exit 5' USR1" + loop,
			"exit status 5 after USR1, where 98 brings a job back into the queue; its last line: full disk", false},
		{"does not come back", "test -e left && exit 4; trap 'touch left; exit 98' USR1" + loop,
			"the trainer crashed (exit status 4) when it was started again", true},
	} {
		l, _ := shell(t, c.script)
		l.Asks = Request{Signal: syscall.SIGUSR1, Name: "USR1", Within: 20 * time.Second}
		if c.name == "does not listen" {
			l.Asks.Within = 300 * time.Millisecond
		}
		saved, err := l.Save(t.Context(), trial(1, 100*time.Millisecond))
		var fault *profiling.Fault
		if errors.As(err, &fault) != c.fault || !strings.Contains(saved.Remark+errorText(err), c.want) {
			t.Errorf("%s: %+v, %v\nwant %s", c.name, saved, err, c.want)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// The driver's tool in this test says that all processes of the trainer compute on one GPU each.
func TestATrainerOnAnotherNumberOfGPUsThanItSaidIsNotMeasured(t *testing.T) {
	l, folder := shell(t,
		"sleep 100 & echo $$, GPU-a > uses; echo $!, GPU-b >> uses; echo 1, GPU-c >> uses; "+steps("0.02"))
	tool := "#!/bin/sh\ncat " + filepath.Join(folder, "uses") + "\n"
	if err := os.WriteFile(filepath.Join(folder, "nvidia-smi"), []byte(tool), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
	_, err := l.Run(t.Context(), trial(1, 100*time.Millisecond))
	var fault *profiling.Fault
	if !errors.As(err, &fault) ||
		fault.Why != "the trainer uses 2 of the GPUs here, and --gpus says 1: say --gpus 2, or have it use 1" {
		t.Error(err)
	}
	l.GPUs = 2
	if _, err := l.Run(t.Context(), trial(1, 100*time.Millisecond)); err != nil {
		t.Error(err)
	}
}

func TestATrainerThatWantsAnotherGPUIsToldHowToAskForIt(t *testing.T) {
	l, _ := shell(t,
		"echo 'RuntimeError: CUDA error: invalid device ordinal'; echo 'Compile with TORCH_USE_CUDA_DSA'; exit 1")
	_, err := l.Run(t.Context(), trial(1, time.Second))
	if err == nil || !strings.HasSuffix(err.Error(), "it wants more GPUs than the 1 of --gpus") {
		t.Error(err)
	}
}

func TestAScriptIsFoundAndRunAsSbatchWouldRunIt(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, mode := range map[string]os.FileMode{"run.sh": 0o755, "read.sh": 0o644, "prose.txt": 0o644} {
		text := "#!/bin/sh -e\necho hello\n"
		if name == "prose.txt" {
			text = "hello\n"
		}
		if err := os.WriteFile(name, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"sh": "sh x", "run.sh": "./run.sh x", "./run.sh": "./run.sh x", "read.sh": "/bin/sh -e ./read.sh x",
		"./read.sh": "/bin/sh -e ./read.sh x",
		"prose.txt": "", "./none.sh": "", ".": "",
	} {
		got, err := Program([]string{name, "x"})
		if strings.Join(got, " ") != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		}
	}
}
