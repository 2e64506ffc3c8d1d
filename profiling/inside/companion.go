package inside

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/profiler"
)

// Companion does for an unmodified trainer, from another process, what python/synergy does inside of one: it measures
// the job if the daemon asks for that, and reports progress now and then if the comment has the progress directive. A
// failure is logged once and then retried silently; the trainer never waits for a Companion.
type Companion struct {
	Slurm Slurm
	// Count returns a function that counts iterations, for use in one goroutine.
	Count func(Asked) func() int64
	// Measure measures the job; nil: the trainer is not reachable here as a whole.
	Measure func(ctx context.Context, count func() int64) ([]profiler.Point, error)
	Say     func(text string)
	Look    time.Duration // between two readings of the count; 0: a second
	Every   time.Duration // between two progress reports; the daemon wants at least two minutes; 0: five minutes
	Retry   time.Duration // after Slurm has not answered, doubled each time; 0: half a minute

	writes sync.Mutex // guards the comment, which is read, changed and written back
	said   sync.Map   // the errors that were logged, by what they cost
}

const (
	defaultLook  = time.Second
	defaultEvery = 5 * time.Minute
	defaultRetry = 30 * time.Second
	maxRetry     = 16 * time.Minute
)

// Accompany runs until nothing is left to report, or ctx ends.
func (c *Companion) Accompany(ctx context.Context) {
	var asked Asked
	const costs = "the job is neither measured nor its progress told"
	ask := func() (err error) {
		asked, err = c.Slurm.Asked(ctx)
		return err
	}
	// Not at once: a command that ends in a moment needs no request to Slurm.
	if pause(ctx, c.look()) != nil || c.retryUntil(ctx, costs, ask) != nil {
		return
	}
	var both sync.WaitGroup
	if asked.Measure && c.Measure != nil {
		both.Go(func() { c.measure(ctx, asked) })
	}
	if wordOf(asked.Comment, progressWord) != "" {
		both.Go(func() { c.report(ctx, asked) })
	}
	both.Wait()
}

func (c *Companion) look() time.Duration { return orElse(c.Look, defaultLook) }

func orElse(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}

// retryUntil repeats do, which needs an answer of Slurm, until it succeeds. The error is that of the context.
func (c *Companion) retryUntil(ctx context.Context, costs string, do func() error) error {
	for wait := orElse(c.Retry, defaultRetry); ; wait = min(2*wait, maxRetry) {
		err := do()
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		c.logOnce(costs, err)
		if err := pause(ctx, wait); err != nil {
			return err
		}
	}
}

// logOnce logs what an error costs, and why, the first time. Errors are told apart by what they cost, so a second cause
// of the same is not logged.
func (c *Companion) logOnce(costs string, err error) {
	if _, before := c.said.LoadOrStore(costs, true); !before {
		c.Say(fmt.Sprintf("%s, training goes on: %v", costs, err))
	}
}

// measure measures the job and writes the curve into the job's comment. If another process has claimed the job, that
// one reports.
func (c *Companion) measure(ctx context.Context, asked Asked) {
	points, err := c.Measure(ctx, c.Count(asked))
	if ctx.Err() != nil || errors.Is(err, ErrClaimed) {
		return
	}
	if err != nil {
		// If this process sees nothing of the trainer, another process may have measured it.
		if now, wrong := c.Slurm.Asked(ctx); wrong != nil || now.Measure {
			c.logOnce("the job is not measured", err)
		}
		return
	}
	word := Word(points, time.Now())
	said := c.retryUntil(ctx, "what was measured is not told", func() error {
		c.writes.Lock()
		defer c.writes.Unlock()
		return c.Slurm.Say(ctx, word)
	})
	if said == nil {
		c.Say("measured " + word)
	}
}

// report writes progress reports. It counts from the first iteration that it sees: what earlier runs have done is in
// the comment, and a trainer that resumes starts with its old count.
func (c *Companion) report(ctx context.Context, asked Asked) {
	count := c.Count(asked)
	t := teller{slurm: c.Slurm, ours: []string{wordOf(asked.Comment, progressWord)}}
	t.before = iterationsOf(t.ours[0])
	began, first, told := count(), int64(0), time.Now()
	for pause(ctx, c.look()) == nil {
		now := count()
		if first == 0 && now > began {
			first = now
		}
		if first == 0 || time.Since(told) < orElse(c.Every, defaultEvery) {
			continue
		}
		told = time.Now()
		switch err := c.tell(ctx, &t, now-first); {
		case errors.Is(err, errOtherReporter):
			return
		case err != nil && ctx.Err() == nil:
			c.logOnce("progress is not told to the daemon", err)
		}
	}
}

func (c *Companion) tell(ctx context.Context, t *teller, iterations int64) error {
	c.writes.Lock()
	defer c.writes.Unlock()
	return t.tell(ctx, iterations, time.Now())
}

// teller writes how far a job has come.
type teller struct {
	slurm  Slurm
	before int64    // iterations of the runs before
	ours   []string // the directive found at first, and those that we have written
}

// errOtherReporter means that another process reports progress, such as the trainer itself, which knows better.
var errOtherReporter = errors.New("somebody else tells the progress of this job")

const (
	maxIterations = 1e15 - 1 // the most that the daemon accepts
	remembered    = 8        // our last directives; the last or the one before it must be in the comment
)

// tell replaces the last progress directive. A comment from which its owner has removed the directive is left alone.
func (t *teller) tell(ctx context.Context, iterations int64, at time.Time) error {
	asked, err := t.slurm.Asked(ctx)
	if err != nil {
		return err
	}
	switch now := wordOf(asked.Comment, progressWord); {
	case now == "":
		return nil
	case !slices.Contains(t.ours, now):
		return errOtherReporter
	}
	word := fmt.Sprintf("%s=%d@%d", progressWord, min(t.before+iterations, maxIterations), at.Unix())
	// It is remembered before it is written, since an update without an answer may still be carried out.
	t.ours = append(t.ours[max(0, len(t.ours)-remembered):], word)
	return t.slurm.write(ctx, withWord(asked.Comment, word))
}

// iterationsOf returns the iterations of a progress directive; 0 if it has none.
func iterationsOf(word string) int64 {
	_, value, _ := strings.Cut(word, "=")
	digits, _, _ := strings.Cut(value, "@")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > maxIterations {
		return 0
	}
	return n
}
