package bridge_test

import (
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// meant is what the round under way is about to start a job with; nil: it is not.
func (w *world) meant(id int) *policy.Placement {
	_, intent, _ := w.book.Load()
	if intent == nil {
		return nil
	}
	k := slices.IndexFunc(intent.Steps, func(s bridge.Step) bool { return s.Job == id && s.Verb == bridge.Start })
	if k < 0 {
		return nil
	}
	return intent.Steps[k].Grant
}

// quick has rounds of ten seconds, with small ones between them, and arms jobs.
func (w *world) quick() {
	s := &w.runner.Settings
	s.Round, s.Lease, s.Watched, s.Ahead = 10*time.Second, 30*time.Second, true, 8
}

// A job of four GPUs has grown to all cores of its node when two of two GPUs come, and may be stopped some time later:
// until then they are armed with all that they can use. It is asked once, and both start with their part of what it
// leaves.
func TestAJobThatHoldsAllCoresIsRestartedOnceForBothWhoCome(t *testing.T) {
	for seconds := 0; seconds < 40; seconds += 4 {
		w := newWorld(t, 1, server)
		w.quick()
		w.runner.Settings.Rules.MinRun = time.Duration(seconds) * time.Second
		first := w.submit(4, model("res18"), forAges, saves(time.Duration(seconds%9)*time.Second))
		w.pass(12 * time.Second)
		w.mustRun(first, "n1", 24)
		both := []int{w.submit(2, model("res18"), forAges), w.submit(2, model("res18"), forAges)}
		reports := w.pass(2 * time.Minute)
		w.mustRun(first, "n1", 12)
		for _, id := range both {
			w.mustRun(id, "n1", 6)
		}
		if n := w.job(first).Restarts + w.job(both[0]).Restarts + w.job(both[1]).Restarts; n != 1 {
			t.Errorf("it may be stopped after %d s: %d restarts, want one", seconds, n)
		}
		mustStartAsPlanned(t, reports)
	}
}

// mustStartAsPlanned holds each start to its grant.
func mustStartAsPlanned(t *testing.T, reports []bridge.Report) {
	t.Helper()
	for _, r := range reports {
		for _, s := range r.Steps {
			if s.Got != nil {
				t.Errorf("round %d: job %d was to start with %s and has %s", r.Round, s.Job, s.Grant.PerNode, *s.Got)
			}
		}
	}
}

// TestNothingIsEligibleWithAnotherSizeThanPlannedWhileSomebodyIsAsked over drawn mixes of jobs that come and end: in
// the moment in which a job is asked to leave, whoever could take its place has the size of his grant, or his lease;
// and whatever starts then has it, too.
func TestNothingIsEligibleWithAnotherSizeThanPlannedWhileSomebodyIsAsked(t *testing.T) {
	asked := 0
	for seed := range int64(6) {
		w, draw := newWorld(t, 1+int(seed%3), []gres.Vector{server, small}[seed%2]), rand.New(rand.NewSource(seed))
		w.quick()
		w.runner.Settings.Policy = []policy.Policy{policy.FIFO(), policy.LAS(), policy.SRTF(), policy.Slurm()}[seed%4]
		w.start(func(c slurmtest.Call, at slurmtest.Moment) error {
			if (c.Verb == slurmtest.Signal || c.Verb == slurmtest.Requeue) && at == slurmtest.Before {
				asked++
				w.mustBePlanned(seed, c.Job)
			}
			return nil
		})
		for range 14 {
			w.submit([]int{1, 1, 2, 4}[draw.Intn(4)],
				model([]string{"res18", "gnmt", "alexnet", "res50"}[draw.Intn(4)]),
				length(time.Duration(20+draw.Intn(400))*time.Second), saves(time.Duration(draw.Intn(9))*time.Second))
			mustStartAsPlanned(t, w.pass(time.Duration(draw.Intn(25))*time.Second))
		}
		mustStartAsPlanned(t, w.pass(2*time.Minute))
	}
	if asked < 30 {
		t.Errorf("%d were asked: nothing is shown", asked)
	}
	t.Logf("%d were asked", asked)
}

// mustBePlanned holds all that wait to the plan in the moment in which a job is asked.
func (w *world) mustBePlanned(seed int64, victim int) {
	seen, err := w.slurm.Observe(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, j := range seen.Jobs {
		if j.State != slurm.Pending || w.waits(j) || j.Held || j.ID == victim || j.Completing {
			continue
		}
		if to := w.meant(j.ID); to == nil || j.Request.CPUs != to.PerNode.CPUs*len(to.Nodes) {
			w.t.Errorf("seed %d: job %d is eligible with %d cores while job %d is asked; meant: %v", seed, j.ID,
				j.Request.CPUs, victim, to)
		}
	}
}

// raced has Slurm start an armed job in the moment in which the round writes another size for it.
func raced(w *world, holder *int, job *int) slurmtest.Fault {
	return func(c slurmtest.Call, at slurmtest.Moment) error {
		if c.Verb == slurmtest.Update && c.Job == *job && at == slurmtest.Before && *holder != 0 {
			w.slurm.Cancel(*holder)
			*holder = 0
			w.sleep(5 * time.Second)
		}
		return nil
	}
}

func TestAStartWithAnotherSizeThanPlannedIsTold(t *testing.T) {
	w := newWorld(t, 1, server)
	w.runner.Settings.Ahead = 2
	holder := w.submit(4, model("res50"), forAges)
	other := w.submit(4, model("gnmt"), forAges)
	w.rounds(1)
	next := w.submit(4, model("res18"), forAges)
	w.rounds(1)
	armed := w.job(next).Request.CPUs
	w.slurm.Cancel(other)
	w.sleep(time.Minute)
	w.start(raced(w, &holder, &next))
	report := w.round()
	j := w.job(next)
	if j.State != slurm.Running || j.Runs.PerNode.CPUs != armed {
		t.Fatalf("%s with %s, armed with %d cores: nothing is shown", j.State, j.Runs.PerNode, armed)
	}
	k := slices.IndexFunc(report.Steps, func(s bridge.Step) bool { return s.Job == next })
	if s := report.Steps[k]; s.Got == nil || s.Got.CPUs != armed ||
		!strings.Contains(s.Why, "by itself with gpu=4 cpu=") {
		t.Errorf("the report says of it: %+v", s)
	}
	if n := w.line.Count(slurmtest.Signal); n > 0 {
		t.Errorf("%d were asked for a plan that was none any more", n)
	}
}
