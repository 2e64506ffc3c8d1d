package bridge

import (
	"context"
	"fmt"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
)

// Refusal is Slurm's reason for not starting a job for which there was room: a limit, a reservation, licenses. What
// Slurm refuses to one job it refuses to similar ones, so these are tried one at a time, less and less often, and no
// job is preempted for a job that may not start.
type Refusal struct {
	Reason string    `json:"reason"` // Slurm's reason; empty: none
	At     time.Time `json:"at"`     // when it was last given
	Times  int       `json:"times"`  // refusals in a row, since a similar job was last accepted
}

// How long a refusal counts. A similar job is tried again firstRetryDelay after the first refusal, and after twice as
// long for each further one, at most maxRetryDelay. After refusalLifetime a refusal does not count at all.
const (
	firstRetryDelay = 10 * time.Second
	maxRetryDelay   = 2 * time.Minute
	refusalLifetime = time.Hour
)

// retryTime is when a job like the refused one may be tried again. Times is 0 after such a job has started: the next
// may then be tried at once, since the limit has room. The shift is bounded, so that it cannot overflow.
func (f *Refusal) retryTime() time.Time {
	if f.Times == 0 {
		return f.At
	}
	return f.At.Add(min(maxRetryDelay, firstRetryDelay<<min(f.Times-1, 8)))
}

// isRecent says that there was a refusal and that it is less than an hour old (refusalLifetime): what Slurm refused
// longer ago it may accept now, so it bars no start any more.
func (f *Refusal) isRecent(now time.Time) bool {
	return f.Reason != "" && now.Before(f.At.Add(refusalLifetime))
}

// refusalGroup identifies the jobs that Slurm refuses for the same reason: for a limit, those of the same user,
// account, QOS and partition; for any other reason, the job alone.
type refusalGroup struct {
	user, account, qos, partition string
	job                           int
}

// refusalGroupOf is the group of jobs that are refused for this reason together with t.
func (t *managedJob) refusalGroupOf(reason string) refusalGroup {
	if !isLimit(reason) {
		return refusalGroup{job: t.ID}
	}
	return refusalGroup{user: t.User, account: t.Account, qos: t.QOS, partition: t.Partition}
}

// refusals is what a round knows of refused jobs, by group of similar jobs; nil: none is refused.
type refusals map[refusalGroup]*retryState

// retryState says when one job of a refused group may be tried again, and which.
type retryState struct {
	reason  string
	times   int
	nextTry time.Time
	probe   *managedJob // the waiting job that was refused least often; nil: none may start
	others  bool        // there is more than one
}

// refusalsOf collects the refusals that still count from the records of the waiting jobs; nil: there are none. Of each
// group the job that was refused least often is tried next: the limit may not affect it.
func (r *Runner) refusalsOf(s *sortedObservation) refusals {
	var known refusals // most scenes have none
	for _, t := range s.managed {
		if f := &t.record.Refused; t.State == slurm.Pending && f.isRecent(s.at) {
			if known == nil {
				known = refusals{}
			}
			known.addRefusal(t.refusalGroupOf(f.Reason), f)
		}
	}
	if known == nil {
		return nil
	}
	for _, t := range s.managed {
		if t.State == slurm.Pending && r.startBarOf(t, s) == (barReason{}) {
			known.offerProbe(t)
		}
	}
	return known
}

// addRefusal counts a job's refusal for its group. The group is tried again when the last of its jobs may be, so that
// one limit does not cost a try for each job.
func (known refusals) addRefusal(of refusalGroup, f *Refusal) {
	p := known[of]
	if p == nil {
		p = &retryState{}
		known[of] = p
	}
	p.times = max(p.times, f.Times)
	if at := f.retryTime(); p.reason == "" || at.After(p.nextTry) {
		p.reason, p.nextTry = f.Reason, at
	}
}

// retryStateOf is the state of the refused group to which a job belongs; nil: no job like it is refused. A refusal of
// the job alone comes before one of its user, account, QOS and partition.
func (known refusals) retryStateOf(t *managedJob) *retryState {
	if known == nil {
		return nil
	}
	if p := known[refusalGroup{job: t.ID}]; p != nil {
		return p
	}
	return known[refusalGroup{user: t.User, account: t.Account, qos: t.QOS, partition: t.Partition}]
}

