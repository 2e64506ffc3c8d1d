//go:build live && fidelity

package live

import (
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What a restart costs here beside what Slurm and the rounds take: a job saves for a second, and one that goes on warms
// up for three before it trains. The profiles say so to the planner, here and in the simulation.
const (
	fidelitySave   = 1
	fidelityWarmUp = 3
)

// trains is a job of the workload under test: it saves only when it is asked to, and only a restart has to warm up.
func (j planned) trains() string {
	return fmt.Sprintf(`[ "${SLURM_RESTART_COUNT:-0}" -gt 0 ] && warm=%[4]d || warm=0
exec /opt/synergy/bin/synergy-emujob --profile %[1]s.json --profile-dir /opt/synergy/etc/profiles --virtual-cpu --iterations %[2]d \
  --speedup %[3]d --start-cost $warm --checkpoint-cost %[5]d --checkpoint-every 0 --checkpoint "/shared/ckpt/$USER-$SLURM_JOB_ID"`,
		j.model, j.iterations, benchSpeedup, fidelityWarmUp*benchSpeedup, fidelitySave*benchSpeedup)
}

// says is the comment of a job whose user knows how long it takes.
func (j planned) says() string {
	return fmt.Sprintf("%s synergy-length=%.3fs", word(j.model), j.seconds())
}

// seconds is the job's length at the proportional share.
func (j planned) seconds() float64 { return float64(j.iterations) * iterTime[j.model] / benchSpeedup }

// TestTheSimulatorAgreesWithTheCluster runs the same jobs on the cluster and in synergy sim, with what a start costs on
// this machine measured first.
func TestTheSimulatorAgreesWithTheCluster(t *testing.T) {
	c, d := SetUp(t, "fifo", "tune", "  horizon: 1m\n  payback: 1m")
	const honest = `for p in "$1"/profiles/*.json; do jq ".checkpoint_s=$2 | .start_s=$3" "$p" > "$p.new" && mv "$p.new" "$p"; done`
	c.MustExec("login", "synergy", "sh", "-c", honest, "sh", d.dir, fmt.Sprint(fidelitySave),
		fmt.Sprint(fidelityWarmUp))
	d.Round = benchRound
	d.Start()
	launch := c.launchCost()
	t.Logf("from its start until it trains, and from its goal to its end, a job takes %.2f s", launch)
	jobs := workload(42)
	arrived, live := c.replay(jobs)
	simulated := simulate(t, jobs, arrived, launch)
	compare(t, jobs, live, simulated)
}

// launchCost is what a run takes beyond its training, on average over a few on an idle cluster: sacct knows whole
// seconds only.
func (c *Cluster) launchCost() float64 {
	c.t.Helper()
	const runs = 12
	j := planned{model: "gnmt", gpus: 1, iterations: 3000}
	var ids []JobID
	for range runs {
		ids = append(ids, c.MustSbatch("alice", j.trains(), "--gres=gpu:1", output, "-c", "3", j.says()))
		time.Sleep(700 * time.Millisecond)
	}
	sum := 0.0
	for _, id := range ids {
		c.waitLong(id, "COMPLETED", 2*time.Minute)
		ran := c.runs(id)[0]
		sum += ran.end.Sub(ran.start).Seconds() - j.seconds()
	}
	return max(0, sum/runs)
}

// stay is one run of a job as sacct has it.
type stay struct{ start, end time.Time }

func (c *Cluster) runs(id JobID) []stay {
	c.t.Helper()
	var runs []stay
	var text string
	c.WaitFor("sacct knows job "+id.String(), func() bool {
		text = c.MustExec("login", "root", "sacct", "-X", "-n", "-P", "--duplicates", "-j", id.String(),
			"--format=Start,End")
		return text != "" && !strings.Contains(text, "Unknown")
	})
	for line := range strings.Lines(text) {
		start, end, _ := strings.Cut(strings.TrimSpace(line), "|")
		if start != "None" {
			runs = append(runs, stay{moment(c, start), moment(c, end)})
		}
	}
	return runs
}

// replay submits the workload at its times and waits for its end. It returns when each job was in fact submitted.
func (c *Cluster) replay(jobs []planned) (arrived []float64, results []result) {
	c.t.Helper()
	began := time.Now()
	ids := make([]JobID, len(jobs))
	for k, j := range jobs {
		time.Sleep(time.Until(began.Add(j.arrival)))
		argv := []string{fmt.Sprintf("--gres=gpu:%d", j.gpus), output, "--open-mode=append", "-c",
			fmt.Sprint(3 * j.gpus), j.says()}
		ids[k] = c.MustSbatch("alice", j.trains(), argv...)
		arrived = append(arrived, time.Since(began).Seconds())
	}
	for _, id := range ids {
		c.waitLong(id, "COMPLETED", 20*time.Minute)
		runs := c.runs(id)
		results = append(results, result{
			first: runs[0].start.Sub(began).Seconds(), finish: runs[len(runs)-1].end.Sub(began).Seconds(),
			starts: len(runs),
		})
	}
	return arrived, results
}

// simulate runs the same jobs in synergy sim, in the cluster's own seconds.
func simulate(t *testing.T, jobs []planned, arrived []float64, launch float64) []result {
	t.Helper()
	dir := t.TempDir()
	hurried(t, dir, benchSpeedup, fidelitySave, fidelityWarmUp)
	var text strings.Builder
	for k, j := range jobs {
		fmt.Fprintf(&text, "%d,%s,%.3f,%d,%d\n", k, j.model, arrived[k], j.iterations, j.gpus)
	}
	put(t, filepath.Join(dir, "trace.csv"), text.String())
	out, experiment := filepath.Join(dir, "jobs.csv"), filepath.Join(dir, "experiment.yaml")
	put(t, experiment, fmt.Sprintf("round: %s\nhorizon: 1m\npayback: 1m\nscheduler-delay: 1s\nteardown: 1s\n"+
		"launch: %.3fs\n", benchRound, launch))
	cmd := exec.Command("../../bin/synergy", "sim", experiment, "--trace", filepath.Join(dir, "trace.csv"),
		"--profiles", filepath.Join(dir, "profiles"), "--cluster", "4x8:24:500", "--policy", "fifo",
		"--allocator", "tune", "--min-run", "0s", "--jobs-out", out, "--quiet")
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", strings.Join(cmd.Args, " "), err, said)
	}
	return results(t, out)
}

