package bridge_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// gentle is a world whose jobs are asked before their time limits. Where it is watched, small rounds are held every
// second.
func gentle(t *testing.T, nodes int, watched bool) *world {
	t.Helper()
	w := newWorld(t, nodes, oneGPU)
	w.runner.Settings.SaveAtLimit, w.runner.Settings.Watched = true, watched
	return w
}

func withLimit(d time.Duration) func(*slurmtest.Spec) {
	return func(s *slurmtest.Spec) { s.TimeLimit = d }
}

// pass holds rounds on their schedule for so long, and small ones every second between them where the world is watched.
func (w *world) pass(d time.Duration) (reports []bridge.Report) {
	w.t.Helper()
	period := w.runner.Settings.Round
	for end := w.clock.Now().Add(d); w.clock.Now().Before(end); {
		began := w.clock.Now()
		reports = append(reports, w.round())
		for rest := period - w.clock.Now().Sub(began); rest > 0; rest = period - w.clock.Now().Sub(began) {
			if !w.runner.Settings.Watched {
				w.sleep(rest)
				break
			}
			w.sleep(min(time.Second, rest))
			if report, held := w.small(); held {
				reports = append(reports, report)
			}
		}
	}
	return reports
}

// ranBeforeStop is how long each run of a job lasted until it ended or was told to.
func (w *world) ranBeforeStop(id int) []time.Duration {
	past, _ := w.slurm.History(id)
	var ran []time.Duration
	for _, run := range past.Runs {
		if !run.Stop.IsZero() {
			ran = append(ran, run.Stop.Sub(run.Start))
		}
	}
	return ran
}

// Its work takes as long as two and a half of its limits. It is asked 45 seconds before each, or a round earlier where
// there are no small ones, and nothing of its work is done twice.
func TestAJobThatIsLongerThanItsTimeLimitSavesBeforeItAndGoesOnUntilItsWorkIsDone(t *testing.T) {
	for _, c := range []struct {
		name    string
		watched bool
		ahead   time.Duration // of its limit, at most
		comment string
		change  func(*slurmtest.Spec)
	}{
		{"with small rounds", true, 50 * time.Second, model("gnmt"), saves(2 * time.Second)},
		{"without", false, 650 * time.Second, model("gnmt"), saves(2 * time.Second)},
		{"with small rounds, and requeues itself", true, 50 * time.Second, stepped, requeuesItself},
		{"without, and requeues itself", false, 650 * time.Second, stepped, requeuesItself},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := gentle(t, 1, c.watched)
			const limit = 20 * time.Minute
			id := w.submit(1, c.comment, withLimit(limit), length(50*time.Minute), c.change)
			reports := w.pass(90 * time.Minute)
			w.mustHaveCompleted([]int{id})
			w.mustKeepAll(id)
			past, _ := w.slurm.History(id)
			for k, ran := range w.ranBeforeStop(id) {
				if k < past.Restarts && (ran < limit-c.ahead || ran > limit-30*time.Second) {
					t.Errorf("run %d was stopped after %s, want no more than %s before its limit", k+1, ran, c.ahead)
				}
			}
			if signals := w.line.Count(slurmtest.Signal); past.Restarts < 2 || signals != past.Restarts ||
				w.line.Count(slurmtest.Requeue) > 0 {
				t.Errorf("%d restarts, %d signals, %d by force", past.Restarts, signals,
					w.line.Count(slurmtest.Requeue))
			}
			for _, report := range reports {
				for _, s := range report.Steps {
					if s.Error != "" || s.Verb == bridge.Preempt && s.Why != "its time limit comes" {
						t.Errorf("%+v", s)
					}
				}
				if len(report.Lost) > 0 {
					t.Errorf("lost %+v", report.Lost)
				}
			}
		})
	}
}

