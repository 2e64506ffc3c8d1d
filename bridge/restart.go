package bridge

import (
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/directive"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
)

// Cost is what the last restarts of a job cost it, as observed, the newest last. It is observed whenever a job is asked
// to leave; no job is restarted to measure it.
type Cost struct {
	// Saves are the times from asking the job to leave until it had left, in seconds.
	Saves []float64 `json:"saves_s,omitempty"`
	// Starts are the times from the start of a run until it trained on from where the last one had stopped, in seconds,
	// by the job's reports.
	Starts []float64 `json:"starts_s,omitempty"`
	// Launches are the times from sending a start until Slurm ran the job again, in seconds: all that is known of a
	// start without reports.
	Launches []float64 `json:"launches_s,omitempty"`
	// Left is when the last run was asked to leave; zero: it was not, or its entry in Starts has been made.
	Left time.Time `json:"left,omitzero"`
	Heard
}

// Heard is what a run has reported, as far as the cost of its start follows from it.
type Heard struct {
	Run   time.Time          `json:"heard_of,omitzero"` // the start of the run that reports
	First directive.Progress `json:"heard_first,omitzero"`
	Last  directive.Progress `json:"heard_last,omitzero"`
	// Speed is between the last two reports, in iterations a second; 0: unknown.
	Speed float64 `json:"heard_speed,omitempty"`
	// From is how far the job had come when its last run was asked to leave, in iterations; negative: unknown.
	From float64 `json:"heard_from,omitempty"`
}

// CostBy says how the cost of a restart is known.
type CostBy string

// Sources of the cost of a restart, the best first.
const (
	ByRestarts CostBy = "restarts" // the job's own last restarts
	ByProfile  CostBy = "profile"  // checkpoint_s and start_s of the profile
	ByKey      CostBy = "key"      // restart_cost of the configuration
)

// RestartCost is the assumed cost of a restart of a job, and its source.
type RestartCost struct {
	Save  float64 `json:"save_s"`
	Start float64 `json:"start_s"`
	By    CostBy  `json:"by"`
}

// Duration is Save and Start together.
func (c RestartCost) Duration() time.Duration {
	return time.Duration((c.Save + c.Start) * float64(time.Second))
}

// Bounds of what is remembered and believed of restarts.
const (
	// maxRestarts is how many restarts count. Their median is used, so that one on a bad day of the file system does
	// not matter.
	maxRestarts = 3
	// maxRestartSeconds bounds what is believed of one restart, in seconds: the longest grace. So a job gains little by
	// pretending that its restarts are expensive.
	maxRestartSeconds = float64(directive.MaxGrace / time.Second)
	// minReportGap is the least time between two reports from which a speed is computed.
	minReportGap = 30 * time.Second
)

// restartCost is what a restart of the job costs, in seconds of saving and starting; the planner preempts a job only
// where that is worth it. It comes from the job's own last restarts, or else from its profile, or else from the
// configuration, whose one number is for both parts. If only one part was seen, the profile has the other. Without a
// profile, a start lasts at least until Slurm ran the job (Launches).
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

// median is the median of a few numbers; false if there are none.
func median(of []float64) (float64, bool) {
	if len(of) == 0 {
		return 0, false
	}
	sorted := slices.Sorted(slices.Values(of))
	low, high := sorted[(len(sorted)-1)/2], sorted[len(sorted)/2]
	return (low + high) / 2, true
}

// withLatest is a new list with the observation seen at its end, in seconds, and at most the last maxRestarts entries.
// The observation is kept between 0 and maxRestartSeconds, since clocks differ and reports are the user's word.
func withLatest(of []float64, seen time.Duration) []float64 {
	seconds := min(max(seen.Seconds(), 0), maxRestartSeconds)
	from := max(0, len(of)+1-maxRestarts)
	return append(slices.Clone(of[min(from, len(of)):]), seconds)
}

// noteLeave notes how long a job took to leave after it was asked, as the cost of saving. The job left when Slurm
// requeued it. While its run is still being cleaned up that time is unknown, and now, when it was first seen not to
// run, counts in its place. Nothing is noted for a job that was not asked, that ended for good and so has no restart to
// measure, or that was not seen to leave.
func (c *Cost) noteLeave(t *managedJob, asked, now time.Time) {
	gone := t.Submitted
	switch {
	case asked.IsZero() || t.State == slurm.Finished:
		return
	case t.Completing:
		gone = now
	case gone.Before(asked.Add(-time.Second)): // Slurm's times are whole seconds
		if t.State == slurm.Running {
			return // it was not seen to leave
		}
		gone = now
	}
	c.Saves, c.Left = withLatest(c.Saves, gone.Sub(asked)), asked
}

// noteLaunch notes how long Slurm took from the round's start to the job's run.
func (c *Cost) noteLaunch(took time.Duration) { c.Launches = withLatest(c.Launches, took) }

// addReport takes a job's progress report into account. Once a run's speed is known, so is how long the job did not
// train at the beginning of the run, which is the cost of its start. It is the time from the start of the run to its
// first report, less the time that the progress since the last run took at that speed.
func (c *Cost) addReport(t *managedJob, now time.Time) {
	said := t.directives.Progress
	if t.State != slurm.Running || !t.directives.Reports || t.directives.BadProgress != nil ||
		said.At.Before(t.Started) || said.At.After(now.Add(maxClockLead)) {
		return
	}
	if !c.Run.Equal(t.Started) {
		c.begin(t.Started, said)
		return
	}
	took, done := said.At.Sub(c.Last.At), said.Iterations-c.Last.Iterations
	speed := float64(done) / took.Seconds()
	if took < minReportGap || done < 1 || speed > directive.MaxSpeed {
		return
	}
	c.Last, c.Speed = said, speed
	if c.From < 0 {
		return
	}
	trained := time.Duration(max(0, float64(c.First.Iterations)-c.From) / speed * float64(time.Second))
	c.Starts, c.From = withLatest(c.Starts, c.First.At.Sub(c.Run)-trained), -1
}

// begin notes the first report of a run, and how far the job had come when its last run was asked to leave (From):
// addReport computes from it what the restart cost. Between its last report and the request the last run is taken to
// have gone on at its speed. So From is known only if the last run was asked, had reported its speed, and is the one
// just before this run; otherwise it is -1. A report may seem later than the request, since clocks of nodes differ.
func (c *Cost) begin(run time.Time, said directive.Progress) {
	from := -1.0
	if !c.Left.IsZero() && c.Speed > 0 && !c.Left.Before(c.Last.At.Add(-maxClockLead)) && c.Left.Before(run) &&
		c.Run.Before(c.Left) {
		from = float64(c.Last.Iterations) + float64(c.Speed*max(0, c.Left.Sub(c.Last.At).Seconds()))
	}
	c.Left, c.Heard = time.Time{}, Heard{Run: run, First: said, Last: said, From: from}
}

// addReports learns from the progress reports of all managed jobs what restarts cost them.
func (s *sortedObservation) addReports() {
	for _, t := range s.managed {
		t.record.Cost.addReport(t, s.at)
	}
}
