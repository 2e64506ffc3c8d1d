package launcher

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// TestMain is also the launcher that tests start as a process of its own, since it is about this process's signals,
// children and end.
func TestMain(m *testing.M) {
	Exec()
	if text := os.Getenv("LAUNCH"); text != "" {
		os.Unsetenv("LAUNCH")
		var c Command
		if err := json.Unmarshal([]byte(text), &c); err != nil {
			panic(err)
		}
		c.Ignored = Ignored()
		c.Say = func(text string) { fmt.Println("said:", text) }
		if os.Getenv("PATTERN") != "" {
			c.Output = counting{}
		}
		if how := os.Getenv("BESIDE"); how != "" {
			c.Beside = append(c.Beside, func(ctx context.Context, _ int) { accompany(ctx, how) })
		}
		code, err := c.Run()
		if err != nil {
			fmt.Println("error:", err)
		}
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// accompany is what runs beside a command: it says when it is to end, and ends or hangs.
func accompany(ctx context.Context, how string) {
	fmt.Println("beside: begun")
	<-ctx.Done()
	fmt.Println("beside: ended")
	if how == "hangs" {
		time.Sleep(time.Hour)
	}
}

// counting says how much it was shown.
type counting struct{}

func (counting) Write(text []byte) (int, error) {
	fmt.Printf("copied: %d\n", len(text))
	return len(text), nil
}

// launched is a launcher that runs, without a terminal, as Slurm would start it.
type launched struct {
	t       *testing.T
	process *exec.Cmd
	lines   chan string
	seen    []string // all of them so far
	unread  []string // those that nobody has waited for
}

func shell(script string) Command {
	return Command{Argv: []string{"/bin/bash", "-c", script}, On: unix.SIGUSR1, Send: unix.SIGTERM, Exit: 98}
}

// launch starts a launcher and reads what it and its command print.
func launch(t *testing.T, c Command, env ...string) *launched {
	t.Helper()
	l := prepare(t, c, env...)
	l.process.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	l.process.Stdout, l.process.Stderr = in, in
	l.start(out)
	in.Close()
	return l
}

func prepare(t *testing.T, c Command, env ...string) *launched {
	t.Helper()
	text, err := json.Marshal(&struct { // of a Command, what a process can be told
		Argv     []string
		On, Send syscall.Signal
		To       Target
		Job      string
		Grace    time.Duration
		Exit     int
		Accept   []int
	}{c.Argv, c.On, c.Send, c.To, c.Job, c.Grace, c.Exit, c.Accept})
	if err != nil {
		t.Fatal(err)
	}
	l := &launched{t: t, process: exec.Command(os.Args[0]), lines: make(chan string, 1000)}
	l.process.Env = append(append(os.Environ(), env...), "LAUNCH="+string(text))
	return l
}

func (l *launched) start(out io.ReadCloser) {
	l.t.Helper()
	if err := l.process.Start(); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = l.process.Process.Kill() })
	go func() {
		defer close(l.lines)
		defer out.Close()
		for s := bufio.NewScanner(out); s.Scan(); {
			l.lines <- strings.TrimSpace(s.Text())
		}
	}()
}

// says waits for a line that begins so, and returns the rest of it.
func (l *launched) says(prefix string) string {
	l.t.Helper()
	for limit := time.After(20 * time.Second); ; {
		for k, line := range l.unread {
			if rest, is := strings.CutPrefix(line, prefix); is {
				l.unread = slices.Delete(l.unread, k, k+1)
				return strings.TrimSpace(rest)
			}
		}
		select {
		case line, more := <-l.lines:
			if !more {
				l.t.Fatalf("it ended without saying %q: %q", prefix, l.seen)
			}
			l.seen, l.unread = append(l.seen, line), append(l.unread, line)
		case <-limit:
			l.t.Fatalf("it does not say %q: %q", prefix, l.seen)
		}
	}
}

func (l *launched) signal(s syscall.Signal) {
	l.t.Helper()
	if err := l.process.Process.Signal(s); err != nil {
		l.t.Fatal(err)
	}
}

// ends waits for its end and returns its code, as the shell's $? would be.
func (l *launched) ends() int {
	l.t.Helper()
	ended := make(chan struct{})
	go func() {
		_ = l.process.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		l.t.Fatalf("it does not end: %q", l.seen)
	}
	return shellCode(l.process.ProcessState.Sys().(syscall.WaitStatus))
}

