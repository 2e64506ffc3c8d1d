package bridge

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// Progress is how far a job says that it has come.
type Progress struct {
	Iterations int64     // since its first start
	At         time.Time // by the clock of its node; zero: nothing was said
}

const (
	progressWord = "synergy-progress"
	maxEpoch     = 1 << 33 // seconds, the year 2242
)

var progressValue = regexp.MustCompile(`^(0|[1-9][0-9]{0,14})@([1-9][0-9]{0,10})$`)

// Reports says that a comment has the word by which a job tells how far it has come, with a value or without.
func Reports(comment string) bool {
	for word := range words(comment) {
		if name, _, _ := strings.Cut(word, "="); name == progressWord {
			return true
		}
	}
	return false
}

// ParseProgress reads what a comment says about how far the job has come: nothing where the word is missing, or stands
// without a value to announce reports. It is read apart from the other words, so that a slip in a training loop costs
// the report and not the profile.
func ParseProgress(comment string) (Progress, error) {
	if len(comment) > maxComment {
		return Progress{}, nil // refused as a whole
	}
	for word := range words(comment) {
		name, value, given := strings.Cut(word, "=")
		if name != progressWord || !given {
			continue
		}
		parts := progressValue.FindStringSubmatch(value)
		if parts == nil {
			return Progress{},
				fmt.Errorf("%s=%.40q: ignored: want the iterations so far, @ and the seconds since the epoch",
					progressWord, value)
		}
		iterations, _ := strconv.ParseInt(parts[1], 10, 64) // as the pattern has it
		at, _ := strconv.ParseInt(parts[2], 10, 64)
		if at > maxEpoch {
			return Progress{}, fmt.Errorf("%s=%.40q: ignored: want the seconds since the epoch after the @",
				progressWord, value)
		}
		return Progress{iterations, time.Unix(at, 0)}, nil
	}
	return Progress{}, nil
}

// Contradiction is what the audit found: a job that ran far below the speed that its profile claims for what the job
// held.
type Contradiction struct {
	Ran  float64 `json:"ran"`   // iterations a second
	Said float64 `json:"said"`  // by the profile
	CPUs int     `json:"cores"` // that the job held, all nodes together
}

func (c Contradiction) String() string {
	return fmt.Sprintf(
		"runs at %.2g iterations/s where its profile says %.2g with %d cores: gets the proportional share", c.Ran,
		c.Said, c.CPUs)
}

// credible keeps what an annotation says that nobody has measured out of sentences and sums.
func (c *Contradiction) credible() bool {
	return c.Ran >= 0 && c.Ran < c.Said && c.Said <= maxSpeed && c.CPUs > 0 && c.CPUs < 1<<20
}

// Window is the report with which a window of a job's reports began.
type Window struct {
	Run        time.Time `json:"run,omitzero"` // the start of the run that the reports are of
	Iterations int64     `json:"iterations,omitempty"`
	At         time.Time `json:"at,omitzero"`
}

// Audit is what is remembered of a job's reports: where the window under way began, and what was found.
type Audit struct {
	Window
	Slow  int            `json:"slow,omitempty"`  // windows in a row that contradict the profile
	Found *Contradiction `json:"found,omitempty"` // holds until the job ends; never changed
}

// The rule, in docs/job-contract.md. It is meant to be hard to break by accident: another batch size, a slow disk or a
// validation between two reports do not, a profile that promises a multiple of what comes does.
const (
	tooSlow    = 0.5              // of what the profile claims
	windows    = 2                // in a row
	enough     = 20               // iterations that the profile claims for a window: fewer tell nothing
	maxSpeed   = 1e6              // iterations a second: nothing trains faster
	aheadOfUs  = time.Minute      // by which the clock of a node may be
	unexpected = "a report that " // begins what is said about one that is ignored
)

// audit compares what running jobs report with what their profiles claim. A job that is contradicted has no profile
// from this moment on. Profiles claim nothing of a job that has others on its GPU: one that fills what they leave may
// be at a fifth of its speed, as it was promised.
func (r *Runner) audit(s *scene) {
	for _, t := range s.managed {
		t.ignored, t.doubt, t.ran, t.claimed, t.drifted = IgnoredProgress, "", 0, 0, false
		if r.Settings.Audit <= 0 || t.State != Running || !t.said.reports || t.seated() ||
			!t.isMeasuredHere() && !(learner{r}).learnsFrom(t) {
			continue
		}
		if t.said.unclear != nil {
			t.doubt = t.said.unclear.Error()
			continue
		}
		t.claimed = promised(r, t)
		t.doubt = t.record.Audit.hear(t, t.claimed, s.at, r.Settings.Audit)
		if t.record.Audit.Found != nil {
			t.distrust(t.record.Audit.Found)
		}
	}
}

