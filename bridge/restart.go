package bridge

import (
	"slices"
	"time"
)

// Cost is what the last restarts of a job have cost it, as they were seen, the newest last. It is worked out from what
// happens to every job that is asked to leave; nothing is tried for its sake.
type Cost struct {
	// Saves are from when the job was asked to leave until it had left, in seconds.
	Saves []float64 `json:"saves_s,omitempty"`
	// Starts are from the start of a run until it trained on from where the last one had stopped, in seconds, by what
	// the job reported.
	Starts []float64 `json:"starts_s,omitempty"`
	// Launches are from our word until Slurm ran the job again, in seconds: all that is seen of a start where nothing
	// is reported.
	Launches []float64 `json:"launches_s,omitempty"`
	// Left is when the last run of those that were asked to leave was asked; zero: none was, or its Start is known.
	Left time.Time `json:"left,omitzero"`
	Heard
}

// Heard is what a run has reported, as far as a start is worked out from it.
type Heard struct {
	Run   time.Time `json:"heard_of,omitzero"` // the start of the run that the reports are of
	First Progress  `json:"heard_first,omitzero"`
	Last  Progress  `json:"heard_last,omitzero"`
	Speed float64   `json:"heard_speed,omitempty"` // iterations a second between the last two; 0: not known
	// From is how far the job had come when its last run was asked to leave; negative: not known.
	From float64 `json:"heard_from,omitempty"`
}

// CostBy says how the cost of a restart is known.
type CostBy string

// Ways in which the cost of a restart is known, the best first.
const (
	ByRestarts CostBy = "restarts" // the job's own last ones
	ByProfile  CostBy = "profile"  // checkpoint_s and start_s
	ByKey      CostBy = "key"      // restart_cost of the configuration
)

// RestartCost is what a restart is taken to cost a job, and how that is known.
type RestartCost struct {
	Save  float64 `json:"save_s"`
	Start float64 `json:"start_s"`
	By    CostBy  `json:"by"`
}

// Duration is the whole of it.
func (c RestartCost) Duration() time.Duration {
	return time.Duration((c.Save + c.Start) * float64(time.Second))
}

const (
	// remembered is of how many restarts the cost is remembered. Their median counts, so that one on a bad day of the
	// file system does not.
	remembered = 3
	// mostSeen bounds what is believed of one, in seconds, as long as the longest grace: a job that wants to look
	// costly to stop gains no more.
	mostSeen = maxGrace
	// apart is how long two reports must be apart to tell a speed.
	apart = 30 * time.Second
)

// restartCost is what a restart costs a job: as its own last ones were seen, else as its profile says, else as the
// configuration does.
func (r *Runner) restartCost(t *managedJob) RestartCost {
	cost := &t.record.Cost
	save, saved := median(cost.Saves)
	start, started := median(cost.Starts)
	known := RestartCost{Save: save, Start: start, By: ByRestarts}
	profiled := t.profile != nil && t.profile.RestartCost() > 0
	switch {
	case saved && started:
	case !saved && !started && profiled:
		return RestartCost{t.profile.CheckpointSeconds, t.profile.StartSeconds, ByProfile}
	case !saved && !started:
		return RestartCost{Save: r.Settings.RestartCost.Seconds(), By: ByKey}
	case profiled && !saved:
		known.Save = t.profile.CheckpointSeconds
	case profiled:
		known.Start = t.profile.StartSeconds
	case !started:
		known.Start, _ = median(cost.Launches)
	}
	return known
}

// median of a few numbers, between the two in the middle where there is none; false where there are no numbers.
func median(of []float64) (float64, bool) {
	if len(of) == 0 {
		return 0, false
	}
	sorted := slices.Sorted(slices.Values(of))
	low, high := sorted[(len(sorted)-1)/2], sorted[len(sorted)/2]
	return (low + high) / 2, true
}

// withLatest adds what was seen to the last few. What cannot be is bounded: clocks differ, and what a job reports is
// its user's word.
func withLatest(of []float64, seen time.Duration) []float64 {
	seconds := min(max(seen.Seconds(), 0), mostSeen)
	from := max(0, len(of)+1-remembered)
	return append(slices.Clone(of[min(from, len(of)):]), seconds)
}

// hasLeft notes how long it took the job to leave that was asked to. Slurm says when it requeued it; while it is still
// tearing the run down, that is not said, and the moment counts in which the job was first seen not to run.
func (c *Cost) hasLeft(t *managedJob, asked, now time.Time) {
	gone := t.Submitted
	switch {
	case asked.IsZero() || t.State == Finished:
		return
	case t.Completing:
		gone = now
	case gone.Before(asked.Add(-time.Second)): // Slurm's times are whole seconds
		if t.State == Running {
			return // nobody has seen it leave
		}
		gone = now
	}
	c.Saves, c.Left = withLatest(c.Saves, gone.Sub(asked)), asked
}

// launched notes how long Slurm took to run a job again.
func (c *Cost) launched(took time.Duration) { c.Launches = withLatest(c.Launches, took) }

// hear takes up how far a running job says that it has come. With the first speed that it tells of a run it is known
// how long that run did not train at its beginning: from its start to its first report, less what it takes to come as
// far as that from where the last run stopped.
func (c *Cost) hear(t *managedJob, now time.Time) {
	said := t.said.progress
	if t.State != Running || !t.said.reports || t.said.unclear != nil || said.At.Before(t.Started) ||
		said.At.After(now.Add(aheadOfUs)) {
		return
	}
	if !c.Run.Equal(t.Started) {
		c.begin(t.Started, said)
		return
	}
	took, done := said.At.Sub(c.Last.At), said.Iterations-c.Last.Iterations
	speed := float64(done) / took.Seconds()
	if took < apart || done < 1 || speed > maxSpeed {
		return
	}
	c.Last, c.Speed = said, speed
	if c.From < 0 {
		return
	}
	trained := time.Duration(max(0, float64(c.First.Iterations)-c.From) / speed * float64(time.Second))
	c.Starts, c.From = withLatest(c.Starts, c.First.At.Sub(c.Run)-trained), -1
}

// begin takes up the first report of a run. How far the last one came is known where it was asked to leave and had told
// its speed.
func (c *Cost) begin(run time.Time, said Progress) {
	from := -1.0
	if !c.Left.IsZero() && c.Speed > 0 && !c.Left.Before(c.Last.At.Add(-aheadOfUs)) && c.Left.Before(run) &&
		c.Run.Before(c.Left) {
		from = float64(c.Last.Iterations) + float64(c.Speed*max(0, c.Left.Sub(c.Last.At).Seconds()))
	}
	c.Left, c.Heard = time.Time{}, Heard{Run: run, First: said, Last: said, From: from}
}

// hearAll takes up what running jobs report.
func (s *scene) hearAll() {
	for _, t := range s.managed {
		t.record.Cost.hear(t, s.at)
	}
}
