//go:build live

package live

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// task is one of an array, as squeue or sacct lists it.
type task struct {
	index, job int
	state      string
}

// tasksOf lists the tasks of an array that have jobs of their own and are not over, and how many wait without.
func (c *Cluster) tasksOf(array JobID) (own []task, rest int) {
	c.t.Helper()
	for line := range strings.Lines(c.MustExec("login", "alice", "squeue", "-h", "-r", "-j", array.String(), "-o",
		"%K %A %T")) {
		var one task
		if _, err := fmt.Sscan(line, &one.index, &one.job, &one.state); err != nil {
			c.t.Fatalf("squeue: %q: %v", line, err)
		}
		own = append(own, one)
	}
	shared := map[int]int{}
	for _, one := range own {
		shared[one.job]++
	}
	for number, tasks := range shared {
		if tasks > 1 {
			rest += tasks
			kept := own[:0]
			for _, one := range own {
				if one.job != number {
					kept = append(kept, one)
				}
			}
			own = kept
		}
	}
	return own, rest
}

func running(tasks []task) (n int) {
	for _, one := range tasks {
		if one.state == "RUNNING" {
			n++
		}
	}
	return n
}

// A sweep of more tasks than the cluster has GPUs: each is sized by itself, and all of them come to their end.
func TestEachTaskOfAnArrayIsSizedByItself(t *testing.T) {
	c, d := SetUpAsShipped(t)
	d.Start()
	gpus := 8 * len(c.nodes())
	does := `#!/bin/sh
echo "task $SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_JOB_ID has $SLURM_CPUS_ON_NODE"
sleep 8`
	array := c.MustSbatch("alice", does, "--comment=synergy-profile=res18.json", "-c", "1", "--gres=gpu:1",
		fmt.Sprintf("--array=1-%d", gpus+6), "-o", "/shared/out/sweep-%A-%a.log")
	c.WaitFor("nothing of the array is left", func() bool {
		own, rest := c.tasksOf(array)
		return len(own)+rest == 0
	})
	completed := 0
	for line := range strings.Lines(c.MustExec("login", "alice", "sacct", "-X", "-n", "-P", "-j", array.String(),
		"--format=State,AllocCPUS")) {
		state, cores, _ := strings.Cut(strings.TrimSpace(line), "|")
		if n, _ := strconv.Atoi(cores); state == "COMPLETED" && n == 3 {
			completed++
		}
	}
	if completed < gpus {
		t.Errorf("%d of %d tasks ran with the three cores of a full node", completed, gpus+6)
	}
	said := c.MustExec("login", "root", "sh", "-c", fmt.Sprintf("cat /shared/out/sweep-%s-*.log | grep -c '^task'",
		array))
	if strings.TrimSpace(said) != strconv.Itoa(gpus+6) {
		t.Errorf("%s tasks spoke, want %d", said, gpus+6)
	}
}

// Of a thousand tasks two may run at once: Slurm's own bound holds, and the controller keeps few records of them.
func TestNoMoreTasksOfAnArrayRunAtOnceThanItsUserAllows(t *testing.T) {
	c, d := SetUpAsShipped(t)
	d.Start()
	array := c.MustSbatch("alice", "sleep 3", "--comment=synergy-profile=res18.json", "-c", "1", "--gres=gpu:1",
		"--array=0-999%2", output)
	ran := map[int]bool{}
	for began := time.Now(); time.Since(began) < 25*time.Second; time.Sleep(500 * time.Millisecond) {
		own, _ := c.tasksOf(array)
		if n := running(own); n > 2 || len(own) > 3 {
			t.Fatalf("%d tasks run, %d have jobs of their own", n, len(own))
		}
		for _, one := range own {
			ran[one.index] = ran[one.index] || one.state == "RUNNING"
		}
	}
	if len(ran) < 6 {
		t.Errorf("%d tasks in 25 s", len(ran))
	}
	if log := d.Read("log"); strings.Contains(log, `"error"`) && strings.Contains(log, "did not start") {
		t.Errorf("starts were refused: %s", log)
	}
}

// The last task has the array's own number, by which Slurm would signal and requeue all of them: it alone is asked to
// save.
func TestTheLastTaskThatIsAskedToSaveIsTheOnlyOne(t *testing.T) {
	c, d := SetUp(t, "srtf", "tune")
	d.Start()
	array := c.MustSbatch("alice", "trap 'exit 98' USR1\nsleep 300 & wait $!",
		"--comment=synergy-profile=gnmt.json synergy-checkpoint synergy-length=10h",
		"-c", "1", "--gres=gpu:8", "--array=1-2", output)
	c.WaitFor("both tasks run", func() bool {
		own, _ := c.tasksOf(array)
		return running(own) == 2
	})
	show := func(task int) map[string]string {
		return fields(c.MustExec("login", "alice", "scontrol", "-o", "show", "job", fmt.Sprintf("%s_%d", array, task)))
	}
	if last := show(2); last["JobId"] != array.String() {
		t.Fatalf("the last task is job %s, the array %s", last["JobId"], array)
	}
	urgent := c.MustSbatch("alice", "sleep 5", "--comment=synergy-profile=gnmt.json synergy-length=1m", "-c", "1",
		"--gres=gpu:8", "-w", show(2)["NodeList"], output)
	c.waitLong(urgent, "COMPLETED", 2*time.Minute)
	if first, last := show(1)["Restarts"], show(2)["Restarts"]; first != "0" || last != "1" {
		t.Errorf("the last task was restarted %s times, the other %s times", last, first)
	}
}
