//go:build live

package live

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestAJobRunsWithinOneRoundWithItsDemandAndSeesIt(t *testing.T) {
	c, d := SetUp(t, "fifo", "tune")
	d.Start()
	id := c.MustSbatch("alice",
		"env | grep -E '^SLURM_(CPUS|MEM|GPUS)' | sort\nsrun sh -c 'echo step $SLURM_CPUS_PER_TASK cores, "+
			"$SLURM_MEM_PER_CPU MB a core'\nsleep 5",
		"--comment=synergy-profile=res18.json", "-c", "3", "--gres=gpu:1", output)
	submitted := time.Now()
	c.WaitForState(id, "RUNNING")
	t.Logf("running %.1f s after sbatch, with rounds of %s", time.Since(submitted).Seconds(), d.Round)
	if took := time.Since(submitted); took > 2*d.Round+3*time.Second {
		t.Errorf("ran %s after it was submitted, rounds are %s", took, d.Round)
	}
	if _, has := c.Allocation(id); has["cpu"] != 9 || has["mem"] != 9*6944 || has["gres/gpu"] != 1 {
		t.Errorf("holds %v, want 9 cores, 62500 MB in whole ones for each, and a GPU", has)
	}
	c.WaitForState(id, "COMPLETED")
	out := c.Output(id)
	for _, want := range []string{"SLURM_CPUS_ON_NODE=9", "SLURM_CPUS_PER_TASK=9", "SLURM_MEM_PER_CPU=6944",
		"step 9 cores, 6944 MB a core"} {
		if !strings.Contains(out, want) {
			t.Errorf("the script does not see %q:\n%s", want, out)
		}
	}
	c.WaitFor("sacct knows the job", func() bool {
		account := c.MustExec("login", "alice", "sacct", "-X", "-n", "-P", "-j", id.String(),
			"--format=State,AllocCPUS,AllocTRES")
		return strings.HasPrefix(account, "COMPLETED|9|") && strings.Contains(account, "mem=62496M")
	})
}

func TestLightJobsKeepFullSpeedAndHungryOnesShareTheRest(t *testing.T) {
	c, d := SetUp(t, "fifo", "tune")
	watched := c.Watch()
	var hungry, light []JobID
	for k := range 8 {
		model, list := "res18", &hungry
		if k%2 == 1 {
			model, list = "gnmt", &light
		}
		*list = append(*list, c.MustSbatch("alice", train(model, 200000, 10), word(model), "--gres=gpu:1", "-w", "n1",
			output))
	}
	d.Start()
	for _, id := range append(hungry, light...) {
		c.WaitForState(id, "RUNNING")
	}
	cores := 0
	for _, id := range light {
		nodes, has := c.Allocation(id)
		if nodes != "n1" || has["cpu"] != 1 {
			t.Errorf("light job %s holds %v on %s, want one core on n1", id, has, nodes)
		}
		cores += has["cpu"]
	}
	for _, id := range hungry {
		nodes, has := c.Allocation(id)
		if nodes != "n1" || has["cpu"] < 3 || has["mem"] < 62500-has["cpu"] {
			t.Errorf("hungry job %s holds %v on %s: below its proportional share", id, has, nodes)
		}
		cores += has["cpu"]
	}
	if cores != 24 {
		t.Errorf("%d of 24 cores are given away", cores)
	}
	time.Sleep(2 * d.Round)
	samples, breaches := watched()
	t.Logf("%d samples of the nodes", samples)
	if samples < 40 || len(breaches) > 0 {
		t.Errorf("%d samples, breaches %v", samples, breaches)
	}
}

func TestGangsStartWholeOrNotAtAll(t *testing.T) {
	c, d := SetUp(t, "fifo", "tune")
	gang := func(gpusPerNode, nodes int) JobID {
		return c.MustSbatch("alice", "sleep 300", word("res50"), "-N", fmt.Sprint(nodes), "--ntasks-per-node=1",
			fmt.Sprintf("--gres=gpu:%d", gpusPerNode), output)
	}
	two, eight, sixteen, more := gang(2, 1), gang(8, 1), gang(8, 2), gang(8, 2)
	d.Start()
	for id, want := range map[JobID][2]int{two: {1, 2}, eight: {1, 8}, sixteen: {2, 16}} {
		c.WaitForState(id, "RUNNING")
		nodes, has := c.Allocation(id)
		if has["node"] != want[0] || has["gres/gpu"] != want[1] {
			t.Errorf("gang of %d GPUs holds %v on %s, want %d nodes", want[1], has, nodes, want[0])
		}
	}
	time.Sleep(2 * d.Round)
	if job := c.ShowJob(more); job["JobState"] != "PENDING" ||
		!strings.Contains(job["Extra"], "GPUs are free, it needs 16") {
		t.Errorf("second gang of 16: %s, extra %s", job["JobState"], job["Extra"])
	}
	_, _ = c.Exec("login", "alice", "scancel", sixteen.String())
	c.WaitForState(more, "RUNNING")
}

