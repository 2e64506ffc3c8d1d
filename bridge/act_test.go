package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// oneGPU is a server on which one job must leave for another.
var oneGPU = gres.Vector{GPUs: 1, CPUs: 3, Memory: 62500}

// challenge submits a job, lets it run, and submits one that has had less service: the next round stops the first for
// the second.
func challenge(w *world, comment string, change ...func(*slurmtest.Spec)) (first, second int) {
	w.t.Helper()
	w.runner.Settings.Policy = policy.LAS()
	first = w.submit(1, comment, change...)
	w.rounds(2)
	return first, w.submit(1, model("gnmt"))
}

func saves(d time.Duration) func(*slurmtest.Spec) {
	return func(s *slurmtest.Spec) { s.Work.Save = d }
}

func hangs(s *slurmtest.Spec) { s.Work.OnSignal = slurmtest.Hangs }

// upon is a fault that strikes once, at a moment of the first call of that verb for that job.
func upon(verb slurmtest.Verb, job int, moment slurmtest.Moment, do func() error) slurmtest.Fault {
	struck := false
	return func(c slurmtest.Call, at slurmtest.Moment) error {
		if struck || c.Verb != verb || c.Job != job || at != moment {
			return nil
		}
		struck = true
		return do()
	}
}

func die() error { return slurmtest.ErrDied }

// mustKeepAll checks that the jobs lost nothing of what they had done.
func (w *world) mustKeepAll(ids ...int) {
	w.t.Helper()
	for _, id := range ids {
		past, _ := w.slurm.History(id)
		for _, run := range past.Runs {
			if run.Lost != 0 {
				w.t.Errorf("job %d lost %s of progress", id, run.Lost)
			}
		}
	}
}

// mustBeAsSubmitted checks that no waiting job carries anything but its user's own request.
func (w *world) mustBeAsSubmitted() {
	w.t.Helper()
	for _, id := range w.slurm.Altered() {
		w.t.Errorf("job %d waits with %+v, which its user did not ask for", id, w.job(id).Request)
	}
}

// record is what the ledger knows of a job.
func (w *world) record(id int) bridge.Record {
	w.t.Helper()
	records, _, err := w.book.Load()
	if err != nil {
		w.t.Fatal(err)
	}
	return *records.Of(id)
}

// Nobody can know whether the signal was sent; to be asked twice while it saves does a job no harm, to be stopped
// unasked does.
func TestAVictimOfADaemonThatDiedIsAskedAgainAndKeepsAll(t *testing.T) {
	w := newWorld(t, 1, oneGPU)
	first, second := challenge(w, model("gnmt"), saves(20*time.Second))
	w.start(upon(slurmtest.Signal, first, slurmtest.After, die))
	if _, err := w.runner.Round(ctx); !errors.Is(err, slurmtest.ErrDied) {
		t.Fatalf("round: %v, want it to die", err)
	}
	w.sleep(5 * time.Second)
	w.start(nil)
	report := w.round()
	if s := step(t, report, first, bridge.Preempt); s.Error != "" || w.line.Count(slurmtest.Signal) != 1 ||
		w.line.Count(slurmtest.Requeue) != 0 {
		t.Errorf("signalled %d times more, requeued %d times: %+v", w.line.Count(slurmtest.Signal),
			w.line.Count(slurmtest.Requeue), s)
	}
	w.mustRun(second, "n1", 1)
	w.mustKeepAll(first)
}

func TestTheGraceOfAVictimCountsFromWhenItWasSurelyAsked(t *testing.T) {
	w := newWorld(t, 1, oneGPU)
	first, _ := challenge(w, model("gnmt"), hangs)
	w.start(upon(slurmtest.Signal, first, slurmtest.After, die))
	asked := w.clock.Now()
	if _, err := w.runner.Round(ctx); !errors.Is(err, slurmtest.ErrDied) {
		t.Fatalf("round: %v, want it to die", err)
	}
	w.sleep(20 * time.Second)
	w.start(nil)
	w.round()
	past, _ := w.slurm.History(first)
	if took := past.Runs[0].Stop.Sub(asked); took != 50*time.Second {
		t.Errorf(
			"stopped by force %s after it was asked first, and 20 s less after it was asked again; its grace is 30 s",
			took)
	}
}