// It waits with its user's own request under a lease of ours, and nothing is held against it.
func TestAJobThatWasAskedBeforeItsTimeLimitWaitsAsItsUserSubmittedItUnderALease(t *testing.T) {
	w := gentle(t, 1, true)
	id := w.submit(1, model("res18"), withLimit(20*time.Minute), forAges)
	w.rounds(1)
	w.slurm.Drain("n1") // so that it does not start again at once
	w.pass(20 * time.Minute)
	j, r := w.job(id), w.record(id)
	if j.State != slurm.Pending || j.Restarts != 1 {
		t.Fatalf("it is %s after %d restarts", j.State, j.Restarts)
	}
	w.mustBeAsSubmitted()
	if lease := j.Begin.Sub(w.clock.Now()); lease < w.runner.Settings.Lease/3 {
		t.Errorf("its lease is %s", lease)
	}
	if r.Returned != 0 || r.Lost != "" || !r.Asked.IsZero() {
		t.Errorf("returned unasked %d times, lost %q, asked %s", r.Returned, r.Lost, r.Asked)
	}
	w.slurm.Resume("n1")
	w.rounds(1)
	w.mustRun(id, "n1", 3)
}

func TestAJobThatDoesNotHeedTheSignalIsRequeuedByForceBeforeItsTimeLimit(t *testing.T) {
	for _, watched := range []bool{true, false} {
		t.Run(fmt.Sprintf("watched %t", watched), func(t *testing.T) {
			w := gentle(t, 1, watched)
			id := w.submit(1, model("gnmt"), withLimit(20*time.Minute), forAges, hangs)
			w.pass(25 * time.Minute)
			j := w.job(id)
			if j.State == slurm.Finished || j.Restarts != 1 || w.line.Count(slurmtest.Signal) != 1 ||
				w.line.Count(slurmtest.Requeue) != 1 {
				t.Errorf("%s after %d restarts, %d signals, %d times by force", j.State, j.Restarts,
					w.line.Count(slurmtest.Signal),
					w.line.Count(slurmtest.Requeue))
			}
			if ran := w.ranBeforeStop(id)[0]; ran > 20*time.Minute-10*time.Second {
				t.Errorf("it was stopped after %s, want it when its grace was over", ran)
			}
		})
	}
}

// Each is as the one that is asked, but for one thing.
func TestWhoCouldNotGoOnAfterItsTimeLimitIsNotAskedBeforeIt(t *testing.T) {
	for _, c := range []struct {
		name    string
		comment string
		change  func(*slurmtest.Spec)
		setting func(*bridge.Settings)
		asked   bool
	}{
		{name: "nothing is in the way", asked: true},
		{name: "its deadline leaves time for a second run", asked: true,
			change: func(s *slurmtest.Spec) { s.Deadline = epoch.Add(41 * time.Minute) }},
		{name: "its deadline does not", change: func(s *slurmtest.Spec) { s.Deadline = epoch.Add(39 * time.Minute) }},
		{name: "it declares no checkpoint", comment: "synergy-profile=gnmt.json"},
		{name: "its grace is half of its limit", comment: "synergy-profile=gnmt.json synergy-checkpoint=USR1@600"},
		{name: "the administrator has it off", setting: func(s *bridge.Settings) { s.SaveAtLimit = false }},
		{name: "its stop would lose it, and may be made", comment: "synergy-profile=gnmt.json",
			setting: func(s *bridge.Settings) { s.PreemptWithoutCheckpoint = true }},
		{name: "shadow", setting: func(s *bridge.Settings) { s.Shadow = true }},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := gentle(t, 1, true)
			comment := c.comment
			if comment == "" {
				comment = model("gnmt")
			}
			change := c.change
			if change == nil {
				change = func(*slurmtest.Spec) {}
			}
			id := w.submit(1, comment, withLimit(20*time.Minute), forAges, change)
			w.rounds(1)
			if c.setting != nil {
				c.setting(&w.runner.Settings)
			}
			w.pass(22 * time.Minute)
			past, _ := w.slurm.History(id)
			timedOut := past.End == slurmtest.TimedOut
			if n := w.line.Count(slurmtest.Signal); (n > 0) != c.asked || timedOut == c.asked ||
				w.line.Count(slurmtest.Requeue) > 0 {
				t.Errorf("asked %d times, ended %q; want it asked %t", n, past.End, c.asked)
			}
		})
	}
}

