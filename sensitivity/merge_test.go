package sensitivity_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

func tiny(t *testing.T, changes ...string) *sensitivity.Profile {
	t.Helper()
	p, err := sensitivity.Parse([]byte(strings.NewReplacer(changes...).Replace(small)))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestMergedProfilesHaveTheMeanWhereBothMeasuredAndTheOnesWordElsewhere(t *testing.T) {
	a := tiny(t)
	b := tiny(t, "[0.5, 2, 4]", "[1, 4, 8]", "[10, 20]", "[10, 24]", "[10, 35.5]", "[10, 70]", "[10, 60]", "[10, 90]",
		"measured by hand", "measured again", `"start_s": 0`, `"start_s": 7`)
	got, disagree, err := sensitivity.Merge([]*sensitivity.Profile{a, b})
	if err != nil {
		t.Fatal(err)
	}
	want := "[0.5 1 2 4 8] [[10 20] [10 24] [10 35.5] [10 65] [10 90]] measured by hand; measured again 1.5 7"
	if text := fmt.Sprint(got.CoresPerGPU, got.Throughput, " ", got.Source, " ", got.CheckpointSeconds,
		got.StartSeconds); text != want {
		t.Errorf("%s\nwant %s", text, want)
	}
	if want := "[{{4 4000} 60 70}]"; fmt.Sprint(disagree) != want {
		t.Errorf("disagreements: %v\nwant %s", disagree, want)
	}
	if again := tiny(t); fmt.Sprint(again) != fmt.Sprint(a) {
		t.Error("a profile was changed")
	}
}

func TestProfilesOfDifferentThingsAreNotMerged(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{`"tiny"`, `"other"`, "model = tiny and other"},
		{`"V100"`, `"H100"`, "gpu_type = V100 and H100"},
		{`"batch": 8`, `"batch": 9`, "batch = 8 and 9"},
	} {
		_, _, err := sensitivity.Merge([]*sensitivity.Profile{tiny(t), tiny(t, c.old, c.new)})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

func TestAMergedProfileIsValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := profiles().Draw(t, "a"), profiles().Draw(t, "b")
		b.Model, b.Task, b.GPUType, b.Batch = a.Model, a.Task, a.GPUType, a.Batch
		merged, _, err := sensitivity.Merge([]*sensitivity.Profile{a, b})
		if err != nil {
			t.Fatal(err)
		}
		text, err := merged.Print()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sensitivity.Parse(text); err != nil {
			t.Fatalf("%s\n%v", text, err)
		}
	})
}

func TestWhatMergedProfilesNeedOfTheGPUIsTheMost(t *testing.T) {
	old, err := sensitivity.Parse([]byte(small))
	if err != nil {
		t.Fatal(err)
	}
	knows, err := sensitivity.Parse([]byte(ofTheGPU))
	if err != nil {
		t.Fatal(err)
	}
	more := *knows
	more.GPUBusy, more.GPUMemory = .4, 5000
	got, _, err := sensitivity.Merge([]*sensitivity.Profile{old, knows, &more})
	if err != nil || got.Version != 2 || got.GPUBusy != .55 || got.GPUMemory != 5000 {
		t.Errorf("%+v, %v", got, err)
	}
}