func TestAVictimThatSavesLongerThanARoundHoldsNoRoundUp(t *testing.T) {
	w := newWorld(t, 1, oneGPU)
	first, second := challenge(w, "synergy-profile=gnmt.json synergy-checkpoint=USR1@600", saves(400*time.Second))
	began := w.clock.Now()
	report := w.round()
	if took := w.clock.Now().Sub(began); took != 300*time.Second {
		t.Errorf("a round of %s, the next one is due after 300 s", took)
	}
	if s := step(t, report, first, bridge.Preempt); s.Error != "not done before the next round was due" {
		t.Errorf("preempt: %q", s.Error)
	}
	if s := step(t, report, second, bridge.Start); !s.PutOff || s.Error != "" {
		t.Errorf("a start that was not sent: %+v, want it put off", s)
	}
	if w.round(); w.line.Count(slurmtest.Signal) != 1 {
		t.Errorf("signalled %d times", w.line.Count(slurmtest.Signal))
	}
	w.mustRun(second, "n1", 1)
	w.mustKeepAll(first)
}

func TestAStartWaitsAsLongAsItsVictimSaves(t *testing.T) {
	w := newWorld(t, 1, oneGPU)
	first, second := challenge(w, model("gnmt"), saves(25*time.Second))
	report := w.round()
	if s := step(t, report, second, bridge.Start); s.Error != "" || s.Took < 25*time.Second {
		t.Errorf("start: %+v, want it after the 25 s that the victim saves", s)
	}
	w.mustKeepAll(first)
}

func TestAVictimThatLeavesInTheLastSecondOfItsGraceIsNotForced(t *testing.T) {
	w := newWorld(t, 1, oneGPU)
	_, second := challenge(w, model("gnmt"), saves(29500*time.Millisecond))
	w.round()
	if n := w.line.Count(slurmtest.Requeue); n != 0 {
		t.Errorf("%d requeues of a victim that has left after 29.5 s of 30", n)
	}
	w.mustRun(second, "n1", 1)
}

func TestAStartWaitsForATeardownThatIsNotOurs(t *testing.T) {
	w := newWorld(t, 1, server)
	other := w.submit(1, "", func(s *slurmtest.Spec) { s.Lease, s.Work.OnTerm = 0, slurmtest.Hangs })
	w.sleep(time.Minute)
	w.slurm.Cancel(other) // and it holds its node for 30 s
	id := w.submit(1, model("res18"))
	report := w.round()
	if s := step(t, report, id, bridge.Start); s.Error != "" || s.Took < 30*time.Second {
		t.Errorf("start: %+v", s)
	}
	w.mustRun(id, "n1", 9)
}

func TestAWinnerStartsWhenTheLastOfItsVictimsHasLeft(t *testing.T) {
	for nodes, total := range map[int]gres.Vector{1: {GPUs: 2, CPUs: 6, Memory: 125000}, 2: oneGPU} {
		t.Run(fmt.Sprintf("on %d nodes", nodes), func(t *testing.T) {
			w := newWorld(t, nodes, total)
			w.runner.Settings.Policy = policy.LAS()
			quick, slow := w.submit(1, model("gnmt"), saves(time.Second)),
				w.submit(1, model("gnmt"), saves(25*time.Second))
			w.rounds(2)
			winner := w.submit(2, model("gnmt"), func(s *slurmtest.Spec) { s.Request.Nodes, s.Request.Tasks = nodes, nodes })
			report := w.round()
			if s := step(t, report, winner, bridge.Start); s.Error != "" || s.Took < 25*time.Second {
				t.Errorf("start: %+v", s)
			}
			if j := w.job(winner); j.State != slurm.Running || len(j.Runs.Nodes) != nodes ||
				j.Request.CPUs != nodes*j.Runs.PerNode.CPUs {
				t.Errorf("winner: %+v", j)
			}
			w.mustKeepAll(quick, slow)
			w.mustBeAsSubmitted()
		})
	}
}

