// Package savings is the arithmetic of the ledger of savings: what each round books and what follows from the sums. A
// round knows, by the profiles, how fast each running job trains with its user's request and with its granted size, and
// which GPUs idle although a job waits for one. The time until the next round turns that into GPU-hours. Only the part
// of the held GPU-hours that the same work would not have needed is claimed, so no sum exceeds what was there.
//
// The package decides, measures and stores nothing, and the ledger has no owners or names of jobs. docs/savings.md
// lists its assumptions: speeds are those of the profiles, work is linear in time, and what one job saves is used by no
// other.
package savings

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Round is what one round contributes.
type Round struct {
	At     time.Time
	Shadow bool  // nothing was changed; With is what jobs would run with
	GPUs   int   // of the managed nodes
	Jobs   []Job // running and managed, or matched by a rule; ascending in ID
	// UnmatchedJobs run in the managed partitions without a directive or a matching rule, on Unmatched GPUs together.
	UnmatchedJobs, Unmatched int
	Idle                     Idle
	Filled                   int     // of the idle GPUs, those that the plan gives to waiting jobs; set in the shadow
	Checks                   []Check // windows of progress that ended with this round
}

// Job is a running job.
type Job struct {
	ID      int
	Started time.Time // of the run, as in Slurm's accounting
	Since   time.Time // the start by Slurm's present clock, if that was set since; zero: Started
	GPUs    int
	Known   bool // it has a profile for these GPUs; otherwise Asked and With are 1
	// Of identifies the profile and the kind of GPUs: speeds of two runs are comparable if it is equal.
	Of string
	// Asked and With are the job's speeds with its user's request and with its granted size, relative to the
	// proportional share; both above 0.
	Asked, With float64
	// Unsaved and Saved are its speeds if no job, or every job, could be resized after its start; 0: not known, as
	// outside the shadow.
	Unsaved, Saved float64
}

// Check is a measured and a promised speed of one window of progress, in iterations a second.
type Check struct{ Ran, Said float64 }

// Sums are the totals that rounds have booked. Times are in seconds, GPUs in GPU-seconds.
type Sums struct {
	Seconds   float64 `json:"seconds"`             // time observed
	There     float64 `json:"there"`               // of the managed nodes
	Held      float64 `json:"held"`                // by observed jobs
	Known     float64 `json:"known"`               // of these, by jobs with a profile
	Unmatched float64 `json:"unmatched,omitempty"` // held by jobs of which nothing is known
	// Asked and With are what the known jobs trained as asked and as granted, in GPU-seconds at the proportional share;
	// at that share itself it would be Known.
	Asked float64 `json:"asked"`
	With  float64 `json:"with"`
	// Changed is the part of Known held by jobs whose granted speed differs from the one as asked: only this part
	// depends on the profiles being right.
	Changed float64 `json:"changed"`
	// Saved is how many GPU-seconds less the known jobs' work takes with granted sizes than as asked.
	Saved float64 `json:"saved"`
	// Supposed is the part of Known for which the shadow also computed what would be saved if no job could be resized
	// after its start (SavedWithout) and if every job could (SavedWith).
	Supposed     float64 `json:"supposed,omitempty"`
	SavedWithout float64 `json:"saved_without_checkpoints,omitempty"`
	SavedWith    float64 `json:"saved_with_checkpoints,omitempty"`

	Cores    float64 `json:"idle_cores,omitempty"`  // idle GPUs beside which cores were missing,
	Memory   float64 `json:"idle_memory,omitempty"` // memory was missing,
	Order    float64 `json:"idle_order,omitempty"`  // nothing was missing: a job fitted but was not next,
	Split    float64 `json:"idle_split,omitempty"`  // GPUs of the same node were missing
	Filled   float64 `json:"filled,omitempty"`      // of all these, those that the plan would have used
	Ended    int     `json:"ended,omitempty"`       // runs of observed jobs that ended,
	Sooner   int     `json:"sooner,omitempty"`      // those that ended sooner than as asked, or would have,
	Earlier  float64 `json:"earlier,omitempty"`     // by these seconds in total,
	Later    int     `json:"later,omitempty"`       // those that ended later, or would have,
	Belated  float64 `json:"belated,omitempty"`     // by these seconds in total
	Checks   int     `json:"checks,omitempty"`      // windows of progress that were compared with a profile
	Ran      float64 `json:"ran,omitempty"`         // sum of measured over promised speed
	Distance float64 `json:"distance,omitempty"`    // sum of the absolute deviations of that ratio from 1
}

