package slurmtest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// site is a cluster of two servers and its clock, whose invariants are checked after every event.
type site struct {
	*testing.T
	*Slurm
	clock *Clock
}

func newSite(t *testing.T, options Options) *site {
	t.Helper()
	if options.Nodes == nil {
		options.Nodes = Rack(2, gres.Vector{GPUs: 8, CPUs: 24, Memory: 500 * gres.Gigabyte}, "synergy", "plain")
	}
	clock := NewClock(noon)
	s := &site{t, New(clock, options), clock}
	clock.AfterEach(func() {
		if err := s.Invariants(); err != nil {
			t.Errorf("at %s: %v", clock.Now().Sub(noon), err)
		}
	})
	return s
}

func (s *site) submit(spec Spec) int {
	s.Helper()
	id, err := s.Submit(spec)
	if err != nil {
		s.Fatal(err)
	}
	return id
}

func (s *site) job(id int) slurm.Job {
	s.Helper()
	observed, err := s.Observe(context.Background())
	if err != nil {
		s.Fatal(err)
	}
	for _, j := range observed.Jobs {
		if j.ID == id {
			return *j
		}
	}
	return slurm.Job{State: slurm.Finished}
}

func (s *site) states(ids ...int) []slurm.State {
	s.Helper()
	var states []slurm.State
	for _, id := range ids {
		states = append(states, s.job(id).State)
	}
	return states
}

func (s *site) history(id int) History {
	s.Helper()
	h, found := s.History(id)
	if !found {
		s.Fatalf("job %d has no history", id)
	}
	return h
}

func (s *site) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// begin updates a job to its present request, changed, to start at once.
func (s *site) begin(id int, change func(*slurm.Request)) error {
	s.Helper()
	r := s.job(id).Request
	change(&r)
	return s.Slurm.Update(context.Background(), slurm.Update{Job: id, Begin: s.clock.Now(), Request: r})
}

func gpus(n int) slurm.Request { return slurm.Request{GPUs: n} }

func TestJobsStartInTheOrderOfTheirIDsAndSmallOnesPassTheBlocked(t *testing.T) {
	s := newSite(t, Options{})
	for _, n := range []int{8, 6, 4, 2} {
		s.submit(Spec{Request: gpus(n)})
	}
	s.clock.Advance(2 * time.Second)
	want := []slurm.State{slurm.Running, slurm.Running, slurm.Pending, slurm.Running}
	if got := s.states(1, 2, 3, 4); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if reason := s.job(3).Reason; reason != "Resources" {
		t.Errorf("job 3 waits for %q, want Resources", reason)
	}
}

func TestNothingStartsBeforeTheSchedulerHasLooked(t *testing.T) {
	s := newSite(t, Options{SchedulerDelay: 3 * time.Second})
	id := s.submit(Spec{Request: gpus(1)})
	s.clock.Advance(2999 * time.Millisecond)
	if j := s.job(id); j.State != slurm.Pending || j.Reason != "" {
		t.Errorf("got %s (%q) too early", j.State, j.Reason)
	}
	s.clock.Advance(time.Millisecond)
	if j := s.job(id); j.State != slurm.Running {
		t.Errorf("got %s, want it running", j.State)
	}
}

func TestAJobWithALeaseCarriesTheAnnotationOfTheLuaAndStartsWhenItLapses(t *testing.T) {
	s := newSite(t, Options{})
	id := s.submit(Spec{Request: gpus(1), Lease: 900 * time.Second})
	s.clock.Advance(899 * time.Second)
	j := s.job(id)
	if j.State != slurm.Pending || j.Reason != "BeginTime" || !j.Begin.Equal(noon.Add(900*time.Second)) {
		t.Errorf("got %s (%s) until %s", j.State, j.Reason, j.Begin)
	}
	if want := `{"v":1,"lua":1,"begin":0}`; j.Extra != want {
		t.Errorf("extra is %s, want %s", j.Extra, want)
	}
	s.clock.Advance(3 * time.Second)
	if j := s.job(id); j.State != slurm.Running {
		t.Errorf("got %s after the lease, want it running", j.State)
	}
}

func TestARenewedLeaseLeavesOnePlannedLookBehind(t *testing.T) {
	s := newSite(t, Options{})
	id := s.submit(Spec{Request: gpus(1), Lease: 100 * time.Second})
	for range 50 {
		s.clock.Advance(50 * time.Second)
		r := s.job(id).Request
		s.must(s.Slurm.Update(context.Background(), slurm.Update{Job: id, Begin: s.clock.Now().Add(100 * time.Second),
			Request: r}))
	}
	if got := len(s.clock.planned); got > 2 {
		t.Errorf("%d events are planned for one waiting job", got)
	}
	if j := s.job(id); j.State != slurm.Pending {
		t.Errorf("got %s under a lease", j.State)
	}
}

