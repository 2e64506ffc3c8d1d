package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/synergy-slurmd/synergy-slurmd/share/broker"
	"github.com/synergy-slurmd/synergy-slurmd/share/node"
	"github.com/synergy-slurmd/synergy-slurmd/share/wire"
)

// told runs a command that ends by itself.
func told(t *testing.T, args ...string) (out, wrong string, code int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = run(t.Context(), args, &stdout, &stderr)
	return stdout.String(), stderr.String(), code
}

// serving runs a broker in a folder until the test ends.
func serving(t *testing.T, args ...string) (dir string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "broker") // a socket's path is short
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	servingIn(t, dir, args...)
	return dir
}

// servingIn runs one in this folder until it is stopped.
func servingIn(t *testing.T, dir string, args ...string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan int, 1)
	go func() { ended <- run(ctx, append(args, "--run-dir", dir, "--gpus", "0-1"), io.Discard, io.Discard) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if code := <-ended; code != 0 {
			t.Errorf("the broker ended with %d", code)
		}
	})
	t.Cleanup(stop)
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		conn, err := net.Dial("unix", broker.AdminPath(dir))
		if err == nil {
			conn.Close()
			return stop
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

func TestAWrongCommandLineEndsWithTwoAndASentence(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		line, sentence string
		code           int
	}{
		{"--gpus 0-", `--gpus "0-": want indexes as 0-3,6`, 2},
		{"--gpus 3-1", "of at most 1023", 2},
		{"--gpus 0-9999", "of at most 1023", 2},
		{"--gpus 0 --policy fair", `--policy "fair": want strict, weighted or slo`, 2},
		{"--gpus 0 --min-share 0.6", "--min-share 0.6: want 0 to 0.5", 2},
		{"--gpus 0 --concede -0.1", "--concede -0.1: want 0 to 0.5", 2},
		{"--gpus 0 --min-share NaN", "--min-share NaN: want 0 to 0.5", 2},
		{"--gpus 0 --quantum 0s", "--quantum 0s: want 1ms to 1m", 2},
		{"--gpus 0 --silent-after 4s", "--silent-after 4s: want 0, or 5s to 1h", 2},
		{"--gpus 0 --silent-after -1m", "--silent-after -1m0s: want 0, or 5s to 1h", 2},
		{"--gpus 0 --silent-after 2h", "--silent-after 2h0m0s: want 0, or 5s to 1h", 2},
		{"--gpus 0 --quantum 2m", "--quantum 2m0s: want 1ms to 1m", 2},
		{"--gpus 0 --run-dir here", `--run-dir "here": want an absolute path`, 2},
		{"--gpus 0 --mode both", `--mode "both": want auto, fill or turns`, 2},
		{"--gpus 0 --low-threads 0", "--low-threads 0: want 1 to 100", 2},
		{"--gpus 0 --mode fill", "nvidia-cuda-mps-control is not installed", 2},
		{"--gpus 0 --mode", "flag needs an argument: --mode", 2},
		{"--report false", `unknown command "false"`, 2},
		{"--gpus 0 --report 0", `unknown command "0"`, 2},
		{"--gpus 0 nothing", `unknown command "nothing"`, 2},
		{"--report=false 1", `unknown command "1"`, 2},
		{"serve --report false", `unknown command "false"`, 2},
		{"--insecure-env", "unknown flag: --insecure-env", 2},
		{"now", `unknown command "now"`, 2},
		{"serve now", "", 2},
		{"manual --date now " + dir, `--date "now"`, 2},
		{"manual --date 2026-11-23 /dev/null/x", "write man pages", 1},
		{"status --run-dir " + dir, "ask the broker", 1},
		{"status --json --metrics", "want one of them", 2},
	} {
		t.Setenv("PATH", dir)
		out, wrong, code := told(t, strings.Fields(c.line)...)
		if code != c.code || !strings.Contains(wrong, c.sentence) || strings.Count(wrong, "\n") != 1 || out != "" {
			t.Errorf("%s: ends with %d, says %q and %q; want %d, %q", c.line, code, out, wrong, c.code, c.sentence)
		}
	}
}

func TestAMistypedCommandIsRefusedWithTheNearest(t *testing.T) {
	for _, line := range []string{"statsu", "help statsu", "--gpus 0 statsu"} {
		out, wrong, code := told(t, strings.Fields(line)...)
		if code != 2 || out != "" || !strings.Contains(wrong, "unknown command \"statsu\"") ||
			!strings.Contains(wrong, "\n\tstatus\n") {
			t.Errorf("%s: ends with %d, says %q and %q", line, code, out, wrong)
		}
	}
}

