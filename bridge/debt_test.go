package bridge_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
)

// mustBeHandedBack checks that the job waits as its user submitted it, and that Slurm may start it.
func (w *world) mustBeHandedBack(id int) {
	w.t.Helper()
	w.mustBeAsSubmitted()
	if j := w.job(id); j.State == slurm.Pending && j.Begin.After(w.clock.Now()) {
		w.t.Errorf("job %d is Slurm's again and may not begin before %s, it is %s", id, j.Begin, w.clock.Now())
	}
	for _, owing := range w.slurm.Owing() {
		if owing == id {
			w.t.Errorf("job %d still carries what it was given: %+v", id, w.job(id).Request)
		}
	}
}

// sized has a job run with a size and a pin of ours on n1, with a neighbour node to go to.
func sized(w *world) int {
	w.t.Helper()
	id := w.submit(1, model("res18"), forAges)
	w.rounds(1)
	if len(w.job(id).Request.Pin) != 1 {
		w.t.Fatalf("job %d was not pinned: %+v", id, w.job(id))
	}
	return id
}

// Each of these takes a job out of management while the daemon cannot, or must not, hand it back yet. Some rounds later
// it is Slurm's again, wherever it was when it left.
func TestAJobThatLeavesManagementIsHandedBackWhateverIsInTheWay(t *testing.T) {
	for _, c := range []struct {
		name  string
		leave func(w *world, id int)
	}{
		{"its comment loses our directive while it runs", func(w *world, id int) { w.slurm.SetComment(id, "mine") }},
		{"its partition is dropped while it runs", func(w *world, _ int) { w.runner.Settings.Partitions = []string{"other"} }},
		{"a shadow round comes between", func(w *world, id int) {
			w.slurm.SetComment(id, "mine")
			w.runner.Settings.Shadow = true
			w.rounds(2)
			w.runner.Settings.Shadow = false
		}},
		{"it is requeued and held, and released two rounds later", func(w *world, id int) {
			w.slurm.SetComment(id, "mine")
			if err := w.slurm.Requeue(ctx, id); err != nil {
				w.t.Fatal(err)
			}
			w.slurm.Hold(id)
			w.rounds(2)
			w.slurm.Release(id)
		}},
		{"the update that hands it back fails once", func(w *world, id int) {
			w.slurm.SetComment(id, "mine")
			w.start(upon(slurmtest.Update, id, slurmtest.Before, func() error { return slurm.ErrRefused }))
		}},
		{"a daemon dies in the update that hands it back, twice", func(w *world, id int) {
			w.slurm.SetComment(id, "mine")
			for range 2 {
				w.start(upon(slurmtest.Update, id, slurmtest.Before, die))
				w.slurm.Down("n1")
				w.slurm.Resume("n1")
				_, _ = w.runner.Round(ctx)
				w.sleep(time.Minute)
			}
			w.start(nil)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 2, server)
			id := sized(w)
			c.leave(w, id)
			w.rounds(2)
			if j := w.job(id); j.State == slurm.Running && len(j.Request.Pin) > 0 {
				w.slurm.Down(j.Runs.Nodes[0])
			}
			w.rounds(2)
			w.mustBeHandedBack(id)
			w.sleep(10 * time.Minute)
			if j := w.job(id); j.State != slurm.Running || j.Runs.PerNode.CPUs != 1 {
				t.Errorf("%s on %v with %s, want Slurm to run it with the core that it asked for", j.State,
					j.Runs.Nodes, j.Runs.PerNode)
			}
			if err := w.forgets(id); err != nil {
				t.Error(err)
			}
		})
	}
}

// forgets runs a round and says whether the ledger has let go of a job that owes nothing any more.
func (w *world) forgets(id int) error {
	w.rounds(1)
	records, _, err := w.book.Load()
	if err == nil && records.Of(id) != nil {
		err = errors.New("its debt is paid and still on record")
	}
	return err
}

// A round may write its first size and die, or fail, before it settles; the job may lose our directive in between.
func TestAJobThatLosesOurWordAfterItsFirstUpdateAndBeforeTheRoundSettlesIsHandedBack(t *testing.T) {
	w := newWorld(t, 1, server)
	id := w.submit(1, model("res18"), forAges)
	w.slurm.Drain("n1") // what is started stays pending
	w.start(func(c slurmtest.Call, at slurmtest.Moment) error {
		if c.Verb == slurmtest.Update && at == slurmtest.After {
			w.slurm.SetComment(id, "mine")
			w.line.Die()
			return slurmtest.ErrDied
		}
		return nil
	})
	w.slurm.Resume("n1")
	if _, err := w.runner.Round(ctx); !errors.Is(err, slurmtest.ErrDied) {
		t.Fatalf("round: %v, want it to die", err)
	}
	w.slurm.Down("n1")
	w.slurm.Resume("n1")
	w.start(nil)
	w.rounds(2)
	w.mustBeHandedBack(id)
}

