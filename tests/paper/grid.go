package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
)

// grid is one workload under every policy × allocator, in all worlds.
type grid struct {
	title string
	setup setup
}

var grids = []grid{
	{"One GPU a job", single(9, "20,70,10")},
	{"1 to 8 GPUs a job", several(3.5)},
}

var (
	policies   = []string{"fifo", "srtf", "las", "ftf"}
	allocators = []string{"proportional", "greedy", "tune", "opt"}
)

// grid prints mean completion in hours, and that of the production engine over the artifact's.
func (p *paper) grid(ctx context.Context, g grid) error {
	e, err := g.setup.experiment()
	if err != nil {
		return err
	}
	p.line("")
	p.line(fmt.Sprintf("## %s: mean completion in hours (%s)", g.title, g.setup))
	p.line("")
	p.row("policy", "allocator", worlds[0].name, worlds[1].name, "ratio", worlds[2].name, "ratio", "preemptions a job")
	p.rule(8)
	for _, first := range policies {
		var sums [3][]outcome.Summary
		for k, w := range worlds {
			if sums[k], err = w.run(ctx, e, first, allocators); err != nil {
				return err
			}
		}
		for i, much := range allocators {
			p.compare(first, much, sums[0][i], sums[1][i], sums[2][i])
		}
	}
	return nil
}

// compare prints a row: the artifact, the production engine with free restarts and with real ones, each with its ratio
// to the artifact.
func (p *paper) compare(first, much string, artifact, free, real outcome.Summary) {
	p.row(strings.ToUpper(first), much, hours(artifact), hours(free), ratio(free, artifact), hours(real),
		ratio(real, artifact),
		fmt.Sprintf("%.2f", float64(real.Preemptions)/float64(real.Jobs)))
}

func hours(s outcome.Summary) string { return fmt.Sprintf("%.3f", s.CompletionHours.Mean) + cut(s) }

// ratio is a mean over another; a dash if jobs are missing in one of them, since those are the slow ones.
func ratio(a, b outcome.Summary) string {
	if cut(a, b) != "" {
		return "–"
	}
	return fmt.Sprintf("%.3f", a.Completion.Mean/b.Completion.Mean)
}
