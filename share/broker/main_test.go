package broker_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/share"
	"github.com/synergy-slurmd/synergy-slurmd/share/broker"
	"github.com/synergy-slurmd/synergy-slurmd/share/node"
	"github.com/synergy-slurmd/synergy-slurmd/share/turns"
	"github.com/synergy-slurmd/synergy-slurmd/share/wire"
)

// role is what this program is when a test starts it again: a slurmstepd, a job's process, or a broker that is killed.
const role = "BROKER_TEST_ROLE"

func TestMain(m *testing.M) {
	play, is := map[string]func(){
		"stepd": playStepd, "hold": playHolder, "cycle": playCycler, "inherit": playInherited, "sit": playSitter,
		"ignore": playIgnorer, "broker": playBroker, "forge": playForger,
		"slow": playSlow, "tick": playTicker,
	}[os.Getenv(role)]
	if is {
		play()
		os.Exit(0)
	}
	code := m.Run()
	if path, err := program(); err == nil {
		os.RemoveAll(filepath.Dir(path))
	}
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// patience is for what comes at once on a machine that has time.
const patience = 20 * time.Second

// here is the proc of this machine, where what is root's on a node is whoever's runs the tests.
func here() broker.Proc {
	return broker.Proc{Root: "/proc", Cgroups: "/sys/fs/cgroup", Owner: os.Getuid()}
}

// bench is a broker in this process.
type bench struct {
	*broker.Broker
	dir  string
	stop func()
}

// serve starts a broker of GPU 0 and 1 in this process, until the test ends.
func serve(t testing.TB, change func(*broker.Config)) *bench {
	t.Helper()
	c := config(t.TempDir())
	if change != nil {
		change(&c)
	}
	b := &bench{Broker: broker.New(c), dir: c.RunDir}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Serve(ctx) }()
	b.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the broker ended: %v", err)
		}
	})
	t.Cleanup(b.stop)
	await(t, "its last socket", func() bool {
		conn, err := net.Dial("unix", broker.AdminPath(c.RunDir))
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return b
}

func config(dir string) broker.Config {
	return broker.Config{RunDir: dir, GPUs: []int{0, 1}, Rules: turns.Rules{}, Proc: here(),
		Log: slog.New(slog.DiscardHandler)}
}

// ofJob makes all that connects from this process a client of that job.
func ofJob(job int) func(*broker.Config) {
	return func(c *broker.Config) {
		c.Identify = func(pid, _ int) (int, error) {
			if pid != os.Getpid() {
				return here().Job(pid, os.Getuid())
			}
			return job, nil
		}
	}
}

func await(t testing.TB, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("there is still not %s", what)
		}
	}
}

// stamp writes what the prolog writes.
func stamp(t testing.TB, dir string, job, gpu int, class share.Class, mib gres.Memory) {
	t.Helper()
	stampOf(t, dir, share.Stamp{V: share.StampVersion, Job: job, UID: os.Getuid(), GPU: gpu, Class: class, Memory: mib})
}

func stampOf(t testing.TB, dir string, s share.Stamp) {
	t.Helper()
	text, err := json.Marshal(s)
	if err == nil {
		err = os.MkdirAll(filepath.Join(dir, "jobs"), 0o755)
	}
	if err == nil {
		err = os.WriteFile(node.StampPath(dir, s.Job), text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// caller is a client in this process.
type caller struct {
	t    testing.TB
	conn net.Conn
	from *wire.Reader
	seq  uint64
}

func dial(t testing.TB, dir string, gpu int) *caller {
	t.Helper()
	conn, err := net.Dial("unix", node.SocketPath(dir, gpu))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &caller{t: t, conn: conn, from: wire.NewReader(conn)}
}

// join dials and is welcome.
func join(t testing.TB, dir string, gpu int) *caller {
	t.Helper()
	c := dial(t, dir, gpu)
	c.send(wire.Message{Type: wire.Hello, PID: os.Getpid(), Kind: "test"})
	c.want(wire.Welcome)
	return c
}

func (c *caller) send(m wire.Message) {
	c.t.Helper()
	line, err := wire.Encode(m)
	if err == nil {
		_, err = c.conn.Write(line)
	}
	if err != nil {
		c.t.Fatalf("send %+v: %v", m, err)
	}
}

func (c *caller) ask() {
	c.t.Helper()
	c.seq++
	c.send(wire.Message{Type: wire.Ask, Seq: c.seq})
}

func (c *caller) release() {
	c.t.Helper()
	c.send(wire.Message{Type: wire.Release, Seq: c.seq})
}

func (c *caller) want(kind wire.Type) wire.Message {
	c.t.Helper()
	m, err := c.next(patience)
	if err != nil || m.Type != kind {
		c.t.Fatalf("heard %+v, %v, want %s", m, err, kind)
	}
	return m
}

func (c *caller) next(within time.Duration) (wire.Message, error) {
	if err := c.conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		return wire.Message{}, err
	}
	return c.from.Next()
}

// quiet says that for a while nothing is said to it.
func (c *caller) quiet() {
	c.t.Helper()
	if m, err := c.next(30 * time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("heard %+v, %v, want nothing", m, err)
	}
}

// refused says that it hears an error with that code and then the end.
func (c *caller) refused(code string) wire.Message {
	c.t.Helper()
	m := c.want(wire.Error)
	if m.Code != code || m.Text == "" {
		c.t.Fatalf("refused by %+v, want the code %s and a sentence", m, code)
	}
	c.ended()
	return m
}

func (c *caller) ended() {
	c.t.Helper()
	_, err := c.next(patience)
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("the connection is still there: %v", err)
	}
}

// program is this one, under the name of Slurm's.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "broker-test")
	if err != nil {
		return "", err
	}
	own, err := os.Open("/proc/self/exe")
	if err != nil {
		return "", err
	}
	defer own.Close()
	path := filepath.Join(dir, "slurmstepd")
	copied, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o755)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(copied, own)
	return path, errors.Join(err, copied.Close(), os.Chmod(dir, 0o755))
})