func TestALeaseThatIsMovedToAndFroLeavesNoMorePlansThanItLasts(t *testing.T) {
	s := newSite(t, Options{})
	id := s.submit(Spec{Request: gpus(1), Lease: 100 * time.Second})
	for range 200 {
		for _, ahead := range []time.Duration{100, 10, 100} {
			begin := s.clock.Now().Add(ahead * time.Second)
			s.must(s.Slurm.Update(context.Background(), slurm.Update{Job: id, Begin: begin,
				Request: s.job(id).Request}))
		}
		s.clock.Advance(20 * time.Second)
	}
	if got := len(s.clock.planned); got > 10 {
		t.Errorf("%d events are planned for one waiting job", got)
	}
}

func TestALeaseThatWasRenewedOnceLapsesWhenItSays(t *testing.T) {
	s := newSite(t, Options{})
	id := s.submit(Spec{Request: gpus(1), Lease: 100 * time.Second})
	s.clock.Advance(50 * time.Second)
	s.must(s.Slurm.Update(context.Background(), slurm.Update{Job: id, Begin: noon.Add(150 * time.Second),
		Request: s.job(id).Request}))
	s.clock.Advance(99 * time.Second)
	if j := s.job(id); j.State != slurm.Pending {
		t.Errorf("%s a second before its lease ends", j.State)
	}
	s.clock.Advance(3 * time.Second)
	if j := s.job(id); j.State != slurm.Running {
		t.Errorf("%s after the end of its lease", j.State)
	}
}

func TestARequeuedJobHasNoReasonUntilTheSchedulerHasLookedAgain(t *testing.T) {
	s := newSite(t, Options{Teardown: -1})
	id := s.submit(Spec{Request: gpus(1)})
	s.clock.Advance(2 * time.Second)
	s.must(s.Slurm.Requeue(context.Background(), id))
	s.clock.Advance(0)
	if j := s.job(id); j.State != slurm.Pending || j.Completing || j.Reason != "" {
		t.Errorf("just requeued it is %+v", j)
	}
	s.clock.Advance(2 * time.Second)
	if j := s.job(id); j.Reason != "BeginTime" {
		t.Errorf("two seconds later it waits for %q", j.Reason)
	}
}

func TestAJobWhoseHistoryWasHandedOverIsForgottenLikeAnyOther(t *testing.T) {
	var told []History
	s := newSite(t, Options{Ended: func(h History) { told = append(told, h) }})
	id := s.submit(Spec{Request: gpus(1), Work: Work{Length: time.Minute}})
	s.clock.Advance(2 * time.Minute)
	if len(told) != 1 || told[0].Job != id || told[0].End != Completed || len(told[0].Runs) != 1 ||
		told[0].Done != time.Minute {
		t.Fatalf("told of %+v", told)
	}
	if h := s.history(id); h.Job != id || h.End != Completed || !h.Ended.Equal(told[0].Ended) {
		t.Errorf("remains: %+v", h)
	}
	if next := s.job(s.submit(Spec{Request: gpus(1), After: id})); next.Dependency {
		t.Error("a job waits for one that is over")
	}
	update := slurm.Update{Job: id, Request: gpus(1)}
	s.clock.Advance(3 * time.Minute)
	if err := s.Slurm.Update(context.Background(), update); !errors.Is(err, slurm.ErrNotPending) {
		t.Errorf("four minutes after its end: %v", err)
	}
	s.clock.Advance(2 * time.Minute)
	if err := s.Slurm.Update(context.Background(), update); !errors.Is(err, slurm.ErrGone) {
		t.Errorf("six minutes after its end: %v", err)
	}
}

func TestAPinOfMoreNodesThanNeededIsAChoice(t *testing.T) {
	s := newSite(t, Options{Nodes: Rack(3, gres.Vector{GPUs: 8, CPUs: 24, Memory: 500 * gres.Gigabyte}, "synergy")})
	for _, name := range []string{"n2", "n3"} {
		s.submit(Spec{Request: slurm.Request{GPUs: 8, Pin: []string{name}}, TimeLimit: time.Minute})
	}
	s.clock.Advance(2 * time.Second)
	id := s.submit(Spec{Request: gpus(1), Lease: time.Hour})
	s.must(s.begin(id, func(r *slurm.Request) { r.Pin = []string{"n2", "n3"} }))
	s.clock.Advance(10 * time.Second)
	if j := s.job(id); j.State != slurm.Pending {
		t.Errorf("%s on %v while both are full", j.State, j.Runs.Nodes)
	}
	s.clock.Advance(2 * time.Minute)
	if got := s.job(id).Runs.Nodes; !slices.Equal(got, []string{"n2"}) {
		t.Errorf("on %v, want one of the two", got)
	}
}

