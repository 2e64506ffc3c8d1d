//go:build live && bench

package live

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// forecast is what the simulator says of an experiment.
type forecast struct {
	mean, makespan float64 // seconds of the cluster
	starts         int
}

// forecast simulates the jobs as they came, in the cluster's own seconds: with its rounds, what a restart costs there,
// and what Slurm takes.
func (e experiment) forecast(t *testing.T, jobs []planned, s side, policy, allocator string,
	round time.Duration) forecast {
	t.Helper()
	dir := t.TempDir()
	save, start := restartCost(s.speed)
	hurried(t, dir, s.speed, save, start)
	var text strings.Builder
	for k, j := range jobs {
		fmt.Fprintf(&text, "%d,%s,%.3f,%d,%d\n", k, j.model, s.jobs[k].came.Sub(s.span).Seconds(), j.iterations, j.gpus)
	}
	trace := filepath.Join(dir, "trace.csv")
	put(t, trace, text.String())
	keys := fmt.Sprintf("round: %s\nhorizon: %s\npayback: %s\npatience: %s\nteardown: 1s\nlaunch: %.3fs\n", round,
		rule(paperHorizon, s.speed), rule(paperPayback, s.speed), rule(paperPatience, s.speed), max(0, s.launchTime()))
	return e.simulate(t, 1, keys, "--trace", trace, "--profiles", filepath.Join(dir, "profiles"),
		"--policy", policy, "--allocator", allocator, "--min-run", seconds(paperMinRun/s.speed).String())
}

// site simulates the jobs as on a site, at its own pace, with the rules that are shipped and restarts of 60 s.
func (e experiment) site(t *testing.T, trace, policy, allocator string, round time.Duration, speed float64) forecast {
	t.Helper()
	return e.simulate(t, speed, fmt.Sprintf("round: %s\n", round), "--trace", trace, "--policy", policy,
		"--allocator", allocator, "--restart", "60s")
}

func (e experiment) simulate(t *testing.T, speed float64, keys string, argv ...string) forecast {
	t.Helper()
	out := filepath.Join(t.TempDir(), "jobs.csv")
	if e.static {
		argv = append(argv, "--static")
	}
	simulation(t, keys, append(argv, "--cluster", "4x8:24:500", "--jobs-out", out)...)
	var f forecast
	all := results(t, out)
	for _, r := range all {
		f.mean += r.completion / speed / float64(len(all))
		f.makespan = max(f.makespan, r.finish/speed)
		f.starts += r.starts
	}
	return f
}

// report prints what was measured, what the simulator says of it, and where the time went.
func (e experiment) report(t *testing.T, trace string, jobs []planned, speed float64, alone, ours side) {
	t.Helper()
	kind := "drawn (TRACES= has the published ones)"
	if os.Getenv("TRACES") != "" {
		kind = "published"
	}
	round := e.round(speed)
	reportJobs(t, "Slurm alone", alone)
	reportJobs(t, "synergy-slurmd", ours)
	save, start := restartCost(speed)
	t.Logf("%s: %s, %s, 32 GPUs", e.name, e.says, kind)
	t.Logf("a second is %g s of a site, rounds of %s, a restart %.1f s with what Slurm takes", speed, round, save+start)
	t.Logf("both sides at the same time on two clusters of one machine; the paper, on its own: %s", e.paperGained)
	t.Logf("%-52s %12s %12s %8s", "", "mean s", "makespan s", "starts")
	row := func(name string, f forecast) { t.Logf("%-52s %12.1f %12.1f %8d", name, f.mean, f.makespan, f.starts) }
	ratio := func(name string, a, b forecast) {
		t.Logf("%-52s %12.2f %12.2f", name, a.mean/b.mean, a.makespan/b.makespan)
	}
	measured := func(s side) forecast { return forecast{s.mean(), s.makespan(), s.starts()} }
	second := time.Second
	mine, tune := "slurm, proportional", e.policy+", tune"
	row("measured: Slurm alone, proportional requests", measured(alone))
	row("measured: synergy-slurmd, "+tune, measured(ours))
	ratio("measured: ratio", measured(alone), measured(ours))
	plain := e.forecast(t, jobs, alone, "slurm", "proportional", second)
	planned := e.forecast(t, jobs, ours, e.policy, "tune", round)
	row("forecast of this: "+mine, plain)
	row("forecast of this: "+tune, planned)
	ratio("forecast of this: ratio", plain, planned)
	if e.preemptive {
		same := e.forecast(t, jobs, ours, e.policy, "proportional", round)
		row("forecast of this: "+e.policy+", proportional", same)
		ratio("forecast of this: of it the allocation alone", same, planned)
	}
	plain = e.site(t, trace, "slurm", "proportional", second, speed)
	planned = e.site(t, trace, e.policy, "tune", seconds(paperRound), speed)
	row("forecast of a site (60 s restarts): "+mine, plain)
	row("forecast of a site (60 s restarts): "+tune, planned)
	ratio("forecast of a site: ratio", plain, planned)
	e.reportTime(t, jobs, alone, ours)
	if gained := e.of(alone) / e.of(ours); gained < e.aim {
		t.Logf("%s: %.2f, below the aim of %.1f", e.figure, gained, e.aim)
	} else {
		t.Logf("%s: %.2f; the aim was %.1f", e.figure, gained, e.aim)
	}
	if e.of(alone) <= e.of(ours) {
		t.Errorf("%s: Slurm alone is no worse", e.figure)
	}
}

// reportJobs prints what became of each job, in seconds of the experiment.
func reportJobs(t *testing.T, name string, s side) {
	t.Helper()
	t.Logf("%s: job, model, submitted, trained, each run", name)
	for k, h := range s.jobs {
		var runs strings.Builder
		for _, r := range h.runs {
			fmt.Fprintf(&runs, " %s:%.0f-%.0f", r.node, r.start.Sub(s.span).Seconds(), r.end.Sub(s.span).Seconds())
		}
		t.Logf("%4d %-12s %8.1f %8.1f %s", k, h.model, h.came.Sub(s.span).Seconds(), h.trained, runs.String())
	}
}

// reportTime prints where the time of GPUs and jobs went.
func (e experiment) reportTime(t *testing.T, jobs []planned, alone, ours side) {
	t.Helper()
	of := menus(t, ours.speed)
	if e.static {
		t.Logf("no schedule of these jobs ends before %.1f s", leastMakespan(jobs, of))
	}
	late := e.round(ours.speed) + 3*time.Second
	t.Logf("%-36s %s", "", ledgerHead)
	for _, s := range []struct {
		name string
		side
	}{{"Slurm alone", alone}, {"synergy-slurmd", ours}} {
		gpus, all := s.account(of, late)
		t.Logf("%-36s %s", s.name+": makespan, of a GPU", gpus.line(paperGPUs))
		t.Logf("%-36s %s", s.name+": mean, of a job", all.line(float64(len(s.jobs))))
	}
}
