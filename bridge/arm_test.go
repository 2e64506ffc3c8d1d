package bridge_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// others submits jobs without our directive, which Slurm may start at any time.
func (w *world) others(n, gpus int, length time.Duration) (ids []int) {
	for range n {
		ids = append(ids, w.submit(gpus, "mine", func(s *slurmtest.Spec) { s.Lease, s.Work.Length = 0, length }))
	}
	return ids
}

// started is when a job first ran; zero: it has not.
func (w *world) started(id int) time.Time {
	past, _ := w.slurm.History(id)
	if len(past.Runs) == 0 {
		return time.Time{}
	}
	return past.Runs[0].Start
}

// Every place is taken by jobs of others when four large ones of ours come, and after these two dozen of others again.
// Slurm takes jobs in the order in which they came, so ours are to run before those that came later.
func TestJobsOfOthersThatComeLaterDoNotOvertakeOnesWhoseTurnIsNext(t *testing.T) {
	for _, c := range []struct {
		ahead     int
		overtaken bool
	}{{0, true}, {4, false}} {
		t.Run(fmt.Sprintf("%d ahead", c.ahead), func(t *testing.T) {
			w := newWorld(t, 4, server)
			w.runner.Settings.Ahead, w.runner.Settings.Round = c.ahead, time.Minute
			w.others(4, 8, 3*time.Minute)
			w.sleep(time.Second)
			var ours []int
			for range 4 {
				ours = append(ours, w.submit(8, model("gnmt"), length(10*time.Minute)))
			}
			later := w.others(24, 8, 3*time.Minute)
			for range 10 {
				w.rounds(1)
			}
			last, first := w.started(ours[3]), w.started(later[0])
			if overtaken := !first.IsZero() && (last.IsZero() || last.After(first)); overtaken != c.overtaken {
				t.Errorf("the last of ours started at %s, the first of theirs at %s: overtaken %v", last, first,
					overtaken)
			}
		})
	}
}

func TestAnArmedJobRunsTheMomentThatItsSizeIsFreeAndIsLeftAlone(t *testing.T) {
	w := newWorld(t, 1, server)
	w.runner.Settings.Ahead = 2
	first := w.submit(8, model("res50"), forAges)
	w.rounds(1)
	next := w.submit(1, model("res18"), forAges)
	w.rounds(1)
	if j := w.job(next); j.Begin.After(w.clock.Now()) || j.Request.CPUs != 9 || len(j.Request.Pin) > 0 {
		t.Fatalf("job %d may begin at %s with %+v: want it eligible anywhere with nine cores", next, j.Begin, j.Request)
	}
	calls := len(w.line.Calls())
	w.slurm.Cancel(first)
	w.sleep(2 * time.Second)
	w.mustRun(next, "n1", 9)
	if n := len(w.line.Calls()) - calls; n > 1 { // mustRun looks by itself
		t.Errorf("%d calls of ours until it ran", n)
	}
	w.rounds(3)
	if past, _ := w.slurm.History(next); len(past.Runs) != 1 {
		t.Errorf("%d runs, want it left alone", len(past.Runs))
	}
}

func TestAnArmedJobIsStartedWithLessWhereLessComesFree(t *testing.T) {
	w := newWorld(t, 1, server)
	w.runner.Settings.Ahead = 2
	first := w.submit(4, model("gnmt"), forAges)
	w.others(1, 4, ages)
	w.rounds(1)
	next := w.submit(4, model("alexnet"), forAges)
	w.rounds(1)
	armed := w.job(next).Request.CPUs
	hog := w.submit(1, "mine", func(s *slurmtest.Spec) {
		s.Lease, s.Request.CPUsPerTask, s.Request.GPUs, s.Work.Length = 0, 8, 0, ages
		s.Request.GRES = ""
	})
	w.slurm.Cancel(first)
	w.sleep(2 * time.Second)
	if j := w.job(next); j.State == slurm.Running {
		t.Fatalf("it runs with %s beside job %d: nothing is shown", j.Runs.PerNode, hog)
	}
	w.small()
	if j := w.job(next); j.State != slurm.Running || j.Runs.PerNode.CPUs >= armed {
		t.Errorf("%s with %s, armed with %d cores; want it running with fewer", j.State, j.Runs.PerNode, armed)
	}
}

// The newcomer takes the victim's place, and neither another armed job of ours nor anybody else does while it is empty.
func TestOnlyWhoIsToHaveItIsEligibleForWhatAVictimLeaves(t *testing.T) {
	w := newWorld(t, 1, oneGPU)
	w.runner.Settings.Policy, w.runner.Settings.Ahead = policy.LAS(), 4
	victim := w.submit(1, model("gnmt"), forAges)
	w.rounds(1)
	w.rounds(4) // it has had more than the others will
	var waiting []int
	for range 3 {
		waiting = append(waiting, w.submit(1, model("gnmt"), forAges))
	}
	w.start(func(c slurmtest.Call, at slurmtest.Moment) error {
		if c.Verb == slurmtest.Signal && at == slurmtest.Before {
			for _, id := range waiting {
				j := w.job(id)
				eligible, planned := j.State == slurm.Pending && !j.Begin.After(w.clock.Now()), w.meant(id)
				if eligible && (planned == nil || j.Request.CPUs != planned.PerNode.CPUs) {
					t.Errorf(
						"job %d is eligible with %d cores while job %d is asked to leave",
						id,
						j.Request.CPUs,
						c.Job,
					)
				}
				if planned != nil && !eligible {
					t.Errorf("job %d, which is to have the place of job %d, is not eligible", id, c.Job)
				}
			}
		}
		return nil
	})
	w.rounds(3)
	if past, _ := w.slurm.History(victim); len(past.Runs) < 1 || past.Restarts == 0 {
		t.Errorf("nobody was stopped: nothing is shown")
	}
}

