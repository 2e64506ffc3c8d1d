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
	"github.com/synergy-slurmd/synergy-slurmd/ledger"
)

// lens is a Slurm of which the adapter misreads something.
type lens struct {
	*slurmtest.Line
	node func(*slurm.Node)
	job  func(*slurm.Job)
}

func (l lens) Observe(ctx context.Context) (slurm.Observed, error) {
	seen, err := l.Line.Observe(ctx)
	seen.Nodes, seen.Jobs = slices.Clone(seen.Nodes), slices.Clone(seen.Jobs)
	for i := range seen.Nodes {
		if l.node != nil {
			l.node(&seen.Nodes[i])
		}
	}
	for i, j := range seen.Jobs {
		if l.job != nil {
			told := *j
			l.job(&told)
			seen.Jobs[i] = &told
		}
	}
	return seen, err
}

// Update leaves what the adapter has misread of a request as Slurm has it.
func (l lens) Update(ctx context.Context, u slurm.Update) error {
	if l.job != nil {
		u.Request.GPUType = ""
	}
	return l.Line.Update(ctx, u)
}

// closedBy is a word that no adapter knows.
func closedBy(n *slurm.Node) { n.Closed = "SOMETHING_NEW" }

// mustSayWhyItIsSlurms holds a waiting job to be eligible with its user's own request, and to say why it was handed
// back.
func (w *world) mustSayWhyItIsSlurms(id int, own slurm.Request, why string) {
	w.t.Helper()
	j := w.job(id)
	if j.State == slurm.Pending && (j.Begin.After(w.clock.Now()) || fmt.Sprint(j.Request) != fmt.Sprint(own)) {
		w.t.Errorf("job %d waits until %s with %+v, its user asked for %+v", id, j.Begin, j.Request, own)
	}
	if !strings.Contains(j.Extra, `"why":"handed back to Slurm"`) || !strings.Contains(j.Extra, why) {
		w.t.Errorf("job %d does not say that it was handed back, nor %q: %s", id, why, j.Extra)
	}
}

func TestAJobThatNoNodeIsKnownToHoldIsSlurmsWithinTwoRounds(t *testing.T) {
	for _, c := range []struct {
		name  string
		lens  lens
		why   string
		cause bridge.WaitCause
	}{
		{"an unknown word closes the node", lens{node: closedBy}, "closed (n1: SOMETHING_NEW)", bridge.CauseClosed},
		{"its GPUs are not counted", lens{node: func(n *slurm.Node) { n.Total.GPUs = 0 }}, "there is no such node",
			bridge.CauseShape},
		{"half of its GPUs are not counted", lens{node: func(n *slurm.Node) { n.Total.GPUs = 1 }},
			"there is no such node",
			bridge.CauseShape},
		{"its cores are not counted", lens{node: func(n *slurm.Node) { n.Total.CPUs = 1 }}, "more than there is",
			bridge.CauseShape},
		{"it has a type in the job alone", lens{job: func(j *slurm.Job) { j.Request.GPUType = "a100" }},
			"there is no such node", bridge.CauseShape},
		{"it lacks a feature", lens{job: func(j *slurm.Job) { j.Features = []string{"big|small"} }},
			"(big|small)", bridge.CauseShape},
		{"it is in no partition that is managed", lens{node: func(n *slurm.Node) { n.Partitions = []string{"other"} }},
			"there is no such node", bridge.CauseShape},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 1, server)
			c.lens.Line = w.line
			w.runner.Slurm = c.lens
			id := w.submit(2, "synergy-profile=unknown.json", func(s *slurmtest.Spec) { s.Request.CPUsPerTask = 4 })
			own := w.job(id).Request
			w.rounds(1)
			if j := w.job(id); j.State != slurm.Pending || !j.Begin.After(w.clock.Now()) {
				t.Errorf("one look made it Slurm's: %+v", j)
			}
			report := w.rounds(1)
			if s := step(
				t,
				report,
				id,
				bridge.Release,
			); s.Error != "" || s.Cause != c.cause ||
				!strings.Contains(s.Why, c.why) {
				t.Errorf("%+v, want it handed back for %q: %s", s, c.cause, c.why)
			}
			w.mustSayWhyItIsSlurms(id, own, c.why)
			w.mustRun(id, "n1", 4)
			if report = w.rounds(1); len(report.Steps) != 0 || len(report.Outside) != 1 ||
				!strings.Contains(report.Outside[0].Why, c.why) {
				t.Errorf("its run is not left alone: %+v, outside %+v", report.Steps, report.Outside)
			}
		})
	}
}

