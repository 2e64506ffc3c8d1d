package bridge

import (
	"slices"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

func TestEachReasonWhyJobsWaitHasItsPlaceInOneOrder(t *testing.T) {
	var order []WaitReason
	seen := map[WaitCause]bool{}
	for _, c := range WaitCauses() {
		if seen[c] {
			t.Errorf("%s is on the list twice", c)
		}
		seen[c] = true
		if r := c.Reason(); len(order) == 0 || order[len(order)-1] != r {
			if slices.Contains(order, r) {
				t.Errorf("%s stands away from the other causes of %s", c, r)
			}
			order = append(order, r)
		}
	}
	if order[0] != Misconfigured || order[len(order)-1] != ForRoom {
		t.Errorf("the order is %v", order)
	}
}

// TestNoWordOfThePlannersOrSlurmsIsWithoutACause but those of jobs that run, and the one that the round itself bars by.
func TestNoWordOfThePlannersOrSlurmsIsWithoutACause(t *testing.T) {
	for _, r := range []policy.Reason{policy.Shape, policy.Closed, policy.Turn, policy.Gang, policy.Cores, policy.RAM,
		policy.HeldBack, policy.InReservation, policy.InQuota, policy.Limit, policy.Clearing, policy.GivesWay,
		policy.Shrinks, policy.NoSlot, policy.GPUMemory, policy.Slowdown, policy.Parts} {
		if plannedCauses[r] == "" {
			t.Errorf("%s has none", r)
		}
	}
	for word := range reasons {
		if c := causeOfReason(word); c == CauseOther || c.rank() == len(waitCauses)-1 {
			t.Errorf("%s is %s", word, c)
		}
	}
	for word, want := range map[string]WaitCause{
		"AssocGrpGRES": CauseSlurmLimit, "QOSMaxCpuPerUserLimit": CauseSlurmLimit, "QOSMinGRES": CauseRequest,
		"AssocGrpGRESMinutes": CauseUsedUp, "QOSGrpWallLimit": CauseUsedUp,
		"AssocGrpCPURunMinutesLimit": CauseSlurmLimit,
		"Sunshine":                   CauseOther,
	} {
		if got := causeOfReason(word); got != want {
			t.Errorf("%s is %s, want %s", word, got, want)
		}
	}
}

func TestOfTwoReasonsTheOneThatBindsFirstIsTold(t *testing.T) {
	job := &managedJob{Job: &slurm.Job{ID: 7, State: slurm.Pending}, record: &Record{},
		bar: barReason{CauseDependency, "waits for another job"}}
	known := refusals{refusalGroup{job: 7}: {reason: "BadConstraints", nextTry: noon}}
	told := func(at policy.Decision) WaitCause {
		return known.barOf(job, &at, time.Time{}).cause
	}
	if got := told(policy.Decision{Reason: policy.Barred}); got != CauseRequest {
		t.Errorf("a request that can never be served, and a dependency: %s", got)
	}
	known[refusalGroup{job: 7}].reason = "MpiPortsBusy"
	if got := told(policy.Decision{Reason: policy.Barred}); got != CauseDependency {
		t.Errorf("a dependency, and ports that are busy: %s", got)
	}
	if got := told(policy.Decision{Reason: "whim"}); got != CauseSlurmRoom {
		t.Errorf("a word that nobody knows, and ports that are busy: %s", got)
	}
}
