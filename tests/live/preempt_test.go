//go:build live

package live

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// SetUpTiers is SetUpAsShipped on a Slurm that preempts by itself: jobs of the partition high requeue those of the
// partition low. The daemon manages both.
func SetUpTiers(t *testing.T) (*Cluster, *Daemon) {
	t.Helper()
	c, d := SetUpAsShipped(t)
	c.conf(`s/^PreemptMode=.*//; $aPreemptType=preempt/partition_prio\nPreemptMode=REQUEUE`)
	t.Cleanup(func() { c.conf("") })
	d.Manage("low nodes=ALL prioritytier=1", "high nodes=ALL prioritytier=10")
	return c, d
}

// conf edits slurm.conf, as it was shipped, by sed, and has the controller read it.
func (c *Cluster) conf(edit string) {
	c.t.Helper()
	const change = `cd /etc/slurm; [ -e whole.conf ] || cp slurm.conf whole.conf; sed "$1" whole.conf > slurm.conf; scontrol reconfigure`
	c.MustExec("slurmctld", "root", "sh", "-c", change, "sh", edit)
	time.Sleep(2 * time.Second) // one that is told again while it reads does not survive it
	c.WaitFor("slurmctld answers", func() bool {
		out, err := c.Exec("login", "root", "scontrol", "ping")
		return err == nil && strings.Contains(out, "UP")
	})
}

// fill has bob's jobs take all GPUs of the cluster in a partition.
func (c *Cluster) fill(partition string) (ids []JobID) {
	c.t.Helper()
	for range c.Setting("NODES") {
		ids = append(ids, c.MustSbatch("bob", "sleep 600", "-p", partition, "--gres=gpu:8", "-c", "8", output))
	}
	for _, id := range ids {
		c.WaitForState(id, "RUNNING")
	}
	return ids
}

func TestAJobOfAHigherTierHasThePlaceThatSlurmPreemptsForIt(t *testing.T) {
	c, d := SetUpTiers(t)
	lower := c.fill("low")
	d.Start()
	began := time.Now()
	id := c.MustSbatch("alice", "sleep 600", "-p", "high", "--gres=gpu:1", "-c", "1", word("res18"), output)
	c.WaitForState(id, "RUNNING")
	t.Logf("it runs %.1f s after sbatch", time.Since(began).Seconds())
	if _, has := c.Allocation(id); has["cpu"] != 9 {
		t.Errorf("it has %v", has)
	}
	preempted := 0
	for _, other := range lower {
		if c.ShowJob(other)["Restarts"] == "1" {
			preempted++
		}
	}
	if preempted != 1 {
		t.Errorf("Slurm has requeued %d jobs of the lower tier for it, want 1", preempted)
	}
}

// Slurm stops it without a question and puts it back with the size and the node that it had. It waits for any node, and
// runs in the moment in which there is room.
func TestAJobThatSlurmPreemptsWaitsForAnyNodeAndGoesOn(t *testing.T) {
	c, d := SetUpTiers(t)
	d.Start()
	id := c.MustSbatch("alice", "sleep 600", "-p", "low", "--gres=gpu:1", "-c", "1", word("res18"),
		"--open-mode=append", output)
	c.WaitForState(id, "RUNNING")
	higher := c.fill("high")
	c.WaitFor("it waits for any node", func() bool {
		job := c.ShowJob(id)
		return job["JobState"] == "PENDING" && job["Restarts"] == "1" && job["ReqNodeList"] == "(null)"
	})
	time.Sleep(10 * time.Second)
	if states := c.statesOf(higher); slices.Contains(states, "PENDING") {
		t.Errorf("the jobs of the higher tier are %v", states)
	}
	c.MustExec("login", "root", "scancel", higher[0].String())
	c.WaitForState(id, "RUNNING")
	if _, has := c.Allocation(id); has["cpu"] != 9 || c.ShowJob(id)["Restarts"] != "1" {
		t.Errorf("it runs with %v after %s restarts", has, c.ShowJob(id)["Restarts"])
	}
}

// statesOf lists the states of jobs.
func (c *Cluster) statesOf(ids []JobID) (states []string) {
	c.t.Helper()
	for _, id := range ids {
		states = append(states, c.ShowJob(id)["JobState"])
	}
	return states
}
