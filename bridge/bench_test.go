package bridge

import (
	"fmt"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// BenchmarkDiff is one round's sorting, accounting, snapshot and diff at a steady state, without the plan and without
// Slurm: as many jobs wait as run, on servers of eight GPUs, and nothing has changed but time.
func BenchmarkDiff(b *testing.B) {
	for _, servers := range []int{16, 128, 1024} {
		b.Run(fmt.Sprintf("%d jobs", 16*servers), func(b *testing.B) {
			r := benchRunner()
			seen := benchObserved(servers)
			s := r.sort(seen, nil)
			updateRecords(s.managed, seen.At)
			var records Records
			for _, tn := range s.managed {
				records = append(records, tn.record)
			}
			plan := policy.Decide(r.snapshot(&s), r.Settings.Policy, r.Settings.Allocator)
			b.ReportAllocs()
			b.ResetTimer()
			for b.Loop() {
				s := r.sort(seen, records)
				updateRecords(s.managed, seen.At)
				r.snapshot(&s)
				r.diff(&s, plan)
			}
		})
	}
}

func benchRunner() *Runner {
	return &Runner{
		Profiles: func(string) (*sensitivity.Profile, error) { return nil, nil },
		Settings: Settings{
			Partitions: []string{"gpu"}, Policy: policy.FIFO(), Allocator: policy.Tune(),
			Round: 5 * time.Minute, Lease: 15 * time.Minute,
		},
	}
}

func benchObserved(servers int) slurm.Observed {
	seen := slurm.Observed{At: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}
	total := gres.Vector{GPUs: 8, CPUs: 24, Memory: 500000}
	for n := range servers {
		name := fmt.Sprintf("n%04d", n)
		seen.Nodes = append(
			seen.Nodes,
			slurm.Node{Name: name, Partitions: []string{"gpu"}, Total: total, Allocated: total},
		)
		for range 8 {
			seen.Jobs = append(seen.Jobs, benchJob(len(seen.Jobs)+1, seen.At, name))
		}
	}
	for range 8 * servers {
		seen.Jobs = append(seen.Jobs, benchJob(len(seen.Jobs)+1, seen.At, ""))
	}
	return seen
}

func benchJob(id int, now time.Time, node string) *slurm.Job {
	j := &slurm.Job{
		ID: id, Partition: "gpu", Comment: "synergy-profile=res18.json synergy-checkpoint=USR1@60",
		State: slurm.Pending, Submitted: now.Add(-time.Hour), Begin: now.Add(14 * time.Minute),
		Extra: fmt.Sprintf(`{"v":1,"job":%d}`, id),
		Request: slurm.Request{Nodes: 1, Tasks: 1, CPUsPerTask: 3, CPUs: 3, CPUsPerNode: 3, Memory: 62500, GPUs: 1,
			GRES: "gres/gpu:1"},
	}
	if node != "" {
		j.State, j.Started = slurm.Running, now.Add(-time.Hour)
		j.Runs = slurm.Allocated{Nodes: []string{node}, PerNode: gres.Vector{GPUs: 1, CPUs: 3, Memory: 62500}}
	}
	return j
}