func TestARestartInPlaceGivesAJobAnotherSizeAndLosesNothing(t *testing.T) {
	w := newWorld(t, 1, server)
	first := w.submit(1, model("alexnet"))
	w.rounds(2)
	before := w.job(first).Runs.PerNode.CPUs
	for range 7 {
		w.submit(1, model("res18"))
	}
	report := w.rounds(1)
	step(t, report, first, bridge.Preempt)
	start := step(t, report, first, bridge.Start)
	j := w.job(first)
	if j.State != slurm.Running || j.Runs.PerNode != start.Grant.PerNode || j.Runs.PerNode.CPUs >= before ||
		j.Restarts != 1 {
		t.Errorf("%+v, want it running with less than %d cores, once restarted", j, before)
	}
	w.mustKeepAll(first)
}

func TestAJobThatIsCancelledMeanwhileIsInNobodysWay(t *testing.T) {
	for _, c := range []struct {
		name   string
		cancel int // the first is the victim, the second takes its place
		verb   slurmtest.Verb
		at     slurmtest.Moment
	}{
		{"victim, before it is asked to leave", 1, slurmtest.Signal, slurmtest.Before},
		{"victim, while it saves", 1, slurmtest.Signal, slurmtest.After},
		{"victim, before its request is restored", 1, slurmtest.Update, slurmtest.Before},
		{"winner, before its start", 2, slurmtest.Update, slurmtest.Before},
		{"winner, after its start", 2, slurmtest.Update, slurmtest.After},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 1, oneGPU)
			first, second := challenge(w, model("gnmt"))
			w.start(upon(c.verb, c.cancel, c.at, func() error {
				w.slurm.Cancel(c.cancel)
				return nil
			}))
			report := w.rounds(1)
			if s := step(t, report, first, bridge.Preempt); s.Error != "" {
				t.Errorf("preempt: %+v", s)
			}
			if c.verb == slurmtest.Signal && w.line.Count(slurmtest.Update) != 1 {
				t.Errorf("%d updates, want the one start: nothing is said to a job that is over",
					w.line.Count(slurmtest.Update))
			}
			w.rounds(1)
			if past, _ := w.slurm.History(c.cancel); past.End != slurmtest.Cancelled {
				t.Errorf("job %d ended %q", c.cancel, past.End)
			}
			w.mustRun(first+second-c.cancel, "n1", 1)
		})
	}
}

func TestAJobThatIsCancelledBeforeItsLeaseIsSaidEndsOnlyItsOwnStep(t *testing.T) {
	w := newWorld(t, 1, server)
	w.submit(8, model("res50"))
	gone, other := w.submit(1, model("res18")), w.submit(1, model("res18"))
	w.start(upon(slurmtest.Update, gone, slurmtest.Before, func() error {
		w.slurm.Cancel(gone)
		return nil
	}))
	report := w.round()
	if s := step(t, report, gone, bridge.Renew); !strings.Contains(s.Error, "not pending") {
		t.Errorf("renewed the lease of a job that is over: %+v", s)
	}
	if s := step(t, report, other, bridge.Renew); s.Error != "" {
		t.Errorf("the other: %+v", s)
	}
}

func TestAVictimThatSlurmHasForgottenHasLeft(t *testing.T) {
	for _, verb := range []slurmtest.Verb{slurmtest.Signal, slurmtest.Update} {
		w := newWorld(t, 1, oneGPU)
		first, second := challenge(w, model("gnmt"))
		w.start(upon(verb, first, slurmtest.Before, func() error {
			w.slurm.Cancel(first)
			return fmt.Errorf("%s: %w", verb, slurm.ErrGone)
		}))
		if s := step(t, w.round(), first, bridge.Preempt); s.Error != "" {
			t.Errorf("preempt: %+v", s)
		}
		w.mustRun(second, "n1", 1)
	}
}

