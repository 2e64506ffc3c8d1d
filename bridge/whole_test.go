package bridge_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

func exclusive(s *slurmtest.Spec) { s.Exclusive = true }

// Its request stays as it was, and is not what the plan reckons with.
func TestAnExclusiveJobIsPlannedAsItsWholeNodesAndNeverMoved(t *testing.T) {
	w := newWorld(t, 4, server)
	id := w.submit(1, model("res18"), saves(20*time.Second), forAges, exclusive)
	plain := w.submit(1, "synergy-profile=res18.json", forAges, exclusive)
	asked := w.job(id).Request
	others := []int{w.submit(8, model("gnmt"), forAges), w.submit(8, model("gnmt"), forAges)}
	w.rounds(3)
	job := w.job(id)
	if job.State != slurm.Running || job.Runs.PerNode.GPUs != 8 || job.Runs.PerNode.CPUs != 24 ||
		running(w, others) != 2 {
		t.Errorf("%s on %v with %s, %d others run", job.State, job.Runs.Nodes, job.Runs.PerNode, running(w, others))
	}
	if job := w.job(plain); job.State != slurm.Running || strings.Contains(job.Extra, "it is lent") {
		t.Errorf("one without a checkpoint is %s and told %s", job.State, job.Extra)
	}
	asked.Pin = job.Request.Pin
	if got := job.Request; got.Nodes != asked.Nodes || got.CPUs != asked.CPUs || got.CPUsPerTask != asked.CPUsPerTask ||
		got.Memory != asked.Memory || got.GPUs != asked.GPUs {
		t.Errorf("the request was %+v and is %+v", asked, got)
	}
	w.submit(8, model("res18"), forAges)
	w.submit(1, model("res18"), forAges)
	w.rounds(5)
	if w.job(id).Restarts > 0 || !slices.Equal(w.job(id).Runs.Nodes, job.Runs.Nodes) {
		t.Errorf("it was moved from %v to %v, %d restarts", job.Runs.Nodes, w.job(id).Runs.Nodes, w.job(id).Restarts)
	}
}

func TestAnExclusiveJobMayNameAlternativeFeatures(t *testing.T) {
	nodes := slurmtest.Rack(1, server, "gpu")
	nodes[0].Features = []string{"a100"}
	w := newSite(t, nodes)
	either := func(s *slurmtest.Spec) { s.Features = []string{"h100|a100"} }
	id := w.submit(1, model("res18"), forAges, exclusive, either)
	w.rounds(1)
	if job := w.job(id); job.State != slurm.Running || job.Runs.PerNode.CPUs != 24 {
		t.Errorf("%s with %s: %s", job.State, job.Runs.PerNode, job.Extra)
	}
}

// While its node is busy an exclusive job waits, and is not handed back to Slurm; it starts when the node is empty.
func TestAnExclusiveJobHasItsTurn(t *testing.T) {
	w := newWorld(t, 1, server)
	first := w.submit(2, model("gnmt"), func(s *slurmtest.Spec) { s.Work.Length = 8 * time.Minute })
	w.rounds(1)
	id := w.submit(1, "synergy-profile=res18.json", forAges, exclusive)
	w.rounds(1)
	if job := w.job(id); job.State != slurm.Pending || strings.Contains(job.Extra, "handed back") {
		t.Fatalf("%s beside job %d: %s", job.State, first, job.Extra)
	}
	w.rounds(3)
	if job := w.job(id); job.State != slurm.Running || job.Runs.PerNode.GPUs != 8 {
		t.Errorf("%s with %s: %s", job.State, job.Runs.PerNode, job.Extra)
	}
}

// Nodes of unlike sizes that it could have together are Slurm's to choose.
func TestAnExclusiveJobGetsNodesOfOneSizeOrIsSlurms(t *testing.T) {
	small := gres.Vector{GPUs: 4, CPUs: 12, Memory: server.Memory / 2}
	nodes := slurmtest.Rack(3, server, "gpu")
	nodes[0].Total = small
	w := newSite(t, nodes)
	two := w.submit(2, model("res18"), forAges, exclusive, func(s *slurmtest.Spec) { s.Request.Nodes = 2 })
	w.rounds(1)
	if job := w.job(two); !slices.Equal(job.Runs.Nodes, []string{"n2", "n3"}) || job.Runs.PerNode.GPUs != 8 {
		t.Errorf("two nodes: %s on %v: %s", job.State, job.Runs.Nodes, job.Extra)
	}
	w.slurm.Cancel(two)
	w.rounds(1)
	three := w.submit(3, model("res18"), forAges, exclusive, func(s *slurmtest.Spec) { s.Request.Nodes = 3 })
	w.rounds(3)
	if job := w.job(three); job.State == slurm.Pending && !job.Begin.IsZero() && job.Begin.After(w.clock.Now()) ||
		!strings.Contains(job.Extra, "exclusive") {
		t.Errorf("three nodes: %s, begins %s: %s", job.State, job.Begin, job.Extra)
	}
}
