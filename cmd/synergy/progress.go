package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/synergy-slurmd/synergy-slurmd/sim"
)

// barParts is the length of the bar, in parts.
const barParts = 1000

// redrawPause is the time between two updates of the bar.
const redrawPause = 100 * time.Millisecond

// bar shows how far an experiment is.
type bar struct {
	now   func() time.Time
	began time.Time
	last  time.Time // when it was drawn; zero: never
	drawn *progressbar.ProgressBar
}

// newBar is a bar on out, or nil if out is not a terminal that can show one.
func newBar(out io.Writer, now func() time.Time) *bar {
	if !isTerminal(out) || os.Getenv("TERM") == "dumb" {
		return nil
	}
	return &bar{now: now, began: now(), drawn: progressbar.NewOptions(barParts,
		progressbar.OptionSetWriter(out),
		progressbar.OptionUseANSICodes(true),
		progressbar.OptionSetWidth(20),
		progressbar.OptionSetPredictTime(false),
		progressbar.OptionSetElapsedTime(false),
		progressbar.OptionShowDescriptionAtLineEnd(),
		progressbar.OptionClearOnFinish(),
	)}
}

// show draws the bar, but at most once in each pause, so that the simulation does not become slower. An error of the
// terminal is ignored: the experiment goes on without a bar.
func (b *bar) show(p sim.Progress) {
	now := b.now()
	if now.Sub(b.last) < redrawPause {
		return
	}
	b.last = now
	_ = b.drawn.Set(int(p.Done * barParts))
	b.drawn.Describe(progressText(p, now.Sub(b.began)))
}

// clear makes room for the table.
func (b *bar) clear() { _ = b.drawn.Clear() }

// progressText says how far the experiment is, as: 3/12 runs, 45210 jobs, 13.2 days simulated, 12s left.
func progressText(p sim.Progress, elapsed time.Duration) string {
	const day = 24 * 60 * 60
	text := fmt.Sprintf("%d/%d runs, %d jobs, %.1f days simulated", p.Ended, p.Runs, p.Finished, p.Simulated/day)
	if left, known := timeLeft(p.Done, elapsed); known {
		text += fmt.Sprintf(", %s left", left)
	}
	return text
}

// timeLeft estimates how long the rest will take at the speed so far. It returns false if less than 1 % is done, from
// which nothing can be estimated, or if all of it is done.
func timeLeft(done float64, elapsed time.Duration) (time.Duration, bool) {
	const enough = 0.01
	if done < enough || done >= 1 {
		return 0, false
	}
	return time.Duration(float64(elapsed) * (1 - done) / done).Round(time.Second), true
}