// isMeasuredHere says that a running job has a profile, and that it says something about the GPUs which the job runs
// on.
func (t *managedJob) isMeasuredHere() bool {
	if t.profile == nil || len(t.on) == 0 || t.on[0] == elsewhere {
		return t.profile != nil
	}
	return policy.ProfileOn(t.profile, t.topology.gpuType(t.on[0])) != nil
}

// distrust takes a job's profile away.
func (t *managedJob) distrust(found *Contradiction) {
	t.profile, t.note = nil, found.String()
	if t.State == Running {
		t.gain = t.gainNow()
	}
}

// found is what an audit found about the job, in this daemon's life or, as its annotation says, in that of one whose
// ledger was lost.
func (r *Runner) found(t *managedJob) *Contradiction {
	if r.Settings.Audit <= 0 {
		return nil
	}
	if t.record != nil {
		return t.record.Audit.Found
	}
	return t.annotated().Found
}

// hear takes a report up, and says why it ignores one that cannot be.
func (a *Audit) hear(t *managedJob, claim float64, now time.Time, least time.Duration) (doubt string) {
	if !a.Run.Equal(t.Started) {
		*a = Audit{Window: Window{Run: t.Started}} // another run, and maybe another size
	}
	within, doubt := a.holds(t.said.progress, now)
	if !within {
		return doubt
	}
	return a.weigh(t, t.said.progress, claim, least)
}

// holds says whether a report is a later one of the window under way. The first that it hears begins the window.
func (w *Window) holds(said Progress, now time.Time) (within bool, doubt string) {
	switch {
	case said.At.Before(w.Run): // of an earlier run, or nothing was said
		return false, ""
	case said.At.After(now.Add(aheadOfUs)):
		return false, unexpected + "comes from the future is ignored"
	case w.At.IsZero():
		w.begin(said)
		return false, ""
	case said.Iterations < w.Iterations || said.At.Before(w.At):
		return false, unexpected + "goes back is ignored: iterations are counted from the first start"
	}
	return true, ""
}

func (w *Window) begin(said Progress) { w.Iterations, w.At = said.Iterations, said.At }

// speed is how fast the job was from the beginning of the window to a report, and whether that is long enough to tell.
// Without a claim so many iterations have to be done as a window claims otherwise.
func (w *Window) speed(said Progress, claim float64, least time.Duration) (ran float64, tells bool, doubt string) {
	took, done := said.At.Sub(w.At), said.Iterations-w.Iterations
	if took < least || claim*took.Seconds() < enough && (claim > 0 || done < enough) {
		return 0, false, ""
	}
	if ran = float64(done) / took.Seconds(); ran > maxSpeed {
		return 0, false, unexpected + "tells of more iterations than can be is ignored"
	}
	return ran, true, ""
}

// weigh ends the window when it is long enough to tell. Without a claim there is nothing to contradict, and a speed to
// be learned.
func (a *Audit) weigh(t *managedJob, said Progress, claim float64, least time.Duration) (doubt string) {
	ran, tells, doubt := a.speed(said, claim, least)
	if !tells {
		return doubt
	}
	a.begin(said)
	t.ran = ran
	fast := t.said.word.Auto && ran*tooSlow > claim // what was learned is of other data, or of another batch
	if ran == 0 || claim == 0 {                     // it did something else than train, or nothing is claimed
		return ""
	}
	if ran >= claim*tooSlow && !fast {
		a.Slow = 0
		return ""
	}
	if a.Slow++; a.Slow < windows {
		return ""
	}
	t.drifted = t.said.word.Auto
	if a.Slow = 0; !fast {
		a.Slow, a.Found = windows, &Contradiction{Ran: ran, Said: min(claim, maxSpeed),
			CPUs: t.Runs.PerNode.CPUs * len(t.Runs.Nodes)}
	}
	return ""
}

// promised is how many iterations a second the profile promises for what the job holds; 0: it has none
// for these GPUs.
func promised(r *Runner, t *managedJob) float64 {
	if !t.isMeasuredHere() {
		return 0
	}
	return t.profile.Rate(learner{r}.measuredShare(t)) / float64(t.profile.Batch)
}
