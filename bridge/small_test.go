package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// small holds a small round, and says whether it came to anything.
func (w *world) small() (bridge.Report, bool) {
	w.t.Helper()
	report, held, err := w.runner.SmallRound(ctx)
	if err != nil {
		w.t.Fatalf("small round: %v", err)
	}
	return report, held
}

// Each moment lets a job start that waited when the last round was over.
func TestASmallRoundStartsWhatMayStartSinceTheLastRound(t *testing.T) {
	for _, c := range []struct {
		name   string
		before func(w *world) int // before the round: the job that is to start
		moment func(w *world, id int)
	}{
		{"a job comes", func(*world) int { return 0 }, func(w *world, _ int) { w.submit(1, model("res18"), forAges) }},
		{"a hold is released", func(w *world) int {
			id := w.submit(1, model("res18"), forAges)
			w.slurm.Hold(id)
			return id
		}, func(w *world, id int) { w.slurm.Release(id) }},
		{"a dependency is met", func(w *world) int {
			parent := w.submit(1, model("gnmt"), forAges)
			return w.submit(1, model("res18"), forAges, func(s *slurmtest.Spec) { s.After = parent })
		}, func(w *world, id int) { w.slurm.Cancel(id - 1) }},
		{"a job ends", func(w *world) int {
			w.submit(8, model("res50"), forAges)
			return w.submit(1, model("res18"), forAges)
		}, func(w *world, id int) { w.slurm.Cancel(id - 1) }},
		{"somebody else's job ends", func(w *world) int {
			w.submit(8, "mine", forAges, func(s *slurmtest.Spec) { s.Lease = 0 })
			w.sleep(time.Second)
			return w.submit(1, model("res18"), forAges)
		}, func(w *world, id int) { w.slurm.Cancel(id - 1) }},
		{"a node comes back", func(w *world) int {
			w.slurm.Drain("n1")
			return w.submit(1, model("res18"), forAges)
		}, func(w *world, _ int) { w.slurm.Resume("n1") }},
		{"its user's begin time comes", func(w *world) int {
			return w.submit(1, model("res18"), forAges,
				func(s *slurmtest.Spec) { s.Begin = epoch.Add(302 * time.Second) })
		}, func(*world, int) {}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 1, server)
			id := c.before(w)
			w.rounds(1)
			w.small()
			c.moment(w, id)
			w.sleep(3 * time.Second) // what ends is torn down
			report, held := w.small()
			if id == 0 {
				id = w.slurm.Submitted()
			}
			w.mustRun(id, "n1", 9)
			if !held || !report.Small || report.Round != 1 {
				t.Errorf("held %v, small %v, round %d; want it held, small, and of round 1", held, report.Small,
					report.Round)
			}
		})
	}
}

func TestASmallRoundWithNothingNewCostsOneLook(t *testing.T) {
	w := newWorld(t, 1, server)
	w.submit(8, model("res50"), forAges)
	w.submit(1, model("res18"), forAges)
	w.rounds(2)
	w.small()
	before, _, _ := w.book.Load()
	for range 3 {
		calls := len(w.line.Calls())
		if _, held := w.small(); held {
			t.Error("a small round was held for nothing")
		}
		if n := len(w.line.Calls()) - calls; n != 1 {
			t.Errorf("%d calls, want the one look", n)
		}
		w.sleep(2 * time.Second)
	}
	if after, _, _ := w.book.Load(); fmt.Sprint(*after[0], *after[1]) != fmt.Sprint(*before[0], *before[1]) {
		t.Errorf("the ledger has %+v, it had %+v", after, before)
	}
}

// The newcomer goes first by the policy and would gain by it; a round stops a running job for it, a small one does not.
func TestASmallRoundStopsAndChangesNobody(t *testing.T) {
	w := newWorld(t, 1, oneGPU)
	w.runner.Settings.Policy = policy.LAS()
	first := w.submit(1, model("gnmt"), forAges)
	w.rounds(2)
	second := w.submit(1, model("gnmt"), forAges)
	report, held := w.small()
	if !held || step(t, report, second, bridge.Renew).Error != "" {
		t.Errorf("held %v: the newcomer is not told why it waits: %+v", held, report.Steps)
	}
	w.mustRun(first, "n1", 1)
	if n := w.line.Count(slurmtest.Signal) + w.line.Count(slurmtest.Requeue); n > 0 {
		t.Errorf("%d victims of a small round", n)
	}
	w.round()
	w.mustRun(second, "n1", 1)
}

