//go:build live

package live

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/share/wire"
)

// The cluster of these tests has NODE_DEVICES=yes, two nodes and four GPUs on each.

// SetUpShared is SetUp with GPUs of 80 GiB that jobs may share, a profile of a model that leaves its GPU idle for four
// fifths of the time, and on some nodes a broker and the scripts that tell jobs of it.
func SetUpShared(t *testing.T, nodes ...string) (*Cluster, *Daemon) {
	t.Helper()
	c, d := SetUp(t, "fifo", "tune", "share: {gpu_memory: 80GiB}")
	d.Put("config.yaml", strings.NewReplacer("lease: 30s", "lease: 10s", "ahead: 0", "ahead: 32").Replace(
		d.Read("config.yaml")))
	const light = `jq '.version=2 | .model="light" | .gpu_busy=0.2 | .gpu_memory_mib=6000' "$1/res18.json" \
> "$1/light.json"`
	c.MustExec("login", "synergy", "sh", "-c", light, "sh", d.dir+"/profiles")
	for _, node := range nodes {
		c.startBroker(node)
		c.Serve(node, "", byScripts)
	}
	return c, d
}

// profilesFor puts the profiles where jobs see them, in a folder in which they may write.
func (c *Cluster) profilesFor(d *Daemon) {
	c.t.Helper()
	const put = `mkdir -p "$2" && cp "$1"/*.json "$2/" && chmod 1777 "$2"`
	c.MustExec("login", "root", "sh", "-c", put, "sh", d.dir+"/profiles", d.out())
	c.t.Cleanup(func() { c.MustExec("login", "root", "rm", "-rf", d.out()) })
}

// leaveOneGPU has other people's jobs take all GPUs but one of n1's.
func (c *Cluster) leaveOneGPU(d *Daemon) (others []JobID) {
	c.t.Helper()
	c.profilesFor(d)
	for _, where := range []string{"n1", "n1", "n1", "n2", "n2", "n2", "n2"} {
		others = append(others, c.MustSbatch("bob", "sleep 900", "-p", "plain", "--gres=gpu:1", "-w", where, "-c", "1",
			"--mem=1000"))
	}
	for _, id := range others {
		c.WaitForState(id, "RUNNING")
	}
	return others
}

// out is a folder of the test's that jobs see.
func (d *Daemon) out() string { return "/shared/out/" + d.dir[len("/shared/synergy/"):] }

// startBroker starts the broker of a node, until the test ends.
func (c *Cluster) startBroker(node string) {
	c.t.Helper()
	const install = `mkdir -p /usr/lib/synergy/node && cp /opt/synergy/bin/synergy-broker /usr/lib/synergy/node/`
	c.MustExec(node, "root", "sh", "-c", install)
	c.t.Cleanup(func() {
		if c.t.Failed() {
			c.t.Log(c.Exec(node, "root", "sh", "-c",
				"/usr/lib/synergy/node/synergy-broker status; cat /tmp/broker.log; ls -lR /run/synergy-broker; ps -ef"))
			c.t.Log(c.Exec("login", "root", "sh", "-c", "tail -n 20 /shared/out/*.log"))
		}
		c.MustExec(node, "root", "sh", "-c",
			"pkill -x synergy-broker; rm -rf /usr/lib/synergy/node /run/synergy-broker")
	})
	c.runBroker(node)
	c.WaitFor("it is announced", func() bool {
		said, err := c.Exec("n1", "root", "scontrol", "show", "node", node)
		return err == nil && regexp.MustCompile(`Comment=.*\bsynergy-broker\b`).MatchString(said)
	})
}

// runBroker does what the broker's unit does: whoever was stopped by one that died goes on, and another begins.
func (c *Cluster) runBroker(node string) {
	c.t.Helper()
	const run = "cd /usr/lib/synergy/node; ./synergy-broker thaw >>/tmp/broker.log 2>&1; " +
		"exec ./synergy-broker --gpus 0-3 >>/tmp/broker.log 2>&1"
	c.docker("exec", "-d", "-u", "root", c.container(node), "sh", "-c", run)
}

// sharer submits a job that trains in turns, and may share its GPU.
func (c *Cluster) sharer(d *Daemon, class string, speedup int) JobID {
	c.t.Helper()
	script := fmt.Sprintf(`echo "socket $SYNERGY_TURN_SOCK"
exec /opt/synergy/bin/synergy-emujob --profile light.json --profile-dir /shared/out/%[3]s --virtual-cpu --iterations 1000000 \
  --speedup %[1]d --start-cost 0 --checkpoint-cost %[1]d --checkpoint "/shared/ckpt/$USER-$SLURM_JOB_ID" --interval 5s --gpu-memory %[2]d`,
		speedup, 4096, d.out()[len("/shared/out/"):])
	return c.MustSbatch("alice", script, "--comment=synergy-profile=light.json synergy-checkpoint=USR1@20 "+
		"synergy-share="+class+",mem=8", "--gres=gpu:1", "-c", "2", "--mem=4000", output, "--open-mode=append")
}

