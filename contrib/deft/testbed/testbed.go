// Package testbed is an emulated GPU in virtual time, and jobs that use it: each does a step, which is a number of
// kernels one after the other, stays away for its gap, and begins again. Run returns when each step of each job began
// and ended under one of the ways to share a GPU; slices are given by the same arbiter that a node has. It emulates who
// waits for whom. That kernels of two jobs slow each other down is emulated in Fill alone, with measured figures.
//
//	result, err := testbed.Run(testbed.Config{
//		Mode:     testbed.LookAhead,
//		Duration: time.Minute,
//		Clients: []testbed.Client{
//			{Name: "important", Class: share.High, Kernels: 25, Kernel: time.Millisecond, Gap: 20 * time.Millisecond},
//			{Name: "other", Class: share.Low, Kernels: 36, Kernel: time.Millisecond},
//		},
//	})
//	result.Clients[0].Speed // as a part of its speed alone
//	result.Clients[0].Steps // when each began (wanted the GPU) and ended
//
// The same Config gives the same Result, always and everywhere. So a product is written float64(x*y), which no
// processor rounds in one step with a sum (tests/rounding_test.go).
package testbed

import (
	"fmt"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/share"
	"github.com/synergy-slurmd/synergy-slurmd/share/turns"
)

// Mode is how the GPU is shared.
type Mode string

// The modes.
const (
	// Queue is one queue of kernels, served in order. Each job puts its whole step into it, or as many kernels as
	// Client.Every says.
	Queue Mode = "queue"
	// Slicing gives each of the processes a time slice of Config.Slice in turn, as a GPU does by itself.
	Slicing Mode = "slicing"
	// Kernels is Deft's way: as Queue, but Low begins no further kernel while a High has a step open.
	Kernels Mode = "kernels"
	// Turns are turns of one step, by class alone: a client that has released is not expected back.
	Turns Mode = "turns"
	// LookAhead are turns as a node gives them by default: kept until a yield, with look-ahead and a least share.
	LookAhead Mode = "lookahead"
	// Fill is MPS: all jobs at once, with speeds measured on an H100.
	Fill Mode = "fill"
)

// Client is a job that uses the GPU in a closed loop.
type Client struct {
	Name  string
	Class share.Class
	// A step is Kernels kernels of Kernel each, one after the other, plus Host, in which the GPU waits for the job,
	// spread over the step. The speeds in Fill are those of whole steps, so there Host uses the GPU, too.
	Kernels int
	Kernel  time.Duration
	Host    time.Duration
	Gap     time.Duration // after each step, before the next
	Start   time.Duration // of its first step
	// Every is after how many kernels the job waits for them to end, which costs Config.Sync; 0: only at the end of its
	// step.
	Every int
	// Undeclared is set if the client does not say how long its steps are.
	Undeclared bool
	// SLO is the time within which each step should end; 0: not given.
	SLO time.Duration
}

// Step returns how long a step takes alone, without jitter.
func (c Client) Step() time.Duration {
	return time.Duration(c.Kernels)*c.Kernel + c.Host
}

// Config is one experiment.
type Config struct {
	Clients  []Client
	Mode     Mode
	Duration time.Duration // no step begins later, except for LeastSteps
	// LeastSteps is how many steps each client does at least, however long that takes.
	LeastSteps int
	Seed       uint64
	// Jitter is the part, 0 to 0.9, by which steps and gaps vary up and down, evenly distributed.
	Jitter float64
	Slice  time.Duration // of Slicing; 0: DefaultSlice
	Sync   time.Duration // cost of waiting for one's kernels; 0: DefaultSync
	// RoundTrip is the time for a request and its grant in Turns and LookAhead; 0: DefaultRoundTrip.
	RoundTrip time.Duration
	// Rules are the arbiter's rules in Turns and LookAhead; nil: the mode's own.
	Rules *turns.Rules
	// Idle is how long a client keeps a slice that it does not use, so that its next step needs no request; 0:
	// DefaultIdle. In Turns it keeps none.
	Idle time.Duration
	// Threads is the part of the GPU's threads that Low has in Fill, 0.25 to 1; 0: 1, all of them.
	Threads float64
	// SameClass gives Low the same priority as High in Fill.
	SameClass bool
}

// Default values of a Config.
const (
	DefaultSlice     = 1 * time.Millisecond
	DefaultSync      = 11500 * time.Nanosecond // measured by Deft
	DefaultRoundTrip = 100 * time.Microsecond
	DefaultIdle      = 2 * time.Millisecond
)

// Step is one completed step.
type Step struct {
	Start time.Duration // when the client wanted the GPU
	Run   time.Duration // when it began to use it
	End   time.Duration
}

// Took returns how long the step was, its wait included.
func (s Step) Took() time.Duration { return s.End - s.Start }

// Outcome is the result for one client.
type Outcome struct {
	Name  string
	Steps []Step
	// Speed is the number of steps within Duration, relative to the number that the client does alone.
	Speed float64
	Alone time.Duration // mean length of its steps alone
}

// Result has the outcomes of all clients, in their order.
type Result struct {
	Clients []Outcome
	// State is the arbiter's when the first client has finished, in Turns and LookAhead.
	State *turns.State
}