func TestAJobThatWasLostWhenItWasAskedIsNotAskedBeforeItsTimeLimit(t *testing.T) {
	w := gentle(t, 1, true)
	id := w.submit(1, model("gnmt"), withLimit(20*time.Minute), forAges)
	w.rounds(1)
	records, _, _ := w.book.Load()
	records.Of(id).Lost = bridge.NoTrap
	if err := w.book.Settle(records, bridge.Report{}); err != nil {
		t.Fatal(err)
	}
	w.pass(22 * time.Minute)
	if past, _ := w.slurm.History(id); past.End != slurmtest.TimedOut || w.line.Count(slurmtest.Signal) > 0 {
		t.Errorf("ended %q after %d signals", past.End, w.line.Count(slurmtest.Signal))
	}
}

func TestAJobWhoseTimeLimitIsTooShortToBeAskedBeforeItIsToldSo(t *testing.T) {
	for limit, want := range map[time.Duration]bool{94 * time.Second: true, 95 * time.Second: false, 0: false} {
		w := gentle(t, 1, true)
		id := w.submit(1, model("gnmt"), withLimit(limit), forAges)
		report := w.round()
		told := false
		for _, n := range report.Notes {
			told = told || n.Job == id && strings.Contains(n.Text, "takes a limit of 1m35s or more")
		}
		if told != want {
			t.Errorf("limit %s: told %t, want %t: %+v", limit, told, want, report.Notes)
		}
	}
}

// In a round that waits for a victim's long grace the limit of another job comes; no small round can be held meanwhile.
func TestALongRoundAsksWhoseTimeLimitComesInTheMiddleOfIt(t *testing.T) {
	w := newWorld(t, 2, oneGPU)
	w.runner.Settings.SaveAtLimit, w.runner.Settings.Watched, w.runner.Settings.Policy = true, true, policy.LAS()
	slow := "synergy-profile=gnmt.json synergy-checkpoint=USR1@280"
	victim := w.submit(1, slow, forAges, hangs, pinned("n1"))
	limit := w.submit(1, model("gnmt"), withLimit(12*time.Minute), forAges, pinned("n2"))
	w.rounds(2) // it has two minutes left, and is to be asked when there are 45 s
	newcomer := w.submit(1, model("gnmt"), forAges, pinned("n1"))
	began := w.clock.Now()
	report := w.round()
	if took := w.clock.Now().Sub(began); took < 280*time.Second {
		t.Fatalf("the round took %s, want it to wait for the victim", took)
	}
	w.mustRun(newcomer, "n1", 1)
	if s := step(t, report, limit, bridge.Preempt); s.Error != "" || s.PutOff {
		t.Errorf("%+v", s)
	}
	if ran := w.ranBeforeStop(limit); len(ran) != 1 || ran[0] < 12*time.Minute-50*time.Second ||
		ran[0] > 12*time.Minute-30*time.Second {
		t.Errorf("it ran %s before it was asked", ran)
	}
	w.mustBeAsSubmitted()
	if past, _ := w.slurm.History(victim); past.Restarts != 1 {
		t.Errorf("the victim was restarted %d times", past.Restarts)
	}
}

// stretched is a Slurm that has moved the end of a job's run, as it does for time in which that was suspended.
type stretched struct {
	slurm.Manager
	job int
	by  time.Duration
}

func (s stretched) Observe(ctx context.Context) (slurm.Observed, error) {
	seen, err := s.Manager.Observe(ctx)
	seen.Jobs = slices.Clone(seen.Jobs)
	for k, j := range seen.Jobs {
		if j.ID == s.job && j.State == slurm.Running {
			moved := *j
			moved.Ends = moved.Ends.Add(s.by)
			seen.Jobs[k] = &moved
		}
	}
	return seen, err
}

