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

// Tree is a process and all its descendants, without the measuring process and what that started.
type Tree struct {
	Root int    // PID
	CPUs []int  // the CPUs that it may use, by kernel number; Limit uses the first ones
	Job  string // at most one process measures a job on a node; empty: no job

	began       string        // start time of Root in /proc; a process with another one is not the trainer
	excludedPID int           // the measuring process
	longest     time.Duration // how long fewer cores may last if the measuring process is stopped
	guard       *guardian     // lives while the tree has fewer cores than CPUs
	claim       net.Listener  // shows other processes that this one measures the job, until it ends
}

// TreeOf returns the tree of a process with the CPUs that it may use now.
func TreeOf(root int) (*Tree, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(root, &set); err != nil {
		return nil, fmt.Errorf("sched_getaffinity of process %d: %w", root, err)
	}
	now, ok := statOf(root)
	if !ok {
		return nil, fmt.Errorf("process %d: %w", root, os.ErrNotExist)
	}
	t := &Tree{Root: root, began: now.began, excludedPID: os.Getpid(), longest: 2 * DefaultTotal}
	// A CPUSet is an array of words of 64 bits.
	for cpu := range len(set) * 64 {
		if set.IsSet(cpu) {
			t.CPUs = append(t.CPUs, cpu)
		}
	}
	return t, nil
}

// ErrClaimed means that another process measures the job.
var ErrClaimed = errors.New("another process measures this job")

// Begin returns an error if the trainer is not in the tree, because srun started it, or if another process measures the
// job. One that has claimed the job already stays as it is.
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
	// An abstract socket name disappears with its process, however that ends. Without such names no process claims the
	// job.
	claim, err := net.Listen("unix", "@synergy-measure-"+t.Job)
	if errors.Is(err, unix.EADDRINUSE) {
		return ErrClaimed
	}
	if err == nil {
		t.claim = claim
	}
	return nil
}

// During returns a context that also ends when the tree's root ends. Its PID may then belong to another process, which
// the start time shows.
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

// Limit lets every thread of the tree use only the first cores CPUs. While these are not all, a guardian process gives
// them all back if this process ends. The new guardian is started before anything is taken and the old one is dismissed
// last, so that one lives at every moment.
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

// Confine lets a process and its descendants, except for the caller, use only these CPUs. There is no guardian: it is
// for a trainer that ends with this process.
func Confine(process int, cpus []int) error {
	t, err := TreeOf(process)
	if err != nil {
		return err
	}
	t.CPUs = cpus
	return t.confine(len(cpus))
}

// confine is Limit without a guardian. A process forked meanwhile inherits its parent's CPUs; if the parent was not yet
// confined, the second pass finds it. If a process has ended or belongs to another user, that is no error; if the root
// has ended, it is.
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

// processes returns the PIDs of the tree, the root first.
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
			if child != t.excludedPID && !slices.Contains(tree, child) {
				tree = append(tree, child)
			}
		}
	}
	return tree
}

// stat is what the kernel says about a process.
type stat struct {
	parent int
	began  string
}

// statOf reads PID (NAME) STATE PARENT … BEGAN … from /proc/PID/stat. A name may contain anything, so fields are
// counted from the last parenthesis. A zombie counts as ended.
func statOf(pid int) (stat, bool) {
	const state, parent, began = 0, 1, 19 // fields after the name
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

// nameOf returns the kernel's name of a process; empty if it has ended.
func nameOf(pid int) string {
	name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return strings.TrimSuffix(string(name), "\n")
}

// Script returns the first process of the task that a process belongs to, as Slurm started it: the batch script, or the
// task of an srun. Outside of Slurm it returns the process itself.
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

// Pretended is a file from which a trainer reads how many cores it pretends to have, for clusters whose nodes claim
// more cores than they have (synergy-emujob --pretend).
type Pretended string

// Begin never returns an error.
func (p Pretended) Begin() error { return nil }

// Limit replaces the file as a whole.
func (p Pretended) Limit(cores int) error {
	next := string(p) + ".new"
	if err := os.WriteFile(next, []byte(strconv.Itoa(cores)+"\n"), 0o600); err != nil {
		return err
	}
	return os.Rename(next, string(p))
}
