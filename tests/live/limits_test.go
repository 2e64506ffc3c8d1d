//go:build live

package live

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// Limited gives an account of alice's these limits, in the words of sacctmgr, until the test ends. Each of them is
// taken back by -1.
func (c *Cluster) Limited(limits ...string) {
	c.t.Helper()
	c.sacctmgr("add", "account", "ml", "parent=users")
	c.sacctmgr("add", "user", "alice", "account=ml")
	c.sacctmgr(append([]string{"modify", "account", "ml", "set"}, limits...)...)
	var off []string
	for _, limit := range limits {
		off = append(off, limit[:strings.LastIndex(limit, "=")]+"=-1")
	}
	c.t.Cleanup(func() { c.sacctmgr(append([]string{"modify", "account", "ml", "set"}, off...)...) })
}

// sacctmgr does something that may have been done already.
func (c *Cluster) sacctmgr(words ...string) {
	_, _ = c.Exec("login", "root", append([]string{"sacctmgr", "-iQ"}, words...)...)
}

// holding is what the running jobs of a user hold at a moment.
type holding struct{ jobs, cores, gpus, widest int }

func (h holding) max(o holding) holding {
	return holding{max(h.jobs, o.jobs), max(h.cores, o.cores), max(h.gpus, o.gpus), max(h.widest, o.widest)}
}

// Holding is what the running jobs of a user hold now, by Slurm's own account.
func (c *Cluster) Holding(user string) (h holding) {
	c.t.Helper()
	out := c.MustExec("login", "root", "squeue", "--noheader", "--states=RUNNING", "--user="+user,
		"--Format=tres-alloc:200")
	for line := range strings.Lines(out) {
		has := amounts(strings.TrimSpace(line))
		h = holding{h.jobs + 1, h.cores + has["cpu"], h.gpus + has["gres/gpu"], max(h.widest, has["cpu"])}
	}
	return h
}

// MostHeld samples what a user's jobs hold until the function that it returns is called, which tells the most of each
// and how often it looked.
func (c *Cluster) MostHeld(user string) func() (most holding, samples int) {
	var most holding
	samples, stop := 0, make(chan struct{})
	var sampler sync.WaitGroup
	sampler.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Millisecond):
				most, samples = most.max(c.Holding(user)), samples+1
			}
		}
	})
	return func() (holding, int) {
		close(stop)
		sampler.Wait()
		return most, samples
	}
}

// hungry submits jobs of alice's in the limited account, each of which would have nine cores.
func (c *Cluster) hungry(n int, more ...string) []JobID {
	c.t.Helper()
	var ids []JobID
	for range n {
		args := append([]string{"-A", "ml", "-c", "3", "--mem=1000", "--gres=gpu:1", word("res18"), output}, more...)
		ids = append(ids, c.MustSbatch("alice", "sleep 600", args...))
	}
	return ids
}

// told waits until a waiting job's why has the words.
func (c *Cluster) told(id JobID, words ...string) {
	c.t.Helper()
	c.WaitFor(fmt.Sprintf("job %s is told one of %q", id, words), func() bool {
		extra := c.ShowJob(id)["Extra"]
		for _, each := range words {
			if strings.Contains(extra, each) {
				return true
			}
		}
		return false
	})
}

func TestNoSizeExceedsTheLimitOnAJob(t *testing.T) {
	c, d := SetUp(t, "fifo", "tune")
	c.Limited("MaxTRESPerJob=cpu=6")
	most := c.MostHeld("alice")
	ids := c.hungry(4)
	free := c.MustSbatch("bob", "sleep 600", "-c", "3", "--gres=gpu:1", word("res18"), output)
	d.Start()
	for _, id := range append(ids, free) {
		c.WaitForState(id, "RUNNING")
	}
	time.Sleep(3 * d.Round)
	if held, n := most(); held.widest != 6 || held.jobs != 4 || n < 5 {
		t.Errorf("%+v in %d samples: want four jobs, the widest with the 6 cores that it may have", held, n)
	}
	if _, has := c.Allocation(free); has["cpu"] != 9 {
		t.Errorf("bob, who has no limit, has %v", has)
	}
}

func TestAnAccountNeverHoldsMoreCoresThanItsLimit(t *testing.T) {
	c, d := SetUp(t, "fifo", "tune")
	c.Limited("GrpTRES=cpu=12")
	most := c.MostHeld("alice")
	ids := c.hungry(6)
	d.Start()
	c.WaitForState(ids[0], "RUNNING")
	time.Sleep(4 * d.Round)
	held, n := most()
	if held.cores > 12 || held.cores < 10 || n < 5 {
		t.Errorf("%+v in %d samples: want up to 12 cores", held, n)
	}
	c.told(ids[len(ids)-1], "GrpTRES of account ml")
}

