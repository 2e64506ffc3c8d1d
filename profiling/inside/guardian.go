package inside

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Who measures may be killed at any moment, and a trainer must not be left with one core for the rest of its days. So
// cores are taken only while a second process waits for the end of the first: it holds the other end of a pipe that
// nobody writes to. It is this program once more, in a session of its own, so that what is meant for the first one does
// not meet both.

const guardianName = "synergy measure: gives back what it took"

// guardian is the second process of one size. The pipe is its standard input, and is closed by the end of this process.
type guardian struct{ process *exec.Cmd }

// guard starts the guardian of a tree. It acts when this process has ended, or has not dismissed it for so long, as one
// that is stopped.
func guard(t *Tree) (*guardian, error) {
	g := &guardian{process: &exec.Cmd{Path: "/proc/self/exe", Args: []string{guardianName, strconv.Itoa(t.Root),
		t.began, listed(t.CPUs), strconv.Itoa(t.not), t.longest.String()}}}
	g.process.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if _, err := g.process.StdinPipe(); err != nil {
		return nil, fmt.Errorf("a guardian: %w", err)
	}
	if err := g.process.Start(); err != nil {
		return nil, fmt.Errorf("a guardian: %w", err)
	}
	return g, nil
}

// dismiss ends a guardian that has nothing to give back any more. It is killed before its pipe is closed, which would
// have it act.
func (g *guardian) dismiss() {
	if g == nil {
		return
	}
	_ = g.process.Process.Kill()
	_ = g.process.Wait() // closes the pipe, and says that it was killed
}

func listed(cpus []int) string {
	var words []string
	for _, cpu := range cpus {
		words = append(words, strconv.Itoa(cpu))
	}
	return strings.Join(words, ",")
}

// Exec is the guardian where this process was started as one, and returns where it was not. Programs that measure call
// it first of all.
func Exec() {
	const own = 6
	if len(os.Args) != own || os.Args[0] != guardianName {
		return
	}
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	// Numbers that this program has written itself can be read.
	t := &Tree{began: os.Args[2]}
	t.Root, _ = strconv.Atoi(os.Args[1])
	for word := range strings.SplitSeq(os.Args[3], ",") {
		cpu, _ := strconv.Atoi(word)
		t.CPUs = append(t.CPUs, cpu)
	}
	t.not, _ = strconv.Atoi(os.Args[4])
	longest, _ := time.ParseDuration(os.Args[5])
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(longest):
	}
	_ = t.confine(len(t.CPUs)) // a trainer that is gone needs none
	os.Exit(0)
}
