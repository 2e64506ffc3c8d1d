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

// The measuring process may be killed at any moment, and the trainer must not keep fewer cores for ever. So cores are
// taken only while a second process waits for the end of the first: it holds the other end of a pipe that is never
// written to. It is the same program in a session of its own, so that a signal to the first one does not hit both.

const guardianName = "synergy measure: gives back what it took"

// guardian is the second process for one size. The pipe is its standard input, which closes when this process ends.
type guardian struct{ process *exec.Cmd }

// guard starts the guardian of a tree. It acts when this process has ended, or has not dismissed it within t.longest,
// as when it is stopped.
func guard(t *Tree) (*guardian, error) {
	g := &guardian{process: &exec.Cmd{Path: "/proc/self/exe", Args: []string{guardianName, strconv.Itoa(t.Root),
		t.began, listed(t.CPUs), strconv.Itoa(t.excludedPID), t.longest.String()}}}
	g.process.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if _, err := g.process.StdinPipe(); err != nil {
		return nil, fmt.Errorf("a guardian: %w", err)
	}
	if err := g.process.Start(); err != nil {
		return nil, fmt.Errorf("a guardian: %w", err)
	}
	return g, nil
}

// dismiss ends a guardian that has nothing left to give back. It is killed before its pipe is closed, since it would
// act on that.
func (g *guardian) dismiss() {
	if g == nil {
		return
	}
	_ = g.process.Process.Kill()
	_ = g.process.Wait() // closes the pipe; its error says only that it was killed
}

// listed returns the CPUs joined by commas.
func listed(cpus []int) string {
	var words []string
	for _, cpu := range cpus {
		words = append(words, strconv.Itoa(cpu))
	}
	return strings.Join(words, ",")
}

// Exec acts as the guardian if this process was started as one, and does not return then. Programs that measure call it
// first. Signals that are sent to all processes of a job do not end it before it has acted.
func Exec() {
	const own = 6
	if len(os.Args) != own || os.Args[0] != guardianName {
		return
	}
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	// The arguments were written by this program, so they can be parsed.
	t := &Tree{began: os.Args[2]}
	t.Root, _ = strconv.Atoi(os.Args[1])
	for word := range strings.SplitSeq(os.Args[3], ",") {
		cpu, _ := strconv.Atoi(word)
		t.CPUs = append(t.CPUs, cpu)
	}
	t.excludedPID, _ = strconv.Atoi(os.Args[4])
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
	_ = t.confine(len(t.CPUs)) // if the trainer is gone it needs no cores
	os.Exit(0)
}
