// Package learned holds what running jobs report about how fast they train: an Entry for each owner and job name, made
// from curves that jobs measured inside their own grants and from progress reports, and the sensitivity profile that
// follows. It computes from its arguments; package shelf stores the entries. All input comes from users: it is bounded
// here, believed as far as it was measured and one step further, and affects only jobs of the same owner and name. Each
// point has its job and time, so learning the same report twice counts once. A product is written float64(x*y), so that
// no processor rounds it in one step with a sum: figures are the same on every machine (tests/rounding_test.go).
package learned

import (
	"math"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// Key identifies the jobs of an entry. Both parts are users' text and are only compared.
type Key struct{ User, Job string }

// Way is how a point was measured.
type Way string

// The ways. A curve is measured in windows of one run on one node. Progress includes the time for validations and
// checkpoints, so a curve's point replaces a progress point and not the other way round.
const (
	Curve    Way = "curve"
	Progress Way = "progress"
)

// Point is how fast jobs ran with this many cores.
type Point struct {
	Cores   float64   `json:"cores_per_gpu"`
	Rate    float64   `json:"iterations_per_s"` // one iteration is a batch on each GPU
	Count   int       `json:"count"`            // number of reports in it
	Scatter float64   `json:"scatter"`          // standard deviation of these, relative to Rate; 0 with one report
	Way     Way       `json:"way"`
	Job     int       `json:"job"` // of the last report
	At      time.Time `json:"at"`  // of the last report, by the clock of its node
}

// Entry is what was learned from the jobs of a key. Entries are replaced, never changed.
type Entry struct {
	Version int    `json:"version"` // 1
	User    string `json:"user"`
	Job     string `json:"job_name"`
	GPUType string `json:"gpu_type"`
	// Memory is the least memory per GPU with which anything was measured, MiB; with less nothing is promised.
	Memory gres.Memory `json:"memory_per_gpu_mib"`
	Points []Point     `json:"points"` // ascending in cores; none after a drift
	// Since is when earlier knowledge was forgotten; measurements up to then do not count any more.
	Since   time.Time `json:"since,omitzero"`
	Updated time.Time `json:"updated"`
}

// Report is what one job reported about itself.
type Report struct {
	Job     int
	At      time.Time
	GPUType string
	GPUs    int         // held on its node
	Memory  gres.Memory // held on its node, MiB
	Way     Way
	Rates   []Rate
	// Latest is the latest time that a report can have now. A later time in an entry came from a clock that has been
	// set back since, and does not block reports.
	Latest time.Time
}

// isNewer reports whether the report is later than that moment, unless the moment is an impossible one.
func (r *Report) isNewer(since time.Time) bool { return r.At.After(since) || since.After(r.Latest) }

// Rate is the iterations per second with this many cores of the node.
type Rate struct {
	Cores int
	Rate  float64
}

// Bounds of an entry.
const (
	Version   = 1
	MaxPoints = 16
	maxCount  = 8 // reports that a mean remembers, so that recent jobs count more than those of last year
	maxRate   = 1e6
	minRate   = 1e-5
	maxCores  = 4096
	maxMemory = 64 << 20 // MiB
)

// Key returns the entry's key.
func (e *Entry) Key() Key { return Key{e.User, e.Job} }

// With returns the entry with a report added; a nil entry counts as an empty one. A report that was added before, or is
// older than what is known, changes nothing, and the entry itself is returned: a daemon that died after writing the
// entry adds the same reports again. So does one without GPUs or memory.
func (e *Entry) With(key Key, r Report) *Entry {
	if r.GPUs < 1 || r.Memory < 1 || e.refuses(&r) {
		return e
	}
	next := e.copyFor(key, r)
	changed := false
	for _, said := range r.Rates {
		changed = next.add(said, r) || changed
	}
	if !changed {
		return e
	}
	next.Memory = least(next.Memory, min(maxMemory, max(1, r.Memory/gres.Memory(r.GPUs))))
	if r.isNewer(next.Updated) {
		next.Updated = r.At
	}
	return next
}

// refuses reports whether all of a report is too old: it is from before a drift, or from another GPU type and before
// the last report. If jobs on two GPU types report the same in every round, only the later report counts.
func (e *Entry) refuses(r *Report) bool {
	return e != nil && (!r.isNewer(e.Since) || e.GPUType != r.GPUType && !r.isNewer(e.Updated))
}

// least returns the smaller amount, where 0 is unknown.
func least(known, more gres.Memory) gres.Memory {
	if known == 0 {
		return more
	}
	return min(known, more)
}

// copyFor returns a copy to which the report may be added. If the report is of another GPU type, the points are
// dropped. Since stays, so that reports from before a drift do not come back.
func (e *Entry) copyFor(key Key, r Report) *Entry {
	next := &Entry{Version: Version, User: key.User, Job: key.Job, GPUType: r.GPUType}
	if e == nil {
		return next
	}
	next.Since = e.Since
	if e.GPUType == r.GPUType {
		next.Memory, next.Points, next.Updated = e.Memory, slices.Clone(e.Points), e.Updated
	}
	return next
}

// Forgotten returns the entry without its points, after a drift at that moment.
func (e *Entry) Forgotten(at time.Time) *Entry {
	return &Entry{Version: Version, User: e.User, Job: e.Job, GPUType: e.GPUType, Since: at, Updated: at}
}

// KnowsFromBefore reports whether the entry has points from before that moment and has forgotten nothing since.
func (e *Entry) KnowsFromBefore(at time.Time) bool {
	return e.Since.Before(at) && slices.ContainsFunc(e.Points, func(p Point) bool { return p.At.Before(at) })
}

// add adds one rate, and reports whether that changed anything. A rate or size out of bounds changes nothing. A report
// of the other way replaces the point, except that progress never replaces a curve.
func (e *Entry) add(said Rate, r Report) bool {
	cores := math.Round(float64(said.Cores)/float64(r.GPUs)*100) / 100
	if !(said.Rate >= minRate && said.Rate <= maxRate) || !(cores >= 0.01 && cores <= maxCores) {
		return false
	}
	k, known := e.find(cores)
	if !known {
		e.Points = slices.Insert(e.Points, k, Point{cores, said.Rate, 1, 0, r.Way, r.Job, r.At})
		e.bound()
		return true
	}
	p := &e.Points[k]
	switch {
	case !r.isNewer(p.At), p.Way == Curve && r.Way == Progress:
		return false
	case p.Way != r.Way:
		*p = Point{cores, said.Rate, 1, 0, r.Way, r.Job, r.At}
	default:
		p.average(said.Rate)
		p.Job, p.At = r.Job, r.At
	}
	return true
}

// find returns the index of the point with these cores, or where it would be inserted.
func (e *Entry) find(cores float64) (int, bool) {
	return slices.BinarySearchFunc(e.Points, cores, func(p Point, c float64) int {
		switch {
		case p.Cores < c:
			return -1
		case p.Cores > c:
			return 1
		}
		return 0
	})
}

// average adds a report to the running mean and scatter. From maxCount reports on, each new one has the weight
// 1/maxCount.
func (p *Point) average(rate float64) {
	n := float64(min(p.Count+1, maxCount))
	off := rate - p.Rate
	p.Rate += off / n
	spread := p.Scatter * p.Scatter
	p.Scatter = math.Sqrt(float64(spread*(n-1)/n) + float64(off*off)/float64(p.Rate*p.Rate*n))
	p.Scatter = min(p.Scatter, 1)
	p.Count = min(p.Count+1, math.MaxInt32)
}

// bound drops the point with the oldest report if there are too many, but never the one with the most cores. That one
// says how far the curve was measured (Measured) and whether it climbs.
func (e *Entry) bound() {
	if len(e.Points) <= MaxPoints {
		return
	}
	oldest := 0
	for k, p := range e.Points[:len(e.Points)-1] {
		if p.At.Before(e.Points[oldest].At) {
			oldest = k
		}
	}
	e.Points = slices.Delete(e.Points, oldest, oldest+1)
}

// Measured returns the most cores per GPU that were measured; 0: none.
func (e *Entry) Measured() float64 {
	if e == nil || len(e.Points) == 0 {
		return 0
	}
	return e.Points[len(e.Points)-1].Cores
}

// Wants reports whether a job with this many cores per GPU should measure itself: nothing is known, only progress was
// reported, or the curve still climbs at its end and this job has more cores.
func (e *Entry) Wants(cores float64) bool {
	if e == nil || len(e.Points) == 0 || !slices.ContainsFunc(e.Points, func(p Point) bool { return p.Way == Curve }) {
		return true
	}
	return e.Climbs() && cores > e.Measured()
}
