package mps

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/share/node"
	"github.com/synergy-slurmd/synergy-slurmd/share/predict"
)

// bench is a node's folder and a program that behaves like NVIDIA's.
type bench struct {
	*Manager
	bin string
	t   *testing.T
}

func newBench(t *testing.T) bench {
	t.Helper()
	dir, err := os.MkdirTemp("", "mps-test-") // other users look into it, which they cannot into the test's own
	if err != nil {
		t.Fatal(err)
	}
	b := bench{bin: filepath.Join(dir, "bin"), t: t,
		Manager: &Manager{Dir: filepath.Join(dir, "run"), Program: filepath.Join(dir, "bin", Program)}}
	stub, err := os.ReadFile("testdata/" + Program)
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{b.bin, b.Dir} {
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(b.Program, stub, 0o755)); err != nil {
		t.Fatal(err)
	}
	b.serve(predict.LookAhead) // nobody is there yet
	t.Cleanup(func() {
		b.mode("")
		for _, d := range b.startedDaemons() {
			_ = d.kill(context.Background()) // the test's own context is done
		}
		_ = os.RemoveAll(dir)
	})
	return b
}

// mode has the program behave so from its next start.
func (b bench) mode(mode string) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(b.bin, "MODE"), []byte(mode), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// later is a moment that this machine does not reach in the test: who is stamped then has a prolog that waits.
var later = time.Now().Add(time.Hour).UnixNano()

// runs are jobs of these users, counted from 1.
func runs(users ...int) (jobs []node.Run) {
	for i, user := range users {
		jobs = append(jobs, node.Run{Job: i + 1, UID: user, Stamped: later})
	}
	return jobs
}

// serve wants the GPU 0 to be shared so.
func (b bench) serve(want predict.Mode, users ...int) error {
	b.t.Helper()
	mode, err := b.Serve(b.t.Context(), 0, runs(users...))
	if mode != want {
		b.t.Fatalf("jobs of %v are served by %s (%v), want %s", users, mode, err, want)
	}
	fill, missing := node.ReadFill(b.Dir, 0)
	if want == predict.Fill && (missing != nil || !slices.Equal(fill.Jobs, runs(users...))) {
		b.t.Fatalf("served by %s: clients are %v, %v", want, fill.Jobs, missing)
	}
	return err
}

func (b bench) of(uid int) daemon {
	b.t.Helper()
	d, err := b.daemon(0, uid)
	if err != nil {
		b.t.Fatal(err)
	}
	return d
}

var me = os.Geteuid()

