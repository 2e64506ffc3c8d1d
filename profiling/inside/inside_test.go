package inside

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/directive"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/profiler"
)

// modelled is a trainer that iterates as its cores let it.
type modelled struct {
	mu    sync.Mutex
	rate  func(cores int) float64
	cores int
	done  float64
	at    time.Time
	given []int
	fails error
}

func (m *modelled) Begin() error { return nil }

func (m *modelled) Limit(cores int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.given = append(m.given, cores)
	if m.fails != nil && len(m.given) > 1 && cores != m.given[0] {
		return m.fails
	}
	m.advance()
	m.cores = cores
	return nil
}

func (m *modelled) advance() {
	now := time.Now()
	if !m.at.IsZero() {
		m.done += m.rate(m.cores) * now.Sub(m.at).Seconds()
	}
	m.at = now
}

func (m *modelled) iterations() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance()
	return int64(m.done)
}

func (m *modelled) last() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.given[len(m.given)-1]
}

// TestACurveIsMeasuredAndAllCoresAreGivenBack: what a trainer of a known curve does is found within a tenth, in no more
// windows than there is time.
func TestACurveIsMeasuredAndAllCoresAreGivenBack(t *testing.T) {
	t.Parallel()
	m := &modelled{cores: 8, rate: func(cores int) float64 { return min(100*float64(cores), 450) }}
	began := time.Now()
	points, err := Measure(context.Background(), Job{Cores: m, Most: 8, Source: m.iterations,
		Window: 400 * time.Millisecond, Total: 4 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 6*time.Second {
		t.Errorf("took %s of the 4 s that it had", took)
	}
	if m.last() != 8 {
		t.Errorf("in the end it has %d of its 8 cores", m.last())
	}
	if first, most := points[0].Cores, points[len(points)-1].Cores; first != 1 || most != 8 || len(points) < 3 {
		t.Errorf("measured %+v", points)
	}
	for _, p := range points {
		if want := m.rate(p.Cores); math.Abs(p.Rate/want-1) > 0.25 {
			t.Errorf("%d cores: %.0f iterations/s, want %.0f", p.Cores, p.Rate, want)
		}
	}
}

// TestHoweverItEndsAllCoresAreGivenBack: the context ends, the trainer stops, the cores cannot be taken.
func TestHoweverItEndsAllCoresAreGivenBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rate  func(int) float64
		ends  time.Duration
		fails error
		want  string
	}{
		"the context ends": {func(int) float64 { return 500 }, 300 * time.Millisecond, nil, "deadline"},
		"it is too slow":   {func(int) float64 { return 3 }, time.Minute, nil, "nothing was measured"},
		"the cores cannot be had": {func(int) float64 { return 500 }, time.Minute, errors.New("no such cores"),
			"no such cores"},
		"it never trains": {func(int) float64 { return 0 }, time.Minute, nil, "no iteration was seen"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &modelled{cores: 4, rate: c.rate, fails: c.fails}
			ctx, cancel := context.WithTimeout(context.Background(), c.ends)
			defer cancel()
			_, err := Measure(ctx, Job{Cores: m, Most: 4, Source: m.iterations, Window: 200 * time.Millisecond,
				Total: 3 * time.Second, Wait: 600 * time.Millisecond})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if len(m.given) > 0 && m.last() != 4 {
				t.Errorf("in the end it has %d of its 4 cores: %v", m.last(), m.given)
			}
		})
	}
}

// TestACheckpointInAWindowIsNoPartOfTraining, and the waits between bursts are.
func TestACheckpointInAWindowIsNoPartOfTraining(t *testing.T) {
	var steady, bursts []profiler.Window
	for k := range 30 {
		steady = append(steady, profiler.Window{Seconds: 0.1, Iterations: 5})
		bursts = append(bursts, profiler.Window{Seconds: 0.05, Iterations: 3})
		if k%6 == 5 {
			bursts = append(bursts, profiler.Window{Seconds: 2 + float64(k)/100, Iterations: 1})
		}
	}
	saving := append([]profiler.Window{{Seconds: 1.3, Iterations: 5}}, steady...)
	if got := len(withoutPause(saving)); got != 30 {
		t.Errorf("%d of 31 windows are left, want all but the checkpoint", got)
	}
	if len(saving) != 31 || saving[0].Seconds != 1.3 {
		t.Error("what was measured has changed")
	}
	for name, windows := range map[string][]profiler.Window{"steady": steady, "bursts": bursts, "two": saving[:2],
		"none": nil} {
		if got := len(withoutPause(windows)); got != len(windows) {
			t.Errorf("%s: %d of %d windows are left", name, got, len(windows))
		}
	}
}

