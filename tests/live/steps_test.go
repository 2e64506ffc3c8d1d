//go:build live

package live

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// tasks is what runs under srun: a trainer that counts, and that saves and requeues its job as a library does.
const tasks = `import os, signal, subprocess, sys, time
job, rank = os.environ["SLURM_JOB_ID"], int(os.environ["SLURM_PROCID"])
state, n = "/shared/out/%%s.steps" %% job, 0
if os.path.exists(state):
    n = int(open(state).read())
print("rank", rank, "goes on at", n, flush=True)

def save():
    with open(state + ".new", "w") as f:
        f.write(str(n))
    os.rename(state + ".new", state)
    print("saved at", n, flush=True)
    return subprocess.call("scontrol requeue " + job, shell=True)

%s
while n < %d:
    time.sleep(0.1)
    n += 1
print("rank", rank, "trained to", n, flush=True)
`

// lightning is what SLURMEnvironment of stock PyTorch Lightning does: each task catches USR1, rank 0 requeues, and all
// train on until they are terminated.
const lightning = `def usr1(signum, frame):
    if rank == 0:
        save()
signal.signal(signal.SIGUSR1, usr1)
signal.signal(signal.SIGTERM, lambda signum, frame: sys.exit(143))`

// submitit is what its JobEnvironment does: rank 0 pickles on USR2, requeues, and exits with -1; SIGTERM is bypassed.
const submitit = `def usr2(signum, frame):
    if rank != 0:
        print("not requeuing since I am a slave", flush=True)
        return
    save()
    sys.exit(-1)
signal.signal(signal.SIGUSR2, usr2)
signal.signal(signal.SIGTERM, lambda signum, frame: print("bypassing SIGTERM", flush=True))`

// submitSteps submits a job of two tasks, whose batch script catches nothing, for so many tenths of a second.
func (c *Cluster) submitSteps(trainer string, length int, node, word string, args ...string) JobID {
	c.t.Helper()
	name := fmt.Sprintf("/shared/out/steps-%s.py", node)
	if _, err := c.ExecInput("login", "alice", fmt.Sprintf(tasks, trainer, length), "tee", name); err != nil {
		c.t.Fatal(err)
	}
	return c.MustSbatch("alice", "srun python3 "+name,
		append([]string{"-w", node, "--ntasks-per-node=2", output, "--open-mode=append",
			"--comment=synergy-profile=gnmt.json synergy-checkpoint=" + word}, args...)...)
}

// TestAJobWhoseTasksRequeueItGivesWayAndGoesOnFromItsFile: least attained service, two nodes that are full, two
// newcomers.
func TestAJobWhoseTasksRequeueItGivesWayAndGoesOnFromItsFile(t *testing.T) {
	c, d := SetUp(t, "las", "tune")
	d.Start()
	victims := map[string]JobID{"n1": c.submitSteps(lightning, 400, "n1", "USR1@20/steps", "--gres=gpu:8"),
		"n2": c.submitSteps(submitit, 400, "n2", "USR2@20/steps", "--gres=gpu:8")}
	for _, id := range victims {
		c.WaitForState(id, "RUNNING")
		c.WaitFor("its tasks have begun", func() bool { return c.says(id, "goes on at 0") == 2 })
	}
	time.Sleep(2 * d.Round)
	var newcomers []JobID
	for node := range victims {
		newcomers = append(newcomers, c.MustSbatch("bob", "sleep 3", "-w", node, "--gres=gpu:8",
			"--comment=synergy-profile=gnmt.json", output))
	}
	for _, id := range newcomers {
		c.WaitForState(id, "COMPLETED")
	}
	for _, id := range victims {
		c.waitLong(id, "COMPLETED", 2*time.Minute)
		c.mustHaveGoneOn(id)
	}
	for _, line := range d.Log() {
		if line["message"] == "lost" {
			t.Errorf("a job that came back is told as lost: %v", line)
		}
	}
}

// says counts how often a job has written something; it may not have begun to write.
func (c *Cluster) says(id JobID, words string) int {
	out, _ := c.Exec("login", "root", "cat", fmt.Sprintf("/shared/out/%d.log", id))
	return strings.Count(out, words)
}

// mustHaveGoneOn checks that the job was restarted once and went on from the one checkpoint that it wrote.
func (c *Cluster) mustHaveGoneOn(id JobID) {
	c.t.Helper()
	out := c.Output(id)
	saved := regexp.MustCompile(`saved at (\d+)`).FindAllStringSubmatch(out, -1)
	if len(saved) != 1 {
		c.t.Fatalf("job %s saved %d times, want once:\n%s", id, len(saved), out)
	}
	n, _ := strconv.Atoi(saved[0][1])
	if restarts := c.ShowJob(id)["Restarts"]; n == 0 || restarts != "1" ||
		strings.Count(out, fmt.Sprintf("goes on at %d\n", n)) != 2 ||
		strings.Count(out, "trained to 400") != 2 {
		c.t.Errorf(
			"job %s saved at %d and was restarted %s times, want once, and both tasks to go on from there to the "+
				"end:\n%s", id, n, restarts, out)
	}
}

// TestAJobThatIsLongerThanItsTimeLimitIsAskedBeforeItAndGoesOn: three jobs with a limit of a minute and the work of
// more, one whose batch script saves, one whose tasks do, and one that does not heed the signal.
func TestAJobThatIsLongerThanItsTimeLimitIsAskedBeforeItAndGoesOn(t *testing.T) {
	c, d := SetUp(t, "fifo", "tune")
	d.Start()
	const limit, checkpoint = "--time=1", "--comment=synergy-profile=gnmt.json synergy-checkpoint=USR1@10"
	const iterations = 28000 // 84 s at 333 in a second; Slurm looks at time limits every half minute
	script := c.MustSbatch("alice", train("gnmt", iterations, 40), checkpoint, limit, "--gres=gpu:1", output,
		"--open-mode=append")
	deaf := c.MustSbatch("alice", "trap '' USR1\nwhile :; do sleep 1; done", checkpoint, limit, "--gres=gpu:1", output)
	steps := c.submitSteps(lightning, 950, "n2", "USR1@10/steps", limit, "--gres=gpu:1")
	c.waitLong(deaf, "RUNNING", time.Minute)
	c.WaitFor("the deaf one is requeued by force", func() bool { return c.ShowJob(deaf)["Restarts"] == "1" })
	if state := c.State(deaf); state == "TIMEOUT" {
		t.Error("its time limit has ended it")
	}
	_, _ = c.Exec("login", "alice", "scancel", deaf.String())
	for _, id := range []JobID{script, steps} {
		c.waitLong(id, "COMPLETED", 4*time.Minute)
		if restarts := c.ShowJob(id)["Restarts"]; restarts != "2" && restarts != "3" {
			t.Errorf("job %s was restarted %s times, want two or three", id, restarts)
		}
	}
	conserved(t, c, script, iterations)
	out := c.Output(steps)
	for _, saved := range regexp.MustCompile(`saved at (\d+)`).FindAllStringSubmatch(out, -1) {
		if strings.Count(out, "goes on at "+saved[1]+"\n") != 2 {
			t.Errorf("saved at %s, and did not go on from there:\n%s", saved[1], out)
		}
	}
	asked := 0
	for _, line := range d.Log() {
		if line["message"] == "step" && line["reason"] == "its time limit comes" {
			asked++
		}
		if line["message"] == "lost" {
			t.Errorf("%v", line)
		}
	}
	if asked < 6 { // two of each at least, of the deaf one the signal and the force
		t.Errorf("%d steps for time limits", asked)
	}
}
