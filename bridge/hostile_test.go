package bridge_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/ledger"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// lies are the profiles of the paper, and one that claims a hundredfold with 24 cores.
func (w *world) lies(name string) (*sensitivity.Profile, error) {
	if name != "liar.json" {
		return w.profile(name)
	}
	return &sensitivity.Profile{
		Version: 1, Model: "liar", Batch: 10, CoresPerGPU: []float64{3, 24}, MemoryPerGPU: []gres.Memory{1000},
		Throughput: [][]float64{{10}, {1000}}, CheckpointSeconds: 10, StartSeconds: 20,
	}, nil
}

// train lets a running job report now that it has done so much a second since the epoch.
func (w *world) train(id int, perSecond float64) {
	if j := w.job(id); j.State == slurm.Running {
		words, _, _ := strings.Cut(j.Comment, " synergy-progress")
		now := w.clock.Now()
		w.slurm.SetComment(id, fmt.Sprintf("%s synergy-progress=%d@%d", words,
			int64(now.Sub(epoch).Seconds()*perSecond), now.Unix()))
	}
}

// TestALiarGetsTheMostAndTheShareAgainWhenItsSpeedSaysOtherwise: one liar among four hungry jobs on a server has all
// that the shares leave over, reports one iteration a second where it claims many, and goes back to its share; the
// others grow. So it stays when the daemon is started anew, with its ledger and without. A truthful job that reports
// keeps its demand.
func TestALiarGetsTheMostAndTheShareAgainWhenItsSpeedSaysOtherwise(t *testing.T) {
	w := newWorld(t, 1, server)
	w.runner.Settings.Audit = 2 * time.Minute
	w.runner.Profiles = w.lies
	long := func(s *slurmtest.Spec) { s.Work.Length = 1000 * time.Hour }
	lying := w.submit(1, model("liar")+" synergy-progress", long)
	honest := w.submit(1, model("res18")+" synergy-progress", long)
	var hungry []int
	for range 3 {
		hungry = append(hungry, w.submit(1, model("res18"), long))
	}
	w.rounds(1)
	if most := w.job(lying).Runs.PerNode.CPUs; most < 9 {
		t.Fatalf("the liar has %d cores, want most of what the shares leave over", most)
	}
	for _, id := range append(hungry, honest) {
		if cores := w.job(id).Runs.PerNode.CPUs; cores < 3 {
			t.Errorf("beside the liar job %d has %d cores, it is owed 3", id, cores)
		}
	}
	var report bridge.Report
	for range 8 {
		w.train(lying, 1)
		w.train(honest, 3)
		report = w.rounds(1)
	}
	cores := w.job(lying).Runs.PerNode.CPUs
	if cores != 3 {
		t.Errorf("the liar has %d cores after it was found out, want its share of 3", cores)
	}
	if cores := w.job(honest).Runs.PerNode.CPUs; cores < 4 {
		t.Errorf("the truthful job has %d cores, want part of what the liar had", cores)
	}
	if len(report.Contradicting) != 1 || report.Contradicting[0].Job != lying {
		t.Errorf("reported: %+v", report.Contradicting)
	}
	if extra := w.job(lying).Extra; !strings.Contains(extra, `"found":{"ran":1`) ||
		!strings.Contains(extra, "iterations/s where its profile says") {
		t.Errorf("its annotation does not say so: %s", extra)
	}
	for name, book := range map[string]*ledger.Memory{"with its ledger": w.book, "without": {}} {
		w.book = book
		w.start(nil)
		w.runner.Profiles = w.lies
		report := w.rounds(2)
		if cores := w.job(lying).Runs.PerNode.CPUs; cores != 3 || len(report.Contradicting) != 1 {
			t.Errorf("after a restart %s it has %d cores, reported %+v", name, cores, report.Contradicting)
		}
	}
}

// TestAJobThatExitsForARequeueByItselfIsStartedLessAndLessOften: it exits with the requeue code ten seconds into every
// run.
func TestAJobThatExitsForARequeueByItselfIsStartedLessAndLessOften(t *testing.T) {
	w := newWorld(t, 1, server)
	long := func(s *slurmtest.Spec) { s.Work.Length = 1000 * time.Hour }
	loop := w.submit(1, model("res18"), long)
	other := w.submit(1, model("res18"), long)
	var last bridge.Report
	for range 100 {
		began := w.clock.Now()
		last = w.round()
		for w.clock.Now().Sub(began) < w.runner.Settings.Round-10*time.Second {
			w.sleep(10 * time.Second)
			if w.job(loop).State == slurm.Running { // Slurm may have started it, too
				w.slurm.Kill(loop)
			}
		}
		w.sleep(w.runner.Settings.Round - w.clock.Now().Sub(began))
	}
	past, _ := w.slurm.History(loop)
	t.Logf("%d runs in 100 rounds", len(past.Runs))
	if runs := len(past.Runs); runs < 5 || runs > 40 {
		t.Errorf("it was started %d times in 100 rounds", runs)
	}
	told := false
	for _, n := range last.Notes {
		told = told || n.Job == loop && strings.Contains(n.Text, "requeue exit code")
	}
	if !told {
		t.Errorf("its user is not told: %+v", last.Notes)
	}
	if past, _ := w.slurm.History(other); len(past.Runs) != 1 || w.record(other).Returned != 0 {
		t.Errorf("the other job ran %d times, %d returns are counted", len(past.Runs), w.record(other).Returned)
	}
}

func TestAJobThatIsAskedToLeaveAgainAndAgainIsNotHeldBack(t *testing.T) {
	w := newWorld(t, 1, oneGPU)
	w.runner.Settings.Policy = policy.By("by turns", func(_ *policy.Cluster, j *policy.Job) float64 { return j.Attained }, nil)
	long := func(s *slurmtest.Spec) { s.Work.Length = 1000 * time.Hour }
	first, second := w.submit(1, model("res18"), long), w.submit(1, model("gnmt"), long)
	w.rounds(60)
	past, _ := w.slurm.History(first)
	if len(past.Runs) < 6 {
		t.Fatalf("the jobs took turns %d times, want more", len(past.Runs))
	}
	for _, id := range []int{first, second} {
		if rec := w.record(id); rec.Returned != 0 {
			t.Errorf("job %d left %d times when it was asked, %d times are counted against it", id, len(past.Runs)-1,
				rec.Returned)
		}
	}
}

// TestALedgerOfBeforeTheAuditCountsNothingAgainstAJob: nothing is known there of the restarts that a job has had.
func TestALedgerOfBeforeTheAuditCountsNothingAgainstAJob(t *testing.T) {
	w := newWorld(t, 1, server)
	id := w.submit(1, model("res18"))
	for range 6 {
		w.rounds(1)
		w.sleep(10 * time.Second)
		w.slurm.Kill(id)
		w.sleep(time.Minute)
	}
	records, _, err := w.book.Load()
	if err != nil {
		t.Fatal(err)
	}
	records.Of(id).Runs, records.Of(id).Returned, records.Of(id).ReturnedAt = 0, 0, time.Time{}
	w.book = &ledger.Memory{}
	if err := w.book.Settle(records, bridge.Report{Round: 1}); err != nil {
		t.Fatal(err)
	}
	w.start(nil)
	w.round()
	if rec := w.record(id); rec.Returned != 0 || rec.Runs < 4 {
		t.Errorf("%d returns are counted, %d runs known", rec.Returned, rec.Runs)
	}
}