func TestWhatWaitsForItsTurnOrForRoomIsNeverHandedBack(t *testing.T) {
	w := newWorld(t, 2, server)
	w.slurm.Drain("n2")
	w.submit(8, model("res50"), func(s *slurmtest.Spec) { s.Work.Length = 10 * time.Hour })
	w.rounds(1)
	later := w.submit(1, model("res18"))
	depends := w.submit(1, model("res18"), func(s *slurmtest.Spec) { s.After = later })
	for range 8 {
		report := w.rounds(1)
		for _, s := range report.Steps {
			if s.Verb == bridge.Release {
				t.Fatalf("handed back: %+v", s)
			}
		}
	}
	for _, id := range []int{later, depends} {
		if j := w.job(id); !j.Begin.After(w.clock.Now()) {
			t.Errorf("job %d has no lease", id)
		}
	}
}

func TestAJobThatWasHandedBackStaysSlurmsThroughWhateverNodesAndDaemonsDo(t *testing.T) {
	for _, lost := range []bool{false, true} {
		w := newWorld(t, 1, server)
		w.slurm.Drain("n1")
		w.submit(8, "", func(s *slurmtest.Spec) { s.Lease = 0 }) // takes the node when it opens
		id := w.submit(1, model("res18"))
		own := w.job(id).Request
		w.rounds(2)
		w.mustSayWhyItIsSlurms(id, own, "closed (n1: DRAIN)")
		if lost {
			w.book = &ledger.Memory{}
		}
		w.start(nil)
		w.rounds(2)
		w.slurm.Resume("n1")
		w.rounds(2)
		w.slurm.Drain("n1")
		report := w.rounds(2)
		w.mustSayWhyItIsSlurms(id, own, "closed (n1: DRAIN)")
		if n := w.line.Count(slurmtest.Update); n != 0 {
			t.Errorf("ledger lost %v: %d updates of a job that is Slurm's: %s", lost, n, w.job(id).Extra)
		}
		if got := why(report, id); !strings.Contains(got, "closed (n1: DRAIN)") {
			t.Errorf("ledger lost %v: it is said to wait because it %s", lost, got)
		}
	}
}

func TestARunThatComesBackToTheQueueIsPlannedAgain(t *testing.T) {
	w := newWorld(t, 1, server)
	w.slurm.Drain("n1")
	id := w.submit(1, model("res18"))
	w.rounds(2)
	w.slurm.Resume("n1")
	w.rounds(2)
	w.mustRun(id, "n1", 1) // Slurm's run, as its user asked for it
	if err := w.slurm.Requeue(ctx, id); err != nil {
		t.Fatal(err)
	}
	w.rounds(2)
	w.mustRun(id, "n1", 9)
	if j := w.job(id); strings.Contains(j.Extra, "handed back") {
		t.Errorf("it still says so: %s", j.Extra)
	}
}

// TestDyingWhileAJobIsHandedBackComesToTheSameEnd: the record may lack what the annotation says, and the reverse.
func TestDyingWhileAJobIsHandedBackComesToTheSameEnd(t *testing.T) {
	for _, moment := range []slurmtest.Moment{slurmtest.Before, slurmtest.After} {
		for _, lost := range []bool{false, true} {
			w := newWorld(t, 1, server)
			w.slurm.Drain("n1")
			id := w.submit(1, model("res18"))
			own := w.job(id).Request
			w.rounds(1)
			w.start(func(c slurmtest.Call, at slurmtest.Moment) error {
				if c.Verb == slurmtest.Update && at == moment {
					return slurmtest.ErrDied
				}
				return nil
			})
			if _, err := w.runner.Round(ctx); err == nil {
				t.Fatal("it did not die")
			}
			if lost {
				w.book = &ledger.Memory{}
			}
			w.start(nil)
			w.rounds(2)
			w.mustSayWhyItIsSlurms(id, own, "closed (n1: DRAIN)")
			if n := w.line.Count(slurmtest.Update); moment == slurmtest.After && n != 0 {
				t.Errorf("%d updates of a job that had been handed back, ledger lost %v", n, lost)
			}
		}
	}
}