func TestATeardownShowsWhatIsLeftOfTheRun(t *testing.T) {
	s := newSite(t, Options{})
	id := s.submit(Spec{Request: slurm.Request{GPUs: 2, CPUsPerTask: 6}, Work: Work{OnTerm: Hangs}})
	s.clock.Advance(2 * time.Second)
	s.must(force(s, id))
	s.must(s.begin(id, func(r *slurm.Request) { r.CPUsPerTask, r.CPUs, r.CPUsPerNode = 2, 2, 2 }))
	j := s.job(id)
	if !j.Completing || !slices.Equal(j.Runs.Nodes, []string{"n1"}) || j.Runs.Devices != nil || j.Request.CPUs != 6 ||
		j.Request.CPUsPerTask != 2 {
		t.Errorf("during the teardown: %+v", j)
	}
	s.clock.Advance(time.Minute)
	if j := s.job(id); j.Completing || j.Runs.Nodes != nil || j.Request.CPUs != 2 {
		t.Errorf("after the teardown: %+v", j)
	}
}

func TestAlteredAreTheWaitingJobsThatDoNotAskForTheirOwn(t *testing.T) {
	s := newSite(t, Options{})
	waits := s.submit(Spec{Request: gpus(1), Lease: time.Hour})
	runs := s.submit(Spec{Request: gpus(1), Lease: time.Hour})
	pinned := s.submit(Spec{Request: gpus(1), Lease: time.Hour})
	s.must(s.begin(runs, func(r *slurm.Request) { r.Memory, r.MemoryPerCPU = 5000, 0 }))
	r := s.job(pinned).Request
	r.Pin = []string{"n1"}
	s.must(s.Slurm.Update(context.Background(), slurm.Update{Job: pinned, Begin: noon.Add(time.Hour), Request: r}))
	if got := s.Altered(); !slices.Equal(got, []int{runs, pinned}) {
		t.Errorf("altered: %v, want %v: %d is its own", got, []int{runs, pinned}, waits)
	}
	s.clock.Advance(2 * time.Second)
	if got := s.Altered(); !slices.Equal(got, []int{pinned}) {
		t.Errorf("altered: %v, want %v alone: %d runs", got, pinned, runs)
	}
}

func TestDevicesAreGivenLowestFirst(t *testing.T) {
	s := newSite(t, Options{})
	pin := func(n int) Spec {
		return Spec{Request: slurm.Request{GPUs: n, Pin: []string{"n1"}}}
	}
	first := s.submit(pin(1))
	s.submit(pin(2))
	s.clock.Advance(2 * time.Second)
	s.Cancel(first)
	s.clock.Advance(2 * time.Second)
	third := s.submit(pin(3))
	s.clock.Advance(2 * time.Second)
	if got, want := s.job(third).Runs.Devices, []string{"gpu:3(IDX:0,3-4)"}; !slices.Equal(got, want) {
		t.Errorf("devices %v, want %v", got, want)
	}
}

func TestNothingStartsOnANodeWithACompletingJob(t *testing.T) {
	s := newSite(t, Options{KillWait: 10 * time.Second})
	on := func(w Work) Spec { return Spec{Request: slurm.Request{GPUs: 1, Pin: []string{"n1"}}, Work: w} }
	hangs := s.submit(on(Work{OnTerm: Hangs}))
	s.clock.Advance(2 * time.Second)
	s.must(s.Slurm.Requeue(context.Background(), hangs))
	next := s.submit(on(Work{}))
	s.clock.Advance(9 * time.Second)
	if got := s.job(next).State; got != slurm.Pending {
		t.Errorf("got %s beside a completing job", got)
	}
	s.clock.Advance(3 * time.Second)
	if got := s.job(next).State; got != slurm.Running {
		t.Errorf("got %s after the teardown", got)
	}
}

func TestASavedJobLosesNothingAndAKilledOneGoesBackToItsCheckpoint(t *testing.T) {
	for _, c := range []struct {
		name  string
		stop  func(*site, int) error
		work  Work
		safe  time.Duration
		lost  time.Duration
		stays time.Duration
	}{
		{"asked", ask, Work{OnSignal: Saves, Save: 5 * time.Second}, 100 * time.Second, 0, 5300 * time.Millisecond},
		{"terminated in time", force, Work{OnTerm: Saves, Save: 5 * time.Second}, 100 * time.Second, 0,
			5300 * time.Millisecond},
		{"terminated too slow", force, Work{OnTerm: Saves, Save: 60 * time.Second}, 0, 100 * time.Second,
			30300 * time.Millisecond},
		{"killed with checkpoints", force, Work{Checkpoint: 30 * time.Second}, 90 * time.Second, 10 * time.Second,
			300 * time.Millisecond},
		{"killed without", force, Work{}, 0, 100 * time.Second, 300 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t, Options{})
			c.work.Length = time.Hour
			id := s.submit(Spec{Request: gpus(1), Work: c.work})
			s.clock.Advance(101 * time.Second)
			s.must(c.stop(s, id))
			s.clock.Advance(c.stays)
			h := s.history(id)
			run := h.Runs[0]
			if h.Done != c.safe || run.Lost != c.lost || run.Progress != 100*time.Second {
				t.Errorf("kept %s, lost %s of %s; want %s and %s", h.Done, run.Lost, run.Progress, c.safe, c.lost)
			}
			if got := run.Freed.Sub(noon.Add(101 * time.Second)); got != c.stays {
				t.Errorf("its node was free after %s, want %s", got, c.stays)
			}
		})
	}
}

