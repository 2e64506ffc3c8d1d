//go:build live && packages

package live

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// Rounds of a walk that nobody waits for an hour: what is booked is a line a minute at most.
const walkersRound = "7s"

// TestPackagesGiveANewcomerHisFirstSavingsAfterTenRounds takes the walk of docs/operations.md with walk.sh, on a host
// that has had nothing of ours, while somebody trains with fewer cores than his model can use.
func TestPackagesGiveANewcomerHisFirstSavingsAfterTenRounds(t *testing.T) {
	c := OpenCluster(t)
	c.Clear()
	t.Cleanup(c.Clear)
	h := bareHost(t, c)
	walk, err := os.ReadFile("walk.sh")
	if err != nil {
		t.Fatal(err)
	}
	h.put("/walk.sh", string(walk))
	t.Cleanup(func() { _, _ = c.Exec("login", "root", "sacctmgr", "-i", "delete", "user", "synergy", "account=root") })
	h.sh("mkdir -p /etc/systemd/system/synergy-slurmd.service.d")
	job := c.MustSbatch("alice", sleeper, "--job-name=resnet-1", "--gres=gpu:8", "-c", "8", "--mem=480G", output)
	c.WaitForState(job, "RUNNING")
	before := c.ShowJob(job)

	began := time.Now()
	// Whoever walks by the book waits five minutes for a round.
	h.put("/etc/systemd/system/synergy-slurmd.service.d/walk.conf", "[Service]\nExecStart=\nExecStart="+
		"/usr/bin/synergy-slurmd --config /etc/synergy/synergy-slurmd.yaml --round "+walkersRound+" $SYNERGY_FLAGS\n")
	said := h.sh("bash /walk.sh http://slurmrestd:6820 synergy " + h.packageOf("synergy-slurmd", "_*.deb") + " " +
		h.packageOf("synergy", "_*.deb") + " 2>&1")
	t.Logf("two packages and four commands took %.1f s:\n%s", time.Since(began).Seconds(), said)
	h.mustBeTheWalkOfTheBook(said)

	for _, rounds := range []int{5, 10} {
		c.WaitFor(fmt.Sprint(rounds, " rounds are held"), func() bool { return h.said("message", "round") >= rounds })
	}
	var savings string
	c.WaitFor("savings are booked", func() bool {
		savings, _ = c.Exec("host", "root", "runuser", "-u", "synergy", "--", "synergy", "savings")
		return strings.Contains(savings, "would have taken")
	})
	t.Logf("the first savings, %.0f s after the first command, %d rounds:\n%s", time.Since(began).Seconds(),
		h.said("message", "round"), savings)
	if !strings.Contains(savings, " %) less.") {
		t.Errorf("nothing is saved:\n%s", savings)
	}
	after := c.ShowJob(job)
	for _, key := range []string{"JobState", "Comment", "Extra", "NumCPUs", "ReqTRES", "AllocTRES", "StartTime"} {
		if before[key] != after[key] {
			t.Errorf("the shadow has changed %s of the job from %q to %q", key, before[key], after[key])
		}
	}
}

// mustBeTheWalkOfTheBook holds that what was said and run is what docs/operations.md says.
func (h *Host) mustBeTheWalkOfTheBook(said string) {
	h.t.Helper()
	book, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		h.t.Fatal(err)
	}
	commands := 0
	for line := range strings.Lines(said) {
		command, is := strings.CutPrefix(strings.TrimSpace(line), "# ")
		if !is || strings.HasPrefix(command, "apt-get") {
			continue
		}
		commands++
		if !strings.Contains(string(book), "    "+command+"\n") {
			h.t.Errorf("docs/operations.md does not say: %s", command)
		}
	}
	if commands != 4 {
		h.t.Errorf("the walk is %d commands, want 4", commands)
	}
}
