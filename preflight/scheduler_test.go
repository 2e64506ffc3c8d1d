package preflight

import (
	"strings"
	"testing"
	"time"
)

func TestHowOftenSlurmLooksIsReadFromItsConfiguration(t *testing.T) {
	for _, c := range []struct {
		kind, parameters string
		within           time.Duration
	}{
		{"sched/backfill", "(null)", 38 * time.Second},
		{"", "", 38 * time.Second},
		{"sched/backfill", "bf_continue,bf_interval=60,default_queue_depth=1000", 68 * time.Second},
		{"sched/backfill", "batch_sched_delay=1,sched_interval=5,bf_interval=5", 11 * time.Second},
		{"sched/backfill", " sched_interval=20 , bf_interval=30", 38 * time.Second},
		{"sched/backfill", "bf_interval=-1", 68 * time.Second},
		{"sched/builtin", "bf_interval=7", 68 * time.Second},
		{"sched/backfill", "sched_interval=-1", 38 * time.Second},
		{"sched/backfill", "bf_interval=often,batch_sched_delay=", 38 * time.Second},
	} {
		s := ReadScheduler(map[string]string{"SchedulerType": c.kind, "SchedulerParameters": c.parameters})
		if s.Within() != c.within {
			t.Errorf("%s %q: within %s, want %s", c.kind, c.parameters, s.Within(), c.within)
		}
	}
}

func TestWithoutBackfillALongQueueWaitsForTheMainScheduler(t *testing.T) {
	f := ready()
	f.Scontrol.Value["SchedulerType"], f.Slurm.Value.Eligible = "sched/builtin", 301
	if got := of(All(f), "SchedulerParameters"); len(got) != 1 || got[0].Verdict != Warn ||
		!strings.Contains(got[0].Text, "whole queue, every 60 s") {
		t.Errorf("%v", got)
	}
}

func FuzzSchedulerParameters(f *testing.F) {
	f.Add("bf_interval=30,sched_interval=-1,defer,default_queue_depth=99999999999999999999")
	f.Fuzz(func(t *testing.T, parameters string) {
		s := ReadScheduler(map[string]string{"SchedulerParameters": parameters})
		if s.Within() < cycle || s.Depth < 0 || s.BackfillDepth < 0 {
			t.Errorf("%q: %+v, within %s", parameters, s, s.Within())
		}
	})
}
