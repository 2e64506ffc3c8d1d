// Package plugin lets a program of somebody else's drive the workload manager: the port through which rounds see and
// change jobs, and the tickets by which daemons agree on who acts, served from another process. It is for both sides,
// the daemon that drives (Client) and a program in Go that is driven (Serve); slurmpb/slurm.proto is the protocol, for
// programs in any language.
//
// A program that is late, dead or says what cannot be is as a Slurm that is not heard: what was asked of it may have
// been done. It is ended, and started again after a pause. What it says of jobs and nodes is believed as far as it
// cannot break the reckoning.
package plugin

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/plugin/slurmpb"
	"github.com/synergy-slurmd/synergy-slurmd/guest"
)

// Options tell which program drives, and how much is asked of it. Path is needed, the rest has defaults.
type Options struct {
	Path    string            // absolute
	SHA256  string            // 64 hexadecimal digits; empty: any content
	Config  Configuration     // what it is told before anything else
	Timeout time.Duration     // of one call; default a minute. A look at everything has four times that
	OnCall  func(Call)        // told of every call; may be called from several goroutines
	Said    func(line string) // told of each line that it writes to its standard error; nil: nobody is
}

// Call is one call of the program as the daemon counts it.
type Call struct {
	Verb  string // configure, observe, update, …
	Bytes int64  // of the answer
	Took  time.Duration
	Err   string // kind of the error: gone, denied, refused, unreachable, not pending; empty: none
}

// MaxConfig bounds the file that a plugin is configured with, in bytes.
const MaxConfig = 1 << 20

const defaultTimeout = time.Minute

// Client is a bridge.Slurm and a leader.Tickets. Its methods may be called from several goroutines, for different jobs.
type Client struct {
	options Options
	guest   *guest.Guest
	door    chan struct{} // has room for one: who may look for the program

	looking chan struct{} // the same for an Observe
	sight   sight         // of the last one

	mu    sync.Mutex // guards what follows
	conn  *grpc.ClientConn
	ready bool                       // the program at its other end has been configured
	intro *slurmpb.ConfigureResponse // what the program said of itself; nil: nothing yet
	pulse pulse
}

// Inspect says what is wrong with a program before it is started.
func Inspect(path, sha256 string) error {
	if err := program(path, sha256).Check(); err != nil {
		return fmt.Errorf("slurm plugin: %w", err)
	}
	return nil
}

func program(path, sha256 string) guest.Program {
	return guest.Program{Path: path, SHA256: sha256, Kind: guest.Slurm}
}

// Open starts the program and configures it.
func Open(ctx context.Context, options Options) (*Client, error) {
	if err := Inspect(options.Path, options.SHA256); err != nil {
		return nil, err
	}
	if size := len(options.Config.File); size > MaxConfig {
		return nil, fmt.Errorf("slurm plugin: its configuration has %d bytes: want at most %d", size, MaxConfig)
	}
	if options.Timeout <= 0 {
		options.Timeout = defaultTimeout
	}
	c := &Client{
		options: options, guest: guest.New(program(options.Path, options.SHA256), options.Said),
		door: make(chan struct{}, 1), looking: make(chan struct{}, 1),
	}
	within, cancel := context.WithTimeout(ctx, options.Timeout)
	defer cancel()
	if _, err := c.program(ctx, within); err != nil {
		c.Close()
		return nil, orOver(ctx, err)
	}
	return c, nil
}

// Close ends the program.
func (c *Client) Close() { c.guest.Close() }

// Version is what the program says that it is, in one line.
func (c *Client) Version() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return plain(c.intro.GetVersion())
}

