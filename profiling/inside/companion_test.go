package inside

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/profiler"
)

// clerk is a scontrol that knows one job, and answers nothing the first so many times.
type clerk struct {
	mu       sync.Mutex
	comment  string
	measure  int
	deaf     int
	asked    int
	written  []string
	meddles  func(comment string) string // what somebody else makes of it after each update
	refusing bool                        // of updates
}

func (c *clerk) run(_ context.Context, arguments ...string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked++; c.asked <= c.deaf {
		return "", errors.New("Unable to contact slurm controller")
	}
	if arguments[0] == "update" {
		if c.refusing {
			return "", errors.New("Access/permission denied")
		}
		c.comment = strings.TrimPrefix(arguments[2], "comment=")
		c.written = append(c.written, c.comment)
		if c.meddles != nil {
			c.comment = c.meddles(c.comment)
		}
		return "", nil
	}
	return fmt.Sprintf("JobId=17 JobName=x\n   StartTime=2026-11-23T06:00:00 EndTime=Unknown\n   NumNodes=1\n"+
		"   Comment=%s\n   Extra={\"v\":1,\"lua\":0,\"job\":17,\"measure\":%d}\n   StdErr=/e\n   StdOut=/o\n",
		c.comment, c.measure), nil
}

// looks is what is seen of a clerk.
func (c *clerk) looks() (comment string, asked int, written []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.comment, c.asked, slices.Clone(c.written)
}

// accompanied is a companion that has begun beside a trainer of so many iterations.
type accompanied struct {
	t          *testing.T
	iterations atomic.Int64
	end        context.CancelFunc
	ended      chan struct{}
	mu         sync.Mutex
	said       []string
}

func accompany(t *testing.T, k *clerk, change func(*Companion)) *accompanied {
	t.Helper()
	a := &accompanied{t: t, ended: make(chan struct{})}
	const moment = 2 * time.Millisecond
	c := &Companion{Slurm: Slurm{Job: "17", Run: k.run}, Look: moment, Every: 5 * moment, Retry: moment}
	c.Count = func(Asked) func() int64 { return a.iterations.Load }
	c.Say = func(text string) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.said = append(a.said, text)
	}
	if change != nil {
		change(c)
	}
	var ctx context.Context
	ctx, a.end = context.WithCancel(context.Background())
	go func() {
		defer close(a.ended)
		c.Accompany(ctx)
	}()
	t.Cleanup(func() {
		a.end()
		<-a.ended
	})
	return a
}

func (a *accompanied) waits(what string, holds func() bool) {
	a.t.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			a.t.Fatalf("waited in vain until %s; it says %q", what, a.says())
		}
	}
}

func (a *accompanied) says() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.said)
}

// told waits until the comment has so many iterations, and returns it.
func (a *accompanied) told(k *clerk, iterations int) string {
	a.t.Helper()
	comment := ""
	a.waits(fmt.Sprintf("%d iterations are told", iterations), func() bool {
		_, _, written := k.looks()
		comment = strings.Join(written[max(0, len(written)-1):], "")
		return strings.Contains(comment, fmt.Sprintf("synergy-progress=%d@", iterations))
	})
	return comment
}

// TestProgressGoesOnFromWhatTheRunsBeforeHaveToldAndAllOtherWordsStay: a trainer that goes on at its iteration 5000, of
// a job that has told 4000, has done none in this run.
func TestProgressGoesOnFromWhatTheRunsBeforeHaveToldAndAllOtherWordsStay(t *testing.T) {
	k := &clerk{comment: "mine,synergy-profile=res18.json synergy-progress=4000@1767268800, $(reboot)"}
	looking := make(chan struct{})
	a := accompany(t, k, func(c *Companion) {
		count, once := c.Count, sync.Once{}
		c.Count = func(asked Asked) func() int64 {
			return func() int64 {
				defer once.Do(func() { close(looking) })
				return count(asked)()
			}
		}
	})
	<-looking
	a.iterations.Store(5000)
	a.told(k, 4000)
	a.iterations.Store(5250)
	comment := a.told(k, 4250)
	before, rest, _ := strings.Cut(comment, "synergy-progress=4250@")
	if before != "mine,synergy-profile=res18.json " || !strings.HasSuffix(rest, ", $(reboot)") {
		t.Errorf("the comment is %q", comment)
	}
	if said := a.says(); len(said) > 0 {
		t.Errorf("it says %q", said)
	}
}

// TestWithoutTheWordNobodyIsTold: one question for the whole run.
func TestWithoutTheWordNobodyIsTold(t *testing.T) {
	k := &clerk{comment: "synergy-profile=res18.json"}
	a := accompany(t, k, func(c *Companion) {
		c.Measure = func(context.Context, func() int64) ([]profiler.Point, error) {
			t.Error("it is measured where nobody asks")
			return nil, nil
		}
	})
	a.iterations.Store(100)
	<-a.ended
	if _, asked, written := k.looks(); asked != 1 || len(written) > 0 {
		t.Errorf("%d calls of scontrol, %q written", asked, written)
	}
}

