package forecast_test

import (
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/forecast"
)

// BenchmarkStarts plays the futures of a full cluster for all jobs that wait, and says how many it came to.
func BenchmarkStarts(b *testing.B) {
	for _, size := range []struct {
		name         string
		nodes, waits int
	}{{"16-nodes/300-waiting", 16, 300}, {"64-nodes/2000-waiting", 64, 2000}, {"512-nodes/5000-waiting", 512, 5000}} {
		b.Run(size.name, func(b *testing.B) {
			c := busy(size.nodes, size.waits)
			var f forecast.Forecast
			for b.Loop() {
				f = forecast.Starts(&c, forecast.Options{Policy: policy.FIFO(), Allocator: policy.Tune()})
			}
			b.ReportMetric(b.Elapsed().Seconds()/float64(b.N*f.Draws), "s/draw")
			b.ReportMetric(float64(f.Draws), "draws")
			b.ReportMetric(f.Until.Sub(f.From).Hours(), "hours")
		})
	}
}

// busy is a cluster of which all GPUs are taken, and a queue.
func busy(nodes, waits int) policy.Cluster {
	c := policy.Cluster{Now: noon}
	for n := range nodes {
		c.Nodes = append(c.Nodes, server(n))
	}
	sizes := []int{1, 1, 1, 2, 1, 4, 1, 8, 2, 1}
	for id := 1; id <= waits+nodes*4; id++ {
		j := policy.Job{ID: id, GPUs: sizes[id%len(sizes)],
			Arrival: noon.Add(-time.Duration(waits+nodes*4-id) * time.Second), Saves: id%3 > 0,
			TimeLimit: time.Duration(1+id%24) * time.Hour, Restart: time.Minute}
		c.Jobs = append(c.Jobs, j)
	}
	plan := policy.Decide(c, policy.FIFO(), policy.Tune())
	for i, d := range plan.Decisions {
		if j := &c.Jobs[i]; d.Grant != nil {
			j.Running, j.Started = d.Grant, noon.Add(-times(j.TimeLimit, float64(j.ID%10)/20))
			j.Fixed = !j.Saves
		}
	}
	return c
}

func times(d time.Duration, by float64) time.Duration { return time.Duration(float64(d) * by) }

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func server(n int) policy.Node {
	return policy.Node{Name: "n" + string(rune('a'+n/676)) + string(rune('a'+n/26%26)) + string(rune('a'+n%26)),
		Total: gres.Vector{GPUs: 8, CPUs: 64, Memory: 512 * gres.Gigabyte}}
}