// enter waits for room.
func enter(ctx context.Context, room chan struct{}) error {
	select {
	case room <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// program is the connection to one that runs and has been configured; it is started if none runs. The second context
// ends with the first, or when we have waited long enough.
func (c *Client) program(ctx, within context.Context) (*grpc.ClientConn, error) {
	if err := enter(within, c.door); err != nil {
		return nil, unheard{err}
	}
	defer func() { <-c.door }()
	conn, err := c.guest.Conn(within)
	if err != nil {
		return nil, unheard{err}
	}
	if c.meet(conn) {
		return conn, nil
	}
	intro, err := c.configure(ctx, within, conn)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ready, c.intro = true, intro
	return conn, nil
}

// meet says whether the program at the other end has been configured already.
func (c *Client) meet(conn *grpc.ClientConn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != conn {
		c.conn, c.ready, c.pulse = conn, false, pulse{}
	}
	return c.ready
}

func (c *Client) configure(ctx, within context.Context, conn *grpc.ClientConn) (intro *slurmpb.ConfigureResponse,
	err error) {
	got, err := c.counted("configure", func() (answer, error) {
		return c.hear(ctx, within, conn, func(ctx context.Context, slurm slurmpb.SlurmClient) (answer, error) {
			intro, err = slurm.Configure(ctx, c.options.Config.out())
			return intro, err
		})
	})
	if err == nil {
		err = failureIn(got.GetFailure())
	}
	return intro, err
}

// answer is what every call comes back with.
type answer interface {
	proto.Message
	GetFailure() *slurmpb.Failure
}

// question is a call of the program.
type question func(ctx context.Context, slurm slurmpb.SlurmClient) (answer, error)

// ask puts a question, within the time that any has. It returns once there is an answer that tells of no failure.
func (c *Client) ask(ctx context.Context, verb string, limit time.Duration, put question) error {
	_, err := c.counted(verb, func() (answer, error) { return c.exchange(ctx, limit, put) })
	return err
}

func (c *Client) exchange(ctx context.Context, limit time.Duration, put question) (answer, error) {
	if err := over(ctx); err != nil {
		return nil, err
	}
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, err := c.program(ctx, within)
	if err != nil {
		return nil, orOver(ctx, err)
	}
	got, err := c.hear(ctx, within, conn, put)
	if err != nil {
		return nil, err
	}
	if err = failureIn(got.GetFailure()); errors.Is(err, bridge.ErrUnreachable) {
		err = orOver(ctx, err)
	}
	return got, err
}

// hear puts a question to this program and waits for what it says.
func (c *Client) hear(ctx, within context.Context, conn *grpc.ClientConn, put question) (answer, error) {
	c.asked()
	got, err := put(within, slurmpb.NewSlurmClient(conn))
	if err != nil {
		return nil, c.silent(ctx, conn, err)
	}
	c.heard()
	return got, nil
}

// silent says what to think of a call that had no answer. When it was the caller who gave up, the program has done
// nothing wrong, unless nothing at all has been heard of it for longer than a call may take.
func (c *Client) silent(ctx context.Context, conn *grpc.ClientConn, err error) error {
	since := c.gaveUp()
	if ended := over(ctx); ended != nil {
		if since > c.options.Timeout {
			c.guest.Drop(conn)
		}
		return ended
	}
	return c.unheard(conn, err)
}

// unheard names what gRPC says. A program that has died, or that took too long, is ended.
func (c *Client) unheard(conn *grpc.ClientConn, err error) error {
	said := status.Convert(err)
	switch said.Code() {
	case codes.DeadlineExceeded:
		c.guest.Drop(conn)
		return unheard{errors.New("no answer in time")}
	case codes.Canceled:
		return unheard{errors.New("the program was ended")}
	case codes.Unavailable:
		c.guest.Drop(conn)
		return unheard{fmt.Errorf("it died: %s", c.guest.LastWords())}
	case codes.Unimplemented:
		return fmt.Errorf("slurm plugin: %w: %s", bridge.ErrRefused, plain(said.Message()))
	}
	return unheard{errors.New(plain(said.Message()))}
}

// over is the end of a caller's patience. The other side may notice it a moment earlier than we do.
func over(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if due, bounded := ctx.Deadline(); bounded && time.Until(due) < moment {
		return context.DeadlineExceeded
	}
	return nil
}

const moment = 20 * time.Millisecond

// orOver is the caller's own end, where that is why something failed.
func orOver(ctx context.Context, err error) error {
	if ended := over(ctx); ended != nil {
		return ended
	}
	return err
}

// counted makes a call and tells of it.
func (c *Client) counted(verb string, make func() (answer, error)) (answer, error) {
	began := time.Now()
	got, err := make()
	if c.options.OnCall != nil {
		call := Call{Verb: verb, Took: time.Since(began), Err: wordFor(err)}
		if got != nil {
			call.Bytes = int64(proto.Size(got))
		}
		c.options.OnCall(call)
	}
	return got, err
}

// pulse is how long a program has left everything unanswered.
type pulse struct {
	open  int       // calls that wait for an answer
	since time.Time // something was asked, and nothing has been heard from then on; zero: nothing is missing
}

func (c *Client) asked() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pulse.open++; c.pulse.since.IsZero() {
		c.pulse.since = time.Now()
	}
}

func (c *Client) heard() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pulse.since = time.Now()
	if c.pulse.open--; c.pulse.open <= 0 {
		c.pulse = pulse{}
	}
}

func (c *Client) gaveUp() (silent time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pulse.open--
	return time.Since(c.pulse.since)
}