// TestANewcomerTakesItsTurnAndTheVictimGoesOnWithAllItsIterations: least attained service, 31 of 32 GPUs in use. A
// newcomer wants eight. Of the two victims on its node the one that may use any node goes on at once on the one GPU
// that is left; the other, which needs seven, goes on when the newcomer has ended.
func TestANewcomerTakesItsTurnAndTheVictimGoesOnWithAllItsIterations(t *testing.T) {
	c, d := SetUp(t, "las", "tune", "checkpoint_hook:", "  before: [/shared/synergy/hook, asks]",
		"  after: [/shared/synergy/hook, left]")
	c.MustExec(
		"login",
		"synergy",
		"sh",
		"-c",
		`printf '#!/bin/sh\necho "$1 $SYNERGY_JOB_ID $SYNERGY_JOB_NODES" >> "$0.said"\n' > /shared/synergy/hook; chmod 700 /shared/synergy/hook; rm -f /shared/synergy/hook.said`,
	)
	d.Start()
	// Alone, in compressed time, 150 and 333 iterations pass in a second.
	movable := c.MustSbatch("alice", train("res18", 8000, 40), word("res18"), "--gres=gpu:1", output,
		"--open-mode=append")
	c.WaitForState(movable, "RUNNING")
	first, _ := c.Allocation(movable)
	pinned := c.MustSbatch("bob", train("gnmt", 20000, 40), word("gnmt"), "--gres=gpu:7", "-w", first, output,
		"--open-mode=append")
	full := []JobID{pinned}
	for _, n := range c.nodes() {
		if n != first { // seven GPUs on the first of the others, eight on the rest
			gpus := fmt.Sprintf("--gres=gpu:%d", min(6+len(full), 8))
			full = append(full, c.MustSbatch("bob", "sleep 600", "--comment=synergy-profile=gnmt.json", gpus, "-w", n,
				output))
		}
	}
	for _, id := range full {
		c.WaitForState(id, "RUNNING")
	}
	time.Sleep(2 * d.Round)
	newcomer := c.MustSbatch("bob", train("res50", 1000, 60), word("res50"), "--gres=gpu:8", output)
	c.WaitForState(newcomer, "RUNNING")
	waited := c.ShowJob(pinned)
	if waited["JobState"] == "RUNNING" {
		t.Errorf("the pinned victim runs beside an eight-GPU job on %s", first)
	}
	c.WaitForState(movable, "RUNNING")
	if then, _ := c.Allocation(movable); then == first {
		t.Errorf("the movable victim is on %s again, where the newcomer runs", then)
	}
	for id, iterations := range map[JobID]int{movable: 8000, pinned: 20000} {
		c.waitLong(id, "COMPLETED", 3*time.Minute)
		conserved(t, c, id, iterations)
	}
	said := c.MustExec("login", "synergy", "cat", "/shared/synergy/hook.said")
	for _, id := range []JobID{movable, pinned} {
		for _, want := range []string{fmt.Sprintf("asks %s %s", id, first), fmt.Sprintf("left %s %s", id, first)} {
			if !strings.Contains(said, want) {
				t.Errorf("the administrator's hook was not told %q:\n%s", want, said)
			}
		}
		took := c.gap(id)
		t.Logf("job %s: from requeue to running %s", id, took)
		if id == movable && took >= 10*time.Second {
			t.Errorf("job %s: %s from requeue to running, want under 10 s", id, took)
		}
	}
}

