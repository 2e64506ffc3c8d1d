package client_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/share/client"
	"github.com/synergy-slurmd/synergy-slurmd/share/client/clienttest"
	"github.com/synergy-slurmd/synergy-slurmd/share/wire"
)

const inC = "../../contrib/share/"

// compile makes a program with the client in C, by whatever C compiler the machine has.
func compile(t *testing.T, source string, more ...string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	args := append([]string{"-std=c11", "-O2", "-Wall", "-Wextra", "-Wshadow", "-Wformat=2", "-Wconversion", "-Werror",
		"-I", inC, "-o", program, source, inC + "synergy_turn.c"}, more...)
	if said, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
		t.Fatalf("cc %v: %v\n%s", args, err, said)
	}
	return program
}

// counted is what testdata/steps.c says at its end.
type counted struct {
	Steps, Grants, Unmanaged, Drained int
	Waited                            int `json:"waited_us"`
}

// steps runs it.
func steps(t *testing.T, program, path string, n int, step, gap time.Duration, how, file string) (counted, error) {
	t.Helper()
	said, err := exec.Command("timeout", "60", program, path, strconv.Itoa(n), us(step), us(gap), how, file).Output()
	var c counted
	if err == nil {
		err = json.Unmarshal(said, &c)
	}
	return c, err
}

func us(d time.Duration) string { return strconv.FormatInt(d.Microseconds(), 10) }

func TestInCAStepThatIsFollowedAtOnceKeepsTheGPU(t *testing.T) {
	program, file := compile(t, "testdata/steps.c"), filepath.Join(t.TempDir(), "gpu")
	b := (&clienttest.Broker{}).Start(t, socket(t))
	c, err := steps(t, program, b.Path(), 100, time.Millisecond, 0, "next", file)
	if err != nil || c.Steps != 100 || c.Grants != 1 || c.Drained != 1 || b.Said(wire.Release) != 1 {
		t.Errorf("100 steps behind each other: %+v, %v", c, err)
	}
	c, err = steps(t, program, b.Path(), 100, time.Millisecond, 0, "end", file)
	if err != nil || c.Steps != 100 || c.Grants != 100 || c.Drained != 100 || b.Said(wire.Release) != 101 {
		t.Errorf("100 steps apart: %+v, %v", c, err)
	}
	if used := b.Used(); used < 200*time.Millisecond || used > 5*time.Second {
		t.Errorf("200 steps of a millisecond are said to have used the GPU for %v", used)
	}
	nothingWrong(t, b)
}

func TestInCAStepThatBeginsAfterTheLeaseIsAskedForAnew(t *testing.T) {
	program := compile(t, "testdata/steps.c")
	b := (&clienttest.Broker{Lease: 250 * time.Millisecond}).Start(t, socket(t))
	c, err := steps(t, program, b.Path(), 4, 150*time.Millisecond, 0, "next", filepath.Join(t.TempDir(), "gpu"))
	if err != nil || c.Grants != 2 {
		t.Errorf("four steps of 150 ms in leases of 250: %+v, %v", c, err)
	}
	nothingWrong(t, b)
}

func TestInCTwoProgramsNeverUseTheGPUAtOnce(t *testing.T) {
	program, file := compile(t, "testdata/steps.c"), filepath.Join(t.TempDir(), "gpu")
	b := (&clienttest.Broker{}).Start(t, socket(t))
	var all sync.WaitGroup
	for _, how := range []string{"next", "end", "next"} {
		all.Go(func() {
			c, err := steps(t, program, b.Path(), 100, 300*time.Microsecond, 0, how, file)
			if err != nil || c.Steps != 100 || c.Unmanaged != 0 {
				t.Errorf("%s: %+v, %v", how, c, err)
			}
		})
	}
	all.Wait()
	nothingWrong(t, b)
}

