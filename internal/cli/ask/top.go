package ask

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/story"
)

// Top asks which jobs run, by what they gain, and what each node has left.
type Top struct {
	Source
	Every time.Duration // between two looks whether there was a round, on a terminal
	Once  bool          // one picture; the caller sets it, too, if the output is no terminal
	Nodes bool          // the nodes alone
	JSON  bool

	last story.Top // the last one drawn; zero: none
}

// topAnswer is the answer.
type topAnswer struct {
	story.Top
	nodesAlone bool
}

// Run writes the answer. On a terminal it draws it again after each round, until ctx ends, unless Once or JSON asks for
// one answer. The ledger of a daemon that is down gets no new rounds, so its answer is written once, too, whether it
// was named or is the usual one.
func (o *Top) Run(ctx context.Context, out io.Writer) error {
	if o.Every < time.Second {
		return fmt.Errorf("--every %s: want 1s or more", o.Every)
	}
	if o.Once || o.JSON || o.Ledger != "" || o.isDown(ctx) {
		return o.draw(ctx, out, "", time.Now())
	}
	ticker := time.NewTicker(o.Every)
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

// isDown reports that no daemon was named and the usual one does not answer: then the usual ledger is read.
func (o *Top) isDown(ctx context.Context) bool {
	_, err := o.Newest(ctx)
	return o.Daemon == "" && errors.Is(err, ErrSilent)
}

// draw reads the last round and writes the answer. before is what clears the terminal: if it is empty, the whole answer
// is written, for a single answer; otherwise the answer is cut to the terminal's rows. An interrupt (ctx) is no error.
func (o *Top) draw(ctx context.Context, out io.Writer, before string, now time.Time) error {
	if err := o.readRound(ctx); err != nil || ctx.Err() != nil {
		if ctx.Err() != nil {
			return nil // it was interrupted
		}
		return err
	}
	if before == "" {
		return write(out, &topAnswer{o.last, o.Nodes}, o.JSON, now)
	}
	var text strings.Builder
	t := NewText(out)
	t.out = &text
	(&topAnswer{o.last, o.Nodes}).show(t, now)
	picture := text.String()
	if t.rows > 0 { // what does not fit on the screen would scroll the beginning off it
		lines := strings.SplitAfter(picture, "\n")
		// A line on the last row would scroll by its newline, so that row stays free.
		picture = strings.Join(lines[:min(len(lines), t.rows-1)], "")
	}
	_, err := io.WriteString(out, before+picture)
	return asFailed(err)
}

// readRound reads the last round into o.last, unless that is it already. It asks for the number first, since a report
// may be large.
func (o *Top) readRound(ctx context.Context) error {
	if o.last.Round > 0 {
		if newest, err := o.Newest(ctx); err != nil || newest == o.last.Round {
			return err
		}
	}
	report, err := o.Latest(ctx)
	if err != nil {
		return err
	}
	o.last = story.TopOf(&report)
	return nil
}

// show writes a summary, the running jobs unless only nodes were asked for, and the nodes.
func (a *topAnswer) show(t *Text, now time.Time) {
	t.Say(
		0,
		fmt.Sprintf("%d jobs run on %d of %d GPUs", len(a.Jobs), a.GPUs.Given(), a.GPUs.Total)+gainText(a.Gain)+"; "+
			AsOf(a.Round, a.Began, now, a.Shadow),
	)
	t.Say(0, fmt.Sprintf("GPUs: %s; cores: %s", amountText(a.GPUs), amountText(a.Cores)))
	if !a.nodesAlone && len(a.Jobs) > 0 {
		t.Blank()
		t.Table(a.jobRows(now), 0)
	}
	t.Blank()
	t.Table(a.nodeRows(), 0)
}

// jobRows are the rows of the running jobs, with cores and memory per node beside those of the share. A job that the
// round has started is new.
func (a *topAnswer) jobRows(now time.Time) [][]string {
	rows := [][]string{{"JOB", "USER", "GPUS", "GAIN", "CORES", "SHARE", "MEMORY", "SHARE", "SINCE", "NODES", "NAME"}}
	for i := range a.Jobs {
		j := &a.Jobs[i]
		each := j.Has.PerNode
		began := agoOrDash(j.Since, now)
		if j.New {
			began = "new"
		}
		rows = append(rows, []string{strconv.Itoa(j.Job), Cell(j.User, LongestName), strconv.Itoa(j.GPUs),
			fmt.Sprintf("%.2f", j.Gain), strconv.Itoa(each.CPUs), strconv.Itoa(j.Fair.CPUs),
			story.Gigabytes(each.Memory), story.Gigabytes(j.Fair.Memory), began,
			Cell(story.Nodes(j.Has.Nodes), LongestSentence), Cell(j.Name, LongestName)})
	}
	return rows
}

// nodeRows are the rows of the nodes, with what is lent and idle of each resource.
func (a *topAnswer) nodeRows() [][]string {
	rows := [][]string{{"NODE", "TYPE", "JOBS", "GPUS", "IDLE", "CORES", "LENT", "IDLE", "MEMORY", "LENT", "IDLE",
		"STATE"}}
	for i := range a.Nodes {
		n := &a.Nodes[i]
		rows = append(rows, []string{Cell(n.Name, LongestName), Cell(n.Type, LongestName), orDash(n.Jobs),
			strconv.Itoa(n.GPUs.Total), orDash(n.GPUs.Idle), strconv.Itoa(n.Cores.Total), orDash(n.Cores.Lent),
			orDash(n.Cores.Idle), story.Gigabytes(gres.Memory(n.Memory.Total)),
			story.Gigabytes(gres.Memory(n.Memory.Lent)), story.Gigabytes(gres.Memory(n.Memory.Idle)),
			Cell(n.Closed, LongestSentence)})
	}
	return rows
}
