package production

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/forecast"
	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
	"github.com/synergy-slurmd/synergy-slurmd/sim/users"
	"github.com/synergy-slurmd/synergy-slurmd/sim/workload"
)

// foretold is what was said of a job when a round first saw it wait, and what became of it.
type foretold struct {
	at time.Time
	forecast.Spread
	until time.Time
}

// score holds estimates against what became of them.
type score struct {
	jobs, within, early, late int
	misses                    []time.Duration // of the median, where it was known
	waits                     []time.Duration
}

func (s *score) add(f foretold, start time.Time) {
	s.jobs++
	s.waits = append(s.waits, start.Sub(f.at))
	switch {
	case f.P10.IsZero() && start.Before(f.until), !f.P10.IsZero() && start.Before(f.P10):
		s.early++
	case !f.P90.IsZero() && start.After(f.P90):
		s.late++
	default:
		s.within++
	}
	if !f.P50.IsZero() {
		s.misses = append(s.misses, start.Sub(f.P50).Abs())
	}
}

func (s *score) coverage() float64 { return float64(s.within) / float64(s.jobs) }

func median(list []time.Duration) time.Duration {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[len(list)/2]
}

// oracle asks for the start of each job that a round sees wait for the first time, and waits for what becomes of it.
type oracle struct {
	options forecast.Options
	learns  bool
	habits  []float64
	before  policy.Cluster
	waits   map[int]foretold
	seen    map[int]bool
	score   score
}

func (o *oracle) watch(c *policy.Cluster, plan policy.Plan) {
	o.learn(c)
	var fresh []int
	for i := range c.Jobs {
		j, granted := &c.Jobs[i], plan.Decisions[i].Grant != nil
		if f, waited := o.waits[j.ID]; waited && granted {
			o.score.add(f, c.Now)
			delete(o.waits, j.ID)
		}
		if !granted && !o.seen[j.ID] {
			fresh = append(fresh, j.ID)
		}
		o.seen[j.ID] = true
	}
	if len(fresh) == 0 {
		return
	}
	options := o.options
	options.Only = fresh
	said := forecast.Starts(c, options)
	for _, s := range said.Start {
		o.waits[s.Job] = foretold{c.Now, s.Spread, said.Until}
	}
}

// learn sees how much of their limits jobs used.
func (o *oracle) learn(c *policy.Cluster) {
	if o.learns {
		o.habits = append(o.habits, forecast.Seen(&o.before, c)...)
		o.options.Habits = forecast.Learn(o.habits, c)
		o.before = *c
		o.before.Jobs, o.before.Nodes = slices.Clone(c.Jobs), nil
	}
}

// limited gives jobs their length as their time limit, and has them use a part of it that is drawn.
func limited(jobs trace.Source, on Config, part func(*rand.Rand) float64) trace.Source {
	random := rand.New(rand.NewPCG(7, 7))
	var list []trace.Job
	for {
		j, more := jobs.Next()
		if !more {
			return trace.Of(list)
		}
		asked, err := users.Ask(on.Cluster, on.Profiles, j)
		if err != nil {
			panic(err)
		}
		j.Told.Asked.Limit = max(60, asked.Length)
		j.Iterations = max(1, int64(float64(j.Iterations)*part(random)))
		list = append(list, j)
	}
}

// TestEstimatesOfStartsAreHeldAgainstWhatBecomesOfThem has four servers that are asked for more than they have, then
// for less. Each estimate is made when a round first sees a job wait.
func TestEstimatesOfStartsAreHeldAgainstWhatBecomesOfThem(t *testing.T) {
	if testing.Short() {
		t.Skip("plays thousands of futures")
	}
	evenly := func(r *rand.Rand) float64 { return 0.02 + 0.98*r.Float64() }
	lavish := func(r *rand.Rand) float64 { return 0.02 + 0.28*r.Float64() }
	for _, c := range []struct {
		name    string
		lengths workload.Durations
		policy  policy.Policy
		limited float64
		part    func(*rand.Rand) float64
		learns  bool
		jobs    int     // that wait at least
		least   float64 // part of the starts that are within the spread
		most    float64 // of the median wait, that the median estimate is off
	}{
		{"lengths declared", "lognormal:2h,1", policy.FIFO(), 0, evenly, false, 150, 0.65, 0.2},
		{"limits, evenly used", "lognormal:2h,1", policy.FIFO(), 1, evenly, false, 150, 0.7, 0.3},
		{"limits, six times too long", "lognormal:6h,1", policy.FIFO(), 1, lavish, false, 150, 0, 5},
		{"limits, six times too long, learned", "lognormal:6h,1", policy.FIFO(), 1, lavish, true, 150, 0.6, 0.3},
		{"las, limits, evenly used", "lognormal:2h,1", policy.LAS(), 1, evenly, false, 10, 0.4, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := small(t)
			config.Cluster, config.Policy = servers(4, 8, 24, 500), c.policy
			config.Users = users.Habits{Limited: c.limited, Unsaved: 0.3, Seed: 5}
			o := &oracle{options: forecast.Options{Policy: c.policy, Allocator: config.Allocator}, learns: c.learns,
				waits: map[int]foretold{}, seen: map[int]bool{}}
			config.Watch = o.watch
			jobs := drawn(t, workload.Config{Load: 20, Jobs: 200, GPUs: workload.PaperMix,
				Durations: c.lengths})
			config.Jobs = limited(jobs, config, c.part)
			simulate(t, config)
			s := &o.score
			miss, wait := median(s.misses), median(s.waits)
			t.Logf("%d jobs waited, half of them longer than %s; %.0f %% started within the spread, %.0f %% before, "+
				"%.0f %% after; half of the medians were off by less than %s (%d known)", s.jobs,
				wait.Round(time.Minute), 100*s.coverage(), 100*float64(s.early)/float64(s.jobs),
				100*float64(s.late)/float64(s.jobs), miss.Round(time.Minute), len(s.misses))
			if s.jobs < c.jobs || s.coverage() < c.least || miss.Seconds() > c.most*wait.Seconds() {
				t.Errorf("want %d jobs, %.0f %% and %.2f of the wait", c.jobs, 100*c.least, c.most)
			}
		})
	}
}
