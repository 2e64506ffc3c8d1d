// Command paper compares the claims of the Synergy paper (OSDI'22) with the results of the reference engine and the
// production engine, and prints the tables of which docs/paper.md has the figures, shorter. Given the folder with the
// traces that were published with the paper's artifact, it looks at these, too.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
)

// seed is the paper's.
const seed = 42

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	p := paper{out: os.Stdout, claims: claims}
	if len(os.Args) > 1 {
		p.claims = append(p.claims, of(os.Args[1])...)
	}
	if err := p.print(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "paper:", err)
		stop()
		os.Exit(1)
	}
}

// paper prints the tables.
type paper struct {
	out    io.Writer
	claims []claim
	last   error // of writing
}

func (p *paper) print(ctx context.Context) error {
	p.line("## Claims")
	p.line("")
	p.row("claim", "published", "configuration", worlds[0].name, worlds[1].name, worlds[2].name)
	p.rule(6)
	if err := p.check(ctx); err != nil {
		return err
	}
	for _, c := range p.claims {
		if err := p.claim(ctx, c); err != nil {
			return fmt.Errorf("%s: %w", c.says, err)
		}
	}
	for _, g := range grids {
		if err := p.grid(ctx, g); err != nil {
			return fmt.Errorf("%s: %w", g.title, err)
		}
	}
	return p.last
}

// check prints the one figure that was published to the last digit, with all digits, to show that the artifact engine
// has the same.
func (p *paper) check(ctx context.Context) error {
	e, err := single(9, "20,70,10").experiment()
	if err != nil {
		return err
	}
	cells := []string{"check number: mean completion", "21.876600555555555 h",
		setup.String(single(9, "20,70,10")) + ", FIFO × Tune"}
	for _, w := range worlds {
		sums, err := w.run(ctx, e, "fifo", []string{"tune"})
		if err != nil {
			return err
		}
		cells = append(cells, fmt.Sprintf("%v h", sums[0].CompletionHours.Mean))
	}
	p.row(cells...)
	return nil
}

// claim prints a row with the ratio of a claim in each world. The bound of the artifact is simulated by the artifact's
// engine in all of them.
func (p *paper) claim(ctx context.Context, c claim) error {
	e, err := c.setup.experiment()
	if err != nil {
		return err
	}
	cells := []string{c.says, c.published, fmt.Sprintf("%s, %s", c.setup, strings.ToUpper(c.policy))}
	for _, w := range worlds {
		base, err := w.run(ctx, e, c.policy, []string{c.base})
		if err != nil {
			return err
		}
		against, allocator := w, c.ours
		if c.ours == artifactsOpt {
			against, allocator = worlds[0], "opt"
		}
		ours, err := against.run(ctx, e, c.policy, []string{allocator})
		if err != nil {
			return err
		}
		cells = append(cells, fmt.Sprintf(c.form, total(base, c.of)/total(ours, c.of))+cut(append(base, ours...)...))
	}
	p.row(cells...)
	return nil
}

// total is the sum of a figure over the workloads of a setup. All have equally many, so a ratio of sums is one of
// means.
func total(sums []outcome.Summary, of func(outcome.Summary) float64) float64 {
	sum := 0.0
	for _, s := range sums {
		sum += of(s)
	}
	return sum
}

// cut marks figures in which jobs are missing that had not finished when the simulation was given up.
func cut(sums ...outcome.Summary) string {
	for _, s := range sums {
		if s.Unfinished > 0 {
			return fmt.Sprintf(" (%d of %d jobs)", s.Finished, s.Jobs)
		}
	}
	return ""
}

// row prints a line of a table in Markdown, as soon as it is known.
func (p *paper) row(cells ...string) { p.line("| " + strings.Join(cells, " | ") + " |") }

func (p *paper) rule(columns int) { p.line("|" + strings.Repeat("---|", columns)) }

// line prints a line. It keeps the first error of writing, which print returns at the end.
func (p *paper) line(text string) {
	if _, err := fmt.Fprintln(p.out, text); p.last == nil {
		p.last = err
	}
}

// String is the setup in a few words.
func (s setup) String() string {
	words := fmt.Sprintf("%g jobs/h", s.load)
	if s.load == 0 {
		words = fmt.Sprintf("%d jobs at once", s.jobs)
	}
	words += ", " + s.split
	switch {
	case s.recorded != "":
		return fmt.Sprintf("%s, %d GPUs", filepath.Base(s.recorded), 8*s.servers)
	case s.seeds > 1:
		words = fmt.Sprintf("%d workloads: %s", s.seeds, words)
	}
	if s.gpus != "one" {
		words += ", 1–8 GPUs"
	}
	words += fmt.Sprintf(", %d GPUs", 8*s.servers)
	if s.ratio != 3 {
		words += fmt.Sprintf(", %d cores a GPU", s.ratio)
	}
	return words
}
