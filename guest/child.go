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

// child is a program as a process of ours. It is what go-plugin runs in place of its own runner, since that one waits
// for whoever has inherited the program's output, for ever if need be, and cannot tell a process from the next one of
// its number.
type child struct {
	command  *exec.Cmd
	out, err *os.File // our ends of its output

	mu      sync.Mutex
	stopped bool // it is not to be started any more
	reaped  bool // its number may be another's by now
}

// errStopped is a start that came after the end.
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

// Wait implements runner.Runner. While the process is dead and not reaped nobody else can have its number: that is the
// moment to end all that it has started, as far as it has stayed in its group.
func (c *child) Wait(context.Context) error {
	for errors.Is(unix.Waitid(unix.P_PID, c.command.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kill()
	c.reaped = true
	return c.command.Wait()
}

// Kill implements runner.Runner. Whoever holds the other ends of the output may go on holding them.
func (c *child) Kill(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	c.kill()
	for _, file := range []*os.File{c.out, c.err} {
		if file != nil {
			_ = file.Close() // a second time: fine
		}
	}
	return nil
}

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

// lair is a child whose socket has to lie in a folder.
type lair struct {
	*child
	folder string
}

// PluginToHost implements runner.Runner: before an address is kept, and so before anybody is called there.
func (l lair) PluginToHost(network, address string) (string, string, error) {
	return network, address, within(&net.UnixAddr{Name: address, Net: network}, l.folder)
}