func TestTimeInWhichAJobWasSuspendedIsNoneOfItsLimit(t *testing.T) {
	w := gentle(t, 1, true)
	id := w.submit(1, "synergy-profile=res18.json synergy-checkpoint=USR1@120", withLimit(2*time.Hour), forAges)
	w.pass(10 * time.Minute)
	w.runner.Slurm = stretched{w.runner.Slurm, id, 3 * time.Hour}
	w.pass(3 * time.Hour)
	if n := w.line.Count(slurmtest.Signal) + w.line.Count(slurmtest.Requeue); n > 0 {
		t.Errorf("it was asked or stopped %d times, two hours before its limit", n)
	}
}

// A small round has asked it, and it leaves in the long round that follows: it is given its lease then, and not when
// its grace would have been over, since Slurm would have started it again with the size and the node that it had.
func TestALongRoundSeesOffWhoWasAskedBeforeIt(t *testing.T) {
	w := newWorld(t, 2, oneGPU)
	w.runner.Settings.SaveAtLimit, w.runner.Settings.Watched, w.runner.Settings.Policy = true, true, policy.LAS()
	w.submit(1, "synergy-profile=gnmt.json synergy-checkpoint=USR1@280", forAges, hangs, pinned("n1"))
	limit := w.submit(1, "synergy-profile=gnmt.json synergy-checkpoint=USR1@200", forAges, withLimit(813*time.Second),
		pinned("n2"), saves(10*time.Second))
	w.pass(10 * time.Minute)
	if n := w.line.Count(slurmtest.Signal); n != 1 {
		t.Fatalf("%d signals, want the one before the limit", n)
	}
	w.submit(1, model("gnmt"), forAges, pinned("n1"))
	began := w.clock.Now()
	report := w.round()
	if took := w.clock.Now().Sub(began); took < 280*time.Second {
		t.Fatalf("the round took %s, want it to wait for the victim", took)
	}
	if j := w.job(limit); j.State != slurm.Running || j.Restarts != 1 {
		t.Errorf("%s after %d restarts", j.State, j.Restarts)
	}
	if s := step(t, report, limit, bridge.Start); s.Error != "" {
		t.Errorf("it runs again, and not by a start of ours: %s", s.Error)
	}
}

// A round that foresees it and is over before does nothing about it, and says nothing of it.
func TestARoundThatIsOverBeforeATimeLimitComesSaysNothingOfIt(t *testing.T) {
	w := gentle(t, 1, true)
	w.submit(1, model("gnmt"), withLimit(12*time.Minute), forAges)
	w.rounds(2)
	if report := w.round(); len(report.Steps) > 0 {
		t.Errorf("%+v", report.Steps)
	}
}

// A job that may take half a minute to save shares its server with room for another, which comes in the same round.
func TestNoStartWaitsForAJobThatIsAskedBeforeItsTimeLimit(t *testing.T) {
	for watched, limit := range map[bool]time.Duration{true: 640 * time.Second, false: 940 * time.Second} {
		w := newWorld(t, 1, server)
		w.runner.Settings.SaveAtLimit, w.runner.Settings.Watched = true, watched
		id := w.submit(1, model("gnmt"), withLimit(limit), forAges, saves(29*time.Second))
		w.rounds(2)
		other := w.submit(1, model("gnmt"), forAges)
		began := w.clock.Now()
		step(t, w.round(), id, bridge.Preempt)
		if j := w.job(other); j.State != slurm.Running || j.Started.Sub(began) > 3*time.Second {
			t.Errorf("watched %t: the other is %s, since %s", watched, j.State, j.Started.Sub(began))
		}
	}
}

