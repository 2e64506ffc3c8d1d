package page

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/bound"
	"github.com/synergy-slurmd/synergy-slurmd/savings"
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

func TestAPointSaysWhatItsRoundSaw(t *testing.T) {
	report := small()
	report.Certificate.StrandedOn = []bound.StrandedNode{{Node: "n1", GPUs: 5, Lacks: "memory"}}
	report.Phases = []bridge.Phase{{Name: "observe", Took: 2 * time.Second}, {Name: "decide", Took: time.Second},
		{Name: "certify", Took: time.Second}, {Name: "ask", Took: 7 * time.Second}, {Name: "tell", Took: time.Second}}
	report.Steps[0].Error = "slurmrestd: 503"
	p := PointOf(report)
	if p.GPUs != (Use{Total: 16, Share: 2, Foreign: 1, Closed: 8, Stranded: 5}) || p.ForMemory != 5 || p.ForCores != 0 {
		t.Errorf("GPUs %+v, %d for want of cores, %d of memory", p.GPUs, p.ForCores, p.ForMemory)
	}
	if took := fmt.Sprint(p.Observed, p.Planned, p.Acted, p.Took()); took != "2s 2s 8s 12s" {
		t.Errorf("it took %s", took)
	}
	if p.Waiting[bridge.Misconfigured] != 1 || p.Waits() != 1 || p.Ratio != 0.75 || p.Gain != 1.53 || p.Failed != 1 {
		t.Errorf("%+v", p)
	}
}

// TestTimeWithoutRoundsIsLeftEmpty: a point stands for three usual rounds at most, and the next area begins anew.
func TestTimeWithoutRoundsIsLeftEmpty(t *testing.T) {
	var points []Point
	for k := range 10 {
		at := noon.Add(time.Duration(k) * 5 * time.Minute)
		if k >= 5 {
			at = at.Add(24 * time.Hour)
		}
		points = append(points, Point{Round: k + 1, Began: at, GPUs: Use{Total: 8, Share: k}})
	}
	r := roundsOf(Past{Points: points})
	if n := strings.Count(r.Charts[0].Areas[0].Path, "M"); n != 2 {
		t.Errorf("%d areas, want one before the gap and one behind it: %s", n, r.Charts[0].Areas[0].Path)
	}
	if s := stretchesOf(points); s[4].Until.Sub(s[4].From) != 15*time.Minute || s[0].Until != s[1].From {
		t.Errorf("%v", s[4])
	}
	if r.Rows[0].Round != 10 || r.Newest != 10 {
		t.Error("the newest is not the first one in the table")
	}
}

// TestAChartStaysWithinItsFrame and is well-formed, whatever clocks and counts say.
func TestAChartStaysWithinItsFrame(t *testing.T) {
	draw := rand.New(rand.NewPCG(3, 4))
	for trial := range 8 {
		var points []Point
		at := noon
		for k := range draw.IntN(600) {
			at = at.Add(time.Duration(draw.Int64N(int64(10 * time.Minute))))
			if draw.IntN(50) == 0 {
				at = at.Add(time.Duration(draw.Int64() - math.MaxInt64/2))
			}
			p := Point{Round: k, Began: at, GPUs: Use{Total: draw.IntN(99), Share: draw.IntN(99) - 5},
				Ratio: draw.Float64(), Acted: time.Duration(draw.Int64N(1e12)), Waiting: map[bridge.WaitReason]int{
					bridge.ForRoom: draw.IntN(9999)}}
			if draw.IntN(3) == 0 {
				p.Ratio = 0
			}
			points = append(points, p)
		}
		page := text(t, func(w io.Writer) error { return Rounds(w, Past{Points: points}) })
		if len(page) > 1_000_000 || strings.Contains(page, "NaN") || strings.Contains(page, "Inf") {
			t.Fatalf("trial %d: %d bytes", trial, len(page))
		}
		for _, svg := range regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(page, -1) {
			if err := xml.Unmarshal([]byte(svg), new(struct{})); err != nil {
				t.Fatal(err)
			}
		}
		for _, pair := range regexp.MustCompile(`[ML](-?[\d.]+) (-?[\d.]+)`).FindAllStringSubmatch(page, -1) {
			x, _ := strconv.ParseFloat(pair[1], 64)
			y, _ := strconv.ParseFloat(pair[2], 64)
			if x < left || x > right || y < above || y > bottom {
				t.Fatalf("trial %d: a corner at %g, %g", trial, x, y)
			}
		}
	}
}