// rest is all that was printed. Only one that has ended has said everything.
func (l *launched) rest() []string {
	for line := range l.lines {
		l.seen = append(l.seen, line)
	}
	return l.seen
}

// loop waits for signals in the way of a shell script: each sleep is short, so that a trap is soon looked at.
const loop = "; echo ready; while :; do sleep 0.01; done"

func TestACommandThatNobodyAskedEndsAsItWould(t *testing.T) {
	for script, want := range map[string]int{
		"exit 0": 0, "exit 7": 7, "exit 98": 98, "exit 255": 255, "kill -KILL $$": 137, "kill -TERM $$": 143,
		"kill -SEGV $$": 139,
		"kill -USR2 $$": 140,
	} {
		if code := launch(t, shell(script)).ends(); code != want {
			t.Errorf("%s: %d, want %d", script, code, want)
		}
	}
}

func TestACommandThatCannotBeRunHasTheCodesOfAShell(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("#!/bin/sh\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"/no/such/file": 127, "no-such-command": 127, plain: 126, "/": 126} {
		c := shell("")
		c.Argv = []string{name}
		l := launch(t, c)
		if code := l.ends(); code != want {
			t.Errorf("%s: %d, want %d", name, code, want)
		}
		if said := l.rest(); len(said) != 1 || !strings.Contains(said[0], strconv.Quote(name)+": ") {
			t.Errorf("%s: %q does not say what was wrong", name, said)
		}
	}
}

func TestOneThatWasAskedAndHasSavedGivesWayAndOneThatCrashesDoesNot(t *testing.T) {
	for _, c := range []struct {
		script string // after it was asked
		accept []int
		want   int
	}{
		{"trap 'echo saved; exit 0' TERM", nil, 98},
		{"trap 'exit 98' TERM", nil, 98},
		{"trap 'exit 143' TERM", nil, 98},
		{"true", nil, 98}, // it dies of SIGTERM
		{"trap 'exit 3' TERM", nil, 3},
		{"trap 'exit 1' TERM", []int{255, 1}, 98},
		{"trap 'kill -SEGV $$' TERM", nil, 139},
		{"trap 'kill -KILL $$' TERM", nil, 137}, // by the kernel, for want of memory
	} {
		command := shell(c.script + loop)
		command.Accept = c.accept
		l := launch(t, command)
		l.says("ready")
		l.signal(unix.SIGUSR1)
		if code := l.ends(); code != c.want {
			t.Errorf("%s, accepting %v: %d, want %d: %q", c.script, c.accept, code, c.want, l.rest())
		}
	}
}

func TestTheCodeOfTheSiteIsTheOneToLeaveWith(t *testing.T) {
	c := shell("trap 'exit 0' TERM" + loop)
	c.Exit = 85
	l := launch(t, c)
	l.says("ready")
	l.signal(unix.SIGUSR1)
	if code := l.ends(); code != 85 {
		t.Errorf("%d, want 85", code)
	}
}

func TestTheSignalThatAsksIsTurnedIntoTheOneThatIsListenedTo(t *testing.T) {
	for _, c := range [][2]syscall.Signal{
		{unix.SIGUSR1, unix.SIGTERM}, {unix.SIGUSR1, unix.SIGUSR2}, {unix.SIGUSR2, unix.SIGUSR1},
		{unix.SIGUSR1, unix.SIGUSR1},
		{unix.SIGTERM, unix.SIGINT}, {unix.SIGHUP, unix.SIGTERM}, {unix.SIGINT, unix.SIGQUIT},
		{unix.SIGTERM, unix.SIGTERM},
	} {
		command := shell("for s in HUP INT QUIT USR1 USR2 TERM; do trap \"echo got $s; exit 0\" $s; done" + loop)
		command.On, command.Send = c[0], c[1]
		l := launch(t, command)
		l.says("ready")
		l.signal(c[0])
		if got := l.says("got"); got != name(c[1]) {
			t.Errorf("%s is turned into %s, want %s", name(c[0]), got, name(c[1]))
		}
		if code := l.ends(); code != 98 {
			t.Errorf("%v: %d, want 98", c, code)
		}
	}
}

