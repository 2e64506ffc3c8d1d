package bridge

import (
	"cmp"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/forecast"
)

// Wait is why a job waits, by fixed lists of reasons and causes. If several hold, it is the first in the order of
// waitCauses: what only the user or the site can change comes before what passes by itself.
type Wait struct {
	Job    int        `json:"job"`
	Reason WaitReason `json:"reason"`
	Cause  WaitCause  `json:"cause"`
	Why    string     `json:"why"`
	// Place is the job's position among the waiting jobs in the policy's order, from 1; 0: not computed.
	Place     int    `json:"place,omitempty"`
	Partition string `json:"partition,omitempty"` // several, joined by commas, while it may start in any of them
	// The following are set only for a job on which no plan decides, since the snapshot has them for others. Since is
	// when its current run was submitted.
	Name  string    `json:"name,omitempty"`
	User  string    `json:"user,omitempty"`
	GPUs  int       `json:"gpus,omitempty"`
	Since time.Time `json:"since,omitzero"`
	// Starts is its expected start by the last estimate; nil: there is none.
	Starts *forecast.Spread `json:"starts,omitempty"`
}

// WaitReason is a kind of reason why jobs wait.
type WaitReason string

// The reasons. Those that bind first come first.
const (
	// Misconfigured jobs wait until someone changes the request or the site; free room does not help them.
	Misconfigured WaitReason = "configuration"
	OnHold        WaitReason = "held"
	Unplanned     WaitReason = "unplanned"  // no round decides on it: it is left to Slurm
	ByItself      WaitReason = "own-choice" // its user asked it to wait for something
	Recovering    WaitReason = "recovering" // from its last run, or from failed starts
	ByLimits      WaitReason = "limits"     // other jobs hold all that the site allows them together
	NodesClosed   WaitReason = "nodes"      // nodes that could hold it are closed or reserved for others
	ByOrder       WaitReason = "order"      // there is or would be room, which the rules keep for other jobs
	ForRoom       WaitReason = "room"       // the ordinary wait
)

// WaitCause is what exactly a job waits for.
type WaitCause string

// The causes.
const (
	CauseShape           WaitCause = "shape"            // no node of the cluster could ever hold it
	CauseAboveLimits     WaitCause = "above-limits"     // it asks for more than the site ever allows it
	CausePartitionRules  WaitCause = "partition-rules"  // its partition does not take such jobs
	CauseAccount         WaitCause = "account"          // its account may not run there
	CauseQOS             WaitCause = "qos"              // its QOS may not run there
	CauseRequest         WaitCause = "request"          // Slurm can never serve its request
	CauseReservationGone WaitCause = "reservation-gone" // its reservation cannot be used any more
	CauseBurstBuffer     WaitCause = "burst-buffer"     // its burst buffer has failed
	CauseLeftToSlurm     WaitCause = "left-to-slurm"    // no round plans it
	CauseCanary          WaitCause = "canary"           // the daemon is on trial, and the job is not in the canary
	CauseHeld            WaitCause = "held"
	CauseDependency      WaitCause = "dependency"
	CauseBegin           WaitCause = "begin-time"
	CauseReservation     WaitCause = "own-reservation" // its reservation has not begun
	CauseArray           WaitCause = "array"           // its tasks start one after the other
	CauseCleanup         WaitCause = "cleanup"
	CauseFailedStart     WaitCause = "failed-start"
	CauseCameBack        WaitCause = "came-back"
	CauseQuota           WaitCause = "quota"      // its group's jobs hold all that the site leaves them
	CauseSlurmLimit      WaitCause = "site-limit" // the same, by Slurm's own reason
	CauseUsedUp          WaitCause = "used-up"    // its group has used up its usage over time
	CauseLicenses        WaitCause = "licenses"
	CauseClosed          WaitCause = "closed"
	CausePartitionDown   WaitCause = "partition-down"
	CauseReserved        WaitCause = "reserved"
	CauseHeldBack        WaitCause = "held-back"
	CauseRules           WaitCause = "rules" // the rules on preemption
	CauseClearing        WaitCause = "clearing"
	CauseBehind          WaitCause = "behind" // other jobs go first in Slurm's own order
	CauseTurn            WaitCause = "turn"
	CauseGang            WaitCause = "gang"
	CauseCores           WaitCause = "cores"
	CauseMemory          WaitCause = "memory"
	CauseSlot            WaitCause = "no-seat"    // it could share a GPU, and each GPU has as many jobs as it may
	CauseGPUMemory       WaitCause = "gpu-memory" // it could share a GPU, and needs more GPU memory than is left
	CauseSlowdown        WaitCause = "slowdown"   // it could share a GPU, and a job there would become too slow
	CauseGaveWay         WaitCause = "gave-way"
	CauseSlurmRoom       WaitCause = "slurm-room" // Slurm lacks ports, powered nodes or a burst buffer
	CauseOther           WaitCause = "other"
)

