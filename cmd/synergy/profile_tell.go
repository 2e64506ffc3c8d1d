package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/profiling"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/profiler"
)

// progressPrinter shows a person how a measurement goes: a bar on a terminal, and a line for each trial. A measurement
// in this process calls beginTrial and endTrial. For one in a job, the command that follows the job calls
// beginRemoteTrial and showRemoteRun by what it reads in the job's files.
type progressPrinter struct {
	out    io.Writer
	q      profiler.Question
	began  time.Time
	budget time.Duration

	bar     *progressbar.ProgressBar // nil: the output is no terminal
	ending  chan struct{}            // closed when the bar is to go; nil: no bar is shown
	barDone sync.WaitGroup           // waits for drawBar, which alone draws the bar
	spent   time.Duration            // measured in the current trial
}

// newProgressPrinter returns a printer for a measurement of q that begins now. It shows no bar, only the lines, if the
// output is no terminal or one without control codes (TERM=dumb).
func newProgressPrinter(out io.Writer, q profiler.Question, budget time.Duration) *progressPrinter {
	t := &progressPrinter{out: out, q: q, began: time.Now(), budget: budget}
	if isTerminal(out) && os.Getenv("TERM") != "dumb" {
		t.bar = progressbar.NewOptions(barParts, progressbar.OptionSetWriter(out), progressbar.OptionUseANSICodes(true),
			progressbar.OptionSetWidth(20),
			progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false),
			progressbar.OptionShowDescriptionAtLineEnd(),
			progressbar.OptionClearOnFinish())
	}
	return t
}

func (t *progressPrinter) elapsed() time.Duration { return time.Since(t.began) }

// resumed says that an earlier measurement goes on.
func (t *progressPrinter) resumed(r profiling.Record) {
	if len(r.Runs) > 0 {
		fmt.Fprintf(t.out, "going on with %s of an earlier run\n", countText(len(r.Runs), "trial"))
	}
}

// beginTrial shows a bar while a trial goes on. It counts how long the trial measures, for its line.
func (t *progressPrinter) beginTrial(trial profiler.Trial) {
	t.clear()
	if !trial.Prolongs {
		t.spent = 0
	}
	t.spent += trial.For
	if t.bar == nil {
		return
	}
	t.ending = make(chan struct{})
	t.barDone.Go(func() { t.drawBar(trial, t.ending) })
}

// drawBar draws the bar until ending is closed. It runs beside the measurement, which waits for it in clear.
func (t *progressPrinter) drawBar(trial profiler.Trial, ending chan struct{}) {
	const pause = 200 * time.Millisecond
	for {
		t.bar.Describe(fmt.Sprintf("%s: %s", countText(trial.Cores, "core"), trial.Why))
		// A full bar counts as finished and clears itself, so it is never quite full.
		_ = t.bar.Set(int(barParts * min(0.999, t.elapsed().Seconds()/t.budget.Seconds())))
		select {
		case <-ending:
			_ = t.bar.Clear()
			return
		case <-time.After(pause):
		}
	}
}

// clear removes the bar, so that a line can be printed.
func (t *progressPrinter) clear() {
	if t.ending != nil {
		close(t.ending)
		t.barDone.Wait()
		t.ending = nil
	}
}

// endTrial prints the line of a trial that has ended. d is the decision after it. A trial that is to be prolonged has
// no line yet, since its result will change.
func (t *progressPrinter) endTrial(trial profiler.Trial, d profiler.Decision) {
	t.clear()
	if d.Stop != "" || !d.Next.Prolongs {
		t.printTrial(trial, d)
	}
}

// printTrial prints the result of a trial. The memory is shown if several amounts are tried, or if it is not the
// largest.
func (t *progressPrinter) printTrial(trial profiler.Trial, d profiler.Decision) {
	size := countText(trial.Cores, "core")
	if len(t.q.Memory) > 1 || trial.Memory != t.q.Memory[len(t.q.Memory)-1] {
		size += fmt.Sprintf(", %g GB", float64(trial.Memory)/float64(gres.Gigabyte))
	}
	fmt.Fprintf(t.out, "%s: %s (%.0f s)\n", size, t.trialResult(trial, d), t.spent.Seconds())
}

// trialResult is the measured rate of the trial as text, by the curve of the decision d after it. A trial with less
// than the largest memory is no point of the curve: it only shows whether less memory is enough, so its text has no
// rate. A trial that is not on the curve has failed.
func (t *progressPrinter) trialResult(trial profiler.Trial, d profiler.Decision) string {
	if trial.Memory != t.q.Memory[len(t.q.Memory)-1] {
		return "measured with less memory"
	}
	for _, points := range [][]profiler.Point{d.Curve.Points, d.Curve.Slower} {
		for _, p := range points {
			if p.Cores == trial.Cores {
				return fmt.Sprintf("%s samples/s a GPU, ± %.1f %%", rateText(p.Rate), 100*p.Scatter)
			}
		}
	}
	return "failed"
}

// say prints a sentence.
func (t *progressPrinter) say(format string, values ...any) {
	t.clear()
	fmt.Fprintf(t.out, format+"\n", values...)
}

// beginRemoteTrial shows the bar of a trial that another process makes. A trial with 0 cores means that none is to
// come, and shows nothing.
func (t *progressPrinter) beginRemoteTrial(trial profiler.Trial) {
	if trial.Cores > 0 {
		t.beginTrial(trial)
	}
}

// showRemoteRun prints the line of a run that another process has made. d is the decision after it.
func (t *progressPrinter) showRemoteRun(run profiler.Run, d profiler.Decision) {
	t.clear()
	t.spent = 0
	for _, w := range run.Windows {
		t.spent += time.Duration(w.Seconds * float64(time.Second))
	}
	t.printTrial(profiler.Trial{Cores: run.Cores, Memory: run.Memory}, d)
}

// printRemarks prints what was unusual in a measurement that is over, a sentence each. d is the last decision. If it
// has no reason to stop, the time of --budget was over first, and the remark says what was left out.
func (t *progressPrinter) printRemarks(r profiling.Record, d profiler.Decision) {
	for _, run := range r.Runs {
		if run.Fault != "" {
			fmt.Fprintf(t.out, "with %s %s\n", countText(run.Cores, "core"), run.Fault)
		}
	}
	for _, p := range d.Curve.Slower {
		fmt.Fprintf(t.out,
			"with %s it was slower than with fewer, twice (%s samples/s): is the number of its workers larger than "+
				"that of the cores? "+
				"A job would not be given so many\n", countText(p.Cores, "core"), rateText(p.Rate))
	}
	if r.Saved != nil && r.Saved.Remark != "" {
		fmt.Fprintln(t.out, r.Saved.Remark)
	}
	if t.q.Bound > 0 && d.Curve.Bound == 0 {
		fmt.Fprintf(t.out, "--bound %g is not believed: the trainer is faster than that with its data from storage\n",
			t.q.Bound)
	}
	switch {
	case d.Stop != "":
	case d.Next.Prolongs:
		t.printTrial(d.Next, d)
		fmt.Fprintln(t.out, "the time of --budget is over: the last trial was cut short")
	default:
		fmt.Fprintf(t.out, "the time of --budget is over before everything was tried: %s would have been next (%s)\n",
			countText(d.Next.Cores, "core"), d.Next.Why)
	}
}