func TestInCAProgramRunsOnWithoutABroker(t *testing.T) {
	program, file := compile(t, "testdata/steps.c"), filepath.Join(t.TempDir(), "gpu")
	c, err := steps(t, program, socket(t), 100, 0, 0, "next", file)
	if err != nil || c.Unmanaged != 100 {
		t.Errorf("without a broker: %+v, %v", c, err)
	}
	silent := (&clienttest.Broker{Silent: true}).Start(t, socket(t))
	began := time.Now()
	c, err = steps(t, program, silent.Path(), 100, 0, 0, "end", file)
	if err != nil || c.Unmanaged != 100 || time.Since(began) > 5*time.Second {
		t.Errorf("with a broker that says nothing: %+v, %v after %v", c, err, time.Since(began))
	}
	late := socket(t)
	time.AfterFunc(200*time.Millisecond, func() { (&clienttest.Broker{}).Start(t, late) })
	c, err = steps(t, program, late, 400, 0, 5*time.Millisecond, "end", file)
	if err != nil || c.Unmanaged == 0 || c.Grants == 0 {
		t.Errorf("with a broker that comes later: %+v, %v", c, err)
	}
}

func TestInCWhoWaitsForABrokerThatDiesOrIsStoppedRunsOn(t *testing.T) {
	program := compile(t, "testdata/steps.c", "-DLIFE_EVERY=100000LL")
	b := (&clienttest.Broker{Deaf: true}).Start(t, socket(t))
	time.AfterFunc(500*time.Millisecond, b.Stop)
	c, err := steps(t, program, b.Path(), 1, 0, 0, "end", filepath.Join(t.TempDir(), "gpu"))
	if err != nil || c.Unmanaged != 1 || c.Waited < 200_000 {
		t.Errorf("a broker that dies: %+v, %v", c, err)
	}
	if b.Said(wire.Hello) < 2 {
		t.Error("a broker that grants nothing was not asked whether it lives")
	}
	path := socket(t)
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		if conn, err := listener.Accept(); err == nil { // and nobody else is answered
			line, _ := wire.Encode(wire.Message{Type: wire.Welcome})
			_, _ = conn.Write(line)
		}
	}()
	c, err = steps(t, program, path, 1, 0, 0, "end", filepath.Join(t.TempDir(), "gpu"))
	if err != nil || c.Unmanaged != 1 {
		t.Errorf("a broker that is stopped: %+v, %v", c, err)
	}
}

func TestInCOnlyTooMuchMemoryEndsAProgram(t *testing.T) {
	program := compile(t, "testdata/steps.c")
	for code, want := range map[string]int{wire.MemoryCap: 75, wire.NotSharing: 0, wire.UnknownJob: 0} {
		b := (&clienttest.Broker{Refuse: code}).Start(t, socket(t))
		c, err := steps(t, program, b.Path(), 3, 0, 0, "end", filepath.Join(t.TempDir(), "gpu"))
		var exit *exec.ExitError
		if got := errors.As(err, &exit) && exit.ExitCode() == 75; got != (want == 75) || !got && c.Unmanaged != 3 {
			t.Errorf("%s: %+v, %v", code, c, err)
		}
	}
}

func TestInCAChildDoesNotKeepADeadProgramsTurn(t *testing.T) {
	program := compile(t, "testdata/steps.c")
	b := (&clienttest.Broker{}).Start(t, socket(t))
	command := exec.Command(program, b.Path(), "1", "0", "0", "fork", "/nowhere")
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "child\n" || !b.Held() {
		t.Fatalf("said %q (%v), held %v", line, err, b.Held())
	}
	_ = command.Process.Kill()
	within(t, 5*time.Second, "the dead program's turn is over", func() bool { return !b.Held() })
	nothingWrong(t, b)
}