// A victim that ignored its signal and was kept after all is asked anew when it is picked again, much later.
func TestAVictimThatWasKeptIsAskedAgainBeforeItIsStoppedByForce(t *testing.T) {
	w := newWorld(t, 1, oneGPU)
	first, second := challenge(w, model("gnmt"), hangs)
	w.start(upon(slurmtest.Requeue, first, slurmtest.Before, func() error { return slurm.ErrRefused }))
	w.rounds(1)
	if n := w.line.Count(slurmtest.Signal); n != 1 {
		t.Fatalf("signalled %d times, want once", n)
	}
	w.slurm.Cancel(second)
	w.start(nil)
	w.rounds(15)
	if asked := w.record(first).Asked; !asked.IsZero() {
		t.Errorf("75 minutes later it still counts as asked at %s", asked)
	}
	w.submit(1, model("gnmt"), forAges)
	w.rounds(1)
	if n := w.line.Count(slurmtest.Signal); n != 1 {
		t.Errorf("signalled %d times before it was stopped by force %d times, want once", n,
			w.line.Count(slurmtest.Requeue))
	}
}

// A job that does not come back when it is asked to save is told as lost, once; and when its user requeues it, nobody
// asks it again.
func TestAJobThatDiesOfItsSignalIsToldAsLostOnceAndNeverAskedAgain(t *testing.T) {
	w := newWorld(t, 1, oneGPU)
	first, _ := challenge(w, model("gnmt"), func(s *slurmtest.Spec) { s.Work.OnSignal = slurmtest.Dies })
	var lost []bridge.Loss
	for range 3 {
		lost = append(lost, w.round().Lost...)
		w.sleep(20 * time.Second)
	}
	if len(lost) != 1 || lost[0].Job != first || lost[0].Cause != bridge.NoTrap || lost[0].Profile != "gnmt.json" {
		t.Fatalf("lost %+v, want job %d once, for want of a trap", lost, first)
	}
	if r := w.record(first); r.Lost != bridge.NoTrap {
		t.Errorf("its record says %q", r.Lost)
	}
}

func TestAVictimThatSavesIsNoLoss(t *testing.T) {
	w := newWorld(t, 1, oneGPU)
	challenge(w, model("gnmt"))
	for range 3 {
		if lost := w.round().Lost; len(lost) > 0 {
			t.Errorf("lost %+v", lost)
		}
		w.sleep(20 * time.Second)
	}
}

// slowly is a Slurm whose nodes take long to clean up: until they have, a job that exited with the requeue code is
// shown as failed.
type slowly struct {
	slurm.Manager
	job   int
	looks int // in which it is still being torn down
}

func (s *slowly) Observe(ctx context.Context) (slurm.Observed, error) {
	seen, err := s.Manager.Observe(ctx)
	seen.Jobs = slices.Clone(seen.Jobs)
	for k, j := range seen.Jobs {
		if j.ID == s.job && j.State == slurm.Pending && s.looks > 0 {
			s.looks--
			torn := *j
			torn.State, torn.Completing, torn.End = slurm.Finished, true,
				slurm.End{State: "FAILED", Code: bridge.RequeueExit}
			seen.Jobs[k] = &torn
		}
	}
	return seen, err
}

func TestAVictimWhoseLastRunIsStillTornDownIsNotLost(t *testing.T) {
	for _, looks := range []int{1, 3} {
		w := newWorld(t, 1, oneGPU)
		first, _ := challenge(w, model("gnmt"))
		w.runner.Slurm = &slowly{w.line, first, looks}
		for range 3 {
			if report := w.rounds(1); len(report.Lost) > 0 {
				t.Errorf("seen to be torn down %d times: lost %+v", looks, report.Lost)
			}
		}
		if r := w.record(first); r.Returned != 0 || r.Lost != "" || !r.Asked.IsZero() {
			t.Errorf("seen to be torn down %d times: returned unasked %d times, lost %q, asked %s", looks, r.Returned,
				r.Lost, r.Asked)
		}
	}
}

func TestAHeldJobThatHasLostOurWordIsHandedBackOnlyWhenItIsReleased(t *testing.T) {
	w := newWorld(t, 1, server)
	id := sized(w)
	w.slurm.SetComment(id, "mine")
	if err := w.slurm.Requeue(ctx, id); err != nil {
		t.Fatal(err)
	}
	w.slurm.Hold(id)
	w.sleep(time.Minute)
	if report := w.rounds(1); len(report.Steps) > 0 {
		t.Errorf("%+v: somebody holds it", report.Steps)
	}
	w.slurm.Release(id)
	w.rounds(2)
	w.mustBeHandedBack(id)
}
