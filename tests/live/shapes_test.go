//go:build live

package live

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// shapes are the ways in which users ask. Of cores such a job is owed three a GPU, in whole cores for each task, and
// gains by four: it holds the more, unless its neighbours have what is left over.
var shapes = map[string]struct {
	args              []string
	nodes, owed, most int
}{
	"--gres":                       {[]string{"--gres=gpu:2"}, 1, 6, 8},
	"--gpus":                       {[]string{"--gpus=2"}, 1, 6, 8},
	"--gpus-per-node":              {[]string{"--gpus-per-node=1"}, 1, 3, 4},
	"--gpus-per-task":              {[]string{"-N", "1", "-n", "2", "--gpus-per-task=1"}, 1, 6, 8},
	"four tasks on a node":         {[]string{"-N", "1", "-n", "4", "-c", "2", "--gres=gpu:2"}, 1, 8, 8},
	"three tasks on each node":     {[]string{"-N", "2", "--ntasks-per-node=3", "-c", "1", "--gres=gpu:1"}, 2, 6, 12},
	"memory by core":               {[]string{"-c", "2", "--mem-per-cpu=2000", "--gres=gpu:1"}, 1, 3, 4},
	"memory by node, no cores":     {[]string{"--mem=3000", "--gres=gpu:1"}, 1, 3, 4},
	"a node by name":               {[]string{"-w", "n3", "--gres=gpu:1"}, 1, 3, 4},
	"a node excluded":              {[]string{"-x", "n1,n2", "--gres=gpu:1"}, 1, 3, 4},
	"features":                     {[]string{"--constraint=hopper&nvlink", "--gres=gpu:1"}, 1, 3, 4},
	"many tasks, more than a part": {[]string{"-N", "1", "-n", "6", "--gres=gpu:1"}, 1, 6, 6},
}

func TestHoweverAUserAsksTheJobIsSized(t *testing.T) {
	c, d := SetUp(t, "fifo", "tune")
	ids := map[string]JobID{}
	const pinned = "a node by name" // first, or the others may have filled its node
	for _, name := range append([]string{pinned}, slices.Sorted(maps.Keys(shapes))...) {
		if _, submitted := ids[name]; submitted {
			continue
		}
		ids[name] = c.MustSbatch("alice", "srun sh -c 'echo task $SLURM_PROCID has $SLURM_CPUS_PER_TASK'; sleep 60",
			append(shapes[name].args, word("res50"), output)...)
	}
	d.Start()
	for name, id := range ids {
		c.WaitForState(id, "RUNNING")
		want := shapes[name]
		if nodes, has := c.Allocation(id); has["node"] != want.nodes || has["cpu"] < want.owed ||
			has["cpu"] > want.most {
			t.Errorf("%s: %v on %s, want %d to %d cores on %d nodes", name, has, nodes, want.owed, want.most,
				want.nodes)
		}
	}
	for _, line := range d.Log() {
		if line["level"] == "error" || line["level"] == "warn" {
			t.Errorf("the daemon complains: %v", line)
		}
	}
}

// TestAJobThatWaitsIsSaidOnceWhyAndLeftAlone: whatever its shape, what Slurm shows of it is what its user asked for, so
// there is nothing to restore.
func TestAJobThatWaitsIsSaidOnceWhyAndLeftAlone(t *testing.T) {
	c, d := SetUp(t, "fifo", "tune")
	for k := range 4 {
		c.MustSbatch("bob", "sleep 300", word("res50"), "--gres=gpu:8", fmt.Sprintf("-wn%d", k+1))
	}
	d.Start("--log-level", "debug")
	c.WaitFor("the cluster is full", func() bool {
		return strings.Count(c.MustExec("login", "root", "squeue", "-h", "-t", "R", "-o", "%i"), "\n") == 3
	})
	for _, shape := range shapes {
		c.MustSbatch("alice", "sleep 60", append(shape.args, word("res50"), output)...)
	}
	time.Sleep(5 * d.Round)
	told := map[any]int{}
	for _, line := range d.Log() {
		switch {
		case line["message"] == "step" && line["verb"] == "renew":
			told[line["job"]]++
		case line["verb"] == "restore":
			t.Errorf("restored, though nothing had been changed: %v", line)
		}
	}
	if len(told) != len(shapes) {
		t.Errorf("%d of %d waiting jobs were told why", len(told), len(shapes))
	}
	for job, times := range told {
		if times > 3 { // once at first, then at half of each lease of 30 s
			t.Errorf("job %v: %d updates in %s", job, times, 5*d.Round)
		}
	}
}

// An exclusive job is given whole nodes in its turn, with the request that its user wrote.
func TestAnExclusiveJobHasWholeNodesInItsTurn(t *testing.T) {
	c, d := SetUp(t, "fifo", "tune")
	first := c.MustSbatch("alice", "sleep 15", "--gres=gpu:1", "-w", "n1,n2,n3,n4", "-N4", word("res50"), output)
	d.Start()
	c.WaitForState(first, "RUNNING")
	id := c.MustSbatch("alice", "sleep 60", "--exclusive", "--gres=gpu:1", "-c", "2", "-N2", "--mem=3000",
		word("res18"), output)
	asked := c.ShowJob(id)
	c.WaitFor("it is leased", func() bool { return strings.Contains(c.ShowJob(id)["Extra"], `"v":1`) })
	c.WaitForState(id, "RUNNING")
	_, has := c.Allocation(id)
	job := c.ShowJob(id)
	if has["cpu"] != 48 || has["gres/gpu"] != 16 || job["MinMemoryNode"] != asked["MinMemoryNode"] ||
		job["CPUs/Task"] != asked["CPUs/Task"] {
		t.Errorf("it has %v, %s for each task and %s, and asked for %s and %s", has, job["CPUs/Task"],
			job["MinMemoryNode"], asked["CPUs/Task"], asked["MinMemoryNode"])
	}
	if strings.Contains(job["Extra"], "handed back") || job["ReqNodeList"] == "(null)" {
		t.Errorf("it was left to Slurm, on %s: %s", job["ReqNodeList"], job["Extra"])
	}
}
