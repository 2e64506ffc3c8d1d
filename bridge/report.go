package bridge

import (
	"sort"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/bound"
	"github.com/synergy-slurmd/synergy-slurmd/policy/forecast"
	"github.com/synergy-slurmd/synergy-slurmd/policy/snapshot"
	"github.com/synergy-slurmd/synergy-slurmd/savings"
)

// Report is what one round observed, decided and did. Rounds neither log nor count: their caller does, from this.
type Report struct {
	Round    int            `json:"round"`  // goes on over restarts
	Began    time.Time      `json:"began"`  // by the host's clock
	Phases   []Phase        `json:"phases"` // in the order of the round
	Snapshot policy.Cluster `json:"snapshot"`
	// Profiles are those of the snapshot's jobs, so that a stored report can be planned again anywhere. Nil in small
	// rounds, with Settings.Profiled off, and in reports of earlier versions.
	Profiles snapshot.Profiles `json:"profiles,omitzero"`
	// Habits say how much of their time limits the site's jobs use, as far as learned (policy/forecast).
	Habits forecast.Habits `json:"habits,omitempty"`
	// Policy and Allocator are the names of those that decided; empty in reports of earlier versions.
	Policy    string `json:"policy,omitempty"`
	Allocator string `json:"allocator,omitempty"`
	// External says that the plan is the one of the site's own planner.
	External bool        `json:"external,omitempty"`
	Plan     policy.Plan `json:"plan"`
	Steps    []Step      `json:"steps"` // in the order in which they were begun
	// Outside are the jobs with our directive that the round leaves to Slurm, and why; ascending in ID.
	Outside []Outside `json:"outside"`
	// Notes are for users of managed jobs: an unknown profile, …
	Notes  []Note `json:"notes"`
	Shadow bool   `json:"shadow"` // nothing was written
	// Canary is the restriction on the managed jobs; zero: none.
	Canary Canary `json:"canary,omitzero"`
	Small  bool   `json:"small,omitempty"` // a small round, after the full round of that number
	// ClockAhead is by how much Slurm's clock is ahead of the host's, ClockStep by how much it was set since the last
	// round.
	ClockAhead time.Duration `json:"clock_ahead_ns,omitempty"`
	ClockStep  time.Duration `json:"clock_step_ns,omitempty"`
	// Contradicting are the jobs that have no profile any more because they ran far below its claim; ascending in ID.
	Contradicting []Contradicting `json:"contradicting,omitempty"`
	// Slowed are the class high jobs that were measured to run slower on a shared GPU than they accept; ascending in
	// job.
	Slowed []Slowed `json:"slowed,omitempty"`
	// Unruly are the jobs that did not give their slices back on a shared GPU; ascending in job.
	Unruly []Unruly `json:"unruly,omitempty"`
	// Lessons are what was learned or forgotten in this round; by user and job name. LearnFault says why something
	// could not be stored: the next round then learns it.
	Lessons    []Lesson `json:"lessons,omitempty"`
	LearnFault string   `json:"learn_fault,omitempty"`
	// Ignored counts the jobs with an ignored directive or report, by kind. The notes say why.
	Ignored map[Ignored]int `json:"ignored,omitempty"`
	// Speeds are how fast jobs ran between two of their progress reports, for windows that ended in this round;
	// ascending in job.
	Speeds []Speed `json:"speeds,omitempty"`
	// Lost are the jobs that did not come back after they were asked to save and leave.
	Lost []Loss `json:"lost,omitempty"`
	// Waits says why each job waits, including those on which no plan decides; ascending in job. Empty with
	// Settings.Explain off.
	Waits []Wait `json:"waits,omitempty"`
	// Ended are the jobs that are over, each as long as Slurm lists it; ascending in ID.
	Ended []Ended `json:"ended,omitempty"`
	// Fallback says why the built-in planner decided in place of Settings.Planner; empty: it did not have to.
	Fallback string `json:"fallback,omitempty"`
	// Refused says which promise the built-in planner's plan violated, so that the round made another plan, in which
	// all running jobs stay; empty: none.
	Refused string `json:"refused,omitempty"`
	// Certificate says how good the plan is, whoever made it. Nil in small rounds, with Settings.Certify off, and in
	// reports of earlier versions.
	Certificate *bound.Certificate `json:"certificate,omitempty"`
	// Savings is the round's entry in the ledger of savings; nil with Settings.Savings off, and in small rounds.
	Savings *savings.Round `json:"-"`
	// LimitsGap says why the site's present limits are unknown and what is done meanwhile; empty: they are known.
	LimitsGap string `json:"limits_gap,omitempty"`
	// NoLeaseJob is Slurm's refusal of the lease job, in which case each waiting job has a begin time; empty: not
	// refused.
	NoLeaseJob string `json:"no_lease_job,omitempty"`
	// Interrupted is the intent of the last round if that died; nil: it settled. It needs no action, since this round
	// starts from what it observes.
	Interrupted *Intent `json:"interrupted,omitempty"`
}

