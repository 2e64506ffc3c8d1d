package learned_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/learned"
)

var (
	key  = learned.Key{User: "alice", Job: "vision"}
	noon = time.Unix(1767268800, 0).UTC()
)

// curve is a report of these rates with 1, 2, … cores, so many minutes after noon.
func curve(minute int, rates ...float64) learned.Report {
	r := learned.Report{Job: 7, At: noon.Add(time.Duration(minute) * time.Minute), GPUType: "v100", GPUs: 1,
		Memory: 62500, Way: learned.Curve, Latest: noon.Add(time.Hour)}
	for k, rate := range rates {
		r.Rates = append(r.Rates, learned.Rate{Cores: k + 1, Rate: rate})
	}
	return r
}

func of(reports ...learned.Report) *learned.Entry {
	var e *learned.Entry
	for _, r := range reports {
		e = e.With(key, r)
	}
	return e
}

func rate(e *learned.Entry, cores float64) float64 {
	return e.Profile().Rate(sensitivity.Share{Cores: cores, Memory: 62500})
}

// TestACurveSaysNothingBeyondWhatWasMeasuredButOneStep: twice the cores where it still climbs, and nothing where its
// knee was seen.
func TestACurveSaysNothingBeyondWhatWasMeasuredButOneStep(t *testing.T) {
	climbing := of(curve(1, 10, 20, 30))
	if got := rate(climbing, 6); math.Abs(got-60) > 1e-9 {
		t.Errorf("one step further it promises %v, want 60", got)
	}
	if got := rate(climbing, 24); got != rate(climbing, 6) {
		t.Errorf("two steps further it promises %v, no more than %v is believed", got, rate(climbing, 6))
	}
	for name, flat := range map[string]*learned.Entry{
		"from the first": of(curve(1, 10, 10.1, 10)), "from the second": of(curve(1, 10, 16, 16.2)),
	} {
		if flat.Climbs() || rate(flat, 24) != rate(flat, 3) {
			t.Errorf("flat %s: it promises %v with 24 cores and %v with 3", name, rate(flat, 24), rate(flat, 3))
		}
	}
	if e := of(curve(1, 10, 20, 30)).Exported(); e.CoresPerGPU[len(e.CoresPerGPU)-1] != 3 {
		t.Errorf("a profile for everybody goes up to %v cores, want the 3 that were measured", e.CoresPerGPU)
	}
}

func TestTheSameReportTwiceAndAnOlderOneChangeNothing(t *testing.T) {
	e := of(curve(5, 10, 20, 30))
	for name, r := range map[string]learned.Report{"the same": curve(5, 10, 20, 30), "an older": curve(4, 1, 1, 1)} {
		if e.With(key, r) != e {
			t.Errorf("%s report changes the entry", name)
		}
	}
	if next := e.With(key, curve(6, 12, 24, 36)); next == e || next.Points[0].Count != 2 ||
		math.Abs(next.Points[0].Rate-11) > 1e-9 || next.Points[0].Scatter < 0.05 {
		t.Errorf("a second one makes %+v, want the mean of two and how far they are apart", next.Points)
	}
	if e.Points[0].Count != 1 {
		t.Error("an entry that was handed out has changed")
	}
}

func TestAfterADriftNothingThatWasMeasuredBeforeCounts(t *testing.T) {
	e := of(curve(5, 10, 20, 30)).Forgotten(noon.Add(10 * time.Minute))
	if e.Profile() != nil || e.With(key, curve(9, 10, 20, 30)) != e || e.With(key, curve(10, 10, 20, 30)) != e {
		t.Errorf("it knows %+v", e.Points)
	}
	if next := e.With(key, curve(11, 5, 10, 15)); len(next.Points) != 3 || !next.Since.Equal(e.Since) {
		t.Errorf("what is measured afterwards makes %+v", next)
	}
}

func TestProgressStandsBelowACurveAndAnotherGPUBeginsAnew(t *testing.T) {
	e := of(curve(1, 10, 20, 30))
	said := curve(2, 0, 0, 15)
	said.Way = learned.Progress
	if next := e.With(key, said); next != e {
		t.Errorf("progress changes a curve's point: %+v", next.Points)
	}
	other := curve(3, 99)
	other.GPUType = "h100"
	if next := e.With(key, other); len(next.Points) != 1 || next.GPUType != "h100" {
		t.Errorf("on another GPU it knows %+v", next)
	}
}

// TestOfTwoJobsOnTwoTypesThatSayTheSameAgainNeitherTeachesAgain: their comments stand as they are, and each round reads
// both. The one that was heard of later is what is known.
func TestOfTwoJobsOnTwoTypesThatSayTheSameAgainNeitherTeachesAgain(t *testing.T) {
	other := curve(3, 99)
	other.GPUType = "h100"
	e := of(curve(1, 10, 20, 30), other)
	if e.With(key, curve(1, 10, 20, 30)) != e || e.With(key, other) != e {
		t.Errorf("what was said before teaches again")
	}
	if next := e.With(key, curve(4, 10, 20)); next.GPUType != "v100" || len(next.Points) != 2 {
		t.Errorf("what is new on the first type makes %+v", next)
	}
}

// TestAClockThatWasAYearAheadIsForgiven: what was told by it bars nothing that is told by the right one, and counts
// once.
func TestAClockThatWasAYearAheadIsForgiven(t *testing.T) {
	const year = 365 * 24 * 60
	ahead := curve(year, 10, 20, 30)
	ahead.Latest = ahead.At
	for name, e := range map[string]*learned.Entry{
		"told":                of(ahead),
		"told on another GPU": of(func() learned.Report { r := ahead; r.GPUType = "h100"; return r }()),
		"forgotten":           of(ahead).Forgotten(ahead.At),
	} {
		next := e.With(key, curve(5, 12, 24, 36))
		if next == e || !next.Updated.Equal(noon.Add(5*time.Minute)) || !next.Points[2].At.Equal(next.Updated) {
			t.Errorf("%s by that clock: the right one's curve makes %+v", name, next)
		} else if next.With(key, curve(5, 12, 24, 36)) != next {
			t.Errorf("%s by that clock: the right one's curve counts twice", name)
		}
	}
}

