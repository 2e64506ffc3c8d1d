//go:build live

package live

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Terminal runs a command as alice does at a terminal, and returns all that it prints. It has a minute: a job that
// nobody starts waits for longer.
func (c *Cluster) Terminal(argv ...string) (string, error) {
	c.t.Helper()
	return c.Exec("login", "alice", append([]string{"sh", "-c", `cd; timeout -k 5 60 "$@" 2>&1 < /dev/null`, "sh"},
		argv...)...)
}

// stepShows prints what a step was given: its tasks, its cores and its memory.
const stepShows = `[ "$SLURM_PROCID" = 0 ] && echo step of $SLURM_NTASKS: $(scontrol show step $SLURM_JOB_ID.$SLURM_STEP_ID | grep -o 'TRES=[^ ]*')
true
`

func TestWhatIsTypedAtATerminalIsSizedAtItsStart(t *testing.T) {
	c, d := SetUp(t, "fifo", "tune")
	if _, err := c.ExecInput("login", "alice", stepShows, "tee", "/shared/home/alice/step.sh"); err != nil {
		t.Fatal(err)
	}
	d.Start()
	for command, want := range map[string]string{
		"srun JOB":                          "step of 1: TRES=cpu=9,gres/gpu=1,",
		"srun JOB -n 2":                     "step of 2: TRES=cpu=10,gres/gpu=1,",
		"srun JOB -c 4":                     "step of 1: TRES=cpu=4,gres/gpu=1,",
		"srun JOB -n 2 -c 2":                "step of 2: TRES=cpu=4,gres/gpu=1,",
		"srun JOB -c 4 --mem=90000":         "step of 1: TRES=cpu=4,gres/gpu=1,mem=90000M,",
		"srun JOB -c 4 --mem-per-cpu=20000": "step of 1: TRES=cpu=4,gres/gpu=1,mem=80000M,",
		"srun JOB -N 2":                     "step of 2: TRES=cpu=18,gres/gpu=2,",
		"salloc JOB srun":                   "step of 1: TRES=cpu=9,gres/gpu=1,",
		"salloc JOB -c 4 srun":              "step of 1: TRES=cpu=4,gres/gpu=1,",
		"script -qec SRUN --pty":            "step of 1: TRES=cpu=9,gres/gpu=1,",
	} {
		argv := strings.Fields(strings.Replace(command+" sh step.sh", "JOB",
			"--gres=gpu:1 --comment=synergy-profile=res18.json", 1))
		if strings.HasPrefix(command, "script ") {
			argv = []string{"script", "-qec", "srun --pty --gres=gpu:1 --comment=synergy-profile=res18.json sh step.sh",
				"/dev/null"}
		}
		began := time.Now()
		said, err := c.Terminal(argv...)
		t.Logf("%s: %.1f s", command, time.Since(began).Seconds())
		if err != nil || !strings.Contains(said, want) {
			t.Errorf("%s: %v\n%s\nwant %s", command, err, said, want)
		}
		if strings.Contains(said, "without synergy-checkpoint") {
			t.Errorf("%s is told of a checkpoint that it cannot have: %s", command, said)
		}
	}
	for _, line := range d.Log() {
		if line["level"] == "error" || line["level"] == "warn" {
			t.Errorf("the daemon complains: %v", line)
		}
	}
}

func TestAtATerminalItIsSaidWhatAJobCannotHave(t *testing.T) {
	c, _ := SetUp(t, "fifo", "tune") // nobody starts anything
	for _, command := range []string{"srun", "salloc"} {
		said, err := c.Terminal(command, "--gres=gpu:1", word("res18"), "true")
		if err != nil || !strings.Contains(said, "never asks an interactive job to give way") {
			t.Errorf("%s with a checkpoint, which Slurm alone runs: %v: %s", command, err, said)
		}
		said, err = c.Terminal(command, "-I", "--gres=gpu:1", profile, "true")
		if err != nil || !strings.Contains(said, "it gets what you ask for") {
			t.Errorf("%s that cannot wait: %v: %s", command, err, said)
		}
	}
	for command, want := range map[string]string{"srun -I5": "Unable to allocate resources",
		"srun --test-only": "to start at"} {
		began := time.Now()
		said, _ := c.Terminal(append(strings.Fields(command), "--gres=gpu:1", profile, "true")...)
		if !strings.Contains(said, want) || time.Since(began) > 20*time.Second {
			t.Errorf("%s: %s", command, said)
		}
	}
	c.WaitFor("nothing is left", func() bool { return c.MustExec("login", "root", "squeue", "--noheader") == "" })
}

// Whoever has what he typed is never asked to leave it, and who gives up while he waits is gone.
func TestASessionIsNeverMovedAndOneThatGivesUpIsGone(t *testing.T) {
	c, d := SetUp(t, "las", "tune", "preempt_without_checkpoint: true")
	d.Start()
	c.docker("exec", "-d", "-u", "alice", c.container("login"), "salloc", "-J", "session", "--gres=gpu:8", "-w", "n1",
		profile, "sleep", "90")
	var session JobID
	c.WaitFor("the session runs", func() bool {
		out := c.MustExec("login", "root", "squeue", "--noheader", "--name=session", "--states=RUNNING", "--format=%i")
		session = JobID(max(0, amount(out)))
		return session > 0
	})
	c.CancelAtEnd(session)
	_, before := c.Allocation(session)
	rival := c.MustSbatch("bob", "sleep 60", "--gres=gpu:8", "-w", "n1", profile)
	said, _ := c.Exec("login", "alice", "sh", "-c", fmt.Sprintf("timeout -s INT 8 srun --gres=gpu:8 -w n1 %s true 2>&1",
		profile))
	if !strings.Contains(said, "queued and waiting for resources") {
		t.Errorf("one that waits is told %s", said)
	}
	time.Sleep(3 * d.Round)
	if _, now := c.Allocation(session); c.State(session) != "RUNNING" || now["cpu"] != before["cpu"] ||
		c.State(rival) != "PENDING" {
		t.Errorf("the session is %s with %v, had %v; its rival is %s", c.State(session), now, before, c.State(rival))
	}
	if left := c.MustExec("login", "root", "squeue", "--noheader", "--user=alice,bob", "--states=PENDING",
		"--format=%i"); left != rival.String() {
		t.Errorf("%s wait, want only %s", left, rival)
	}
	c.MustExec("login", "root", "scancel", session.String())
	c.WaitForState(rival, "RUNNING")
}
