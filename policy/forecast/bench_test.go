package forecast_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/etc/profiles"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/forecast"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
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
			before := cpuTime()
			for b.Loop() {
				f = forecast.Starts(&c, forecast.Options{Policy: policy.FIFO(), Allocator: policy.Tune()})
			}
			b.ReportMetric((cpuTime()-before).Seconds()/float64(b.N*f.Draws), "cpu-s/draw")
			b.ReportMetric(float64(f.Draws), "draws")
			b.ReportMetric(f.Until.Sub(f.From).Hours(), "hours")
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

// busy is a cluster of which all GPUs are taken, and a queue.
func busy(nodes, waits int) policy.Cluster {
	c := policy.Cluster{Now: noon}
	for n := range nodes {
		c.Nodes = append(c.Nodes, server(n))
	}
	sizes := []int{1, 1, 1, 2, 1, 4, 1, 8, 2, 1}
	models := models()
	for id := 1; id <= waits+nodes*4; id++ {
		j := policy.Job{ID: id, GPUs: sizes[id%len(sizes)],
			Arrival: noon.Add(-time.Duration(waits+nodes*4-id) * time.Second), Saves: id%3 > 0,
			TimeLimit: time.Duration(1+id%24) * time.Hour, Restart: time.Minute}
		j.Profile = models[id%len(models)]
		c.Jobs = append(c.Jobs, j)
	}
	plan := policy.Decide(c, policy.FIFO(), policy.Tune())
	for i, d := range plan.Decisions {
		if j := &c.Jobs[i]; d.Grant != nil {
			j.Running, j.Started = d.Grant, noon.Add(-scaled(j.TimeLimit, float64(j.ID%10)/20))
			j.Fixed = !j.Saves
		}
	}
	return c
}

// models are some of the paper's.
func models() (list []*sensitivity.Profile) {
	for _, name := range []string{"res18", "gnmt", "m5", "alexnet", "lstm"} {
		text, err := profiles.FS.ReadFile(name + ".json")
		if err != nil {
			panic(err)
		}
		p, err := sensitivity.Parse(text)
		if err != nil {
			panic(err)
		}
		list = append(list, p)
	}
	return list
}

func scaled(d time.Duration, by float64) time.Duration { return time.Duration(float64(d) * by) }

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func server(n int) policy.Node {
	return policy.Node{Name: "n" + string(rune('a'+n/676)) + string(rune('a'+n/26%26)) + string(rune('a'+n%26)),
		Total: gres.Vector{GPUs: 8, CPUs: 64, Memory: 512 * gres.Gigabyte}}
}
