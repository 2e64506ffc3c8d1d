//go:build live

package live

import (
	"strings"
	"testing"
	"time"
)

// The shell examples with a trainer that counts, saves on USR1 and goes on from there.
const countingTrainer = `#!/bin/bash
n=$(cat "$STATE" 2>/dev/null || echo 0)
trap 'echo $n > "$STATE.$SLURM_PROCID"; mv "$STATE.$SLURM_PROCID" "$STATE"; echo saved at $n; exit 0' USR1
while [ $n -lt 80 ]; do sleep 0.1; n=$((n + 1)); done
echo trained to $n
`

func TestTheExamplesSaveAreRequeuedAndGoOn(t *testing.T) {
	c := OpenCluster(t)
	c.Clear()
	t.Cleanup(c.Clear)
	if _, err := c.ExecInput("login", "alice", countingTrainer, "tee", "/shared/out/trainer"); err != nil {
		t.Fatal(err)
	}
	c.MustExec("login", "alice", "chmod", "755", "/shared/out/trainer")
	for example, done := range map[string]string{"train.sh": "trained to 80", "train_srun.sh": "trained to 80",
		"train.py": "trained 1000 steps"} {
		c.MustExec("login", "alice", "rm", "-f", "/shared/out/state")
		id := c.submitExample(example)
		mustUpdate(t, c, id, "starttime=now")
		c.WaitForState(id, "RUNNING")
		c.WaitFor("it is under way", func() bool { return c.ShowJob(id)["RunTime"] >= "00:00:03" })
		c.MustExec("login", "alice", "scancel", "--batch", "--signal=USR1", id.String())
		c.WaitFor("it is requeued", func() bool { return c.ShowJob(id)["Restarts"] == "1" })
		c.WaitForState(id, "PENDING")
		time.Sleep(2 * time.Second) // one that starts in the second of its teardown is killed
		mustUpdate(t, c, id, "starttime=now")
		c.WaitForState(id, "COMPLETED")
		out := c.Output(id)
		if !strings.Contains(out, "saved a") || !strings.Contains(out, done) || strings.Contains(out, "saved at 0\n") {
			t.Errorf("%s: did not save and go on:\n%s", example, out)
		}
	}
}

func (c *Cluster) submitExample(name string) JobID {
	c.t.Helper()
	const submit = `cd /shared/out && STATE=/shared/out/state TRAINER=/shared/out/trainer exec sbatch --parsable --output=/shared/out/%j.log "$1"`
	out := c.MustExec("login", "alice", "bash", "-c", submit, "bash", "/opt/synergy/etc/examples/"+name)
	id := JobID(amount(out))
	c.CancelAtEnd(id)
	return id
}

func mustUpdate(t *testing.T, c *Cluster, id JobID, change string) {
	t.Helper()
	c.WaitFor("the update is taken", func() bool { return c.Update("root", id, change) == nil })
}