// child is a process that a test has started, and what it says.
type child struct {
	t    testing.TB
	cmd  *exec.Cmd
	says *bufio.Scanner
	pid  int // of the job's process, where it stands below a slurmstepd

	mu   sync.Mutex
	said map[string]int // by drain
}

// start runs this program in that role, outside of any job.
func start(t testing.TB, what string, args []string, env ...string) *child {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return run(t, exec.Command(self, args...), append(env, role+"="+what))
}

func run(t testing.TB, cmd *exec.Cmd, env []string) *child {
	t.Helper()
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{t: t, cmd: cmd, says: bufio.NewScanner(out), pid: cmd.Process.Pid}
	t.Cleanup(c.kill)
	return c
}

// startJob runs this program in that role below a slurmstepd of that job, as that user.
func startJob(t testing.TB, job, uid int, what string, args ...string) *child {
	t.Helper()
	return startBelow(t, job, uid, os.Getuid(), what, args...)
}

// startBelow says whose the slurmstepd is, too.
func startBelow(t testing.TB, job, uid, above int, what string, args ...string) *child {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	cmd := &exec.Cmd{Path: path, Args: append([]string{fmt.Sprintf("slurmstepd: [%d.batch]", job)}, args...)}
	if above != os.Getuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(above), Gid: uint32(above)}}
	}
	c := run(t, cmd, []string{role + "=stepd", "BROKER_TEST_CHILD=" + what, "BROKER_TEST_UID=" + strconv.Itoa(uid),
		"SLURM_JOB_ID=" + strconv.Itoa(job)})
	pid, err := strconv.Atoi(strings.TrimPrefix(c.line(), "started "))
	if err != nil {
		t.Fatal(err)
	}
	c.pid = pid
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	return c
}

// line is the next that it says.
func (c *child) line() string {
	c.t.Helper()
	if !c.says.Scan() {
		c.t.Fatalf("process %d has ended: %v", c.pid, c.says.Err())
	}
	return c.says.Text()
}

// hears waits until it says that.
func (c *child) hears(what string) {
	c.t.Helper()
	for c.line() != what {
	}
}

// drain reads all that it says, and counts it.
func (c *child) drain() {
	for c.says.Scan() {
		c.mu.Lock()
		if c.said == nil {
			c.said = map[string]int{}
		}
		c.said[c.says.Text()]++
		c.mu.Unlock()
	}
}

// count is how often drain has read that.
func (c *child) count(what string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.said[what]
}

// kill ends it at once, and waits until it is gone.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

// stands says whether a process is stopped.
func stands(t testing.TB, pid int) bool {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "State:\t")
	return strings.HasPrefix(after, "T")
}

type settings = broker.Config

// identifyBy makes each client one of the next job of the channel.
func identifyBy(jobs chan int) func(*broker.Config) {
	return func(c *broker.Config) { c.Identify = func(int, int) (int, error) { return <-jobs, nil } }
}

// quietFor says that nothing was heard of a process for so long.
func quietFor(c *child, d time.Duration) bool {
	ticks := c.count("tick")
	time.Sleep(d)
	return c.count("tick") == ticks
}
