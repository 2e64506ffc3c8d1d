package bridge

import (
	"sort"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/bound"
	"github.com/synergy-slurmd/synergy-slurmd/policy/forecast"
	"github.com/synergy-slurmd/synergy-slurmd/policy/snapshot"
	"github.com/synergy-slurmd/synergy-slurmd/savings"
)

// Report is what one round saw, decided and did. The round neither logs nor counts: its caller does, from this.
type Report struct {
	Round    int            `json:"round"`  // counts up over restarts
	Began    time.Time      `json:"began"`  // by our own clock
	Phases   []Phase        `json:"phases"` // in the order of the round
	Snapshot policy.Cluster `json:"snapshot"`
	// Profiles are those of the snapshot's jobs, so that a report that is kept can be planned again anywhere; nil in
	// small rounds, where Settings.Profiled is off, and in the reports of versions before.
	Profiles snapshot.Profiles `json:"profiles,omitzero"`
	// Habits are how much of their time limits the site's jobs use, as far as that was learned (policy/forecast).
	Habits forecast.Habits `json:"habits,omitempty"`
	// Policy and Allocator are the names of those that decided; empty in the reports of versions before.
	Policy    string `json:"policy,omitempty"`
	Allocator string `json:"allocator,omitempty"`
	// External says that the plan is that of a planner of the site's own.
	External bool        `json:"external,omitempty"`
	Plan     policy.Plan `json:"plan"`
	Steps    []Step      `json:"steps"` // in the order in which they were begun
	// jobs with our directive that the round leaves to Slurm, and why; ascending in ID
	Outside []Outside `json:"outside"`
	// what a user should know of a job that is managed: an unknown profile, …
	Notes  []Note `json:"notes"`
	Shadow bool   `json:"shadow"` // nothing was written
	// Canary is who alone was managed; zero: everybody who opted in
	Canary Canary `json:"canary,omitzero"`
	Small  bool   `json:"small,omitempty"` // a small round, after the round of that number
	// ClockAhead is by how much Slurm's clock is ahead of ours, ClockStep by how much it was set since the last round.
	ClockAhead time.Duration `json:"clock_ahead_ns,omitempty"`
	ClockStep  time.Duration `json:"clock_step_ns,omitempty"`
	// Contradicting are the jobs that go without their profile because they were seen to run far below what it claims;
	// ascending in ID.
	Contradicting []Contradicting `json:"contradicting,omitempty"`
	// Slowed are the important jobs that were measured to be slower beside others on their GPU than they accept;
	// ascending in job.
	Slowed []Slowed `json:"slowed,omitempty"`
	// Unruly are the jobs that would not give their turns back on a GPU that they shared; ascending in job.
	Unruly []Unruly `json:"unruly,omitempty"`
	// Lessons are what was learned in this round from what jobs say of themselves, or forgotten; by user and job name.
	// LearnFault says why it could not be kept: then the next round learns it.
	Lessons    []Lesson `json:"lessons,omitempty"`
	LearnFault string   `json:"learn_fault,omitempty"`
	// Ignored counts the jobs of which something that they say is ignored, by what that is. Why, the notes say.
	Ignored map[Ignored]int `json:"ignored,omitempty"`
	// Speeds are how fast jobs ran that report their progress, each over the time between two of its reports that ended
	// in this round; ascending in job.
	Speeds []Speed `json:"speeds,omitempty"`
	// Lost are the jobs that did not come back after they were asked to save and leave.
	Lost []Loss `json:"lost,omitempty"`
	// Waits says why each job waits, those that no plan decides on included; ascending in job. Where Settings.Explain
	// is off it is empty.
	Waits []Wait `json:"waits,omitempty"`
	// Ended are the jobs that are over, each for as long as Slurm tells of it; ascending in ID.
	Ended []Ended `json:"ended,omitempty"`
	// Fallback says why the built-in planner decided this round in place of Settings.Planner; empty when it did not
	// have to.
	Fallback string `json:"fallback,omitempty"`
	// Certificate says how good the plan is, whoever made it; nil in small rounds, where Settings.Certify is off, and
	// in the reports of versions before.
	Certificate *bound.Certificate `json:"certificate,omitempty"`
	// Savings is what the round books in the ledger of savings; nil where Settings.Savings is off, and in small rounds.
	Savings *savings.Round `json:"-"`
	// LimitsGap says why the site's limits are not known as they are now, and what is done meanwhile; empty when they
	// are.
	LimitsGap string `json:"limits_gap,omitempty"`
	// Interrupted is what the round before was about to do when it died; nil when it settled. Nothing is done about it:
	// this round starts from what is.
	Interrupted *Intent `json:"interrupted,omitempty"`
}

// Phase is how long one part of the round took.
type Phase struct {
	// observe, decide, check, certify, diff, intend, lease, ask, follow, arm, tell, settle
	Name string        `json:"name"`
	Took time.Duration `json:"took_ns"`
}

// Outside is a job with our directive that a round does not touch.
type Outside struct {
	Job int    `json:"job"`
	Why string `json:"why"`
}

// Contradicting is a job whose speed contradicts its profile.
type Contradicting struct {
	Job int `json:"job"`
	Contradiction
}

// Speed is how fast a job ran between two reports of its progress, in iterations a second.
type Speed struct {
	Job     int     `json:"job"`
	Ran     float64 `json:"ran"`
	Claimed float64 `json:"claimed,omitempty"` // by its profile, for what it held; 0: nothing is claimed
}

// Note is a remark on a managed job, for its user.
type Note struct {
	Job  int    `json:"job"`
	Text string `json:"text"`
}

// Ignored is a kind of what jobs say of themselves, where that cannot be taken for what it should be.
type Ignored string

