package inside

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMain is also the guardian of a tree, and a process that takes cores and is killed before it gives them back.
func TestMain(m *testing.M) {
	Exec()
	if root, err := strconv.Atoi(os.Getenv("TAKE_CORES_OF")); err == nil {
		takeCores(root)
	}
	os.Exit(m.Run())
}

// takeCores says what it has done, and waits for what becomes of it.
func takeCores(root int) {
	tree, err := TreeOf(root)
	if err == nil {
		if longest, wrong := time.ParseDuration(os.Getenv("LONGEST")); wrong == nil {
			tree.longest = longest
		}
		err = tree.Limit(1)
	}
	fmt.Println("taken", err)
	time.Sleep(time.Minute)
	runtime.KeepAlive(tree)
}

// cpusOf are the CPUs that each thread of a process may use.
func cpusOf(t *testing.T, pid int) (counts []int) {
	t.Helper()
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range threads {
		id, _ := strconv.Atoi(thread.Name())
		var set unix.CPUSet
		if err := unix.SchedGetaffinity(id, &set); err == nil {
			counts = append(counts, set.Count())
		}
	}
	return counts
}

// grown is a trainer: a shell, its loader in the background and that one's own child.
func grown(t *testing.T) *Tree {
	t.Helper()
	command := exec.Command("sh", "-c", `sh -c 'sleep 60 & wait' & wait`)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	tree, err := TreeOf(command.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, pid := range tree.processes() {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		_ = command.Wait()
	})
	if len(tree.CPUs) < 2 {
		t.Fatalf("this machine lets a process use %d CPU: want two to take one away", len(tree.CPUs))
	}
	for end := time.Now().Add(10 * time.Second); len(tree.processes()) < 3 &&
		time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
	}
	if n := len(tree.processes()); n != 3 {
		t.Fatalf("%d processes in the tree, want the shell, the loader and its child", n)
	}
	return tree
}

// has waits until each thread of the tree may use so many CPUs.
func has(t *testing.T, tree *Tree, cores int, why string) {
	t.Helper()
	var found []int
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		found = nil
		for _, pid := range tree.processes() {
			for _, n := range cpusOf(t, pid) {
				if n != cores {
					found = append(found, n)
				}
			}
		}
		if len(found) == 0 {
			return
		}
	}
	t.Errorf("%s: threads may use %v CPUs, want %d", why, found, cores)
}

// guardians are those of a tree that live, by what they were told.
func guardians(tree *Tree) (pids []string) {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		text, _ := os.ReadFile(path)
		if strings.HasPrefix(string(text), fmt.Sprintf("%s\x00%d\x00", guardianName, tree.Root)) {
			pids = append(pids, filepath.Base(filepath.Dir(path)))
		}
	}
	return pids
}

// taken is a process of its own that has taken cores of the tree.
func taken(t *testing.T, tree *Tree, longest string) *exec.Cmd {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), fmt.Sprintf("TAKE_CORES_OF=%d", tree.Root), "LONGEST="+longest)
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "taken <nil>\n" {
		t.Fatalf("%q, %v", line, err)
	}
	return command
}

func TestWhoeverMeasuresIsKilledAndTheTrainerHasAllItsCores(t *testing.T) {
	tree := grown(t)
	command := taken(t, tree, "")
	has(t, tree, 1, "taken")
	if now := guardians(tree); len(now) != 1 {
		t.Errorf("guardians: %v, want one", now)
	}
	if err := command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	has(t, tree, len(tree.CPUs), "after SIGKILL")
}

// TestWhoeverMeasuresIsStoppedAndTheTrainerHasAllItsCores, since a ^Z or a debugger may last.
func TestWhoeverMeasuresIsStoppedAndTheTrainerHasAllItsCores(t *testing.T) {
	tree := grown(t)
	command := taken(t, tree, "500ms")
	if err := command.Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	has(t, tree, len(tree.CPUs), "after SIGSTOP")
}

