// Package inside measures a trainer that runs, inside of the job that it runs in: for some seconds at a time all its
// processes may use fewer of the job's CPUs, and the estimator says how many. It never gives anybody more than the job
// has, it restarts and signals nobody, and however it ends the trainer has all its CPUs back. Loaders of python/synergy
// follow the cores; any other are as many as before, and wait for a core.
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

// Job is what is measured, and for how long. Zero values are filled in by Measure.
type Job struct {
	Cores  Limiter      // how the trainer gets fewer cores, and all again
	Most   int          // cores that it has
	GPUs   int          // that it has
	Source func() int64 // iterations so far; 0: none yet
	Window time.Duration
	Total  time.Duration // for all windows together
	Settle time.Duration // from a change of cores until a window begins: what its queues hold is trained meanwhile
	Wait   time.Duration // for the first iteration
}

// Limiter lets a trainer use so many cores and no more. It is asked once whether it may begin, when the trainer trains,
// and then called with Most at the end, whatever came before.
type Limiter interface {
	Begin() error
	Limit(cores int) error
}

// Defaults, as the contract says: 20 s for a size, three minutes in all.
const (
	DefaultWindow = 20 * time.Second
	DefaultTotal  = 3 * time.Minute
	defaultWait   = 10 * time.Minute
	tick          = 50 * time.Millisecond
	fewest        = 5 // iterations in a window: fewer say nothing
)

// withDefaults fills in what is 0.
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

// sizes are the cores that may be tried. Of many, those are left out that differ from the next by less than a window
// can tell.
func sizes(most int) (all []int) {
	for cores := 1; cores < most; cores += max(1, cores/8) {
		all = append(all, cores)
	}
	return append(all, most)
}

// Measure measures until the estimator has no more to ask, or time is up. It returns the rates in iterations/s of the
// whole job, ascending in cores, and an error where there is nothing to tell.
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

// trainer is the port of a session to a trainer that runs.
type trainer struct {
	Job
	limited bool
}

// begin waits until it trains: until there is more than an earlier run may have left.
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

// Run measures one size.
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

// watch counts through one window. Each part of it ends with the progress that ends it, so that it holds whole
// iterations.
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
			// the last iteration of the window did not end in it: to count its time would say that the trainer is
			// slower
			break
		}
		at := time.Now()
		windows = append(windows, profiler.Window{Seconds: at.Sub(since).Seconds(), Iterations: float64(now - done)})
		since, done = at, now
	}
	return windows, nil
}

// unlike is how many times as long as the next longest a wait must be to be no part of training.
const unlike = 3

// withoutPause leaves out the one wait that is like no other, as of a checkpoint or a validation. Batches that come in
// bursts are waited for as long again and again.
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

// next waits for more iterations than that, no longer than until end.
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

func (t *trainer) restore() error {
	if !t.limited {
		return nil
	}
	t.limited = false
	return t.Cores.Limit(t.Most)
}

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
