package bridge

import (
	"testing"
	"time"
)

func TestWhoMayStartAtAnyMomentContendsWhateverSlurmSaidLast(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name string
		job  Job
		want bool
	}{
		{"waits for room", Job{Reason: "Resources"}, true},
		{"was just updated", Job{}, true},
		{"may begin since a second ago", Job{Reason: "BeginTime", Begin: now.Add(-time.Second)}, true},
		{"may begin in a second", Job{Reason: "BeginTime", Begin: now.Add(time.Second)}, false},
		{"was released", Job{Reason: "JobHeldUser"}, true},
		{"is held", Job{Reason: "JobHeldUser", Held: true}, false},
		{"depends on nobody any more", Job{Reason: "Dependency"}, true},
		{"depends on another", Job{Reason: "Dependency", Dependency: true}, false},
		{"is refused", Job{Reason: "AssocGrpGRES"}, false},
		{"is being torn down", Job{Completing: true}, false},
	} {
		c.job.State = Pending
		tn := read(c.job)
		if got := tn.contends(&scene{at: now}); got != c.want {
			t.Errorf("a job that %s contends: %v", c.name, got)
		}
	}
}