// Plus adds two sums.
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

// Idle is all GPU-seconds that idled although a job waited.
func (s Sums) Idle() float64 { return s.Cores + s.Memory + s.Order + s.Split }

// State is what the next round's booking needs.
type State struct {
	Last  time.Time `json:"last,omitzero"` // when the last round was booked
	Open  []Open    `json:"open,omitempty"`
	Ended []Open    `json:"-"` // the runs that this booking found ended, ascending in job
}

// Open is a run that has not ended; lists of them ascend in job.
type Open struct {
	Job     int       `json:"job"`
	Started time.Time `json:"started"`
	Saved   float64   `json:"saved_s"` // seconds less (negative: more) that its work so far takes

	// The following fields are compared with Slurm's accounting when the run ends; Speed is 0 without a profile.
	Shadow bool    `json:"shadow,omitempty"` // first seen in the shadow, so it holds what its user asked for
	Speed  float64 `json:"speed,omitempty"`  // by its profile with what it holds, relative to the proportional share
	Of     string  `json:"of,omitempty"`
}

// noticeable is the least difference in seconds by which a run counts as ended sooner or later.
const noticeable = 1

// Book computes what a round books since the previous one, and the state for the next. The round's speeds count for the
// time since the previous round, but for at most the time most, so that nothing is claimed for time that was not
// observed.
func Book(s State, r Round, most time.Duration) (Sums, State) {
	open := follow(s.Open, r)
	if s.Last.IsZero() || !r.At.After(s.Last) { // a clock that was set back leaves the elapsed time unknown
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

// follow lists the runs of a round, each with what was booked for it before, at the same index as the round's jobs. A
// run that was booked without a speed so far, by an older version or for lack of a profile, counts as seen in the
// shadow if this round is.
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

// speed is the job's real speed by its profile, which in the shadow is the one as asked, since nothing was changed; 0
// without a profile.
func (j *Job) speed(shadow bool) float64 {
	switch {
	case !j.Known:
		return 0
	case shadow:
		return j.Asked
	}
	return j.With
}

// since is the start of the run by the clock of the rounds.
func (j *Job) since() time.Time {
	if j.Since.IsZero() {
		return j.Started
	}
	return j.Since
}

func byJob(o Open, job int) int { return cmp.Compare(o.Job, job) }

func (o Open) same(p Open) bool { return o.Job == p.Job && o.Started.Equal(p.Started) }

// end books the runs of before that are no longer in now, and returns them. A job that was requeued counts as ended,
// since its next run has another start.
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

// run books a running job for the time from..until, and returns how many seconds less its work takes. Work that takes
// these seconds as asked takes Asked/With of them with the granted size, so no more than they are is ever claimed. A
// job that started within that time counts from its start. Nothing is claimed for a job without a profile.
func (s *Sums) run(j *Job, from, until time.Time) (saved float64) {
	if since := j.since(); since.After(from) {
		from = since
	}
	seconds := max(0, until.Sub(from).Seconds())
	held := float64(seconds * float64(j.GPUs))
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

// absurd bounds the ratio of measured to promised speed of one window, since a clock that jumped is no measurement.
const absurd = 10

// check books one window of progress. One without a speed on either side is no measurement.
func (s *Sums) check(c Check) {
	if c.Said <= 0 || c.Ran <= 0 {
		return
	}
	ratio := min(c.Ran/c.Said, absurd)
	s.Checks, s.Ran, s.Distance = s.Checks+1, s.Ran+ratio, s.Distance+max(ratio-1, 1-ratio)
}