func TestGPUsAreNamedByTheirIndexes(t *testing.T) {
	for text, want := range map[string][]int{
		"0": {0}, "0-3": {0, 1, 2, 3}, "6,0-1": {0, 1, 6}, "1,1,0-1": {0, 1}, "1023": {1023},
	} {
		if got, err := parseGPUs(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v, want %v", text, got, err, want)
		}
	}
}

func FuzzParseGPUs(f *testing.F) {
	f.Add("0-3,6")
	f.Add("-,--0,9999")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := parseGPUs(text)
		if err == nil && (len(all) == 0 || !slices.IsSorted(all) || all[0] < 0 || all[len(all)-1] > mostIndex) {
			t.Errorf("%q: %v", text, all)
		}
	})
}

func TestWithoutNamesTheGPUsAreThoseWhoseDevicesAreThere(t *testing.T) {
	dev := t.TempDir()
	if _, err := present(dev); err == nil || !strings.Contains(err.Error(), "--gpus") {
		t.Errorf("of none: %v", err)
	}
	for _, name := range []string{"nvidia10", "nvidia2", "nvidia0", "nvidiactl", "nvidia-uvm", "nvidia1x", "sda1"} {
		if err := os.WriteFile(filepath.Join(dev, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := present(dev); err != nil || !slices.Equal(got, []int{0, 2, 10}) {
		t.Errorf("found %v, %v", got, err)
	}
}

// inJob is the environment of the scripts of a job of this user on GPU 1.
func inJob(t *testing.T) {
	t.Helper()
	for name, value := range map[string]string{
		"SLURM_JOB_ID": "4711", "SLURM_JOB_UID": strconv.Itoa(os.Getuid()), "SLURM_JOB_GPUS": "1",
		"SLURM_JOB_EXTRA": `{"v":1,"lua":0,"job":4711,"round":42,"begin":0,` +
			`"share":{"class":"high","gpu_memory_mib":6144,"slo_ms":50,"device":"g1"}}`,
	} {
		t.Setenv(name, value)
	}
}

// TestAJobIsStampedSentToTheSocketSeenAndForgotten goes the way of a job through a node, with the command as Slurm's
// scripts call it.
func TestAJobIsStampedSentToTheSocketSeenAndForgotten(t *testing.T) {
	dir := serving(t, "--mode", "turns")
	inJob(t)
	if out, wrong, code := told(t, "stamp", "--run-dir", dir); code != 0 || out != "" || wrong != "" {
		t.Fatalf("stamp ends with %d: %s%s", code, out, wrong)
	}
	want := "export SYNERGY_TURN_SOCK=" + node.SocketPath(dir, 1) + "\n"
	if out, wrong, code := told(t, "env", "--run-dir", dir); code != 0 || !strings.Contains(out, want) {
		t.Errorf("env ends with %d: %s%s, want %s", code, out, wrong, want)
	}
	// This process is in no job, so it is told that, and seen to have been.
	conn, err := net.Dial("unix", node.SocketPath(dir, 1))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	line, err := wire.Encode(wire.Message{Type: wire.Hello})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(line); err != nil {
		t.Fatal(err)
	}
	if m, err := wire.NewReader(conn).Next(); err != nil || m.Code != wire.UnknownJob {
		t.Errorf("heard %+v, %v", m, err)
	}
	out, _, _ := told(t, "status", "--run-dir", dir, "--json")
	var s wire.Status
	if err := json.Unmarshal([]byte(out), &s); err != nil || len(s.GPUs) != 2 || s.Refused[wire.UnknownJob] != 1 {
		t.Errorf("status is %s, %v", out, err)
	}
	if out, _, _ := told(t, "status", "--run-dir", dir, "--metrics"); !strings.Contains(out,
		`synergy_broker_refused_total{code="unknown-job"} 1`) {
		t.Errorf("metrics are %s", out)
	}
	if out, wrong, code := told(t, "unstamp", "--run-dir", dir); code != 0 || out != "" || wrong != "" {
		t.Fatalf("unstamp ends with %d: %s%s", code, out, wrong)
	}
	if _, err := os.Stat(node.StampPath(dir, 4711)); err == nil {
		t.Error("it is still stamped")
	}
}

// TestAJobThatCannotBeStampedIsSaidAtOnceAndByTheStatus: by an exit code and one sentence for the prolog, and later.
func TestAJobThatCannotBeStampedIsSaidAtOnceAndByTheStatus(t *testing.T) {
	dir := serving(t, "--mode", "turns")
	inJob(t)
	t.Setenv("SLURM_JOB_GPUS", "0,1")
	const why = `stamp a job: SLURM_JOB_GPUS="0,1": want one whole number, 0 to 999999999, in digits alone` + "\n"
	out, wrong, code := told(t, "stamp", "--run-dir", dir)
	if code != 1 || out != "" || wrong != "synergy-broker: "+why {
		t.Errorf("stamp ends with %d: %s%s", code, out, wrong)
	}
	out, wrong, code = told(t, "status", "--run-dir", dir)
	if !strings.Contains(out, "jobs that could not be stamped, and take no turns: 1; the last, job 4711, ") ||
		!strings.HasSuffix(out, why) || code != 0 {
		t.Errorf("status ends with %d: %s%s", code, out, wrong)
	}
}

// withMPS has a program on the PATH that behaves like NVIDIA's, and says where.
func withMPS(t *testing.T) (bin string) {
	t.Helper()
	bin = t.TempDir()
	stub, err := os.ReadFile("../../share/mps/testdata/nvidia-cuda-mps-control")
	if err == nil {
		err = os.WriteFile(filepath.Join(bin, "nvidia-cuda-mps-control"), stub, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	return bin
}

// TestABrokerThatIsStartedAnewByTurnsLeavesAnMPSToItsJobs, and ends it with the last of them, whether NVIDIA's program
// is still there or not.
func TestABrokerThatIsStartedAnewByTurnsLeavesAnMPSToItsJobs(t *testing.T) {
	for _, again := range [][]string{{"--mode", "turns"}, {"--mode", "auto"}} {
		path := os.Getenv("PATH")
		bin := withMPS(t)
		dir := t.TempDir()
		stop := servingIn(t, dir, "--mode", "fill")
		inJob(t)
		if _, wrong, code := told(t, "stamp", "--run-dir", dir); code != 0 {
			t.Fatalf("stamp ends with %d: %s", code, wrong)
		}
		stop()
		if again[1] == "auto" {
			if err := os.Rename(bin+"/nvidia-cuda-mps-control", bin+"/gone"); err != nil {
				t.Fatal(err)
			}
		}
		stop = servingIn(t, dir, again...)
		if err := broker.Tell(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		if err := exec.Command("pgrep", "-f", bin).Run(); err != nil {
			t.Errorf("%v: it was ended under its job: %v", again, err)
		}
		out, _, _ := told(t, "status", "--run-dir", dir)
		if !strings.Contains(out, "GPU 1: nobody (turns)\n") || !strings.Contains(out, "is left until his jobs") {
			t.Errorf("%v: status is %s", again, out)
		}
		if _, wrong, code := told(t, "unstamp", "--run-dir", dir); code != 0 {
			t.Fatalf("unstamp ends with %d: %s", code, wrong)
		}
		if left, err := exec.Command("pgrep", "-f", bin).Output(); err == nil {
			t.Errorf("%v: still there: %s", again, left)
		}
		stop()
		t.Setenv("PATH", path)
	}
}

// TestTheTasksOfAJobFindAnMPSThatRuns: by the time that prolog has ended it does, and when the last job has gone it is
// gone, too.
func TestTheTasksOfAJobFindAnMPSThatRuns(t *testing.T) {
	bin := withMPS(t)
	dir := serving(t, "--mode", "fill", "--low-threads", "25")
	inJob(t)
	if _, wrong, code := told(t, "stamp", "--run-dir", dir); code != 0 {
		t.Fatalf("stamp ends with %d: %s", code, wrong)
	}
	out, _, _ := told(t, "env", "--run-dir", dir)
	want := "export CUDA_MPS_PIPE_DIRECTORY=" + dir + "/mps-1-" + strconv.Itoa(os.Getuid()) + "\n"
	if !strings.Contains(out, want) || !strings.Contains(out, "export CUDA_MPS_CLIENT_PRIORITY=0\n") {
		t.Errorf("a task is told %s", out)
	}
	if out, _, _ := told(t, "status", "--run-dir", dir); !strings.Contains(out, "GPU 1: nobody (fill)\n") ||
		!strings.Contains(out, "GPU 0: nobody (turns)\n") {
		t.Errorf("status is %s", out)
	}
	if _, wrong, code := told(t, "unstamp", "--run-dir", dir); code != 0 {
		t.Fatalf("unstamp ends with %d: %s", code, wrong)
	}
	if left, err := exec.Command("pgrep", "-f", bin).Output(); err == nil {
		t.Errorf("still there: %s", left)
	}
	if _, err := os.Stat(node.FillPath(dir, 1)); err == nil {
		t.Error("tasks would still be sent there")
	}
}

func TestThawSaysWhomItThawed(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "frozen"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "frozen", "7.json"), []byte(`{"v":1,"job":7}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, wrong, code := told(t, "thaw", "--run-dir", dir); code != 0 || out != "thawed job 7\n" {
		t.Errorf("ends with %d: %s%s", code, out, wrong)
	}
	if err := os.WriteFile(filepath.Join(dir, "frozen", "8.json"), []byte(`{`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, wrong, code := told(t, "thaw", "--run-dir", dir); code != 1 || !strings.Contains(wrong, "thaw job 8") {
		t.Errorf("ends with %d: %s", code, wrong)
	}
}

func TestTheStatusShowsWhoHasTheGPUAndObeysNobody(t *testing.T) {
	var out bytes.Buffer
	err := say(&out, wire.Status{GPUs: []wire.GPU{{GPU: 0, Mode: "turns", Freezes: 4, Offences: 1,
		WhyTurns: "it does not\x1b answer",
		Clients: []wire.Client{{Job: 7, Class: "high\x1b[31m", State: wire.Holding, Since: 0.25, Turns: 3, Share: 0.5,
			MemoryCap: 1024, UID: 1000, PID: 4242}, {Job: 9, Class: "low", Kind: wire.Silent, State: wire.Frozen,
			Since: 2, Turns: 1, MemoryCap: 512, UID: 1001}},
		Classes: map[string]wire.Had{"high": {Turns: 3, Held: 1.5, WaitP50: 0.001, WaitP95: 0.02}}}},
		StillFrozen: []wire.Stuck{{Job: 8, Since: 12.5, Tries: 7, Error: "thaw job 8: no\x1b"}}, StampErrors: 3,
		LastStampError: &wire.Unstamped{Job: 9, Since: 75, Error: "stamp a job:\x1b no"}}, false, false)
	want := "GPU  JOB  CLASS      STATE    SINCE  TURNS  SHARE  MEMORY    USER  PID\n" +
		"0    7    high [31m  holding  0.25s  3      50%    1024 MiB  1000  4242\n" +
		"0    9    low        frozen   2s     1      0%     512 MiB   1001  0\n" +
		"GPU 0: jobs take turns: it does not answer\n" +
		"GPU 0: job 9 asks for no turns: it is stopped while others have theirs\n" +
		"GPU 0: high had 3 turns and the GPU for 1.5 s; it waited 1 ms (p50), 20 ms (p95)\n" +
		"GPU 0: 4 times a job was stopped since it did not yield, 1 of them reported\n" +
		"job 8 is stopped and should not be: 7 tries in 12.5 s, thaw job 8: no\n" +
		"jobs that could not be stamped, and take no turns: 3; the last, job 9, 75 s ago: stamp a job: no\n"
	if err != nil || out.String() != want {
		t.Errorf("shows\n%s, %v, want\n%s", &out, err, want)
	}
}

func TestTheManPageTellsEachFlag(t *testing.T) {
	folder := t.TempDir()
	if _, wrong, code := told(t, "manual", "--date", "2026-11-23", folder); code != 0 {
		t.Fatal(wrong)
	}
	text, err := os.ReadFile(filepath.Join(folder, "synergy-broker.8"))
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	command().Flags().VisitAll(func(flag *pflag.Flag) {
		count++
		if !strings.Contains(string(text), `\fB--`+flag.Name+`\fP`) {
			t.Errorf("it does not tell --%s", flag.Name)
		}
	})
	if count < 7 {
		t.Errorf("%d flags", count)
	}
}

// TestADriverThatComesLaterIsWaitedForAndAWrongFlagIsNot: the unit starts again what did not end with exitUsage.
func TestADriverThatComesLaterIsWaitedForAndAWrongFlagIsNot(t *testing.T) {
	_, err := present(t.TempDir())
	if _, is := errors.AsType[runtimeError](err); !is || !strings.Contains(err.Error(), "name them by --gpus") {
		t.Errorf("without a GPU: %v, want one that is tried again", err)
	}
	code := run(t.Context(), []string{"serve", "--gpus", "many"}, io.Discard, io.Discard)
	if code != exitUsage {
		t.Errorf("a wrong flag ends it with %d, want %d", code, exitUsage)
	}
	unit, err := os.ReadFile("../../etc/synergy-broker.service")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"StartLimitIntervalSec=0\n", "Restart=always\n", "RestartPreventExitStatus=2\n"} {
		if !strings.Contains(string(unit), line) {
			t.Errorf("the unit has no %s", line)
		}
	}
}

// TestTheUnitRunsWhatThereIs: its commands are the program's, and no flag stands there that this refuses.
func TestTheUnitRunsWhatThereIs(t *testing.T) {
	unit, err := os.ReadFile("../../etc/synergy-broker.service")
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"ExecStart=/usr/lib/synergy/node/synergy-broker serve $SYNERGY_BROKER_FLAGS\n",
		"ExecStopPost=/usr/lib/synergy/node/synergy-broker thaw\n",
		"RuntimeDirectory=" + filepath.Base(node.Folder) + "\n"} {
		if !strings.Contains(string(unit), verb) {
			t.Errorf("the unit has no %s", verb)
		}
	}
}
