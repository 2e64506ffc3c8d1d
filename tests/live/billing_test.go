//go:build live

package live

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// weigh gives partitions these TRESBillingWeights until the test ends.
func (c *Cluster) weigh(weights string, partitions ...string) {
	c.t.Helper()
	c.t.Cleanup(func() { c.MustExec("login", "root", "scontrol", "reconfigure") }) // slurm.conf has none
	for _, name := range partitions {
		c.MustExec("login", "root", "scontrol", "update", "partitionname="+name, "TRESBillingWeights="+weights)
	}
}

// hasBegun reports whether the job's script has written something. A job that is requeued while its node still launches
// it may be sent back by the node as well.
func (c *Cluster) hasBegun(id JobID) bool {
	_, err := c.Exec("login", "root", "test", "-s", fmt.Sprintf("/shared/out/%d.log", id))
	return err == nil
}

// This is Slurm's doing, which the documentation tells and --check warns of: where it fails, they are out of date.
func TestEachRunIsChargedAsItsJobsFirstAndByGPUsAloneThatIsRight(t *testing.T) {
	c := OpenCluster(t)
	c.weigh("CPU=1.0,Mem=0.25G,GRES/gpu=2.0", "plain")
	c.weigh("CPU=0,Mem=0,GRES/gpu=1", "synergy")
	type resized struct {
		id                          JobID
		partition                   string
		first, later, charged, owed int // cores, and billing of the second run as it is and as it would be by its size
	}
	jobs := []*resized{
		{partition: "plain", first: 3, later: 6, charged: 5, owed: 8},
		{partition: "plain", first: 18, later: 6, charged: 20, owed: 8},
		{partition: "synergy", first: 3, later: 6, charged: 1, owed: 1},
		{partition: "synergy", first: 18, later: 6, charged: 1, owed: 1},
	}
	for _, j := range jobs {
		j.id = c.MustSbatch(
			"alice",
			"echo began; sleep 600",
			"-p",
			j.partition,
			"--requeue",
			"-c",
			fmt.Sprint(j.first),
			"--mem=1000",
			"--gres=gpu:1",
			output,
		)
	}
	for _, j := range jobs {
		c.WaitForState(j.id, "RUNNING")
		c.WaitFor(fmt.Sprintf("the script of job %s began", j.id), func() bool { return c.hasBegun(j.id) })
		c.MustExec("login", "root", "scontrol", "requeue", j.id.String())
	}
	for _, j := range jobs {
		c.WaitForState(j.id, "PENDING")
		n := fmt.Sprint(j.later)
		c.MustExec("login", "root", "scontrol", "update", "jobid="+j.id.String(), "numcpus="+n, "cpuspertask="+n,
			"mincpusnode="+n, "starttime=now")
	}
	for _, j := range jobs {
		c.WaitForState(j.id, "RUNNING")
		job := c.ShowJob(j.id)
		has := amounts(job["AllocTRES"])
		t.Logf("%s, %d cores and then %d: %s", j.partition, j.first, j.later, job["AllocTRES"])
		if job["Restarts"] != "1" || has["cpu"] != j.later || has["billing"] != j.charged {
			t.Errorf("job %s after %s restarts: %s, want billing=%d, where its size comes to %d", j.id, job["Restarts"],
				job["AllocTRES"], j.charged, j.owed)
		}
	}
}

func TestASiteIsToldWhatToChargeWhereSizesChangeIt(t *testing.T) {
	s := newSite(t)
	s.c.weigh("CPU=1.0,Mem=0.25G,GRES/gpu=2.0", "synergy")
	found, ready := s.look("--shadow")
	if !ready || !slices.ContainsFunc(found, func(f finding) bool {
		return f.Check == "TRESBillingWeights" && f.Verdict == "warn" && strings.Contains(f.Remedy, "GRES/gpu=1")
	}) {
		t.Errorf("cores and memory are charged, ready %t: %v", ready, found)
	}
	s.c.weigh("CPU=0,Mem=0,GRES/gpu=1", "synergy")
	if found, _ := s.look("--shadow"); slices.Contains(those(found, "warn"), "TRESBillingWeights") {
		t.Errorf("GPUs alone are charged: %v", found)
	}
}