func ask(s *site, id int) error {
	return s.Slurm.Signal(context.Background(), id, slurm.Signal{Name: "USR1"})
}
func force(s *site, id int) error { return s.Slurm.Requeue(context.Background(), id) }

func TestARunIsAsLongAsItsRateMakesIt(t *testing.T) {
	s := newSite(t, Options{})
	double := func(a slurm.Allocated) float64 { return float64(a.PerNode.CPUs) / 3 }
	id := s.submit(Spec{
		Request: slurm.Request{GPUs: 1, CPUsPerTask: 6},
		Work:    Work{Length: 600 * time.Second, Rate: double, Restart: 20 * time.Second, OnSignal: Saves},
	})
	s.clock.Advance(101 * time.Second) // 200 s done
	s.must(ask(s, id))
	s.clock.Advance(time.Second)
	s.must(s.begin(id, func(r *slurm.Request) { r.CPUsPerTask, r.CPUs, r.CPUsPerNode = 3, 3, 3 }))
	s.clock.Advance(time.Second)
	s.clock.Advance(420*time.Second + time.Second)
	h := s.history(id)
	if h.End != Completed || len(h.Runs) != 2 || h.Runs[1].PerNode.CPUs != 3 {
		t.Fatalf("got %+v", h)
	}
	if took := h.Runs[1].Stop.Sub(h.Runs[1].Start).Round(time.Millisecond); took != 420*time.Second {
		t.Errorf("the second run took %s, want 20 s to restart and 400 s for the rest", took)
	}
}

func TestAJobWithoutRequeueIsLostUnlessThePortAsked(t *testing.T) {
	work := Work{OnSignal: Saves}
	s := newSite(t, Options{})
	byUser := s.submit(Spec{Request: gpus(1), NoRequeue: true, Work: work})
	byPort := s.submit(Spec{Request: gpus(1), NoRequeue: true, Work: work})
	s.clock.Advance(2 * time.Second)
	s.Kill(byUser)
	s.must(ask(s, byPort))
	s.clock.Advance(time.Second)
	if h := s.history(byUser); h.End != Failed {
		t.Errorf("signalled by its user it ended as %q, want FAILED", h.End)
	}
	if j := s.job(byPort); j.State != slurm.Pending || j.Restarts != 1 {
		t.Errorf("signalled through the port it is %s after %d restarts", j.State, j.Restarts)
	}
}

func TestADeadNodeSendsItsJobsBackPinnedToIt(t *testing.T) {
	s := newSite(t, Options{})
	id := s.submit(Spec{Request: slurm.Request{GPUs: 1, Pin: []string{"n1"}}})
	lost := s.submit(Spec{Request: slurm.Request{GPUs: 1, Pin: []string{"n1"}}, NoRequeue: true})
	s.clock.Advance(2 * time.Second)
	s.Down("n1")
	s.clock.Advance(200 * time.Second)
	j := s.job(id)
	if j.State != slurm.Pending || !slices.Equal(j.Request.Pin, []string{"n1"}) ||
		j.Reason != "ReqNodeNotAvail, UnavailableNodes:n1" {
		t.Errorf("got %s, pin %v, reason %q", j.State, j.Request.Pin, j.Reason)
	}
	if h := s.history(lost); h.End != NodeFail {
		t.Errorf("the job without requeue ended as %q", h.End)
	}
	s.must(s.begin(id, func(r *slurm.Request) { r.Pin = []string{"n2"} }))
	s.clock.Advance(2 * time.Second)
	if j := s.job(id); j.State != slurm.Running {
		t.Errorf("got %s with another node", j.State)
	}
}

func TestMemoryThatTheNodeLacksBlocksTheJobUntilTheNextUpdate(t *testing.T) {
	s := newSite(t, Options{})
	id := s.submit(Spec{Request: gpus(1), Lease: time.Hour})
	s.must(s.begin(id, func(r *slurm.Request) { r.Memory, r.Pin = 600*gres.Gigabyte, []string{"n1"} }))
	if j := s.job(id); j.Held || j.Reason != "" {
		t.Errorf("held %t, %q before the scheduler has looked", j.Held, j.Reason)
	}
	s.clock.Advance(2 * time.Second)
	if j := s.job(id); j.State != slurm.Pending || j.Held || j.Reason != "BadConstraints" {
		t.Errorf("%s, held %t, %q", j.State, j.Held, j.Reason)
	}
	s.must(s.begin(id, func(r *slurm.Request) { r.Memory = 100 * gres.Gigabyte }))
	s.clock.Advance(2 * time.Second)
	if j := s.job(id); j.State != slurm.Running {
		t.Errorf("got %s with memory that fits", j.State)
	}
}