// conserved reads the emulated job's last lines: as many iterations as it was told to do, in more than one start, none
// lost.
func conserved(t *testing.T, c *Cluster, id JobID, iterations int) {
	t.Helper()
	starts, total, lost := 0, 0, 0
	for text := range strings.Lines(c.Output(id)) {
		var line struct {
			Event  string `json:"ev"`
			Total  int    `json:"iteration"`
			Lost   int    `json:"lost"`
			Starts int    `json:"starts"`
		}
		if json.Unmarshal([]byte(text), &line) == nil && line.Event == "end" {
			starts, total, lost = line.Starts, line.Total, lost+line.Lost
		}
	}
	t.Logf("job %s: %d iterations in %d starts, %d lost", id, total, starts, lost)
	if total != iterations || starts < 2 || lost != 0 {
		t.Errorf("job %s: %d iterations in %d starts, %d lost; want %d in more than one, none lost\n%s", id, total,
			starts, lost, iterations, c.Output(id))
	}
}

// gap is the time between the first two runs of a job, from its requeue to its next start, as accounting has it.
func (c *Cluster) gap(id JobID) time.Duration {
	c.t.Helper()
	runs := strings.Fields(c.MustExec("login", "root", "sacct", "-X", "-n", "-P", "--duplicates", "-j", id.String(),
		"--format=Start,End"))
	if len(runs) < 2 {
		c.t.Fatalf("job %s: accounting knows the runs %q", id, runs)
	}
	_, left, _ := strings.Cut(runs[0], "|")
	again, _, _ := strings.Cut(runs[1], "|")
	return moment(c, again).Sub(moment(c, left))
}

func moment(c *Cluster, text string) time.Time {
	c.t.Helper()
	at, err := time.Parse("2006-01-02T15:04:05", text)
	if err != nil {
		c.t.Fatalf("accounting says %q: %v", text, err)
	}
	return at
}

// waitLong is WaitForState for a job that trains for a while.
func (c *Cluster) waitLong(id JobID, state string, most time.Duration) {
	c.t.Helper()
	for end := time.Now().Add(most); c.State(id) != state; time.Sleep(time.Second) {
		if time.Now().After(end) {
			c.t.Fatalf("job %s is %s after %s, want %s", id, c.State(id), most, state)
		}
	}
}

// TestAJobGrowsWhenTheRoomIsThere restarts a job in place with another size: the time from requeue to running is all
// that it costs beside its own save.
func TestAJobGrowsWhenTheRoomIsThere(t *testing.T) {
	c, d := SetUp(t, "fifo", "tune")
	var crowd []JobID
	grower := c.MustSbatch("alice", train("res18", 3000, 20), word("res18")+" synergy-length=10h", "--gres=gpu:1", "-w",
		"n1", output, "--open-mode=append")
	for range 7 {
		crowd = append(crowd, c.MustSbatch("alice", "sleep 300", "--comment=synergy-profile=res18.json", "--gres=gpu:1",
			"-w", "n1", output))
	}
	d.Start()
	c.WaitForState(grower, "RUNNING")
	if _, has := c.Allocation(grower); has["cpu"] != 3 {
		t.Fatalf("beside seven like it the job holds %v, want three cores", has)
	}
	for _, id := range crowd {
		_, _ = c.Exec("login", "alice", "scancel", id.String())
	}
	c.WaitFor("the job has grown", func() bool {
		_, has := c.Allocation(grower)
		return has["cpu"] == 9
	})
	took := c.gap(grower)
	t.Logf("from requeue to running with 9 cores in place of 3: %s", took)
	if took >= 10*time.Second {
		t.Errorf("%s from requeue to running, want under 10 s", took)
	}
	c.waitLong(grower, "COMPLETED", 3*time.Minute)
	conserved(t, c, grower, 3000)
}

func TestJobsThatAreNotOursAreLeftExactlyAlone(t *testing.T) {
	c, d := SetUp(t, "fifo", "tune")
	later := "--begin=now+1hour"
	alone := map[string]JobID{
		"no word":           c.MustSbatch("alice", "sleep 1", later, "--gres=gpu:1"),
		"another partition": c.MustSbatch("alice", "sleep 1", word("res18"), later, "--gres=gpu:1", "-p", "plain"),
		"array":             c.MustSbatch("alice", "sleep 1", later, "--gres=gpu:1", "--array=1-3"),
		"exclusive":         c.MustSbatch("alice", "sleep 1", later, "--gres=gpu:1", "--exclusive"),
		"exclusive by user, with the word, which is left to Slurm": c.MustSbatch("alice", "sleep 1", word("res18"),
			later, "--gres=gpu:1", "--exclusive=user"),
		"contiguous, likewise": c.MustSbatch("alice", "sleep 1", word("res18"), later, "--gres=gpu:1", "--contiguous"),
	}
	held := c.MustSbatch("alice", "sleep 1", word("res18"), "--gres=gpu:1")
	c.MustExec("login", "root", "scontrol", "hold", held.String())
	alone["held by an administrator"] = held
	before := map[string]string{}
	for what, id := range alone {
		before[what] = still(c.MustExec("login", "root", "scontrol", "show", "job", id.String()))
	}
	d.Start()
	time.Sleep(3 * d.Round)
	for what, id := range alone {
		if after := still(c.MustExec("login", "root", "scontrol", "show", "job", id.String())); after != before[what] {
			t.Errorf("%s: changed from\n%s\nto\n%s", what, before[what], after)
		}
	}
}

