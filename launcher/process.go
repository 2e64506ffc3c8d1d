package launcher

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// process is a process of this machine, as /proc shows it.
type process struct {
	pid, parent int
	dead        bool // a zombie: ended and not reaped
}

// children returns the children of a process. Processes of other users, which /proc may hide, are never ours.
func children(parent int) (all []process) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		text, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // it has ended
		}
		if p, ok := parseStat(pid, text); ok && p.parent == parent {
			all = append(all, p)
		}
	}
	return all
}

// parseStat parses a line like "17 (name) S 4 …"; the name may contain anything, also parentheses.
func parseStat(pid int, text []byte) (process, bool) {
	words := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(words) < 2 {
		return process{}, false
	}
	parent, err := strconv.Atoi(string(words[1]))
	return process{pid, parent, string(words[0]) == "Z"}, err == nil
}

// orphans are processes whose parents have ended and which became our children. Zombies among them must be reaped, as
// init does, but not commands that another goroutine here has started and waits for.
type orphans struct {
	due  <-chan time.Time // when to look at them
	dead []int            // zombies at the last look
}

// lookInterval is the time between two looks. In it, a goroutine that waits for its own command has reaped it.
const lookInterval = time.Second

func (o *orphans) lookSoon() {
	if o.due == nil {
		o.due = time.After(lookInterval)
	}
}

// reap reaps the zombies that were zombies at the last look, too.
func (o *orphans) reap(now []process) {
	before := o.dead
	o.due, o.dead = nil, nil
	for _, p := range now {
		switch {
		case !p.dead:
		case slices.Contains(before, p.pid):
			reap(p.pid)
		default:
			o.dead = append(o.dead, p.pid)
			o.lookSoon()
		}
	}
}

func reap(pid int) {
	var status unix.WaitStatus
	_, _ = unix.Wait4(pid, &status, unix.WNOHANG, nil)
}

// leftovers returns our children without the command and without those that were here before it, except for zombies
// among these, which are reaped but not ended.
func (r *runningCommand) leftovers() (all []process) {
	for _, p := range children(os.Getpid()) {
		if p.pid != r.process.Process.Pid && (p.dead || !slices.Contains(r.before, p.pid)) {
			all = append(all, p)
		}
	}
	return all
}

// sweep ends the processes that the command left behind, since a loader that outlives its trainer holds memory and a
// GPU. At this point no goroutine waits for a command of its own.
func (r *runningCommand) sweep() {
	for _, signal := range []syscall.Signal{unix.SIGTERM, unix.SIGKILL} {
		told := map[int]bool{}
		for end := time.Now().Add(tidy); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			living := 0
			for _, p := range r.leftovers() {
				if p.dead {
					reap(p.pid)
					continue
				}
				living++
				if !told[p.pid] {
					_ = unix.Kill(p.pid, signal)
				}
				told[p.pid] = true
			}
			if living == 0 {
				return
			}
		}
	}
}

// hasTerminal reports whether this process has a controlling terminal.
func hasTerminal() bool {
	terminal, err := os.OpenFile("/dev/tty", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	_ = terminal.Close()
	return true
}

// Unheard returns, for people, the process that would die of the request signal in our place; empty: none. Slurm
// signals the process of the batch script or task: that is us after an exec, and otherwise the shell that waits for us.
// task is its PID as text. A process that catches or ignores the signal (SigCgt, SigIgn) does not die of it, and one
// whose masks cannot be read is not reported.
func Unheard(asked syscall.Signal, task string) string {
	pid, err := strconv.Atoi(task)
	if err != nil || pid <= 0 || pid == os.Getpid() {
		return ""
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return ""
	}
	var comm string
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch value = strings.TrimSpace(value); key {
		case "Name":
			comm = value
		case "SigCgt", "SigIgn":
			if mask, err := strconv.ParseUint(value, 16, 64); err != nil || mask&(1<<(asked-1)) != 0 {
				return ""
			}
		}
	}
	return fmt.Sprintf("%s (%d)", comm, pid)
}