// waitCauses are all causes with their reasons. The causes that bind first come first.
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
	{CauseSlot, ForRoom}, {CauseGPUMemory, ForRoom}, {CauseSlowdown, ForRoom},
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

// Reason is the reason to which a cause belongs.
func (c WaitCause) Reason() WaitReason { return waitCauses[c.rank()].reason }

// rank is a cause's index in waitCauses, so that the cause with the lowest rank binds first. An unknown cause has the
// rank of CauseOther, the last one.
func (c WaitCause) rank() int {
	for i, known := range waitCauses {
		if known.cause == c {
			return i
		}
	}
	return len(waitCauses) - 1
}

// plannedCauses are the causes of the planner's reasons.
var plannedCauses = map[policy.Reason]WaitCause{
	policy.Shape: CauseShape, policy.Closed: CauseClosed, policy.Turn: CauseTurn, policy.Gang: CauseGang,
	policy.Cores: CauseCores, policy.RAM: CauseMemory, policy.HeldBack: CauseHeldBack,
	policy.InReservation: CauseReserved, policy.InQuota: CauseQuota, policy.Limit: CauseRules,
	policy.Clearing: CauseClearing, policy.GivesWay: CauseGaveWay, policy.Shrinks: CauseGaveWay,
	policy.NoSlot: CauseSlot, policy.GPUMemory: CauseGPUMemory, policy.Slowdown: CauseSlowdown,
	policy.Parts: CauseGaveWay,
}

// barReason is why a job may not start in this round; the zero value: it may.
type barReason struct {
	cause WaitCause
	why   string
}

// waits says why each job waits that does not start by the plan, ascending in job, for the report and all questions of
// users. Jobs on which no plan decides have the reasons for which they were set aside.
func (t *activeRound) waits() []Wait {
	places := t.queuePositions()
	var all []Wait
	for i, tn := range t.observation.managed {
		if d := &t.report.Plan.Decisions[i]; d.Grant == nil {
			b := t.refusals.barOf(tn, d, t.observation.at)
			all = append(all, Wait{Job: tn.ID, Reason: b.cause.Reason(), Cause: b.cause, Why: b.why,
				Place: places[tn.ID], Partition: tn.Partition, Starts: expected(t.runner.Outlook, tn.ID)})
		}
	}
	for _, u := range t.observation.unplanned {
		all = append(all, Wait{Job: u.ID, Reason: u.bar.cause.Reason(), Cause: u.bar.cause, Why: u.bar.why,
			Partition: u.Partition, Name: u.Name, User: u.User, GPUs: u.Request.GPUs, Since: u.Submitted})
	}
	slices.SortFunc(all, func(a, b Wait) int { return cmp.Compare(a.Job, b.Job) })
	return all
}

// barOf is the one reason that a waiting job is shown: the plan's, or Slurm's last refusal if that comes before it in
// waitCauses. A reason that only a site's own planner knows has the cause CauseOther.
func (known refusals) barOf(tn *managedJob, d *policy.Decision, now time.Time) barReason {
	planned := barReason{plannedCauses[d.Reason], d.Why}
	if d.Reason == policy.Barred {
		planned.cause = tn.bar.cause
	}
	if planned.cause == "" {
		planned.cause = CauseOther // from a site's own planner
	}
	if refused := known.refusalBarOf(tn, now); refused != (barReason{}) && refused.cause.rank() < planned.cause.rank() {
		return refused
	}
	return planned
}

// queuePositions are the positions of the waiting jobs in the policy's order, from 1, by job. Nil in small rounds,
// which come too often to compute it.
func (t *activeRound) queuePositions() map[int]int {
	if t.small {
		return nil
	}
	places := map[int]int{}
	for _, job := range t.runner.queuePlanner.Queue(t.report.Snapshot, t.roundPolicy(), t.runner.Settings.Allocator) {
		places[job] = len(places) + 1
	}
	return places
}

// Ended is a job that is over.
type Ended struct {
	Job      int       `json:"job"`
	End      slurm.End `json:"end"`
	Attained float64   `json:"attained_gpu_s"` // up to when it was last seen to run
	Done     float64   `json:"done_s"`         // progress at the proportional share, in seconds
}

// endedJobs lists the jobs that were ours and are over. A job is in the reports of all rounds until Slurm lists it no
// more.
func endedJobs(debtors []*managedJob) []Ended {
	var all []Ended
	for _, t := range debtors {
		if t.State == slurm.Finished && !t.Completing {
			all = append(all, Ended{t.ID, t.End, t.record.Attained, t.record.Done.Seconds()})
		}
	}
	return all
}
