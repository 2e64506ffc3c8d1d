// Package demo shows what the daemon does without Slurm and GPUs: the daemon's own rounds (bridge.Runner) on a Slurm in
// memory (bridge/slurmtest) under a virtual clock, with 24 jobs of the paper's ten models. The same jobs run under
// three allocators and the outcomes are compared. Every number that it prints comes from those runs.
//
// It is no benchmark: one small workload on one small cluster proves nothing about another. It opens no file and no
// connection.
package demo

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// Options say how the demonstration is shown. Equal options give equal output.
type Options struct {
	Width  int           // columns; 0: 100
	Color  bool          // the output is a terminal that shows colours
	Pace   time.Duration // pause after each round in which something changed; 0: none
	Policy policy.Policy // the order of jobs; the zero value: FIFO, which is the easiest to follow
	Seed   uint64        // 0: the workload as written; other seeds shuffle its jobs
}

func (o Options) withDefaults() Options {
	o.Width = cmp.Or(o.Width, 100)
	if o.Policy.Name == "" {
		o.Policy = policy.FIFO()
	}
	return o
}

// Run shows the demonstration on out. It takes less than a minute, whatever the pace.
func Run(ctx context.Context, out io.Writer, options Options) error {
	o := options.withDefaults()
	jobs := deal(o.Seed)
	g := newStage(out, o)
	g.announce(jobs, o.Policy)
	var all []outcome
	for _, c := range []struct {
		allocator policy.Allocator
		watch     func(context.Context, *scene) error
	}{
		{policy.Proportional(), unseen},
		{policy.Greedy(), unseen},
		{policy.Tune(), g.show},
	} {
		came, err := perform(ctx, jobs, o.Policy, c.allocator, c.watch)
		if err != nil {
			return fmt.Errorf("demonstrate %s: %w", c.allocator.Name, err)
		}
		all = append(all, came)
	}
	g.conclude(all)
	return g.err
}

func unseen(context.Context, *scene) error { return nil }

// perform runs the workload from beginning to end under one policy and allocator.
func perform(ctx context.Context, jobs []job, p policy.Policy, a policy.Allocator,
	watch func(context.Context, *scene) error) (outcome, error) {
	y, err := newPlay(jobs, p, a)
	if err != nil {
		return outcome{}, err
	}
	return y.run(ctx, watch)
}