func TestAnUnknownNodeInThePinChangesNothing(t *testing.T) {
	s := newSite(t, Options{})
	id := s.submit(Spec{Request: gpus(1), Lease: time.Hour})
	before := s.job(id)
	err := s.begin(id, func(r *slurm.Request) { r.Pin = []string{"n9"} })
	if !errors.Is(err, slurm.ErrRefused) {
		t.Fatalf("got %v, want a refusal", err)
	}
	if j := s.job(id); j.Extra != before.Extra || j.Request.Pin != nil || !j.Begin.Equal(before.Begin) {
		t.Errorf("after the refusal: %+v", j)
	}
}

func TestCPUsThatNoNodeHasAreRefusedAndAppliedAllTheSame(t *testing.T) {
	s := newSite(t, Options{})
	id := s.submit(Spec{Request: gpus(1), Lease: time.Hour})
	err := s.begin(id, func(r *slurm.Request) { r.CPUsPerTask, r.CPUs, r.CPUsPerNode = 99, 99, 99 })
	if !errors.Is(err, slurm.ErrRefused) {
		t.Fatalf("got %v, want a refusal", err)
	}
	s.clock.Advance(2 * time.Second)
	if j := s.job(id); j.Request.CPUs != 99 || !j.Begin.IsZero() || j.Held || j.Reason != "PartitionConfig" {
		t.Errorf("after the refusal: %+v", j)
	}
	if got := s.Altered(); !slices.Equal(got, []int{id}) {
		t.Errorf("altered: %v", got)
	}
}

func TestAJobThatIsStartedInTheSecondOfItsTeardownIsLost(t *testing.T) {
	for _, c := range []struct {
		wait time.Duration
		want slurm.State
	}{{0, slurm.Finished}, {time.Second, slurm.Running}} {
		s := newSite(t, Options{SchedulerDelay: time.Millisecond})
		id := s.submit(Spec{Request: gpus(1), Work: Work{OnSignal: Saves}})
		s.clock.Advance(2 * time.Second)
		s.must(ask(s, id))
		s.clock.Advance(310*time.Millisecond + c.wait)
		s.must(s.begin(id, func(*slurm.Request) {}))
		s.clock.Advance(500 * time.Millisecond)
		if got := s.job(id).State; got != c.want {
			t.Errorf("%s after its teardown: %s, want %s", c.wait, got, c.want)
		}
	}
}

func TestADependentJobWaitsForTheEndOfTheOther(t *testing.T) {
	s := newSite(t, Options{})
	first := s.submit(Spec{Request: gpus(1), Work: Work{Length: time.Minute}})
	second := s.submit(Spec{Request: gpus(1), After: first})
	s.clock.Advance(30 * time.Second)
	if j := s.job(second); j.State != slurm.Pending || !j.Dependency || j.Reason != "Dependency" {
		t.Errorf("got %s, dependency %t, %q", j.State, j.Dependency, j.Reason)
	}
	s.clock.Advance(40 * time.Second)
	if j := s.job(second); j.State != slurm.Running || j.Dependency {
		t.Errorf("got %s, dependency %t after the first has ended", j.State, j.Dependency)
	}
}

func TestATimeLimitEndsAJobForGood(t *testing.T) {
	s := newSite(t, Options{})
	id := s.submit(Spec{Request: gpus(1), TimeLimit: time.Minute, Work: Work{OnTerm: Saves}})
	s.clock.Advance(2 * time.Minute)
	if h := s.history(id); h.End != TimedOut {
		t.Errorf("ended as %q, want TIMEOUT", h.End)
	}
}

func TestAFinishedJobIsForgottenAfterItsAge(t *testing.T) {
	s := newSite(t, Options{MinJobAge: time.Minute})
	id := s.submit(Spec{Request: gpus(1), Work: Work{Length: time.Second}})
	s.clock.Advance(10 * time.Second)
	if err := ask(s, id); !errors.Is(err, slurm.ErrNotRunning) {
		t.Errorf("just after its end: %v", err)
	}
	s.clock.Advance(time.Minute)
	if err := ask(s, id); !errors.Is(err, slurm.ErrGone) {
		t.Errorf("long after its end: %v", err)
	}
}

func TestAnExclusiveJobGetsTheWholeNode(t *testing.T) {
	s := newSite(t, Options{})
	id := s.submit(Spec{Request: gpus(1), Exclusive: true})
	s.clock.Advance(2 * time.Second)
	if got := s.job(id).Runs.PerNode; got.CPUs != 24 {
		t.Errorf("got %s", got)
	}
}

func TestAGangGetsTheSameOnEachOfItsNodes(t *testing.T) {
	s := newSite(t, Options{})
	id := s.submit(Spec{Request: slurm.Request{Nodes: 2, GPUs: 4, CPUsPerTask: 5, Memory: 1000}})
	s.clock.Advance(2 * time.Second)
	runs := s.job(id).Runs
	if want := (gres.Vector{GPUs: 2, CPUs: 5, Memory: 1000}); runs.PerNode != want ||
		!slices.Equal(runs.Nodes, []string{"n1", "n2"}) {
		t.Errorf("got %s on %v", runs.PerNode, runs.Nodes)
	}
}

