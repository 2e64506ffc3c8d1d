package bridge_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
)

// tasks makes a job an array of so many tasks, of which so many may run at once (0: all).
func tasks(n, atOnce int) func(*slurmtest.Spec) {
	return func(s *slurmtest.Spec) {
		s.AtOnce = atOnce
		for task := range n {
			s.Tasks = append(s.Tasks, task+1)
		}
	}
}

// sweepNow lists the tasks of an array that have jobs of their own by their state, and counts those that have none.
func (w *world) sweepNow(array int) (waiting, running []slurm.Job, rest int) {
	w.t.Helper()
	seen, err := w.slurm.Observe(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, j := range seen.Jobs {
		switch {
		case j.Array != array:
		case len(j.Tasks) > 0:
			rest = len(j.Tasks)
		case j.State == slurm.Pending:
			waiting = append(waiting, *j)
		case j.State == slurm.Running:
			running = append(running, *j)
		}
	}
	return waiting, running, rest
}

func TestEachTaskOfAnArrayIsSizedByItself(t *testing.T) {
	w := newWorld(t, 1, server)
	w.submit(4, model("gnmt"), forAges)
	array := w.submit(1, model("res18"), tasks(6, 0), length(20*time.Minute))
	w.rounds(1)
	waiting, running, rest := w.sweepNow(array)
	if len(running) != 4 || len(waiting)+rest != 2 {
		t.Fatalf("%d run, %d wait with a job of their own, %d without: %+v", len(running), len(waiting), rest, running)
	}
	cores := 0
	for _, j := range running {
		cores += j.Runs.PerNode.CPUs
	}
	if cores != 20 { // gnmt leaves all but four of them
		t.Errorf("the tasks have %d cores in all", cores)
	}
	w.rounds(12)
	seen := map[int]bool{}
	for id := array; id < array+6; id++ {
		h, _ := w.slurm.History(id)
		if h.End != slurmtest.Completed || len(h.Runs) != 1 || seen[h.Job] {
			t.Errorf("task's job %d: %+v", id, h)
		}
		seen[h.Job] = true
	}
	if _, more := w.slurm.History(array + 6); more {
		t.Error("there is a job more than tasks")
	}
}

func TestNoMoreTasksOfAnArrayRunAtOnceThanItAllowsAndNoStartIsRefusedForIt(t *testing.T) {
	w := newWorld(t, 2, server)
	array := w.submit(1, model("res18"), tasks(9, 3), length(4*time.Minute))
	other := w.submit(2, model("gnmt"), forAges)
	for range 12 {
		report := w.round()
		if _, running, _ := w.sweepNow(array); len(running) > 3 {
			t.Fatalf("%d tasks run", len(running))
		}
		for _, s := range report.Steps {
			if s.Error != "" {
				t.Errorf("round %d: %s of job %d: %s", report.Round, s.Verb, s.Job, s.Error)
			}
		}
		for range 30 {
			w.sleep(10 * time.Second)
			w.small()
		}
	}
	if _, running, rest := w.sweepNow(array); rest != 0 || len(running) != 0 {
		t.Errorf("%d tasks are left, %d run", rest, len(running))
	}
	if j := w.job(other); j.State != slurm.Running {
		t.Errorf("the other job: %+v", j)
	}
}

func TestAnArrayOfTenThousandTasksIsNoMoreToARoundThanTheClusterHoldsOfIt(t *testing.T) {
	w := newWorld(t, 4, server)
	w.runner.Settings.Ahead = 8
	array := w.submit(1, model("res18"), tasks(10000, 0), forAges)
	late := w.submit(1, model("gnmt"), func(s *slurmtest.Spec) { s.Priority = 10 })
	w.rounds(1)
	for range 5 {
		calls := len(w.line.Calls())
		w.rounds(1)
		if n := len(w.line.Calls()) - calls; n > 50 {
			t.Errorf("a round of %d calls", n)
		}
	}
	waiting, running, rest := w.sweepNow(array)
	if len(running) != 31 || len(waiting) > 32+8 || len(waiting)+len(running)+rest != 10000 {
		t.Errorf("%d run, %d wait with a job of their own, %d without", len(running), len(waiting), rest)
	}
	if j := w.job(late); j.State != slurm.Running {
		t.Errorf("a job of a larger priority waits behind the array: %+v", j)
	}
}

func TestSeveralArraysShareWhatTheClusterCanHold(t *testing.T) {
	w := newWorld(t, 1, server)
	var arrays []int
	for k := range 20 {
		arrays = append(arrays, w.submit(1, model("res18"), tasks(500, 0), forAges,
			func(s *slurmtest.Spec) { s.Priority = int64(k) }))
	}
	report := w.rounds(2)
	if n := len(report.Snapshot.Jobs); n > 20+8+20+8 {
		t.Errorf("the planner is asked about %d jobs", n)
	}
	for _, array := range arrays {
		if waiting, running, _ := w.sweepNow(array); len(waiting)+len(running) == 0 {
			t.Errorf("no task of array %d is known to the planner", array)
		}
	}
}

func TestAnArrayThatCannotBeSplitIsSlurmsWithinSeconds(t *testing.T) {
	w := newWorld(t, 1, server)
	w.start(func(c slurmtest.Call, at slurmtest.Moment) error {
		if c.Verb == slurmtest.Split && at == slurmtest.Before {
			return fmt.Errorf("scontrol: no such file: %w", slurm.ErrRefused)
		}
		return nil
	})
	array := w.submit(1, model("res18"), tasks(4, 2), length(2*time.Minute))
	w.round()
	w.sleep(5 * time.Second)
	report, _ := w.small()
	if len(report.Outside) != 1 || !strings.Contains(report.Outside[0].Why, "no such file") {
		t.Errorf("outside: %+v", report.Outside)
	}
	w.sleep(10 * time.Second)
	if _, running, _ := w.sweepNow(array); len(running) != 2 || running[0].Runs.PerNode.CPUs != 1 {
		t.Errorf("Slurm runs %+v", running)
	}
	w.rounds(2)
	if n := w.line.Count(slurmtest.Split); n != 2 {
		t.Errorf("tried %d times", n)
	}
}

func TestAnArrayIsLeftAsItIsWhileItIsHeldOrWaitsForAnotherJob(t *testing.T) {
	w := newWorld(t, 1, server)
	first := w.submit(8, model("gnmt"), forAges)
	held := w.submit(1, model("res18"), tasks(3, 0), func(s *slurmtest.Spec) { s.Held = true })
	after := w.submit(1, model("res18"), tasks(3, 0), func(s *slurmtest.Spec) { s.After = first })
	later := w.submit(1, model("res18"), tasks(3, 0), func(s *slurmtest.Spec) { s.Begin = epoch.Add(time.Hour) })
	w.rounds(2)
	for _, array := range []int{held, after, later} {
		if _, _, rest := w.sweepNow(array); rest != 3 {
			t.Errorf("array %d was split", array)
		}
	}
	w.slurm.Release(held)
	w.slurm.Cancel(first)
	w.rounds(2)
	for _, array := range []int{held, after} {
		if _, running, _ := w.sweepNow(array); len(running) == 0 {
			t.Errorf("no task of array %d runs", array)
		}
	}
}

func TestAReleasedArrayIsSlurmsWithAllItsTasks(t *testing.T) {
	w := newWorld(t, 1, server)
	w.runner.Settings.Ahead = 4
	array := w.submit(1, model("res18"), tasks(20, 0), forAges)
	w.rounds(1)
	waiting, _, rest := w.sweepNow(array)
	if len(waiting) == 0 || rest == 0 {
		t.Fatalf("%d wait with a job of their own, %d without", len(waiting), rest)
	}
	w.mustRelease()
	waiting, _, _ = w.sweepNow(array)
	for _, j := range append(waiting, w.job(array)) {
		if j.Begin.After(w.clock.Now()) || j.Request.CPUs != 1 || len(j.Request.Pin) > 0 {
			t.Errorf("after the release: %+v", j)
		}
	}
}

func TestATaskKeepsWhatTheGateSaidOfItsArray(t *testing.T) {
	w := newWorld(t, 1, server)
	w.runner.Settings.Keep.Memory = true
	first := w.submit(8, model("gnmt"), length(7*time.Minute))
	array := w.submit(1, model("gnmt"), tasks(2, 0), forAges, func(s *slurmtest.Spec) {
		s.Lease, s.Begin, s.After = 0, epoch.Add(900*time.Second), first
		s.Extra, s.Request.Memory = `{"v":1,"lua":1,"begin":0,"mem":1}`, 200_000
	})
	w.rounds(3) // the first writes its own annotation over the gate's, before the array is split
	_, running, _ := w.sweepNow(array)
	if len(running) != 2 {
		t.Fatalf("%d tasks run", len(running))
	}
	for _, j := range running {
		if j.Runs.PerNode.Memory < 200_000 || j.Runs.PerNode.CPUs > 3 {
			t.Errorf("task %d holds %s", j.Task, j.Runs.PerNode)
		}
		if r := w.record(j.ID); !r.Explicit.Told || !r.Explicit.Memory || !r.NotBefore.IsZero() {
			t.Errorf("task %d: %+v", j.Task, r)
		}
	}
}

func TestATasksAnnotationIsItsOwnOrItsArraysAndNobodyElses(t *testing.T) {
	w := newWorld(t, 1, server)
	w.submit(8, model("gnmt"), forAges)
	array := w.submit(1, model("res18"), tasks(3, 0), forAges)
	w.rounds(1)
	forged := w.job(array).Extra
	if !strings.Contains(forged, `"own"`) {
		t.Fatalf("annotation: %s", forged)
	}
	stranger := w.submit(2, model("res18"), forAges, func(s *slurmtest.Spec) { s.Extra, s.Lease = forged, 0 })
	w.rounds(1)
	if r := w.record(stranger); r.Own.GPUs != 2 || r.Explicit.Told {
		t.Errorf("it lives by another job's annotation: %+v", r)
	}
}

func TestAnAnnotationWithoutAJobsNumberIsNotBelieved(t *testing.T) {
	w := newWorld(t, 1, server)
	id := w.submit(1, model("gnmt"), forAges, func(s *slurmtest.Spec) {
		s.Lease, s.Begin = 0, epoch.Add(900*time.Second)
		s.Extra = `{"v":1,"begin":0,"own":{"tasks":1,"nodes":1,"gpus":1,"cpus":24,"cpus_per_task":24,"cpus_per_node":24,"memory":490000}}`
	})
	w.rounds(1)
	if r := w.record(id); r.Own.CPUs != 1 {
		t.Errorf("its request is taken to be %+v", r.Own)
	}
}

func TestADaemonThatDiesWhileItSplitsLosesNoTask(t *testing.T) {
	for _, moment := range []slurmtest.Moment{slurmtest.Before, slurmtest.After} {
		w := newWorld(t, 1, server)
		array := w.submit(1, model("res18"), tasks(10, 4), length(3*time.Minute))
		w.start(func(c slurmtest.Call, at slurmtest.Moment) error {
			if c.Verb == slurmtest.Split && at == moment {
				return slurmtest.ErrDied
			}
			return nil
		})
		if _, err := w.runner.Round(ctx); !errors.Is(err, slurmtest.ErrDied) {
			t.Fatalf("%s: %v", moment, err)
		}
		w.start(nil)
		w.rounds(8)
		waiting, running, rest := w.sweepNow(array)
		if len(waiting)+len(running)+rest != 0 {
			t.Errorf("%s: %d wait, %d run, %d have no job", moment, len(waiting), len(running), rest)
		}
		if ended := w.ended(array, 10); ended != 10 {
			t.Errorf("%s: %d tasks completed", moment, ended)
		}
	}
}

// ended counts the completed ones of so many jobs from the first on.
func (w *world) ended(first, number int) (n int) {
	for id := first; id < first+number; id++ {
		if h, _ := w.slurm.History(id); h.End == slurmtest.Completed &&
			!slices.ContainsFunc(h.Runs, func(r slurmtest.Run) bool { return r.Stop.IsZero() }) {
			n++
		}
	}
	return n
}

func TestOneUsersArrayEndsNobodysRounds(t *testing.T) {
	w := newWorld(t, 2, server)
	w.start(func(c slurmtest.Call, at slurmtest.Moment) error {
		if c.Verb == slurmtest.Split && at == slurmtest.Before {
			return fmt.Errorf("scontrol: no end within 15s: %w", slurm.ErrUnreachable)
		}
		return nil
	})
	other := w.submit(1, model("alexnet"), forAges)
	array := w.submit(1, model("res18"), tasks(4, 0), forAges)
	w.rounds(2)
	if j := w.job(other); j.State != slurm.Running || j.Runs.PerNode.CPUs < 3 {
		t.Errorf("another user's job: %+v", j)
	}
	if _, running, _ := w.sweepNow(array); len(running) != 4 {
		t.Errorf("of the array, which is Slurm's now, %d tasks run", len(running))
	}
}

func TestATaskThatIsGoneGivesNoArrayAway(t *testing.T) {
	w := newWorld(t, 1, server)
	failed := false
	w.start(func(c slurmtest.Call, at slurmtest.Moment) error {
		if c.Verb == slurmtest.Split && at == slurmtest.Before && !failed {
			failed = true
			return fmt.Errorf("scontrol: Invalid job id specified: %w", slurm.ErrRefused)
		}
		return nil
	})
	array := w.submit(1, model("res18"), tasks(6, 0), forAges)
	w.rounds(1)
	for range 2 {
		w.sleep(5 * time.Second)
		w.small()
	}
	if _, running, _ := w.sweepNow(array); len(running) != 6 || running[0].Runs.PerNode.CPUs == 1 {
		t.Errorf("%d tasks run: %+v", len(running), running)
	}
}

func TestHeldTasksKeepNoOtherTaskFromStarting(t *testing.T) {
	for _, c := range []struct{ tasks, atOnce int }{{6, 2}, {30, 0}} {
		w := newWorld(t, 1, server)
		w.submit(8, model("gnmt"), length(10*time.Minute))
		array := w.submit(1, model("res18"), tasks(c.tasks, c.atOnce), length(3*time.Minute))
		w.rounds(1)
		held, _, _ := w.sweepNow(array)
		for _, j := range held {
			w.slurm.Hold(j.ID)
		}
		w.rounds(20)
		waiting, running, rest := w.sweepNow(array)
		if len(held) == 0 || len(waiting) != len(held) || len(running)+rest != 0 {
			t.Errorf("%d at once: %d are held; %d wait, %d run, %d have no job of their own", c.atOnce, len(held),
				len(waiting), len(running), rest)
		}
	}
}

func TestWhatWasHandedBackMayBeDelayedByAnybody(t *testing.T) {
	w := newWorld(t, 1, server)
	w.submit(8, model("gnmt"), forAges)
	odd := w.submit(1, model("res18"), func(s *slurmtest.Spec) { s.Odd = "features joined by |" })
	w.rounds(1)
	until, j := w.clock.Now().Add(12*time.Hour), w.job(odd)
	if err := w.slurm.Update(ctx, slurm.Update{Job: odd, Begin: until, Request: j.Request,
		Extra: j.Extra}); err != nil {
		t.Fatal(err)
	}
	w.sleep(10 * time.Second)
	w.small()
	w.rounds(1)
	if j := w.job(odd); !j.Begin.Equal(until) {
		t.Errorf("an administrator delayed it to %s, now it begins at %s", until, j.Begin)
	}
}