// Bounds of an experiment, so that each one ends.
const (
	mostClients = 64
	mostKernels = 1_000_000
	longest     = 7 * 24 * time.Hour
	mostEvents  = 50_000_000
)

// Check returns an error if the experiment is not valid.
func (c Config) Check() error {
	switch {
	case len(c.Clients) == 0 || len(c.Clients) > mostClients:
		return fmt.Errorf("%d clients: want 1 to %d", len(c.Clients), mostClients)
	case c.Duration <= 0 || c.Duration > longest:
		return fmt.Errorf("duration %v: want more than 0 and at most %v", c.Duration, longest)
	case c.Jitter < 0 || c.Jitter > 0.9:
		return fmt.Errorf("jitter %v: want 0 to 0.9", c.Jitter)
	case c.Threads != 0 && (c.Threads < 0.25 || c.Threads > 1):
		return fmt.Errorf("threads %v: want 0.25 to 1, or 0 for all", c.Threads)
	case min(c.Slice, c.Sync, c.RoundTrip, c.Idle) < 0 || c.LeastSteps < 0:
		return fmt.Errorf("a time or number below 0: want 0 or more")
	}
	switch c.Mode {
	case Queue, Slicing, Kernels, Turns, LookAhead, Fill:
	default:
		return fmt.Errorf("mode %.20q: want %s, %s, %s, %s, %s or %s", c.Mode, Queue, Slicing, Kernels, Turns,
			LookAhead, Fill)
	}
	for i, client := range c.Clients {
		if err := client.check(); err != nil {
			return fmt.Errorf("client %d: %w", i+1, err)
		}
	}
	return nil
}

func (c Client) check() error {
	switch {
	case c.Class != share.High && c.Class != share.Low:
		return fmt.Errorf("class %.20q: want %s or %s", c.Class, share.High, share.Low)
	case c.Kernels < 1 || c.Kernels > mostKernels:
		return fmt.Errorf("%d kernels: want 1 to %d", c.Kernels, mostKernels)
	case c.Kernel <= 0 || c.Kernel > time.Hour:
		return fmt.Errorf("kernels of %v: want more than 0 and at most an hour", c.Kernel)
	case min(c.Host, c.Gap, c.Start, c.SLO) < 0 || max(c.Host, c.Gap, c.Start, c.SLO) > longest:
		return fmt.Errorf("host, gap, start or slo: want 0 to %v", longest)
	case c.Every < 0:
		return fmt.Errorf("every %d kernels: want 0 or more", c.Every)
	}
	return nil
}

// withDefaults returns the Config with defaults for unset fields. Mode Turns has neither look-ahead nor a least share,
// and keeps no slice that is not used.
func (c Config) withDefaults() Config {
	setDefault(&c.Slice, DefaultSlice)
	setDefault(&c.Sync, DefaultSync)
	setDefault(&c.RoundTrip, DefaultRoundTrip)
	setDefault(&c.Idle, DefaultIdle)
	if c.Threads == 0 {
		c.Threads = 1
	}
	if c.Mode == Turns {
		c.Idle = 0
	}
	if c.Rules == nil {
		rules := turns.Defaults()
		if c.Mode == Turns {
			rules = turns.Rules{}
		}
		c.Rules = &rules
	}
	return c
}

// setDefault sets a duration that is unset.
func setDefault(d *time.Duration, otherwise time.Duration) {
	if *d == 0 {
		*d = otherwise
	}
}

// Run runs the experiment.
func Run(c Config) (Result, error) {
	if err := c.Check(); err != nil {
		return Result{}, err
	}
	result, err := run(c.withDefaults())
	if err != nil {
		return Result{}, err
	}
	for i := range result.Clients {
		if err := c.compare(i, &result.Clients[i]); err != nil {
			return Result{}, err
		}
	}
	return result, nil
}

// compare sets a client's speed relative to being alone on the GPU with the same steps and gaps. With the same seed its
// steps have the same jitter. A bound on its queue is left out, since that is what sharing costs it.
func (c Config) compare(i int, outcome *Outcome) error {
	client := c.Clients[i]
	client.Every = 0
	alone := Config{Clients: []Client{client}, Mode: Queue, Duration: c.Duration, LeastSteps: c.LeastSteps,
		Jitter: c.Jitter, Seed: c.Seed + uint64(i)}
	result, err := run(alone.withDefaults())
	if err != nil {
		return fmt.Errorf("client %d alone: %w", i+1, err)
	}
	steps := result.Clients[0].Steps
	var took time.Duration
	for _, step := range steps {
		took += step.Took()
	}
	outcome.Alone = took / time.Duration(max(1, len(steps)))
	if most := within(steps, c.Duration); most > 0 {
		outcome.Speed = within(outcome.Steps, c.Duration) / most
	}
	return nil
}

// within returns how many steps were done until end; a step under way then counts in part.
func within(steps []Step, end time.Duration) float64 {
	for i, step := range steps {
		if step.End <= end {
			continue
		}
		if step.Start >= end {
			return float64(i)
		}
		return float64(i) + float64(end-step.Start)/float64(step.Took())
	}
	return float64(len(steps))
}
