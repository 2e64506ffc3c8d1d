// Package testbed is an emulated GPU in virtual time, and jobs that use it: each does a step, which is a number of
// kernels one after the other, stays away for its gap, and begins again. Run says when each step of each job began and
// ended under one of the ways to share a GPU; turns are given by the same arbiter that a node has. What is emulated is
// who waits for whom. That two kernels on one GPU slow each other down is in Fill alone, whose figures were measured.
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
// The same Config gives the same Result, always and everywhere.
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
	// Queue is one queue of kernels, served in order, into which everybody puts what it has: the whole step, or as many
	// kernels as Client.Every says.
	Queue Mode = "queue"
	// Slicing is what a GPU does with two processes: each in turn for Config.Slice.
	Slicing Mode = "slicing"
	// Kernels is Deft's way: Queue, and Low begins no further kernel while a High has a step open.
	Kernels Mode = "kernels"
	// Turns are turns of one step, by class alone: whoever releases is forgotten.
	Turns Mode = "turns"
	// LookAhead are turns as a node gives them by default: kept until told, with look-ahead and a least share.
	LookAhead Mode = "lookahead"
	// Fill is MPS: all at once, with the speeds that were measured on an H100.
	Fill Mode = "fill"
)

// Client is a job that uses the GPU in a closed loop.
type Client struct {
	Name  string
	Class share.Class
	// A step is Kernels kernels of Kernel each, one after the other, and Host in which the GPU waits for the job,
	// spread over the step. Fill's speeds are of whole steps, so that it uses the GPU for Host as well.
	Kernels int
	Kernel  time.Duration
	Host    time.Duration
	Gap     time.Duration // after each step, before the next
	Start   time.Duration // of its first step
	// Every is after how many kernels the job waits for them to end, which costs Config.Sync; 0: at the end of its
	// step.
	Every int
	// Undeclared: it does not say how long its steps are.
	Undeclared bool
	// SLO is within how long each step shall end; 0: not said.
	SLO time.Duration
}

// Step is how long a step takes alone, without jitter.
func (c Client) Step() time.Duration {
	return time.Duration(c.Kernels)*c.Kernel + c.Host
}

// Config is one experiment.
type Config struct {
	Clients  []Client
	Mode     Mode
	Duration time.Duration // no step begins later, but see LeastSteps
	// LeastSteps is how many steps each client does at least, however long that takes.
	LeastSteps int
	Seed       uint64
	// Jitter is by which part a step and a gap may be longer or shorter, 0 to 0.9; evenly distributed.
	Jitter float64
	Slice  time.Duration // of Slicing; 0: DefaultSlice
	Sync   time.Duration // what it costs a client to wait for its kernels; 0: DefaultSync
	// RoundTrip is how long a request and its grant are under way in Turns and LookAhead; 0: DefaultRoundTrip.
	RoundTrip time.Duration
	// Rules are those of Turns and LookAhead; nil: those that the mode has.
	Rules *turns.Rules
	// Idle is for how long a client keeps a turn that it does not use, so that its next step needs none; 0:
	// DefaultIdle. In Turns it never does.
	Idle time.Duration
	// Threads is the part of the GPU's threads that Low has in Fill, 0.25 to 1; 0: 1, all of them.
	Threads float64
	// SameClass: in Fill, Low has no lower priority than High.
	SameClass bool
}

// What a Config means where it says nothing.
const (
	DefaultSlice     = 1 * time.Millisecond
	DefaultSync      = 11500 * time.Nanosecond // measured by Deft
	DefaultRoundTrip = 100 * time.Microsecond
	DefaultIdle      = 2 * time.Millisecond
)

// Step is one step that was done.
type Step struct {
	Start time.Duration // when the client wanted the GPU
	Run   time.Duration // when it began to use it
	End   time.Duration
}

// Took is how long the step was, its wait included.
func (s Step) Took() time.Duration { return s.End - s.Start }

// Outcome is what became of one client.
type Outcome struct {
	Name  string
	Steps []Step
	// Speed is how many steps it did within Duration, as a part of what it does there alone.
	Speed float64
	Alone time.Duration // the mean of its steps alone
}

// Result is what became of all, in their order.
type Result struct {
	Clients []Outcome
	// State is the arbiter's when the first client is over, in Turns and LookAhead.
	State *turns.State
}

// Bounds of an experiment, so that none runs for ever.
const (
	mostClients = 64
	mostKernels = 1_000_000
	longest     = 7 * 24 * time.Hour
	mostEvents  = 50_000_000
)

// Check says what is wrong with an experiment.
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

func (c Config) filled() Config {
	or(&c.Slice, DefaultSlice)
	or(&c.Sync, DefaultSync)
	or(&c.RoundTrip, DefaultRoundTrip)
	or(&c.Idle, DefaultIdle)
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

func or(d *time.Duration, otherwise time.Duration) {
	if *d == 0 {
		*d = otherwise
	}
}

// Run does the experiment.
func Run(c Config) (Result, error) {
	if err := c.Check(); err != nil {
		return Result{}, err
	}
	result, err := run(c.filled())
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

// compare sets how fast a client was beside what it is alone on the GPU, with the same steps and gaps.
func (c Config) compare(i int, outcome *Outcome) error {
	client := c.Clients[i]
	client.Every = 0
	alone := Config{Clients: []Client{client}, Mode: Queue, Duration: c.Duration, LeastSteps: c.LeastSteps,
		Jitter: c.Jitter, Seed: c.Seed + uint64(i)}
	result, err := run(alone.filled())
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

// within is how many steps were done in the time, the part of one that was under way then included.
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
