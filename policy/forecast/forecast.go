// Package forecast says when jobs that wait will start. It plays rounds forward from a snapshot with the planner that
// the daemon plans with, several times: each time it draws anew when jobs end, from what is known of that. What comes
// of it is a median and a spread, and a time up to which it looked. It is a pure function of its arguments; the same
// seed gives the same draws for the same jobs, so that two forecasts of which one has another node differ by that node.
//
// It does not know who will be submitted, which matters where newcomers go first (SRTF, LAS); that drained nodes will
// come back; and that jobs will end that are not in the snapshot. Who may not start yet, and so waits for something
// that no plan decides on, has no estimate.
package forecast

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// Options say how the future is played. The zero values of all but Policy and Allocator are good.
type Options struct {
	Policy    policy.Policy
	Allocator policy.Allocator
	Draws     int           // futures that are played; 0: DefaultDraws
	Seed      uint64        // of what is drawn
	Horizon   time.Duration // how far they are played; 0: DefaultHorizon
	Habits    Habits        // how much of their time limits jobs use; nil: DefaultHabits
	// Only are the jobs that are asked for: a future ends when they have started. nil: all that wait.
	Only []int
	// Reference is the server in terms of whose share lengths are told; zero: the snapshot's own. Where nodes are not
	// what they were when lengths were told, it is the one of then.
	Reference gres.Vector
	// Stop is asked before each round that is played whether to end with what there is; nil: never.
	Stop func() bool
}

// Defaults for the zero values of Options.
const (
	DefaultDraws   = 11
	DefaultHorizon = 7 * 24 * time.Hour
)

// Limits on the work: an estimate need not be finer than a part of the wait that it is of.
const (
	finest   = 20 * time.Second // between two moments at which something is decided, for fewJobs
	fewJobs  = 300              // of more jobs more ends are taken together, up to a round
	coarsest = 20               // parts of the time that has passed
	rounds   = 400              // of one future: with the two above, beyond a month
)

// Forecast is what the futures say.
type Forecast struct {
	From time.Time `json:"from"`
	// Until is up to when all futures were played. Of who has not started by then nothing but that is known.
	Until time.Time `json:"until"`
	Draws int       `json:"draws"`         // futures that were played
	Cut   bool      `json:"cut,omitempty"` // there was no time to play them to the end
	// Guess is of how many jobs nothing is known of the length, so that it is a guess. How long the only one is that
	// was asked for decides nothing.
	Guess int     `json:"guess,omitempty"`
	Start []Start `json:"starts,omitempty"` // of the jobs that wait and may start, ascending in job
	// Trained is the mean value of the cluster over the first Span, in GPUs at proportional speed: GPU-hours an hour.
	Trained float64       `json:"trained"`
	Span    time.Duration `json:"span_ns"`
}

// Start is when a job will start.
type Start struct {
	Job int `json:"job"`
	Spread
}

// Spread is between when and when something will be, in eight of ten futures, and when in the middle one. A time that
// is zero is after Forecast.Until.
type Spread struct {
	P10 time.Time `json:"p10,omitzero"`
	P50 time.Time `json:"p50,omitzero"`
	P90 time.Time `json:"p90,omitzero"`
}

// leastFor is how many futures make a spread.
const leastFor = 5

// Words say for people when a job will start, in the form of Slurm's times: the zone is that of the snapshot's time.
func (f *Forecast) Words(s Spread) string {
	const form = "2006-01-02T15:04"
	switch {
	case s.P50.IsZero():
		return "not expected to start before " + f.Until.Format(form)
	case s.P90.IsZero() && f.Draws >= leastFor:
		return "expected to start about " + s.P50.Format(form) + ", not before " + s.P10.Format(form)
	case f.Draws < leastFor, s.P90.Sub(s.P10) < time.Minute:
		return "expected to start about " + s.P50.Format(form)
	}
	return "expected to start about " + s.P50.Format(form) + ", between " + s.P10.Format(form) + " and " +
		s.P90.Format(form)
}

// Of is when a job will start; false: nothing is known of it, as where there was no time to look ahead at all.
func (f *Forecast) Of(job int) (Start, bool) {
	k, known := slices.BinarySearchFunc(f.Start, job, func(s Start, job int) int { return cmp.Compare(s.Job, job) })
	if !known || f.Start[k].P50.IsZero() && !f.Until.After(f.From) {
		return Start{}, false
	}
	return f.Start[k], true
}

// Starts plays futures of a cluster. The cluster is not changed.
func Starts(c *policy.Cluster, o Options) Forecast {
	o.Draws, o.Horizon = cmp.Or(max(0, o.Draws), DefaultDraws), cmp.Or(max(0, o.Horizon), DefaultHorizon)
	if len(o.Habits) < 2 {
		o.Habits = DefaultHabits()
	}
	o.Reference = cmp.Or(o.Reference, policy.Reference(c.Nodes))
	f := Forecast{From: c.Now, Until: c.Now.Add(o.Horizon), Span: trainedFor}
	asked := askedFor(c, o.Only)
	seen := map[int][]time.Time{} // by job
	trained, played := 0.0, 0.0   // GPU-seconds, seconds
	var planner policy.Planner
	for draw := range o.Draws {
		p := newPlay(c, &o, uint64(draw), asked)
		p.run(&planner)
		f.Cut, f.Guess = p.cut, p.guesses
		if p.cut && f.Draws > 0 { // those that were played to the end say more
			break
		}
		f.Draws++
		trained, played = trained+p.trained, played+min(trainedFor, p.now.Sub(c.Now)).Seconds()
		if p.open > 0 && p.now.Before(f.Until) {
			f.Until = p.now
		}
		for job, at := range p.started {
			seen[job] = append(seen[job], at)
		}
		if p.cut {
			break
		}
	}
	if played > 0 {
		f.Trained = trained / played
	}
	f.Start = spreads(asked, seen, &f)
	return f
}

// askedFor are the jobs that wait and may start, or those of them that somebody asks for; ascending.
func askedFor(c *policy.Cluster, only []int) []int {
	var jobs []int
	for i := range c.Jobs {
		j := &c.Jobs[i]
		if j.Running == nil && j.Barred == "" && (only == nil || slices.Contains(only, j.ID)) {
			jobs = append(jobs, j.ID)
		}
	}
	slices.Sort(jobs)
	return jobs
}

// spreads are those of the times at which jobs started in so many futures.
func spreads(jobs []int, seen map[int][]time.Time, f *Forecast) []Start {
	list := make([]Start, 0, len(jobs))
	for _, job := range jobs {
		at := seen[job]
		slices.SortFunc(at, time.Time.Compare)
		list = append(list, Start{job, Spread{f.at(at, 0.1), f.at(at, 0.5), f.at(at, 0.9)}})
	}
	return list
}

// at is the time before which so great a part of the futures had the start; zero where that is after what all of them
// were played to.
func (f *Forecast) at(starts []time.Time, part float64) time.Time {
	k := int(math.Ceil(part*float64(f.Draws+1))) - 1
	k = min(max(k, 0), f.Draws-1)
	if k >= len(starts) || starts[k].After(f.Until) {
		return time.Time{}
	}
	return starts[k]
}