func TestTheHookIsToldWhoLeftWhereAlsoOfAJobThatIsOver(t *testing.T) {
	w := newWorld(t, 1, oneGPU)
	first, second := challenge(w, model("gnmt"), func(s *slurmtest.Spec) { s.Work.OnTerm = slurmtest.Dies })
	h := &hook{}
	w.runner.Settings.Hook = h
	w.start(upon(slurmtest.Signal, first, slurmtest.Before, func() error {
		w.slurm.Cancel(first)
		return nil
	}))
	w.round()
	if want := []string{"before 1 RUNNING", "after 1 FINISHED on n1"}; !slices.Equal(h.said, want) {
		t.Errorf("said %q, want %q", h.said, want)
	}
	w.mustRun(second, "n1", 1)
}

func TestWhatTheHookComplainsOfAfterwardsStandsInTheStep(t *testing.T) {
	w := newWorld(t, 1, oneGPU)
	first, _ := challenge(w, model("gnmt"))
	w.runner.Settings.Hook = &hook{complain: errors.New("the copy failed")}
	if s := step(t, w.round(), first, bridge.Preempt); s.Error != "checkpoint hook: the copy failed" {
		t.Errorf("preempt: %+v", s)
	}
	w.mustBeAsSubmitted()
}

func TestAVictimThatCouldNotBeAskedIsAskedInTheNextRound(t *testing.T) {
	w := newWorld(t, 1, oneGPU)
	first, second := challenge(w, model("gnmt"), func(s *slurmtest.Spec) { s.Work.OnTerm = slurmtest.Dies })
	w.start(upon(slurmtest.Signal, first, slurmtest.Before, func() error { return slurm.ErrRefused }))
	if s := step(t, w.rounds(1), second, bridge.Start); s.Error != "its place was not freed" {
		t.Errorf("start: %+v", s)
	}
	w.rounds(1)
	w.mustRun(second, "n1", 1)
	w.mustKeepAll(first)
}

func TestAVictimThatItsUserHoldsMeanwhileStillMakesRoom(t *testing.T) {
	w := newWorld(t, 1, oneGPU)
	first, second := challenge(w, model("gnmt"))
	w.start(upon(slurmtest.Signal, first, slurmtest.After, func() error {
		w.slurm.Hold(first)
		return nil
	}))
	w.round()
	w.mustRun(second, "n1", 1)
	w.mustKeepAll(first)
}

// displace has the next round stop two jobs on the first of two nodes for one that needs all of it, and move the second
// of them to the other node.
func displace(w *world, change ...func(*slurmtest.Spec)) (moved, winner int) {
	w.t.Helper()
	w.runner.Settings.Policy = policy.SRTF()
	w.submit(3, model("gnmt")+" synergy-length=10h")
	moved = w.submit(1, model("gnmt")+" synergy-length=9h", change...)
	w.rounds(2)
	w.submit(3, model("gnmt")+" synergy-length=8h")
	w.rounds(1)
	return moved, w.submit(4, model("gnmt")+" synergy-length=1h")
}

func TestAJobIsNotStartedElsewhereUnlessItsLastRunWasStopped(t *testing.T) {
	w := newWorld(t, 2, small)
	moved, winner := displace(w)
	w.runner.Settings.Hook = &hook{refuse: errors.New("the file system is full")}
	began := w.clock.Now()
	report := w.round()
	if s := step(t, report, moved, bridge.Start); s.Error != "its place was not freed" ||
		slices.Equal(s.Grant.Nodes, w.job(moved).Runs.Nodes) {
		t.Errorf("start of the job that was to move: %+v to %+v", s, s.Grant)
	}
	if s := step(t, report, winner, bridge.Start); s.Error != "its place was not freed" {
		t.Errorf("start of the winner: %+v", s)
	}
	if took := w.clock.Now().Sub(began); took > 5*time.Second {
		t.Errorf("known after %s", took)
	}
}