// compare prints both outcomes job by job and overall, and fails where they differ by 5 % or more.
func compare(t *testing.T, jobs []planned, live, simulated []result) {
	t.Helper()
	if len(live) != len(jobs) || len(simulated) != len(jobs) {
		t.Fatalf("%d and %d of %d jobs ended", len(live), len(simulated), len(jobs))
	}
	t.Logf("%4s %-12s %4s %8s | %8s %8s %6s | %8s %8s %6s | %7s", "job", "model", "GPUs", "arrives",
		"starts", "ends", "runs", "starts", "ends", "runs", "differs")
	var sums, ends [2]float64
	worst := 0.0
	for k, j := range jobs {
		a, b := live[k], simulated[k]
		at := j.arrival.Seconds()
		differs := (b.finish-at)/(a.finish-at) - 1
		worst = max(worst, math.Abs(differs))
		t.Logf("%4d %-12s %4d %8.1f | %8.1f %8.1f %6d | %8.1f %8.1f %6d | %+6.1f%%", k, j.model, j.gpus, at,
			a.first, a.finish, a.starts, b.first, b.finish, b.starts, 100*differs)
		sums[0], sums[1] = sums[0]+a.finish-at, sums[1]+b.finish-at
		ends[0], ends[1] = max(ends[0], a.finish), max(ends[1], b.finish)
	}
	mean, makespan := sums[1]/sums[0]-1, ends[1]/ends[0]-1
	n := float64(len(jobs))
	t.Logf("mean completion: %.1f s on the cluster, %.1f s simulated: %+.1f %%", sums[0]/n, sums[1]/n, 100*mean)
	t.Logf("makespan:        %.1f s on the cluster, %.1f s simulated: %+.1f %%", ends[0], ends[1], 100*makespan)
	t.Logf("a single job differs by up to %.0f %%", 100*worst)
	if math.Abs(mean) >= 0.05 || math.Abs(makespan) >= 0.05 {
		t.Errorf("want less than 5 %% for both")
	}
}
