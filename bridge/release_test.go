package bridge_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
	"github.com/synergy-slurmd/synergy-slurmd/ledger"
)

// release hands everything back, with a process of its own.
func (w *world) release(fault slurmtest.Fault) (bridge.Report, error) {
	w.line = slurmtest.NewLine(w.slurm, w.clock, fault)
	// nobody may ask for a profile
	w.runner = &bridge.Runner{Slurm: w.line, Ledger: w.book, Clock: w.line, Settings: w.runner.Settings}
	if onLeaseJob {
		w.runner.Leases = w.line.Leases()
	}
	return w.runner.Release(ctx)
}

func (w *world) mustRelease() bridge.Report {
	w.t.Helper()
	report, err := w.release(nil)
	if err != nil {
		w.t.Fatalf("release: %v", err)
	}
	for _, s := range report.Steps {
		if s.Error != "" {
			w.t.Errorf("job %d: %s", s.Job, s.Error)
		}
	}
	return report
}

// mustBeSlurms holds that every job waits as its user submitted it, and for nothing but its turn.
func (w *world) mustBeSlurms(ids ...int) {
	w.t.Helper()
	w.mustBeAsSubmitted()
	for _, id := range ids {
		j := w.job(id)
		if j.State == slurm.Pending && !j.Completing && (j.Begin.After(w.clock.Now()) ||
			!strings.Contains(j.Extra, "handed back to Slurm")) {
			w.t.Errorf("job %d may not begin before %s, it is %s; %s", id, j.Begin, w.clock.Now(), j.Extra)
		}
	}
}

func TestAReleaseHandsEveryWaitingJobBackAndTouchesNoneThatRuns(t *testing.T) {
	for _, ago := range []time.Duration{0, time.Hour} { // that the daemon has died
		t.Run(ago.String(), func(t *testing.T) { releaseAll(t, ago) })
	}
}

func releaseAll(t *testing.T, ago time.Duration) {
	w := newWorld(t, 2, server)
	var running, waiting []int
	for range 2 {
		running = append(running, w.submit(8, model("res50")))
	}
	for k := range 60 {
		waiting = append(waiting, w.submit(1+k%8, model([]string{"res18", "gnmt", "lstm"}[k%3])))
	}
	w.rounds(2)
	w.sleep(ago)
	var before []string
	for _, id := range running {
		before = append(before, fmt.Sprint(w.job(id)))
	}
	report := w.mustRelease()
	w.mustBeSlurms(waiting...)
	for k, id := range running {
		if after := fmt.Sprint(w.job(id)); after != before[k] {
			t.Errorf("job %d runs and went from\n%s to\n%s", id, before[k], after)
		}
	}
	if len(report.Steps) != 60 || w.line.Count(slurmtest.Update) != 60 ||
		w.line.Count(slurmtest.Signal)+w.line.Count(slurmtest.Requeue) != 0 {
		t.Errorf("%d steps, calls %v; want one update for each of 60", len(report.Steps), len(w.line.Calls()))
	}
	w.mustRelease()
	if calls := w.line.Calls(); len(calls) != 1 {
		t.Errorf("a second release makes %d calls, want the one look", len(calls))
	}
	for _, id := range running {
		w.slurm.Cancel(id)
	}
	w.sleep(time.Minute)
	if left := w.slurm.Active(); left != 60 {
		t.Errorf("%d jobs are left of 60", left)
	}
	started := 0
	for _, id := range waiting {
		if w.job(id).State == slurm.Running {
			started++
		}
	}
	if started < 4 {
		t.Errorf("Slurm has started %d jobs on 16 GPUs a minute after", started)
	}
}