func TestAnUpdateWipesTheReasonUntilTheSchedulerHasLooked(t *testing.T) {
	s := newSite(t, Options{})
	id := s.submit(Spec{Request: gpus(1), Begin: noon.Add(time.Hour)})
	s.clock.Advance(2 * time.Second)
	r := s.job(id).Request
	s.must(s.Slurm.Update(context.Background(), slurm.Update{Job: id, Begin: noon.Add(time.Hour), Request: r}))
	if reason := s.job(id).Reason; reason != "" {
		t.Errorf("just after the update it waits for %q", reason)
	}
	s.clock.Advance(2 * time.Second)
	if reason := s.job(id).Reason; reason != "BeginTime" {
		t.Errorf("it waits for %q", reason)
	}
}

func TestAnOldMinimumOfCPUsOnANodeStillBinds(t *testing.T) {
	s := newSite(t, Options{})
	for _, c := range []struct {
		request slurm.Request
		want    int
	}{
		{slurm.Request{CPUsPerTask: 2, CPUs: 2, CPUsPerNode: 6}, 6},
		{slurm.Request{Tasks: 4, CPUsPerTask: 3, CPUs: 4, CPUsPerNode: 3}, 12},
		{slurm.Request{CPUsPerTask: 1, CPUs: 5, CPUsPerNode: 1}, 5},
	} {
		id := s.submit(Spec{Request: c.request})
		s.clock.Advance(2 * time.Second)
		if got := s.job(id).Runs.PerNode.CPUs; got != c.want {
			t.Errorf("%+v: %d CPUs, want %d", c.request, got, c.want)
		}
	}
}

func TestAJobRunsOnlyWhereItMay(t *testing.T) {
	nodes := Rack(3, gres.Vector{GPUs: 8, CPUs: 24, Memory: 500 * gres.Gigabyte}, "synergy")
	nodes[0].GPUType, nodes[1].GPUType, nodes[2].GPUType = "v100", "a100", "a100"
	nodes[2].Features = []string{"nvlink"}
	for _, c := range []struct {
		name string
		spec Spec
		want string
	}{
		{"anywhere", Spec{Request: gpus(1)}, "n1"},
		{"not on an excluded node", Spec{Request: gpus(1), Except: []string{"n1"}}, "n2"},
		{"on a GPU type", Spec{Request: slurm.Request{GPUs: 1, GPUType: "a100"}}, "n2"},
		{"with a feature", Spec{Request: gpus(1), Features: []string{"nvlink"}}, "n3"},
	} {
		s := newSite(t, Options{Nodes: nodes})
		id := s.submit(c.spec)
		s.clock.Advance(2 * time.Second)
		if got := s.job(id).Runs.Nodes; !slices.Equal(got, []string{c.want}) {
			t.Errorf("%s: on %v, want %s", c.name, got, c.want)
		}
	}
}

func TestAPinOfFewerNodesThanNeededIsFilledUp(t *testing.T) {
	s := newSite(t, Options{Nodes: Rack(4, gres.Vector{GPUs: 8, CPUs: 24, Memory: 500 * gres.Gigabyte}, "synergy")})
	id := s.submit(Spec{Request: slurm.Request{Nodes: 2, GPUs: 2, Pin: []string{"n3"}}})
	s.clock.Advance(2 * time.Second)
	if got := s.job(id).Runs.Nodes; !slices.Equal(got, []string{"n1", "n3"}) {
		t.Errorf("on %v, want n1 beside n3", got)
	}
}

func TestAPinnedJobWaitsForItsNodeAlone(t *testing.T) {
	s := newSite(t, Options{})
	full := s.submit(Spec{Request: slurm.Request{GPUs: 8, Pin: []string{"n1"}}})
	s.clock.Advance(2 * time.Second)
	id := s.submit(Spec{Request: slurm.Request{GPUs: 1, Pin: []string{"n1"}}})
	s.clock.Advance(time.Minute)
	if j := s.job(id); j.State != slurm.Pending || j.Reason != "Resources" {
		t.Errorf("%s (%s) while its node is full", j.State, j.Reason)
	}
	s.Cancel(full)
	s.clock.Advance(3 * time.Second)
	if j := s.job(id); j.State != slurm.Running {
		t.Errorf("%s once its node is free", j.State)
	}
}

func TestAnExclusiveJobWaitsForAnEmptyNode(t *testing.T) {
	s := newSite(t, Options{})
	s.submit(Spec{Request: gpus(1)})
	s.clock.Advance(2 * time.Second)
	id := s.submit(Spec{Request: gpus(1), Exclusive: true})
	s.clock.Advance(2 * time.Second)
	if got := s.job(id).Runs.Nodes; !slices.Equal(got, []string{"n2"}) {
		t.Errorf("on %v, want the empty node", got)
	}
}