// A small round asks and is over; who takes its time does not keep others from starting, on its own node neither.
func TestASmallRoundThatAsksWaitsForNobody(t *testing.T) {
	w := newWorld(t, 1, server)
	w.runner.Settings.SaveAtLimit, w.runner.Settings.Watched = true, true
	id := w.submit(1, model("gnmt"), withLimit(10*time.Minute), forAges, saves(29*time.Second))
	w.rounds(1)
	w.sleep(4*time.Minute + 14*time.Second) // 46 s are left
	if report, held := w.small(); held {
		t.Fatalf("held too early: %+v", report.Steps)
	}
	w.sleep(2 * time.Second)
	began := w.clock.Now()
	report, held := w.small()
	if s := step(t, report, id, bridge.Preempt); !held || s.Error != "" || s.PutOff || w.clock.Now() != began {
		t.Errorf("held %t for %s: %+v", held, w.clock.Now().Sub(began), s)
	}
	other := w.submit(1, model("gnmt"), forAges)
	w.sleep(2 * time.Second)
	w.small()
	w.mustRun(other, "n1", 1)
	for range 20 {
		w.sleep(time.Second)
		if report, held := w.small(); held {
			t.Errorf("held for nothing: %+v", report.Steps)
		}
	}
	if n := w.line.Count(slurmtest.Signal); n != 1 {
		t.Errorf("signalled %d times", n)
	}
}

// The watcher says that nothing happens, as is true.
func TestAQuietClusterIsLookedAtInTheSecondInWhichATimeLimitComes(t *testing.T) {
	w := gentle(t, 1, true)
	id := w.submit(1, model("gnmt"), withLimit(10*time.Minute), forAges)
	w.runner.Watcher = &told{quiet: true}
	w.pass(10 * time.Minute)
	if ran := w.ranBeforeStop(id); len(ran) != 1 || ran[0] > 10*time.Minute-42*time.Second {
		t.Errorf("it ran %s, want it asked 45 s before its limit", ran)
	}
}

// The signal does not get through at first.
func TestAnAskBeforeATimeLimitThatFailsIsTriedAgain(t *testing.T) {
	w := gentle(t, 1, true)
	id := w.submit(1, model("gnmt"), withLimit(10*time.Minute), forAges)
	failed := 0
	w.start(func(c slurmtest.Call, at slurmtest.Moment) error {
		if c.Verb != slurmtest.Signal || at != slurmtest.Before || failed == 2 {
			return nil
		}
		failed++
		return slurm.ErrRefused
	})
	w.pass(10 * time.Minute)
	if j := w.job(id); failed != 2 || j.Restarts != 1 {
		t.Errorf("after %d failures it is %s after %d restarts", failed, j.State, j.Restarts)
	}
}

// untilAsked holds small rounds until somebody is asked.
func (w *world) untilAsked() {
	w.t.Helper()
	for range 300 {
		if w.line.Count(slurmtest.Signal) > 0 {
			return
		}
		w.sleep(time.Second)
		w.small()
	}
	w.t.Fatal("nobody is asked")
}

// The operator raises the limit after it was asked, and it does not heed the signal anyway: nobody stops it, and it is
// asked anew in time.
func TestWhoseTimeLimitIsRaisedAfterItWasAskedIsNotStopped(t *testing.T) {
	w := gentle(t, 1, true)
	id := w.submit(1, model("gnmt"), withLimit(10*time.Minute), forAges, hangs)
	w.pass(5 * time.Minute)
	w.untilAsked()
	w.slurm.Modify(id, func(s *slurmtest.Spec) { s.TimeLimit = time.Hour })
	w.pass(20 * time.Minute)
	if j := w.job(id); j.State != slurm.Running || j.Restarts != 0 {
		t.Errorf("%s after %d restarts", j.State, j.Restarts)
	}
	if !w.record(id).Asked.IsZero() {
		t.Error("it still counts as asked")
	}
}

// A newcomer's turn comes while it saves: it is one victim, asked once.
func TestAVictimThatWasAskedForItsTimeLimitIsNotAskedAgain(t *testing.T) {
	w := gentle(t, 1, true)
	w.runner.Settings.Policy = policy.LAS()
	id := w.submit(1, model("gnmt"), withLimit(640*time.Second), forAges, saves(20*time.Second))
	w.pass(10 * time.Minute)
	if n := w.line.Count(slurmtest.Signal); n != 1 {
		t.Fatalf("signalled %d times before the newcomer came, want once", n)
	}
	newcomer := w.submit(1, model("gnmt"), forAges)
	w.round()
	w.mustRun(newcomer, "n1", 1)
	if n := w.line.Count(slurmtest.Signal); n != 1 || w.job(id).Restarts != 1 {
		t.Errorf("signalled %d times, %d restarts", n, w.job(id).Restarts)
	}
}

