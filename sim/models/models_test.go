package models_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/etc/profiles"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
	"github.com/synergy-slurmd/synergy-slurmd/sim/models"
)

func set(t *testing.T, ratio int) []models.Model {
	t.Helper()
	set, err := models.Set(ratio)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestTheSensitivityMatricesAreThoseOfTheProfilesThatThePlannerReads(t *testing.T) {
	for id, m := range set(t, 3) {
		p := profile(t, m.Name)
		if p.Task != m.Family.String() {
			t.Errorf("%s: family %s, the profile's task is %s", m.Name, m.Family, p.Task)
		}
		for i, row := range models.Sensitivity(id) {
			for j, relative := range row {
				want := p.Throughput[i][j] * m.Iteration / float64(p.Batch)
				if math.Abs(relative-want) > 1e-9 {
					t.Errorf("%s with %g cores and %g GB: %g, the profile has %g",
						m.Name, models.CPUAxis()[i], models.MemoryAxis()[j], relative, want)
				}
			}
		}
	}
}

func profile(t *testing.T, model string) *sensitivity.Profile {
	t.Helper()
	text, err := profiles.FS.ReadFile(model + ".json")
	if err != nil {
		t.Fatal(err)
	}
	p, err := sensitivity.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	for i, cores := range models.CPUAxis() {
		if p.CoresPerGPU[i] != cores {
			t.Fatalf("axes of cores differ: %v and %v", models.CPUAxis(), p.CoresPerGPU)
		}
	}
	for j, memory := range models.MemoryAxis() {
		if float64(p.MemoryPerGPU[j]) != math.Round(memory*1000) {
			t.Fatalf("axes of memory differ: %v and %v", models.MemoryAxis(), p.MemoryPerGPU)
		}
	}
	return p
}

// The language models' best case, 20 GB, lies beside the axis.
func TestABestCaseIsTheKneeOfItsMatrix(t *testing.T) {
	for id, m := range set(t, 3) {
		matrix := models.Sensitivity(id)
		cpus, memory := models.CPUAxis(), models.MemoryAxis()
		i, j := slices.Index(cpus[:], m.CPUs), slices.Index(memory[:], m.Memory)
		if m.Family == models.Language {
			i, j = 0, 0
		}
		if got, most := matrix[i][j], matrix[len(matrix)-1][len(memory)-1]; got != m.Speedup || most != m.Speedup {
			t.Errorf("%s: %g at its best case, %g with everything, want %g", m.Name, got, most, m.Speedup)
		}
		if i > 0 && matrix[i-1][j] >= m.Speedup || j > 0 && matrix[i][j-1] >= m.Speedup {
			t.Errorf("%s is as fast with less than its best case", m.Name)
		}
	}
}

func TestMoreCoresForEachGPUChangeIterationsAndSpeedupsAndTwoBestCases(t *testing.T) {
	for _, c := range []struct {
		ratio int
		want  string // what changed from ratio 3
	}{
		{3, ``},
		{4,
			`alexnet 12 0.48 2.352, res18 9 0.5 1.85, res50 4 0.68 1, mobilenet 6 0.55 1.2, shufflenet 12 0.492 2.312, m5 6 0.5 2.08`},
		{5,
			`alexnet 12 0.392 1.92, res18 9 0.41 1.568, res50 4 0.68 1, mobilenet 6 0.47 1.04, shufflenet 12 0.401 1.88, m5 6 0.42 1.78`},
		{6,
			`alexnet 24 0.34 2.18, res18 9 0.365 1.37, res50 4 0.68 1, mobilenet 6 0.458 1, shufflenet 24 0.351 2.59, m5 6 0.3 1`},
	} {
		base, changed := set(t, 3), []string(nil)
		for id, m := range set(t, c.ratio) {
			if m != base[id] {
				changed = append(changed, fmt.Sprint(m.Name, " ", m.CPUs, " ", m.Iteration, " ", m.Speedup))
			}
		}
		if got := strings.Join(changed, ", "); got != c.want {
			t.Errorf("ratio %d: %s\nwant %s", c.ratio, got, c.want)
		}
	}
}

func TestARatioWithoutATableIsAnErrorThatNamesTheOthers(t *testing.T) {
	for _, ratio := range []int{-1, 0, 2, 7} {
		_, err := models.Set(ratio)
		if want := fmt.Sprintf("CPU:GPU ratio = %d: want 3 to 6, which the artifact has tables for",
			ratio); err == nil || err.Error() != want {
			t.Errorf("ratio %d: %v, want %s", ratio, err, want)
		}
	}
}

func TestModelsAreFoundByNameAndFamiliesListThemInTheOrderOfTheirIDs(t *testing.T) {
	for id, m := range set(t, 3) {
		if got, known := models.Find(m.Name); !known || got != id {
			t.Errorf("%s is %d, %t; want %d", m.Name, got, known, id)
		}
		if !slices.Contains(m.Family.Members(), id) {
			t.Errorf("%s is none of its family %s: %v", m.Name, m.Family, m.Family.Members())
		}
	}
	if id, known := models.Find("bert"); known {
		t.Errorf("bert is %d", id)
	}
	got := fmt.Sprint(models.Image, models.Image.Members(), models.Language.Members(), models.Speech,
		models.Speech.Members())
	if want := "image [0 1 2 3 4] [5 6 7] speech [8 9]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