// Phase is how long one part of the round took.
type Phase struct {
	// Name is observe, decide, check, certify, diff, intend, lease, ask, follow, arm, renew or settle.
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

// Speed is how fast a job ran between two progress reports, in iterations a second.
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

// Ignored is a kind of directive or report of a job that is ignored because it is malformed or cannot be true.
type Ignored string

// The kinds.
const (
	IgnoredDirective Ignored = "directive" // the directives in its comment
	IgnoredProgress  Ignored = "progress"
	IgnoredCurve     Ignored = "curve"
	IgnoredName      Ignored = "name" // its name cannot be a key of what is learned
)

// AllIgnored are all kinds.
func AllIgnored() []Ignored {
	return []Ignored{IgnoredDirective, IgnoredProgress, IgnoredCurve, IgnoredName}
}

// Verb names what a step does.
type Verb string

// The verbs of a round. Resources are freed before they are given.
const (
	Preempt Verb = "preempt" // ask to save, requeue, then as Restore
	Restore Verb = "restore" // give the user's own request back, with a lease
	Renew   Verb = "renew"   // extend the lease of a waiting job
	Start   Verb = "start"   // write size, nodes and begin time, and see the job run
	Release Verb = "release" // hand the job back to Slurm for good
	Arm     Verb = "arm"     // make it eligible on any node with a size: Slurm starts it when that is free
)

// Step is one outcome that a round wants for one job, and what became of it.
type Step struct {
	Job     int               `json:"job"`
	Verb    Verb              `json:"verb"`
	Grant   *policy.Placement `json:"grant,omitempty"` // of a start; for an armed job only its size
	Why     string            `json:"why"`
	Cause   WaitCause         `json:"cause,omitempty"`   // of a release: why the job is handed back
	Changes []Change          `json:"changes,omitempty"` // what was written, field by field
	Cost    *RestartCost      `json:"cost,omitempty"`    // of a preemption: assumed cost of the restart
	Took    time.Duration     `json:"took_ns,omitempty"`
	PutOff  bool              `json:"put_off,omitempty"` // left to a later round for lack of time
	Error   string            `json:"error,omitempty"`   // empty: done, or put off
	// Got is what the job runs with on each node if that is not its grant: Slurm started it by itself just then, with
	// the size with which it was armed before. Nil: it runs with its grant.
	Got *gres.Vector `json:"got,omitempty"`
}

// Change is one line of the audit log: a field of a job went from Old to New.
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
	Until    time.Time     `json:"until"`          // service before this time is accounted for
	Gain     float64       `json:"gain"`           // at which the job ran at Until; 0: it did not run
	Starts   int           `json:"starts"`         // by us
	// Failed counts starts in a row that failed; FailedAt is when the last one was given up.
	Failed   int       `json:"failed,omitempty"`
	FailedAt time.Time `json:"failed_at,omitzero"`
	Refused  Refusal   `json:"refused,omitzero"` // by Slurm, at the last attempt to start it
	Avoids   []Avoided `json:"avoids,omitempty"` // those of its partitions that refused it
	// Asked is when the job was asked to save and leave; zero: it was not, or it has left.
	Asked time.Time `json:"asked,omitzero"`
	// Lost is set if Slurm reported that the job ended for good after it was asked. It is not asked again.
	Lost      Cause         `json:"lost,omitempty"`
	NotBefore time.Time     `json:"not_before,omitzero"` // the user's own begin time
	Own       slurm.Request `json:"own"`                 // the user's own request, as first seen
	Explicit  Explicit      `json:"explicit,omitzero"`   // which of its amounts were explicit
	Whole     bool          `json:"-"`                   // the job gets whole nodes; its request is never resized
	// Runs counts the job's runs, as far as they were expected or are counted in Returned; 0: unknown. Returned counts
	// how often in a row the job came back to the queue unasked, and ReturnedAt is when that was last seen.
	Runs       int       `json:"runs,omitempty"`
	Returned   int       `json:"returned,omitempty"`
	ReturnedAt time.Time `json:"returned_at,omitzero"`
	Audit      Audit     `json:"audit,omitzero"`  // of the job's reports
	Beside     Beside    `json:"beside,omitzero"` // of the job's reports on a shared GPU
	Cost       Cost      `json:"cost,omitzero"`   // of its last restarts
	NoPlace    NoPlace   `json:"no_place,omitzero"`
	// Displaced says that the job left its place for a better one, which other jobs had taken by then.
	Displaced bool `json:"displaced,omitempty"`

	measure int // 1: the job shall measure itself in its next run. Set by each observation, and not stored
}

// Records are the records of jobs, ascending in job.
type Records []*Record

// Of is the record of a job; nil if there is none.
func (rs Records) Of(job int) *Record {
	k, found := sort.Find(len(rs), func(k int) int { return job - rs[k].Job })
	if !found {
		return nil
	}
	return rs[k]
}

// Intent is stored before a round acts, and cleared after it.
type Intent struct {
	Round int       `json:"round"`
	At    time.Time `json:"at"` // by Slurm's clock
	Steps []Step    `json:"steps"`
	// Debts are the records of jobs that this round is the first to change. If the round dies, they count like other
	// records.
	Debts Records `json:"debts,omitempty"`
}

// Ledger remembers what Slurm does not, over a crash at any point. The package ledger has two: one in a file, and
// Memory, which ends with the process. A Ledger may be used by one round at a time.
type Ledger interface {
	// Load returns all records, which the caller may change, and the intent that the last round did not clear, if any.
	Load() (Records, *Intent, error)
	// Intend stores what the round is about to do.
	Intend(intent Intent) error
	// Settle replaces all records, stores the report among the last ones, and clears the intent, all or nothing.
	Settle(records Records, report Report) error
}
