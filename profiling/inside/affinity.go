package inside

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Tree is a process and all that descend from it, but for the one that measures and what it started.
type Tree struct {
	Root int   // process ID
	CPUs []int // that it may use, by the kernel's numbers; Limit takes the first ones
	not  int   // the process that measures
}

// TreeOf is the tree of a process with the CPUs that it may use now.
func TreeOf(root int) (*Tree, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(root, &set); err != nil {
		return nil, fmt.Errorf("sched_getaffinity of process %d: %w", root, err)
	}
	t := &Tree{Root: root, not: os.Getpid()}
	for cpu := range len(set) * 64 {
		if set.IsSet(cpu) {
			t.CPUs = append(t.CPUs, cpu)
		}
	}
	return t, nil
}

// Limit lets every thread of the tree use the first CPUs and no others. Who is forked meanwhile inherits them, and is
// met in the second walk where it was forked by one that had not been. A process of the tree that is gone, or another
// user's, is no error; that the root is gone is.
func (t *Tree) Limit(cores int) error {
	if cores < 1 || cores > len(t.CPUs) {
		return fmt.Errorf("%d cores: the job may use %d", cores, len(t.CPUs))
	}
	var set unix.CPUSet
	for _, cpu := range t.CPUs[:cores] {
		set.Set(cpu)
	}
	for range 2 {
		for _, pid := range t.processes() {
			if err := confine(pid, &set); err != nil && pid == t.Root {
				return err
			}
		}
	}
	return nil
}

// confine sets the CPUs of each thread of a process.
func confine(pid int, set *unix.CPUSet) error {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return fmt.Errorf("the trainer is gone: %w", err)
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			continue
		}
		if err := unix.SchedSetaffinity(id, set); err != nil && !errors.Is(err, unix.ESRCH) &&
			!errors.Is(err, unix.EPERM) {
			return fmt.Errorf("sched_setaffinity of thread %d: %w", id, err)
		}
	}
	return nil
}

// processes are those of the tree, the root first.
func (t *Tree) processes() []int {
	children := map[int][]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		if pid, parent, ok := parentOf(path); ok {
			children[parent] = append(children[parent], pid)
		}
	}
	tree := []int{t.Root}
	for k := 0; k < len(tree); k++ {
		for _, child := range children[tree[k]] {
			if child != t.not && !slices.Contains(tree, child) {
				tree = append(tree, child)
			}
		}
	}
	return tree
}

// parentOf reads PID (NAME) STATE PARENT; a name may hold anything, so what counts is what comes after its last
// parenthesis.
func parentOf(path string) (pid, parent int, ok bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, 0, false // it has ended meanwhile
	}
	pid, err = strconv.Atoi(filepath.Base(filepath.Dir(path)))
	rest := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if err != nil || len(rest) < 2 {
		return 0, 0, false
	}
	parent, err = strconv.Atoi(rest[1])
	return pid, parent, err == nil
}

// Script is the first process of the task that a process belongs to, as Slurm started it: the batch script, or the task
// of an srun. Outside of Slurm it is the process itself.
func Script(pid int) int {
	for at := pid; at > 1; {
		_, parent, ok := parentOf(fmt.Sprintf("/proc/%d/stat", at))
		if !ok || parent <= 1 {
			break
		}
		name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", parent))
		if err != nil {
			break
		}
		if strings.HasPrefix(string(name), "slurmstepd") {
			return at
		}
		at = parent
	}
	return pid
}

// Pretended is a file in which a trainer reads how many cores it is to pretend, for clusters whose nodes claim more
// than there are (synergy-emujob --pretend).
type Pretended string

// Limit replaces the file as a whole.
func (p Pretended) Limit(cores int) error {
	next := string(p) + ".new"
	if err := os.WriteFile(next, []byte(strconv.Itoa(cores)+"\n"), 0o600); err != nil {
		return err
	}
	return os.Rename(next, string(p))
}