func TestNobodyIsStoppedForAPlaceThatOthersCouldTake(t *testing.T) {
	w := newWorld(t, 1, oneGPU)
	first, _ := challenge(w, model("gnmt"))
	others := w.others(1, 1, ages)
	w.sleep(time.Second)
	w.rounds(4)
	if n := w.line.Count(slurmtest.Signal) + w.line.Count(slurmtest.Requeue); n > 0 {
		t.Errorf("job %d was stopped %d times beside job %d, which would have had its place", first, n, others[0])
	}
	w.slurm.Cancel(others[0])
	w.rounds(1)
	if n := w.line.Count(slurmtest.Signal); n != 1 {
		t.Errorf("%d victims when nobody else waits, want one", n)
	}
}

// Somebody's jobs that ignore SIGTERM keep the node COMPLETING: what is freed there would not be given to anybody for a
// while.
func TestNobodyIsStoppedOnANodeWhereJobsOfOthersAreTornDown(t *testing.T) {
	w := newWorld(t, 1, small)
	w.runner.Settings.Policy = policy.LAS()
	w.submit(3, model("gnmt"), forAges)
	deaf := w.submit(
		1,
		"mine",
		func(s *slurmtest.Spec) { s.Lease, s.Work.OnTerm, s.Work.Length = 0, slurmtest.Hangs, ages },
	)
	w.rounds(2)
	w.submit(3, model("gnmt"), forAges)
	w.slurm.Cancel(deaf)
	w.sleep(time.Second)
	w.round()
	if n := w.line.Count(slurmtest.Signal); n > 0 {
		t.Errorf("%d victims on a node that is COMPLETING for somebody else", n)
	}
	w.sleep(time.Minute)
	w.round()
	if n := w.line.Count(slurmtest.Signal); n != 1 {
		t.Errorf("%d victims when the node is through, want one", n)
	}
}

func TestWithoutTheDaemonArmedJobsRunAndAReleaseTakesTheirSizesBack(t *testing.T) {
	w := newWorld(t, 1, server)
	w.runner.Settings.Ahead = 4
	first := w.submit(8, model("res50"), forAges)
	w.rounds(1)
	var waiting []int
	for range 8 {
		waiting = append(waiting, w.submit(1, model("res18"), forAges))
	}
	w.rounds(1)
	if n := len(w.slurm.Altered()); n != 4 {
		t.Fatalf("%d jobs are armed, want 4", n)
	}
	settings := w.runner.Settings
	w.mustRelease()
	w.mustBeSlurms(waiting...)
	w.runner.Settings = settings
	w.start(nil)
	w.rounds(1)
	w.line.Die()
	w.slurm.Cancel(first)
	w.sleep(20 * time.Minute)
	running := 0
	for _, id := range waiting {
		switch j := w.job(id); {
		case j.State == slurm.Running:
			running++
		case j.Reason != "Resources" && j.Reason != "Priority": // nine cores for each of the first four
			t.Errorf("job %d waits for %s twenty minutes after the daemon has died", id, j.Reason)
		}
	}
	if running != 6 {
		t.Errorf("%d run on 24 cores, want two of the four that were next with nine each, and four with their own one",
			running)
	}
}

// Slurm has its reasons not to start a job where the plan would. It keeps its place in Slurm's queue all the same.
func TestAJobWhoseStartsFailStaysEligible(t *testing.T) {
	w := newWorld(t, 1, server)
	w.runner.Settings.Ahead = 4
	id := w.submit(1, model("res18"), forAges)
	w.start(func(c slurmtest.Call, at slurmtest.Moment) error {
		if len(c.Update.Request.Pin) > 0 && at == slurmtest.Before {
			w.slurm.Drain("n1")
		}
		return nil
	})
	w.rounds(1)
	w.slurm.Resume("n1")
	w.rounds(1)
	if r := w.record(id); r.Failed != 2 {
		t.Fatalf("%d starts have failed, want 2", r.Failed)
	}
	w.runner.Settings.Round = 10 * time.Minute // it is not started by us for so long
	w.rounds(1)
	if j := w.job(id); j.Begin.After(w.clock.Now()) || len(j.Request.Pin) > 0 {
		t.Errorf("it may not begin before %s, with %+v: want it eligible", j.Begin, j.Request)
	}
	w.slurm.Resume("n1")
	w.sleep(2 * time.Second)
	w.mustRun(id, "n1", 9)
}

// Jobs that wait for a node that is drained could not run if there were room: they take nobody's place among those that
// are next.
func TestAQueueForADrainedNodeTakesNobodysPlaceAhead(t *testing.T) {
	w := newWorld(t, 2, server)
	w.runner.Settings.Ahead = 2
	w.submit(8, model("res50"), forAges, pinned("n1"))
	w.rounds(1)
	w.slurm.Drain("n2")
	for range 6 {
		w.submit(1, model("gnmt"), forAges, pinned("n2"))
	}
	id := w.submit(1, model("gnmt"), forAges)
	w.rounds(1)
	if j := w.job(id); j.Begin.After(w.clock.Now()) {
		t.Errorf("it may not begin before %s: behind six jobs for a node that is drained it is not armed", j.Begin)
	}
}
