package plugin_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/plugin"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// crowd is a cluster of 625 servers with 5,000 jobs that run and as many that wait, of which some are different at each
// look.
type crowd struct {
	slurm.Manager
	seen  slurm.Observed
	every int // one job in so many changes from look to look; 0: none does
}

const many = 10_000

func newCrowd(every int) *crowd {
	c := &crowd{every: every}
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	total := gres.Vector{GPUs: 8, CPUs: 24, Memory: 500000}
	for n := range many / 16 {
		c.seen.Nodes = append(c.seen.Nodes, slurm.Node{Name: fmt.Sprintf("n%04d", n), Partitions: []string{"gpu"},
			Total: total, Allocated: total})
	}
	for id := 1; id <= many; id++ {
		j := &slurm.Job{
			ID: id, Name: "train", User: fmt.Sprintf("user%02d", id%40), Partition: "gpu",
			Comment: "synergy-profile=res18.json synergy-checkpoint=USR1@60",
			State:   slurm.Pending, Submitted: noon.Add(-time.Hour), Begin: noon.Add(14 * time.Minute), Requeue: true,
			Reason: "BeginTime",
			Extra: fmt.Sprintf(
				`{"v":1,"job":%d,"own":{"nodes":1,"tasks":1,"cpus_per_task":3,"cpus":3,"cpus_per_node":3,"memory":62500,"gres":"gres/gpu:1","gpus":1},`+
					`"first":1767351600,"why":"%d jobs with less service go first"}`, id, id%97),
			Request: slurm.Request{Nodes: 1, Tasks: 1, CPUsPerTask: 3, CPUs: 3, CPUsPerNode: 3, Memory: 62500, GPUs: 1,
				GRES: "gres/gpu:1"},
		}
		if id <= many/2 {
			j.State, j.Started, j.Reason = slurm.Running, noon.Add(-time.Hour), ""
			j.Runs = slurm.Allocated{Nodes: []string{c.seen.Nodes[id%len(c.seen.Nodes)].Name},
				PerNode: gres.Vector{GPUs: 1, CPUs: 3, Memory: 62500}, Devices: []string{"gpu:1(IDX:0)"}}
		}
		c.seen.Jobs = append(c.seen.Jobs, j)
	}
	clock := slurmtest.NewClock(noon)
	manager := slurmtest.New(clock, slurmtest.Options{Nodes: slurmtest.Rack(2, total, "gpu")})
	_, _ = manager.Submit(slurmtest.Spec{User: "alice", Lease: time.Hour, Request: slurm.Request{GPUs: 1}})
	c.Manager = manager
	return c
}

func (c *crowd) Observe(context.Context) (slurm.Observed, error) {
	c.seen.At = c.seen.At.Add(time.Second)
	if c.every == 0 {
		return c.seen, nil
	}
	seen := c.seen
	seen.Jobs = append([]*slurm.Job(nil), c.seen.Jobs...)
	for k := 0; k < len(seen.Jobs); k += c.every {
		other := *seen.Jobs[k]
		seen.Jobs[k] = &other
	}
	c.seen = seen
	return seen, nil
}

// crowded is a plugin with a crowd.
func crowded(every int) func() {
	return func() {
		plugin.Serve(func(context.Context, plugin.Configuration) (plugin.Driven, error) {
			return plugin.Driven{Slurm: newCrowd(every)}, nil
		})
	}
}

func BenchmarkCrossing(b *testing.B) {
	looks := []struct {
		name, behaviour string
		every           int
	}{{"observe nothing new", "crowd", 0}, {"observe 1 percent", "crowd-hundredth", 100},
		{"observe everything", "crowd-all", 1}}
	for _, look := range looks {
		b.Run(look.name, func(b *testing.B) {
			b.Run("in process", func(b *testing.B) { observing(b, newCrowd(look.every)) })
			b.Run("in a plugin", func(b *testing.B) { observing(b, open(b, look.behaviour)) })
		})
	}
	b.Run("update", func(b *testing.B) {
		b.Run("in process", func(b *testing.B) { updating(b, newCrowd(0)) })
		b.Run("in a plugin", func(b *testing.B) { updating(b, open(b, "crowd")) })
	})
}

func observing(b *testing.B, manager slurm.Manager) {
	b.ReportAllocs()
	for b.Loop() {
		seen, err := manager.Observe(b.Context())
		if err != nil || len(seen.Jobs) != many {
			b.Fatalf("%v: %d jobs", err, len(seen.Jobs))
		}
	}
}

func updating(b *testing.B, manager slurm.Manager) {
	b.ReportAllocs()
	request := newCrowd(0).seen.Jobs[many-1].Request
	for n := 0; b.Loop(); n++ {
		begin := time.Date(2026, 1, 2, 13, 0, n%60, 0, time.UTC)
		if err := manager.Update(b.Context(), slurm.Update{Job: 1, Begin: begin, Request: request,
			Extra: "told"}); err != nil {
			b.Fatal(err)
		}
	}
}