func TestAJobMovesToAFreeNodeWhenItsLastRunIsCleanedUp(t *testing.T) {
	w := newWorld(t, 2, small)
	w.runner.Settings.Poll = 100 * time.Millisecond
	moved, winner := displace(w, saves(10*time.Second))
	report := w.round()
	for _, id := range []int{moved, winner} {
		if s := step(t, report, id, bridge.Start); s.Error != "" || s.Took < 10*time.Second || s.Took > 13*time.Second {
			t.Errorf("start of job %d: %+v, the one that moves saves for 10 s", id, s)
		}
	}
	w.mustRun(moved, "n2", 1)
	w.mustRun(winner, "n1", 4)
	w.mustKeepAll(moved)
}

func TestAJobWhoseStartsFailIsTriedLessAndLessOften(t *testing.T) {
	w := newWorld(t, 1, server)
	id := w.submit(1, model("res18"))
	broken := true
	w.start(func(c slurmtest.Call, at slurmtest.Moment) error {
		if broken && at == slurmtest.Before && c.Verb == slurmtest.Update {
			w.slurm.Drain("n1") // behind the back of every round
		}
		return nil
	})
	var tried []int
	for n := 1; n <= 12; n++ {
		report := w.round()
		for _, s := range report.Steps {
			if s.Verb == bridge.Start {
				tried = append(tried, n)
			}
		}
		w.mustBeAsSubmitted()
		w.slurm.Resume("n1")
		w.sleep(epoch.Add(time.Duration(n) * 300 * time.Second).Sub(w.clock.Now()))
	}
	if want := []int{1, 2, 4, 7, 11}; !slices.Equal(tried, want) {
		t.Errorf("tried in rounds %v, want %v", tried, want)
	}
	broken = false
	w.rounds(4)
	w.mustRun(id, "n1", 9)
	if rec := w.record(id); rec.Failed != 0 || !rec.FailedAt.IsZero() || rec.Starts != 1 {
		t.Errorf("after it has started: %+v, want the failures forgotten", rec)
	}
}

// tooLate is what is said of a start on a node that was drained in the same moment.
const tooLate = "did not start within 20s (ReqNodeNotAvail: the node is down, drained or reserved for others)"

func TestAFailedStartIsTakenBackLongBeforeTheRoundIsOver(t *testing.T) {
	w := newWorld(t, 1, oneGPU)
	first, second := challenge(w, model("gnmt"))
	w.start(upon(slurmtest.Signal, first, slurmtest.After, func() error {
		w.slurm.Drain("n1")
		return nil
	}))
	began := w.clock.Now()
	report := w.round()
	if s := step(t, report, second, bridge.Start); s.Error != tooLate || s.Took != 23*time.Second {
		t.Errorf("start on a drained node, after a victim that had left after 3 s: %+v", s)
	}
	if took := w.clock.Now().Sub(began); took > 30*time.Second {
		t.Errorf("known after %s", took)
	}
	if extra := w.job(second).Extra; !strings.Contains(extra, tooLate+"; it is tried again") {
		t.Errorf("its user is told %s", extra)
	}
	w.mustBeAsSubmitted()
	w.slurm.Resume("n1")
	w.rounds(2)
	w.mustRun(second, "n1", 1)
	w.mustKeepAll(first)
}

func TestTheAuditOfAStepTellsAllThatWasWritten(t *testing.T) {
	w := newWorld(t, 1, server)
	id := w.submit(1, model("res18"))
	w.start(upon(slurmtest.Update, id, slurmtest.Before, func() error {
		w.slurm.Drain("n1")
		return nil
	}))
	want := []bridge.Change{
		{Field: "cpus_per_task", Old: "1", New: "9"}, {Field: "cpus", Old: "1", New: "9"},
		{Field: "cpus_per_node", Old: "1", New: "9"},
		{Field: "memory_per_node", Old: "1000M", New: "62500M"}, {Field: "required_nodes", Old: "", New: "n1"},
		{Field: "begin_time", Old: "2026-01-01T12:15:00Z", New: "2026-01-01T12:00:00Z"},
		{Field: "cpus_per_task", Old: "9", New: "1"}, {Field: "cpus", Old: "9", New: "1"},
		{Field: "cpus_per_node", Old: "9", New: "1"},
		{Field: "memory_per_node", Old: "62500M", New: "1000M"}, {Field: "required_nodes", Old: "n1", New: ""},
		{Field: "begin_time", Old: "at once", New: "2026-01-01T12:15:27Z"},
	}
	if s := step(t, w.round(), id, bridge.Start); !slices.Equal(s.Changes, want) {
		t.Errorf("a start that was taken back:\n%v, want\n%v", s.Changes, want)
	}
}