func TestNoGuardianOutlivesWhatItGuards(t *testing.T) {
	tree := grown(t)
	for _, cores := range []int{1, 1, len(tree.CPUs)} {
		if err := tree.Limit(cores); err != nil {
			t.Fatal(err)
		}
		want := 1
		if cores == len(tree.CPUs) {
			want = 0
		}
		if now := guardians(tree); len(now) != want {
			t.Errorf("with %d cores there are the guardians %v, want %d", cores, now, want)
		}
	}
}

// TestAnotherProcessOfTheTrainersNumberIsLeftAlone: numbers are used again.
func TestAnotherProcessOfTheTrainersNumberIsLeftAlone(t *testing.T) {
	tree := grown(t)
	tree.began = "1"
	if err := tree.Limit(1); err == nil || !strings.Contains(err.Error(), "the trainer is gone") {
		t.Errorf("%v, want the trainer to be gone", err)
	}
	has(t, tree, len(tree.CPUs), "another process")
}

// TestATreeIsLimitedWithAllItsProcessesAndFreedAgain: a shell, its loader in the background and that one's own child.
func TestATreeIsLimitedWithAllItsProcessesAndFreedAgain(t *testing.T) {
	tree := grown(t)
	for _, cores := range []int{1, len(tree.CPUs)} {
		if err := tree.Limit(cores); err != nil {
			t.Fatal(err)
		}
		for _, pid := range tree.processes() {
			for _, has := range cpusOf(t, pid) {
				if has != cores {
					t.Errorf("process %d may use %d CPUs, want %d", pid, has, cores)
				}
			}
		}
	}
	for _, cores := range []int{0, len(tree.CPUs) + 1} {
		if tree.Limit(cores) == nil {
			t.Errorf("%d cores are given", cores)
		}
	}
	if own := cpusOf(t, os.Getpid()); own[0] < len(tree.CPUs) {
		t.Errorf("the one that measures may use %d CPUs", own[0])
	}
}

// TestOneAtATimeMeasuresAJob: the second is told so, and may when the first one's process has ended.
func TestOneAtATimeMeasuresAJob(t *testing.T) {
	first, second := grown(t), grown(t)
	first.Job, second.Job = fmt.Sprintf("test-%d", os.Getpid()), fmt.Sprintf("test-%d", os.Getpid())
	for range 2 {
		if err := first.Begin(); err != nil {
			t.Errorf("the first: %v", err)
		}
	}
	if err := second.Begin(); !errors.Is(err, ErrClaimed) {
		t.Errorf("the second: %v, want %v", err, ErrClaimed)
	}
	_ = first.claim.Close() // as the end of its process does
	if err := second.Begin(); err != nil {
		t.Errorf("the second, after the first: %v", err)
	}
	_ = second.claim.Close()
}

// TestWhatSrunHasStartedIsNotMeasuredByItsClient, of which a core less takes nothing: the curve would say that one core
// is enough.
func TestWhatSrunHasStartedIsNotMeasuredByItsClient(t *testing.T) {
	program, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	srun := filepath.Join(t.TempDir(), "srun")
	if err := os.Symlink(program, srun); err != nil {
		t.Fatal(err)
	}
	command := exec.Command("sh", "-c", srun+" 60; true")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	tree, err := TreeOf(command.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, pid := range tree.processes() {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		_ = command.Wait()
	})
	for end := time.Now().Add(10 * time.Second); tree.Begin() == nil && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	if err := tree.Begin(); err == nil || !strings.Contains(err.Error(), "srun synergy run -- COMMAND") {
		t.Errorf("%v, want it refused with what to do", err)
	}
}

func TestWhoMeasuresEndsWithTheTrainer(t *testing.T) {
	tree := grown(t)
	ctx, end := tree.During(t.Context())
	defer end()
	if ctx.Err() != nil {
		t.Fatal("it has ended before")
	}
	for _, pid := range tree.processes() {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	select {
	case <-ctx.Done():
	case <-time.After(20 * time.Second):
		t.Error("it goes on")
	}
}
