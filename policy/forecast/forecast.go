// Package forecast estimates when waiting jobs will start. It plays rounds forward from a snapshot with the daemon's
// planner, several times. Each time it draws anew when jobs end, from what is known about their lengths. The result is
// a median, a spread, and the time up to which it looked. It is a pure function of its arguments. Draws are a hash of
// seed, draw and job, so two forecasts of which one has another node differ by that node alone.
//
// It does not know which jobs will be submitted, which matters under policies where newcomers go first (SRTF, LAS);
// that drained nodes will come back; or that jobs outside the snapshot will end. A job that waits for something on
// which no plan decides has no estimate. The parts of their limits that jobs use are learned with running jobs as
// censored observations (Kaplan and Meier), since short jobs end first.
package forecast

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// Options say how futures are played. Zero values are valid for all fields but Policy and Allocator.
type Options struct {
	Policy    policy.Policy
	Allocator policy.Allocator
	Draws     int           // number of futures played; 0: DefaultDraws
	Seed      uint64        // of the draws
	Horizon   time.Duration // length of a future; 0: DefaultHorizon
	Habits    Habits        // parts of their time limits that jobs use; nil: DefaultHabits
	// Only lists the jobs of interest: a future ends when they have started. nil: all waiting jobs.
	Only []int
	// Reference is the server whose share is the unit of job lengths; zero: that of the snapshot. Where the nodes were
	// changed after the lengths were measured it is the reference from before.
	Reference gres.Vector
	// Stop is asked before each played round whether to end with what there is; nil: never.
	Stop func() bool
}

// Defaults for the zero values of Options.
const (
	DefaultDraws   = 11
	DefaultHorizon = 7 * 24 * time.Hour
)

// Limits on the work: an estimate need not be finer than a part of the wait that it estimates.
const (
	minStep      = 20 * time.Second // minimum time between two decisions, for up to fewJobs jobs
	fewJobs      = 300              // with more jobs the minimum grows in proportion, up to a round
	stepDivisor  = 20               // the minimum is also at least the time since the beginning divided by this
	maxDecisions = 400              // decisions in one future: with the two above, beyond a month
)

// Forecast is the result of the futures played.
type Forecast struct {
	From time.Time `json:"from"`
	// Until is the time up to which all futures were played. A job that had not started by then starts later.
	Until time.Time `json:"until"`
	Draws int       `json:"draws"`         // futures that were played
	Cut   bool      `json:"cut,omitempty"` // Options.Stop ended it before all futures were complete
	// Guess is the number of jobs of unknown length, which make the forecast a guess. If only one job is asked for, its
	// own length does not matter and is not counted.
	Guess int     `json:"guess,omitempty"`
	Start []Start `json:"starts,omitempty"` // of the waiting jobs that may start, ascending in job
	// Trained is the mean value of the cluster over the first Span, in GPUs at proportional speed (GPU-hours per hour).
	Trained float64       `json:"trained"`
	Span    time.Duration `json:"span_ns"`
}

// Start is when a job is expected to start.
type Start struct {
	Job int `json:"job"`
	Spread
}

// Spread has the 10th, 50th and 90th percentile of a time over the futures. A zero time is after Forecast.Until.
type Spread struct {
	P10 time.Time `json:"p10,omitzero"`
	P50 time.Time `json:"p50,omitzero"`
	P90 time.Time `json:"p90,omitzero"`
}

// minSpreadDraws is the smallest number of futures from which Words gives a spread; with fewer it names the median
// alone.
const minSpreadDraws = 5

// Words says for people when a job will start. Times are in Slurm's format, in the time zone of the snapshot.
func (f *Forecast) Words(s Spread) string {
	const form = "2006-01-02T15:04"
	switch {
	case s.P50.IsZero():
		return "not expected to start before " + f.Until.Format(form)
	case s.P90.IsZero() && f.Draws >= minSpreadDraws:
		return "expected to start about " + s.P50.Format(form) + ", not before " + s.P10.Format(form)
	case f.Draws < minSpreadDraws, s.P90.Sub(s.P10) < time.Minute:
		return "expected to start about " + s.P50.Format(form)
	}
	return "expected to start about " + s.P50.Format(form) + ", between " + s.P10.Format(form) + " and " +
		s.P90.Format(form)
}

// Of is when the job with an ID will start; false if nothing is known, for example if there was no time to play at all.
func (f *Forecast) Of(job int) (Start, bool) {
	k, known := slices.BinarySearchFunc(f.Start, job, func(s Start, job int) int { return cmp.Compare(s.Job, job) })
	if !known || f.Start[k].P50.IsZero() && !f.Until.After(f.From) {
		return Start{}, false
	}
	return f.Start[k], true
}

// Starts plays futures of a cluster, which is not changed, and returns when its waiting jobs start in them. A future
// that is cut (by Stop, or after too many decisions) ends the forecast. It counts only if it is the first, since
// complete ones say more. If a future ended with asked jobs still waiting, Until is the earliest such end.
func Starts(c *policy.Cluster, o Options) Forecast {
	o.Draws, o.Horizon = cmp.Or(max(0, o.Draws), DefaultDraws), cmp.Or(max(0, o.Horizon), DefaultHorizon)
	if len(o.Habits) < 2 {
		o.Habits = DefaultHabits()
	}
	o.Reference = cmp.Or(o.Reference, policy.Reference(c.Nodes))
	f := Forecast{From: c.Now, Until: c.Now.Add(o.Horizon), Span: trainedFor}
	asked := askedFor(c, o.Only)
	seen := map[int][]time.Time{} // by job
	trained, played := 0.0, 0.0   // GPU-seconds and seconds
	var planner policy.Planner
	for draw := range o.Draws {
		p := newFuture(c, &o, uint64(draw), asked)
		p.run(&planner)
		f.Cut, f.Guess = p.cut, p.guesses
		if p.cut && f.Draws > 0 { // complete futures say more than this one
			break
		}
		f.Draws++
		trained, played = trained+p.trained, played+min(trainedFor, p.now.Sub(c.Now)).Seconds()
		if p.open > 0 && p.now.Before(f.Until) { // it ended early, so later starts are unknown
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

// askedFor returns the IDs of the waiting jobs that may start, restricted to only if that is not nil; ascending. The
// futures are played until these have started.
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

// spreads computes, for each job, the spread of its start times in the futures. seen has these times by job.
func spreads(jobs []int, seen map[int][]time.Time, f *Forecast) []Start {
	list := make([]Start, 0, len(jobs))
	for _, job := range jobs {
		at := seen[job]
		slices.SortFunc(at, time.Time.Compare)
		list = append(
			list,
			Start{job, Spread{f.startQuantile(at, 0.1), f.startQuantile(at, 0.5), f.startQuantile(at, 0.9)}},
		)
	}
	return list
}

// startQuantile is the start time by which the job has started in that part of the futures (a quantile); zero: later
// than all futures were played. starts, ascending, has an entry only for the futures in which the job started. In the
// others it starts later, so the rank is among all futures.
func (f *Forecast) startQuantile(starts []time.Time, part float64) time.Time {
	k := int(math.Ceil(part*float64(f.Draws+1))) - 1
	k = min(max(k, 0), f.Draws-1)
	if k >= len(starts) || starts[k].After(f.Until) {
		return time.Time{}
	}
	return starts[k]
}
