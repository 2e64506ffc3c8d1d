package page

import (
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
)

// steady are rounds of five minutes, in which k GPUs of eight are ours in the k-th, and one waits for room in every
// other.
func steady(n int) (points []Point) {
	for k := range n {
		p := Point{Round: k + 1, Began: noon.Add(time.Duration(k) * 5 * time.Minute),
			GPUs: Use{Total: 8, Share: k % 8, Free: 8 - k%8}, Observed: time.Duration(k) * time.Second, Failed: k % 2}
		if k%2 == 1 {
			p.Waiting, p.Gain = map[bridge.WaitReason]int{bridge.ForRoom: 3}, 1.5
		}
		points = append(points, p)
	}
	return points
}

func TestAMeanIsOfTheRoundsInEachStretchAndSaysOfHowMany(t *testing.T) {
	points := steady(18)
	points[3], points[9] = points[9], points[3] // whatever their order
	hours := Mean(points, time.Hour)
	if len(hours) != 2 || hours[0].Round != 1 || hours[1].Round != 13 || hours[0].Rounds != 12 || hours[1].Rounds != 6 {
		t.Fatalf("%+v", hours)
	}
	// 0 to 7 and 0 to 3 again: 34 of 12 rounds
	if h := hours[0]; h.GPUs.Share != 3 || h.GPUs.Total != 8 || h.Failed != 6 || h.Waiting[bridge.ForRoom] != 2 ||
		h.Gain != 1.5 || h.Ratio != 0 || h.Observed != 5500*time.Millisecond {
		t.Errorf("%+v", h)
	}
	day := Mean(hours, 24*time.Hour)
	if len(day) != 1 || day[0].Rounds != 18 || day[0].Failed != 9 ||
		day[0].Observed != Mean(points, 24*time.Hour)[0].Observed {
		t.Errorf("a mean of means is another one: %+v", day)
	}
	if Mean(nil, time.Hour) != nil {
		t.Error("a mean of nothing")
	}
}

func TestAPointIsReadAsItWasWrittenAndOneThatCannotBeIsRefused(t *testing.T) {
	p := PointOf(small())
	text, err := p.Print()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := ReadPoint(text); err != nil || !reflect.DeepEqual(again, p) {
		t.Errorf("%+v, %v, want %+v", again, err, p)
	}
	for _, wrong := range []string{"", "{", "[]", `{"Round":-1}`, `{"GPUs":{"Share":-3}}`, `{"Gain":-1}`,
		`{"Waiting":{"room":-1}}`, `{"Observed":-1}`, `{"Memory":{"Total":2000000000000000}}`} {
		if p, err := ReadPoint([]byte(wrong)); err == nil {
			t.Errorf("%s is read as %+v", wrong, p)
		}
	}
}

func TestALongTimeIsDrawnWithItsGapsAndLeadsToNoRoundThatIsNotKept(t *testing.T) {
	reach, ok := ReachOf(7)
	points := append(steady(12), steady(12)...)
	for k := range points[12:] {
		points[12+k].Began = points[12+k].Began.Add(72 * time.Hour)
		points[12+k].Round += 12
	}
	page := text(t, func(w io.Writer) error {
		return Rounds(w, Past{Points: Mean(points, reach.Length), Reach: reach, Kept: true, Gaps: []string{"day <1>"}})
	})
	for _, want := range []string{"24 rounds since", "the mean of each hour", `href="/rounds?days=30"`,
		`href="/rounds?days=7" aria-current="true"`, "1, of 12", "Left out: day &lt;1&gt;",
		"The newest 12 rounds, in the mean: of 8 GPUs"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %s", want)
		}
	}
	if strings.Contains(page, `href="/round/`) || strings.Contains(page, "data-round") || !ok {
		t.Error("the page leads to a round that is not kept, or follows the last one")
	}
	r := roundsOf(Past{Points: Mean(points, reach.Length), Reach: reach})
	if n := strings.Count(r.Charts[0].Areas[0].Path, "M"); n != 2 {
		t.Errorf("%d areas, want one before the gap and one behind it", n)
	}
	short := text(t, func(w io.Writer) error { return Rounds(w, Past{}) })
	if !strings.Contains(short, "history.path") || strings.Contains(short, "days=7") {
		t.Error("without a history a reader is not told how to look back")
	}
}

// TestEachReachIsDrawnPointByPoint: its points are no more than a chart draws, so that no two of them become one across
// a gap.
func TestEachReachIsDrawnPointByPoint(t *testing.T) {
	for _, r := range Reaches[1:] {
		if n := time.Duration(r.Days) * day / r.Length; n >= mostStretches {
			t.Errorf("%d days are %d points", r.Days, n)
		}
	}
}

// FuzzReadPoint: whatever a file says is refused or drawn.
func FuzzReadPoint(f *testing.F) {
	p := PointOf(small())
	text, err := p.Print()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"Rounds":3,"Waiting":{"x":1}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := ReadPoint(text)
		if err != nil {
			return
		}
		var page strings.Builder
		reach := Reaches[1]
		err = Rounds(&page, Past{Points: Mean([]Point{p, p}, reach.Length), Reach: reach})
		if err != nil || strings.Contains(page.String(), "NaN") || strings.Contains(page.String(), "Inf") {
			t.Errorf("%v: %s", err, &page)
		}
	})
}