func TestInCWhoKnowsNoStepsIsToldWhenItsTurnIsOver(t *testing.T) {
	program := compile(t, "testdata/wanted.c")
	for name, c := range map[string]struct {
		lease time.Duration
		end   func(*clienttest.Broker)
		left  int // releases that are said
	}{
		"somebody wants it":  {0, (*clienttest.Broker).Want, 1},
		"the broker is gone": {0, (*clienttest.Broker).Stop, 0},
		"the lease is over":  {300 * time.Millisecond, func(*clienttest.Broker) {}, 1},
	} {
		b := (&clienttest.Broker{Lease: c.lease}).Start(t, socket(t))
		command := exec.Command("timeout", "60", program, b.Path())
		out, err := command.StdoutPipe()
		if err == nil {
			err = command.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(out)
		if line, err := lines.ReadString('\n'); line != "began\n" {
			t.Fatalf("%s: said %q, %v", name, line, err)
		}
		c.end(b)
		line, _ := lines.ReadString('\n')
		if err := command.Wait(); err != nil || line != "wanted\n" {
			t.Errorf("%s: said %q, %v", name, line, err)
		}
		within(t, 5*time.Second, name+", so it is released", func() bool { return b.Said(wire.Release) == c.left })
		nothingWrong(t, b)
	}
}

func TestTheExampleInCTakesTurns(t *testing.T) {
	program := compile(t, inC+"example.c")
	b := (&clienttest.Broker{}).Start(t, socket(t))
	command := exec.Command(program, "10")
	command.Env = []string{"SYNERGY_TURN_SOCK=" + b.Path()}
	said, err := command.Output()
	if err != nil || !strings.HasPrefix(string(said), "10 steps, 10 grants, 0 without a broker") {
		t.Errorf("%v: %s", err, said)
	}
	nothingWrong(t, b)
}

// TestALateTimerGivesNothingBackTwice: a timer of the step before may fire in the next.
func TestALateTimerGivesNothingBackTwice(t *testing.T) {
	b := (&clienttest.Broker{}).Start(t, socket(t))
	c := open(t, b.Path())
	for range 50 {
		step(t, c, 0)
		time.Sleep(client.Idle - 100*time.Microsecond)
	}
	nothingWrong(t, b)
}

// FuzzWhatABrokerSaysInC: no bytes make the client in C touch what is not its own, or stop the program. Each input is
// said to a program that was built to notice.
func FuzzWhatABrokerSaysInC(f *testing.F) {
	program := filepath.Join(f.TempDir(), "steps")
	if said, err := exec.Command("cc", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-I", inC,
		"-DFIRST_RETRY=0LL", "-DANSWER_WITHIN=20000LL", "-DLIFE_EVERY=20000LL",
		"-o", program, "testdata/steps.c", inC+"synergy_turn.c").CombinedOutput(); err != nil {
		f.Fatalf("cc: %v\n%s", err, said)
	}
	welcome := `{"v":1,"type":"WELCOME"}` + "\n"
	grant := `{"v":1,"type":"GRANT","seq":1,"lease_us":99999999999999999999999}` + "\n"
	for _, said := range []string{"", "\n\n\n", "{", welcome, welcome + grant,
		welcome + grant + `{"type":"YIELD","seq":1}`, welcome + strings.Repeat("x", 5000), welcome + "\x00\n\x00",
		`"type"`, `"type":`, `"type" "ERR"` + "\n" + welcome, strings.Repeat(welcome, 300) + grant} {
		f.Add([]byte(said))
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		path := filepath.Join(t.TempDir(), "s")
		listener, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		all.Go(func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				_, _ = conn.Write(said)
				_ = conn.Close()
			}
		})
		file := filepath.Join(t.TempDir(), "gpu")
		out, err := exec.Command("timeout", "20", program, path, "3", "0", "0", "next", file).CombinedOutput()
		_ = listener.Close()
		all.Wait()
		var exit *exec.ExitError
		if err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 75) {
			t.Errorf("%q: %v\n%s", said, err, out)
		}
	})
}
