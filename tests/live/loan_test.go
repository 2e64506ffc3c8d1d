//go:build live

package live

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

// holder is a batch script that saves at once when it is told to, and goes on in its next run.
const holder = "trap 'exit 98' USR1; sleep 600 & wait"

// TestALoanIsCalledBackInTimeForWhoeverWaitsForIt: on each of three nodes one job is lent what is idle, and then come
// others, with the word and without, that lack only that.
func TestALoanIsCalledBackInTimeForWhoeverWaitsForIt(t *testing.T) {
	c, d := SetUp(t, "fifo", "tune")
	d.Round = time.Minute // a full round would be too late
	d.Put("config.yaml", strings.Replace(d.Read("config.yaml"), "lease: 30s", "lease: 2m", 1))
	d.Start()
	hold := func(node string, args ...string) JobID {
		return c.MustSbatch("alice", holder, append([]string{"-w", node, output, word("res18")}, args...)...)
	}
	cores := func(id JobID) int {
		_, has := c.Allocation(id)
		return has["cpu"]
	}
	lent, wide, grown := hold("n1", "--gres=gpu:4"), hold("n2", "--gres=gpu:2", "-c", "10", "--mem=128G"),
		hold("n3", "--gres=gpu:4")
	c.WaitFor("all are lent what is idle", func() bool {
		return cores(lent) == 24 && cores(wide) >= 18 && cores(grown) == 24
	})
	// They may all begin in one moment, however long it takes to submit them, and then the lenders' traps are set, too.
	since := time.Now().Add(12 * time.Second).Truncate(time.Second)
	then := since.UTC().Format("--begin=2006-01-02T15:04:05")
	short := []string{"--gres=gpu:1", "-w", "n1", "--output=/dev/null", then}
	strangers := []JobID{c.MustSbatch("bob", "sleep 20", append(short, "-p", "synergy")...),
		c.MustSbatch("bob", "sleep 20", append(short, "-p", "plain")...)}
	large := c.MustSbatch("alice", "sleep 60", "-w", "n2", "--gres=gpu:6", "--comment=synergy-profile=res18.json",
		output, then)
	two := []JobID{hold("n3", "--gres=gpu:2", then), hold("n3", "--gres=gpu:2", then)}
	if late := time.Since(since); late > 0 {
		t.Fatalf("the last was submitted %s after they may begin", late)
	}
	for _, id := range append(strangers, large) {
		c.WaitForState(id, "RUNNING")
		t.Logf("job %s runs %.0f s after it may begin", id, time.Since(since).Seconds())
	}
	if took := time.Since(since); took > 20*time.Second {
		t.Errorf("all that lacked what was lent run after %s, with rounds of %s", took, d.Round)
	}
	c.WaitFor("all have their shares on n3", func() bool {
		return cores(grown) == 12 && cores(two[0]) == 6 && cores(two[1]) == 6
	})
	for id, most := range map[JobID]int{lent: 1, wide: 1, grown: 1, two[0]: 0, two[1]: 0} {
		if n, _ := strconv.Atoi(c.ShowJob(id)["Restarts"]); n > most {
			t.Errorf("job %s was restarted %d times, want %d at most", id, n, most)
		}
	}
}
