package inside

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Tree is a process and all that descend from it, but for the one that measures and what it started.
type Tree struct {
	Root int    // process ID
	CPUs []int  // that it may use, by the kernel's numbers; Limit takes the first ones
	Job  string // one process at most measures a job on a node; empty: no job

	began   string        // when Root began, as the kernel counts: another process of that number is not the trainer
	not     int           // the process that measures
	longest time.Duration // for which fewer cores stay, should the one that measures be stopped
	guard   *guardian     // lives while the tree has fewer cores than CPUs
	claim   net.Listener  // says to others that we measure this job, until we end
}

// TreeOf is the tree of a process with the CPUs that it may use now.
func TreeOf(root int) (*Tree, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(root, &set); err != nil {
		return nil, fmt.Errorf("sched_getaffinity of process %d: %w", root, err)
	}
	now, ok := statOf(root)
	if !ok {
		return nil, fmt.Errorf("process %d: %w", root, os.ErrNotExist)
	}
	t := &Tree{Root: root, began: now.began, not: os.Getpid(), longest: 2 * DefaultTotal}
	for cpu := range len(set) * 64 {
		if set.IsSet(cpu) {
			t.CPUs = append(t.CPUs, cpu)
		}
	}
	return t, nil
}

// ErrClaimed says that another process measures the job.
var ErrClaimed = errors.New("another process measures this job")

// Begin refuses a tree whose trainer is not in it, and one that another process measures.
func (t *Tree) Begin() error {
	for _, pid := range t.processes() {
		if nameOf(pid) == "srun" {
			return fmt.Errorf("srun (process %d) has started the trainer elsewhere: have its task measured, as by "+
				"srun synergy run -- COMMAND", pid)
		}
	}
	if t.Job == "" || t.claim != nil {
		return nil
	}
	// An abstract name is gone with its process, however that ends. Where there are no such names nobody can claim.
	claim, err := net.Listen("unix", "@synergy-measure-"+t.Job)
	if errors.Is(err, unix.EADDRINUSE) {
		return ErrClaimed
	}
	if err == nil {
		t.claim = claim
	}
	return nil
}

// During is a context that ends with the tree's root as well.
func (t *Tree) During(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		for pause(ctx, time.Second) == nil {
			if now, ok := statOf(t.Root); !ok || now.began != t.began {
				cancel()
			}
		}
	}()
	return ctx, cancel
}

// Limit lets every thread of the tree use the first CPUs and no others. While these are not all, a guardian gives all
// of them back should this process end.
func (t *Tree) Limit(cores int) error {
	if cores < 1 || cores > len(t.CPUs) {
		return fmt.Errorf("%d cores: the job may use %d", cores, len(t.CPUs))
	}
	before := t.guard
	if t.guard = nil; cores < len(t.CPUs) {
		var err error
		if t.guard, err = guard(t); err != nil {
			t.guard = before
			return err
		}
	}
	err := t.confine(cores)
	before.dismiss()
	return err
}

// Confine lets a process and all that descend from it, but for the one that asks, use these CPUs alone. Nobody gives
// them back should this process end: it is for a trainer that ends with it.
func Confine(process int, cpus []int) error {
	t, err := TreeOf(process)
	if err != nil {
		return err
	}
	t.CPUs = cpus
	return t.confine(len(cpus))
}

// confine is Limit without a guardian. Who is forked meanwhile inherits what its parent has, and is met in the second
// walk where it was forked by one that had not been. A process of the tree that is gone, or another user's, is no
// error; that the root is gone is.
func (t *Tree) confine(cores int) error {
	var set unix.CPUSet
	for _, cpu := range t.CPUs[:cores] {
		set.Set(cpu)
	}
	for range 2 {
		if now, ok := statOf(t.Root); !ok || now.began != t.began {
			return fmt.Errorf("the trainer is gone: process %d: %w", t.Root, os.ErrProcessDone)
		}
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
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if now, ok := statOf(pid); err == nil && ok {
			children[now.parent] = append(children[now.parent], pid)
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

// stat is what the kernel says of a process.
type stat struct {
	parent int
	began  string
}

// statOf reads PID (NAME) STATE PARENT … BEGAN …; a name may hold anything, so what counts is what comes after its last
// parenthesis. One that has ended is not there, though nobody may have asked yet how.
func statOf(pid int) (stat, bool) {
	const state, parent, began = 0, 1, 19 // fields behind the name
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, false
	}
	rest := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(rest) <= began || rest[state] == "Z" {
		return stat{}, false
	}
	above, err := strconv.Atoi(rest[parent])
	return stat{above, rest[began]}, err == nil
}

// nameOf is what the kernel calls a process; nothing, where it has ended.
func nameOf(pid int) string {
	name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return strings.TrimSuffix(string(name), "\n")
}

// Script is the first process of the task that a process belongs to, as Slurm started it: the batch script, or the task
// of an srun. Outside of Slurm it is the process itself.
func Script(pid int) int {
	for at := pid; at > 1; {
		now, ok := statOf(at)
		if !ok || now.parent <= 1 {
			break
		}
		if strings.HasPrefix(nameOf(now.parent), "slurmstepd") {
			return at
		}
		at = now.parent
	}
	return pid
}

// Pretended is a file in which a trainer reads how many cores it is to pretend, for clusters whose nodes claim more
// than there are (synergy-emujob --pretend).
type Pretended string

// Begin has nothing to refuse.
func (p Pretended) Begin() error { return nil }

// Limit replaces the file as a whole.
func (p Pretended) Limit(cores int) error {
	next := string(p) + ".new"
	if err := os.WriteFile(next, []byte(strconv.Itoa(cores)+"\n"), 0o600); err != nil {
		return err
	}
	return os.Rename(next, string(p))
}