func TestAClockThatIsSetBetweenRoundsIsNotForgottenByASmallOne(t *testing.T) {
	w := newWorld(t, 1, server)
	id := w.submit(1, model("res18"), forAges)
	w.rounds(2)
	before := w.record(id).Until
	w.runner.Slurm = ahead{w.line, time.Hour}
	if _, held := w.small(); !held {
		t.Error("the clock was set, and the small round wrote nothing down")
	}
	if moved := w.record(id).Until.Sub(before); moved < time.Hour {
		t.Errorf("its service is accounted %s later than before, want the hour that the clock was set by", moved)
	}
	if j := w.round().Snapshot.Jobs[0]; j.Attained > 700 {
		t.Errorf("%.0f GPU-seconds of service, it has had 600", j.Attained)
	}
}

// ahead is a Slurm whose clock is ahead.
type ahead struct {
	slurm.Manager
	by time.Duration
}

func TestDyingAtAnyCallOfASmallRoundLosesNothing(t *testing.T) {
	for _, moment := range []slurmtest.Moment{slurmtest.Before, slurmtest.After} {
		for n := 1; ; n++ {
			died := true
			t.Run(fmt.Sprintf("%s call %d", moment, n), func(t *testing.T) { died = dieInASmallRound(t, n, moment) })
			if !died {
				break
			}
		}
	}
}

func dieInASmallRound(t *testing.T, n int, moment slurmtest.Moment) bool {
	w := newWorld(t, 2, small)
	ids := stage(w)
	w.rounds(1)
	ids = append(ids, w.submit(1, model("res18"), length(8*time.Minute)),
		w.submit(1, model("gnmt"), length(8*time.Minute)))
	w.slurm.Cancel(ids[0])
	w.sleep(time.Second)
	o := w.daemon(w.book, 0, "", nil, false)
	o.intact = true
	w.round() // the first of its process
	w.slurm.Cancel(ids[1])
	w.sleep(3 * time.Second)
	o.calls, o.dies, o.moment = 0, n, moment
	_, _, err := w.runner.SmallRound(ctx)
	died := errors.Is(err, slurmtest.ErrDied)
	if err != nil && !died {
		t.Fatalf("small round: %v", err)
	}
	w.start(nil)
	w.mustEndWell(ids[2:])
	return died
}

// Observe implements slurm.Manager.
func (a ahead) Observe(ctx context.Context) (slurm.Observed, error) {
	seen, err := a.Manager.Observe(ctx)
	seen.At = seen.At.Add(a.by)
	return seen, err
}

func TestAJobRunsInItsReservationAndOthersOnlyIfTheyEndBeforeIt(t *testing.T) {
	w := newWorld(t, 2, server)
	w.slurm.Reserve(slurm.Reservation{Name: "course", From: epoch.Add(time.Hour), To: epoch.Add(3 * time.Hour),
		Nodes: []string{"n2"}})
	limit := func(d time.Duration) func(*slurmtest.Spec) { return func(s *slurmtest.Spec) { s.TimeLimit = d } }
	long := w.submit(8, model("gnmt"), forAges, limit(2*time.Hour))
	second := w.submit(8, model("gnmt"), forAges, limit(2*time.Hour))
	short := w.submit(8, model("gnmt"), length(10*time.Minute), limit(20*time.Minute))
	inside := w.submit(8, model("gnmt"), forAges, limit(time.Hour),
		func(s *slurmtest.Spec) { s.Reservation = "course" })
	w.rounds(1)
	w.mustRun(long, "n1", 8)
	w.mustRun(short, "n2", 8)
	if j := w.job(second); j.State != slurm.Pending {
		t.Errorf("job %d is %s on %v, and cannot end before the reservation begins", second, j.State, j.Runs.Nodes)
	}
	w.rounds(14)
	w.mustRun(inside, "n2", 8)
}

// told is a watcher that says what it is told.
type told struct {
	quiet bool
	asked int
}

