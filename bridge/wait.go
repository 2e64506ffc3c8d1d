package bridge

import (
	"cmp"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/forecast"
)

// Wait is why a job waits, in words of fixed lists. Where several reasons hold, it is the first of them in the order of
// WaitReasons: what nobody but its user or the site can mend goes before what passes by itself.
type Wait struct {
	Job    int        `json:"job"`
	Reason WaitReason `json:"reason"`
	Cause  WaitCause  `json:"cause"`
	Why    string     `json:"why"`
	// Place is where among the waiting jobs the policy has it, the next one first, from 1; 0: it was not asked.
	Place     int    `json:"place,omitempty"`
	Partition string `json:"partition,omitempty"` // several, joined by commas, while it may start in any of them
	// Of a job that no plan decides on, what the snapshot says of others. Since is the submission of its current run.
	Name  string    `json:"name,omitempty"`
	User  string    `json:"user,omitempty"`
	GPUs  int       `json:"gpus,omitempty"`
	Since time.Time `json:"since,omitzero"`
	// Starts is when it is expected to start, by the last estimate; nil: there is none.
	Starts *forecast.Spread `json:"starts,omitempty"`
}

// WaitReason is a kind of reason why jobs wait.
type WaitReason string

// The reasons, those that bind first before the others.
const (
	// Misconfigured jobs wait until somebody changes the request or the site: no room that comes free helps them.
	Misconfigured WaitReason = "configuration"
	OnHold        WaitReason = "held"
	Unplanned     WaitReason = "unplanned"  // no round decides on it: it is Slurm's
	ByItself      WaitReason = "own-choice" // what its user asked it to wait for
	Recovering    WaitReason = "recovering" // from its last run, or from starts that failed
	ByLimits      WaitReason = "limits"     // others hold all that the site allows them together
	NodesClosed   WaitReason = "nodes"      // those that could hold it are closed, or reserved for others
	ByOrder       WaitReason = "order"      // there is or would be room, which the rules keep for others
	ForRoom       WaitReason = "room"       // the ordinary wait
)

// WaitCause is what a reason comes from.
type WaitCause string

// The causes.
const (
	CauseShape           WaitCause = "shape"            // no node of the cluster could ever hold it
	CauseAboveLimits     WaitCause = "above-limits"     // it asks for more than the site ever allows it
	CausePartitionRules  WaitCause = "partition-rules"  // its partition does not take such jobs
	CauseAccount         WaitCause = "account"          // its account may not run there
	CauseQOS             WaitCause = "qos"              // its QOS may not run there
	CauseRequest         WaitCause = "request"          // Slurm cannot ever serve what it asks for
	CauseReservationGone WaitCause = "reservation-gone" // its reservation cannot be used any more
	CauseBurstBuffer     WaitCause = "burst-buffer"     // its burst buffer has failed
	CauseLeftToSlurm     WaitCause = "left-to-slurm"    // no round plans it
	CauseCanary          WaitCause = "canary"           // it is none of those with whom the daemon is tried
	CauseHeld            WaitCause = "held"
	CauseDependency      WaitCause = "dependency"
	CauseBegin           WaitCause = "begin-time"
	CauseReservation     WaitCause = "own-reservation" // that it was submitted to has not begun
	CauseArray           WaitCause = "array"           // its tasks' turn comes one after the other
	CauseCleanup         WaitCause = "cleanup"
	CauseFailedStart     WaitCause = "failed-start"
	CauseCameBack        WaitCause = "came-back"
	CauseQuota           WaitCause = "quota"      // the jobs of its group hold all that the site leaves them
	CauseSlurmLimit      WaitCause = "site-limit" // the same, in Slurm's own word
	CauseUsedUp          WaitCause = "used-up"    // its group has used all that it may over time
	CauseLicenses        WaitCause = "licenses"
	CauseClosed          WaitCause = "closed"
	CausePartitionDown   WaitCause = "partition-down"
	CauseReserved        WaitCause = "reserved"
	CauseHeldBack        WaitCause = "held-back"
	CauseRules           WaitCause = "rules" // on stopping others
	CauseClearing        WaitCause = "clearing"
	CauseBehind          WaitCause = "behind" // others go first in Slurm's own order
	CauseTurn            WaitCause = "turn"
	CauseGang            WaitCause = "gang"
	CauseCores           WaitCause = "cores"
	CauseMemory          WaitCause = "memory"
	CauseSeat            WaitCause = "no-seat"    // it could share a GPU, and each is shared by as many as may be
	CauseGPUMemory       WaitCause = "gpu-memory" // it could share a GPU, and needs more of its memory than is left
	CauseSlowdown        WaitCause = "slowdown"   // it could share a GPU, and somebody would be too slow
	CauseGaveWay         WaitCause = "gave-way"
	CauseSlurmRoom       WaitCause = "slurm-room" // Slurm lacks ports, powered nodes, a burst buffer
	CauseOther           WaitCause = "other"
)