func TestNoStartIsLeftBehindWhenTheNextRoundIsDue(t *testing.T) {
	w := newWorld(t, 1, oneGPU)
	first, second := challenge(w, "synergy-profile=gnmt.json synergy-checkpoint=USR1@600", saves(290*time.Second))
	w.start(upon(slurmtest.Signal, first, slurmtest.After, func() error {
		w.slurm.Drain("n1")
		return nil
	}))
	w.round()
	w.mustBeAsSubmitted()
	if j := w.job(second); !j.Begin.After(w.clock.Now()) || w.record(second).Failed != 1 {
		t.Errorf("begins at %s, after %d failed starts", j.Begin, w.record(second).Failed)
	}
}

func TestAStartThatComesAboutWhileItIsTakenBackStands(t *testing.T) {
	w := newWorld(t, 1, server)
	id := w.submit(1, model("res18"))
	w.start(func(c slurmtest.Call, at slurmtest.Moment) error {
		switch {
		case c.Verb != slurmtest.Update || at == slurmtest.After:
		case len(c.Update.Request.Pin) > 0:
			w.slurm.Drain("n1")
		default: // the taking back
			w.slurm.Resume("n1")
			w.sleep(10 * time.Millisecond)
		}
		return nil
	})
	if s := step(t, w.rounds(1), id, bridge.Start); s.Error != "" {
		t.Errorf("start: %+v", s)
	}
	w.mustRun(id, "n1", 9)
	if report := w.rounds(1); len(report.Steps) != 0 {
		t.Errorf("steps %+v for a job that runs as it should", report.Steps)
	}
}

func TestAStartThatCannotBeTakenBackIsTakenBackByTheNextRound(t *testing.T) {
	w := newWorld(t, 1, server)
	id := w.submit(1, model("res18"))
	refusals := 0
	w.start(func(c slurmtest.Call, at slurmtest.Moment) error {
		switch {
		case c.Verb != slurmtest.Update || at == slurmtest.After:
		case len(c.Update.Request.Pin) > 0:
			w.slurm.Drain("n1")
		case refusals == 0:
			refusals++
			return slurm.ErrRefused
		}
		return nil
	})
	if s := step(t, w.rounds(1), id, bridge.Start); s.Error != slurm.ErrRefused.Error() {
		t.Errorf("start: %+v", s)
	}
	w.round()
	w.mustBeAsSubmitted()
	if j := w.job(id); !j.Begin.After(w.clock.Now()) {
		t.Errorf("waits without a lease: %+v", j)
	}
}

func TestAJobThatEndsBeforeAnybodyLooksHasStarted(t *testing.T) {
	w := newWorld(t, 1, server)
	w.runner.Settings.Poll = 10 * time.Minute
	w.runner.Settings.Round, w.runner.Settings.Lease = time.Hour, 3*time.Hour
	id := w.submit(1, model("res18"), length(time.Second))
	if s := step(t, w.round(), id, bridge.Start); s.Error != "" || w.line.Count(slurmtest.Update) != 1 {
		t.Errorf("start of a job of a second: %+v", s)
	}
}