// TestAReleaseThatDiesAnywhereIsMadeGoodByTheNextOne lets a daemon die at every fifth call of an eventful round, a
// release at every call after that, and says it again; with the ledger and without. A daemon that is started afterwards
// then runs the cluster empty.
func TestAReleaseThatDiesAnywhereIsMadeGoodByTheNextOne(t *testing.T) {
	for _, lost := range []bool{false, true} {
		for n := 1; n < 30; n += 5 {
			for m := 1; ; m++ {
				died := true
				t.Run(fmt.Sprintf("ledger lost %v, round dies at call %d, release at %d", lost, n, m),
					func(t *testing.T) {
						died = releaseTwice(t, lost, n, m)
					})
				if !died {
					break
				}
			}
		}
	}
}

func releaseTwice(t *testing.T, ledgerLost bool, n, m int) (died bool) {
	w := newWorld(t, 2, small)
	ids := stage(w)
	w.start(fragile(w, slurmtest.DieAt(n, slurmtest.After)))
	if _, err := w.runner.Round(ctx); err != nil && !errors.Is(err, slurmtest.ErrDied) {
		t.Fatalf("round: %v", err)
	}
	if ledgerLost {
		w.book = &ledger.Memory{}
	}
	_, err := w.release(slurmtest.DieAt(m, slurmtest.After))
	if err != nil && !errors.Is(err, slurmtest.ErrDied) {
		t.Fatalf("release: %v", err)
	}
	w.mustRelease()
	w.mustBeSlurms(ids...)
	w.slurm.Resume("n2")
	w.start(nil)
	for k := 0; w.slurm.Active() > 0; k++ {
		if k > 60 {
			t.Fatalf("jobs left after %d rounds", k)
		}
		w.rounds(1)
	}
	w.mustHaveCompleted(ids)
	w.mustKeepAll(ids...)
	return errors.Is(err, slurmtest.ErrDied)
}

func TestADaemonThatIsStartedAfterAReleaseTakesTheJobsUpAgain(t *testing.T) {
	w := newWorld(t, 1, oneGPU)
	first := w.submit(1, model("res18"), length(2*time.Hour))
	second := w.submit(1, model("gnmt"), length(10*time.Minute))
	w.rounds(2)
	w.mustRelease()
	w.start(nil)
	w.rounds(1)
	if left := w.job(second).Begin.Sub(w.clock.Now()); left < 8*time.Minute {
		t.Errorf("a lease of %s, it is 15 minutes, and a round is 5", left)
	}
	w.slurm.Cancel(first)
	w.sleep(time.Minute)
	w.rounds(1)
	w.mustRun(second, "n1", 1)
}

