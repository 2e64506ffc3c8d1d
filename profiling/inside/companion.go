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

// Companion does beside a trainer that knows nothing of us what python/synergy does inside of one: it has the job
// measured where the daemon asks, and says now and then how far it has come where the comment has the word for that.
// What of it fails is said once and tried again in silence; the trainer waits for nothing of it.
type Companion struct {
	Slurm Slurm
	// Count is how iterations are counted; each of its functions is for one goroutine.
	Count func(Asked) func() int64
	// Measure measures; nil: the trainer is not to be had here as a whole.
	Measure func(ctx context.Context, count func() int64) ([]profiler.Point, error)
	Say     func(text string)
	Look    time.Duration // between two looks at the count; 0: a second
	Every   time.Duration // between two words of progress, which the daemon wants two minutes apart; 0: five minutes
	Retry   time.Duration // after Slurm has not answered, longer each time; 0: half a minute

	writes sync.Mutex // of the comment, which is read, changed and written back
	said   sync.Map   // what went wrong already, by what it costs
}

const (
	defaultLook  = time.Second
	defaultEvery = 5 * time.Minute
	defaultRetry = 30 * time.Second
	maxRetry     = 16 * time.Minute
)

// Accompany lasts as long as there is something to say, and no longer than ctx.
func (c *Companion) Accompany(ctx context.Context) {
	var asked Asked
	const costs = "the job is neither measured nor its progress told"
	ask := func() (err error) {
		asked, err = c.Slurm.Asked(ctx)
		return err
	}
	// Not at once: a command that ends in a moment costs nobody a question.
	if pause(ctx, c.look()) != nil || c.until(ctx, costs, ask) != nil {
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

// until does something that Slurm has to answer until it does.
func (c *Companion) until(ctx context.Context, costs string, do func() error) error {
	for wait := orElse(c.Retry, defaultRetry); ; wait = min(2*wait, maxRetry) {
		err := do()
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		c.once(costs, err)
		if err := pause(ctx, wait); err != nil {
			return err
		}
	}
}

// once says what something costs, and why, the first time.
func (c *Companion) once(costs string, err error) {
	if _, before := c.said.LoadOrStore(costs, true); !before {
		c.Say(fmt.Sprintf("%s, training goes on: %v", costs, err))
	}
}

func (c *Companion) measure(ctx context.Context, asked Asked) {
	points, err := c.Measure(ctx, c.Count(asked))
	if ctx.Err() != nil || errors.Is(err, ErrClaimed) {
		return
	}
	if err != nil {
		// a trainer of which we see nothing may have been measured by somebody who does
		if now, wrong := c.Slurm.Asked(ctx); wrong != nil || now.Measure {
			c.once("the job is not measured", err)
		}
		return
	}
	word := Word(points, time.Now())
	said := c.until(ctx, "what was measured is not told", func() error {
		c.writes.Lock()
		defer c.writes.Unlock()
		return c.Slurm.Say(ctx, word)
	})
	if said == nil {
		c.Say("measured " + word)
	}
}

// report counts from the first iteration that it sees: what an earlier run has done stands in the comment, and a
// trainer that goes on says where it was.
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
		case errors.Is(err, errAnother):
			return
		case err != nil && ctx.Err() == nil:
			c.once("progress is not told to the daemon", err)
		}
	}
}

func (c *Companion) tell(ctx context.Context, t *teller, iterations int64) error {
	c.writes.Lock()
	defer c.writes.Unlock()
	return t.tell(ctx, iterations, time.Now())
}

// teller says how far a job has come.
type teller struct {
	slurm  Slurm
	before int64    // iterations of the runs before
	ours   []string // the word that stood there at first, and those that we have written
}

// errAnother says that somebody else tells progress, as the trainer itself, who knows better.
var errAnother = errors.New("somebody else tells the progress of this job")

const (
	maxIterations = 1e15 - 1 // that the daemon takes
	remembered    = 8        // words of ours, of which the last or the one before it stands in the comment
)

// tell puts the word in the place of the last one. A comment whose owner has taken the word away is left alone.
func (t *teller) tell(ctx context.Context, iterations int64, at time.Time) error {
	asked, err := t.slurm.Asked(ctx)
	if err != nil {
		return err
	}
	switch now := wordOf(asked.Comment, progressWord); {
	case now == "":
		return nil
	case !slices.Contains(t.ours, now):
		return errAnother
	}
	word := fmt.Sprintf("%s=%d@%d", progressWord, min(t.before+iterations, maxIterations), at.Unix())
	// before it is written: an update that is not answered may be done all the same
	t.ours = append(t.ours[max(0, len(t.ours)-remembered):], word)
	return t.slurm.write(ctx, withWord(asked.Comment, word))
}

// iterationsOf is what a word of progress says; nothing, where it says none.
func iterationsOf(word string) int64 {
	_, value, _ := strings.Cut(word, "=")
	digits, _, _ := strings.Cut(value, "@")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > maxIterations {
		return 0
	}
	return n
}
