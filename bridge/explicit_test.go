package bridge

import (
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/directive"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/limits"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

func interactive(tn *managedJob) { tn.Job.Interactive = true }

// Each of these jobs asks for twelve cores and 200 GB on its one node of eight GPUs, in some way; the claim is what the
// planner is told of it.
func TestWhatAUserAskedForIsAClaimWhereItMustBe(t *testing.T) {
	all := gres.Vector{CPUs: 12, Memory: 200000}
	told := Explicit{Told: true}
	said := func(change func(*Explicit)) Explicit {
		e := told
		change(&e)
		return e
	}
	cores, memory := gres.Vector{CPUs: 12}, gres.Vector{Memory: 200000}
	shipped := Keep{Memory: true, Steps: true}
	for _, c := range []struct {
		name     string
		explicit Explicit
		keep     Keep
		change   func(*managedJob)
		want     policy.Job // Floor, Pace, Ceiling
	}{
		{"nothing in so many words", told, shipped, nil, policy.Job{}},
		{"memory", said(func(e *Explicit) { e.Memory = true }), shipped, nil, policy.Job{Floor: memory}},
		{"memory, and gives it away", said(func(e *Explicit) { e.Memory = true }), shipped,
			func(tn *managedJob) { tn.directives.Memory = directive.Gives }, policy.Job{}},
		{"memory, and the site lets the profile decide", said(func(e *Explicit) { e.Memory = true }), Keep{}, nil,
			policy.Job{}},
		{"memory by default, and keeps it", told, shipped,
			func(tn *managedJob) { tn.directives.Memory = directive.Keeps }, policy.Job{Floor: memory}},
		{"cores", said(func(e *Explicit) { e.CPUs = true }), shipped, nil, policy.Job{}},
		{"cores, and the site keeps them", said(func(e *Explicit) { e.CPUs = true }), Keep{Cores: true}, nil,
			policy.Job{Floor: cores}},
		{"cores, and keeps them", said(func(e *Explicit) { e.CPUs = true }), shipped,
			func(tn *managedJob) { tn.directives.Cores = directive.Keeps }, policy.Job{Floor: cores}},
		{"steps with sizes", said(func(e *Explicit) { e.Steps = true }), shipped, nil, policy.Job{Floor: all}},
		{"steps with sizes, and gives the cores away", said(func(e *Explicit) { e.Steps = true }), shipped,
			func(tn *managedJob) { tn.directives.Cores = directive.Gives }, policy.Job{Floor: memory}},
		{"a time limit for so many cores", said(func(e *Explicit) { e.CPUs, e.Time = true, true }), shipped, nil,
			policy.Job{Pace: all}},
		{"a time limit for so many cores, and gives them away", said(func(e *Explicit) { e.CPUs, e.Time = true, true }),
			shipped,
			func(tn *managedJob) { tn.directives.Cores = directive.Gives }, policy.Job{}},
		{"a time limit alone", said(func(e *Explicit) { e.Time = true }), shipped, nil, policy.Job{}},
		{"without a gate", Explicit{}, shipped, nil, policy.Job{Floor: memory}},
		{"without a profile", told, Keep{}, func(tn *managedJob) { tn.profile = nil }, policy.Job{Floor: all}},
		{"cores for each GPU", told, shipped, func(tn *managedJob) { tn.record.Own.CPUsPerGPU, tn.record.Own.GPUs = 3, 4 },
			policy.Job{Floor: cores, Ceiling: cores}},
		{"memory for each GPU", told, shipped, func(tn *managedJob) { tn.record.Own.MemoryPerGPU, tn.record.Own.GPUs = 50000, 4 },
			policy.Job{Floor: memory, Ceiling: memory}},
		{"nothing at a terminal", told, Keep{}, interactive, policy.Job{Floor: all}},
		{"cores at a terminal", said(func(e *Explicit) { e.CPUs = true }), Keep{}, interactive,
			policy.Job{Floor: all, Ceiling: cores}},
		{"cores at a terminal, and gives them away", said(func(e *Explicit) { e.CPUs = true }), Keep{},
			func(tn *managedJob) { tn.Interactive, tn.directives.Cores = true, directive.Gives },
			policy.Job{Floor: all, Ceiling: cores}},
		{"at a terminal, and nobody knows what", Explicit{}, shipped, interactive,
			policy.Job{Floor: all, Ceiling: cores}},
		{"memory for each core", said(func(e *Explicit) { e.Memory = true }), shipped, func(tn *managedJob) {
			tn.record.Own.Memory, tn.record.Own.MemoryPerCPU, tn.record.Own.CPUsPerTask, tn.record.Own.CPUsPerNode, tn.record.Own.CPUs = 0, 20000, 10, 10, 10
		}, policy.Job{Floor: memory}},
	} {
		tn := read(slurm.Job{ID: 7, State: slurm.Pending, TimeLimit: time.Hour})
		tn.profile = steep(t)
		tn.record.Own = slurm.Request{
			Nodes:       1,
			Tasks:       1,
			CPUsPerTask: 12,
			CPUs:        12,
			CPUsPerNode: 12,
			Memory:      200000,
			GPUs:        1,
		}
		tn.record.Explicit = c.explicit
		if c.change != nil {
			c.change(tn)
		}
		var got policy.Job
		r := &Runner{Settings: Settings{Keep: c.keep}}
		r.setSizeBounds(tn, &got)
		if got.Floor != c.want.Floor || got.Pace != c.want.Pace || got.Ceiling != c.want.Ceiling {
			t.Errorf("a job that asks for %s: floor %s, pace %s, ceiling %s; want %s, %s, %s", c.name,
				got.Floor, got.Pace, got.Ceiling, c.want.Floor, c.want.Pace, c.want.Ceiling)
		}
	}
}

func TestWhatFollowsTheGPUsIsNotWritten(t *testing.T) {
	own := slurm.Request{Nodes: 1, Tasks: 1, CPUsPerTask: 12, CPUs: 12, CPUsPerNode: 12, GPUs: 4, CPUsPerGPU: 3,
		MemoryPerGPU: 10000}
	got := grantedRequest(
		&Record{Own: own},
		policy.Placement{Nodes: []string{"n2"}, PerNode: gres.Vector{GPUs: 4, CPUs: 12, Memory: 40000}},
	)
	want := own
	want.Pin = []string{"n2"}
	if !got.Equal(&want) {
		t.Errorf("written %+v, want only the node chosen: %+v", got, want)
	}
}

func TestALimitThatBarsForGoodGoesBeforeWhatPasses(t *testing.T) {
	never := limits.Terms{Never: "never"}
	j := policy.Job{Barred: "did not start 2 times in a row, is tried again later"}
	if applyTerms(&never, &j); j.Barred != "never" {
		t.Errorf("barred since it %s: who is barred for that alone is armed, and this one may not run", j.Barred)
	}
	j = policy.Job{Barred: "waits for another job"}
	if applyTerms(&limits.Terms{}, &j); j.Barred != "waits for another job" {
		t.Errorf("barred since it %q", j.Barred)
	}
}
