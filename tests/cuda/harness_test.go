//go:build preload

// Package cuda tests the library that has CUDA programs take turns (contrib/share/cuda), with a program that knows
// nothing of them and a libcuda.so.1 of its own: behind that is no GPU but a queue of kernels in a file, which the
// processes of a test share, and in which stands afterwards what was on it when. The broker is the node's.
package cuda

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
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
	"unsafe"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/share"
	"github.com/synergy-slurmd/synergy-slurmd/share/broker"
	"github.com/synergy-slurmd/synergy-slurmd/share/node"
	"github.com/synergy-slurmd/synergy-slurmd/share/turns"
)

const (
	sources  = "../../contrib/share/cuda"
	patience = 60 * time.Second
)

// built is a folder with the library, the driver and the programs.
type built struct{ dir string }

func (b built) path(name string) string { return filepath.Join(b.dir, name) }

var plain, sanitized = sync.OnceValues(func() (built, error) { return build() }),
	sync.OnceValues(func() (built, error) {
		return build("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
	})

func TestMain(m *testing.M) {
	code := m.Run()
	for _, folder := range folders {
		os.RemoveAll(folder)
	}
	os.Exit(code)
}

var folders []string

// build compiles all of it. The library is made as an administrator makes it.
func build(flags ...string) (built, error) {
	dir, err := os.MkdirTemp("", "cuda-test")
	if err != nil {
		return built{}, err
	}
	folders = append(folders, dir)
	b := built{dir}
	versions := "STUB_1 { global: cu*; local: *; };"
	if err := os.WriteFile(b.path("versions"), []byte(versions), 0o644); err != nil {
		return built{}, err
	}
	gcc := func(args ...string) []string {
		strict := []string{"gcc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-I", sources}
		return slices.Concat(strict, flags, args)
	}
	for _, command := range [][]string{
		{"make", "--no-print-directory", "-C", "../..", "-f", "mk/share.mk", "share-preload",
			"PRELOAD=" + b.path("synergy.so"), "PRELOAD_FLAGS=" + strings.Join(flags, " ")},
		gcc("-fPIC", "-shared", "-Wl,-Bsymbolic,-soname,libcuda.so.1", "-Wl,--version-script="+b.path("versions"), "-o",
			b.path("libcuda.so.1"), "testdata/libcuda.c"),
		gcc("-o", b.path("program"), "testdata/program.c", "-pthread", "-ldl"),
		gcc("-DDIRECT", "-o", b.path("linked"), "testdata/program.c", "-L", dir, "-l:libcuda.so.1", "-pthread", "-ldl"),
	} {
		if said, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			return built{}, fmt.Errorf("%v: %w\n%s", command, err, said)
		}
	}
	return b, nil
}

// bench is a GPU, and a broker of it where there is one.
type bench struct {
	*testing.T
	built
	gpu  string
	dir  string // the broker's
	stop func()
	*broker.Broker
}

// noBroker is a GPU of which nobody gives turns.
func noBroker(t *testing.T) *bench {
	t.Helper()
	b, err := plain()
	if err != nil {
		t.Fatal(err)
	}
	return benchOf(t, b)
}

func benchOf(t *testing.T, b built) *bench {
	t.Helper()
	dir, err := os.MkdirTemp("", "turn") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	bench := &bench{T: t, built: b, gpu: filepath.Join(t.TempDir(), "gpu"), dir: dir}
	if err := os.WriteFile(bench.gpu, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(bench.gpu, int64(unsafe.Sizeof(device{}))); err != nil {
		t.Fatal(err)
	}
	return bench
}

// withBroker has one with the rules of a node. Job 1 is the important one, 2 and 3 are not; each may use 100 MiB.
func withBroker(t *testing.T) *bench {
	t.Helper()
	b := noBroker(t)
	b.serve(turns.Defaults())
	return b
}

func (b *bench) serve(rules turns.Rules) {
	b.Helper()
	for job, class := range map[int]share.Class{1: share.High, 2: share.Low, 3: share.Low} {
		b.stamp(share.Stamp{V: share.StampVersion, Job: job, UID: os.Getuid(), Class: class, Memory: gres.Memory(100)})
	}
	ready := make(chan bool)
	b.Broker = broker.New(broker.Config{RunDir: b.dir, GPUs: []int{0}, Rules: rules, Identify: jobOf,
		Proc: broker.Proc{Root: "/proc", Cgroups: "/sys/fs/cgroup", Owner: os.Getuid()},
		Log:  slog.New(slog.DiscardHandler), Ready: func() { close(ready) }})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Serve(ctx) }()
	<-ready
	b.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
	b.Cleanup(b.stop)
}

func (b *bench) stamp(s share.Stamp) {
	b.Helper()
	text, err := json.Marshal(s)
	if err == nil {
		err = os.MkdirAll(filepath.Join(b.dir, "jobs"), 0o755)
	}
	if err == nil {
		err = os.WriteFile(node.StampPath(b.dir, s.Job), text, 0o644)
	}
	if err != nil {
		b.Fatal(err)
	}
}

// jobOf reads from a program's environment which job it plays.
func jobOf(pid, _ int) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return 0, err
	}
	for word := range bytes.SplitSeq(text, []byte{0}) {
		if job, is := bytes.CutPrefix(word, []byte("TEST_JOB=")); is {
			return strconv.Atoi(string(job))
		}
	}
	return 0, fmt.Errorf("process %d plays no job", pid)
}