func TestAReleaseKeepsHeldJobsAndLaterBeginTimesAndOtherPartitions(t *testing.T) {
	w := newWorld(t, 1, server)
	later := w.clock.Now().Add(8 * time.Hour)
	held := w.submit(1, model("res18"), func(s *slurmtest.Spec) { s.Held = true })
	tomorrow := w.submit(1, model("res18"), func(s *slurmtest.Spec) { s.Begin = later })
	other := w.submit(1, model("res18"), func(s *slurmtest.Spec) { s.Partition, s.Lease, s.Begin = "other", 0, later })
	w.rounds(2)
	before := []string{fmt.Sprint(w.job(held)), fmt.Sprint(w.job(other))}
	report := w.mustRelease()
	after := []string{fmt.Sprint(w.job(held)), fmt.Sprint(w.job(other))}
	if strings.Join(before, "\n") != strings.Join(after, "\n") {
		t.Errorf("went from\n%s to\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
	}
	if begin := w.job(tomorrow).Begin; !begin.Equal(later) {
		t.Errorf("begins at %s, its user said %s", begin, later)
	}
	if w.mustRelease(); len(w.line.Calls()) != 1 {
		t.Errorf("a second release makes %d calls, want the one look", len(w.line.Calls()))
	}
	if len(report.Outside) != 1 || report.Outside[0].Why != "held" {
		t.Errorf("left alone: %+v, want the held one", report.Outside)
	}
}

// A daemon whose configuration nobody can read any more is known by what its jobs carry.
func TestWithoutPartitionsAJobIsOursByItsAnnotationOrItsRecord(t *testing.T) {
	w := newWorld(t, 1, server)
	w.submit(8, model("res50"))
	gated := w.submit(1, model("res18"))
	w.rounds(1)
	fresh := w.submit(1, model("res18"))
	wordless := w.submit(1, model("res18"))
	w.rounds(1)
	w.slurm.SetComment(wordless, "mine")
	unannotated := w.submit(1, model("res18"), func(s *slurmtest.Spec) {
		s.Partition, s.Lease, s.Begin = "other", 0, w.clock.Now().Add(time.Hour)
	})
	alien := w.submit(1, "mine", func(s *slurmtest.Spec) { s.Lease, s.Begin = 0, w.clock.Now().Add(time.Hour) })
	w.sleep(time.Second) // until Slurm has said why they wait
	before := fmt.Sprint(w.job(unannotated), w.job(alien))
	w.runner.Settings.Partitions = nil
	report := w.mustRelease()
	w.mustBeSlurms(gated, fresh, wordless)
	if after := fmt.Sprint(w.job(unannotated), w.job(alien)); after != before || len(report.Steps) != 3 {
		t.Errorf("%d jobs were handed back; from\n%s to\n%s", len(report.Steps), before, after)
	}
}

// A job that was asked to save is waited for: Slurm would put it back with the size and the pin of the run that it
// ends.
func TestAReleaseWaitsForJobsThatWereAskedToLeave(t *testing.T) {
	for _, dies := range []bool{false, true} {
		w := newWorld(t, 1, oneGPU)
		first, second := challenge(w, model("gnmt"), saves(10*time.Second))
		w.start(func(c slurmtest.Call, at slurmtest.Moment) error {
			switch {
			case dies && c.Verb == slurmtest.Signal && at == slurmtest.After:
				return slurmtest.ErrDied
			case c.Verb == slurmtest.Observe && w.line.Count(slurmtest.Signal) > 0:
				return slurm.ErrUnreachable // the round settles, with its record
			}
			return nil
		})
		if _, err := w.runner.Round(ctx); err == nil {
			t.Fatal("the round was to end early")
		}
		if state := w.job(first).State; state != slurm.Running {
			t.Fatalf("the victim is %s", state)
		}
		began := w.clock.Now()
		w.mustRelease()
		if j := w.job(first); j.State != slurm.Pending && j.Restarts != 1 {
			t.Errorf("dies %v: the victim is %s, restarted %d times", dies, j.State, j.Restarts)
		}
		w.mustBeSlurms(first, second)
		if took := w.clock.Now().Sub(began); took > 20*time.Second {
			t.Errorf("dies %v: took %s for one that saves in 10 s", dies, took)
		}
		w.sleep(3 * time.Hour)
		w.mustKeepAll(first)
	}
}

func TestAReleaseDoesNotWaitForeverForAJobThatDoesNotLeave(t *testing.T) {
	w := newWorld(t, 1, oneGPU)
	first, _ := challenge(w, model("gnmt"), func(s *slurmtest.Spec) { s.Work.OnSignal = slurmtest.Hangs })
	w.start(upon(slurmtest.Signal, first, slurmtest.After, func() error { return slurmtest.ErrDied }))
	_, _ = w.runner.Round(ctx)
	began := w.clock.Now()
	report := w.mustRelease()
	if took := w.clock.Now().Sub(began); took < 25*time.Second || took > 35*time.Second {
		t.Errorf("took %s, want half a minute", took)
	}
	if len(report.Notes) != 1 || report.Notes[0].Job != first {
		t.Errorf("tells of %+v, want job %d", report.Notes, first)
	}
}

func TestOneJobThatSlurmRefusesToTakeBackKeepsNoOtherBack(t *testing.T) {
	w := newWorld(t, 1, server)
	w.submit(8, model("res50"))
	refused, fine := w.submit(1, model("res18")), w.submit(1, model("res18"))
	w.rounds(1)
	report, err := w.release(func(c slurmtest.Call, at slurmtest.Moment) error {
		if c.Job == refused && at == slurmtest.Before {
			return slurm.ErrRefused
		}
		return nil
	})
	if s := step(t, report, refused, bridge.Release); err != nil || s.Error == "" {
		t.Errorf("%v, step %+v", err, s)
	}
	if n := w.line.Count(slurmtest.Update); n != 2 {
		t.Errorf("%d updates, want each job tried once", n)
	}
	w.mustBeSlurms(fine)
}

func TestAReleaseThatIsDeniedOrHearsNothingTriesNoFurther(t *testing.T) {
	for _, fault := range []error{slurm.ErrDenied, slurm.ErrUnreachable} {
		w := newWorld(t, 1, server)
		w.submit(8, model("res50"))
		for range 10 {
			w.submit(1, model("res18"))
		}
		w.rounds(1)
		_, err := w.release(slurmtest.FailAt(3, slurmtest.Before, fault))
		if !errors.Is(err, fault) || len(w.line.Calls()) != 3 {
			t.Errorf("%v after %d calls, want %v after 3", err, len(w.line.Calls()), fault)
		}
		w.mustRelease()
		w.mustBeSlurms(2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
	}
}

func TestAReleaseInTheShadowWritesNothingAndSaysWhatItWould(t *testing.T) {
	w := newWorld(t, 1, server)
	w.submit(8, model("res50"))
	w.submit(1, model("res18"))
	w.rounds(1)
	w.runner.Settings.Shadow = true
	if report := w.mustRelease(); len(report.Steps) != 1 || len(w.line.Calls()) != 1 {
		t.Errorf("%d steps, %d calls", len(report.Steps), len(w.line.Calls()))
	}
}

func TestAReleaseThatCannotReadTheLedgerWritesNothing(t *testing.T) {
	w := newWorld(t, 1, server)
	w.submit(1, model("res18"))
	w.runner.Ledger = broken{Ledger: w.book, load: errors.New("torn")}
	if _, err := w.runner.Release(ctx); err == nil || err.Error() != "read the ledger: torn" ||
		len(w.line.Calls()) != 0 {
		t.Errorf("%v after %d calls", err, len(w.line.Calls()))
	}
}

// What the lua lets pass while it sees no heartbeat has our directive and no annotation.
func TestAJobThatPassedUngatedIsManagedWhenTheDaemonIsBack(t *testing.T) {
	w := newWorld(t, 1, server)
	full := w.submit(8, model("res50"))
	w.rounds(1)
	passed := w.submit(1, model("res18"), func(s *slurmtest.Spec) { s.Lease = 0 })
	w.rounds(1)
	if j := w.job(passed); j.State != slurm.Pending || j.Begin.Sub(w.clock.Now()) < 5*time.Minute {
		t.Errorf("%s until %s, want it waiting with a lease", j.State, j.Begin)
	}
	w.slurm.Cancel(full)
	w.rounds(2)
	w.mustRun(passed, "n1", 9)
}

// An update that fails may have been applied in part: the annotation can say what is not yet so.
func TestAJobThatWasHandedBackInPartIsHandedBackAgain(t *testing.T) {
	w := newWorld(t, 1, server)
	w.submit(8, model("res50"))
	id := w.submit(1, model("res18"))
	w.rounds(1)
	w.mustRelease()
	j := w.job(id)
	j.Request.CPUsPerTask, j.Request.CPUs, j.Request.Pin = 9, 9, []string{"n1"}
	if err := w.slurm.Update(ctx, slurm.Update{Job: id, Begin: j.Begin, Request: j.Request,
		Extra: j.Extra}); err != nil {
		t.Fatal(err)
	}
	w.mustRelease()
	w.mustBeSlurms(id)
}
