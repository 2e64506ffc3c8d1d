// Package savings is the arithmetic of the ledger of savings: what each round books, and what follows from the sums.
// A round says how fast each job that runs would train with what its user asked for and with what it is given, by its
// profile, and which GPUs are idle though somebody waits for one; the time until then turns that into GPU-hours. The
// package decides nothing, measures nothing and keeps nothing. What it assumes is said in docs/savings.md: speeds are
// as the profiles say, linear in time, and nothing that a job saves is spent by another.
package savings

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Round is what one round knows.
type Round struct {
	At     time.Time
	Shadow bool  // what jobs are given is what they would be given
	GPUs   int   // of the managed nodes
	Jobs   []Job // that run and are managed, or matched by a rule; ascending in ID
	// UnmatchedJobs run in the managed partitions, on so many Unmatched GPUs, and nothing is known of them.
	UnmatchedJobs, Unmatched int
	Idle                     Idle
	Filled                   int     // of the idle GPUs, those which the plan gives to jobs that wait; in the shadow
	Checks                   []Check // windows of progress that ended with this round
}

// Job is a job that runs.
type Job struct {
	ID      int
	Started time.Time // of the run, as Slurm's accounting has it
	Since   time.Time // the same by Slurm's clock as it goes now, where that was set since; zero: Started
	GPUs    int
	Known   bool // it has a profile for these GPUs; otherwise Asked and With are 1
	// Of stands for the profile and the kind of GPUs: speeds of two runs can be compared where it is the same.
	Of string
	// Asked and With are its speeds with what its user asked for and with what it is given, relative to the
	// proportional share; both above 0.
	Asked, With float64
	// Unsaved and Saved are its speeds if no job could be sized again after its start, and if every job could; 0: not
	// known, as switched on.
	Unsaved, Saved float64
}

// Check is a speed that was promised and what became of it, in iterations a second.
type Check struct{ Ran, Said float64 }

// Sums are what rounds have booked. Times are in seconds, GPUs in GPU-seconds.
type Sums struct {
	Seconds   float64 `json:"seconds"`             // that were looked at
	There     float64 `json:"there"`               // GPUs that there were
	Held      float64 `json:"held"`                // by the jobs that were looked at
	Known     float64 `json:"known"`               // of these, by those with a profile
	Unmatched float64 `json:"unmatched,omitempty"` // held by jobs of which nothing is known
	// Asked and With are what the known jobs trained, in GPU-seconds at the proportional share, at which it would have
	// been Known.
	Asked float64 `json:"asked"`
	With  float64 `json:"with"`
	// Changed is the part of Known in which speeds with what jobs are given differ from those as they asked: what is
	// at stake if profiles are wrong.
	Changed float64 `json:"changed"`
	// Saved is how many GPU-seconds less the work that the known jobs did as they asked takes with what they are given.
	Saved float64 `json:"saved"`
	// Supposed is the part of Known for which it is known what would be saved if no job could be sized again after its
	// start, which is SavedWithout, and if every job could, which is SavedWith.
	Supposed     float64 `json:"supposed,omitempty"`
	SavedWithout float64 `json:"saved_without_checkpoints,omitempty"`
	SavedWith    float64 `json:"saved_with_checkpoints,omitempty"`

	Cores    float64 `json:"idle_cores,omitempty"`  // GPUs that idled for want of cores,
	Memory   float64 `json:"idle_memory,omitempty"` // of memory,
	Order    float64 `json:"idle_order,omitempty"`  // of Slurm's turn: somebody would have fitted,
	Split    float64 `json:"idle_split,omitempty"`  // of so many together
	Filled   float64 `json:"filled,omitempty"`      // of all these, those which the plan would have used
	Ended    int     `json:"ended,omitempty"`       // runs of known jobs that ended,
	Sooner   int     `json:"sooner,omitempty"`      // that would have ended sooner, or did,
	Earlier  float64 `json:"earlier,omitempty"`     // by so many seconds together,
	Later    int     `json:"later,omitempty"`       // that would have ended later, or did,
	Belated  float64 `json:"belated,omitempty"`     // by so many seconds together
	Checks   int     `json:"checks,omitempty"`      // windows of progress that were held against a profile
	Ran      float64 `json:"ran,omitempty"`         // sum of what ran over what was said
	Distance float64 `json:"distance,omitempty"`    // sum of how far that is from 1
}

// Plus adds sums.
func (s Sums) Plus(o Sums) Sums {
	s.Seconds, s.There, s.Held, s.Known = s.Seconds+o.Seconds, s.There+o.There, s.Held+o.Held, s.Known+o.Known
	s.Unmatched, s.Asked, s.With, s.Saved = s.Unmatched+o.Unmatched, s.Asked+o.Asked, s.With+o.With, s.Saved+o.Saved
	s.Cores, s.Memory, s.Order, s.Split = s.Cores+o.Cores, s.Memory+o.Memory, s.Order+o.Order, s.Split+o.Split
	s.Filled, s.Ended, s.Sooner, s.Later = s.Filled+o.Filled, s.Ended+o.Ended, s.Sooner+o.Sooner, s.Later+o.Later
	s.Earlier, s.Belated = s.Earlier+o.Earlier, s.Belated+o.Belated
	s.Supposed, s.SavedWithout = s.Supposed+o.Supposed, s.SavedWithout+o.SavedWithout
	s.SavedWith += o.SavedWith
	s.Changed += o.Changed
	s.Checks, s.Ran, s.Distance = s.Checks+o.Checks, s.Ran+o.Ran, s.Distance+o.Distance
	return s
}

