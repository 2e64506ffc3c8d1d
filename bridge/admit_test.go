package bridge_test

import (
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
	"github.com/synergy-slurmd/synergy-slurmd/limits"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// lingers saves for minutes, and declares as much.
const lingers = "synergy-profile=gnmt.json synergy-checkpoint=USR1@280"

// aWait is a world whose next round stops the first job, on n1, for the second, and waits minutes for it. When the
// first has been asked, the rest happens.
func aWait(t *testing.T, nodes int, prepare func(w *world), meanwhile func(w *world)) (w *world, first, second int) {
	t.Helper()
	w = newWorld(t, nodes, oneGPU)
	w.runner.Settings.Policy, w.runner.Settings.Watched = policy.LAS(), true
	first = w.submit(1, lingers, forAges, saves(200*time.Second), pinned("n1"))
	if prepare != nil {
		prepare(w)
	}
	w.rounds(2)
	second = w.submit(1, model("gnmt"), forAges, pinned("n1"))
	w.meanwhile(first, meanwhile)
	return w, first, second
}

// meanwhile lets things happen once the job has been asked to leave.
func (w *world) meanwhile(asked int, what func(w *world)) {
	cache, watched := w.runner.Limits, w.runner.Settings
	w.start(upon(slurmtest.Signal, asked, slurmtest.After, func() error { what(w); return nil }))
	w.runner.Limits, w.runner.Settings = cache, watched
}

// mustStartWithin checks how long a job that had come or could start at a moment waited from then on.
func (w *world) mustStartWithin(id int, since time.Time, most time.Duration) {
	w.t.Helper()
	j := w.job(id)
	if j.State != slurm.Running || j.Started.Sub(since) > most {
		w.t.Errorf("job %d is %s, started %s after it could; want it to run after %s at most", id, j.State,
			j.Started.Sub(since), most)
	}
}

func TestWhoComesWhileARoundWaitsForAVictimStartsWithinSeconds(t *testing.T) {
	var newcomer int
	var came time.Time
	w, _, second := aWait(t, 2, nil, func(w *world) {
		newcomer, came = w.submit(1, model("gnmt"), forAges), w.clock.Now()
	})
	report := w.round()
	w.mustStartWithin(newcomer, came, 5*time.Second)
	w.mustRun(newcomer, "n2", 1)
	w.mustRun(second, "n1", 1)
	if took := w.clock.Now().Sub(came); took < 200*time.Second {
		t.Fatalf("the round was over after %s and waited for nobody", took)
	}
	if s := step(t, report, newcomer, bridge.Start); s.Error != "" || len(s.Changes) == 0 {
		t.Errorf("the report says of its start: %+v", s)
	}
	if w.record(newcomer).Starts != 1 {
		t.Error("its start is in no record")
	}
}

func TestWhatComesFreeWhileARoundWaitsIsGivenToWhoWaited(t *testing.T) {
	var other, waiting int
	var free time.Time
	w, _, _ := aWait(t, 2, func(w *world) {
		other = w.submit(1, "", forAges, pinned("n2"), func(s *slurmtest.Spec) { s.Lease = 0 })
	}, func(w *world) { w.slurm.Cancel(other); free = w.clock.Now() })
	waiting = w.submit(1, model("gnmt"), forAges, pinned("n2"))
	w.round()
	w.mustStartWithin(waiting, free, 6*time.Second) // what ended is torn down first
	w.sleep(time.Minute)
	w.mustRun(waiting, "n2", 1) // and what it was still to be told did not take it back
}

// The newcomer could run on the place that is being freed, and on the one that is free and waits for the rest of a
// gang.
func TestNobodyTakesWhatARoundFreesForAnother(t *testing.T) {
	w := newWorld(t, 2, oneGPU)
	w.runner.Settings.Policy, w.runner.Settings.Watched = policy.LAS(), true
	first := w.submit(1, lingers, forAges, saves(200*time.Second), pinned("n1"))
	w.rounds(2)
	gang := w.submit(2, model("gnmt"), forAges, func(s *slurmtest.Spec) { s.Request.Nodes, s.Request.Tasks = 2, 2 })
	var newcomer int
	w.meanwhile(first, func(w *world) { newcomer = w.submit(1, model("gnmt"), forAges) })
	report := w.round()
	step(t, report, first, bridge.Preempt)
	w.mustRun(gang, "n1+n2", 1)
	if j := w.job(newcomer); j.State != slurm.Pending {
		t.Errorf("the newcomer is %s on %v", j.State, j.Runs.Nodes)
	}
	w.mustBeAsSubmitted()
}

// What a start that waits for its place is to hold of a limit is spoken for, too: else Slurm would refuse it, and its
// victim was stopped for nothing.
func TestNobodyUsesALimitUpThatAStartIsAboutToUse(t *testing.T) {
	w := newWorld(t, 4, oneGPU)
	w.runner.Settings.Policy, w.runner.Settings.Watched = policy.LAS(), true
	site := limits.Site{Enforced: true, Associations: []limits.Association{{Account: "ml", Limits: []limits.Limit{
		{Kind: limits.GrpTRES, TRES: "gres/gpu", Most: 3},
	}}}}
	w.runner.Limits = &bridge.LimitsCache{Source: &accounting{site: site}}
	first := w.submit(1, lingers, forAges, saves(200*time.Second), pinned("n1"))
	w.rounds(2)
	gang := w.submit(2, model("gnmt"), forAges, func(s *slurmtest.Spec) {
		s.Request.Nodes, s.Request.Tasks, s.Request.Pin = 2, 2, []string{"n1", "n2"}
	})
	var newcomers []int
	w.meanwhile(first, func(w *world) {
		newcomers = []int{w.submit(1, model("gnmt"), forAges), w.submit(1, model("gnmt"), forAges)}
	})
	w.runner.Slurm = ml{w.runner.Slurm}
	w.round()
	w.mustRun(gang, "n1+n2", 1)
	if len(newcomers) == 0 {
		t.Fatal("the round stopped nobody")
	}
	if a, b := w.job(newcomers[0]), w.job(newcomers[1]); a.State == slurm.Running && b.State == slurm.Running {
		t.Error("the account runs 4 GPUs and may hold 3")
	}
}

// Their starts do not come about for a long time: the round waits for them, and takes up no more, or it would never arm
// anybody.
func TestARoundThatWaitsForNewcomersAloneAdmitsNoMore(t *testing.T) {
	w := newWorld(t, 20, oneGPU)
	w.slurm = slurmtest.New(w.clock, slurmtest.Options{Nodes: slurmtest.Rack(20, oneGPU, "gpu"),
		SchedulerDelay: 3 * time.Second})
	w.runner.Settings.Watched = true
	own := w.submit(1, model("gnmt"), forAges)
	next := w.clock.Now().Add(time.Second) // the round has been planned
	w.start(func(c slurmtest.Call, at slurmtest.Moment) error {
		switch {
		case c.Verb == slurmtest.Observe && at == slurmtest.Before && !w.clock.Now().Before(next):
			w.submit(1, model("gnmt"), forAges)
			next = w.clock.Now().Add(2 * time.Second)
		case at == slurmtest.Before && c.Job != own && len(c.Update.Request.Pin) > 0:
			w.slurm.Drain(c.Update.Request.Pin[0])
		}
		return nil
	})
	starts := 0
	for _, s := range w.round().Steps {
		if s.Verb == bridge.Start {
			starts++
		}
	}
	if starts < 2 || starts > 4 {
		t.Errorf("%d starts; want its own, and those of who came in the three seconds that it took", starts)
	}
}

// A world without small rounds has asked for none of this.
func TestARoundOfAWorldWithoutSmallRoundsAdmitsNobody(t *testing.T) {
	var newcomer int
	w, _, _ := aWait(t, 2, nil, func(w *world) { newcomer = w.submit(1, model("gnmt"), forAges) })
	w.runner.Settings.Watched = false
	w.round()
	if j := w.job(newcomer); j.State != slurm.Pending {
		t.Errorf("the newcomer is %s", j.State)
	}
}

// Whoever comes next waits for the end of the small round before it is seen.
func TestASmallRoundIsOverAsSoonAsItsStartHasComeAbout(t *testing.T) {
	w := newWorld(t, 1, server)
	w.rounds(1)
	w.submit(1, model("res18"), forAges)
	began := w.clock.Now()
	if _, held := w.small(); !held {
		t.Fatal("no small round was held")
	}
	if took := w.clock.Now().Sub(began); took > 300*time.Millisecond {
		t.Errorf("it took %s, and the job ran after a millisecond", took)
	}
}

// Where every look takes long there is no sooner one: slurmrestd would do little else.
func TestLooksThatTakeLongDoNotFollowSooner(t *testing.T) {
	w := newWorld(t, 1, server)
	w.rounds(1)
	w.start(func(c slurmtest.Call, at slurmtest.Moment) error {
		if c.Verb == slurmtest.Observe && at == slurmtest.Before {
			w.sleep(200 * time.Millisecond)
		}
		return nil
	})
	w.round()
	looks := w.line.Count(slurmtest.Observe)
	began := w.clock.Now()
	id := w.submit(1, model("res18"), forAges)
	w.round()
	w.mustRun(id, "n1", 9)
	if n := w.line.Count(slurmtest.Observe) - looks; n > 2 {
		t.Errorf("%d looks in a round that took %s", n, w.clock.Now().Sub(began))
	}
}

// A loan on one node is called back while the round waits for a job on another one that saves for minutes.
func TestALoanIsCalledBackWhileARoundWaitsForAVictim(t *testing.T) {
	w := newSite(
		t,
		append(slurmtest.Rack(1, oneGPU, "gpu"), slurm.Node{Name: "n2", Total: server, Partitions: []string{"gpu"}}),
	)
	w.runner.Settings.Policy, w.runner.Settings.Watched = policy.LAS(), true
	first := w.submit(1, lingers, forAges, saves(200*time.Second), pinned("n1"))
	lent := w.submit(4, model("res18"), forAges, saves(2*time.Second), pinned("n2"))
	w.rounds(2)
	w.mustRun(lent, "n2", 24)
	w.submit(1, model("gnmt"), forAges, pinned("n1"))
	var came time.Time
	var stranger int
	w.meanwhile(first, func(w *world) {
		stranger, came = w.submit(2, "", forAges, pinned("n2"), func(s *slurmtest.Spec) {
			s.Lease, s.Request.CPUsPerTask, s.Request.CPUs = 0, 6, 6
		}), w.clock.Now()
	})
	w.round()
	if stranger == 0 {
		t.Fatal("nobody was asked to leave n1")
	}
	w.mustStartWithin(stranger, came, 20*time.Second)
	if took := w.clock.Now().Sub(came); took < 200*time.Second {
		t.Fatalf("the round was over after %s and waited for nobody", took)
	}
	w.mustRun(lent, "n2", 12)
	w.mustKeepAll(lent)
}