// waitCauses are all causes, and of which reason each is, in the order in which they bind.
var waitCauses = []struct {
	cause  WaitCause
	reason WaitReason
}{
	{CauseShape, Misconfigured}, {CauseAboveLimits, Misconfigured}, {CausePartitionRules, Misconfigured},
	{CauseAccount, Misconfigured}, {CauseQOS, Misconfigured}, {CauseRequest, Misconfigured},
	{CauseReservationGone, Misconfigured}, {CauseBurstBuffer, Misconfigured},
	{CauseHeld, OnHold}, {CauseLeftToSlurm, Unplanned}, {CauseCanary, Unplanned},
	{CauseDependency, ByItself}, {CauseBegin, ByItself}, {CauseReservation, ByItself}, {CauseArray, ByItself},
	{CauseCleanup, Recovering}, {CauseFailedStart, Recovering}, {CauseCameBack, Recovering},
	{CauseQuota, ByLimits}, {CauseSlurmLimit, ByLimits}, {CauseUsedUp, ByLimits}, {CauseLicenses, ByLimits},
	{CauseClosed, NodesClosed}, {CausePartitionDown, NodesClosed}, {CauseReserved, NodesClosed},
	{CauseHeldBack, ByOrder}, {CauseRules, ByOrder}, {CauseClearing, ByOrder}, {CauseBehind, ByOrder},
	{CauseTurn, ForRoom}, {CauseGang, ForRoom}, {CauseCores, ForRoom}, {CauseMemory, ForRoom},
	{CauseSeat, ForRoom}, {CauseGPUMemory, ForRoom}, {CauseSlowdown, ForRoom},
	{CauseGaveWay, ForRoom}, {CauseSlurmRoom, ForRoom}, {CauseOther, ForRoom},
}

// WaitCauses are all causes, in the order in which they bind.
func WaitCauses() []WaitCause {
	all := make([]WaitCause, len(waitCauses))
	for i, c := range waitCauses {
		all[i] = c.cause
	}
	return all
}

// Reason is of which reason a cause is.
func (c WaitCause) Reason() WaitReason { return waitCauses[c.rank()].reason }

// rank is a cause's place in the order; that of CauseOther for one that is not on the list.
func (c WaitCause) rank() int {
	for i, known := range waitCauses {
		if known.cause == c {
			return i
		}
	}
	return len(waitCauses) - 1
}

// plannedCauses are those that the planner knows, by its own word.
var plannedCauses = map[policy.Reason]WaitCause{
	policy.Shape: CauseShape, policy.Closed: CauseClosed, policy.Turn: CauseTurn, policy.Gang: CauseGang,
	policy.Cores: CauseCores, policy.RAM: CauseMemory, policy.HeldBack: CauseHeldBack,
	policy.InReservation: CauseReserved, policy.InQuota: CauseQuota, policy.Limit: CauseRules,
	policy.Clearing: CauseClearing, policy.GivesWay: CauseGaveWay, policy.Shrinks: CauseGaveWay,
	policy.NoSeat: CauseSeat, policy.GPUMemory: CauseGPUMemory, policy.Slowdown: CauseSlowdown,
	policy.Parts: CauseGaveWay,
}

// bar is why a job may not start in this round; the zero value: it may.
type bar struct {
	cause WaitCause
	why   string
}

// waits says of each job that the plan lets wait why it does, ascending in job.
func (t *turn) waits() []Wait {
	places := t.places()
	var all []Wait
	for i, tn := range t.scene.managed {
		if d := &t.report.Plan.Decisions[i]; d.Grant == nil {
			b := t.refusals.barOf(tn, d, t.scene.at)
			all = append(all, Wait{Job: tn.ID, Reason: b.cause.Reason(), Cause: b.cause, Why: b.why,
				Place: places[tn.ID], Partition: tn.Partition, Starts: expected(t.Outlook, tn.ID)})
		}
	}
	for _, u := range t.scene.unplanned {
		all = append(all, Wait{Job: u.ID, Reason: u.bar.cause.Reason(), Cause: u.bar.cause, Why: u.bar.why,
			Partition: u.Partition, Name: u.Name, User: u.User, GPUs: u.Request.GPUs, Since: u.Submitted})
	}
	slices.SortFunc(all, func(a, b Wait) int { return cmp.Compare(a.Job, b.Job) })
	return all
}

// barOf is why a job waits: what the plan says, or what Slurm said when it was to start last, whichever binds first.
func (known refusals) barOf(tn *managedJob, d *policy.Decision, now time.Time) bar {
	planned := bar{plannedCauses[d.Reason], d.Why}
	if d.Reason == policy.Barred {
		planned.cause = tn.bar.cause
	}
	if planned.cause == "" {
		planned.cause = CauseOther // of a planner of the site's own
	}
	if refused := known.bars(tn, now); refused != (bar{}) && refused.cause.rank() < planned.cause.rank() {
		return refused
	}
	return planned
}

// places are those of the waiting jobs in the policy's order. Small rounds ask nobody: they come often.
func (t *turn) places() map[int]int {
	if t.small {
		return nil
	}
	places := map[int]int{}
	for _, job := range t.line.Queue(t.report.Snapshot, t.order(), t.Settings.Allocator) {
		places[job] = len(places) + 1
	}
	return places
}

// Ended is a job that is over.
type Ended struct {
	Job      int     `json:"job"`
	End      End     `json:"end"`
	Attained float64 `json:"attained_gpu_s"` // up to when it was last seen to run
	Done     float64 `json:"done_s"`         // progress at the proportional share, in seconds
}

// over lists the jobs that were ours and are over. Each is told of for as long as Slurm tells of it.
func over(debtors []*managedJob) []Ended {
	var all []Ended
	for _, t := range debtors {
		if t.State == Finished && !t.Completing {
			all = append(all, Ended{t.ID, t.End, t.record.Attained, t.record.Done.Seconds()})
		}
	}
	return all
}
