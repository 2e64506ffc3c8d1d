// Package guest runs a program of somebody else's beside the daemon and talks to it over gRPC: hashicorp/go-plugin, on
// a socket in a folder that nobody else may enter. It proves what can be proved before the program is started (who may
// change the file, its checksum), tells it nothing that it need not know (none of our environment), and sees to it that
// it ends with us. A guest that failed is ended, and started again after a pause that doubles. What is said over the
// connection is the business of the packages that use this one.
//
// A guest runs as the daemon's user. What that user can read it can read: nothing here makes a program harmless that is
// not.
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

// Kind is what a program is for. A program of another kind refuses to start.
type Kind string

// The kinds, in the words that host and program show each other.
const (
	Planner Kind = "planner"
	Slurm   Kind = "slurm"
)

// Version is that of what is said over the connection, of all kinds together. A program that does not speak it is not
// used.
const Version = 1

// Cookie is the variable by which a program knows that it was started as a plugin; its value is the Kind.
const Cookie = "SYNERGY_PLUGIN"

// Program is what an administrator names.
type Program struct {
	Path   string // absolute
	SHA256 string // 64 hexadecimal digits; empty: any content
	Kind   Kind
}

// Errors that a caller may want to tell apart.
var (
	ErrResting = errors.New("the plugin failed and is not started again yet")
	ErrNotYet  = errors.New("the plugin is still starting")
	ErrStart   = errors.New("the plugin does not start")
	ErrEnded   = errors.New("the plugin has died") // since it was last used
	ErrClosed  = errors.New("the plugin was ended")
)

// Limits on a guest's behaviour.
const (
	startLimit = 10 * time.Second // from its start until it can be asked, however many rounds that takes
	firstPause = time.Second      // after a failure; doubles with each one in a row
	longest    = 10 * time.Minute
)

// Guest is a program under our care. Its methods may be called from several goroutines.
type Guest struct {
	program Program
	said    *lines
	now     func() time.Time

	mu       sync.Mutex
	process  *process // nil: none runs
	birth    *birth   // of the one that is starting; nil: none is
	failures int      // in a row
	wake     time.Time
	closed   bool
}

// New is a guest that has not been started. Each line that it writes to its standard error is told to said, cut where
// it is long; nil: to nobody.
func New(program Program, said func(line string)) *Guest {
	return &Guest{program: program, said: &lines{tell: said}, now: time.Now}
}

// Conn is the connection to the running program, which is started if none runs. ErrResting: it failed, and it is too
// soon.
func (g *Guest) Conn(ctx context.Context) (*grpc.ClientConn, error) {
	conn, b, err := g.running()
	if b == nil {
		return conn, err
	}
	select {
	case <-b.done:
		return g.born(b)
	case <-ctx.Done():
		return nil, fmt.Errorf("%w; %s", ErrNotYet, g.said.words())
	}
}

// running is the connection to the program that runs, or the start that is under way.
func (g *Guest) running() (*grpc.ClientConn, *birth, error) {
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
	case g.birth == nil && g.now().Before(g.wake):
		return nil, nil, fmt.Errorf("%w: in %s", ErrResting, g.wake.Sub(g.now()).Round(time.Second))
	case g.birth == nil:
		if err := g.begin(); err != nil {
			g.dismiss()
			return nil, nil, err
		}
	}
	return nil, g.birth, nil
}

// birth is a start under way. It goes on when nobody waits for it any more.
type birth struct {
	process *process
	done    chan struct{}
	err     error // once it is done
}

// begin starts the program, if it is one that may be started.
func (g *Guest) begin() error {
	path, err := g.program.inspect()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStart, err)
	}
	g.said.forget()
	b := &birth{process: prepare(path, g.program.Kind, g.said), done: make(chan struct{})}
	g.birth = b
	go func() { // Close ends the process, and waits for this
		defer close(b.done)
		b.err = b.process.launch(g.program.Kind)
	}()
	return nil
}

// born takes over what became of a start, unless another caller has. Where the program has been ended since, the
// connection says so.
func (g *Guest) born(b *birth) (*grpc.ClientConn, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.birth == b {
		g.birth = nil
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

// Well says that the program did what was asked of it.
func (g *Guest) Well() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failures = 0
}

// Dismiss ends a program that did not do what was asked of it. The next one is started after a pause.
func (g *Guest) Dismiss() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dismiss()
}

// Drop is Dismiss for the program at the other end of this connection. Of several calls that one death has ended each
// may say so: the next program is not ended for that.
func (g *Guest) Drop(conn *grpc.ClientConn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.process != nil && g.process.conn == conn {
		g.dismiss()
	}
}

func (g *Guest) dismiss() {
	g.end()
	g.wake = g.now().Add(min(longest, firstPause<<min(g.failures, 20)))
	g.failures++
}

// Renew ends the program, so that the next one is started when it is wanted, without a pause.
func (g *Guest) Renew() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.end()
	g.wake, g.failures = time.Time{}, 0
}

// LastWords is how the program ended, if it has, and what it wrote to its standard error, in one line.
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

// end leaves no program, neither one that runs nor one that is starting.
func (g *Guest) end() {
	if b := g.birth; b != nil {
		_ = b.process.child.Kill(context.Background())
		<-b.done
		if b.err == nil {
			b.process.end()
		}
		g.birth = nil
	}
	if g.process != nil {
		g.process.end()
		g.process = nil
	}
}

// firstLine leaves of what the library says the line that says what happened; a paragraph of guesses comes after it now
// and then.
func firstLine(err error) error { return short{err} }

type short struct{ error }

func (s short) Error() string {
	line, _, _ := strings.Cut(s.error.Error(), "\n")
	return printable.Line(line, 300)
}

func (s short) Unwrap() error { return s.error }

// connection is all that go-plugin need know of our protocols.
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

func handshake(kind Kind) goplugin.HandshakeConfig {
	return goplugin.HandshakeConfig{ProtocolVersion: Version, MagicCookieKey: Cookie, MagicCookieValue: string(kind)}
}

// MaxMessage bounds what a program may send at once: a plan for 100,000 jobs is a tenth of it.
const MaxMessage = 256 << 20

// Serve makes this process a plugin of that kind. It returns when the host is gone, or when the process was not started
// as one.
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

// within says whether a socket lies in the folder that was made for it.
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
