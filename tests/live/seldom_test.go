//go:build live

package live

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// These run on a cluster whose schedulers look as often as Slurm's own defaults say (INTERVALS=slurm): backfill every
// 30 s, the main one 3 s after a change and once a minute.

// Twice as many jobs as there are GPUs come at once.
func TestABurstStartsAtSlurmsOwnIntervalsAndNoStartIsToldAsFailedThatCameAbout(t *testing.T) {
	c, d := SetUpAsShipped(t)
	if has := c.MustExec("slurmctld", "root", "scontrol", "show", "config"); strings.Contains(has, "bf_interval=") {
		t.Fatal("the cluster has other intervals than Slurm's: start it with INTERVALS=slurm")
	}
	d.Round = 20 * time.Second
	d.Start()
	c.WaitFor("a round is over", func() bool {
		return slices.ContainsFunc(d.Log(), func(l Line) bool { return l["message"] == "round" })
	})
	var lines []string
	for range 64 {
		lines = append(lines, "--gres=gpu:1 -c 1")
	}
	began := time.Now()
	ids := c.submitAll("bob", "sleep 20", lines)
	c.WaitLong("all have run", 4*time.Minute, func() bool {
		jobs := c.Jobs()
		for _, id := range ids {
			if jobs[id]["JobState"] != "COMPLETED" {
				return false
			}
		}
		return true
	})
	t.Logf("64 jobs of 20 s on 32 GPUs ran within %.0f s", time.Since(began).Seconds())
	for _, line := range d.Log() {
		why, wrong := line["error"].(string)
		if wrong && line["message"] == "step" && line["job"] != nil {
			t.Errorf("%v job %v: %s", line["verb"], line["job"], why)
		}
	}
}
