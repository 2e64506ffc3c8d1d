// Package plugin lets an external program drive the workload manager: it serves the port through which rounds see and
// change jobs, and the tickets by which daemons elect the leader. It has both sides: the daemon (Client) and a Go
// program that is driven (Serve). slurmpb/slurm.proto is the protocol for programs in any language.
//
// A program that is late, dead or gives an impossible answer is treated as an unreachable Slurm: a request may have
// been carried out. It is ended, and started again after a pause. Observations are sent as differences to the last one
// that both sides have, identified by a version; a side that has lost it asks for all. A plugin's statements about jobs
// and nodes are believed only as far as they cannot break our arithmetic: impossible amounts that a user could cause
// make that job odd, and only the plugin's own mistakes void an answer. Errors are sent as words of a fixed set and
// never matched by text. The daemon gives a plugin no credentials.
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

	"github.com/synergy-slurmd/synergy-slurmd/bridge/plugin/slurmpb"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/guest"
)

// Options name the program and limit what is asked of it. Path is required.
type Options struct {
	Path    string            // absolute
	SHA256  string            // 64 hexadecimal digits; empty: any content
	Config  Configuration     // sent to the program before anything else
	Timeout time.Duration     // of one call; default a minute; four times that for observations and lists
	OnCall  func(Call)        // called for every call; may be called concurrently
	Said    func(line string) // called for each line on its standard error; may be nil
}

// Call is one call of the program, for counters.
type Call struct {
	Verb  string // configure, observe, update, …
	Bytes int64  // of the answer
	Took  time.Duration
	Err   string // kind of the error: gone, denied, refused, unreachable, not pending, …; empty: none
}

// MaxConfig limits the size of a plugin's configuration file, in bytes.
const MaxConfig = 1 << 20

const defaultTimeout = time.Minute

// Client implements slurm.Manager and leader.Tickets. Its methods may be called concurrently, for different jobs.
type Client struct {
	options   Options
	guest     *guest.Guest
	startLock chan struct{} // a lock for starting and configuring the program

	observeLock chan struct{} // a lock for Observe
	sight       lastSeen      // last observation

	mu      sync.Mutex // guards the fields below
	conn    *grpc.ClientConn
	ready   bool                       // the program on conn has been configured
	intro   *slurmpb.ConfigureResponse // what the program declared; nil: nothing yet
	silence silenceTimer
}

// Inspect checks a program without starting it: that it may be run, and that its content is the one that the
// administrator named.
func Inspect(path, sha256 string) error {
	if err := program(path, sha256).Check(); err != nil {
		return fmt.Errorf("slurm plugin: %w", err)
	}
	return nil
}

func program(path, sha256 string) guest.Program {
	return guest.Program{Path: path, SHA256: sha256, Kind: guest.Slurm}
}

// Open starts the program and configures it. After an error no program is left running.
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
		startLock: make(chan struct{}, 1), observeLock: make(chan struct{}, 1),
	}
	within, cancel := context.WithTimeout(ctx, options.Timeout)
	defer cancel()
	if _, err := c.program(ctx, within); err != nil {
		c.Close()
		return nil, callerErrorOr(ctx, err)
	}
	return c, nil
}

// Close ends the program.
func (c *Client) Close() { c.guest.Close() }

// Version is the program's own description of its version, in one line.
func (c *Client) Version() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return oneLine(c.intro.GetVersion())
}