// program is testdata/program.c as one of a job, with the library under it.
func (b *bench) program(job int, args ...string) *exec.Cmd {
	name := "program"
	if args[0] == "linked" {
		name = "linked"
	}
	cmd := exec.Command(b.path(name), args...)
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+b.built.dir, "STUB_GPU="+b.gpu, "TEST_JOB="+strconv.Itoa(job),
		"LD_PRELOAD="+b.path("synergy.so"), "SYNERGY_TURN_SOCK="+node.SocketPath(b.dir, 0),
		"ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0")
	return cmd
}

// without takes a variable from a program's environment.
func without(name string, cmd *exec.Cmd) *exec.Cmd {
	cmd.Env = slices.DeleteFunc(cmd.Env, func(s string) bool { return strings.HasPrefix(s, name+"=") })
	return cmd
}

// told is what a program says at its end.
type told struct {
	Kernels, Waits, Grants, Unmanaged, Memory, Bound, Most int
	KernelUs, Step                                         float64

	Got, Last, Zero, Available, Total int     // of memory
	Ns                                float64 // of cost
}

// run waits for it, and says what it said.
func (b *bench) run(cmd *exec.Cmd) told {
	b.Helper()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	timer := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	out, err := cmd.Output()
	var said told
	for line := range bytes.Lines(out) {
		if err == nil {
			err = json.Unmarshal(line, &said)
		}
	}
	if err != nil {
		b.Errorf("%v: %v: %s%s", cmd.Args[1:], err, out, &stderr)
	}
	return said
}

// begun starts one that runs for ever, and waits until it is on the GPU.
func (b *bench) begun(cmd *exec.Cmd) {
	b.Helper()
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line := make([]byte, 3)
	if _, err := out.Read(line); err != nil || string(line) != "up\n" {
		b.Fatalf("%v said %q: %v", cmd.Args[1:], line, err)
	}
}

// record is what the driver's queue keeps of what was launched, ns.
type record struct {
	PID, Kernels           int32
	Launched, Began, Ended int64
	By                     [8]byte
}

// device is the queue's file, as testdata/libcuda.c has it.
type device struct {
	Free, Count int64
	Records     [200_000]record
}

func (r record) by() string { return strings.TrimRight(string(r.By[:]), "\x00") }

// records are all, by the time of their launch.
func (b *bench) records() []record {
	b.Helper()
	text, err := os.ReadFile(b.gpu)
	if err != nil {
		b.Fatal(err)
	}
	d := (*device)(unsafe.Pointer(unsafe.SliceData(text)))
	if d.Count > int64(len(d.Records)) {
		b.Fatalf("%d launches are more than the file keeps", d.Count)
	}
	all := slices.DeleteFunc(slices.Clone(d.Records[:d.Count]), func(r record) bool { return r.Ended == 0 })
	slices.SortFunc(all, func(a, b record) int { return int(a.Launched - b.Launched) })
	return all
}

// overlaps counts the launches of a process while the queue had something of another.
func overlaps(records []record) int {
	ends := map[int32]int64{}
	count := 0
	for _, r := range records {
		for pid, end := range ends {
			if pid != r.PID && r.Launched < end {
				count++
			}
		}
		ends[r.PID] = max(ends[r.PID], r.Ended)
	}
	return count
}

// exclusive does something on a GPU with these rules, and says that at no time the kernels of two programs were on it.
// On a machine that has much else to do a program may not be scheduled within its grace, and is stopped; so that is
// tried again.
func exclusive(t *testing.T, rules turns.Rules, do func(*bench)) *bench {
	t.Helper()
	for range 10 {
		b := noBroker(t)
		b.serve(rules)
		do(b)
		freezes := b.Status().GPUs[0].Freezes
		if freezes > 0 {
			t.Logf("%d were stopped, since they did not let go", freezes)
			continue
		}
		records := b.records()
		if n := overlaps(records); n > 0 || len(records) == 0 {
			t.Errorf("%d of %d launches met another program's kernels on the GPU", n, len(records))
		}
		return b
	}
	t.Fatal("each time somebody did not let go")
	return nil
}

// short says that nothing was launched behind more than 5 ms of what was on the GPU.
func (b *bench) short() {
	b.Helper()
	for _, r := range b.records() {
		if before := time.Duration(r.Began - r.Launched); before > 5*time.Millisecond {
			b.Errorf("a kernel was launched behind %v of others, want 5ms at most", before)
			return
		}
	}
}

// changes is how often the GPU went from one program to another.
func changes(records []record) (n int) {
	for i := 1; i < len(records); i++ {
		if records[i].PID != records[i-1].PID {
			n++
		}
	}
	return n
}

func await(t testing.TB, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("there is still not %s", what)
		}
	}
}

// listener counts who connects, and says nothing.
func listener(b *bench) func() int {
	b.Helper()
	l, err := net.Listen("unix", node.SocketPath(b.dir, 0))
	if err != nil {
		b.Fatal(err)
	}
	var mu sync.Mutex
	var all []net.Conn
	ended := make(chan bool)
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			all = append(all, conn)
			mu.Unlock()
		}
	}()
	b.Cleanup(func() {
		l.Close()
		<-ended
		for _, conn := range all {
			conn.Close()
		}
	})
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(all)
	}
}
