package whatif_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/whatif"
)

// BenchmarkSearch tries all that there is to try for a job that nothing starts, in a full cluster: the worst case. The
// look ahead, which --within bounds, is not in it.
func BenchmarkSearch(b *testing.B) {
	for _, size := range []struct{ nodes, waits int }{{16, 300}, {64, 2000}, {512, 5000}} {
		b.Run(fmt.Sprintf("%d-nodes/%d-waiting", size.nodes, size.waits), func(b *testing.B) {
			c := full(size.nodes, size.waits)
			tries, before := 0, cpuTime()
			for b.Loop() {
				found, err := whatif.Search(c, hopeless, whatif.Options{Begin: searchOnly()})
				if err != nil || found.Cut {
					b.Fatal(err, found.Cut)
				}
				tries = len(found.Tries)
			}
			b.ReportMetric((cpuTime()-before).Seconds()/float64(b.N), "cpu-s/op")
			b.ReportMetric(float64(tries), "tries/op")
		})
	}
}

// cpuTime is what this process has had of the machine.
func cpuTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// hopeless is a job that names everything, so that everything is tried.
const hopeless = 1_000_000

// full is a cluster of which all GPUs are taken for good, and a queue.
func full(nodes, waits int) whatif.Case {
	c := whatif.Case{Policy: policy.FIFO(), Allocator: policy.Tune()}
	c.Cluster.Now = noon
	id := 0
	for n := range nodes {
		name := fmt.Sprintf("n%03d", n)
		c.Cluster.Nodes = append(c.Cluster.Nodes, policy.Node{Name: name, GPUType: "a100", Features: []string{"ib"},
			Total:    gres.Vector{GPUs: 8, CPUs: 64, Memory: 512 * gres.Gigabyte},
			Reserved: []policy.Reservation{{Name: "maint", From: noon.Add(time.Duration(2+n%8) * time.Hour)}}})
		for range 4 {
			id++
			j := runs(id, 2, name)
			c.Cluster.Jobs = append(c.Cluster.Jobs, j)
		}
	}
	sizes := []int{1, 1, 1, 2, 1, 4, 1, 8, 2, 1}
	for n := range waits {
		id++
		j := waiting(id, sizes[n%len(sizes)], 0)
		j.Arrival, j.TimeLimit = noon.Add(-time.Duration(waits-n)*time.Second), time.Duration(1+n%24)*time.Hour
		if j.Profile = hungry; n%2 == 0 {
			j.Profile = modest
		}
		c.Cluster.Jobs = append(c.Cluster.Jobs, j)
	}
	j := waiting(hopeless, 64, 8)
	j.Arrival, j.Saves, j.TimeLimit, j.GPUType, j.Features = noon, false, 100*time.Hour, "a100", []string{"ib"}
	j.Only, j.Except = []string{"n000", "n001", "n002", "n003", "n004", "n005", "n006", "n007"}, []string{"n009"}
	j.Floor = gres.Vector{CPUs: 60, Memory: 500 * gres.Gigabyte}
	c.Cluster.Jobs = append(c.Cluster.Jobs, j)
	return c
}
