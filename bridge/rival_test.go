package bridge

import (
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
)

func TestWhoMayStartAtAnyMomentContendsWhateverSlurmSaidLast(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name string
		job  slurm.Job
		want bool
	}{
		{"waits for room", slurm.Job{Reason: "Resources"}, true},
		{"was just updated", slurm.Job{}, true},
		{"may begin since a second ago", slurm.Job{Reason: "BeginTime", Begin: now.Add(-time.Second)}, true},
		{"may begin in a second", slurm.Job{Reason: "BeginTime", Begin: now.Add(time.Second)}, false},
		{"was released", slurm.Job{Reason: "JobHeldUser"}, true},
		{"is held", slurm.Job{Reason: "JobHeldUser", Held: true}, false},
		{"depends on nobody any more", slurm.Job{Reason: "Dependency"}, true},
		{"depends on another", slurm.Job{Reason: "Dependency", Dependency: true}, false},
		{"is refused", slurm.Job{Reason: "AssocGrpGRES"}, false},
		{"is being torn down", slurm.Job{Completing: true}, false},
	} {
		c.job.State = slurm.Pending
		tn := read(c.job)
		if got := tn.isContender(&sortedObservation{at: now}); got != c.want {
			t.Errorf("a job that %s contends: %v", c.name, got)
		}
	}
}
