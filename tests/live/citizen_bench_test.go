//go:build live && bench

package live

import (
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

// arrival is a job of the mix: who submits it and when, what it asks for and how long it runs.
type arrival struct {
	user    string
	at      time.Duration
	gpus    int
	seconds int
}

// mixed is the same for every run: forty jobs of two users on 32 GPUs, more than fit at a time. At scale 1 they run 8
// to 20 seconds.
func mixed(scale int) (mix []arrival) {
	gpus := []int{8, 1, 4, 2, 8, 1, 1, 4, 2, 8}
	for k := range 40 {
		mix = append(mix, arrival{[]string{"alice", "bob"}[k%2], time.Duration(k*scale) * 700 * time.Millisecond,
			gpus[(k*7+k/10)%10], scale * (8 + k*5%13)})
	}
	return mix
}

// waits submits the mix, alice's jobs with these words, and returns how long each user's jobs waited on average, in
// seconds.
func (c *Cluster) waits(scale int, comment string) map[string]float64 {
	c.t.Helper()
	began, mix := time.Now(), mixed(scale)
	ids := make([]JobID, len(mix))
	for k, a := range mix {
		time.Sleep(time.Until(began.Add(a.at)))
		args := []string{fmt.Sprintf("--gres=gpu:%d", a.gpus), "-c", fmt.Sprint(3 * a.gpus),
			fmt.Sprintf("--time=%d", 2*scale), output}
		if a.user == "alice" && comment != "" {
			args = append(args, "--comment="+comment)
		}
		ids[k] = c.MustSbatch(a.user, fmt.Sprintf("sleep %d", a.seconds), args...)
	}
	total, count := map[string]float64{}, map[string]float64{}
	for k, id := range ids {
		c.waitLong(id, "COMPLETED", 20*time.Minute)
		waited := c.startOf(id).Sub(began.Add(mix[k].at).UTC()).Seconds()
		total[mix[k].user] += max(0, waited)
		count[mix[k].user]++
	}
	for user := range total {
		total[user] /= count[user]
	}
	return total
}

// TestCitizen prints what opting in costs: how long the same jobs wait with the word and without, beside another user's
// that have none, and how long a job takes to start on an idle cluster.
func TestCitizen(t *testing.T) {
	c, d := SetUpAsShipped(t)
	alone := map[int]map[string]float64{}
	for _, scale := range []int{1, 5} {
		alone[scale] = c.waits(scale, "")
		t.Logf("jobs of %d to %d s, Slurm alone: alice's wait %.1f s, bob's %.1f s", 8*scale, 20*scale,
			alone[scale]["alice"], alone[scale]["bob"])
	}
	idleAlone := c.idleStarts(8)
	d.Start()
	for _, scale := range []int{1, 5} {
		with := c.waits(scale, "synergy-profile=gnmt.json")
		t.Logf(
			"jobs of %d to %d s, alice's with the word: they wait %.1f s (%.2f of what they do without), bob's %.1f "+
				"s (%.2f)", 8*scale, 20*scale,
			with["alice"], with["alice"]/alone[scale]["alice"], with["bob"], with["bob"]/alone[scale]["bob"])
	}
	idleWith := c.idleStarts(8, "--comment=synergy-profile=gnmt.json")
	t.Logf("idle cluster, sbatch to RUNNING as squeue shows it: %.2f s with the word, %.2f s without", idleWith,
		idleAlone)
}

// idleStarts is how long jobs take to run on an idle cluster, one after the other, on average in seconds.
func (c *Cluster) idleStarts(n int, args ...string) float64 {
	c.t.Helper()
	var total time.Duration
	for k := range n {
		time.Sleep(time.Duration(1000+k*370) * time.Millisecond) // at all moments of a look
		began := time.Now()
		id := c.MustSbatch("alice", "sleep 1", append(args, "--gres=gpu:1", "-c", "1", output)...)
		for c.ShowJob(id)["JobState"] == "PENDING" {
			time.Sleep(50 * time.Millisecond)
		}
		total += time.Since(began)
	}
	return total.Seconds() / float64(n)
}

// TestCitizenLoans prints what jobs without the word lose to what others were lent: on each node a job with half of the
// GPUs that saves, and is lent all cores, and then a stranger's jobs of one GPU, one after the other.
func TestCitizenLoans(t *testing.T) {
	c, d := SetUpAsShipped(t)
	lost := map[bool]float64{}
	for _, daemon := range []bool{false, true} {
		c.Clear()
		words := []string{}
		if daemon {
			d.Start()
			words = append(words, word("res18"))
		}
		var holders []JobID
		for n := range c.Setting("NODES") {
			holders = append(
				holders,
				c.MustSbatch("alice", holder, append([]string{"--gres=gpu:4", "-c", "4", output, "-w",
					fmt.Sprintf("n%d", n+1)}, words...)...),
			)
		}
		for _, id := range holders {
			c.WaitForState(id, "RUNNING")
			c.WaitLong("it has what is idle", 3*time.Minute, func() bool {
				_, has := c.Allocation(id)
				return !daemon || has["cpu"] == 24
			})
		}
		time.Sleep(10 * time.Second)
		for k := range 12 {
			began := time.Now()
			id := c.MustSbatch("bob", "sleep 30", "--gres=gpu:1", "-c", fmt.Sprint(1+k%3), "--output=/dev/null")
			c.WaitForState(id, "RUNNING")
			waited := max(0, c.startOf(id).Sub(began.UTC().Truncate(time.Second)).Seconds())
			t.Logf("daemon %v, job %d: waited %.0f s", daemon, k+1, waited)
			lost[daemon] += waited
			time.Sleep(2 * time.Second)
		}
		if daemon {
			for k, id := range holders {
				t.Logf("holder %d of %d was restarted %s times", k+1, len(holders), c.ShowJob(id)["Restarts"])
			}
		}
		c.MustExec("login", "root", "sh", "-c", "scancel --user=alice; scancel --user=bob")
	}
	t.Logf(
		"twelve jobs of one GPU without the word waited %.0f s in all under Slurm alone, and %.0f s beside "+
			"loans: they lost %.0f "+
			"GPU-seconds",
		lost[false],
		lost[true],
		lost[true]-lost[false],
	)
}

// TestCitizenHeartbeats prints how many of slurmctld's log lines are about the daemon's own ticket, while the mix runs
// under rounds of ten seconds.
func TestCitizenHeartbeats(t *testing.T) {
	c, d := SetUpAsShipped(t)
	d.Round = 10 * time.Second
	d.Start()
	began := time.Now()
	c.waits(1, "synergy-profile=gnmt.json")
	cmd := exec.Command("docker", "logs", "--since", began.UTC().Format(time.RFC3339), c.container("slurmctld"))
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	tickets := c.MustExec("login", "root", "squeue", "--noheader", "--user=synergy", "--states=all", "--format=%A")
	ours := regexp.MustCompile(`JobId=(` + strings.ReplaceAll(strings.TrimSpace(tickets), "\n", "|") + `)\b`)
	lines, beats := 0, 0
	for line := range strings.Lines(string(text)) {
		if lines++; ours.MatchString(line) {
			beats++
		}
	}
	if beats == 0 {
		t.Fatalf("no line of %d is about job %q", lines, tickets)
	}
	t.Logf("%d of %d lines of slurmctld's log in %.0f s are about the ticket: %.0f %%", beats, lines,
		time.Since(began).Seconds(), 100*float64(beats)/float64(lines))
}