func (w *told) Quiet(context.Context) (bool, error) {
	w.asked++
	return w.quiet, nil
}

func TestASmallRoundLooksWhereTheWatcherIsNotSureAndNowAndThenAnyway(t *testing.T) {
	w := newWorld(t, 1, server)
	w.rounds(1)
	watcher := &told{quiet: true}
	w.runner.Watcher = watcher
	w.small()
	id := w.submit(1, model("res18"), forAges)
	w.sleep(2 * time.Second)
	if _, held := w.small(); held || watcher.asked != 1 {
		t.Errorf("held %v though all is said to be quiet, which was asked %d times", held, watcher.asked)
	}
	watcher.quiet = false
	if _, held := w.small(); !held {
		t.Error("no small round though something is said to have happened")
	}
	w.mustRun(id, "n1", 9)
	w.submit(1, model("res18"), forAges)
	watcher.quiet = true
	w.sleep(10 * time.Second)
	if _, held := w.small(); !held {
		t.Error("no look for ten seconds: a node may have come back")
	}
}

func TestASmallRoundTellsNoMoreThanAFewNewcomersThatTheyWait(t *testing.T) {
	w := newWorld(t, 1, server)
	w.submit(8, model("gnmt"), forAges)
	w.rounds(2)
	for range 600 {
		w.submit(1, model("gnmt"), forAges)
	}
	for _, want := range []int{256, 256, 88} {
		report, _ := w.small()
		if n := len(report.Steps); n != want {
			t.Errorf("%d newcomers are told, want %d", n, want)
		}
		w.sleep(time.Second)
	}
	if report, held := w.small(); held {
		t.Errorf("held for nothing: %+v", report.Steps)
	}
}

// Whom it does not come to is neither put off nor failed: that is what the next one is for.
func TestASmallRoundTellsNewcomersForASecond(t *testing.T) {
	w := newWorld(t, 1, server)
	w.submit(8, model("gnmt"), forAges)
	w.rounds(2)
	for range 200 {
		w.submit(1, model("gnmt"), forAges)
	}
	w.start(slow(w, func(c slurmtest.Call) time.Duration {
		if c.Verb == slurmtest.Update {
			return 50 * time.Millisecond
		}
		return 0
	}))
	w.rounds(1)
	w.sleep(time.Second)
	for range 40 {
		w.submit(1, model("gnmt"), forAges)
	}
	began := w.clock.Now()
	report, held := w.small()
	if took := w.clock.Now().Sub(began); took > 2*time.Second {
		t.Errorf("it took %v", took)
	}
	if n := len(report.Steps); !held || n < 10 || n > 30 {
		t.Errorf("held %v, %d newcomers are told, want 20", held, n)
	}
	for _, s := range report.Steps {
		if s.PutOff || s.Error != "" {
			t.Errorf("%s of job %d: put off %v, %s", s.Verb, s.Job, s.PutOff, s.Error)
		}
	}
}

// With Slurm's defaults a job that became eligible behind others is looked at within half a minute, and a site may have
// it look less often: a start is not taken back before that.
func TestASmallRoundTakesNoStartBackBeforeSlurmHasLookedAtIt(t *testing.T) {
	for _, seconds := range []time.Duration{1, 9, 11, 33, 100} {
		delay := seconds * time.Second
		w := newWorld(t, 4, oneGPU)
		w.slurm = slurmtest.New(w.clock, slurmtest.Options{
			Nodes: slurmtest.Rack(4, oneGPU, "gpu"), SchedulerDelay: delay,
		})
		w.start(nil)
		w.runner.Settings.Round, w.runner.Settings.Looks = 5*time.Minute, delay+5*time.Second
		w.rounds(1)
		var ids []int
		for range 4 {
			ids = append(ids, w.submit(1, model("gnmt"), forAges))
		}
		report, _ := w.small()
		for _, id := range ids {
			if s := step(t, report, id, bridge.Start); s.Error != "" || s.PutOff {
				t.Errorf("Slurm looks after %s: start of job %d: error %q, put off %t", delay, id, s.Error, s.PutOff)
			}
			if j := w.job(id); j.State != slurm.Running {
				t.Errorf("Slurm looks after %s: job %d is %s", delay, id, j.State)
			}
		}
	}
}