// offerProbe considers a waiting job that may start as the probe of its group, the one that is tried next: it becomes
// the probe if it was refused less often than the present one. A job of no refused group is ignored.
func (known refusals) offerProbe(t *managedJob) {
	p := known.retryStateOf(t)
	if p == nil {
		return
	}
	p.others = p.probe != nil
	if p.probe == nil || t.record.Refused.Times < p.probe.record.Refused.Times {
		p.probe = t
	}
}

// refusalBarOf says why a job of a refused group may not start now. Zero: it may, since it belongs to no such group, or
// it is the group's probe and the time of the next try has come.
func (known refusals) refusalBarOf(t *managedJob, now time.Time) barReason {
	p := known.retryStateOf(t)
	if p == nil || p.probe == t && !now.Before(p.nextTry) {
		return barReason{}
	}
	return p.groupBar("such jobs are tried again one at a time")
}

// groupBar is the group's refusal as the reason why a job may not start; again, in words, is when it is tried.
func (p *retryState) groupBar(again string) barReason {
	return barReason{causeOfReason(p.reason), refusalText(p.reason) + "; " + again}
}

// refusalText is a refusal in words.
func refusalText(reason string) string {
	return fmt.Sprintf("Slurm does not start it (%s): %s", reason, reasonMeaning(reason))
}

// mayStart says that nothing that a round knows, apart from room and order, keeps a waiting job from starting now.
func (t *activeRound) mayStart(tn *managedJob) bool {
	return t.runner.startBarOf(tn, &t.observation) == (barReason{}) &&
		t.refusals.refusalBarOf(tn, t.observation.at) == (barReason{})
}

// fixUsageLimited fixes in the snapshot, so that the plan leaves them alone, those running jobs whose group has used up
// its usage over time. Once stopped, Slurm would not start them again, since stopping does not give usage back.
func fixUsageLimited(t *activeRound) {
	if t.refusals == nil {
		return
	}
	for i, tn := range t.observation.managed {
		if tn.State != slurm.Running {
			continue
		}
		if p := t.refusals.retryStateOf(tn); p != nil && isUsedUp(p.reason) {
			t.report.Snapshot.Jobs[i].Fixed = true
		}
	}
}

// replaceStuckProbes plans again if the plan has no room for a probe, the job of a refused group that is to be tried
// now. It lets a plan start any job of that group. Of those that get a place, the one that was refused least often
// becomes the probe, and the final plan is made with the others barred. If none gets a place, the probe stays.
// Otherwise one large job would keep all of its group waiting.
func replaceStuckProbes(ctx context.Context, t *activeRound) error {
	stuck := map[*retryState]*managedJob{} // and which job is tried instead
	for i, tn := range t.observation.managed {
		p := t.refusals.retryStateOf(tn)
		if p != nil && p.probe == tn && p.others && !t.observation.at.Before(p.nextTry) &&
			t.report.Plan.Decisions[i].Grant == nil {
			stuck[p] = nil
		}
	}
	if len(stuck) == 0 {
		return nil
	}
	unbarProbes(t, stuck)
	if err := t.makePlan(ctx); err != nil {
		return err
	}
	for i, tn := range t.observation.managed {
		p := t.refusals.retryStateOf(tn)
		instead, is := stuck[p]
		if !is || tn.State != slurm.Pending || t.report.Plan.Decisions[i].Grant == nil {
			continue
		}
		if instead == nil || tn.record.Refused.Times < instead.record.Refused.Times {
			stuck[p], p.probe = tn, tn
		}
	}
	barRefused(t)
	return t.makePlan(ctx)
}

// unbarProbes lets a plan start all jobs of the groups that are keys of kinds, to find one for which there is room. A
// job that is barred for another reason than the refusal stays barred.
func unbarProbes(t *activeRound, kinds map[*retryState]*managedJob) {
	for i, tn := range t.observation.managed {
		if _, is := kinds[t.refusals.retryStateOf(tn)]; is && tn.State == slurm.Pending {
			if j := &t.report.Snapshot.Jobs[i]; j.Barred == t.refusals.refusalBarOf(tn, t.observation.at).why {
				j.Barred = ""
			}
		}
	}
}

