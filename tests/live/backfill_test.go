//go:build live && fidelity

package live

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The workload under Slurm alone: short jobs, since their limits are whole minutes, and more than fit, since only who
// waits says anything of a scheduler.
const (
	plainJobs = 80
	plainSpan = 100.0 // seconds over which they arrive
)

// brief is one of them.
type brief struct {
	gpus    int
	seconds int
	limit   int // minutes
	arrival time.Duration
}

// draft draws jobs of 10 to 50 s with limits of 1 to 3 min, on 1 to 8 GPUs.
func draft(seed uint64) []brief {
	draw := rand.New(rand.NewPCG(seed, 1))
	var jobs []brief
	at := 0.0
	for range plainJobs {
		jobs = append(jobs, brief{
			gpus:    [20]int{1, 1, 2, 1, 4, 2, 1, 8, 1, 2, 4, 1, 8, 2, 1, 4, 1, 2, 8, 4}[draw.IntN(20)],
			seconds: 10 + draw.IntN(41), limit: 1 + draw.IntN(3),
			arrival: time.Duration(at * float64(time.Second)),
		})
		at += draw.ExpFloat64() * plainSpan / plainJobs
	}
	return jobs
}

// TestTheBackfillThatIsSimulatedAgreesWithSlurms runs the same jobs under the cluster's Slurm alone, takes its
// accounting as anybody would, and has synergy sim lay beside it what backfill would have done.
func TestTheBackfillThatIsSimulatedAgreesWithSlurms(t *testing.T) {
	c := OpenCluster(t)
	seed, err := strconv.ParseUint(cmp.Or(os.Getenv("SEED"), "7"), 10, 32)
	if err != nil {
		t.Fatalf("SEED: %v", err)
	}
	c.plainly(draft(seed))
	dir := t.TempDir()
	log, month := filepath.Join(dir, "sacct.txt"), filepath.Join(dir, "month.txt")
	put(t, log, c.MustExec("login", "root", "sh", "-c", ran(t, "import", "sacct", "--days", "1")))
	t.Log(ran(t, "import", "sacct", log, "-o", month))
	out, experiment := filepath.Join(dir, "jobs.csv"), filepath.Join(dir, "experiment.yaml")
	put(t, experiment, "bf-interval: 5s\nscheduler-delay: 1s\nteardown: 0s\n")
	t.Log(ran(t, "sim", experiment, "--trace", month, "--split", "gnmt=100", "--cluster", "4x8:24:500", "--allocator",
		"proportional", "--jobs-out", out))
	compareWaits(t, out)
}

// ran runs the command and returns what it printed.
func ran(t *testing.T, args ...string) string {
	t.Helper()
	text, err := exec.Command("../../bin/synergy", args...).Output()
	if err != nil {
		t.Fatalf("synergy %s: %v: %s", strings.Join(args, " "), err, text)
	}
	return string(text)
}

func content(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// plainly submits the jobs at their times, with the share of their GPUs, and waits for their end.
func (c *Cluster) plainly(jobs []brief) {
	c.t.Helper()
	began := time.Now()
	ids := make([]JobID, len(jobs))
	for k, j := range jobs {
		time.Sleep(time.Until(began.Add(j.arrival)))
		ids[k] = c.MustSbatch("alice", fmt.Sprintf("sleep %d", j.seconds), "-p", "plain", output,
			fmt.Sprintf("--gres=gpu:%d", j.gpus), "-c", fmt.Sprint(3*j.gpus), fmt.Sprintf("--mem=%d", 62500*j.gpus),
			fmt.Sprintf("--time=%d", j.limit))
	}
	for _, id := range ids {
		c.waitLong(id, "COMPLETED", 20*time.Minute)
	}
}

// compareWaits prints how long jobs waited on the cluster and in the simulation, and fails where the means differ by
// 5 % or more.
func compareWaits(t *testing.T, path string) {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(content(t, path))).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	waits := map[string][]float64{}
	for _, row := range rows[1:] { // policy,allocator,job_id,model,gpus,arrival_s,first_run_s,…
		arrival, _ := strconv.ParseFloat(row[5], 64)
		first, err := strconv.ParseFloat(row[6], 64)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		waits[row[0]] = append(waits[row[0]], first-arrival)
	}
	live, simulated := waits["as-it-was"], waits["backfill"]
	if len(live) != plainJobs || len(simulated) != plainJobs {
		t.Fatalf("%d and %d of %d jobs", len(live), len(simulated), plainJobs)
	}
	var sums [2]float64
	for k := range live {
		t.Logf("%4d %6.1f %6.1f", k, live[k], simulated[k])
		sums[0], sums[1] = sums[0]+live[k], sums[1]+simulated[k]
	}
	differs := sums[1]/sums[0] - 1
	t.Logf("mean wait: %.1f s on the cluster, %.1f s simulated: %+.1f %%", sums[0]/plainJobs, sums[1]/plainJobs,
		100*differs)
	if math.Abs(differs) >= 0.05 {
		t.Errorf("want less than 5 %%")
	}
}
