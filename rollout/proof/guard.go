package proof

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// What a guard is told: that the daemon is about to be ended, and that it was started again.
const (
	stopping = 's'
	started  = 'd'
)

// watching is what a guard says when it is there.
const watching = "watching\n"

// Line is how a guard hears of the program that it guards: a pipe, which ends when that does, however it does.
type Line interface {
	io.Reader
	SetReadDeadline(t time.Time) error
}

// Watch is what a guard does: it starts the daemon if the program that ends it has gone without having started it
// again, or has not done so within the limit. fired says that it did.
func Watch(from Line, say io.Writer, limit time.Duration, start func() error) (fired bool, err error) {
	if _, err := io.WriteString(say, watching); err != nil {
		return false, err
	}
	var word [1]byte
	if _, err := io.ReadFull(from, word[:]); err != nil || word[0] != stopping {
		return false, nil // nothing was ended
	}
	if err := from.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return true, errors.Join(err, start())
	}
	if _, err := io.ReadFull(from, word[:]); err == nil && word[0] == started {
		return false, nil
	}
	return true, start()
}

// Guarded is a daemon that another process starts again if this one is killed, or hangs, while it is ended.
type Guarded struct {
	Daemon
	guard *exec.Cmd
	tell  io.WriteCloser
	ended bool
}

// ready is how long a guard may take to begin.
const ready = 10 * time.Second

// Guard starts the guard, in a session of its own, so that whatever ends the one of this process leaves it alone. The
// command calls Watch with its standard input and output. Whoever has a Guarded lets it go in the end.
func Guard(d Daemon, path string, argv ...string) (*Guarded, error) {
	g := &Guarded{Daemon: d, guard: exec.Command(path)}
	g.guard.Args, g.guard.Stderr = argv, os.Stderr
	g.guard.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	tell, err := g.guard.StdinPipe()
	if err != nil {
		return nil, err
	}
	hear, here, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, tell.Close())
	}
	defer hear.Close()
	g.tell, g.guard.Stdout = tell, here
	err = g.guard.Start()
	here.Close() // is the guard's
	if err != nil {
		return nil, fmt.Errorf("start the guard: %w", errors.Join(err, tell.Close()))
	}
	said := make([]byte, len(watching))
	err = hear.SetReadDeadline(time.Now().Add(ready))
	if err == nil {
		_, err = io.ReadFull(hear, said)
	}
	if err != nil || string(said) != watching {
		g.guard.Process.Kill()
		return nil, fmt.Errorf("the guard does not begin: %w", errors.Join(err, tell.Close(), g.guard.Wait()))
	}
	return g, nil
}

// Stop ends the daemon, once the guard knows.
func (g *Guarded) Stop(ctx context.Context) error {
	if _, err := g.tell.Write([]byte{stopping}); err != nil {
		return fmt.Errorf("the guard that would start the daemon again is gone: %w", err)
	}
	g.ended = true
	return g.Daemon.Stop(ctx)
}

// Start starts it again, if it was ended, and tells the guard. One that could not be started is left to the guard.
func (g *Guarded) Start(ctx context.Context) error {
	if !g.ended {
		return nil
	}
	if err := g.Daemon.Start(ctx); err != nil {
		return err
	}
	_, _ = g.tell.Write([]byte{started}) // one that is gone has nothing to do any more
	return nil
}

// Release lets the guard go, and waits for its end: one that was not told of a start tries that itself.
func (g *Guarded) Release() error {
	return errors.Join(g.tell.Close(), g.guard.Wait())
}