func TestWhatConcernsAllJobsEndsTheRoundAndTheNextOneGoesOn(t *testing.T) {
	const first, second, third = 1, 2, 3
	for _, fault := range []error{slurm.ErrDenied, slurm.ErrUnreachable} {
		for _, c := range []struct {
			name string
			verb slurmtest.Verb
			job  int
		}{
			{"the lease of one that waits", slurmtest.Update, third},
			{"asking a victim", slurmtest.Signal, first},
			{"stopping a victim by force", slurmtest.Requeue, first},
			{"restoring a victim", slurmtest.Update, first},
			{"a start", slurmtest.Update, second},
		} {
			t.Run(fmt.Sprintf("%s: %v", c.name, fault), func(t *testing.T) {
				w := newWorld(t, 1, oneGPU)
				challenge(w, model("gnmt"), hangs)
				w.submit(1, model("gnmt"))
				w.start(upon(c.verb, c.job, slurmtest.Before, func() error { return fault }))
				if _, err := w.runner.Round(ctx); !errors.Is(err, fault) {
					t.Errorf("round: %v, want %v", err, fault)
				}
				calls := w.line.Calls()
				if last := calls[len(calls)-1]; last.Verb != c.verb || last.Job != c.job {
					t.Errorf("went on with %+v", last)
				}
				w.sleep(time.Minute)
				w.start(nil)
				w.rounds(1)
				w.mustRun(second, "n1", 1)
				w.mustBeAsSubmitted()
			})
		}
	}
}

func TestARoundThatSlurmLeavesSaysSoOfOneJob(t *testing.T) {
	w := newWorld(t, 1, server)
	w.runner.Settings.Parallel = 8
	for range 20 {
		w.submit(1, model("gnmt"))
	}
	var sent atomic.Int32
	several := make(chan struct{})
	w.start(func(call slurmtest.Call, _ slurmtest.Moment) error {
		if call.Verb != slurmtest.Update {
			return nil
		}
		if sent.Add(1) == 4 {
			close(several)
		}
		<-several // they fail together
		return slurm.ErrUnreachable
	})
	if _, err := w.runner.Round(ctx); !errors.Is(err, slurm.ErrUnreachable) ||
		strings.Count(err.Error(), "job ") != 1 {
		t.Errorf("the round ended with\n%v", err)
	}
	if tried := sent.Load(); tried > 8 {
		t.Errorf("%d updates were sent to a Slurm that is not there", tried)
	}
}

func TestARoundThatIsToldToStopIsTakenUpByTheNext(t *testing.T) {
	w := newWorld(t, 1, oneGPU)
	first, second := challenge(w, model("gnmt"), saves(20*time.Second))
	stoppable, stop := context.WithCancel(ctx)
	w.start(upon(slurmtest.Signal, first, slurmtest.After, func() error {
		stop()
		return nil
	}))
	began := w.clock.Now()
	if _, err := w.runner.Round(stoppable); !errors.Is(err, context.Canceled) || !w.clock.Now().Equal(began) {
		t.Errorf("round: %v after %s, want it to end at once", err, w.clock.Now().Sub(began))
	}
	if calls := w.line.Calls(); calls[len(calls)-1].Verb != slurmtest.Signal {
		t.Errorf("went on: %+v", calls)
	}
	w.round()
	if n := w.line.Count(slurmtest.Signal); n != 1 {
		t.Errorf("%d signals in both rounds", n)
	}
	w.mustRun(second, "n1", 1)
	w.mustKeepAll(first)
}

func TestCallsInFlightAreBoundedAndEveryJobIsStartedOnce(t *testing.T) {
	w := newWorld(t, 4, server)
	w.runner.Settings.Parallel = 4
	var flying atomic.Int32
	w.start(func(c slurmtest.Call, at slurmtest.Moment) error {
		switch {
		case c.Verb != slurmtest.Update:
		case at == slurmtest.After:
			flying.Add(-1)
		case flying.Add(1) > 4:
			t.Errorf("%d calls in flight, want at most 4", flying.Load())
		}
		return nil
	})
	var ids []int
	for range 32 {
		ids = append(ids, w.submit(1, model("gnmt")))
	}
	w.round()
	for _, id := range ids {
		if j := w.job(id); j.State != slurm.Running {
			t.Errorf("job %d is %s", id, j.State)
		}
	}
	if n := w.line.Count(slurmtest.Update); n != 32 {
		t.Errorf("%d updates for 32 starts", n)
	}
}