// barRefused keeps the plan from starting jobs of refused groups, except the one of each that is to be tried now.
func barRefused(t *activeRound) {
	if t.refusals == nil {
		return
	}
	barEach(t, func(tn *managedJob) barReason { return t.refusals.refusalBarOf(tn, t.observation.at) })
}

// holdProbes also bars the probes, the refused jobs that were to be tried, and jobs behind others in Slurm's order. It
// is called when the plan preempts: Slurm may not start such a job, and the preempted job would have lost its run for
// nothing.
func holdProbes(t *activeRound) {
	behind := jobsBehindBlocked(t, t.report.Plan)
	barEach(t, func(tn *managedJob) barReason {
		switch p := t.refusals.retryStateOf(tn); {
		case p != nil:
			return p.groupBar("it is tried again when nobody has to give way")
		case behind[tn.ID]:
			return barReason{CauseBehind, "others go first in Slurm's order, and nobody gives way for it"}
		}
		return barReason{}
	})
}

// barEach bars the waiting jobs that are not barred yet for the reason that why returns, if any.
func barEach(t *activeRound, why func(*managedJob) barReason) {
	for i, tn := range t.observation.managed {
		if j := &t.report.Snapshot.Jobs[i]; tn.State == slurm.Pending && j.Barred == "" {
			tn.bar = why(tn)
			j.Barred = tn.bar.why
		}
	}
}

// preemptsForUnsureStart says that the plan preempts a job while it also tries a refused job, or starts one that is
// behind others in Slurm's order: the preemption might be for such a job, and for nothing.
func preemptsForUnsureStart(t *activeRound) bool {
	if len(t.victims()) == 0 {
		return false
	}
	for i, tn := range t.observation.managed {
		if tn.State == slurm.Pending && t.report.Plan.Decisions[i].Grant != nil && t.refusals.retryStateOf(tn) != nil {
			return true
		}
	}
	return len(jobsBehindBlocked(t, t.report.Plan)) > 0
}

// startRefusal is Slurm's reason for not starting a job whose start was sent. Empty: Slurm may still start it, or no
// observation has begun since, as an older one may show the reason for which the job waited before. A start with a
// refusal is taken back at once.
func (a *executor) startRefusal(s *step) string {
	j := a.seenNow(s.Job)
	reason := baseReason(j.Reason)
	if s.stage != sent || s.since >= a.looked || j.State != slurm.Pending || reasonMeaning(reason) == "" {
		return ""
	}
	return reason
}

// noteRefusal notes that Slurm refused a start, and puts off starts of similar jobs that were not begun. A refusal in
// one of several partitions counts against that partition only.
func (a *executor) noteRefusal(s *step, reason string) {
	if part := a.round.observation.startsIn(s.job, s.Grant.Nodes); s.job.avoid(part, reason, a.round.now()) {
		s.Error = refusalText(reason) + ", in partition " + part
		return
	}
	f := &s.job.record.Refused
	f.Reason, f.At, f.Times = reason, a.round.now(), 1
	if p := a.round.refusals.retryStateOf(s.job); p != nil {
		f.Times = p.times + 1
	}
	s.Error = refusalText(reason)
	of := s.job.refusalGroupOf(reason)
	for _, other := range a.steps.filter(func(o *step) bool {
		return o.Verb == Start && o.stage == notBegun && o.job.refusalGroupOf(reason) == of
	}) {
		other.PutOff = true
		a.setStage(other, done)
	}
}

// clearRefusals is called when a job has started: its own refusal is over, and the next job of its group may be tried
// at once, since the limit has room.
func (a *executor) clearRefusals(s *step) {
	if p := a.round.refusals.retryStateOf(s.job); p != nil {
		for _, t := range a.round.observation.managed {
			if a.round.refusals.retryStateOf(t) == p {
				t.record.Refused.Times = 0
			}
		}
	}
	s.job.record.Refused = Refusal{}
}
