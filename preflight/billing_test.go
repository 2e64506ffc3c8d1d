package preflight

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Whatever else a partition charges for, cores and memory are what a size changes: a site that charges for them is told
// so, with what to charge for instead, and one that does not is not bothered.
func TestASiteIsToldWhatToChargeJustWhereASizeChangesWhatIsCharged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := rapid.SliceOfDistinct(rapid.SampledFrom([]string{"CPU=1.0", "Mem=0.25G", "Node=3", "GRES/gpu=2",
			"gres/gpu:a100=4", "License/matlab=1", "billing=1"}), rapid.ID).Draw(t, "weights")
		text := strings.Join(entries, ",")
		counts := rapid.Bool().Draw(t, "fair share counts")
		f := ready()
		f.Weights.Value["gpu"] = text
		f.Scontrol.Value["PriorityWeightFairShare"] = map[bool]string{true: "1000", false: "0"}[counts]
		sized := strings.Contains(text, "CPU") || strings.Contains(text, "Mem") || text == "" && counts
		got := of(All(f), "TRESBillingWeights")
		if len(got) != 1 {
			t.Fatalf("%q: %v", text, got)
		}
		if warned := got[0].Verdict == Warn; warned != sized ||
			warned != strings.Contains(got[0].Remedy, "GRES/gpu=1") {
			t.Fatalf("%q, fair share counts %t: %s", text, counts, got[0])
		}
	})
}

func TestChargesAreJudgedByPartitionAndOnlyOfOurs(t *testing.T) {
	f := ready()
	f.Wanted.Partitions = []string{"gpu", "big", "gone"}
	f.Weights.Value["big"] = "CPU=1.0,Mem=0.25G,GRES/gpu=2.0"
	got := of(All(f), "TRESBillingWeights")
	if len(got) != 2 || got[0].Verdict != OK || got[1].Verdict != Warn ||
		!strings.Contains(got[1].Text, "big charges CPU and Mem (CPU=1.0,Mem=0.25G,GRES/gpu=2.0)") {
		t.Errorf("%v", got)
	}
	f.Weights.Value["big"] = "CPU=much"
	if got := of(All(f), "TRESBillingWeights"); got[1].Verdict != Skip || !strings.Contains(got[1].Text, "CPU=much") {
		t.Errorf("weights that cannot be read: %v", got[1])
	}
	f.Weights.Value["big"], f.Scontrol = "", Unknown[map[string]string]("no scontrol")
	if got := of(All(f), "TRESBillingWeights"); got[1].Verdict != Skip {
		t.Errorf("nobody knows whether fair share counts: %v", got[1])
	}
}
