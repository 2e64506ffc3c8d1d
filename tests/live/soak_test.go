//go:build live

package live

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestManyShortJobsLeaveNothingBehind is the short form of TestTwoThousandShortJobs.
func TestManyShortJobsLeaveNothingBehind(t *testing.T) {
	soak(t, 150)
}

// Names of what a soak samples.
const (
	residentMemory = "process_resident_memory_bytes"
	goroutines     = "go_goroutines"
	ledgerSize     = "synergy_ledger_bytes"
)

// soak runs so many jobs of a few seconds through the cluster, never more than a hundred at a time, and returns samples
// of the daemon over that time. Each job must have run once, to its end, with its own output, and no node have been
// given away twice.
func soak(t *testing.T, jobs int) []figures {
	c, d := SetUp(t, "fifo", "tune")
	d.Round = 2 * time.Second
	d.Start("--log-level", "warn")
	c.MustExec("login", "root", "sh", "-c", "rm -f /shared/out/soak-*")
	stop := c.Watch()
	began := time.Now()
	ids, samples := c.stream(d, jobs)
	took := time.Since(began)
	seen, breaches := stop()
	t.Logf("%d jobs in %.0f s, %d looks at the nodes", jobs, took.Seconds(), seen)
	if len(breaches) > 0 || seen < 100 {
		t.Errorf("%d looks at the nodes, breaches: %v", seen, breaches)
	}
	c.eachRanOnce(ids)
	return samples
}

// stream submits the jobs, refilling the queue as it empties, and samples the daemon until all have ended.
func (c *Cluster) stream(d *Daemon, jobs int) (ids []JobID, samples []figures) {
	c.t.Helper()
	const atOnce = 100
	deadline := time.Now().Add(time.Duration(jobs)*time.Second + 2*time.Minute)
	for {
		left := c.Left()
		if left == 0 && len(ids) == jobs {
			return ids, append(samples, d.Metrics())
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("%d of %d jobs are submitted and %d have not ended in time", len(ids), jobs, left)
		}
		done := len(ids)
		more := c.Crowd(max(0, min(jobs-done, atOnce-left)), func(k int) posting { return short(done + k) })
		ids = append(ids, more...)
		samples = append(samples, d.Metrics())
		time.Sleep(2 * time.Second)
	}
}

// short is a job of one to four seconds that says when it begins and when it ends.
func short(k int) posting {
	models := []string{"res18", "gnmt", "alexnet", "transformer", "m5"}
	return posting{
		script:  fmt.Sprintf("echo $SLURM_JOB_ID begins; sleep %d; echo $SLURM_JOB_ID ends", 1+k%4),
		comment: "synergy-profile=" + models[k%len(models)] + ".json",
		cpus:    1 + k%3, gpus: 1 + k%2, output: "/shared/out/soak-%j",
	}
}

// eachRanOnce holds accounting and the jobs' own output to that.
func (c *Cluster) eachRanOnce(ids []JobID) {
	c.t.Helper()
	want, wantLines := make([]string, 0, len(ids)), make([]string, 0, 2*len(ids))
	for _, id := range ids {
		want = append(want, id.String()+"|COMPLETED|0:0")
		wantLines = append(wantLines, id.String()+" begins", id.String()+" ends")
	}
	var runs []string
	names := make([]string, len(ids))
	for k, id := range ids {
		names[k] = id.String()
	}
	c.WaitFor("accounting has the end of every job", func() bool {
		text := c.MustExec("login", "root", "sacct", "-X", "-n", "-P", "--duplicates", "-j", strings.Join(names, ","),
			"--format=JobID,State,ExitCode")
		runs = strings.Fields(text)
		return len(runs) >= len(ids) && !strings.Contains(text, "RUNNING") && !strings.Contains(text, "PENDING")
	})
	c.same("runs in accounting", runs, want)
	c.same("lines of output", strings.Split(c.MustExec("login", "root", "sh", "-c", "cat /shared/out/soak-*"), "\n"),
		wantLines)
}

// same compares two lists whatever their order, and tells the first differences.
func (c *Cluster) same(what string, got, want []string) {
	c.t.Helper()
	count := map[string]int{}
	for _, line := range want {
		count[line]--
	}
	for _, line := range got {
		count[line]++
	}
	var differs []string
	for line, n := range count {
		if n != 0 {
			differs = append(differs, fmt.Sprintf("%+d %s", n, line))
		}
	}
	slices.Sort(differs)
	c.t.Logf("%s: %d, wanted %d, %d differ", what, len(got), len(want), len(differs))
	if len(differs) > 0 {
		c.t.Errorf("%s: more (+) and fewer (-) than wanted: %q", what, differs[:min(10, len(differs))])
	}
}
