package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/synergy-slurmd/synergy-slurmd/cmd/internal/times"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/story"
)

// topOptions are the flags of top.
type topOptions struct {
	source
	every      time.Duration
	once, json bool
	nodes      bool

	last story.Top // the last one drawn; zero: none
}

func topCommand() *cobra.Command {
	var o topOptions
	command := &cobra.Command{
		Use:   "top [flags]",
		Short: "what runs, by what it gains, and what each node has left",
		Long: `top shows the jobs that run by the last round's plan, those first that train fastest beside their
proportional share, with what they hold and what their share is; and each node with what is given,
lent beyond shares, and idle. On a terminal it is drawn anew after each round, until it is
interrupted. It asks the daemon, or reads the ledger of one that is down.`,
		Example: `  synergy top
  synergy top --once --nodes
  synergy top --json | jq '.jobs[] | {job, gain}'`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context(), c.OutOrStdout()) },
	}
	where, out := newGroup("Where rounds are read"), newGroup("Output")
	o.define(where)
	times.Var(out.flags, &o.every, "every", 10*time.Second,
		"`time` between two looks whether there was a round, on a terminal")
	out.flags.BoolVar(&o.once, "once", false, "one picture, as where the output is no terminal")
	out.flags.BoolVar(&o.nodes, "nodes", false, "the nodes alone")
	out.flags.BoolVar(&o.json, "json", false, "jobs and nodes for programs, once")
	grouped(command, where, out)
	return command
}

func (o *topOptions) run(ctx context.Context, out io.Writer) error {
	if o.every < time.Second {
		return fmt.Errorf("--every %s: want 1s or more", o.every)
	}
	if o.once || o.json || o.ledger != "" || !isTerminal(out) {
		return o.draw(ctx, out, "", time.Now())
	}
	ticker := time.NewTicker(o.every)
	defer ticker.Stop()
	for {
		const clear = "\x1b[H\x1b[2J"
		if err := o.draw(ctx, out, clear, time.Now()); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// draw reads the last round once, and draws it. before is written first.
func (o *topOptions) draw(ctx context.Context, out io.Writer, before string, now time.Time) error {
	if err := o.look(ctx); err != nil || ctx.Err() != nil {
		if ctx.Err() != nil {
			return nil // it was interrupted
		}
		return err
	}
	top := o.last
	if o.json {
		return asJSON(out, top)
	}
	var text strings.Builder
	s := screenOf(out)
	s.out = &text
	o.show(s, &top, now)
	picture := text.String()
	if before != "" && s.rows > 0 { // what does not fit on the screen would scroll the beginning off it
		lines := strings.SplitAfter(picture, "\n")
		picture = strings.Join(lines[:min(len(lines), s.rows-1)], "")
	}
	return done(writeAll(out, []byte(before+picture)))
}

// look reads the last round, if there was one since the last look. It asks for the number first, since a report may be
// large.
func (o *topOptions) look(ctx context.Context) error {
	if o.last.Round > 0 {
		if newest, err := o.newest(ctx); err != nil || newest == o.last.Round {
			return err
		}
	}
	report, err := o.latest(ctx)
	if err != nil {
		return err
	}
	o.last = story.TopOf(&report)
	return nil
}

func (o *topOptions) show(s *screen, t *story.Top, now time.Time) {
	s.say(0, fmt.Sprintf("%d jobs run on %d of %d GPUs", len(t.Jobs), t.GPUs.Given(), t.GPUs.Total)+gained(t.Gain)+"; "+
		asOf(t.Round, t.Began, now, t.Shadow))
	s.say(0, fmt.Sprintf("GPUs: %s; cores: %s", told(t.GPUs), told(t.Cores)))
	if !o.nodes && len(t.Jobs) > 0 {
		s.write("\n")
		o.jobs(s, t, now)
	}
	s.write("\n")
	nodes(s, t)
}

func gained(gain float64) string {
	if gain == 0 {
		return ""
	}
	return fmt.Sprintf(", %.2f times as fast as with their shares", gain)
}

// told says how much of something is given, lent, in use by others, closed and idle.
func told(a story.Amount) string {
	parts := []string{fmt.Sprintf("%d given", a.Given())}
	for _, p := range []struct {
		n    int
		text string
	}{{a.Lent, "of these beyond shares"}, {a.Foreign, "others'"}, {a.Closed, "closed"}, {a.Idle, "idle"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.text))
		}
	}
	return strings.Join(parts, ", ")
}

func (o *topOptions) jobs(s *screen, t *story.Top, now time.Time) {
	rows := [][]string{{"JOB", "USER", "GPUS", "GAIN", "CORES", "SHARE", "MEMORY", "SHARE", "SINCE", "NODES", "NAME"}}
	for i := range t.Jobs {
		j := &t.Jobs[i]
		each := j.Has.PerNode
		began := since(j.Since, now)
		if j.New {
			began = "new"
		}
		rows = append(rows, []string{strconv.Itoa(j.Job), cell(j.User, longestName), strconv.Itoa(j.GPUs),
			fmt.Sprintf("%.2f", j.Gain), strconv.Itoa(each.CPUs), strconv.Itoa(j.Fair.CPUs),
			story.Gigabytes(each.Memory), story.Gigabytes(j.Fair.Memory), began,
			cell(story.Nodes(j.Has.Nodes), longestSentence),
			cell(j.Name, longestName)})
	}
	s.table(rows, 0)
}

func nodes(s *screen, t *story.Top) {
	rows := [][]string{{"NODE", "TYPE", "JOBS", "GPUS", "IDLE", "CORES", "LENT", "IDLE", "MEMORY", "LENT", "IDLE",
		"STATE"}}
	for i := range t.Nodes {
		n := &t.Nodes[i]
		rows = append(rows, []string{cell(n.Name, longestName), cell(n.Type, longestName), orDash(n.Jobs),
			strconv.Itoa(n.GPUs.Total), orDash(n.GPUs.Idle), strconv.Itoa(n.Cores.Total), orDash(n.Cores.Lent),
			orDash(n.Cores.Idle), story.Gigabytes(gres.Memory(n.Memory.Total)),
			story.Gigabytes(gres.Memory(n.Memory.Lent)), story.Gigabytes(gres.Memory(n.Memory.Idle)),
			cell(n.Closed, longestSentence)})
	}
	s.table(rows, 0)
}