func TestAllOtherSignalsReachTheCommandAsTheyAre(t *testing.T) {
	signals := []syscall.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGUSR2, unix.SIGALRM, unix.SIGWINCH,
		unix.SIGCONT, unix.SIGTERM, 35, 40, 64}
	l := launch(t,
		shell(
			`for s in HUP INT QUIT USR2 ALRM WINCH CONT TERM 35 40 64; do trap "echo got $s" $s; done; trap "exit 5" PWR`+loop))
	l.says("ready")
	for _, s := range signals {
		l.signal(s)
		if got := l.says("got"); got != name(s) && got != strconv.Itoa(int(s)) {
			t.Errorf("%s arrives as %s", name(s), got)
		}
	}
	l.signal(unix.SIGPWR)
	if code := l.ends(); code != 5 {
		t.Errorf("%d, want its own, 5: nobody has asked it", code)
	}
}

func TestASecondRequestIsNotPassedOn(t *testing.T) {
	l := launch(t, shell("trap 'echo got it' TERM; trap 'exit 0' HUP"+loop))
	l.says("ready")
	l.signal(unix.SIGUSR1)
	l.says("got it")
	l.signal(unix.SIGUSR1)
	l.signal(unix.SIGHUP) // signals of different numbers may overtake each other only before they are read
	if code := l.ends(); code != 98 {
		t.Errorf("%d, want 98", code)
	}
	if said := l.rest(); slices.Contains(said[slices.Index(said, "got it")+1:], "got it") {
		t.Errorf("it was asked twice: %q", said)
	}
}

