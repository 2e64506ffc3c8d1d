//go:build live

package live

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// SetUpHalves is SetUp with two managed partitions in place of the one: left has the first node, and Slurm tries it
// first; right has the second.
func SetUpHalves(t *testing.T) (*Cluster, *Daemon) {
	t.Helper()
	c, d := SetUp(t, "fifo", "tune")
	d.Manage("left nodes=n1 prioritytier=10", "right nodes=n2 prioritytier=5")
	return c, d
}

// Manage gives the daemon and the gate these partitions in place of the one, each with what scontrol is to be told of
// it, until the test ends.
func (d *Daemon) Manage(partitions ...string) {
	c := d.c
	c.t.Helper()
	var names, quoted []string
	for _, words := range partitions {
		said := strings.Fields(words)
		names, quoted = append(names, said[0]), append(quoted, strconv.Quote(said[0]))
		c.MustExec("login", "root", append([]string{"scontrol", "create", "partitionname=" + said[0], "state=up"},
			said[1:]...)...)
	}
	d.Put("config.yaml", strings.Replace(d.Read("config.yaml"), "partitions: [synergy]",
		"partitions: ["+strings.Join(names, ", ")+"]", 1))
	c.settings("managed_partitions = { " + strings.Join(quoted, ", ") + " },")
	c.t.Cleanup(func() {
		c.Clear()
		c.settings("")
		for _, name := range names {
			_, _ = c.Exec("login", "root", "scontrol", "delete", "partitionname="+name)
		}
	})
}

// partitionsOf lists the partitions of a job in the order of the alphabet.
func (c *Cluster) partitionsOf(id JobID) string {
	c.t.Helper()
	names := strings.Split(c.ShowJob(id)["Partition"], ",")
	slices.Sort(names)
	return strings.Join(names, ",")
}

func TestAJobOfSeveralPartitionsRunsWhereThereIsRoomAndComesBackToAll(t *testing.T) {
	c, d := SetUpHalves(t)
	filler := c.MustSbatch("bob", "sleep 600", "-p", "left", "--gres=gpu:8")
	c.WaitForState(filler, "RUNNING")
	d.Start()
	id := c.MustSbatch("alice", "sleep 600", "-p", "left,right", "--gres=gpu:8", word("res18"), "--open-mode=append",
		output)
	c.WaitForState(id, "RUNNING")
	c.WaitFor("the daemon has told that it named the one, which backfill would have had to find", func() bool {
		return slices.ContainsFunc(d.Log(),
			func(line Line) bool { return line["field"] == "partition" && line["new"] == "right" })
	})
	if nodes, _ := c.Allocation(id); nodes != "n2" || c.partitionsOf(id) != "right" {
		t.Errorf("it runs in %s on %s", c.partitionsOf(id), nodes)
	}
	t.Cleanup(func() { _, _ = c.Exec("login", "root", "scontrol", "update", "nodename=n2", "state=resume") })
	c.MustExec("login", "root", "scontrol", "update", "nodename=n2", "state=drain", "reason=test")
	c.MustExec("login", "root", "scontrol", "requeue", id.String())
	c.WaitFor("it waits for all of its partitions", func() bool {
		job := c.ShowJob(id)
		return job["JobState"] == "PENDING" && c.partitionsOf(id) == "left,right" && job["ReqNodeList"] == "(null)"
	})
	c.MustExec("login", "root", "scancel", filler.String())
	c.WaitForState(id, "RUNNING")
	if nodes, _ := c.Allocation(id); nodes != "n1" || c.partitionsOf(id) != "left" {
		t.Errorf("after that it runs in %s on %s", c.partitionsOf(id), nodes)
	}
}

func TestAPartitionThatRefusesAJobDoesNotKeepItFromTheOther(t *testing.T) {
	c, d := SetUpHalves(t)
	c.MustExec("login", "root", "scontrol", "update", "partitionname=right", "maxtime=10")
	filler := c.MustSbatch("bob", "sleep 600", "-p", "left", "--gres=gpu:8")
	c.WaitForState(filler, "RUNNING")
	d.Start()
	id := c.MustSbatch("alice", "sleep 600", "-p", "left,right", "--time=60", "--gres=gpu:8", profile)
	time.Sleep(3 * d.Round)
	if job := c.ShowJob(id); job["JobState"] != "PENDING" || c.partitionsOf(id) != "left,right" {
		t.Errorf("right has a shorter limit, left is full: %s in %s", job["JobState"], job["Partition"])
	}
	c.MustExec("login", "root", "scancel", filler.String())
	c.WaitForState(id, "RUNNING")
	if got := c.partitionsOf(id); got != "left" {
		t.Errorf("it runs in %s", got)
	}
}

func TestOnlyJobsWhosePartitionsAreAllManagedAreTaken(t *testing.T) {
	c, _ := SetUpHalves(t)
	said, err := c.Terminal(
		"sbatch",
		"-p",
		"left,plain,right",
		"--gres=gpu:1",
		profile,
		output,
		"--parsable",
		"--wrap=true",
	)
	if err != nil || !strings.Contains(said, "of yours these are left,right; name no others") {
		t.Errorf("in a partition that is not managed, too: %v: %s", err, said)
	}
	gated := c.MustSbatch("alice", sleeper, "-p", "right,left", "--gres=gpu:1", profile)
	if extra := c.ShowJob(gated)["Extra"]; extra != asks() {
		t.Errorf("the annotation is %s", extra)
	}
	wantRefusal(t, c.Update("alice", gated, "Partition=right"), "the partition of a job")
	free := c.MustSbatch("alice", sleeper, "-p", "synergy,plain", "--gres=gpu:1", profile)
	if extra := c.ShowJob(free)["Extra"]; extra != "" {
		t.Errorf("none of its partitions is managed, and it has the annotation %s", extra)
	}
}
