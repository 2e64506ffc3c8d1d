//go:build live

package live

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// asShipped is what the shipped configuration says of order: Slurm's own, with the next in line eligible.
const asShipped = "ahead: 32"

// SetUpAsShipped is SetUp with the order that is shipped.
func SetUpAsShipped(t *testing.T) (*Cluster, *Daemon) {
	t.Helper()
	c, d := SetUp(t, "slurm", "tune")
	d.Put("config.yaml", strings.NewReplacer("ahead: 0", asShipped, "lease: 30s",
		"lease: 60s").Replace(d.Read("config.yaml")))
	d.Round = 30 * time.Second
	return c, d
}

// Four large jobs with our directive come when all is taken, and a dozen without it after them: those that came first
// run first.
func TestJobsWithoutOurWordThatComeLaterDoNotOvertake(t *testing.T) {
	c, d := SetUpAsShipped(t)
	d.Start()
	sleep := func(seconds int, more ...string) JobID {
		return c.MustSbatch("bob", fmt.Sprintf("sleep %d", seconds), append(more, "--gres=gpu:8", output)...)
	}
	nodes := len(c.nodes())
	var fillers []JobID
	for range nodes {
		fillers = append(fillers, sleep(15))
	}
	for _, id := range fillers {
		c.WaitForState(id, "RUNNING")
	}
	var ours, later []JobID
	for range nodes {
		ours = append(ours, c.MustSbatch("alice", "sleep 10", "--comment=synergy-profile=gnmt.json", "-c", "8",
			"--gres=gpu:8", output))
	}
	for range 3 * nodes {
		later = append(later, sleep(3))
	}
	for _, id := range append(ours, later...) {
		c.waitLong(id, "COMPLETED", 3*time.Minute)
	}
	last, first := c.startOf(ours[nodes-1]), c.startOf(later[0])
	for _, id := range later {
		if at := c.startOf(id); at.Before(first) {
			first = at
		}
	}
	if last.After(first) {
		t.Errorf("the last of ours started at %s, the first of those that came later at %s", last.Format(time.TimeOnly),
			first.Format(time.TimeOnly))
	}
}

// startOf is when a job that is over had started, as accounting has it.
func (c *Cluster) startOf(id JobID) time.Time {
	c.t.Helper()
	text := strings.TrimSpace(c.MustExec("login", "alice", "sacct", "-X", "-n", "-P", "-j", id.String(),
		"--format=Start"))
	at, err := time.Parse("2006-01-02T15:04:05", text)
	if err != nil {
		c.t.Fatalf("job %s started at %q: %v", id, text, err)
	}
	return at
}

// Each moment is seen within seconds, though rounds are half a minute apart.
func TestAMomentIsNotARound(t *testing.T) {
	c, d := SetUpAsShipped(t)
	d.Start()
	time.Sleep(2 * time.Second)
	word := []string{"--comment=synergy-profile=res18.json", "-c", "3", "--gres=gpu:1", output}
	submit := func(does string, more ...string) JobID { return c.MustSbatch("alice", does, append(more, word...)...) }
	within := func(what string, id JobID) {
		began := time.Now()
		c.WaitForState(id, "RUNNING")
		took := time.Since(began)
		t.Logf("%s: running %.1f s later", what, took.Seconds())
		if took > 12*time.Second { // two seconds and a start, on a machine that is busy
			t.Errorf("%s: ran %s later, rounds are %s", what, took, d.Round)
		}
	}
	within("submitted", submit("sleep 60"))
	parent := submit("sleep 6")
	child := submit("sleep 60", fmt.Sprintf("--dependency=afterok:%s", parent))
	held := submit("sleep 60", "-H")
	c.waitLong(parent, "COMPLETED", time.Minute)
	within("its parent has ended", child)
	c.MustExec("login", "alice", "scontrol", "release", held.String())
	within("released", held)
}

// A job that asks for memory in so many words has it, whatever its profile says; with a profile that there is not it
// has all that it asked for.
func TestAskedForMemoryIsAFloor(t *testing.T) {
	c, d := SetUpAsShipped(t)
	d.Start()
	light := c.MustSbatch("alice", "sleep 60", "--comment=synergy-profile=gnmt.json", "-c", "12", "--mem=200G",
		"--gres=gpu:1", output)
	steps := c.MustSbatch("alice", "srun -c 4 --mem=32G sleep 5", "--comment=synergy-profile=gnmt.json", "-c", "4",
		"--mem=32G", "--gres=gpu:1", output)
	c.WaitForState(light, "RUNNING")
	if _, has := c.Allocation(light); has["mem"] < 200*1024 || has["cpu"] != 1 {
		t.Errorf("holds %v, want the 200 GB that it asked for, and the one core that its profile needs", has)
	}
	c.waitLong(steps, "COMPLETED", time.Minute)
}

