//go:build live

package live

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A site may have Slurm look at its queue seldom: here after up to 20 s, where small rounds used to wait for 10. Rounds
// are far apart, so it is small ones that start the jobs.
func TestStartsComeAboutBetweenRoundsHoweverSeldomSlurmLooks(t *testing.T) {
	c, d := SetUpAsShipped(t)
	c.conf(`s/^SchedulerParameters=.*/SchedulerParameters=batch_sched_delay=20,bf_interval=30/`)
	t.Cleanup(func() { c.conf("") })
	d.Round = time.Minute
	d.Put("config.yaml", strings.Replace(d.Read("config.yaml"), "lease: 60s", "lease: 2m", 1))
	d.Start()
	var ids []JobID
	for k := range 3 {
		ids = append(ids, c.MustSbatch("alice", "sleep 300", "-J", fmt.Sprintf("seldom%d", k), "--gres=gpu:1",
			"-c", "1", word("res18"), output))
		time.Sleep(4 * time.Second)
	}
	for _, id := range ids {
		began := time.Now()
		c.waitLong(id, "RUNNING", 90*time.Second)
		t.Logf("job %s runs %.0f s later", id, time.Since(began).Seconds())
	}
	for series, n := range d.Metrics() {
		if strings.HasPrefix(series, "synergy_steps_total{") && strings.Contains(series, `verb="start"`) &&
			strings.Contains(series, `outcome="failed"`) && n > 0 {
			t.Errorf("%.0f starts that came about are told as failed", n)
		}
	}
}