// TestATrainerThatTellsItselfIsLeftToIt, as by python/synergy, which counts better.
func TestATrainerThatTellsItselfIsLeftToIt(t *testing.T) {
	k := &clerk{comment: "synergy-profile=a.json synergy-progress",
		meddles: func(string) string { return "synergy-profile=a.json synergy-progress=7@1767268800" }}
	a := accompany(t, k, nil)
	a.waits("it has ended", func() bool {
		a.iterations.Add(1)
		select {
		case <-a.ended:
			return true
		default:
			return false
		}
	})
	if comment, _, written := k.looks(); len(written) != 1 || !strings.Contains(comment, "=7@") {
		t.Errorf("wrote %q, and left %q", written, comment)
	}
}

// TestWhatSlurmDoesNotAnswerIsSaidOnceAndTriedAgain: at first it is away, and the words come all the same.
func TestWhatSlurmDoesNotAnswerIsSaidOnceAndTriedAgain(t *testing.T) {
	k := &clerk{comment: "synergy-profile=a.json synergy-progress", deaf: 4}
	a := accompany(t, k, nil)
	a.waits("it has asked", func() bool { _, asked, _ := k.looks(); return asked > 4 })
	a.waits("it has told", func() bool { a.iterations.Add(1); _, _, written := k.looks(); return len(written) > 0 })
	if said := a.says(); len(said) != 1 || !strings.Contains(said[0], "training goes on: Unable to contact") {
		t.Errorf("it says %q, want one sentence", said)
	}
}

func TestACommentThatMayNotBeWrittenIsSaidOnce(t *testing.T) {
	k := &clerk{comment: "synergy-profile=a.json synergy-progress", refusing: true}
	a := accompany(t, k, nil)
	a.waits("it has tried five times", func() bool { a.iterations.Add(1); _, asked, _ := k.looks(); return asked > 10 })
	a.end()
	<-a.ended
	if said := a.says(); len(said) != 1 || !strings.Contains(said[0], "progress is not told to the daemon, training") {
		t.Errorf("it says %q, want one sentence", said)
	}
}

func TestACurveIsSaidBesideProgress(t *testing.T) {
	k := &clerk{comment: "synergy-profile=auto synergy-progress", measure: 1}
	a := accompany(t, k, func(c *Companion) {
		c.Measure = func(context.Context, func() int64) ([]profiler.Point, error) {
			return []profiler.Point{{Cores: 1, Rate: 2}, {Cores: 2, Rate: 3}}, nil
		}
	})
	a.iterations.Store(3)
	a.waits("both are told", func() bool {
		a.iterations.Add(1)
		comment, _, _ := k.looks()
		return strings.Contains(comment, "synergy-curve=1:2.000/2:3.000@") && strings.Contains(comment, "progress=1")
	})
	a.waits("it says so", func() bool { return len(a.says()) == 1 && strings.HasPrefix(a.says()[0], "measured ") })
}

// TestAJobThatIsMeasuredBySomebodyElseIsNothingToSpeakOf: who has claimed it, and who has said a curve in this run.
func TestAJobThatIsMeasuredBySomebodyElseIsNothingToSpeakOf(t *testing.T) {
	k := &clerk{comment: "synergy-profile=auto", measure: 1}
	for _, wrong := range []error{ErrClaimed, errors.New("no iteration was seen in 2h0m0s")} {
		a := accompany(t, k, func(c *Companion) {
			c.Measure = func(context.Context, func() int64) ([]profiler.Point, error) {
				k.mu.Lock()
				defer k.mu.Unlock()
				if !errors.Is(wrong, ErrClaimed) {
					k.comment += fmt.Sprintf(" synergy-curve=1:2@%d", time.Now().AddDate(100, 0, 0).Unix())
				}
				return nil, wrong
			}
		})
		<-a.ended
		if said := a.says(); len(said) > 0 {
			t.Errorf("%v: it says %q", wrong, said)
		}
	}
	if asked, err := (Slurm{Job: "17", Run: k.run}).Asked(t.Context()); err != nil || asked.Measure {
		t.Errorf("a job that has said its curve in this run is to be measured: %+v, %v", asked, err)
	}
	k.comment = "synergy-profile=auto synergy-curve=1:2@1767268800" // of a run before
	if asked, err := (Slurm{Job: "17", Run: k.run}).Asked(t.Context()); err != nil || !asked.Measure {
		t.Errorf("a job whose curve is of a run before is not to be measured: %+v, %v", asked, err)
	}
}
