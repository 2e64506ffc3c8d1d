//go:build live && bench

package live

import (
	"slices"
	"testing"
	"time"
)

const (
	floodJobs  = 9900 // slurmctld itself takes 10,000 of all users together
	floodRound = 60 * time.Second
)

// TestAFloodFromOneUserHoldsUpNobodyElse submits nearly as many jobs as slurmctld takes while another user's jobs run
// and wait. The other's go on, and start when there is room for them, as if nobody had done that.
func TestAFloodFromOneUserHoldsUpNobodyElse(t *testing.T) {
	c, d := SetUp(t, "fifo", "tune")
	d.Round = floodRound
	d.Set("lease", 3*floodRound)
	d.Set("start_timeout", time.Minute) // as shipped
	d.Launch("--log-level", "warn")
	d.waitForRounds(1)
	var bobs []JobID
	for range 40 {
		bobs = append(bobs, c.MustSbatch("bob", "exec sleep 3600", word("gnmt"), "--gres=gpu:1", "--output=/dev/null"))
	}
	runs, waits := bobs[:32], bobs[32:]
	c.waitLong(runs[31], "RUNNING", 3*floodRound)
	stop := c.Watch()
	before := d.Held(0).Round

	began := time.Now()
	flood := c.Crowd(floodJobs, func(int) posting {
		return posting{script: "exec sleep 3600", comment: wordOf("res18"), cpus: 3, gpus: 1}
	})
	t.Logf("%d jobs submitted in %.0f s", floodJobs, time.Since(began).Seconds())
	all := d.waitForRounds(0)
	d.waitForRounds(all + 2)

	freed := time.Now()
	for _, id := range runs[:8] {
		c.MustExec("login", "root", "scancel", id.String())
	}
	for _, id := range waits {
		c.waitLong(id, "RUNNING", 3*floodRound)
	}
	t.Logf("eight of the other user's jobs ended, and his next eight ran %.0f s later; rounds of %v",
		time.Since(freed).Seconds(), floodRound)
	d.waitForRounds(d.waitForRounds(0) + 2)
	seen, breaches := stop()
	if len(breaches) > 0 || seen < 64 {
		t.Errorf("%d looks at nodes, breaches: %v", seen, breaches)
	}

	t.Logf("%5s | %7s %7s | %8s %8s %8s %8s | %7s %7s %7s %6s", "round", "runs", "waits", "observe", "decide", "act",
		"total", "renewed", "put off", "started", "failed")
	for n := before; n <= d.Held(0).Round; n++ {
		h := d.Held(n)
		t.Logf("%5d | %7d %7d | %7.2fs %7.3fs %7.2fs %7.2fs | %7d %7d %7d %6d", h.Round, h.Granted, h.Waiting,
			h.took("observe"),
			h.took(deciding...), h.acted(), h.total(), h.Renewed, h.Put, h.Started, h.Wrong)
		if h.total() > floodRound.Seconds()+15 {
			t.Errorf("round %d took %.0f s, and the next is due every %v", n, h.total(), floodRound)
		}
	}
	jobs := c.Jobs()
	for _, id := range slices.Concat(runs[8:], waits) {
		if job := jobs[id]; job["JobState"] != "RUNNING" || job["Restarts"] != "0" {
			t.Errorf("the other user's job %d is %s after %s restarts", id, job["JobState"], job["Restarts"])
		}
	}
	lapsed, running, now := 0, 0, time.Now().UTC().Format("2006-01-02T15:04:05")
	for _, id := range flood {
		job := jobs[id]
		switch {
		case job["JobState"] == "RUNNING":
			running++
		case job["EligibleTime"] <= now:
			lapsed++
		}
	}
	t.Logf("of the flood %d run, and %d of the rest have no lease; the daemon has %.0f MB", running, lapsed,
		d.Metrics()[residentMemory]/1e6)
	if running > 0 || lapsed > 0 {
		t.Errorf("of the flood %d run and %d have no lease, on nodes that are full of jobs from before it", running,
			lapsed)
	}
}