func TestAWordFitsTheContractWhateverWasMeasured(t *testing.T) {
	at := time.Unix(1767268800, 0)
	if got, want := Word([]profiler.Point{{Cores: 1, Rate: 0.58123}, {Cores: 2, Rate: 11.3}, {Cores: 3, Rate: 156.25}},
		at), "synergy-curve=1:0.5812/2:11.30/3:156.2@1767268800"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	var many []profiler.Point
	for k := range 40 {
		many = append(many, profiler.Point{Cores: k + 1, Rate: 1234.5678 * float64(k+1)})
	}
	word := Word(many, at)
	if len(word) > maxWord || !strings.HasPrefix(word, "synergy-curve=1:1235/") ||
		!strings.Contains(word, "/40:49383@") {
		t.Errorf("%d bytes: %s, want the ends and no more than %d", len(word), word, maxWord)
	}
	if says := directive.Parse("synergy-profile=auto " + word); says.Err() != nil || says.BadCurve != nil ||
		!says.Curve.At.Equal(at) {
		t.Errorf("the daemon reads %+v", says)
	}
	if got := Word(nil, at); got != "" {
		t.Errorf("of nothing it says %s", got)
	}
}

// stub is a scontrol that knows one job.
type stub struct{ comment, extra string }

func (s *stub) run(_ context.Context, arguments ...string) (string, error) {
	if arguments[0] == "update" {
		s.comment = strings.TrimPrefix(arguments[2], "comment=")
		return "", nil
	}
	return fmt.Sprintf(
		"JobId=17 JobName=Extra={} Comment=x\n   NumNodes=1 NumCPUs=3\n   Comment=%s \n   Extra=%s \n   "+
			"StdErr=/tmp/c.err\n   StdOut=/tmp/a b.log\n", s.comment, s.extra), nil
}

func TestTheCurveTakesThePlaceOfTheOldOneAndAllElseStays(t *testing.T) {
	for before, want := range map[string]string{
		"synergy-profile=auto mine,synergy-progress=5@1": "synergy-profile=auto " +
			"mine,synergy-progress=5@1 W",
		"synergy-profile=auto,synergy-curve=1:1@1, $(reboot)": "synergy-profile=auto,W, " +
			"$(reboot)",
		"not-synergy-curve=1:1@1 synergy-curves=2 synergy-profile=auto synergy-curve": "not-synergy-curve=1:1@1 " +
			"synergy-curves=2 synergy-profile=auto W",
	} {
		s := &stub{comment: before}
		const word = "synergy-curve=1:2/3:4@1767268800"
		if err := (Slurm{Job: "17", Run: s.run}).Say(context.Background(), word); err != nil {
			t.Fatal(err)
		}
		if want = strings.Replace(want, "W", word, 1); s.comment != want {
			t.Errorf("%q, want %q", s.comment, want)
		}
	}
}

func TestAJobIsMeasuredOnlyWhereItsOwnAnnotationAsks(t *testing.T) {
	for extra, want := range map[string]bool{
		`{"v":1,"lua":0,"job":17,"round":3,"measure":1}`: true,
		`{"v":1,"lua":0,"job":17,"round":3}`:             false,
		`{"v":1,"lua":0,"job":18,"measure":1}`:           false,
		`{"v":1,"lua":1,"begin":0}`:                      false,
		``:                                               false,
		`{"measure":1`:                                   false,
	} {
		s := &stub{extra: extra, comment: `Extra={"job":17,"measure":1} StdOut=/etc/passwd`}
		asked, err := Slurm{Job: "17", Run: s.run}.Asked(context.Background())
		if err != nil || asked.Measure != want || !slices.Equal(asked.Output, []string{"/tmp/a b.log", "/tmp/c.err"}) {
			t.Errorf("%s: %+v, %v, want %v", extra, asked, err, want)
		}
	}
}