// Idle is all GPU-seconds that idled though somebody waited.
func (s Sums) Idle() float64 { return s.Cores + s.Memory + s.Order + s.Split }

// State is what the next round's booking rests on.
type State struct {
	Last  time.Time `json:"last,omitzero"` // when the last round was booked
	Open  []Open    `json:"open,omitempty"`
	Ended []Open    `json:"-"` // the runs that this booking found ended; ascending in job
}

// Open is a run that has not ended, ascending in job.
type Open struct {
	Job     int       `json:"job"`
	Started time.Time `json:"started"`
	Saved   float64   `json:"saved_s"` // seconds less, or more, that its work so far takes

	// What the accounting of its end can be held against; Speed is 0 where it has no profile, or none any more.
	Shadow bool    `json:"shadow,omitempty"` // it was first seen in the shadow: it holds what its user asked for
	Speed  float64 `json:"speed,omitempty"`  // by its profile with what it holds, relative to the proportional share
	Of     string  `json:"of,omitempty"`
}

// noticeable is by how many seconds a run must differ to have ended sooner, or later.
const noticeable = 1

// Book is what a round books after the last one, and the state for the next. The speeds of the round stand for the
// time since the last one, but for no more than most: what nobody looked at is not claimed.
func Book(s State, r Round, most time.Duration) (Sums, State) {
	open := follow(s.Open, r)
	if s.Last.IsZero() || !r.At.After(s.Last) { // where a clock was set back, nobody knows how long that was
		return Sums{}, State{Last: r.At, Open: open, Ended: new(Sums).end(s.Open, open)}
	}
	from := r.At.Add(-min(most, r.At.Sub(s.Last)))
	seconds := r.At.Sub(from).Seconds()
	sums := Sums{Seconds: seconds, There: seconds * float64(r.GPUs), Unmatched: seconds * float64(r.Unmatched),
		Cores: seconds * float64(r.Idle.Cores), Memory: seconds * float64(r.Idle.Memory),
		Order: seconds * float64(r.Idle.Order), Split: seconds * float64(r.Idle.Split),
		Filled: seconds * float64(min(r.Filled, r.Idle.all()))}
	ended := sums.end(s.Open, open)
	for i := range r.Jobs {
		open[i].Saved += sums.run(&r.Jobs[i], from, r.At)
	}
	for _, c := range r.Checks {
		sums.check(c)
	}
	return sums, State{Last: r.At, Open: open, Ended: ended}
}

// follow lists the runs of a round, with what was booked for them.
func follow(before []Open, r Round) []Open {
	now := make([]Open, len(r.Jobs))
	for i := range r.Jobs {
		j := &r.Jobs[i]
		now[i] = Open{Job: j.ID, Started: j.Started, Shadow: r.Shadow}
		if k, found := slices.BinarySearchFunc(before, j.ID, byJob); found && before[k].same(now[i]) {
			now[i] = before[k]
			now[i].Shadow = before[k].Shadow || before[k].Speed == 0 && r.Shadow
		}
		now[i].Speed, now[i].Of = j.speed(r.Shadow), j.Of
	}
	return now
}

// speed is that at which a job really runs, by its profile; 0: it has none.
func (j *Job) speed(shadow bool) float64 {
	switch {
	case !j.Known:
		return 0
	case shadow:
		return j.Asked
	}
	return j.With
}

// since is when the run began, by the clock that rounds go by.
func (j *Job) since() time.Time {
	if j.Since.IsZero() {
		return j.Started
	}
	return j.Since
}

func byJob(o Open, job int) int { return cmp.Compare(o.Job, job) }

func (o Open) same(p Open) bool { return o.Job == p.Job && o.Started.Equal(p.Started) }

// end books the runs that are over, and lists them.
func (s *Sums) end(before, now []Open) (ended []Open) {
	for _, o := range before {
		if k, found := slices.BinarySearchFunc(now, o.Job, byJob); found && o.same(now[k]) {
			continue
		}
		s.Ended++
		ended = append(ended, o)
		switch {
		case o.Saved >= noticeable:
			s.Sooner, s.Earlier = s.Sooner+1, s.Earlier+o.Saved
		case o.Saved <= -noticeable:
			s.Later, s.Belated = s.Later+1, s.Belated-o.Saved
		}
	}
	return ended
}

// run books a job that runs, and says how many seconds less its work takes.
func (s *Sums) run(j *Job, from, until time.Time) (saved float64) {
	if since := j.since(); since.After(from) {
		from = since
	}
	seconds := max(0, until.Sub(from).Seconds())
	held := seconds * float64(j.GPUs)
	s.Held += held
	if !j.Known {
		return 0
	}
	s.Known, s.Asked, s.With = s.Known+held, s.Asked+float64(held*j.Asked), s.With+float64(held*j.With)
	saved = seconds * (1 - j.Asked/j.With)
	s.Saved += float64(saved * float64(j.GPUs))
	if math.Abs(j.With/j.Asked-1) >= changed {
		s.Changed += held
	}
	if j.Unsaved > 0 && j.Saved > 0 {
		s.Supposed += held
		s.SavedWithout += float64(held * (1 - j.Asked/j.Unsaved))
		s.SavedWith += float64(held * (1 - j.Asked/j.Saved))
	}
	return saved
}

// absurd bounds the weight of one window: a clock that jumped is no measurement.
const absurd = 10

func (s *Sums) check(c Check) {
	if c.Said <= 0 || c.Ran <= 0 {
		return
	}
	ratio := min(c.Ran/c.Said, absurd)
	s.Checks, s.Ran, s.Distance = s.Checks+1, s.Ran+ratio, s.Distance+max(ratio-1, 1-ratio)
}