// Forty jobs of alice's may use two GPUs. Six of bob's come later, and there is room for all of them.
func TestFortyJobsUnderALimitDoNotDelayAnotherUsersSix(t *testing.T) {
	c, d := SetUp(t, "fifo", "tune")
	c.Limited("GrpTRES=gres/gpu=2")
	most := c.MostHeld("alice")
	d.Start()
	alices := c.hungry(40)
	c.WaitForState(alices[0], "RUNNING")
	for k := range 6 {
		id := c.MustSbatch("bob", "sleep 600", "-c", "3", "--gres=gpu:1", word("res18"), output)
		submitted := time.Now()
		c.WaitForState(id, "RUNNING")
		t.Logf("bob's job %d ran after %.1f s", k+1, time.Since(submitted).Seconds())
		if took := time.Since(submitted); took > d.Round+3*time.Second {
			t.Errorf("bob's job %d waited %s for GPUs that were free", k+1, took)
		}
	}
	c.told(alices[39], "AssocGrpGRES", "GrpTRES of account ml")
	time.Sleep(2 * d.Round)
	if held, n := most(); held.gpus != 2 || n < 10 {
		t.Errorf("%+v in %d samples, want two GPUs", held, n)
	}
	failed := map[any]int{}
	for _, line := range d.Log() {
		if line["verb"] == "start" && line["error"] != nil {
			failed[line["round"]]++
		}
	}
	t.Logf("failed starts by round: %v", failed)
	first := true
	for round := range 100 {
		if n := failed[float64(round)]; n > 0 {
			if !first && n > 3 {
				t.Errorf("round %d has %d failed starts", round, n)
			}
			first = false
		}
	}
}

func TestTheLimitOfAQOSOnEachUserIsKept(t *testing.T) {
	c, d := SetUp(t, "fifo", "tune")
	c.sacctmgr("add", "qos", "fair")
	c.sacctmgr("modify", "qos", "fair", "set", "MaxTRESPerUser=cpu=10")
	c.sacctmgr("modify", "user", "alice", "set", "qos+=fair")
	c.Limited("GrpTRES=cpu=1000")
	c.sacctmgr("modify", "account", "ml", "set", "qos+=fair")
	most := c.MostHeld("alice")
	ids := c.hungry(5, "--qos=fair")
	d.Start()
	c.WaitForState(ids[0], "RUNNING")
	time.Sleep(4 * d.Round)
	if held, n := most(); held.cores > 10 || held.cores < 9 || n < 5 {
		t.Errorf("%+v in %d samples, want up to ten cores", held, n)
	}
	c.told(ids[4], "MaxTRESPerUser of alice in QOS fair")
}

func TestNoMoreJobsRunThanAUserMayHave(t *testing.T) {
	c, d := SetUp(t, "fifo", "tune")
	c.Limited("MaxJobs=3")
	most := c.MostHeld("alice")
	ids := c.hungry(8)
	d.Start()
	c.WaitForState(ids[0], "RUNNING")
	c.told(ids[7], "AssocMaxJobsLimit", "MaxJobs of alice in account ml")
	_, _ = c.Exec("login", "root", "scancel", ids[0].String(), ids[1].String(), ids[2].String())
	ended := time.Now()
	c.WaitFor("the next three run", func() bool { return c.Holding("alice").jobs == 3 })
	t.Logf("three jobs followed three within %.1f s", time.Since(ended).Seconds())
	if held, n := most(); held.jobs != 3 || n < 5 {
		t.Errorf("%+v in %d samples, want three jobs", held, n)
	}
}

// Billing is Slurm's to reckon, so the daemon learns of this limit by a refusal. Bob's jobs, which would have to give
// way to alice's, stay.
func TestNobodyIsStoppedForJobsThatSlurmRefuses(t *testing.T) {
	c, d := SetUp(t, "las", "tune")
	c.Limited("GrpTRES=billing=1")
	d.Start()
	alices := c.hungry(2)
	c.told(alices[1], "Slurm does not start it (AssocGrpBilling): its account's limit on billing is reached")
	var bobs []JobID
	for range c.nodes() {
		bobs = append(bobs, c.MustSbatch("bob", train("gnmt", 200000, 60), word("gnmt"), "--gres=gpu:8", output))
	}
	for _, id := range bobs {
		c.WaitForState(id, "RUNNING")
	}
	time.Sleep(20 * time.Second)
	for _, id := range bobs {
		if job := c.ShowJob(id); job["JobState"] != "RUNNING" || job["Restarts"] != "0" {
			t.Errorf("bob's job %s: %s after %s restarts", id, job["JobState"], job["Restarts"])
		}
	}
}

func TestWithoutSlurmdbdNoJobIsGivenMoreThanItAskedFor(t *testing.T) {
	c, d := SetUp(t, "fifo", "tune")
	dbd := c.container("slurmdbd")
	t.Cleanup(func() { c.docker("unpause", dbd) })
	c.docker("pause", dbd)
	id := c.MustSbatch("alice", "sleep 600", "-c", "4", "--mem=60000", "--gres=gpu:1", word("res18"), output)
	d.Start()
	c.WaitForState(id, "RUNNING")
	if _, has := c.Allocation(id); has["cpu"] > 4 || has["mem"] > 60000 {
		t.Errorf("holds %v, asked for 4 cores and 60000 MB", has)
	}
	c.WaitFor("the log says that limits are not known",
		func() bool { return strings.Contains(d.Read("log"), "the site's limits are not known") })
}
