//go:build live

package live

import (
	"strings"
	"testing"
	"time"
)

// powerSaving has slurmctld power nodes down and up, by programs that do nothing. The last node's slurmd says when it
// was started, as one does whose node has booted, and is started again by boot.
func (c *Cluster) powerSaving() (node string, boot func()) {
	c.t.Helper()
	all := c.nodes()
	node = all[len(all)-1]
	c.MustExec(node, "root", "sed", "-i", "s/slurmd -D -N/slurmd -b -D -N/", "/usr/local/bin/entrypoint.sh")
	boot = func() { c.docker("restart", "--time=3", c.container(node)) }
	c.conf(`$aSuspendTime=86400\nSuspendTimeout=2\nResumeTimeout=120
$aSuspendProgram=/bin/true\nResumeProgram=/bin/true`)
	c.t.Cleanup(func() {
		c.Clear()
		c.conf("")
		c.MustExec(node, "root", "sed", "-i", "s/slurmd -b -D -N/slurmd -D -N/", "/usr/local/bin/entrypoint.sh")
		boot()
		c.WaitFor("the node is idle", func() bool { return c.ShowNode(node)["State"] == "IDLE" })
	})
	return node, boot
}

// powerDown has a node powered down.
func (c *Cluster) powerDown(node string) {
	c.t.Helper()
	c.WaitFor("the node is idle", func() bool { return strings.HasPrefix(c.ShowNode(node)["State"], "IDLE") })
	c.MustExec("slurmctld", "root", "scontrol", "update", "NodeName="+node, "State=POWER_DOWN_FORCE")
	c.WaitFor("the node is powered down", func() bool {
		return strings.Contains(c.ShowNode(node)["State"], "POWERED_DOWN")
	})
}

// A node that is powered down is resumed for a job with the word as for one without.
func TestANodeThatIsPoweredDownIsResumedForAJobWithTheWord(t *testing.T) {
	c, d := SetUp(t, "fifo", "tune")
	node, boot := c.powerSaving()
	d.Start()
	for _, words := range [][]string{nil, {word("res18")}} {
		c.powerDown(node)
		began := time.Now()
		id := c.MustSbatch("alice", "true", append(words, "--gres=gpu:1", "-w", node, "--output=/dev/null")...)
		c.WaitFor("Slurm resumes the node for it", func() bool {
			job := c.ShowJob(id)
			return job["JobState"] == "CONFIGURING" || job["NodeList"] == node
		})
		t.Logf("%q: resumed %.0f s after it was submitted", words, time.Since(began).Seconds())
		if took := time.Since(began); took > 2*d.Round+slurmsOwn {
			t.Errorf("%q: resumed after %s, with rounds of %s", words, took, d.Round)
		}
		boot()
		c.WaitForState(id, "COMPLETED")
	}
}
