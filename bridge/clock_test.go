package bridge_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// jumpy is a clock of our own host that somebody sets before every reading.
type jumpy struct {
	*slurmtest.Line
	jumps []int // minutes
	reads int
}

func (j *jumpy) Now() time.Time {
	j.reads++
	return j.Line.Now().Add(time.Duration(j.jumps[j.reads%len(j.jumps)]) * time.Minute)
}

// abroad is a Slurm whose clock is not ours, and may be set. What happened before shows the time that the clock showed
// then.
type abroad struct {
	slurm.Manager
	w   *world
	set []setting
}

// setting is by how much the clock is ahead from a moment on.
type setting struct {
	from  time.Time
	ahead time.Duration
}

// shown is a past moment by the clock as it went then.
func (a *abroad) shown(at time.Time) time.Time {
	ahead := a.set[0].ahead
	for _, s := range a.set {
		if !at.Before(s.from) {
			ahead = s.ahead
		}
	}
	return at.Add(ahead)
}

func (a *abroad) ahead() time.Duration { return a.set[len(a.set)-1].ahead }

func (a *abroad) Observe(ctx context.Context) (slurm.Observed, error) {
	seen, err := a.Manager.Observe(ctx)
	seen.At = seen.At.Add(a.ahead())
	jobs := make([]*slurm.Job, len(seen.Jobs))
	for k, j := range seen.Jobs {
		here := *j
		here.Submitted = a.shown(j.Submitted)
		if !j.Started.IsZero() {
			here.Started = a.shown(j.Started)
		}
		if !j.Begin.IsZero() {
			here.Begin = j.Begin.Add(a.ahead())
		}
		jobs[k] = &here
	}
	seen.Jobs = jobs
	return seen, err
}

func (a *abroad) Update(ctx context.Context, u slurm.Update) error {
	u.Begin = u.Begin.Add(-a.ahead())
	return a.Manager.Update(ctx, u)
}

// step sets the clock: leases are moments by it, and so end sooner or later by as much.
func (a *abroad) step(by time.Duration) {
	a.set = append(a.set, setting{a.w.clock.Now(), a.ahead() + by})
	seen, err := a.w.slurm.Observe(ctx)
	if err != nil {
		a.w.t.Fatal(err)
	}
	for _, j := range seen.Jobs {
		if j.State == slurm.Pending && !j.Begin.IsZero() {
			u := slurm.Update{Job: j.ID, Begin: j.Begin.Add(-by), Request: j.Request, Extra: j.Extra}
			if err := a.w.slurm.Update(ctx, u); err != nil {
				a.w.t.Fatal(err)
			}
		}
	}
}

// travel puts the world's Slurm under another clock.
func (w *world) travel(ahead time.Duration) *abroad {
	a := &abroad{Manager: w.line, w: w, set: []setting{{ahead: ahead}}}
	w.runner.Slurm = a
	return a
}

// deeds are all calls that changed anything.
func (w *world) deeds() string {
	var all []string
	for _, c := range w.line.Calls() {
		if c.Verb != slurmtest.Observe {
			all = append(all, fmt.Sprintf("%s %d %v", c.Verb, c.Job, c.Update.Request.Pin))
		}
	}
	return strings.Join(all, ", ")
}

// busy is an hour of a cluster on which jobs are started, stopped, resized and let wait.
func busy(t *testing.T, abroad func(w *world)) *world {
	w := newWorld(t, 2, small)
	w.runner.Settings.Policy = policy.LAS()
	w.runner.Settings.Rules.MinRun = 10 * time.Minute
	abroad(w)
	for k := range 12 {
		w.submit(1+k%3, model([]string{"res18", "gnmt", "alexnet"}[k%3]), forAges)
		w.rounds(1)
	}
	return w
}

func TestOurOwnClockMayBeSetAtAnyMomentAndNothingIsDoneOtherwise(t *testing.T) {
	want := busy(t, func(*world) {})
	rapid.Check(t, func(rt *rapid.T) {
		jumps := rapid.SliceOfN(rapid.IntRange(-600, 600), 1, 20).Draw(rt, "minutes")
		got := busy(t, func(w *world) { w.runner.Clock = &jumpy{Line: w.line, jumps: jumps} })
		if got.deeds() != want.deeds() {
			rt.Fatalf("did\n%s, want\n%s", got.deeds(), want.deeds())
		}
	})
}

func TestASlurmWhoseClockIsNotOursIsDrivenAsAnyOther(t *testing.T) {
	want := busy(t, func(*world) {})
	for _, ahead := range []time.Duration{-10 * time.Hour, -7 * time.Minute, 4 * time.Second, 7 * time.Minute,
		10 * time.Hour} {
		got := busy(t, func(w *world) { w.travel(ahead) })
		if got.deeds() != want.deeds() {
			t.Errorf("%s ahead: did\n%s, want\n%s", ahead, got.deeds(), want.deeds())
		}
	}
}

// Slurm's own clock is set by hours while rounds rest. Nobody is stopped for it, service is what it was, and leases are
// as long as they should be one round later.
func TestSlurmsOwnClockIsSetAndNobodyIsStoppedForIt(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		by := time.Duration(rapid.IntRange(-600, 600).Draw(rt, "minutes")) * time.Minute
		at := rapid.IntRange(1, 6).Draw(rt, "round")
		within := 5 * time.Second
		if at == 1 { // of a run that began in the round before, nobody knows by which clock
			within += min(by.Abs(), 300*time.Second)
		}
		w := newWorld(t, 1, server)
		w.runner.Settings.Rules.MinRun = 10 * time.Minute
		a := w.travel(0)
		for range 12 {
			w.submit(1, model("gnmt"), forAges)
		}
		var report bridge.Report
		for k := range 8 {
			if k == at {
				a.step(by)
			}
			report = w.rounds(1)
			if told := report.ClockStep != 0; told != (k == at && by != 0) {
				rt.Fatalf("round %d tells that the clock was set by %s", k, report.ClockStep)
			}
		}
		if n := w.line.Count(slurmtest.Signal) + w.line.Count(slurmtest.Requeue); n != 0 {
			rt.Fatalf("%d jobs were stopped", n)
		}
		for _, j := range report.Snapshot.Jobs {
			past, _ := w.slurm.History(j.ID)
			had := 0.0
			if len(past.Runs) > 0 {
				had = report.Began.Sub(past.Runs[0].Start).Seconds()
			}
			if math.Abs(j.Attained-had) > within.Seconds() {
				rt.Fatalf("set by %s before round %d: job %d: %.0f GPU-seconds are remembered, it has had %.0f", by, at,
					j.ID, j.Attained, had)
			}
			if left := w.lease(j.ID); j.Running == nil && (left <= 0 || left > 1020*time.Second) {
				rt.Fatalf("job %d has a lease of %s", j.ID, left)
			}
		}
		if t.Failed() {
			rt.Fatal("an invariant broke")
		}
	})
}