// What Slurm cannot do by itself: a job that comes back from a node that is lost names that node. Whoever looks whether
// a daemon lives mends it.
func TestWithoutADaemonAJobOfALostNodeIsFreedByTheTimer(t *testing.T) {
	c, d := SetUpAsShipped(t)
	d.Start()
	id := c.MustSbatch("alice", "sleep 600", "--comment=synergy-profile=res18.json", "-c", "3", "--gres=gpu:1", output)
	c.WaitForState(id, "RUNNING")
	dead, _ := c.Allocation(id)
	look := []string{"/opt/synergy/bin/synergy-slurmd", "release", "--if-dead", "--config", d.dir + "/config.yaml",
		"--slurmrestd", "http://slurmrestd:6820",
		"--token-file", "/shared/synergy/token", "--ledger", "/tmp/none"}
	if said, err := c.Exec("backup", "synergy", look...); err != nil || c.ShowJob(id)["ReqNodeList"] == "(null)" {
		t.Errorf("beside a daemon that lives: %v, %s", err, said)
	}
	d.Signal("KILL")
	// The same as a death for whoever looks at the job, and quicker: it comes back while its node takes nobody.
	c.MustExec("slurmctld", "root", "scontrol", "update", "nodename="+dead, "state=drain", "reason=test")
	defer c.MustExec("slurmctld", "root", "scontrol", "update", "nodename="+dead, "state=resume")
	c.MustExec("login", "alice", "scontrol", "requeue", id.String())
	c.WaitForState(id, "PENDING")
	c.WaitFor("the job is free", func() bool {
		c.Exec("backup", "synergy", look...) // as the timer does
		return c.ShowJob(id)["ReqNodeList"] == "(null)"
	})
	c.waitLong(id, "RUNNING", 4*time.Minute)
	if now, has := c.Allocation(id); now == dead || has["cpu"] != 3 {
		t.Errorf("it runs on %s with %v; it asked for three cores, and %s is down", now, has, dead)
	}
}

// inOrderOfPriority has jobs of two users wait for whole nodes, gives each a priority of its own as root, and returns
// the priorities in the order in which Slurm started the jobs.
func (c *Cluster) inOrderOfPriority(args ...string) (order []int) {
	c.t.Helper()
	var fillers []JobID
	for range c.nodes() {
		fillers = append(fillers, c.MustSbatch("bob", "sleep 600", "--gres=gpu:8", output))
	}
	for _, id := range fillers {
		c.WaitForState(id, "RUNNING")
	}
	priorities := []int{3000, 9000, 1000, 7000, 5000, 8000, 2000, 6000}
	ids := map[JobID]int{}
	for k, p := range priorities {
		id := c.MustSbatch([]string{"alice", "bob"}[k%2], fmt.Sprintf("sleep %d", 4+2*k),
			append(args, "--gres=gpu:8", "-c", "8", output)...)
		c.MustExec("login", "root", "scontrol", "update", "jobid="+id.String(), fmt.Sprintf("priority=%d", p))
		ids[id] = p
	}
	time.Sleep(5 * time.Second) // until all of them are known, on a slow machine too
	for _, id := range fillers {
		c.MustExec("login", "root", "scancel", id.String())
	}
	type started struct {
		at       time.Time
		priority int
	}
	var all []started
	for id, p := range ids {
		c.waitLong(id, "COMPLETED", 3*time.Minute)
		all = append(all, started{c.startOf(id), p})
	}
	// of one second the larger first
	slices.SortFunc(all, func(a, b started) int { return cmp.Or(a.at.Compare(b.at), b.priority-a.priority) })
	for _, s := range all {
		order = append(order, s.priority)
	}
	return order
}

func TestJobsStartInTheOrderInWhichSlurmAloneStartsThem(t *testing.T) {
	c, d := SetUpAsShipped(t)
	alone := c.inOrderOfPriority()
	d.Start()
	with := c.inOrderOfPriority("--comment=synergy-profile=gnmt.json")
	if !slices.Equal(alone, with) || !slices.IsSortedFunc(with, func(a, b int) int { return b - a }) {
		t.Errorf("with the word they started in the order of %v, without in that of %v", with, alone)
	}
}