func TestAJobThatSavesMakesNoProgress(t *testing.T) {
	s := newSite(t, Options{})
	id := s.submit(Spec{Request: gpus(1), Work: Work{Length: 100 * time.Second, OnSignal: Saves,
		Save: 10 * time.Second}})
	s.clock.Advance(100 * time.Second) // 99 s of work
	s.must(ask(s, id))
	s.clock.Advance(20 * time.Second)
	if h := s.history(id); h.End != "" || h.Restarts != 1 || h.Done != 99*time.Second {
		t.Errorf("after its save: %+v", h)
	}
}

func TestASaveUnderWayMayBeEndedByKillWait(t *testing.T) {
	for _, c := range []struct{ save, lost time.Duration }{{20 * time.Second, 0},
		{50 * time.Second, 100 * time.Second}} {
		s := newSite(t, Options{})
		id := s.submit(Spec{Request: gpus(1), Work: Work{OnSignal: Saves, Save: c.save}})
		s.clock.Advance(101 * time.Second)
		s.must(ask(s, id))
		s.clock.Advance(5 * time.Second)
		s.must(force(s, id))
		s.clock.Advance(time.Minute)
		if run := s.history(id).Runs[0]; run.Lost != c.lost || run.Progress != 100*time.Second {
			t.Errorf("save of %s: lost %s of %s, want %s of 100 s", c.save, run.Lost, run.Progress, c.lost)
		}
	}
}

func TestASignalBeforeTheTrapsAreSetKills(t *testing.T) {
	s := newSite(t, Options{})
	id := s.submit(Spec{Request: gpus(1), Work: Work{OnSignal: Saves, Ready: 5 * time.Second}})
	s.clock.Advance(4 * time.Second)
	s.must(ask(s, id))
	s.clock.Advance(4 * time.Second)
	if h := s.history(id); h.End != Failed {
		t.Errorf("ended as %q, want FAILED", h.End)
	}
}

func TestACancelledJobDoesNotComeBackFromItsTeardown(t *testing.T) {
	s := newSite(t, Options{})
	id := s.submit(Spec{Request: gpus(1), Work: Work{OnTerm: Hangs}})
	s.clock.Advance(2 * time.Second)
	s.must(force(s, id))
	s.clock.Advance(time.Second)
	s.Cancel(id)
	s.clock.Advance(10 * time.Minute)
	if h := s.history(id); h.End != Cancelled || len(h.Runs) != 1 || s.Active() != 0 {
		t.Errorf("%d active, got %+v", s.Active(), h)
	}
}

func TestANodeMayDieDuringATeardown(t *testing.T) {
	s := newSite(t, Options{})
	id := s.submit(Spec{Request: gpus(1), Work: Work{OnTerm: Hangs}})
	s.clock.Advance(2 * time.Second)
	s.must(force(s, id))
	s.Down("n1")
	s.clock.Advance(time.Minute)
	if j := s.job(id); j.State != slurm.Pending || j.Restarts != 1 {
		t.Errorf("got %s after %d restarts", j.State, j.Restarts)
	}
}

func TestALeaseDoesNotShortenTheUsersOwnBeginTime(t *testing.T) {
	s := newSite(t, Options{})
	id := s.submit(Spec{Request: gpus(1), Begin: noon.Add(time.Hour), Lease: time.Minute})
	j := s.job(id)
	if !j.Begin.Equal(noon.Add(time.Hour)) || j.Extra != `{"v":1,"lua":1,"begin":1767358800}` {
		t.Errorf("begins %s, extra %s", j.Begin, j.Extra)
	}
}

func TestAJobThatIsOverLeavesNothingPlanned(t *testing.T) {
	s := newSite(t, Options{})
	s.submit(Spec{Request: gpus(1), Begin: noon.Add(time.Minute), Work: Work{Length: time.Minute}})
	s.Cancel(s.submit(Spec{Request: gpus(1), Lease: time.Hour}))
	s.clock.Advance(3 * time.Minute)
	if next, more := s.clock.Next(); more {
		t.Errorf("all is over, and something is planned for %s", next)
	}
}

func TestInvariantsSeeABookedAmountThatNobodyHolds(t *testing.T) {
	clock := NewClock(noon)
	s := New(clock, Options{Nodes: Rack(1, gres.Vector{GPUs: 8, CPUs: 24, Memory: 1000}, "synergy")})
	if _, err := s.Submit(Spec{Request: slurm.Request{GPUs: 1, Memory: 100}}); err != nil {
		t.Fatal(err)
	}
	clock.Advance(2 * time.Second)
	n, j := s.nodes[0], s.jobs[0].job
	for _, c := range []struct {
		name  string
		spoil func()
	}{
		{"booked twice", func() { n.allocated.CPUs++ }},
		{"over capacity", func() { j.run.perNode.CPUs = 25 }},
		{"a GPU without a holder", func() { n.gpus[0] = 0 }},
		{"half a gang", func() { j.request.Nodes = 2 }},
		{"begun early", func() { j.begin = noon.Add(time.Hour) }},
		{"a teardown of nobody", func() { n.completing++ }},
		{"runs nowhere", func() { j.run = nil }},
		{"ended twice", func() { s.ended++ }},
	} {
		job, run, node := *j, *j.run, *n
		node.gpus = slices.Clone(n.gpus)
		if err := s.Invariants(); err != nil {
			t.Fatalf("before %s: %v", c.name, err)
		}
		c.spoil()
		if s.Invariants() == nil {
			t.Errorf("%s: not seen", c.name)
		}
		*j, *n, s.ended = job, node, 0
		*j.run = run
	}
}

