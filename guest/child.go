package guest

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// child is an external program as a child process. It replaces go-plugin's own runner, which waits, possibly for ever,
// for every process that has inherited the program's output, and cannot tell a process from a later one with the same
// PID.
type child struct {
	command  *exec.Cmd
	out, err *os.File // our ends of its output pipes

	mu      sync.Mutex
	stopped bool // it must not be started any more
	reaped  bool // its PID may belong to another process by now
}

// errStopped means that the start came after the end.
var errStopped = errors.New("it was ended before it was started")

// Start implements runner.Runner.
func (c *child) Start(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return errStopped
	}
	var theirs [2]*os.File
	for k, ours := range []**os.File{&c.out, &c.err} {
		read, write, err := os.Pipe()
		if err != nil {
			return err
		}
		defer write.Close()
		*ours, theirs[k] = read, write
	}
	c.command.Stdout, c.command.Stderr = theirs[0], theirs[1]
	return c.command.Start()
}

// Wait implements runner.Runner. As long as the dead process is not reaped, no other can have its PID. In that time
// Wait kills everything that the program has started and that has stayed in its process group.
func (c *child) Wait(context.Context) error {
	for errors.Is(unix.Waitid(unix.P_PID, c.command.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kill()
	c.reaped = true
	return c.command.Wait()
}

// Kill implements runner.Runner. Other processes may still hold the other ends of the output pipes.
func (c *child) Kill(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	c.kill()
	for _, file := range []*os.File{c.out, c.err} {
		if file != nil {
			_ = file.Close() // closing twice does no harm
		}
	}
	return nil
}

// kill kills the process group, unless the process was reaped.
func (c *child) kill() {
	if c.command.Process != nil && !c.reaped {
		_ = syscall.Kill(-c.command.Process.Pid, syscall.SIGKILL)
	}
}

// ID implements runner.Runner; empty before the start.
func (c *child) ID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.command.Process == nil {
		return ""
	}
	return strconv.Itoa(c.command.Process.Pid)
}

// Stdout, Stderr, Name, Diagnose and HostToPlugin implement runner.Runner.
func (c *child) Stdout() io.ReadCloser           { return c.out }
func (c *child) Stderr() io.ReadCloser           { return c.err }
func (c *child) Name() string                    { return c.command.Path }
func (c *child) Diagnose(context.Context) string { return "" }
func (c *child) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}

// socketRunner is a child whose socket must lie in a given folder.
type socketRunner struct {
	*child
	folder string
}

// PluginToHost implements runner.Runner. It checks the program's socket before go-plugin stores the address, and so
// before anything connects to it.
func (l socketRunner) PluginToHost(network, address string) (string, string, error) {
	return network, address, within(&net.UnixAddr{Name: address, Net: network}, l.folder)
}