// The daemon dies in every call of the round that asks, and of the one that stops who did not heed it, before and after
// its effect. Another one comes a second later, and holds a round first.
func TestDyingWhileAskingBeforeATimeLimitLosesNothing(t *testing.T) {
	for name, heeds := range map[string]slurmtest.Reaction{"heeds": slurmtest.Saves, "ignores": slurmtest.Hangs} {
		for _, moment := range []slurmtest.Moment{slurmtest.Before, slurmtest.After} {
			for n := 1; ; n++ {
				died := true
				t.Run(fmt.Sprintf("who %s it, %s call %d", name, moment, n),
					func(t *testing.T) { died = dieAsking(t, heeds, n, moment) })
				if !died {
					break
				}
			}
		}
	}
}

func dieAsking(t *testing.T, heeds slurmtest.Reaction, n int, moment slurmtest.Moment) bool {
	w := gentle(t, 1, true)
	id := w.submit(1, model("gnmt"), withLimit(10*time.Minute), length(15*time.Minute), func(s *slurmtest.Spec) {
		s.Work.OnSignal, s.Work.OnTerm = heeds, slurmtest.Saves // who ignores the signal saves when he is stopped
	})
	w.rounds(1)
	o := w.daemon(w.book, 0, "", nil, false)
	o.intact = true
	w.round() // the first of its process
	w.sleep(w.job(id).Started.Add(10*time.Minute - 44*time.Second).Sub(w.clock.Now()))
	o.calls, o.dies, o.moment = 0, n, moment
	died := false
	// until it was asked, came back, and was stopped who ignores it
	for _, wait := range []time.Duration{1, 2, 1, 26, 1, 2, 1} {
		_, _, err := w.runner.SmallRound(ctx)
		if died = err != nil; died {
			break
		}
		w.sleep(wait * time.Second)
	}
	w.sleep(time.Second)
	w.start(nil)
	w.pass(25 * time.Minute)
	w.mustHaveCompleted([]int{id})
	w.mustKeepAll(id)
	if past, _ := w.slurm.History(id); past.Restarts != 1 {
		t.Errorf("%d restarts", past.Restarts)
	}
	return died
}

// The daemon is restarted while a job that was asked saves, and gives it all of its grace again: that would end after
// the limit.
func TestWhoseGraceWouldOutlastItsTimeLimitIsStoppedBeforeThat(t *testing.T) {
	w := gentle(t, 1, true)
	id := w.submit(1, model("gnmt"), withLimit(10*time.Minute), forAges, hangs)
	w.pass(5 * time.Minute)
	w.untilAsked()
	w.sleep(25 * time.Second)
	w.start(nil)
	w.pass(30 * time.Second)
	if j := w.job(id); j.State == slurm.Finished || j.Restarts != 1 {
		t.Errorf("%s after %d restarts: its limit has ended it", j.State, j.Restarts)
	}
	if ran := w.ranBeforeStop(id)[0]; ran < 10*time.Minute-8*time.Second {
		t.Errorf("it was stopped after %s, and could have gone on saving", ran)
	}
}

// Where they are held too seldom to be in time for it a small round leaves time limits to rounds, which wait for whom
// they ask.
func TestASmallRoundThatIsHeldSeldomAsksNobody(t *testing.T) {
	w := gentle(t, 1, false)
	w.submit(1, model("gnmt"), withLimit(20*time.Minute), forAges)
	w.rounds(1)
	for range 3 * 60 {
		w.sleep(5 * time.Second)
		if report, held := w.small(); held {
			t.Fatalf("held for %+v", report.Steps)
		}
	}
}
