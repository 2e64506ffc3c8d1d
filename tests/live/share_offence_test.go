//go:build live

package live

import (
	"strings"
	"testing"
	"time"

	offences "github.com/synergy-slurmd/synergy-slurmd/share"
)

// keeper is a job of class low that asks for turns and gives none back while it computes, whatever it is told. It saves
// and leaves when the daemon asks it to.
const keeper = `
trap 'kill $! 2>/dev/null; exit 98' USR1
python3 - <<'END' &
import json, os, socket, time
s = socket.socket(socket.AF_UNIX)
s.connect(os.environ["SYNERGY_TURN_SOCK"])
told = s.makefile("r")
say = lambda **m: s.sendall((json.dumps(dict(v=1, **m)) + "\n").encode())
until = lambda kind: [None for _ in iter(lambda: json.loads(told.readline())["type"] == kind, True)]
say(type="HELLO", pid=os.getpid(), kind="train", step_us=20000)
until("WELCOME")
turn = 0
while True:
    turn += 1
    say(type="ACQ", seq=turn, est_us=20000)
    until("GRANT")
    time.sleep(3)
    say(type="REL", seq=turn, used_us=20000)
END
wait
wait`

// TestAJobThatKeepsItsTurnsIsToldOfAndLeavesTheGPU: by the broker in its AdminComment, which its user cannot write,
// beside what others keep there; the daemon has it save and leave, and it starts on a shared GPU no more until it is
// forgiven.
func TestAJobThatKeepsItsTurnsIsToldOfAndLeavesTheGPU(t *testing.T) {
	c, d := SetUpShared(t, "n1")
	others := c.leaveOneGPU(d)
	d.Start()
	high := c.sharer(d, "high", 10)
	c.WaitFor("the important one has a seat", func() bool { return c.seat(high) != "" })
	device := c.seat(high)
	low := c.MustSbatch("alice", keeper, "--comment=synergy-profile=light.json synergy-checkpoint=USR1@20 "+
		"synergy-share=low,mem=8", "--gres=gpu:1", "-c", "2", "--mem=4000", output, "--open-mode=append")
	c.WaitFor("it is beside the important one", func() bool { return c.seat(low) == device })
	c.MustExec("login", "root", "scontrol", "update", "jobid="+low.String(), "admincomment=seen by  ops")

	began := time.Now()
	c.WaitLong("its node tells of it", 3*time.Minute, func() bool {
		_, accused := offences.ParseOffence(c.adminComment(low))
		return accused
	})
	t.Logf("%s after %.0f s", c.adminComment(low), time.Since(began).Seconds())
	found, _ := offences.ParseOffence(c.adminComment(low))
	if says := c.adminComment(low); found.GPU != int(device[1]-'0') ||
		!strings.HasPrefix(says, "seen by  ops synergy-") {
		t.Errorf("AdminComment %q, want it of %s behind what stood there", says, device)
	}
	if says := c.adminComment(high); says != "" {
		t.Errorf("of the important one it says %q", says)
	}
	c.WaitLong("it has left", 2*time.Minute, func() bool { return c.State(low) == "PENDING" })
	t.Logf("it has left after %.0f s", time.Since(began).Seconds())
	rounds := func() float64 { return d.Metrics()[`synergy_rounds_total{outcome="done"}`] }
	had := rounds()
	c.WaitFor("two more rounds", func() bool { return rounds() >= had+2 })
	if job := c.ShowJob(low); job["JobState"] != "PENDING" || job["Restarts"] != "1" || c.seat(high) != device ||
		c.ShowJob(high)["Restarts"] != "0" {
		t.Errorf("it is %s after %s restarts, and the important one has %q", job["JobState"], job["Restarts"],
			c.seat(high))
	}
	if out := c.MustExec("login", "synergy", "/opt/synergy/bin/synergy", "share", "status", "--daemon",
		"http://127.0.0.1:9817", low.String()); !strings.Contains(out, "would not give GPU") {
		t.Errorf("share status: %s", out)
	}

	// a GPU of its own is another matter
	c.MustExec("login", "root", "scancel", others[0].String())
	// where it has no turns to ask for it ends at once
	c.WaitFor("it has had a GPU for itself", func() bool { return c.State(low) != "PENDING" })
	if tres := c.ShowJob(low)["TresPerNode"]; tres != "gres/gpu:1" {
		t.Errorf("it starts with %q", tres)
	}
}

// adminComment is what an administrator, or a node, says of a job.
func (c *Cluster) adminComment(id JobID) string {
	c.t.Helper()
	answer := c.Get(c.Token(), "/job/"+id.String())
	if len(answer.Jobs) != 1 {
		c.t.Fatalf("job %s: HTTP %d, %v", id, answer.Status, answer.Errors)
	}
	return answer.Jobs[0].Admin
}
