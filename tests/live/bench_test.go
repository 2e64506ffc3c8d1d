//go:build live && bench

package live

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// outcome is what became of one workload: completion times in seconds, in the order of submission, and the time from
// the first submission to the last end.
type outcome struct {
	completion []float64
	makespan   float64
	starts     int
	idle       int // GPU-seconds that idled while a job waited that could have used them
}

func (o outcome) mean() float64 {
	sum := 0.0
	for _, s := range o.completion {
		sum += s
	}
	return sum / float64(len(o.completion))
}

func (o outcome) median() float64 {
	sorted := slices.Sorted(slices.Values(o.completion))
	return sorted[len(sorted)/2]
}

// TestBenchSlurmAloneAgainstFIFOAndTune runs the same jobs three times: under Slurm alone, with the files of profiles,
// and with no file at all, by jobs that measure themselves in windows of a second: what is 20 s on a real site would be
// half a second here.
func TestBenchSlurmAloneAgainstFIFOAndTune(t *testing.T) {
	// An hour of looking ahead is 24 s here; a minute is the least that can be said. A restart costs what it costs on
	// this cluster: a save of a second, a look every second, and Slurm's own time.
	c, d := SetUp(t, "fifo", "tune", "  horizon: 1m\n  payback: 1m",
		"restart_cost: 5s\naudit_window: 2s\nlearned: /shared/synergy/"+t.Name()+"/learned")
	const honest = `for p in "$1"/profiles/*.json; do jq ".checkpoint_s=2 | .start_s=3" "$p" > "$p.new" && mv "$p.new" "$p"; done`
	c.MustExec("login", "synergy", "sh", "-c", honest, "sh", d.dir)
	d.Round = benchRound
	jobs := workload(42)
	alone := c.run(jobs, func(j planned) []string {
		return []string{"-p", "plain", "-c", fmt.Sprint(3 * j.gpus), fmt.Sprintf("--mem=%d", 62500*j.gpus)}
	})
	d.Start()
	ours := c.run(jobs, func(j planned) []string { return []string{"-c", fmt.Sprint(3 * j.gpus), word(j.model)} })
	itself := c.runScript(jobs, func(j planned) string { return train(j.model, j.iterations, benchSpeedup) + " --measure 1s" }, func(j planned) []string {
		return []string{"-c", fmt.Sprint(3 * j.gpus), "--job-name=" + j.model, autoWords}
	})
	t.Logf("%d jobs on 32 GPUs, arriving over %.0f s; the same jobs, the same cluster, one after the other", len(jobs),
		benchSpan)
	t.Logf("%-34s %10s %10s %10s %8s %18s", "", "mean s", "median s", "makespan s", "starts", "idle GPU-s, wanted")
	for _, row := range []struct {
		name string
		outcome
	}{{"Slurm alone, proportional requests", alone}, {"synergy-slurmd, FIFO × Tune", ours},
		{"the same with no profile files", itself}} {
		t.Logf("%-34s %10.1f %10.1f %10.1f %8d %18d", row.name, row.mean(), row.median(), row.makespan, row.starts,
			row.idle)
	}
	t.Logf("%-34s %10.2f %10.2f %10.2f", "ratio, Slurm alone / synergy", alone.mean()/ours.mean(),
		alone.median()/ours.median(), alone.makespan/ours.makespan)
	t.Logf("%-34s %10.2f %10.2f %10.2f", "ratio, Slurm alone / no files", alone.mean()/itself.mean(),
		alone.median()/itself.median(), alone.makespan/itself.makespan)
	byModel(t, jobs, alone, ours)
	t.Log("\n" + c.MustExec("login", "synergy", "/opt/synergy/bin/synergy", "profile", "list", "--dir",
		d.dir+"/learned"))
	if len(alone.completion) != benchJobs || len(ours.completion) != benchJobs || len(itself.completion) != benchJobs {
		t.Errorf("%d, %d and %d of %d jobs ended", len(alone.completion), len(ours.completion), len(itself.completion),
			benchJobs)
	}
}

func byModel(t *testing.T, jobs []planned, alone, ours outcome) {
	t.Helper()
	sums := map[string][3]float64{}
	for k, j := range jobs {
		s := sums[j.model]
		sums[j.model] = [3]float64{s[0] + 1, s[1] + alone.completion[k], s[2] + ours.completion[k]}
	}
	models := make([]string, 0, len(sums))
	for model := range sums {
		models = append(models, model)
	}
	slices.Sort(models)
	for _, model := range models {
		s := sums[model]
		t.Logf("  %-12s %3.0f jobs: mean %6.1f s alone, %6.1f s ours", model, s[0], s[1]/s[0], s[2]/s[0])
	}
}

// run submits the workload at its times and waits for its end.
func (c *Cluster) run(jobs []planned, args func(planned) []string) outcome {
	c.t.Helper()
	return c.runScript(jobs, func(j planned) string { return train(j.model, j.iterations, benchSpeedup) }, args)
}

// runScript is run with another script than that which trains.
func (c *Cluster) runScript(jobs []planned, script func(planned) string, args func(planned) []string) outcome {
	c.t.Helper()
	began := time.Now()
	ids, submitted := make([]JobID, len(jobs)), make([]time.Time, len(jobs))
	for k, j := range jobs {
		time.Sleep(time.Until(began.Add(j.arrival)))
		argv := append([]string{fmt.Sprintf("--gres=gpu:%d", j.gpus), output, "--open-mode=append"}, args(j)...)
		submitted[k] = time.Now()
		ids[k] = c.MustSbatch("alice", script(j), argv...)
	}
	for _, id := range ids {
		c.waitLong(id, "COMPLETED", 20*time.Minute)
	}
	var o outcome
	wants := make([]demand, len(jobs))
	for k, id := range ids {
		end, starts := c.ended(id)
		wants[k] = demand{submitted[k], jobs[k].gpus, c.spells(id)}
		o.completion = append(o.completion, end.Sub(submitted[k]).Seconds())
		o.makespan = max(o.makespan, end.Sub(began).Seconds())
		o.starts += starts
	}
	o.idle = idleGPUSeconds(wants, c.nodes(), 8)
	return o
}
