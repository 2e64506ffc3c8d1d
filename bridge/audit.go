package bridge

import (
	"fmt"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/directive"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// Contradiction is what the audit found of a job that ran far below the speed that its profile claims for the cores and
// memory that it held.
type Contradiction struct {
	Ran  float64 `json:"ran"`   // iterations a second
	Said float64 `json:"said"`  // iterations a second, by the profile
	CPUs int     `json:"cores"` // held by the job, on all nodes together
}

// String is the note for the job's user.
func (c Contradiction) String() string {
	return fmt.Sprintf(
		"runs at %.2g iterations/s where its profile says %.2g with %d cores: gets the proportional share", c.Ran,
		c.Said, c.CPUs)
}

// credible says whether the contradiction in an annotation can be a measured one. On a site without the gate the owner
// can write annotations, so others are neither shown nor used.
func (c *Contradiction) credible() bool {
	return c.Ran >= 0 && c.Ran < c.Said && c.Said <= directive.MaxSpeed && c.CPUs > 0 && c.CPUs < 1<<20
}

// Window is the report with which the window under way of a job's reports began. The speed in a window is the
// difference of two reports of a run divided by the time between them.
type Window struct {
	Run        time.Time `json:"run,omitzero"` // the start of the run to which the reports belong
	Iterations int64     `json:"iterations,omitempty"`
	At         time.Time `json:"at,omitzero"`
}

// Audit is what is remembered of a job's progress reports: the window under way, and what was found.
type Audit struct {
	Window
	Slow  int            `json:"slow,omitempty"`  // windows in a row that contradict the profile
	Found *Contradiction `json:"found,omitempty"` // holds until the job ends; the value is never changed
}

// The rule of the audit, as in docs/job-contract.md. Another batch size, a slow disk or a validation between two
// reports do not violate it; a profile that promises a multiple of the real speed does.
const (
	slowFraction   = 0.5              // part of the speed that the profile claims, below which a window contradicts it
	maxSlowWindows = 2                // contradicting windows in a row until the profile is dropped
	minIterations  = 20               // iterations that a window must have by the profile's claim; fewer say nothing
	maxClockLead   = time.Minute      // by which a node's clock may be ahead of Slurm's
	reportPrefix   = "a report that " // begins the note on a report that is ignored
)

// auditSpeeds compares the reports of running jobs with the claims of their profiles. A contradicted job has no profile
// from then on and gets the proportional share, so that no job gains by a profile that claims too much. The speeds that
// are found are also what learnProfiles learns.
//
// Jobs on a shared GPU are left out, since profiles claim nothing for them: a job that only fills what others leave may
// run at a fifth of its speed, as it was promised.
func (r *Runner) auditSpeeds(s *sortedObservation) {
	for _, t := range s.managed {
		// Each round begins without findings. The kind in ignored counts only together with a doubt.
		t.ignored, t.ignoredReason, t.measuredSpeed, t.claimed, t.drifted = IgnoredProgress, "", 0, 0, false
		if r.Settings.Audit <= 0 || t.State != slurm.Running || !t.directives.Reports || t.hasSlot() ||
			!t.isMeasuredHere() && !learnsFrom(r, t) {
			continue
		}
		if t.directives.BadProgress != nil {
			t.ignoredReason = t.directives.BadProgress.Text
			continue
		}
		t.claimed = claimedSpeed(r, t)
		t.ignoredReason = t.record.Audit.addReport(t, t.claimed, s.at, r.Settings.Audit)
		if t.record.Audit.Found != nil {
			t.dropProfile(t.record.Audit.Found)
		}
	}
}

// isMeasuredHere says whether a job has a profile that holds for the type of GPU on which the job runs: only then does
// the profile claim a speed for it. On a node that is not managed the type is unknown, and the profile is taken to
// hold.
func (t *managedJob) isMeasuredHere() bool {
	if t.profile == nil || len(t.nodePlaces) == 0 || t.nodePlaces[0] == unmanagedPlace {
		return t.profile != nil
	}
	return policy.ProfileOn(t.profile, t.topology.gpuType(t.nodePlaces[0])) != nil
}

// dropProfile drops a job's profile because of what the audit found. The note tells the job's user, and the job's
// present gain is then 1.
func (t *managedJob) dropProfile(found *Contradiction) {
	t.profile, t.note = nil, found.String()
	if t.State == slurm.Running {
		t.gain = t.gainNow()
	}
}

// contradictionOf is what the audit found of the job in this run or an earlier one: by its record, or, if the ledger
// was lost, by its annotation. It is nil if nothing was found, or if the site does not audit.
func (r *Runner) contradictionOf(t *managedJob) *Contradiction {
	if r.Settings.Audit <= 0 {
		return nil
	}
	if t.record != nil {
		return t.record.Audit.Found
	}
	return t.parsedAnnotation().Found
}

// addReport takes the job's latest progress report into account. claim is the profile's speed for what the job holds,
// in iterations a second, 0 if unknown; least is the shortest window that is judged. doubt says why a report that
// cannot be true is ignored; empty: it is not.
func (a *Audit) addReport(t *managedJob, claim float64, now time.Time, least time.Duration) (doubt string) {
	if !a.Run.Equal(t.Started) {
		*a = Audit{Window: Window{Run: t.Started}} // another run, perhaps with another size
	}
	within, doubt := a.accepts(t.directives.Progress, now)
	if !within {
		return doubt
	}
	return a.closeWindow(t, t.directives.Progress, claim, least)
}

// accepts says whether a report is a later one of the same window, so that a speed can be computed from the two
// (speed). The first report of a run begins the window and is not compared. Reports of an earlier run do not count.
// doubt says why a report that cannot be true is ignored; empty: it is not.
func (w *Window) accepts(said directive.Progress, now time.Time) (within bool, doubt string) {
	switch {
	case said.At.Before(w.Run): // of an earlier run, or there is no report
		return false, ""
	case said.At.After(now.Add(maxClockLead)):
		return false, reportPrefix + "comes from the future is ignored"
	case w.At.IsZero():
		w.begin(said)
		return false, ""
	case said.Iterations < w.Iterations || said.At.Before(w.At):
		return false, reportPrefix + "goes back is ignored: iterations are counted from the first start"
	}
	return true, ""
}

// begin starts a new window at this report.
func (w *Window) begin(said directive.Progress) { w.Iterations, w.At = said.Iterations, said.At }

// speed is the iterations a second from the beginning of the window to a report. tells is false if the window says
// nothing yet: it is shorter than least, or has fewer than minIterations. These are counted by claim, the speed that
// the job should have, so that a slow job is judged in time, too; if claim is 0, they are counted by the report. doubt
// says why a report is ignored; empty: it is not.
func (w *Window) speed(
	said directive.Progress,
	claim float64,
	least time.Duration,
) (ran float64, tells bool, doubt string) {
	took, done := said.At.Sub(w.At), said.Iterations-w.Iterations
	if took < least || claim*took.Seconds() < minIterations && (claim > 0 || done < minIterations) {
		return 0, false, ""
	}
	if ran = float64(done) / took.Seconds(); ran > directive.MaxSpeed {
		return 0, false, reportPrefix + "tells of more iterations than can be is ignored"
	}
	return ran, true, ""
}

// closeWindow ends the window if it is long enough, notes its speed in the job (measuredSpeed), and counts it for or
// against the profile. If claim is 0, there is nothing to contradict, but a speed to learn. A job that is too slow
// maxSlowWindows times in a row loses its profile until it ends (Found). A learned profile may also claim far too
// little. After as many windows it is then forgotten (drifted), and the job is not blamed. doubt says why a report is
// ignored; empty: it is not.
func (a *Audit) closeWindow(t *managedJob, said directive.Progress, claim float64, least time.Duration) (doubt string) {
	ran, tells, doubt := a.speed(said, claim, least)
	if !tells {
		return doubt
	}
	a.begin(said)
	t.measuredSpeed = ran
	fast := t.directives.Auto && ran*slowFraction > claim // the learned profile is of other data or another batch size
	if ran == 0 || claim == 0 {                           // the job did not train, or nothing is claimed
		return ""
	}
	if ran >= claim*slowFraction && !fast {
		a.Slow = 0
		return ""
	}
	if a.Slow++; a.Slow < maxSlowWindows {
		return ""
	}
	t.drifted = t.directives.Auto
	// Said is bounded, since an annotation with a higher speed would not be believed (credible).
	if a.Slow = 0; !fast {
		a.Slow, a.Found = maxSlowWindows, &Contradiction{Ran: ran, Said: min(claim, directive.MaxSpeed),
			CPUs: t.Runs.PerNode.CPUs * len(t.Runs.Nodes)}
	}
	return ""
}

// claimedSpeed is how many iterations a second the job's profile claims for what the job holds; 0 if there is no
// profile for these GPUs. A profile counts samples and a report iterations, so it is divided by the batch size.
func claimedSpeed(r *Runner, t *managedJob) float64 {
	if !t.isMeasuredHere() {
		return 0
	}
	return t.profile.Rate(measuredShare(r, t)) / float64(t.profile.Batch)
}
