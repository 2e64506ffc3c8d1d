package bridge_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

func atTerminal(s *slurmtest.Spec) { s.Interactive = true }

// A shorter job comes, and the administrator allows jobs to be stopped that save nothing.
func TestAnInteractiveJobIsSizedAtItsStartAndThenLeftAlone(t *testing.T) {
	for _, words := range []string{"synergy-profile=res18.json synergy-length=10h",
		model("res18") + " synergy-length=10h"} {
		w := newWorld(t, 1, gres.Vector{GPUs: 1, CPUs: 9, Memory: 62500})
		w.runner.Settings.Policy, w.runner.Settings.PreemptWithoutCheckpoint = policy.SRTF(), true
		first := w.submit(1, words, atTerminal)
		w.rounds(2)
		w.mustRun(first, "n1", 9)
		second := w.submit(1, "synergy-profile=res18.json synergy-length=30m")
		report := w.rounds(3)
		w.mustRun(first, "n1", 9)
		if n := w.line.Count(slurmtest.Signal) + w.line.Count(slurmtest.Requeue); n != 0 {
			t.Errorf("%q: it was asked to leave %d times", words, n)
		}
		if report.Snapshot.Jobs[0].Saves {
			t.Errorf("%q: the planner counts on its giving back", words)
		}
		if w.job(second).State != slurm.Pending || len(report.Outside) != 0 {
			t.Errorf("%q: the other is %s, left alone are %+v", words, w.job(second).State, report.Outside)
		}
	}
}

// With srun -c 4 and nothing else two tasks would start in nine cores.
func TestAnInteractiveJobHasExactlyTheCoresThatWereTyped(t *testing.T) {
	for extra, want := range map[string]int{`"cpus":1,"mem":1`: 4, `"mem":1`: 9} {
		w := newWorld(t, 1, server)
		w.runner.Settings.Rules.Stranded = policy.DefaultStranded // it cannot give back
		id := w.submit(1, "synergy-profile=res18.json synergy-cores=give", atTerminal,
			func(s *slurmtest.Spec) { s.Request.CPUsPerTask = 4 })
		w.slurm.SetExtra(id, fmt.Sprintf(`{"v":1,"lua":1,"begin":0,%s}`, extra))
		w.round()
		w.mustRun(id, "n1", want)
	}
}

// Who dies while it waits, or with its node, is gone for good.
func TestAnInteractiveJobThatIsGoneLeavesNothingBehind(t *testing.T) {
	w := newWorld(t, 1, server)
	waits := w.submit(8, model("res18"), atTerminal)
	w.slurm.Drain("n1")
	w.rounds(1)
	w.slurm.Cancel(waits)
	w.slurm.Resume("n1")
	runs := w.submit(8, "synergy-profile=res18.json", atTerminal)
	w.rounds(1)
	if j := w.job(runs); j.State != slurm.Running {
		t.Fatalf("%+v", j)
	}
	w.slurm.Down("n1")
	w.rounds(2)
	w.sleep(time.Hour) // until Slurm tells of them no more
	w.rounds(1)
	if records, _, _ := w.book.Load(); len(records) != 0 || w.job(runs).State != slurm.Finished {
		t.Errorf("it is %s, remembered are %+v", w.job(runs).State, records)
	}
}
