//go:build live

package live

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	future "github.com/synergy-slurmd/synergy-slurmd/policy/forecast"
)

const page = "--daemon=http://127.0.0.1:9817"

// ask runs synergy as somebody at the daemon's machine does.
func (c *Cluster) ask(args ...string) string {
	c.t.Helper()
	return c.MustExec("login", "alice", append([]string{"/opt/synergy/bin/synergy"}, append(args, page)...)...)
}

// TestWhatIsAskedOfTheClusterComesTrue: what would have a job start now does when another asks for just that, the job
// itself starts when it was told to, and its story says what happened.
func TestWhatIsAskedOfTheClusterComesTrue(t *testing.T) {
	c, d := SetUp(t, "fifo", "tune")
	for node, gpus := range map[string]int{"n2": 4, "n3": 8, "n4": 8} {
		other := c.MustSbatch("bob", "sleep 900", "-p", "plain", "-w", node, fmt.Sprintf("--gres=gpu:%d", gpus),
			"-c", "1", "--mem=1000")
		c.WaitForState(other, "RUNNING")
	}
	d.Start()
	const length = 45 * time.Second
	first := c.MustSbatch("alice", fmt.Sprintf("sleep %.0f", length.Seconds()),
		word("res18")+fmt.Sprintf(" synergy-length=%.0fs", length.Seconds()), "--gres=gpu:8", output)
	c.WaitForState(first, "RUNNING")
	waits := c.MustSbatch("alice", "sleep 900", word("res18"), "--gres=gpu:8", output)
	c.WaitFor("a round has seen it", func() bool {
		_, err := c.Exec("login", "alice", "/opt/synergy/bin/synergy", "explain", page, waits.String())
		return err == nil
	})

	if said := c.ask("explain", waits.String()); !strings.Contains(said, "it waits: 4 GPUs are free, it needs 8") ||
		!strings.Contains(said, "is expected to start about 20") || strings.Contains(said, "guess") {
		t.Errorf("explain: %s", said)
	}
	told := c.expected(waits)
	would := c.ask("what-if", "--job", waits.String())
	if want := fmt.Sprintf("job %s would start now if it asked for 4 GPUs on one node", waits); !strings.Contains(would,
		want) {
		t.Errorf("what-if: %s\nwant %s", would, want)
	}
	smaller := c.MustSbatch("alice", "sleep 900", word("res18"), "--gres=gpu:4", output)
	c.WaitForState(smaller, "RUNNING")
	if nodes, _ := c.Allocation(smaller); nodes != "n2" || c.State(waits) != "PENDING" {
		t.Errorf("who asks for 4 GPUs runs on %s, and who asks for 8 is %s", nodes, c.State(waits))
	}

	c.WaitLong("it starts", 2*time.Minute, func() bool { return c.State(waits) == "RUNNING" })
	began := c.startOf(waits)
	t.Logf("it started at %v, and was told %v to %v", began.Format(time.TimeOnly), told.P10.Format(time.TimeOnly),
		told.P90.Format(time.TimeOnly))
	if began.Before(told.P10.Add(-15*time.Second)) || began.After(told.P90.Add(30*time.Second)) {
		t.Errorf("it started at %v, and was told %+v", began, told)
	}
	c.WaitFor("its story has its wait and its start", func() bool {
		return regexp.MustCompile(`(?s)submitted .*waits: 4 GPUs are free, it needs 8.*runs since .* on n1`).MatchString(
			c.ask("explain", waits.String()))
	})
	c.WaitFor("that of the first has its end", func() bool {
		return strings.Contains(c.ask("explain", first.String()), "is over, COMPLETED")
	})
}

// expected is when a job is expected to start.
func (c *Cluster) expected(id JobID) future.Spread {
	c.t.Helper()
	var told struct {
		Expected future.Forecast `json:"expected"`
	}
	if err := json.Unmarshal([]byte(c.ask("explain", "--json", id.String())), &told); err != nil {
		c.t.Fatal(err)
	}
	starts := told.Expected.Start
	if len(starts) != 1 || starts[0].P50.IsZero() || starts[0].Job != int(id) {
		c.t.Fatalf("explain: %+v", told)
	}
	return starts[0].Spread
}
