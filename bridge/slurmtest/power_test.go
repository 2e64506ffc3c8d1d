package slurmtest

import (
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// powered is a cluster of nodes in these states, and a job that wants two GPUs.
func powered(t *testing.T, states ...string) (*Clock, *Slurm, func() slurm.Job) {
	t.Helper()
	clock := NewClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	nodes := Rack(len(states), gres.Vector{GPUs: 4, CPUs: 8, Memory: 100000}, "gpu")
	for i, state := range states {
		nodes[i].Closed = state
	}
	s := New(clock, Options{Nodes: nodes, ResumeDelay: 3 * time.Minute})
	id, err := s.Submit(Spec{Request: slurm.Request{GPUs: 2}, TimeLimit: 10 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return clock, s, func() slurm.Job {
		seen, err := s.Observe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range seen.Jobs {
			if j.ID == id {
				return *j
			}
		}
		return slurm.Job{State: slurm.Finished}
	}
}

func TestANodeThatIsPoweredDownIsResumedForAJobWhoseRunCountsFromThen(t *testing.T) {
	clock, _, job := powered(t, "CLOUD+POWERED_DOWN")
	began := clock.Now()
	clock.Advance(2 * time.Minute)
	if j := job(); j.State != slurm.Running || !j.Configuring {
		t.Errorf("while the node boots the job is %s, configuring %v", j.State, j.Configuring)
	}
	clock.Advance(2 * time.Minute)
	if j := job(); j.State != slurm.Running || j.Configuring ||
		j.Started.Sub(began).Round(time.Minute) != 3*time.Minute {
		t.Errorf(
			"when it is up the job is %s, configuring %v, started after %s",
			j.State,
			j.Configuring,
			j.Started.Sub(began),
		)
	}
	clock.Advance(8 * time.Minute)
	if j := job(); j.State != slurm.Running {
		t.Errorf("its time limit counted while the node booted: %s", j.State)
	}
	clock.Advance(2 * time.Minute)
	if j := job(); j.State == slurm.Running {
		t.Errorf("it runs on beyond its time limit")
	}
}

func TestNodesThatAreUpAreTakenBeforeOnesThatMustBeResumed(t *testing.T) {
	clock, _, job := powered(t, "POWERED_DOWN", "POWERING_UP", "")
	clock.Advance(5 * time.Second)
	if j := job(); len(j.Runs.Nodes) != 1 || j.Runs.Nodes[0] != "n3" {
		t.Errorf("it runs on %v, want the one that is up", j.Runs.Nodes)
	}
}

func TestANodeThatGoesDownTakesNobodyUntilItIsDown(t *testing.T) {
	clock, s, job := powered(t, "")
	clock.Advance(5 * time.Second)
	s.PowerDown("n1")
	clock.Advance(5 * time.Minute)
	if j := job(); j.State != slurm.Running {
		t.Fatalf("powering down ended a job: %s", j.State)
	}
	next, err := s.Submit(Spec{Request: slurm.Request{GPUs: 1}})
	if err != nil {
		t.Fatal(err)
	}
	clock.Advance(time.Minute)
	if h, _ := s.History(next); len(h.Runs) != 1 {
		t.Errorf("a node that is to be powered down, and is not idle, takes no job")
	}
	s.Cancel(next)
	clock.Advance(6 * time.Minute) // the first has come to its limit, and the node goes down
	last, err := s.Submit(Spec{Request: slurm.Request{GPUs: 1}})
	if err != nil {
		t.Fatal(err)
	}
	s.PowerDown("n1") // says nothing new
	clock.Advance(time.Minute)
	if h, _ := s.History(last); len(h.Runs) != 1 {
		t.Errorf("one that is down is not resumed: %+v", h)
	}
}
