// Package plugin lets an external program plan rounds: it sends one snapshot per round and receives a plan, within a
// deadline. It has both sides: the daemon that asks (Planner) and a Go program that answers (Serve).
// plannerpb/planner.proto is the protocol for programs in any language.
//
// A received plan is not trusted: numbers that cannot be summed and text that cannot be shown are refused when it is
// decoded, and policy.Check decides on the rest. A plugin that is late, dead, wrong or of another version costs one
// round, which the caller plans itself; the plugin is started again after a pause.
package plugin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/synergy-slurmd/synergy-slurmd/guest"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/plugin/plannerpb"
	"github.com/synergy-slurmd/synergy-slurmd/printable"
)

// Fault is the reason, in one word, why a plugin did not plan a round.
type Fault string

// The faults.
const (
	Absent  Fault = "absent"  // it did not start, or has another version or checksum
	Resting Fault = "resting" // it failed before and its pause is not over
	Late    Fault = "late"    // it did not answer in time
	Ended   Fault = "ended"   // it died
	Refused Fault = "refused" // it answered with an error
	Invalid Fault = "invalid" // it answered with a plan that cannot be used
)

// maxQuoted limits what is quoted of a program's own message, in bytes.
const maxQuoted = 300

// Faults lists all faults, for counting.
func Faults() []Fault { return []Fault{Absent, Resting, Late, Ended, Refused, Invalid} }

// Failure is why a plugin did not plan a round.
type Failure struct {
	Fault Fault
	cause error
}

func (f *Failure) Error() string { return fmt.Sprintf("planner plugin: %s: %v", f.Fault, f.cause) }
func (f *Failure) Unwrap() error { return f.cause }

// Planner asks a plugin. Its methods except Close must not be called concurrently.
type Planner struct {
	guest *guest.Guest
	limit time.Duration
}

// New makes a planner; the program is not started yet. An answer may take limit at most. A program that needs longer to
// start is ready for a later question. Lines that it writes to standard error are passed to said, which may be nil.
func New(path, sha256 string, limit time.Duration, said func(line string)) *Planner {
	return &Planner{guest.New(program(path, sha256), said), limit}
}

// Inspect checks a program without starting it.
func Inspect(path, sha256 string) error {
	if err := program(path, sha256).Check(); err != nil {
		return fmt.Errorf("planner plugin: %w", err)
	}
	return nil
}

func program(path, sha256 string) guest.Program {
	return guest.Program{Path: path, SHA256: sha256, Kind: guest.Planner}
}

// Close ends the program.
func (p *Planner) Close() { p.guest.Close() }

// Restart ends the program, so that the next question is put to a new one at once.
func (p *Planner) Restart() { p.guest.Renew() }

// Plan asks for a plan of this round and checks it. The cluster is not changed. The error is a *Failure, unless ctx
// itself has ended. After a failure of its own the program has been ended and is started again after a pause; after a
// good plan its earlier failures, which lengthen the pause, are forgotten.
func (p *Planner) Plan(ctx context.Context, round int, c policy.Cluster, who policy.Policy,
	how policy.Allocator) (policy.Plan, error) {
	plan, err := p.Ask(ctx, round, c, who, how)
	if err == nil {
		if err = policy.Check(c, plan); err != nil {
			err = &Failure{Invalid, err}
		}
	}
	var failure *Failure
	// Without a failure of its own the program goes on: the caller gave up, or there is no program to end (ErrEnded,
	// Absent, Resting).
	if err == nil {
		p.guest.Well()
	} else if errors.As(err, &failure) && !errors.Is(err, guest.ErrEnded) && failure.Fault != Absent &&
		failure.Fault != Resting {
		p.guest.Dismiss()
	}
	return plan, err
}

// Ask is Plan without policy.Check: the plan is only known to be decodable. The program keeps running whatever it
// answered; an exam judges the answers itself and decides about restarts.
func (p *Planner) Ask(ctx context.Context, round int, c policy.Cluster, who policy.Policy,
	how policy.Allocator) (policy.Plan, error) {
	within, cancel := context.WithTimeout(ctx, p.limit)
	defer cancel()
	return policy.Shared(c, who, how, func(c policy.Cluster) (policy.Plan, error) {
		return p.ask(ctx, within, round, c, who, how)
	})
}

// ask sends one question to the program and decodes its answer. The program does not see that jobs share GPUs:
// policy.Shared asks about a snapshot in which each job has GPUs of its own. It may ask several times for one round,
// all of which must be answered before within ends. ctx is the caller's: if it ends, the caller gave up.
func (p *Planner) ask(ctx, within context.Context, round int, c policy.Cluster, who policy.Policy,
	how policy.Allocator) (policy.Plan, error) {
	conn, err := p.guest.Conn(within)
	switch {
	case errors.Is(err, guest.ErrResting):
		return policy.Plan{}, &Failure{Resting, err}
	case errors.Is(err, guest.ErrEnded):
		return policy.Plan{}, &Failure{Ended, err}
	case err != nil:
		return policy.Plan{}, &Failure{Absent, err}
	}
	answer, err := plannerpb.NewPlannerClient(conn).Plan(within, question(round, &c, who, how),
		grpc.MaxCallRecvMsgSize(maxAnswerBytes(&c)))
	if err != nil && ctx.Err() != nil { // the caller gave up, which is no fault of the plugin
		return policy.Plan{}, ctx.Err()
	}
	if err != nil {
		return policy.Plan{}, p.failure(err)
	}
	plan, err := planIn(&c, answer)
	if err != nil {
		return policy.Plan{}, &Failure{Invalid, err}
	}
	return plan, nil
}

// maxAnswerBytes limits the answer that is received, in bytes, to what a plan can need: a kilobyte per decision and 256
// bytes for each node of a grant.
func maxAnswerBytes(c *policy.Cluster) int {
	size := 64 << 10
	for i := range c.Jobs {
		size += 1<<10 + 256*min(c.Jobs[i].GPUs, len(c.Nodes))
	}
	return min(size, guest.MaxMessage)
}

// failure translates an error of gRPC into a Failure, whose fault is counted and whose text an administrator reads.
func (p *Planner) failure(err error) *Failure {
	said := status.Convert(err)
	switch said.Code() {
	case codes.DeadlineExceeded, codes.Canceled:
		return &Failure{Late, fmt.Errorf("no plan within %s", p.limit)}
	case codes.Unavailable:
		return &Failure{Ended, fmt.Errorf("it died: %s", p.guest.LastWords())}
	case codes.ResourceExhausted:
		return &Failure{Invalid, errors.New("its answer is larger than any plan for this snapshot: " +
			printable.Line(said.Message(), maxQuoted))}
	case codes.Unimplemented:
		return &Failure{Refused, errors.New("it serves no synergy.planner.v1.Planner")}
	}
	return &Failure{Refused, errors.New(printable.Line(said.Message(), maxQuoted))}
}