func TestAnArrayOfWhichATaskHasNoPlaceIsSlurmsAsAWhole(t *testing.T) {
	w := newWorld(t, 1, server)
	w.runner.Slurm = lens{Line: w.line, node: closedBy}
	array := w.submit(1, model("res18"), tasks(200, 0), length(time.Minute))
	w.rounds(2)
	w.sleep(time.Second)
	waiting, running, _ := w.sweepNow(array)
	if len(running) != 8 {
		t.Errorf("%d run, want as many as there are GPUs", len(running))
	}
	for _, j := range append(waiting, w.job(array)) {
		if j.Begin.After(w.clock.Now()) {
			t.Errorf("job %d is leased", j.ID)
		}
	}
	updates := w.line.Count(slurmtest.Update)
	w.rounds(20)
	if ended := w.ended(array, 200); ended < 150 {
		t.Errorf("%d tasks have ended", ended)
	}
	if n := w.line.Count(slurmtest.Update) - updates; n != 0 {
		t.Errorf("%d updates of tasks that are Slurm's", n)
	}
}

// TestWhatSlurmRefusesInOurSizeIsSlurmsInItsOwn: a size of ours that Slurm finds impossible is no reason to wait.
func TestWhatSlurmRefusesInOurSizeIsSlurmsInItsOwn(t *testing.T) {
	for _, c := range []struct {
		why  string
		read func(*slurm.Node)
	}{
		// at the update, and by the scheduler
		{"requested node configuration is not available", func(n *slurm.Node) { n.Total.CPUs = 48 }},
		{"BadConstraints", func(n *slurm.Node) { n.Total.Memory = 900000 }},
	} {
		w := newWorld(t, 1, server)
		w.runner.Slurm = lens{Line: w.line, node: c.read}
		id := w.submit(8, "synergy-profile=unknown.json")
		own := w.job(id).Request
		w.rounds(2)
		w.mustSayWhyItIsSlurms(id, own, c.why)
		w.mustRun(id, "n1", own.CPUs)
	}
}

func TestTheShadowSaysWhatItWouldHandBackAndWritesNothing(t *testing.T) {
	w := newWorld(t, 1, server)
	w.runner.Settings.Shadow = true
	w.slurm.Drain("n1")
	id := w.submit(1, model("res18"))
	for n := range 4 {
		report := w.rounds(1)
		if n > 0 && step(t, report, id, bridge.Release).Cause != bridge.CauseClosed {
			t.Errorf("round %d: %+v", n+1, report.Steps)
		}
	}
	if n := w.line.Count(slurmtest.Update); n != 0 {
		t.Errorf("%d updates", n)
	}
}

func TestAUserWhoWritesThatHisJobIsSlurmsOptsOutAndBreaksNothing(t *testing.T) {
	w := newWorld(t, 1, server)
	id := w.submit(1, model("res18"))
	for _, extra := range []string{
		`{"v":1,"job":%d,"why":"handed back to Slurm","slurms":{"cause":"shape","wait":7}}`, // of another wait
		`{"v":1,"job":%d,"slurms":{"cause":"turn","wait":0}}`,
		`{"v":1,"job":%d,"slurms":[0]}`,
		`{"v":1,"job":7%d,"slurms":{"cause":"shape","wait":0}}`,
	} {
		w.slurm.SetExtra(id, fmt.Sprintf(extra, id))
		if report := w.round(); len(report.Outside) != 0 {
			t.Errorf("%s: left to Slurm: %+v", extra, report.Outside)
		}
	}
	w.mustRun(id, "n1", 9)
	out := w.submit(1, model("res18"))
	w.slurm.SetExtra(out, fmt.Sprintf(`{"v":1,"job":%d,"slurms":{"cause":"shape","wait":0}}`, out))
	w.rounds(1)
	w.mustRun(out, "n1", 1)
}
