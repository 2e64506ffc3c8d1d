package page

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/learned"
)

const evil = `"><script>alert(1)</script><img src=x onerror=alert(1)>` + "\x1b[31m\u202e"

// text is a page as it is written.
func text(t *testing.T, write func(io.Writer) error) string {
	t.Helper()
	var page strings.Builder
	if err := write(&page); err != nil {
		t.Fatal(err)
	}
	return page.String()
}

// obeyed says that a browser would take what users wrote for more than text.
func obeyed(page string) bool {
	return strings.Contains(page, "<img") || strings.Count(page, "<script") != 1 || strings.ContainsAny(page,
		"\x1b\u202e") || regexp.MustCompile(`https?://|\sstyle=|<style|\son[a-z]+="`).MatchString(page)
}

func profile() *sensitivity.Profile {
	return &sensitivity.Profile{Version: 1, Model: evil, Task: evil, GPUType: "V100", Source: evil, Batch: 1,
		CoresPerGPU: []float64{1, 3, 9, 24}, MemoryPerGPU: []gres.Memory{20000, 62500},
		Throughput: [][]float64{{10, 30}, {10, 100}, {10, 240}, {10, 241}}}
}

func shelved(names ...string) Shelf {
	return Shelf{Names: names, Lookup: func(name string) (*sensitivity.Profile, error) {
		if name == "broken.json" {
			return nil, errors.New("invalid profile: " + evil)
		}
		return profile(), nil
	}, Nodes: []policy.Node{{Name: "n1", GPUType: "V100", Total: gres.Vector{GPUs: 8, CPUs: 24, Memory: 500000}}}}
}

// TestAHeatMapMarksTheShareAndTheKnee in the cells that the planner would take them for.
func TestAHeatMapMarksTheShareAndTheKnee(t *testing.T) {
	m := newProfileList(shelved("a.json"), Wanted{}).Maps[0]
	for i, row := range m.Rows {
		for j, cell := range row.Cells {
			if cell.Share != (i == 1 && j == 1) || cell.Knee != (i == 2 && j == 1) {
				t.Errorf("%s cores, %s: %+v", row.Cores, m.Memory[j], cell)
			}
		}
	}
	if top := m.Rows[3].Cells[1]; top.Says() != "100" || top.Shade != 5 {
		t.Errorf("%+v", top)
	}
	if near := m.Rows[2].Cells[1]; near.Says() != "99" || near.Shade != 5 {
		t.Errorf("less than the fastest says %s", near.Says())
	}
	s := shelved("a.json")
	s.Nodes[0].GPUType = "H100"
	if m := newProfileList(s, Wanted{}).Maps[0]; m.Worth != "" || m.Rows[1].Cells[1].Share {
		t.Errorf("on other GPUs it is worth %q", m.Worth)
	}
}

// TestAHugeProfileIsASmallMap of its first and its last row and some between.
func TestAHugeProfileIsASmallMap(t *testing.T) {
	for _, n := range []int{1, 2, 11, 12, 13, 24, 25, 64, 256} {
		got := sampleIndexes(n, 12)
		if got[0] != 0 || got[len(got)-1] != n-1 || len(got) > 12 || len(got) != min(n, 12) {
			t.Errorf("of %d: %v", n, got)
		}
		for k := 1; k < len(got); k++ {
			if got[k] <= got[k-1] {
				t.Errorf("of %d: %v", n, got)
			}
		}
	}
}

// taught is what one job of that name said.
func taught(user, job string) *learned.Entry {
	var e *learned.Entry
	return e.With(learned.Key{User: user, Job: job}, learned.Report{Job: 1, At: noon, Latest: noon, GPUType: "V100",
		GPUs: 1, Memory: 1000, Way: learned.Curve, Rates: []learned.Rate{{Cores: 1, Rate: 5}}})
}

// TestEachProfileIsOnSomePage, and a search finds files by name and what was learned by user or job.
func TestEachProfileIsOnSomePage(t *testing.T) {
	var names []string
	for k := range 30 {
		names = append(names, fmt.Sprintf("p%02d.json", k))
	}
	s := shelved(names...)
	s.Learned = []*learned.Entry{taught("ann", "vision")}
	seen := 0
	for wanted := (Wanted{}); ; wanted.From += mostMaps {
		page := newProfileList(s, wanted)
		seen += len(page.Maps)
		if page.Next == "" {
			break
		}
	}
	if seen != 31 {
		t.Errorf("%d of 31 are on some page", seen)
	}
	for text, want := range map[string]int{"P0": 10, "ANN": 1, "visio": 1, "nobody": 0, "": 31} {
		if page := newProfileList(s, Wanted{Text: text}); page.Found != want {
			t.Errorf("%q finds %d, want %d", text, page.Found, want)
		}
	}
	for _, from := range []int{-5, 31, 1 << 60} {
		newProfileList(s, Wanted{From: from}) // must not panic
	}
}

// TestNoPageObeysWhatOthersWrote, in names of profiles and jobs, in errors, in what is asked for.
func TestNoPageObeysWhatOthersWrote(t *testing.T) {
	s := shelved("broken.json", evil)
	s.Fault = evil
	s.Learned = []*learned.Entry{taught(evil, evil)}
	trouble := []Trouble{{What: evil, Remedy: evil, Job: 7}}
	for name, page := range map[string]string{
		"profiles": text(t, func(w io.Writer) error { return Profiles(w, s, Wanted{}) }),
		"found":    text(t, func(w io.Writer) error { return Profiles(w, s, Wanted{Text: evil}) }),
		"what is wrong": text(t, func(w io.Writer) error {
			health := Health{Says: evil, Version: evil, Now: trouble, Past: trouble}
			return Cluster(w, small(), health, Asked{}, noon)
		}),
	} {
		if obeyed(page) {
			t.Errorf("%s is obeyed:\n%s", name, page)
		}
	}
}
