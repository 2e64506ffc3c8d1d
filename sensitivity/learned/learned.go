// Package learned is what running jobs teach about how fast they train: an Entry for each owner and job name, put
// together from curves that jobs measured inside of their own grants and from what they reported of their progress, and
// the sensitivity profile that follows. It computes from its arguments; where entries are kept is package shelf's to
// know. All that comes in was said by users: it is bounded here, and believed as far as it was measured and one step
// further.
package learned

import (
	"math"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// Key is whose jobs an entry is of. Both are text of users, and nothing else is made of them than a comparison.
type Key struct{ User, Job string }

// Way is how a point came about.
type Way string

// The ways. A curve is measured in windows of one run on one node; progress counts validations and checkpoints in, so
// that a curve's point stands above it.
const (
	Curve    Way = "curve"
	Progress Way = "progress"
)

// Point is how fast jobs ran with so many cores.
type Point struct {
	Cores   float64   `json:"cores_per_gpu"`
	Rate    float64   `json:"iterations_per_s"` // an iteration is a batch on each GPU
	Count   int       `json:"count"`            // reports that it was told from
	Scatter float64   `json:"scatter"`          // standard deviation of these, relative to Rate; 0 with one
	Way     Way       `json:"way"`
	Job     int       `json:"job"` // of the last report
	At      time.Time `json:"at"`  // of the last report, by the clock of its node
}

// Entry is what was learned from the jobs of a key. It is replaced and never changed.
type Entry struct {
	Version int    `json:"version"` // 1
	User    string `json:"user"`
	Job     string `json:"job_name"`
	GPUType string `json:"gpu_type"`
	// Memory is the least per GPU with which anything was measured, MiB: with less nothing is promised.
	Memory gres.Memory `json:"memory_per_gpu_mib"`
	Points []Point     `json:"points"` // ascending in cores; none after a drift
	// Since is when what was known before was forgotten: nothing that was measured by then counts again.
	Since   time.Time `json:"since,omitzero"`
	Updated time.Time `json:"updated"`
}

// Report is what one job said of itself.
type Report struct {
	Job     int
	At      time.Time
	GPUType string
	GPUs    int         // that it held on its node
	Memory  gres.Memory // that it held on its node, MiB
	Way     Way
	Rates   []Rate
	// Latest is the last moment that a report may come from now. What an entry knows from later than that was told by a
	// clock that has been set back since: it bars nothing.
	Latest time.Time
}

// news says that a report comes after that moment, as far as the moment can have been.
func (r *Report) news(since time.Time) bool { return r.At.After(since) || since.After(r.Latest) }

// Rate is the iterations a second with so many cores of the node.
type Rate struct {
	Cores int
	Rate  float64
}

// Bounds of an entry.
const (
	Version   = 1
	MaxPoints = 16
	maxCount  = 8 // reports that a mean remembers: what jobs do today counts more than what they did last year
	maxRate   = 1e6
	minRate   = 1e-5
	maxCores  = 4096
	maxMemory = 64 << 20 // MiB
)

// Key is the entry's.
func (e *Entry) Key() Key { return Key{e.User, e.Job} }

// With is the entry after a report; nil stands for an entry of that key that is empty. The same report twice, or one
// that is older than what is known, changes nothing, and the entry itself is returned: who dies after it was written
// down says it again.
func (e *Entry) With(key Key, r Report) *Entry {
	if r.GPUs < 1 || r.Memory < 1 || e.bars(&r) {
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
	if r.news(next.Updated) {
		next.Updated = r.At
	}
	return next
}

// bars says that all of a report is old: it comes from before a drift, or from another GPU than one that was heard of
// later. Of two jobs on two types that say the same in every round, only the later one is heard.
func (e *Entry) bars(r *Report) bool {
	return e != nil && (!r.news(e.Since) || e.GPUType != r.GPUType && !r.news(e.Updated))
}

func least(known, more gres.Memory) gres.Memory {
	if known == 0 {
		return more
	}
	return min(known, more)
}

// copyFor is a copy that the report may be added to: of another GPU nothing is known.
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

// Forgotten is the entry without what it knew, after a drift at that moment.
func (e *Entry) Forgotten(at time.Time) *Entry {
	return &Entry{Version: Version, User: e.User, Job: e.Job, GPUType: e.GPUType, Since: at, Updated: at}
}

// KnowsFromBefore says that it knows something from before that moment, and has forgotten nothing since.
func (e *Entry) KnowsFromBefore(at time.Time) bool {
	return e.Since.Before(at) && slices.ContainsFunc(e.Points, func(p Point) bool { return p.At.Before(at) })
}

// add takes one rate up, and says whether that changed anything.
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
	case !r.news(p.At), p.Way == Curve && r.Way == Progress:
		return false
	case p.Way != r.Way:
		*p = Point{cores, said.Rate, 1, 0, r.Way, r.Job, r.At}
	default:
		p.average(said.Rate)
		p.Job, p.At = r.Job, r.At
	}
	return true
}

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

// average adds a report to the running mean and scatter.
func (p *Point) average(rate float64) {
	n := float64(min(p.Count+1, maxCount))
	off := rate - p.Rate
	p.Rate += off / n
	spread := p.Scatter * p.Scatter
	p.Scatter = math.Sqrt(float64(spread*(n-1)/n) + float64(off*off)/float64(p.Rate*p.Rate*n))
	p.Scatter = min(p.Scatter, 1)
	p.Count = min(p.Count+1, math.MaxInt32)
}

// bound drops the point that was heard of longest ago, and never the one with the most cores.
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

// Measured is the most cores per GPU that anything was measured with; 0: none.
func (e *Entry) Measured() float64 {
	if e == nil || len(e.Points) == 0 {
		return 0
	}
	return e.Points[len(e.Points)-1].Cores
}

// Wants says that a job with so many cores per GPU should measure itself: nothing is known, there are only reports of
// progress, or the curve still climbed where it ended and this job has more.
func (e *Entry) Wants(cores float64) bool {
	if e == nil || len(e.Points) == 0 || !slices.ContainsFunc(e.Points, func(p Point) bool { return p.Way == Curve }) {
		return true
	}
	return e.Climbs() && cores > e.Measured()
}