// brokerSays is what the broker of n1 tells of a GPU.
func (c *Cluster) brokerSays(gpu int) wire.GPU {
	c.t.Helper()
	out, err := c.Exec("n1", "root", "/usr/lib/synergy/node/synergy-broker", "status", "--json")
	var status wire.Status
	if err != nil || json.Unmarshal([]byte(out), &status) != nil {
		return wire.GPU{}
	}
	for _, g := range status.GPUs {
		if g.GPU == gpu {
			return g
		}
	}
	return wire.GPU{}
}

// seat is the GPU of which a job has a shard, by its type; empty: none.
func (c *Cluster) seat(id JobID) string {
	c.t.Helper()
	match := regexp.MustCompile(`^gres/shard:(g\d):1$`).FindStringSubmatch(c.ShowJob(id)["TresPerNode"])
	if match == nil || c.State(id) != "RUNNING" {
		return ""
	}
	return match[1]
}

// detail is what Slurm says of the GPUs that a job holds.
func (c *Cluster) detail(id JobID) string {
	c.t.Helper()
	answer := c.Get(c.Token(), "/job/"+id.String())
	if len(answer.Jobs) != 1 {
		c.t.Fatalf("job %s: HTTP %d, %v", id, answer.Status, answer.Errors)
	}
	return strings.Join(answer.Jobs[0].Devices, " ")
}

func TestJobsThatMayShareSitOnOneGPUTakeTurnsMoveAndOutliveTheDaemon(t *testing.T) {
	c, d := SetUpShared(t, "n1")
	began := time.Now()
	others := c.leaveOneGPU(d)
	d.Start()
	high := c.sharer(d, "high", 10)
	c.WaitFor("the first has a seat", func() bool { return c.seat(high) != "" })
	// one that will not share is next in line, and eligible for Slurm's own scheduler: who sits down passes it
	next := c.MustSbatch("bob", "sleep 900", word("res18"), "--gres=gpu:1", "-c", "2", "--mem=4000")
	c.WaitFor("it is armed", func() bool {
		job := c.ShowJob(next)
		return job["JobState"] == "PENDING" && (job["Reason"] == "Resources" || job["Reason"] == "Priority")
	})
	low := c.sharer(d, "low", 10)
	waits := c.sharer(d, "high", 10)
	c.WaitFor("the second has one", func() bool { return c.seat(low) != "" })
	t.Logf("both sit %.1f s after the daemon started", time.Since(began).Seconds())

	device := c.seat(high)
	if c.seat(low) != device || c.detail(high) != c.detail(low) || !strings.Contains(c.detail(low), "1/4") {
		t.Errorf("one sits on %s by %q, the other on %s by %q", device, c.detail(high), c.seat(low), c.detail(low))
	}
	gpu := int(device[1] - '0')
	socket := fmt.Sprintf("socket /run/synergy-broker/turn-%d.sock", gpu)
	for _, id := range []JobID{high, low} {
		c.WaitFor("the job tells its socket", func() bool { return strings.Contains(c.Output(id), "socket") })
		if out := c.Output(id); !strings.HasPrefix(out, socket+"\n") {
			t.Errorf("job %s is told %.200q, want %q", id, out, socket)
		}
	}
	c.WaitFor("both have had turns, each in its class", func() bool {
		classes := map[string]int{}
		for _, client := range c.brokerSays(gpu).Clients {
			if client.Turns > 0 {
				classes[fmt.Sprintf("%s %d", client.Class, client.Job)]++
			}
		}
		return classes["high "+high.String()] == 1 && classes["low "+low.String()] == 1
	})
	c.MustExec("login", "root", "scancel", next.String())
	if state := c.State(waits); state != "PENDING" {
		t.Errorf("a second important job is %s", state)
	}

	// a GPU of n1 comes free: who is requeued moves there
	mover := c.detail(others[0])
	c.MustExec("login", "root", "scancel", others[0].String())
	c.MustExec("login", "root", "scancel", waits.String())
	c.MustExec("login", "alice", "scontrol", "requeue", low.String())
	c.WaitFor("it sits elsewhere", func() bool { return c.seat(low) != "" && c.seat(low) != device })
	t.Logf("it has moved from %s to %s, which %q held, %.1f s after the start", device, c.seat(low), mover,
		time.Since(began).Seconds())
	if c.seat(high) != device || c.ShowJob(high)["Restarts"] != "0" {
		t.Errorf("the other sits on %s after %s restarts", c.seat(high), c.ShowJob(high)["Restarts"])
	}

	// the daemon dies: all go on, and who waits starts as its user asked for it
	waits = c.sharer(d, "high", 10)
	c.WaitFor("it is told why it waits", func() bool { return strings.Contains(c.ShowJob(waits)["Extra"], `"why"`) })
	d.Signal("KILL")
	c.MustExec("login", "root", "scancel", others[1].String())
	c.WaitFor("who waited runs on a GPU of its own", func() bool { return c.State(waits) == "RUNNING" })
	if tres := c.ShowJob(waits)["TresPerNode"]; tres != "gres/gpu:1" {
		t.Errorf("it asks for %q", tres)
	}
	if c.seat(high) != device || c.seat(low) == "" {
		t.Errorf("they sit on %q and %q", c.seat(high), c.seat(low))
	}
	t.Logf("all of it took %.1f s", time.Since(began).Seconds())
}
