package bridge_test

import (
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
)

func of(account string) func(*slurmtest.Spec) { return func(s *slurmtest.Spec) { s.Account = account } }

func within(partition string) func(*slurmtest.Spec) {
	return func(s *slurmtest.Spec) { s.Partition, s.Request.Partition = partition, slurm.Several(partition) }
}

func TestOnlyTheCanaryIsManagedAndTheOthersAreHandedBackAtOnceAndToldSo(t *testing.T) {
	for name, canary := range map[string]bridge.Canary{
		"by account":   {Accounts: []string{"vision"}},
		"by partition": {Partitions: []string{"gpu"}},
		"by both":      {Accounts: []string{"vision"}, Partitions: []string{"gpu"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, server)
			w.runner.Settings.Explain, w.runner.Settings.Canary = true, canary
			w.runner.Settings.Partitions = []string{"gpu", "other"}
			w.submit(8, "synergy-profile=none.json", of("vision"), within("gpu")) // the node is full
			w.rounds(1)
			inside := w.submit(1, model("res18"), of("vision"), within("gpu"))
			outside := []int{w.submit(1, model("res18"), of("text"), within("other"))}
			if len(canary.Accounts) > 0 {
				outside = append(outside, w.submit(1, model("res18"), of("text"), within("gpu")),
					w.submit(1, model("res18"), within("gpu")))
			}
			if len(canary.Partitions) > 0 {
				outside = append(outside, w.submit(1, model("res18"), of("vision"), within("gpu,other")))
			}
			w.sleep(time.Second)
			w.small()
			for _, id := range outside {
				w.mustBeHandedBack(id)
			}
			report := w.rounds(1)
			if got := waitOf(t, report, inside); got.Reason != bridge.ForRoom {
				t.Errorf("one of the canary waits for %+v", got)
			}
			if !w.job(inside).Begin.After(w.clock.Now()) {
				t.Errorf("one of the canary has no lease: %+v", w.job(inside))
			}
			for _, id := range outside {
				w.mustBeHandedBack(id)
				if got := waitOf(t, report, id); got.Reason != bridge.Unplanned || got.Cause != bridge.CauseCanary ||
					got.Why != "not in the canary" {
					t.Errorf("job %d waits for %+v", id, got)
				}
			}
			if !report.Canary.Equal(canary) {
				t.Errorf("the report says the canary was %+v", report.Canary)
			}
		})
	}
}

func TestAJobThatRanWhenTheCanaryWasNarrowedRunsOnAndIsSlurmsAfterwards(t *testing.T) {
	w := newWorld(t, 2, server)
	id := sized(w)
	w.runner.Settings.Canary = bridge.Canary{Accounts: []string{"vision"}}
	before := w.job(id)
	w.rounds(2)
	if now := w.job(id); now.State != slurm.Running || !now.Started.Equal(before.Started) {
		t.Fatalf("it runs no more as it did: %+v", now)
	}
	w.slurm.Down(before.Runs.Nodes[0])
	w.rounds(2)
	w.mustBeHandedBack(id)
}

func TestWhoIsTakenIntoTheCanaryIsManagedFromTheNextRoundOn(t *testing.T) {
	w := newWorld(t, 1, server)
	w.runner.Settings.Canary = bridge.Canary{Accounts: []string{"vision"}}
	w.submit(8, "synergy-profile=none.json", of("vision"))
	w.rounds(1)
	id := w.submit(1, model("res18"), of("text"))
	w.rounds(1)
	w.mustBeHandedBack(id)
	w.runner.Settings.Canary = bridge.Canary{}
	w.rounds(1)
	if !w.job(id).Begin.After(w.clock.Now()) {
		t.Errorf("it has no lease: %+v", w.job(id))
	}
}
