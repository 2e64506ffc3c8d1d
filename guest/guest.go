// Package guest runs an external program beside the daemon and talks to it over gRPC: hashicorp/go-plugin, on a socket
// in a folder that no other user may enter. Before it starts the program it checks who may change the file, and its
// checksum. It passes none of our environment, and makes sure that the program ends with us. A program that failed is
// ended, and started again after a pause that doubles. The messages on the connection are defined by the packages that
// use this one.
//
// A guest runs as the daemon's user and can read what that user can read: nothing here makes a harmful program
// harmless. There is no mutual TLS, since whoever can reach the socket is that user already.
package guest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/synergy-slurmd/synergy-slurmd/printable"
)

// Kind is the purpose of a program. A program of another kind refuses to start.
type Kind string

// The kinds, as host and program exchange them.
const (
	Planner Kind = "planner"
	Slurm   Kind = "slurm"
)

// Version is the version of the protocols of all kinds together. A program with another version is not used.
const Version = 1

// Cookie is the environment variable by which a program knows that it was started as a plugin; its value is the Kind.
const Cookie = "SYNERGY_PLUGIN"

// Program is an external program as the administrator configures it.
type Program struct {
	Path   string // absolute
	SHA256 string // 64 hexadecimal digits; empty: any content
	Kind   Kind
}

// Errors that a caller may want to distinguish.
var (
	ErrResting = errors.New("the plugin failed and is not started again yet")
	ErrNotYet  = errors.New("the plugin is still starting")
	ErrStart   = errors.New("the plugin does not start")
	ErrEnded   = errors.New("the plugin has died") // since the last use
	ErrClosed  = errors.New("the plugin was ended")
)

// Limits on a guest's behaviour.
const (
	startLimit = 10 * time.Second // from its start until it answers, however many callers give up meanwhile
	firstPause = time.Second      // after a failure; doubled with each one in a row
	longest    = 10 * time.Minute // pause
)

// Guest is a program that this package runs. Its methods may be called from several goroutines.
type Guest struct {
	program Program
	said    *lines
	now     func() time.Time

	mu       sync.Mutex
	process  *process      // the running program; nil: none
	starting *pendingStart // the start under way; nil: none
	failures int           // in a row
	wake     time.Time     // when the next start is allowed
	closed   bool
}

// New returns a guest that has not been started. said gets each line that the program writes to its standard error, cut
// if it is long; it may be nil.
func New(program Program, said func(line string)) *Guest {
	return &Guest{program: program, said: &lines{tell: said}, now: time.Now}
}

// Conn returns the connection to the program, and starts the program if it does not run. ErrResting means that it
// failed and may not be started again yet. ErrNotYet means that ctx ended first; the start goes on for a later call.
func (g *Guest) Conn(ctx context.Context) (*grpc.ClientConn, error) {
	conn, b, err := g.running()
	if b == nil {
		return conn, err
	}
	select {
	case <-b.done:
		return g.finishStart(b)
	case <-ctx.Done():
		return nil, fmt.Errorf("%w; %s", ErrNotYet, g.said.words())
	}
}

// running returns the connection to the running program, or the start that is under way, or why there is neither. It
// begins a start if none is under way and the pause is over. A program that is found dead, or that cannot be started,
// counts as a failure and lengthens the pause.
func (g *Guest) running() (*grpc.ClientConn, *pendingStart, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.closed:
		return nil, nil, ErrClosed
	case g.process != nil && !g.process.client.Exited():
		return g.process.conn, nil, nil
	case g.process != nil:
		err := fmt.Errorf("%w: %s", ErrEnded, g.process.ending(g.said))
		g.dismiss()
		return nil, nil, err
	case g.starting == nil && g.now().Before(g.wake):
		return nil, nil, fmt.Errorf("%w: in %s", ErrResting, g.wake.Sub(g.now()).Round(time.Second))
	case g.starting == nil:
		if err := g.begin(); err != nil {
			g.dismiss()
			return nil, nil, err
		}
	}
	return nil, g.starting, nil
}

// pendingStart is a start under way. It goes on even if no caller waits for it any more.
type pendingStart struct {
	process *process
	done    chan struct{}
	err     error // valid when done is closed
}

// begin starts the program, if it passes inspection.
func (g *Guest) begin() error {
	path, err := g.program.inspect()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStart, err)
	}
	g.said.forget()
	b := &pendingStart{process: prepare(path, g.program.Kind, g.said), done: make(chan struct{})}
	g.starting = b
	go func() { // Close ends the process and then waits for this goroutine
		defer close(b.done)
		b.err = b.process.launch(g.program.Kind)
	}()
	return nil
}