func TestWhoWantsToBeMeasured(t *testing.T) {
	progress := curve(1, 10)
	progress.Way = learned.Progress
	for name, c := range map[string]struct {
		entry *learned.Entry
		cores float64
		want  bool
	}{
		"nothing is known": {nil, 3, true}, "all was forgotten": {of(curve(1, 1)).Forgotten(noon), 3, true},
		"progress alone":                  {of(progress), 1, true},
		"it climbs, and this has more":    {of(curve(1, 10, 20, 30)), 6, true},
		"it climbs, and this has no more": {of(curve(1, 10, 20, 30)), 3, false},
		"the knee was seen":               {of(curve(1, 10, 10, 10)), 24, false},
	} {
		if got := c.entry.Wants(c.cores); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestWhateverIsReportedTheEntryIsSoundAndSoAreItsProfiles: any sequence of reports makes an entry that is read back as
// it was, of few points, and profiles that pass the strict reading of profiles.
func TestWhateverIsReportedTheEntryIsSoundAndSoAreItsProfiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var e *learned.Entry
		key := learned.Key{User: "u", Job: rapid.String().Filter(func(s string) bool { return len(s) < 200 }).Draw(t,
			"job")}
		for range rapid.IntRange(1, 12).Draw(t, "reports") {
			r := learned.Report{
				Job: rapid.IntRange(1, 99).Draw(t, "id"),
				At:  noon.Add(time.Duration(rapid.IntRange(0, 9999).Draw(t, "at")) * time.Second), GPUType: "v100",
				GPUs:   rapid.IntRange(0, 9).Draw(t, "gpus"),
				Memory: gres.Memory(rapid.Int64Range(-5, 1<<40).Draw(t, "memory")),
				Way:    rapid.SampledFrom([]learned.Way{learned.Curve, learned.Progress}).Draw(t, "way"),
				Latest: noon.Add(time.Duration(rapid.IntRange(0, 9999).Draw(t, "latest")) * time.Second),
			}
			for range rapid.IntRange(0, 20).Draw(t, "points") {
				r.Rates = append(r.Rates, learned.Rate{Cores: rapid.IntRange(-1, 9999).Draw(t, "cores"),
					Rate: rapid.Float64().Draw(t, "rate")})
			}
			before := e
			kept := slices.Clone(pointsOf(before))
			e = e.With(key, r)
			if !slices.Equal(kept, pointsOf(before)) {
				t.Fatal("an entry that was handed out has changed")
			}
		}
		if e == nil || len(e.Points) == 0 {
			return
		}
		text, err := e.Print()
		if err != nil {
			t.Fatal(err)
		}
		if read, err := learned.Parse(text); err != nil || len(read.Points) != len(e.Points) {
			t.Fatalf("%v in %s", err, text)
		}
		for _, p := range []*sensitivity.Profile{e.Profile(), e.Exported()} {
			text, err := p.Print()
			if err == nil {
				_, err = sensitivity.Parse(text)
			}
			if err != nil {
				t.Fatalf("%v in %s", err, text)
			}
		}
		if most := e.Profile().CoresPerGPU; most[len(most)-1] > 2*e.Measured() {
			t.Fatalf("%v cores are believed of the %v that were measured", most, e.Measured())
		}
	})
}

func pointsOf(e *learned.Entry) []learned.Point {
	if e == nil {
		return nil
	}
	return e.Points
}

func TestADamagedEntryIsRefusedWithWhatIsWrong(t *testing.T) {
	good, err := of(curve(1, 10, 20)).Print()
	if err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{
		`"version": 1`: `"version": 2`, `"count": 1`: `"count": 0`, `"cores_per_gpu": 2`: `"cores_per_gpu": 1`,
		`"iterations_per_s": 10`: `"iterations_per_s": -1`,
		`"user": "alice"`:        `"user": ""`, `"user": "alic`: `"user": "\u0000`, `"way": "curve"`: `"way": "guess"`,
		`"memory_per_gpu_mib": 62500`: `"memory_per_gpu_mib": 0`, `"job": 7,`: `"job": 7, "more": 1,`,
		"}\n": "} {}\n",
	} {
		damaged := strings.Replace(string(good), from, to, 1)
		if damaged == string(good) {
			t.Fatalf("there is no %s in %s", from, good)
		}
		if _, err := learned.Parse([]byte(damaged)); err == nil {
			t.Errorf("with %s it is taken", to)
		}
	}
	if _, err := learned.Parse([]byte(strings.Repeat(" ", learned.MaxBytes+1))); err == nil {
		t.Error("a long one is taken")
	}
}

func FuzzParse(f *testing.F) {
	good, _ := of(curve(1, 10, 20, 30)).Print()
	f.Add(good)
	f.Add([]byte(`{"version":1,"user":"a","points":[{"cores_per_gpu":1e-9}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		e, err := learned.Parse(text)
		if err != nil || len(e.Points) == 0 {
			return
		}
		e.GPUType = "v100"
		p := e.Profile()
		printed, err := p.Print()
		if err == nil {
			_, err = sensitivity.Parse(printed)
		}
		if err != nil {
			t.Errorf("%v from %s", err, text)
		}
	})
}