// The kinds.
const (
	IgnoredDirective Ignored = "directive" // what its user asks of us
	IgnoredProgress  Ignored = "progress"
	IgnoredCurve     Ignored = "curve"
	IgnoredName      Ignored = "name" // under which nothing can be kept
)

// AllIgnored are the kinds.
func AllIgnored() []Ignored {
	return []Ignored{IgnoredDirective, IgnoredProgress, IgnoredCurve, IgnoredName}
}

// Verb names what a step does.
type Verb string

// The verbs of a round, in the order in which a round says them: free before you give.
const (
	Preempt Verb = "preempt" // save and requeue, then as Restore
	Restore Verb = "restore" // the user's own request is back, with a lease
	Renew   Verb = "renew"   // the lease of a waiting job is prolonged
	Start   Verb = "start"   // sized, pinned, begun and seen to run
	Release Verb = "release" // handed back to Slurm for good
	Arm     Verb = "arm"     // sized and eligible on any node: Slurm starts it as soon as that is free
)

// Step is one outcome that a round wants for one job, and what became of it.
type Step struct {
	Job     int               `json:"job"`
	Verb    Verb              `json:"verb"`
	Grant   *policy.Placement `json:"grant,omitempty"` // of a start; of an armed job its size alone
	Why     string            `json:"why"`
	Cause   WaitCause         `json:"cause,omitempty"`   // of a release: what the job is handed back for
	Changes []Change          `json:"changes,omitempty"` // what was written, field by field
	Cost    *RestartCost      `json:"cost,omitempty"`    // of a preemption: what the restart was taken to cost
	Took    time.Duration     `json:"took_ns,omitempty"`
	PutOff  bool              `json:"put_off,omitempty"` // to a later round: this one had no time left for it
	Error   string            `json:"error,omitempty"`   // empty: done, or put off
	// Got is what the job runs with on each node where that is not what it was granted: Slurm started it by itself just
	// then, with the size that it was armed with before; nil: it runs with its grant.
	Got *gres.Vector `json:"got,omitempty"`
}

// Change is one line of the audit: a field of a job went from Old to New.
type Change struct {
	Field string `json:"field"`
	Old   string `json:"old"`
	New   string `json:"new"`
}

// Record is what must be remembered of a job beyond what Slurm keeps.
type Record struct {
	Job      int           `json:"job"`
	First    time.Time     `json:"first"`          // first submission
	Attained float64       `json:"attained_gpu_s"` // GPU-seconds of service, up to Until
	Done     time.Duration `json:"done_ns"`        // progress at the proportional share, up to Until
	Until    time.Time     `json:"until"`          // service before this moment is accounted
	Gain     float64       `json:"gain"`           // at which the job ran at Until; 0: it did not run
	Starts   int           `json:"starts"`         // by us
	// Failed counts starts in a row that did not come about, FailedAt is when the last one was given up.
	Failed   int       `json:"failed,omitempty"`
	FailedAt time.Time `json:"failed_at,omitzero"`
	Refused  Refusal   `json:"refused,omitzero"` // by Slurm, when it was to start last
	Avoids   []Avoided `json:"avoids,omitempty"` // partitions of several that refused it
	// when the job was asked to save and leave; zero: not, or it has left
	Asked time.Time `json:"asked,omitzero"`
	// it was asked, and Slurm told that it ended for good: it is not asked again
	Lost      Cause     `json:"lost,omitempty"`
	NotBefore time.Time `json:"not_before,omitzero"` // the user's own begin time
	Own       Request   `json:"own"`                 // the user's own request, as first seen
	Explicit  Explicit  `json:"explicit,omitzero"`   // what of it he asked for in so many words
	Whole     bool      `json:"-"`                   // it gets whole nodes: its request is never resized
	// Runs counts those that the job has had, as far as they were explained or counted in Returned; 0: not known.
	// Returned counts how often in a row it came back to the queue unasked, ReturnedAt is when that was last seen.
	Runs       int       `json:"runs,omitempty"`
	Returned   int       `json:"returned,omitempty"`
	ReturnedAt time.Time `json:"returned_at,omitzero"`
	Audit      Audit     `json:"audit,omitzero"`  // of what the job reports
	Beside     Beside    `json:"beside,omitzero"` // likewise, while it shares a GPU
	Cost       Cost      `json:"cost,omitzero"`   // of its last restarts
	NoPlace    NoPlace   `json:"no_place,omitzero"`
	// Displaced says that the job left its place for a better one, which others had taken by then.
	Displaced bool `json:"displaced,omitempty"`

	measure int // 1: the job is to measure itself in its next run. Worked out anew from each observation, and not kept
}

// Records are what is remembered of jobs, ascending in job.
type Records []*Record

// Of is the record of a job; nil where there is none.
func (rs Records) Of(job int) *Record {
	k, found := sort.Find(len(rs), func(k int) int { return job - rs[k].Job })
	if !found {
		return nil
	}
	return rs[k]
}

// Intent is written down before a round acts, and cleared when it has.
type Intent struct {
	Round int       `json:"round"`
	At    time.Time `json:"at"` // by Slurm's clock
	Steps []Step    `json:"steps"`
	// Debts are the records of the jobs that the round is the first to change: should it die, they stand among the
	// others.
	Debts Records `json:"debts,omitempty"`
}

// Ledger remembers what Slurm does not, over a crash at any point. The package ledger keeps it in a file; Memory
// forgets it with the process. An implementation may be used by one round at a time.
type Ledger interface {
	// Load returns all records, which are the caller's to change, and the intent that the last round did not clear, if
	// any.
	Load() (Records, *Intent, error)
	// Intend stores what the round is about to do.
	Intend(intent Intent) error
	// Settle takes over these records in place of all others, stores the report among the last ones, and clears the
	// intent, all or nothing.
	Settle(records Records, report Report) error
}