// still drops from what scontrol shows the fields that move by themselves.
func still(job string) string {
	return regexp.MustCompile(
		`(LastSchedEval|Reason|Priority|AccrueTime|EligibleTime|Scheduler|SchedNodeList)=\S+`).ReplaceAllString(job, "")
}

func TestAProfileThatCannotBeUsedCostsOnlyItself(t *testing.T) {
	c, d := SetUp(t, "fifo", "tune")
	d.Put("profiles/garbage.json", "{")
	d.Put(
		"profiles/liar.json",
		`{"version":1,"model":"liar","task":"image","gpu_type":"none","batch":1,"cores_per_gpu":[1],"memory_per_gpu_mib":[1000],"throughput_samples_per_s":[[-5]],"checkpoint_s":1,"start_s":1}`,
	)
	c.MustExec("login", "synergy", "ln", "-s", "/shared/synergy/token", d.dir+"/profiles/link.json")
	d.Start()
	for _, name := range []string{"nosuch.json", "garbage.json", "liar.json", "link.json"} {
		id := c.MustSbatch("alice", "sleep 20", "--comment=synergy-profile="+name, "-c", "1", "--gres=gpu:1", output)
		c.WaitForState(id, "RUNNING")
		if _, has := c.Allocation(id); has["cpu"] != 3 || has["mem"] != 3*20833 {
			t.Errorf("%s: holds %v, want the proportional share", name, has)
		}
		extra := c.ShowJob(id)["Extra"]
		t.Logf("%s: %s", name, extra)
		if !strings.Contains(extra, "proportional share") || !strings.Contains(extra, name) {
			t.Errorf("%s: scontrol show job does not tell why: %s", name, extra)
		}
	}
	token := c.Token()
	if log := d.Read("log"); strings.Contains(log, token) {
		t.Error("the token stands in the log")
	}
}

func TestShadowPlansAndWritesNothing(t *testing.T) {
	c, d := SetUp(t, "fifo", "tune")
	id := c.MustSbatch("alice", "sleep 1", word("res18"), "--gres=gpu:1", "--begin=now+1hour")
	ready := c.MustSbatch("alice", "sleep 60", word("res18"), "--gres=gpu:1")
	before := still(c.MustExec("login", "root", "scontrol", "show", "job", id.String()))
	d.Start("--shadow", "--slurmrestd", "unix:/shared/slurmrestd/slurmrestd.sock")
	time.Sleep(2 * d.Round)
	if after := still(c.MustExec("login", "root", "scontrol", "show", "job", id.String())); after != before {
		t.Errorf("changed from\n%s\nto\n%s", before, after)
	}
	if state := c.State(ready); state != "PENDING" {
		t.Errorf("a job that a round would start is %s", state)
	}
	var round struct {
		Shadow bool
		Steps  []struct {
			Job   int
			Verb  string
			Grant struct {
				PerNode struct{ CPUs int } `json:"per_node"`
			}
		}
	}
	if err := json.Unmarshal([]byte(d.Get("/round")), &round); err != nil {
		t.Fatalf("/round: %v", err)
	}
	planned := false
	for _, s := range round.Steps {
		planned = planned || s.Job == int(ready) && s.Verb == "start" && s.Grant.PerNode.CPUs == 9
	}
	if !round.Shadow || !planned {
		t.Errorf("/round does not say what would be done: %+v", round)
	}
	if metrics := d.Get("/metrics"); !strings.Contains(metrics, "synergy_") {
		t.Errorf("no metrics: %s", metrics)
	}
}
