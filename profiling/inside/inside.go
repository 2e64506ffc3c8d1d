// Package inside measures a running trainer from inside its job: for some seconds at a time all its processes may use
// only some of the job's CPUs; the estimator says how many. It never gives a trainer more than the job has, and
// restarts and signals no process. Loaders of python/synergy adapt to the cores; others keep their number of workers
// and wait for a core.
//
// The measurement may die at any line, and the trainer must still get all its CPUs back. So cores are taken only while
// a guardian lives: a second process of this program in another session, which waits for the end of a pipe that the
// measurement holds, then gives the cores back. It also acts if it was not dismissed within twice the time that a
// measurement may take. It identifies the trainer by PID and start time. A file that records what was taken would help
// only a later process, and mostly there is none.
package inside

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/profiling"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/profiler"
)

// Job is what is measured, and for how long. Measure fills in zero values.
type Job struct {
	Cores  Limiter      // gives the trainer fewer cores, and all of them again
	Most   int          // cores that the job has
	GPUs   int          // GPUs that the job has
	Source func() int64 // iterations so far; 0: none yet
	Window time.Duration
	Total  time.Duration // for all windows together
	Settle time.Duration // wait after a change of cores before a window, in which queued batches are trained
	Wait   time.Duration // for the first iteration
}

// Limiter lets a trainer use only some cores. Begin is called once, when the trainer trains, and returns an error if
// the trainer must not be measured. At the end Limit is called with Most, whatever happened before.
type Limiter interface {
	Begin() error
	Limit(cores int) error
}

// Defaults, as in the job contract: 20 s for a size, three minutes in all.
const (
	DefaultWindow = 20 * time.Second
	DefaultTotal  = 3 * time.Minute
	defaultWait   = 10 * time.Minute
	tick          = 50 * time.Millisecond // how often the count is read
	fewest        = 5                     // iterations in a window; with fewer the rate is not reliable
)

// withDefaults fills in zero values.
func (j Job) withDefaults() Job {
	if j.Window <= 0 {
		j.Window = DefaultWindow
	}
	if j.Total <= 0 {
		j.Total = DefaultTotal
	}
	if j.Settle <= 0 {
		j.Settle = j.Window / 5
	}
	if j.Wait <= 0 {
		j.Wait = defaultWait
	}
	j.GPUs = max(1, j.GPUs)
	return j
}

// sizes returns the cores that may be tried. Among many, it leaves out sizes that a window cannot tell apart from the
// next.
func sizes(most int) (all []int) {
	for cores := 1; cores < most; cores += max(1, cores/8) {
		all = append(all, cores)
	}
	return append(all, most)
}

// Measure measures until the estimator is satisfied or time is up. It returns the rates in iterations/s of the whole
// job, ascending in cores, and an error if nothing was measured. All trials have the length of a window (Short = Long),
// and a batch counts as 1, so that rates are in iterations.
func Measure(ctx context.Context, job Job) (points []profiler.Point, err error) {
	job = job.withDefaults()
	t := &trainer{Job: job}
	defer func() { err = errors.Join(err, t.restore()) }()
	if err := t.begin(ctx); err != nil {
		return nil, err
	}
	if err := job.Cores.Begin(); err != nil {
		return nil, err
	}
	began := time.Now()
	each := job.Window + job.Settle
	s := profiling.Session{
		Question: profiler.Question{
			Cores: sizes(job.Most), GPUs: job.GPUs, Batch: 1, Short: job.Window, Long: job.Window,
			Most: max(1, int(job.Total/each)),
		},
		Trainer: t,
		Enough:  func() bool { return time.Since(began)+each > job.Total },
	}
	decision, err := s.Measure(ctx)
	if err != nil {
		return nil, err
	}
	if len(decision.Curve.Points) == 0 {
		return nil, fmt.Errorf("nothing was measured: fewer than %d iterations in %s", fewest, job.Window)
	}
	return decision.Curve.Points, nil
}

// trainer implements the session's Trainer for a trainer that runs already.
type trainer struct {
	Job
	limited bool
}

// begin waits until the trainer trains, which is when it counts more iterations than an earlier run may have left.
func (t *trainer) begin(ctx context.Context) error {
	before := t.Source()
	for end := time.Now().Add(t.Wait); t.Source() <= before; {
		if time.Now().After(end) {
			return fmt.Errorf("no iteration was seen in %s", t.Wait)
		}
		if err := pause(ctx, tick); err != nil {
			return err
		}
	}
	return nil
}

// Run measures one size. It counts as limited before Limit is called, which may fail when some processes have fewer
// cores already.
func (t *trainer) Run(ctx context.Context, trial profiler.Trial) (profiling.Measured, error) {
	t.limited = true
	if err := t.Cores.Limit(trial.Cores); err != nil {
		return profiling.Measured{}, err
	}
	if err := pause(ctx, t.Settle); err != nil {
		return profiling.Measured{}, err
	}
	windows, err := t.watch(ctx)
	done := 0.0
	for _, w := range windows {
		done += w.Iterations
	}
	if err == nil && done < fewest {
		err = &profiling.Fault{Why: fmt.Sprintf("%.0f iterations in %s with %d cores: too few to tell", done, t.Window,
			trial.Cores)}
	}
	return profiling.Measured{Windows: withoutPause(windows)}, err
}

// watch measures one window. It begins with the end of an iteration, if one comes within a quarter of the window, and
// each part of it ends with the progress that ends it, so that it holds whole iterations.
func (t *trainer) watch(ctx context.Context) (windows []profiler.Window, err error) {
	done, err := t.next(ctx, t.Source(), time.Now().Add(t.Window/4))
	if err != nil {
		return nil, err
	}
	since := time.Now()
	for end := since.Add(t.Window); time.Now().Before(end); {
		now, err := t.next(ctx, done, end)
		if err != nil {
			return nil, err
		}
		if now <= done {
			// The last iteration of the window did not end in it. Counting its time would make the trainer seem slower.
			break
		}
		at := time.Now()
		windows = append(windows, profiler.Window{Seconds: at.Sub(since).Seconds(), Iterations: float64(now - done)})
		since, done = at, now
	}
	return windows, nil
}

// unlike is how many times as long as the next longest a wait must be to count as no part of training.
const unlike = 3

// withoutPause leaves out the one wait that is much longer than all others, such as a checkpoint or validation. Batches
// that come in bursts have such waits again and again, so those stay.
func withoutPause(windows []profiler.Window) []profiler.Window {
	longest, next := -1, 0.0
	for k, w := range windows {
		switch {
		case longest < 0:
			longest = k
		case w.Seconds > windows[longest].Seconds:
			longest, next = k, windows[longest].Seconds
		default:
			next = max(next, w.Seconds)
		}
	}
	if len(windows) < fewest || windows[longest].Seconds < unlike*next {
		return windows
	}
	return slices.Delete(slices.Clone(windows), longest, longest+1)
}

// next waits for more than done iterations, at most until end, and returns the count by then, which may still be done.
func (t *trainer) next(ctx context.Context, done int64, end time.Time) (int64, error) {
	for {
		now := t.Source()
		if now > done || time.Now().After(end) {
			return now, nil
		}
		if err := pause(ctx, tick); err != nil {
			return 0, err
		}
	}
}

// Close gives all cores back.
func (t *trainer) Close() error { return t.restore() }

// restore gives all cores back, if any were taken since the last time.
func (t *trainer) restore() error {
	if !t.limited {
		return nil
	}
	t.limited = false
	return t.Cores.Limit(t.Most)
}

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
