package preflight

import (
	"cmp"
	"strconv"
	"strings"
	"time"
)

// Scheduler is how often Slurm's two schedulers look at the queue, and at how many jobs.
type Scheduler struct {
	Main          time.Duration // sched_interval: between the main scheduler's looks at the whole queue
	BatchDelay    time.Duration // batch_sched_delay: by how much the start of a batch job may be delayed
	Backfill      time.Duration // bf_interval; 0: no backfill
	Depth         int           // default_queue_depth: jobs that the main scheduler looks at when a job arrives or ends
	BackfillDepth int           // bf_max_job_test
	Defers        string        // defer or defer_batch: the main scheduler does not run at each submission; else empty
}

// ReadScheduler reads SchedulerType and SchedulerParameters from the output of scontrol show config, by key. A missing
// or invalid value is Slurm's default.
func ReadScheduler(config map[string]string) Scheduler {
	said := map[string]string{}
	for entry := range strings.SplitSeq(config["SchedulerParameters"], ",") {
		name, amount, _ := strings.Cut(strings.TrimSpace(entry), "=")
		said[name] = amount
	}
	s := Scheduler{
		Main:          time.Duration(amountOf(said, "sched_interval", 60)) * time.Second,
		BatchDelay:    time.Duration(amountOf(said, "batch_sched_delay", 3)) * time.Second,
		Backfill:      time.Duration(amountOf(said, "bf_interval", 30)) * time.Second,
		Depth:         amountOf(said, "default_queue_depth", 100),
		BackfillDepth: amountOf(said, "bf_max_job_test", 500),
	}
	for _, name := range []string{"defer", "defer_batch"} {
		if _, is := said[name]; is {
			s.Defers = name
		}
	}
	if kind := config["SchedulerType"]; kind != "" && kind != "sched/backfill" {
		s.Backfill = 0
	}
	return s
}

// amountOf reads a number, raised to 0 if negative: Slurm turns an interval off by -1. The upper bound keeps seconds
// within a time.Duration.
func amountOf(said map[string]string, name string, byDefault int) int {
	n, err := strconv.Atoi(said[name])
	if err != nil {
		return byDefault
	}
	return min(max(0, n), 1<<30)
}

// cycle is the time that a scheduler takes for one look at a long queue.
const cycle = 5 * time.Second

// Within is the longest time until a scheduler has looked at a job that became eligible, wherever it is in the queue.
// The main scheduler runs at once, but stops at the first job of a partition for which there is no room, and jobs
// behind that one wait for backfill, or without backfill for the main scheduler's look at the whole queue.
func (s Scheduler) Within() time.Duration {
	return s.BatchDelay + cmp.Or(s.Backfill, s.Main) + cycle
}