// TestAreasOnTopOfEachOtherNeverCross: what lies above begins where the one below ends.
func TestAreasOnTopOfEachOtherNeverCross(t *testing.T) {
	later := noon.Add(time.Hour)
	all := []stretch{{noon, later, []float64{1, 3}}, {later, later.Add(time.Hour), []float64{2, 2}}}
	c := stacked("x", "", "", []key{{"a", ""}, {"b", ""}}, all, 1)
	for k, want := range []string{"M56.0 148.0L380.0 148.0L380.0 102.0L704.0 102.0" +
		"L704.0 194.0L380.0 194.0L380.0 194.0L56.0 194.0Z", "M56.0 10.0L380.0 10.0L380.0 10.0L704.0 10.0" +
		"L704.0 102.0L380.0 102.0L380.0 148.0L56.0 148.0Z"} {
		if got := c.Areas[k].Path; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestManyRoundsAreDrawnTogether(t *testing.T) {
	var all []stretch
	for k := range 10_000 {
		at := noon.Add(time.Duration(k) * time.Minute)
		all = append(all, stretch{at, at.Add(time.Minute), []float64{float64(k % 2)}})
	}
	few := thinned(all)
	if len(few) > mostStretches || few[0].From != noon || few[len(few)-1].Until != all[len(all)-1].Until ||
		math.Abs(few[0].Values[0]-0.5) > 0.02 {
		t.Errorf("%d, %+v", len(few), few[0])
	}
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
	m := shelfOf(shelved("a.json"), Wanted{}).Maps[0]
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
	if m := shelfOf(s, Wanted{}).Maps[0]; m.Worth != "" || m.Rows[1].Cells[1].Share {
		t.Errorf("on other GPUs it is worth %q", m.Worth)
	}
}

// TestAHugeProfileIsASmallMap of its first and its last row and some between.
func TestAHugeProfileIsASmallMap(t *testing.T) {
	for _, n := range []int{1, 2, 11, 12, 13, 24, 25, 64, 256} {
		got := spread(n, 12)
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
		page := shelfOf(s, wanted)
		seen += len(page.Maps)
		if page.Next == "" {
			break
		}
	}
	if seen != 31 {
		t.Errorf("%d of 31 are on some page", seen)
	}
	for text, want := range map[string]int{"P0": 10, "ANN": 1, "visio": 1, "nobody": 0, "": 31} {
		if page := shelfOf(s, Wanted{Text: text}); page.Found != want {
			t.Errorf("%q finds %d, want %d", text, page.Found, want)
		}
	}
	for _, from := range []int{-5, 31, 1 << 60} {
		shelfOf(s, Wanted{From: from}) // must not panic
	}
}

// TestWhatIsBookedStandsOnThePageOfSavings, that in the shadow apart, and a negative saving is drawn below the line.
func TestWhatIsBookedStandsOnThePageOfSavings(t *testing.T) {
	day1 := Day{Day: noon.Truncate(day), Sums: savings.Sums{Seconds: 3600, There: 36000, Held: 18000, Known: 18000,
		Asked: 18000, With: 36000, Saved: 9000, Cores: 3600}}
	day2 := day1
	day2.Day, day2.Shadow, day2.Saved = day1.Day.Add(day), true, -9000
	s := Saved{Kept: true, Days: []Day{day1, day2}, Since: noon.Add(-7 * day), Until: noon, Skipped: 3}
	page := text(t, func(w io.Writer) error { return Savings(w, s) })
	for _, want := range []string{"2.5 GPU-hours count as saved", "(50.0 %) more", "2026-11-24 (shadow)", "3 lines",
		"1.0 for want of cores", `days=7" aria-current="true"`} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not in\n%s", want, page)
		}
	}
	if n := strings.Count(page, "; 1.2 % of the time was looked at"); n != 2 {
		t.Errorf("%d times, want that two hours of a week were looked at, whatever the mode:\n%s", n, page)
	}
	const falls = "M56.0 10.0L380.0 10.0L380.0 194.0L704.0 194.0L704.0 102.0"
	if path := savedOf(s).Charts[0].Areas[0].Path; !strings.HasPrefix(path, falls) {
		t.Errorf("%s", path)
	}
	if page := text(t, func(w io.Writer) error { return Savings(w, Saved{}) }); !strings.Contains(page, "No ledger") {
		t.Error(page)
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
		"health": text(t, func(w io.Writer) error {
			c := Checkup{Health: Health{Says: evil}, Version: evil, Round: 1, Now: trouble, Past: trouble}
			return Condition(w, c, noon)
		}),
		"no node": text(t, func(w io.Writer) error { return Node(w, small(), evil) }),
		"rounds": text(t, func(w io.Writer) error {
			return Rounds(w, Past{Points: []Point{PointOf(small())}, Gaps: []string{evil}, Kept: true})
		}),
	} {
		if obeyed(page) {
			t.Errorf("%s is obeyed:\n%s", name, page)
		}
	}
}