func TestJobsOfOneUserFillAGPU(t *testing.T) {
	b := newBench(t)
	if err := b.serve(predict.Fill, me); err != nil {
		t.Fatal(err)
	}
	running := b.of(me).processes()
	if len(running) != 1 {
		t.Fatalf("%d daemons run", len(running))
	}
	fill, err := node.ReadFill(b.Dir, 0)
	if err != nil || *fill.UID != me {
		t.Fatalf("%+v: %v", fill, err)
	}
	pipe := b.of(me).pipeDir()
	for name, want := range map[string][2]string{
		"CUDA_MPS_PIPE_DIRECTORY":           {pipe, pipe},
		"CUDA_MPS_CLIENT_PRIORITY":          {"0", "1"},
		"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": {"", "50"},
	} {
		if got := [2]string{fill.High.Env[name], fill.Low.Env[name]}; got != want {
			t.Errorf("%s is %q for high and low, want %q", name, got, want)
		}
	}
	for range 3 {
		if err := b.serve(predict.Fill, me, me); err != nil {
			t.Fatal(err)
		}
	}
	if again := b.of(me).processes(); !slices.Equal(again, running) {
		t.Errorf("said again, %v became %v", running, again)
	}
	if err := b.serve(predict.LookAhead); err != nil || len(b.of(me).processes()) > 0 {
		t.Errorf("with no job left there is %v (%v)", b.of(me).processes(), err)
	}
	if left, _ := os.ReadDir(b.Dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestTheDaemonRunsAsTheJobsUserAndKnowsNothingElse(t *testing.T) {
	if me != 0 {
		t.Fatal("only root may start a process of another user: run this test as root")
	}
	t.Setenv("SECRET_OF_ROOT", "1")
	b := newBench(t)
	const uid = 4711
	if err := b.serve(predict.Fill, uid); err != nil {
		t.Fatal(err)
	}
	d := b.of(uid)
	if said, _ := os.ReadFile(filepath.Join(d.logDir(), "uid")); strings.TrimSpace(string(said)) != strconv.Itoa(uid) {
		t.Errorf("it runs as user %q, want %d", said, uid)
	}
	environ, _ := os.ReadFile(filepath.Join(d.logDir(), "environ"))
	if strings.Contains(string(environ), "SECRET") || strings.Contains(string(environ), "CUDA_VISIBLE_DEVICES") ||
		!strings.Contains(string(environ), d.markVar()) {
		t.Errorf("it was told\n%s", environ)
	}
	info, err := os.Stat(d.pipeDir())
	if err != nil || info.Mode().Perm() != 0o700 || info.Sys().(*syscall.Stat_t).Uid != uid {
		t.Errorf("its folder is %v: %v", info.Mode(), err)
	}
}

func TestJobsOfSeveralUsersTakeTurns(t *testing.T) {
	b := newBench(t)
	other := me + 1
	if err := b.serve(predict.LookAhead, me, other); err != nil {
		t.Errorf("that is no mistake: %v", err)
	}
	b.serve(predict.LookAhead)
	if err := b.serve(predict.Fill, me); err != nil {
		t.Fatal(err)
	}
	b.serve(predict.LookAhead, me, other)
	if len(b.of(me).processes()) != 1 {
		t.Error("the daemon of a job that runs was ended")
	}
	if err := b.serve(predict.Fill, me); err != nil {
		t.Errorf("the other is gone: %v", err)
	}
}

func TestJobsThatBeganWithoutMPSTakeTurns(t *testing.T) {
	b := newBench(t)
	b.Manager = &Manager{Dir: b.Dir, Program: b.Program}
	for _, jobs := range [][]int{{me}, {me, me}, {me}} {
		if err := b.serve(predict.LookAhead, jobs...); !errors.Is(err, errBegun) {
			t.Errorf("%d jobs of which one was there before its broker: %v", len(jobs), err)
		}
	}
	b.serve(predict.LookAhead)
	if err := b.serve(predict.Fill, me, me); err != nil {
		t.Errorf("two that begin at once: %v", err)
	}
}

// TestAGPUFillsOnlyWhileAllJobsOnItAreClients: a job is a client from its first task to its last or never, whoever was
// there meanwhile, and whichever manager is asked.
func TestAGPUFillsOnlyWhileAllJobsOnItAreClients(t *testing.T) {
	job := func(number, uid int) node.Run { return node.Run{Job: number, UID: uid, Stamped: later} }
	a, c, d, e := job(1, me), job(3, me), job(4, me), job(5, me)
	other, second := job(2, me+1), job(6, me+1)
	again := a // requeued, and its epilog did not come about
	again.Stamped++
	late := job(7, me) // its prolog has given up
	late.Stamped = time.Now().Add(-maxStampAge).UnixNano()
	begun := job(8, me)
	begun.Begun = true
	type look struct {
		jobs, clients []node.Run
		fills         bool
	}
	of := func(jobs ...node.Run) []node.Run { return jobs }
	for what, looks := range map[string][]look{
		"another user comes and goes": {{of(a), of(a), true}, {of(a, other), of(a), false}, {of(a), of(a), true}},
		"one joins beside another user": {{of(a), of(a), true}, {of(a, other, c), of(a, c), false},
			{of(a, c), of(a, c), true}},
		"all begin at once":                {{of(a, c), of(a, c), true}},
		"of two users at once":             {{of(a, other), nil, false}, {of(a), nil, false}},
		"one follows at once":              {{of(a), of(a), true}, {of(c, d), of(c, d), true}},
		"one that comes with another user": {{of(other, c), nil, false}, {of(c), nil, false}},
		"its user is there without": {{of(other, c), nil, false}, {of(c, d), of(d), false}, {of(d, e), of(d, e), true},
			{of(d), of(d), true}},
		"it runs anew": {{of(a, c), of(a, c), true}, {of(again, c), of(c), false}, {of(c), of(c), true}},
		"the other user's turn": {{of(a), of(a), true}, {of(a, other), of(a), false}, {of(other), nil, false},
			{of(other, second), of(second), false}, {of(second), of(second), true}},
		"its prolog has given up":   {{of(a), of(a), true}, {of(a, late), of(a), false}, {of(a), of(a), true}},
		"nobody's prolog waits":     {{of(late), nil, false}, {of(late, a), of(a), false}},
		"it had begun when it came": {{of(begun), nil, false}, {of(begun, a), of(a), false}, {of(a), of(a), true}},
	} {
		for _, restarts := range []bool{false, true} {
			bench := newBench(t)
			for i, l := range looks {
				ask := func(when string) {
					t.Helper()
					mode, err := bench.Serve(t.Context(), 0, l.jobs)
					fill, missing := node.ReadFill(bench.Dir, 0)
					if (mode == predict.Fill) != l.fills || !slices.Equal(fill.Jobs, l.clients) {
						t.Errorf("%s: look %d%s: %v: %s (%v), clients %v (%v); want %v and %v", what, i, when, l.jobs,
							mode, err, fill.Jobs, missing, l.fills, l.clients)
					}
				}
				ask("")
				if restarts { // and nobody came meanwhile
					if err := node.Withdraw(bench.Dir); err != nil {
						t.Fatal(err)
					}
					bench.Manager = &Manager{Dir: bench.Dir, Program: bench.Program}
					ask(" again")
				}
			}
			if t.Failed() {
				return
			}
		}
	}
}

// TestAJobThatBeganWhileItsBrokerWasAwayTakesTurns, since nobody told it of the daemon; and so do all where that was
// long, or where nothing can be read.
func TestAJobThatBeganWhileItsBrokerWasAwayTakesTurns(t *testing.T) {
	b := newBench(t)
	if err := b.serve(predict.Fill, me); err != nil {
		t.Fatal(err)
	}
	b.Manager = &Manager{Dir: b.Dir, Program: b.Program}
	if err := b.serve(predict.LookAhead, me, me); !errors.Is(err, errBegun) {
		t.Errorf("one of two was not told: %v", err)
	}
	if err := b.serve(predict.Fill, me); err != nil {
		t.Errorf("it is gone: %v", err)
	}
	long := func() time.Time { return time.Now().Add(2 * time.Minute) }
	if err := node.Withdraw(b.Dir); err != nil {
		t.Fatal(err)
	}
	b.Manager = &Manager{Dir: b.Dir, Program: b.Program, now: long}
	for range 2 {
		if err := b.serve(predict.LookAhead, me); !errors.Is(err, errBegun) {
			t.Errorf("after a broker that was away for long: %v", err)
		}
	}
	for _, text := range []string{"{", "[1]", ""} {
		if err := os.WriteFile(node.FillPath(b.Dir, 0), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		b.Manager = &Manager{Dir: b.Dir, Program: b.Program}
		if err := b.serve(predict.LookAhead, me); err == nil || !strings.Contains(err.Error(), "fill-0.json") {
			t.Errorf("%q: %v", text, err)
		}
		if err := b.serve(predict.LookAhead, me); !errors.Is(err, errBegun) {
			t.Errorf("%q, the next time: %v", text, err)
		}
	}
	b.serve(predict.LookAhead)
	if left, _ := os.ReadDir(b.Dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestWhereADaemonOfAnotherUserDoesNotEndNoOtherIsStarted, and nobody is told of one.
func TestWhereADaemonOfAnotherUserDoesNotEndNoOtherIsStarted(t *testing.T) {
	if me != 0 {
		t.Fatal("only root may start a process of another user: run this test as root")
	}
	b := newBench(t)
	if err := b.serve(predict.Fill, 4711); err != nil {
		t.Fatal(err)
	}
	path := b.of(4711).pipeDir()
	if err := errors.Join(os.Remove(filepath.Join(path, "nvidia-cuda-mps-control.pid")),
		os.Chmod(path, 0o700)); err != nil {
		t.Fatal(err)
	}
	b.Proc = filepath.Join(b.bin, "proc") // a machine on which its processes never end
	of := filepath.Join(b.Proc, "11")
	for name, text := range map[string]string{"status": "Name:\tx\nUid:\t4711\t4711\t4711\t4711\n",
		"environ": b.of(4711).markVar() + "\x00", "cmdline": "nvidia-cuda-mps-server\x00"} {
		err := errors.Join(os.MkdirAll(of, 0o755), os.WriteFile(filepath.Join(of, name), []byte(text), 0o644))
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := b.serve(predict.LookAhead, 4712); err == nil || !strings.Contains(err.Error(), "do not end") {
		t.Errorf("one that does not end: %v", err)
	}
	if f, err := node.ReadFill(b.Dir, 0); err == nil {
		t.Errorf("a task is told of %+v", f)
	}
	if err := os.RemoveAll(b.Proc); err != nil {
		t.Fatal(err)
	}
	b.Proc = ""
	if err := b.serve(predict.LookAhead, 4712); !errors.Is(err, errBegun) {
		t.Errorf("who began meanwhile: %v", err)
	}
}

// TestDaemonsThatEndWithTheirJobsMayBeStartedAgainAndAgain: only those that die are counted.
func TestDaemonsThatEndWithTheirJobsMayBeStartedAgainAndAgain(t *testing.T) {
	b := newBench(t)
	for range maxStarts + 2 {
		if err := b.serve(predict.Fill, me); err != nil {
			t.Fatal(err)
		}
		b.serve(predict.LookAhead)
	}
}

func TestADaemonOfAUserWhoHasLeftMakesRoom(t *testing.T) {
	if me != 0 {
		t.Fatal("only root may start a process of another user: run this test as root")
	}
	b := newBench(t)
	if err := errors.Join(b.serve(predict.Fill, 4711), b.serve(predict.Fill, 4712)); err != nil {
		t.Fatal(err)
	}
	if len(b.of(4711).processes()) != 0 || len(b.of(4712).processes()) != 1 {
		t.Errorf("%v and %v run", b.of(4711).processes(), b.of(4712).processes())
	}
}

func TestWithoutNVIDIAsProgramJobsTakeTurns(t *testing.T) {
	b := newBench(t)
	b.Program = ""
	t.Setenv("PATH", t.TempDir())
	if err := b.serve(predict.LookAhead, me); !errors.Is(err, ErrNoProgram) {
		t.Errorf("without the program: %v", err)
	}
}

func TestAProgramThatFailsLeavesJobsToTakeTurns(t *testing.T) {
	for mode, want := range map[string]string{"broken": "Cannot initialise", "deaf": "does not answer"} {
		b := newBench(t)
		b.mode(mode)
		b.Patience = time.Second
		if err := b.serve(predict.LookAhead, me); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", mode, err)
		}
		if len(b.of(me).processes()) > 0 {
			t.Errorf("%s: it left %v", mode, b.of(me).processes())
		}
	}
}

func TestADaemonThatDiesIsStartedForTheNextJobAndNotForEver(t *testing.T) {
	b := newBench(t)
	for n := range maxStarts - 1 {
		if err := b.serve(predict.Fill, me); err != nil {
			t.Fatal(err)
		}
		kill(t, b.of(me))
		if err := b.serve(predict.LookAhead, me); !errors.Is(err, errBegun) { // its context is gone, if it lives
			t.Errorf("the job whose daemon died: %v", err)
		}
		if n == 0 {
			b.serve(predict.LookAhead)
			continue
		}
		if err := b.serve(predict.LookAhead, me, me); !errors.Is(err, errBegun) || len(b.of(me).processes()) != 1 {
			t.Errorf("beside it another begins: %v, with %v", err, b.of(me).processes())
		}
		kill(t, b.of(me))
		b.serve(predict.LookAhead)
	}
	if err := b.serve(predict.LookAhead, me); err == nil || !strings.Contains(err.Error(), "started 3 times") {
		t.Errorf("after %d deaths: %v", maxStarts, err)
	}
}

func kill(t *testing.T, d daemon) {
	t.Helper()
	for _, pid := range d.processes() {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	for end := time.Now().Add(answerWithin); len(d.processes()) > 0; time.Sleep(lookEvery) {
		if time.Now().After(end) {
			t.Fatal("a process outlives SIGKILL")
		}
	}
}

// TestAnotherManagerGoesOnWithTheDaemonsOfTheLast: the broker may be killed and started again at any time.
func TestAnotherManagerGoesOnWithTheDaemonsOfTheLast(t *testing.T) {
	b := newBench(t)
	if err := b.serve(predict.Fill, me); err != nil {
		t.Fatal(err)
	}
	running := b.of(me).processes()
	b.Manager = &Manager{Dir: b.Dir, Program: b.Program}
	for _, jobs := range [][]int{{me}, {me, me}} {
		if err := b.serve(predict.Fill, jobs...); err != nil || !slices.Equal(b.of(me).processes(), running) {
			t.Errorf("it has %v, there were %v: %v", b.of(me).processes(), running, err)
		}
	}
	if err := b.Stop(t.Context()); err != nil || len(b.of(me).processes()) > 0 {
		t.Errorf("after the end there is %v: %v", b.of(me).processes(), err)
	}
}

// TestOnlyItsOwnProcessesAreEnded: a job's process has the daemon's folder in its environment as well, and a daemon of
// the site has NVIDIA's name.
func TestOnlyItsOwnProcessesAreEnded(t *testing.T) {
	b := newBench(t)
	d := b.of(me)
	client := exec.Command("sleep", "60")
	client.Env = []string{d.markVar()}
	site := exec.Command("sleep", "60")
	site.Args[0] = "nvidia-cuda-mps-server"
	for _, command := range []*exec.Cmd{client, site} {
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _, _ = command.Process.Kill(), command.Wait() }()
	}
	if err := b.serve(predict.Fill, me); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(b.Stop(t.Context()), d.kill(t.Context())); err != nil {
		t.Fatal(err)
	}
	for _, command := range []*exec.Cmd{client, site} {
		words, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", command.Process.Pid)) // a zombie has none
		if err != nil || len(words) == 0 {
			t.Errorf("%v was ended: %v", command.Args, err)
		}
	}
}

func TestADaemonThatDoesNotQuitIsEnded(t *testing.T) {
	b := newBench(t)
	b.mode("stubborn")
	b.Patience = 100 * time.Millisecond
	if err := b.serve(predict.Fill, me); err != nil {
		t.Fatal(err)
	}
	if err := b.serve(predict.LookAhead); err != nil || len(b.of(me).processes()) > 0 {
		t.Errorf("it still runs as %v: %v", b.of(me).processes(), err)
	}
	if _, err := os.Stat(b.of(me).pipeDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its folder is left: %v", err)
	}
}

// TestAnotherUsersProcessIsNoDaemonWhateverItIsCalled: he gave it the daemon's mark and NVIDIA's name, so that it is
// counted and the daemon never ends, or to see what is signalled.
func TestAnotherUsersProcessIsNoDaemonWhateverItIsCalled(t *testing.T) {
	if me != 0 {
		t.Fatal("only root may start a process of another user: run this test as root")
	}
	b := newBench(t)
	d := b.of(me)
	fake := exec.Command("sleep", "60")
	fake.Args[0], fake.Env = "nvidia-cuda-mps-server", []string{d.markVar()}
	fake.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 4711, Gid: 4711}}
	if err := fake.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = fake.Process.Kill(), fake.Wait() }()
	if err := b.serve(predict.Fill, me); err != nil {
		t.Fatal(err)
	}
	if running := d.processes(); len(running) != 1 || running[0] == fake.Process.Pid {
		t.Errorf("processes are %v, that of the other user is %d", running, fake.Process.Pid)
	}
	if err := b.serve(predict.LookAhead); err != nil {
		t.Errorf("with no job left: %v", err)
	}
	if words, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", fake.Process.Pid)); err != nil || len(words) == 0 {
		t.Errorf("it was ended: %v", err)
	}
}

// hang has the daemon of a GPU never answer, or answer again.
func (b bench) hang(gpu int, hung bool) {
	b.t.Helper()
	d, err := b.daemon(gpu, me)
	file := filepath.Join(d.pipeDir(), "hung")
	switch {
	case err == nil && hung:
		err = os.WriteFile(file, nil, 0o644)
	case err == nil:
		err = os.Remove(file)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// asked is how often the daemon of GPU 0 was.
func (b bench) asked() int {
	b.t.Helper()
	text, err := os.ReadFile(filepath.Join(b.of(me).logDir(), "asked"))
	if err != nil {
		b.t.Fatal(err)
	}
	return len(text)
}

func TestADaemonThatHangsDelaysNoOtherGPU(t *testing.T) {
	b := newBench(t)
	b.Answer = 3 * time.Second
	if err := b.serve(predict.Fill, me); err != nil {
		t.Fatal(err)
	}
	b.hang(0, true)
	if _, err := b.Serve(t.Context(), 1, nil); err != nil {
		t.Fatal(err)
	}
	hung, asked := make(chan error, 1), b.asked()
	go func() {
		_, err := b.Serve(t.Context(), 0, runs(me, me))
		hung <- err
	}()
	for end := time.Now().Add(answerWithin); b.asked() == asked; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it is not asked")
		}
	}
	if mode, err := b.Serve(t.Context(), 1, runs(me)); mode != predict.Fill {
		t.Errorf("GPU 1 is shared by %s: %v", mode, err)
	}
	select {
	case err := <-hung:
		t.Errorf("GPU 1 was served after the other: %v", err)
	default:
		if err := <-hung; !errors.Is(err, errNoAnswer) {
			t.Errorf("of one that hangs: %v", err)
		}
	}
}

func TestAGPUWhoseDaemonDoesNotAnswerIsAskedMoreAndMoreRarely(t *testing.T) {
	b := newBench(t)
	now := time.Unix(0, 0)
	b.now, b.Answer = func() time.Time { return now }, 2*time.Second
	if err := b.serve(predict.Fill, me); err != nil {
		t.Fatal(err)
	}
	b.hang(0, true)
	b.Answer = 100 * time.Millisecond
	for _, wait := range []time.Duration{30, 60, 120, 240, 480, 600, 600} {
		asked := b.asked()
		for _, after := range []time.Duration{0, 1, wait - 2} { // whole seconds, from the last
			now = now.Add(after * time.Second)
			if err := b.serve(predict.LookAhead, me); !errors.Is(err, errNoAnswer) ||
				!strings.Contains(err.Error(), "asked again at") {
				t.Errorf("after %v s: %v", after, err)
			}
		}
		if n := b.asked() - asked; n != 1 {
			t.Errorf("asked %d times within %d s", n, wait)
		}
		now = now.Add(time.Second)
	}
	b.hang(0, false)
	b.Answer = 0
	if err := b.serve(predict.LookAhead, me); !errors.Is(err, errBegun) { // what it began meanwhile was not told
		t.Errorf("one that answers again: %v", err)
	}
	later := node.Run{Job: 2, UID: me, Stamped: now.UnixNano()}
	serve := func(want predict.Mode) {
		t.Helper()
		if mode, err := b.Serve(t.Context(), 0, []node.Run{later}); mode != want {
			t.Errorf("the next job: %s, %v, want %s", mode, err, want)
		}
	}
	serve(predict.Fill)
	b.hang(0, true)
	b.Answer = 100 * time.Millisecond
	serve(predict.LookAhead)
	now = now.Add(minBackoff)
	b.hang(0, false)
	b.Answer = 0
	later.Job, later.Stamped = 3, now.UnixNano()
	serve(predict.Fill) // and not only after as long as the last time
}

// TestADaemonThatDoesNotAnswerEndsWithItsJobs, and the next job has another at once.
func TestADaemonThatDoesNotAnswerEndsWithItsJobs(t *testing.T) {
	b := newBench(t)
	if err := b.serve(predict.Fill, me); err != nil {
		t.Fatal(err)
	}
	b.hang(0, true)
	b.Answer = 100 * time.Millisecond
	b.serve(predict.LookAhead, me)
	if len(b.of(me).processes()) != 1 {
		t.Error("it was ended under its job")
	}
	b.Answer = 0
	began := time.Now()
	if err := b.serve(predict.LookAhead); err != nil || len(b.of(me).processes()) > 0 {
		t.Errorf("with no job left there is %v (%v)", b.of(me).processes(), err)
	}
	if took := time.Since(began); took >= answerWithin {
		t.Errorf("it was asked to quit, for %v", took)
	}
	if err := b.serve(predict.Fill, me); err != nil {
		t.Error(err)
	}
}

// stamp has a job of this user on a GPU, as its prolog says.
func (b bench) stamp(job, gpu int) {
	b.t.Helper()
	environ := []string{fmt.Sprintf("SLURM_JOB_ID=%d", job), fmt.Sprintf("SLURM_JOB_UID=%d", me),
		fmt.Sprintf("SLURM_JOB_GPUS=%d", gpu), fmt.Sprintf(`SLURM_JOB_EXTRA={"v":1,"lua":0,"job":%d,"round":1,`+
			`"share":{"class":"low","gpu_memory_mib":1024}}`, job)}
	if err := node.Stamp(environ, b.Dir); err != nil {
		b.t.Fatal(err)
	}
	if _, err := os.Stat(node.StampPath(b.Dir, job)); err != nil {
		b.t.Fatal(err)
	}
}

func TestADaemonIsNotStoppedUnderItsJobs(t *testing.T) {
	b := newBench(t)
	if err := b.serve(predict.Fill, me); err != nil {
		t.Fatal(err)
	}
	left := func(what string) {
		t.Helper()
		err := b.Stop(t.Context())
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("GPU 0 and user %d is left", me)) ||
			!strings.Contains(err.Error(), what) || len(b.of(me).processes()) != 1 {
			t.Errorf("it has %v, and is stopped by %v, want that it is left: %s", b.of(me).processes(), err, what)
		}
	}
	b.stamp(17, 0)
	b.stamp(18, 1) // elsewhere
	left("jobs [17] run by it")
	path := node.StampPath(b.Dir, 17)
	if err := os.WriteFile(path, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	left("17.json")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := b.Stop(t.Context()); err != nil || len(b.of(me).processes()) > 0 {
		t.Errorf("with no job left there is %v (%v)", b.of(me).processes(), err)
	}
}

// TestWhereJobsTakeTurnsADaemonEndsWithTheLastOfItsJobs: another manager has started it.
func TestWhereJobsTakeTurnsADaemonEndsWithTheLastOfItsJobs(t *testing.T) {
	b := newBench(t)
	if err := b.serve(predict.Fill, me); err != nil {
		t.Fatal(err)
	}
	running := b.of(me).processes()
	b.Manager = &Manager{Dir: b.Dir, Program: b.Program}
	for _, jobs := range [][]int{{me}, {me + 1, me}, {me, me}} {
		err := b.Retire(t.Context(), 0, runs(jobs...))
		if err == nil || !strings.Contains(err.Error(), "is left until") {
			t.Errorf("jobs of %v: %v, want that it is left", jobs, err)
		}
		if now := b.of(me).processes(); !slices.Equal(now, running) {
			t.Errorf("jobs of %v: %v became %v", jobs, running, now)
		}
		if _, err := node.ReadFill(b.Dir, 0); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("tasks are still sent there: %v", err)
		}
	}
	if err := b.Retire(t.Context(), 0, runs(me+1)); err != nil || len(b.of(me).processes()) > 0 {
		t.Errorf("with none of his jobs left there is %v (%v)", b.of(me).processes(), err)
	}
	if err := b.Retire(t.Context(), 0, runs(me)); err != nil || len(b.of(me).processes()) > 0 {
		t.Errorf("for a job that begins there is %v (%v)", b.of(me).processes(), err)
	}
}