func TestTheSchedulerTakesTheLargerPriorityFirst(t *testing.T) {
	s := newSite(t, Options{Nodes: Rack(1, gres.Vector{GPUs: 8, CPUs: 24, Memory: 500 * gres.Gigabyte}, "plain")})
	small, first, second, late := s.submit(Spec{Request: gpus(8), Priority: 1}),
		s.submit(Spec{Request: gpus(8), Priority: 5}),
		s.submit(Spec{Request: gpus(8), Priority: 5}), s.submit(Spec{Request: gpus(8), Priority: 2})
	s.Modify(late, func(s *Spec) { s.Priority = 9 })
	for _, next := range []int{late, first, second, small} {
		s.clock.Advance(3 * time.Second)
		if j := s.job(next); j.State != slurm.Running {
			t.Fatalf("job %d at priority %d is %s", next, j.Priority, j.State)
		}
		s.Cancel(next)
	}
}

func TestAJobWithOurWordIsShownAfterItsEndUntilSlurmForgetsIt(t *testing.T) {
	s := newSite(t, Options{MinJobAge: time.Minute})
	ours := s.submit(Spec{Comment: "synergy-profile=a.json", Work: Work{Length: time.Second, Fails: true}})
	other := s.submit(Spec{Work: Work{Length: time.Second}})
	for _, c := range []struct {
		after time.Duration
		want  []int
	}{{10 * time.Second, []int{ours}}, {40 * time.Second, []int{ours}}, {20 * time.Second, nil}} {
		s.clock.Advance(c.after)
		seen, err := s.Observe(context.Background())
		s.must(err)
		var ids []int
		for _, j := range seen.Jobs {
			if ids = append(ids, j.ID); j.End != (slurm.End{State: "FAILED", Code: 1}) {
				t.Errorf("ended as %+v", j.End)
			}
		}
		if !slices.Equal(ids, c.want) {
			t.Errorf("%s after the start jobs %v are shown, want %v of %d and %d", s.clock.Elapsed(), ids, c.want, ours,
				other)
		}
	}
}

func TestAReservationKeepsItsNodesForItsOwnJobs(t *testing.T) {
	s := newSite(t, Options{Nodes: Rack(1, gres.Vector{GPUs: 8, CPUs: 24, Memory: 500 * gres.Gigabyte}, "plain")})
	s.Reserve(slurm.Reservation{Name: "course", From: noon.Add(time.Hour), To: noon.Add(2 * time.Hour),
		Nodes: []string{"n1"}})
	short, long := s.submit(Spec{TimeLimit: 30 * time.Minute}), s.submit(Spec{TimeLimit: 2 * time.Hour})
	endless, own := s.submit(Spec{}), s.submit(Spec{Reservation: "course", TimeLimit: time.Minute})
	if _, err := s.Submit(Spec{Reservation: "nosuch"}); !errors.Is(err, slurm.ErrRefused) {
		t.Errorf("submitted to a reservation that there is not: %v", err)
	}
	s.clock.Advance(time.Minute)
	if got := s.states(short, long, endless, own); !slices.Equal(got,
		[]slurm.State{slurm.Running, slurm.Pending, slurm.Pending, slurm.Pending}) {
		t.Errorf("before it begins: %v", got)
	}
	if long, own := s.job(long), s.job(own); long.Reason != "ReqNodeNotAvail, Reserved for maintenance" ||
		own.Reason != "Reservation" {
		t.Errorf("they wait for %q and %q", long.Reason, own.Reason)
	}
	s.clock.Advance(time.Hour)
	if got := s.states(long, endless, own); !slices.Equal(got,
		[]slurm.State{slurm.Pending, slurm.Pending, slurm.Running}) {
		t.Errorf("after it has begun: %v", got)
	}
	seen, err := s.Observe(context.Background())
	s.must(err)
	if len(seen.Reservations) != 1 || seen.Nodes[0].Closed != "" {
		t.Errorf("reservations %v, the node is closed for %q", seen.Reservations, seen.Nodes[0].Closed)
	}
	s.clock.Advance(time.Hour)
	if got := s.states(long, endless); !slices.Equal(got, []slurm.State{slurm.Running, slurm.Running}) {
		t.Errorf("after its end: %v", got)
	}
	if seen, err := s.Observe(context.Background()); err != nil || len(seen.Reservations) != 0 ||
		seen.Nodes[0].Closed != "" {
		t.Errorf("after its end reservations %v are told, the node is closed for %q: %v", seen.Reservations,
			seen.Nodes[0].Closed, err)
	}
}