// finishStart takes over the result of a start, unless another caller has or the program was ended while it started. It
// gets the connection all the same: calls on it then fail.
func (g *Guest) finishStart(b *pendingStart) (*grpc.ClientConn, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.starting == b {
		g.starting = nil
		if b.err != nil {
			g.dismiss()
		} else {
			g.process = b.process
		}
	}
	if b.err != nil {
		return nil, fmt.Errorf("%w: %w; %s", ErrStart, firstLine(b.err), g.said.words())
	}
	return b.process.conn, nil
}

// Well records that the program did what was asked, so that its failures are forgotten.
func (g *Guest) Well() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failures = 0
}

// Dismiss ends a program that did not do what was asked. The next one is started after a pause.
func (g *Guest) Dismiss() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dismiss()
}

// Drop is Dismiss for the program at the other end of this connection. Several calls may fail by the same death and all
// call Drop; the next program is not ended by that.
func (g *Guest) Drop(conn *grpc.ClientConn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.process != nil && g.process.conn == conn {
		g.dismiss()
	}
}

// dismiss ends the program and sets the pause: firstPause, doubled with each failure in a row, up to longest. The shift
// is capped so that it cannot overflow.
func (g *Guest) dismiss() {
	g.end()
	g.wake = g.now().Add(min(longest, firstPause<<min(g.failures, 20)))
	g.failures++
}

// Renew ends the program. The next one is started when it is needed, without a pause.
func (g *Guest) Renew() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.end()
	g.wake, g.failures = time.Time{}, 0
}

// LastWords returns in one line how the program ended, if it has, and what it wrote to its standard error.
func (g *Guest) LastWords() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.process == nil {
		return g.said.words()
	}
	return g.process.ending(g.said)
}

// Close ends the program for good.
func (g *Guest) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	g.end()
}

// end ends the program, whether it runs or is starting. It waits for a start to return, which is soon after the kill;
// a start that failed has ended its process itself (see launch).
func (g *Guest) end() {
	if b := g.starting; b != nil {
		_ = b.process.child.Kill(context.Background())
		<-b.done
		if b.err == nil {
			b.process.end()
		}
		g.starting = nil
	}
	if g.process != nil {
		g.process.end()
		g.process = nil
	}
}

// firstLine reduces an error of go-plugin to its first line, which says what happened; sometimes a paragraph of guesses
// follows.
func firstLine(err error) error { return firstLineError{err} }

// firstLineError is an error whose text is cut to one line.
type firstLineError struct{ error }

func (s firstLineError) Error() string {
	line, _, _ := strings.Cut(s.error.Error(), "\n")
	return printable.Line(line, 300)
}

func (s firstLineError) Unwrap() error { return s.error }

// connection implements goplugin.Plugin for gRPC, on both sides: the program registers its services, and the host gets
// the bare connection.
type connection struct {
	goplugin.NetRPCUnsupportedPlugin
	register func(grpc.ServiceRegistrar)
}

func (c connection) GRPCServer(_ *goplugin.GRPCBroker, server *grpc.Server) error {
	c.register(server)
	return nil
}

func (connection) GRPCClient(_ context.Context, _ *goplugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return conn, nil
}

// handshake is what host and program must agree on. A program of another kind sees another cookie and does not serve.
func handshake(kind Kind) goplugin.HandshakeConfig {
	return goplugin.HandshakeConfig{ProtocolVersion: Version, MagicCookieKey: Cookie, MagicCookieValue: string(kind)}
}

// MaxMessage is the largest message, bytes; a plan for 100,000 jobs is a tenth of it.
const MaxMessage = 256 << 20

// Serve makes this process a plugin of that kind. It returns when the host is gone, or if the process was not started
// as a plugin.
func Serve(kind Kind, register func(grpc.ServiceRegistrar)) {
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig: handshake(kind),
		Plugins:         goplugin.PluginSet{string(kind): connection{register: register}},
		Logger:          hclog.NewNullLogger(),
		GRPCServer: func(options []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(options, grpc.MaxRecvMsgSize(MaxMessage), grpc.MaxSendMsgSize(MaxMessage))...)
		},
	})
}

// within returns an error unless the address is a socket in the folder that was made for it.
func within(address net.Addr, folder string) error {
	if address.Network() != "unix" || filepath.Dir(filepath.Clean(address.String())) != filepath.Clean(folder) {
		return fmt.Errorf("it listens on %s %s: want a unix socket in the folder that %s names", address.Network(),
			address, goplugin.EnvUnixSocketDir)
	}
	info, err := os.Lstat(address.String())
	if err == nil && info.Mode().Type() != os.ModeSocket {
		err = fmt.Errorf("%s is no socket", address)
	}
	return err
}