// acquire acquires a lock that is a channel with a buffer of one. It is no mutex, so that the wait ends when ctx does.
func acquire(ctx context.Context, room chan struct{}) error {
	select {
	case room <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// program returns the connection to a running, configured program, which it starts if needed. ctx is the caller's;
// within ends with it or at the time limit of the call. A program that cannot be reached counts as an unreachable
// Slurm; one that refuses its configuration is asked to configure again at the next call.
func (c *Client) program(ctx, within context.Context) (*grpc.ClientConn, error) {
	if err := acquire(within, c.startLock); err != nil {
		return nil, noAnswerError{err}
	}
	defer func() { <-c.startLock }()
	conn, err := c.guest.Conn(within)
	if err != nil {
		return nil, noAnswerError{err}
	}
	if c.noteConnection(conn) {
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

// noteConnection records the connection and reports whether its program has been configured. A new connection leads to
// a new program, which has not been configured and has no call open.
func (c *Client) noteConnection(conn *grpc.ClientConn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != conn {
		c.conn, c.ready, c.silence = conn, false, silenceTimer{}
	}
	return c.ready
}

// configure sends the configuration and returns what the program declares about itself, or why it refuses.
func (c *Client) configure(ctx, within context.Context, conn *grpc.ClientConn) (intro *slurmpb.ConfigureResponse,
	err error) {
	got, err := c.counted("configure", func() (answer, error) {
		return c.callProgram(ctx, within, conn, func(ctx context.Context, manager slurmpb.SlurmClient) (answer, error) {
			intro, err = manager.Configure(ctx, c.options.Config.out())
			return intro, err
		})
	})
	if err == nil {
		err = failureIn(got.GetFailure())
	}
	return intro, err
}

// answer is the answer to any call.
type answer interface {
	proto.Message
	GetFailure() *slurmpb.Failure
}

// question is a call of the program.
type question func(ctx context.Context, manager slurmpb.SlurmClient) (answer, error)

// ask makes one call within limit and reports it to OnCall. A failure that the program answers is returned as an error.
func (c *Client) ask(ctx context.Context, verb string, limit time.Duration, put question) error {
	_, err := c.counted(verb, func() (answer, error) { return c.exchange(ctx, limit, put) })
	return err
}

// exchange makes a call, and starts the program first if needed. Near the caller's deadline the plugin may give up
// first and say that Slurm is unreachable; the caller's deadline is returned then, since it says nothing about Slurm.
func (c *Client) exchange(ctx context.Context, limit time.Duration, put question) (answer, error) {
	if err := callerError(ctx); err != nil {
		return nil, err
	}
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, err := c.program(ctx, within)
	if err != nil {
		return nil, callerErrorOr(ctx, err)
	}
	got, err := c.callProgram(ctx, within, conn, put)
	if err != nil {
		return nil, err
	}
	if err = failureIn(got.GetFailure()); errors.Is(err, slurm.ErrUnreachable) {
		err = callerErrorOr(ctx, err)
	}
	return got, err
}

// callProgram makes a call of this program and waits for the answer.
func (c *Client) callProgram(ctx, within context.Context, conn *grpc.ClientConn, put question) (answer, error) {
	c.noteCall()
	got, err := put(within, slurmpb.NewSlurmClient(conn))
	if err != nil {
		return nil, c.handleNoAnswer(ctx, conn, err)
	}
	c.noteAnswer()
	return got, nil
}

// handleNoAnswer is called for a call without answer and returns the error for its caller. If the caller gave up, the
// program is not to blame and goes on, unless nothing at all has been heard from it for longer than a call may take:
// then it hangs, and is ended.
func (c *Client) handleNoAnswer(ctx context.Context, conn *grpc.ClientConn, err error) error {
	since := c.noteUnanswered()
	if ended := callerError(ctx); ended != nil {
		if since > c.options.Timeout {
			c.guest.Drop(conn)
		}
		return ended
	}
	return c.noAnswer(conn, err)
}

// noAnswer translates gRPC's error. A program that died or took too long is ended. The other open calls then get
// Canceled, as they do from Close. A call that the program does not have counts as refused. Any other error leaves the
// program running.
func (c *Client) noAnswer(conn *grpc.ClientConn, err error) error {
	said := status.Convert(err)
	switch said.Code() {
	case codes.DeadlineExceeded:
		c.guest.Drop(conn)
		return noAnswerError{errors.New("no answer in time")}
	case codes.Canceled:
		return noAnswerError{errors.New("the program was ended")}
	case codes.Unavailable:
		c.guest.Drop(conn)
		return noAnswerError{fmt.Errorf("it died: %s", c.guest.LastWords())}
	case codes.Unimplemented:
		return fmt.Errorf("slurm plugin: %w: %s", slurm.ErrRefused, oneLine(said.Message()))
	}
	return noAnswerError{errors.New(oneLine(said.Message()))}
}

// callerError is the error of a caller that gave up. A deadline that is less than deadlineSlack away counts as passed,
// since the plugin may notice it slightly earlier.
func callerError(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if due, bounded := ctx.Deadline(); bounded && time.Until(due) < deadlineSlack {
		return context.DeadlineExceeded
	}
	return nil
}

const deadlineSlack = 20 * time.Millisecond

// callerErrorOr is the caller's own end if it gave up, else err.
func callerErrorOr(ctx context.Context, err error) error {
	if ended := callerError(ctx); ended != nil {
		return ended
	}
	return err
}

// counted makes a call and reports it to OnCall.
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

// silenceTimer tracks how long a program has left all calls unanswered.
type silenceTimer struct {
	open  int       // calls without an answer so far
	since time.Time // start of the silence: a call was made and no answer came since then; zero: there is none
}

// noteCall records a new call. If none was open, the silence of the program begins now.
func (c *Client) noteCall() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.silence.open++; c.silence.since.IsZero() {
		c.silence.since = time.Now()
	}
}

// noteAnswer records an answer: the program is alive, so the silence ends. If calls are still open it begins anew.
func (c *Client) noteAnswer() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.silence.since = time.Now()
	if c.silence.open--; c.silence.open <= 0 {
		c.silence = silenceTimer{}
	}
}

// noteUnanswered records that a call ended without answer and returns the length of the silence. The silence does not
// end when no call is open, so that a program that hangs is found even if each call is given up early.
func (c *Client) noteUnanswered() (silent time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.silence.open--
	return time.Since(c.silence.since)
}
