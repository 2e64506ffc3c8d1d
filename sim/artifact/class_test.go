package artifact

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/sim/cluster"
	"github.com/synergy-slurmd/synergy-slurmd/sim/models"
)

// demandOf is what a job asks for on the paper's servers with that many cores for each GPU: cores, GB, speed.
func demandOf(t *testing.T, ratio, id, gpus int) string {
	t.Helper()
	c, err := cluster.Ratio(ratio)
	if err != nil {
		t.Fatal(err)
	}
	s, err := shapeOf(c)
	if err != nil {
		t.Fatal(err)
	}
	set, err := models.Set(ratio)
	if err != nil {
		t.Fatal(err)
	}
	job := newClass(&s, id, set[id], gpus, defaultRound)
	want := job.demand.whole
	if want[gpu] != float64(gpus) || want[storage] != 62.5*float64(gpus) || want[network] != 0 {
		t.Errorf("%s with %d GPUs asks for %v", set[id].Name, gpus, want)
	}
	return fmt.Sprintf("%g,%g,%g", want[cpu], want[memory], math.Round(job.speed*1e4)/1e4)
}

func TestAJobAsksForItsBestCaseClippedToOneServer(t *testing.T) {
	for _, c := range []struct {
		ratio int
		model string
		gpus  []int
		want  string
	}{
		{3, "alexnet", []int{1, 2, 4, 8, 16}, "12,125,2.94 24,250,2.94 24,500,1.6467 24,500,1 48,1000,1"},
		{3, "res18", []int{1, 2, 4, 8, 16}, "9,62.5,2.4 18,125,2.4 24,250,1.7 24,500,1 48,1000,1"},
		{3, "res50", []int{1, 2, 4, 8, 16}, "4,62.5,1.15 8,125,1.15 16,250,1.15 24,500,1 48,1000,1"},
		{3, "mobilenet", []int{1, 2, 4, 8, 16}, "6,62.5,1.55 12,125,1.55 24,250,1.55 24,500,1 48,1000,1"},
		{3, "shufflenet", []int{1, 2, 4, 8, 16}, "12,125,2.89 24,250,2.89 24,500,1.63 24,500,1 48,1000,1"},
		{3, "gnmt", []int{1, 2, 4, 8, 16}, "1,20,1 2,40,1 4,80,1 8,160,1 16,320,1"},
		{3, "m5", []int{1, 2, 4, 8, 16}, "6,187.5,2.5 12,375,2.5 24,500,2.5 24,500,1 48,1000,1"},
		{3, "deepspeech", []int{1, 2, 4, 8, 16}, "3,62.5,1 6,125,1 12,250,1 24,500,1 48,1000,1"},
		{4, "alexnet", []int{1, 2, 4}, "12,125,2.352 24,250,2.352 32,500,1.676"},
		{5, "alexnet", []int{1, 2, 4}, "12,125,1.92 24,250,1.92 40,500,1.6571"},
		{6, "alexnet", []int{1, 2, 4}, "24,125,2.18 48,250,2.18 48,500,1.3933"},
		{4, "res18", []int{1, 2, 4}, "9,62.5,1.85 18,125,1.85 32,250,1.68"},
		{5, "res18", []int{1, 2, 4}, "9,62.5,1.568 18,125,1.568 36,250,1.568"},
		{6, "res18", []int{1, 2, 4}, "9,62.5,1.37 18,125,1.37 36,250,1.37"},
		{4, "shufflenet", []int{1, 2, 4}, "12,125,2.312 24,250,2.312 32,500,1.656"},
		{5, "shufflenet", []int{1, 2, 4}, "12,125,1.88 24,250,1.88 40,500,1.6286"},
		{6, "shufflenet", []int{1, 2, 4}, "24,125,2.59 48,250,2.59 48,500,1.53"},
		{4, "res50", []int{8}, "32,500,1"},
		{4, "m5", []int{1, 2, 4, 8}, "6,187.5,2.08 12,375,2.08 24,500,2.08 32,500,1"},
		{5, "m5", []int{1, 2, 4, 8}, "6,187.5,1.78 12,375,1.78 24,500,1.78 40,500,1"},
		// Here the artifact divides by zero for four and eight GPUs.
		{6, "m5", []int{1, 2, 4, 8}, "6,187.5,1 12,375,1 24,500,1 48,500,1"},
	} {
		id, _ := models.Find(c.model)
		var got []string
		for _, gpus := range c.gpus {
			got = append(got, demandOf(t, c.ratio, id, gpus))
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s at %d cores for each GPU: %s\nwant %s", c.model, c.ratio, text, c.want)
		}
	}
}

func TestALanguageModelHasOnlyOneOptionUnderOpt(t *testing.T) {
	s, err := shapeOf(cluster.Paper())
	if err != nil {
		t.Fatal(err)
	}
	set, err := models.Set(optRatio)
	if err != nil {
		t.Fatal(err)
	}
	for model, want := range map[string]string{
		"gnmt":       "1 CPU 20.83 GB 1",
		"deepspeech": "3 CPU 62.5 GB 1",
		"res50":      "4 CPU 62.5 GB 1.15, 3 CPU 62.5 GB 1",
		"m5": "6 CPU 187.5 GB 2.5, 6 CPU 125 GB 2, 6 CPU 62.5 GB 1.5, 5 CPU 62.5 GB 1.4, 4 CPU 62.5 GB 1.2, " +
			"3 CPU 62.5 GB 1",
		"alexnet": "12 CPU 125 GB 2.94, 9 CPU 62.5 GB 2, 6 CPU 62.5 GB 1.75, 5 CPU 62.5 GB 1.53, 4 CPU 62.5 GB " +
			"1.25, 3 CPU 62.5 GB 1",
	} {
		id, _ := models.Find(model)
		var got []string
		for _, o := range newOptions(&s, newClass(&s, id, set[id], 1, defaultRound), defaultRound) {
			got = append(got, fmt.Sprintf("%g CPU %g GB %g", o.held[cpu], o.held[memory], float64(o.worth)/speedUnits))
		}
		if text := strings.Join(got, ", "); text != want {
			t.Errorf("%s: %s\nwant %s", model, text, want)
		}
	}
}