// Slurm signals all processes of a step where it tracks them by their parents.
func TestNoProcessOfTheCommandDiesOfTheSignalThatAsks(t *testing.T) {
	l := launch(t, shell("sleep 1000 & trap 'kill $!; exit 0' TERM; echo pids $$ $!"+loop))
	pids := numbers(t, l.says("pids"))
	l.says("ready")
	for _, pid := range pids {
		if err := unix.Kill(pid, unix.SIGUSR1); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(50 * time.Millisecond)
	for _, pid := range pids {
		if gone(pid) {
			t.Errorf("%d of %v has died of it", pid, pids)
		}
	}
	l.signal(unix.SIGUSR1)
	if code := l.ends(); code != 98 {
		t.Errorf("%d, want 98", code)
	}
}

func numbers(t *testing.T, text string) (all []int) {
	t.Helper()
	for word := range strings.FieldsSeq(text) {
		n, err := strconv.Atoi(word)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		all = append(all, n)
	}
	return all
}

// gone says that there is no such process, or that it is dead.
func gone(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	p, ok := parseStat(pid, text)
	return ok && p.dead
}

func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// torchrun dies of what it does not know, and ends its workers by what it knows.
const likeTorchrun = `
trap 'echo "the launcher was signalled"; exit 1' USR1 USR2 TERM
worker() { trap 'echo "worker $1 saves"; exit 0' TERM; echo "worker $1"; while :; do sleep 0.01; done; }
worker 1 & worker 2 & wait %1; wait %2; echo all done`

func TestTheChildrenAreAskedAndNotTheirLauncher(t *testing.T) {
	c := shell(likeTorchrun)
	c.To = Children
	l := launch(t, c)
	l.says("worker")
	l.says("worker")
	l.signal(unix.SIGUSR1)
	if code := l.ends(); code != 98 {
		t.Errorf("%d, want 98", code)
	}
	said := strings.Join(l.rest(), "\n")
	if !strings.Contains(said, "worker 1 saves") || !strings.Contains(said, "worker 2 saves") ||
		strings.Contains(said, "was signalled") {
		t.Error(said)
	}
}

func TestWhereThereAreNoChildrenYetTheCommandIsAsked(t *testing.T) {
	c := shell("")
	c.Argv, c.To = []string{"/bin/sleep", "1000"}, Children
	l := launch(t, c)
	waitFor(t, "it sleeps", func() bool {
		return slices.ContainsFunc(children(l.process.Process.Pid), func(p process) bool {
			name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", p.pid))
			return string(name) == "sleep\n"
		})
	})
	l.signal(unix.SIGUSR1)
	if code := l.ends(); code != 98 {
		t.Errorf("%d, want 98", code)
	}
}

func TestTheWholeGroupIsAskedWhereThatIsSaid(t *testing.T) {
	c := shell(
		"(trap 'echo inner; exit' TERM; echo here; while :; do sleep 0.01; done) & trap 'wait; echo outer; exit " +
			"0' TERM" + loop)
	c.To = Group
	l := launch(t, c)
	l.says("here")
	l.says("ready")
	l.signal(unix.SIGUSR1)
	l.says("inner")
	l.says("outer")
	if code := l.ends(); code != 98 {
		t.Errorf("%d, want 98", code)
	}
}

// The scancel of this test is a script that fails once, as while slurmctld is away, and then signals the task.
func TestTheStepsAreAskedThroughSlurmUntilItAnswers(t *testing.T) {
	folder := t.TempDir()
	scancel := fmt.Sprintf(
		"#!/bin/bash\necho \"$*\" >> %[1]s/said\n[ $(wc -l < %[1]s/said) -gt 1 ] || { echo Unable to contact; exit "+
			"1; }\nkill -TERM $(cat %[1]s/task)\n", folder)
	if err := os.WriteFile(filepath.Join(folder, "scancel"), []byte(scancel), 0o755); err != nil {
		t.Fatal(err)
	}
	c := shell(
		fmt.Sprintf(
			"trap 'echo srun was signalled; exit 1' TERM USR1; bash -c 'trap \"exit 0\" TERM; echo $$ > %s/task; "+
				"echo ready; while :; do sleep 0.01; done' & wait $!", folder))
	c.To, c.Job = Steps, "17_4"
	l := launch(t, c, "PATH="+folder+":"+os.Getenv("PATH"))
	l.says("ready")
	l.signal(unix.SIGUSR1)
	if again := l.says("said: scancel"); !strings.Contains(again, "Unable to contact") {
		t.Errorf("%q", again)
	}
	if code := l.ends(); code != 98 {
		t.Errorf("%d, want 98: %q", code, l.rest())
	}
	if said, err := os.ReadFile(folder + "/said"); err != nil ||
		string(said) != "--signal=TERM 17_4\n--signal=TERM 17_4\n" {
		t.Errorf("scancel was told %q, %v", said, err)
	}
}

func TestOneThatDoesNotLeaveWithinItsGraceIsEndedAndGivesWay(t *testing.T) {
	c := shell("trap 'echo deaf' USR2; trap 'exit 5' TERM" + loop) // a code that is a failure otherwise
	c.Send, c.Grace = unix.SIGUSR2, 200*time.Millisecond
	l := launch(t, c)
	l.says("ready")
	l.signal(unix.SIGUSR1)
	l.says("deaf")
	l.says("said: it has not left within 200ms")
	if code := l.ends(); code != 98 {
		t.Errorf("%d, want 98", code)
	}
}

func TestWhatACommandLeavesBehindIsEnded(t *testing.T) {
	l := launch(t,
		shell(
			"setsid sleep 1000 & setsid bash -c 'trap \"\" TERM; sleep 1000 & echo pid $!; echo pid $$; wait' & echo "+
				"pid $!; sleep 0.3; exit 4"))
	var pids []int
	for range 3 {
		pids = append(pids, numbers(t, l.says("pid"))...)
	}
	began := time.Now()
	if code := l.ends(); code != 4 {
		t.Errorf("%d, want 4", code)
	}
	for _, pid := range pids {
		if !gone(pid) {
			t.Errorf("%d of %v goes on", pid, pids)
		}
	}
	if took := time.Since(began); took < tidy {
		t.Errorf("what ignores SIGTERM was given %s to end", took)
	}
}

func TestWhoWasHereBeforeTheCommandIsLeftAlone(t *testing.T) {
	c := shell("exit 0")
	l := prepare(t, c)
	l.process.Path, l.process.Args = "/bin/bash", []string{"bash", "-c", "sleep 1000 & echo pid $!; exec " + os.Args[0]}
	l.process.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := l.process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	l.start(out)
	pid := numbers(t, l.says("pid"))[0]
	defer func() { _ = unix.Kill(pid, unix.SIGKILL) }()
	if code := l.ends(); code != 0 {
		t.Errorf("%d, want 0", code)
	}
	if gone(pid) {
		t.Error("a process of the script was ended with the command")
	}
}

func TestOrphansAreReapedWhileTheCommandRuns(t *testing.T) {
	l := launch(t, shell("for i in 1 2 3; do (sleep 1000 & echo orphan $!); done; trap 'exit 0' TERM"+loop))
	var pids []int
	for range 3 {
		pids = append(pids, numbers(t, l.says("orphan"))...)
	}
	l.says("ready")
	for _, pid := range pids {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		waitFor(t, "it is reaped", func() bool {
			_, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
			return os.IsNotExist(err)
		})
	}
	l.signal(unix.SIGUSR1)
	if code := l.ends(); code != 98 {
		t.Errorf("%d, want 98", code)
	}
}

func TestACommandWhoseLauncherIsKilledIsToldToEnd(t *testing.T) {
	l := launch(t, shell("trap 'echo ends; exit 0' TERM"+loop))
	l.says("ready")
	l.signal(unix.SIGKILL)
	l.says("ends")
}

func TestUnderNohupACommandDoesNotDieWithItsTerminal(t *testing.T) {
	c := shell("sleep 1000")
	c.Argv = []string{"/bin/bash", "-c", "echo ready; exec sleep 1000"}
	l := prepare(t, c)
	l.process.Path, l.process.Args = "/bin/sh", []string{"sh", "-c", "trap '' HUP; exec " + os.Args[0]}
	l.process.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := l.process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	l.start(out)
	l.says("ready")
	l.signal(unix.SIGHUP)
	for _, p := range children(l.process.Process.Pid) {
		_ = unix.Kill(p.pid, unix.SIGHUP)
	}
	time.Sleep(50 * time.Millisecond)
	l.signal(unix.SIGTERM)
	if code := l.ends(); code != 143 {
		t.Errorf("%d, want the 143 of the SIGTERM that came last", code)
	}
}

func TestWhoReadsAlongIsShownAllThatIsPrinted(t *testing.T) {
	l := launch(t, shell("printf 12345; sleep 0.1; printf 123 >&2; exit 6"), "PATTERN=yes")
	if code := l.ends(); code != 6 {
		t.Errorf("%d, want 6", code)
	}
	if said := strings.Join(l.rest(), " "); !strings.Contains(said, "12345copied: 5") ||
		!strings.Contains(said, "123copied: 3") {
		t.Error(said)
	}
}

// TestWhatRunsBesideACommandEndsBeforeItSaves: it may hold its cores.
func TestWhatRunsBesideACommandEndsBeforeItSaves(t *testing.T) {
	for _, s := range []syscall.Signal{unix.SIGUSR1, unix.SIGTERM} {
		l := launch(t, shell(`trap "trap - TERM; echo asked" TERM`+loop), "BESIDE=ends")
		l.says("ready")
		l.says("beside: begun")
		l.signal(s)
		l.says("beside: ended")
		l.says("asked")
		l.signal(unix.SIGTERM)
		l.ends()
	}
}

func TestWhatHangsBesideACommandDoesNotHoldItUp(t *testing.T) {
	l := launch(t, shell("echo done; exit 7"), "BESIDE=hangs")
	l.says("done")
	l.says("said: what ran beside it hangs")
	if code := l.ends(); code != 7 {
		t.Errorf("ended with %d, want 7", code)
	}
}

func TestAtATerminalTheCommandReadsItAndIsInterruptedOnce(t *testing.T) {
	c := shell("trap 'echo interrupted' INT; trap 'exit 3' HUP; read line; echo read $line" + loop)
	l := prepare(t, c)
	terminal, slave := pty(t)
	l.process.Stdin, l.process.Stdout, l.process.Stderr = slave, slave, slave
	l.process.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	l.start(terminal)
	slave.Close()
	if _, err := terminal.WriteString("hello\n"); err != nil {
		t.Fatal(err)
	}
	l.says("read hello")
	l.says("ready")
	if _, err := terminal.WriteString("\x03"); err != nil {
		t.Fatal(err)
	}
	l.says("^Cinterrupted")
	l.signal(unix.SIGHUP)
	if code := l.ends(); code != 3 {
		t.Errorf("%d, want 3", code)
	}
	if said := l.rest(); slices.Contains(said, "interrupted") {
		t.Errorf("it was interrupted twice: %q", said)
	}
}

// pty is a terminal: what a person has, and what a process has.
func pty(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	return master, slave
}

func TestNoGoroutineOutlivesACommand(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	c := shell("exit 3")
	c.Say = func(string) {}
	if code, err := c.Run(); code != 3 || err != nil {
		t.Errorf("%d, %v", code, err)
	}
}
