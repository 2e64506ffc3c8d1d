package demo

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// patience is how long all pauses together may last.
const patience = 45 * time.Second

// stage shows the rounds of a play one after the other, at a pace that can be followed.
type stage struct {
	paper
	pace    time.Duration
	left    time.Duration // for pauses
	held    []*scene      // rounds without changes since the last one shown
	slowest float64       // the lowest speed of any job in any round
}

func newStage(out io.Writer, o Options) *stage {
	s := &stage{paper: paper{out: out, columns: o.Width, colour: uncoloured}, pace: o.Pace, left: patience}
	if o.Color {
		s.colour = coloured
	}
	return s
}

// announce says what is going to be shown.
func (g *stage) announce(jobs []job, p policy.Policy) {
	share := gres.Proportional(server, 1)
	g.rule("synergy-slurmd, a demonstration")
	g.say(
		fmt.Sprintf(
			"%d training jobs arrive within %s hours at %d nodes with %d GPUs, %d cores and %s GB each. Slurm, GPUs "+
				"and time "+
				"are emulated; the rounds are the daemon's own: one every %d minutes, policy %s, allocator %s.",
			len(jobs), hours(jobs[len(jobs)-1].at), nodes, server.GPUs, server.CPUs, gigabytes(server.Memory),
			int(round.Minutes()), p.Name, policy.Tune().Name))
	g.say(
		fmt.Sprintf(
			"Most clusters give every GPU its proportional share, here %d cores and %s GB. The speed of a job with "+
				"just that "+
				"is 1.00×. Some models need less for the same speed; others are faster with more.", share.CPUs,
			gigabytes(share.Memory)))
	g.line()
	g.legend()
	g.line()
}

// legend explains the marks.
func (g *stage) legend() {
	owed, gained := bars(2)
	g.line(span{"   " + owed, faint}, span{" the speed of the share   ", plain}, span{gained, green},
		span{" gained beyond it", plain})
	words := []string{"arrives", "starts", "saves and gives way", "restarts with another size", "is done"}
	line := []span{{"  ", plain}}
	for k, mark := range []span{arrives, starts, pauses, restarts, ends} {
		line = append(line, span{" ", plain}, mark, span{" " + words[k] + "  ", plain})
	}
	g.line(line...)
}

// show draws the round, or holds it back if nothing changed in it.
func (g *stage) show(ctx context.Context, s *scene) error {
	if s.slowest > 0 && (g.slowest == 0 || s.slowest < g.slowest) {
		g.slowest = s.slowest
	}
	if s.quiet() {
		g.held = append(g.held, s)
		return nil
	}
	g.unfold()
	g.draw(s)
	if g.err != nil {
		return fmt.Errorf("show round %d: %w", s.number, g.err)
	}
	return g.pause(ctx)
}

// unfold writes the rounds that were held back as one line.
func (g *stage) unfold() {
	if n := len(g.held); n > 0 {
		g.fold(g.held[0], g.held[n-1])
	}
	g.held = nil
}

// pause waits so that the round can be read, until the time for pauses is used up.
func (g *stage) pause(ctx context.Context) error {
	timer := time.NewTimer(g.spend())
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return fmt.Errorf("pause: %w", ctx.Err())
	case <-timer.C:
		return nil
	}
}

// spend takes one pause from the time left for pauses.
func (g *stage) spend() time.Duration {
	d := min(g.pace, g.left)
	g.left -= d
	return d
}
