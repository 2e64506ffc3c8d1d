// Package demo shows what the daemon does without Slurm and GPUs: the daemon's own rounds (bridge.Runner) on a Slurm in
// memory (bridge/slurmtest) under a virtual clock, with 24 jobs of the paper's ten models. The same jobs run under
// three allocators and the outcomes are compared. Every number that it prints comes from those runs.
//
// It is no benchmark: one small workload on one small cluster proves nothing about another. It opens no file and no
// connection.
package demo

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// Run writes the demonstration: a table for each round in which something changed, and the comparison.
func Run(ctx context.Context, out io.Writer) error {
	jobs, order, share := workload(), policy.FIFO(), gres.Proportional(server, 1)
	_, err := fmt.Fprintf(out, opening, len(jobs), hours(jobs[len(jobs)-1].at), nodes, server.GPUs, server.CPUs,
		server.Memory, round.Minutes(), order.Name, policy.Tune().Name, share.CPUs, share.Memory)
	if err != nil {
		return err
	}
	var all []outcome
	for _, a := range []policy.Allocator{policy.Proportional(), policy.Greedy(), policy.Tune()} {
		came, err := simulate(ctx, jobs, order, a, func(s *scene) error {
			// Only the rounds of the daemon's default allocator are shown. The others run for the comparison.
			if a.Name != policy.Tune().Name || s.quiet() {
				return nil
			}
			_, err := io.WriteString(out, s.table())
			return err
		})
		if err != nil {
			return fmt.Errorf("demonstrate %s: %w", a.Name, err)
		}
		all = append(all, came)
	}
	_, err = io.WriteString(out, comparison(all))
	return err
}

const opening = `synergy-slurmd, a demonstration

%d training jobs arrive within %s hours at %d nodes with %d GPUs, %d cores and %s of memory each. Slurm, GPUs
and time are emulated; the rounds are the daemon's own: one every %.0f minutes, policy %s, allocator %s.
Rounds that change nothing are left out.

Most clusters give every GPU its proportional share, here %d cores and %s. The speed of a job with just
that is 1.00×. Some models need less for the same speed; others are faster with more.

`

// simulate runs the workload from beginning to end under one policy and allocator, and passes each round to watch.
func simulate(ctx context.Context, jobs []job, p policy.Policy, a policy.Allocator, watch func(*scene) error) (
	outcome, error) {
	y, err := newSimulation(jobs, p, a)
	if err != nil {
		return outcome{}, err
	}
	return y.run(ctx, watch)
}

// table is the round with a line for each job: those that run, those that wait, those that have ended.
func (s *scene) table() string {
	var text strings.Builder
	running, free := s.running()
	fmt.Fprintf(&text, "round %d at %s: %d run, %d wait, %d GPUs and %d cores are free\n", s.number, hours(s.at),
		running, s.present-running, free.GPUs, free.CPUs)
	rows := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(rows, "job\tmodel\tGPUs\tnode\tcores\tmemory\tspeed\tdone\t")
	for _, r := range s.rows {
		fmt.Fprintf(rows, "%d\t%s\t%d\t", r.id, r.model, r.gpus)
		if r.node != "" {
			fmt.Fprintf(rows, "%s\t%d\t%s\t%.2f×\t%.0f %%\t", r.node, r.size.CPUs, r.size.Memory, r.speed,
				100*r.done)
		} else {
			fmt.Fprint(rows, "-\t-\t-\t-\t-\t")
		}
		if what := r.what(); what != "" {
			fmt.Fprint(rows, "  "+what)
		}
		fmt.Fprintln(rows)
	}
	rows.Flush() // into memory
	if s.plan != "" {
		fmt.Fprintln(&text, "plan: "+s.plan)
	}
	return text.String() + "\n"
}

// what says what the round did to the job; empty: nothing.
func (r row) what() string {
	var parts []string
	if r.arrived {
		parts = append(parts, "new")
	}
	if r.change != "" {
		parts = append(parts, string(r.change))
	}
	what := strings.Join(parts, ", ")
	if r.text != "" {
		what += ": " + r.text
	}
	return what
}
