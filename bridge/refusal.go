package bridge

import (
	"context"
	"fmt"
	"time"
)

// Refusal is that Slurm did not start a job which it could have started, and why: a limit, a reservation, licenses.
// What Slurm refuses to one it refuses to others like it, so these are tried one at a time, and less and less often;
// and nobody is stopped for a job that may not start.
type Refusal struct {
	Reason string    `json:"reason"` // Slurm's own word; empty: none
	At     time.Time `json:"at"`     // when it was given last
	Times  int       `json:"times"`  // in a row, since one like it was accepted
}

// How long a refusal counts.
const (
	firstProbe = 10 * time.Second // after a first refusal; doubles with each
	lastProbe  = 2 * time.Minute
	forgotten  = time.Hour
)

// again is when a job like it may be tried again.
func (f *Refusal) again() time.Time {
	if f.Times == 0 {
		return f.At
	}
	return f.At.Add(min(lastProbe, firstProbe<<min(f.Times-1, 8)))
}

// counts says that there was one, not too long ago to mean anything.
func (f *Refusal) counts(now time.Time) bool {
	return f.Reason != "" && now.Before(f.At.Add(forgotten))
}

// likes are the jobs that Slurm refuses for the same reason: for a limit those of a user in an account, a QOS and a
// partition. Any other reason is a job's own.
type likes struct {
	user, account, qos, partition string
	job                           int
}

func (t *managedJob) likes(reason string) likes {
	if !isLimit(reason) {
		return likes{job: t.ID}
	}
	return likes{user: t.User, account: t.Account, qos: t.QOS, partition: t.Partition}
}

// refusals is what a round knows of those that were refused.
type refusals map[likes]*probing

// probing is how jobs that are alike are tried again: one at a time.
type probing struct {
	reason string
	times  int
	again  time.Time
	probe  *managedJob // the waiting one that was refused least often; nil: none waits that may start
	others bool        // there is more than one
}

// refusalsOf gathers the refusals of a scene. The job that was refused least often is tried first: it may be one that
// is not concerned.
func (r *Runner) refusalsOf(s *scene) refusals {
	var known refusals // most scenes have none
	for _, t := range s.managed {
		if f := &t.record.Refused; t.State == Pending && f.counts(s.at) {
			if known == nil {
				known = refusals{}
			}
			known.add(t.likes(f.Reason), f)
		}
	}
	if known == nil {
		return nil
	}
	for _, t := range s.managed {
		if t.State == Pending && r.barred(t, s) == (bar{}) {
			known.offer(t)
		}
	}
	return known
}

func (known refusals) add(of likes, f *Refusal) {
	p := known[of]
	if p == nil {
		p = &probing{}
		known[of] = p
	}
	p.times = max(p.times, f.Times)
	if at := f.again(); p.reason == "" || at.After(p.again) {
		p.reason, p.again = f.Reason, at
	}
}

// of is how jobs like this one are tried; nil: they are not refused.
func (known refusals) of(t *managedJob) *probing {
	if known == nil {
		return nil
	}
	if p := known[likes{job: t.ID}]; p != nil {
		return p
	}
	return known[likes{user: t.User, account: t.Account, qos: t.QOS, partition: t.Partition}]
}

// offer makes a job the one that is tried, if it was refused least often.
func (known refusals) offer(t *managedJob) {
	p := known.of(t)
	if p == nil {
		return
	}
	p.others = p.probe != nil
	if p.probe == nil || t.record.Refused.Times < p.probe.record.Refused.Times {
		p.probe = t
	}
}

// bars says why a job that is like refused ones may not start now; the zero value when it may.
func (known refusals) bars(t *managedJob, now time.Time) bar {
	p := known.of(t)
	if p == nil || p.probe == t && !now.Before(p.again) {
		return bar{}
	}
	return p.bar("such jobs are tried again one at a time")
}

// bar is why a job like refused ones may not start, and when it will be tried again.
func (p *probing) bar(again string) bar {
	return bar{causeOfReason(p.reason), refused(p.reason) + "; " + again}
}

// refused is a refusal in words.
func refused(reason string) string {
	return fmt.Sprintf("Slurm does not start it (%s): %s", reason, meaning(reason))
}

// mayStart says that nothing that a round knows keeps a waiting job from starting.
func (t *turn) mayStart(tn *managedJob) bool {
	return t.barred(tn, &t.scene) == (bar{}) && t.refusals.bars(tn, t.scene.at) == (bar{})
}

// keepUsedUp lets those go on that would be refused if they had to start again: what is used up over time does not come
// back when they stop.
func (t caution) keepUsedUp() {
	if t.refusals == nil {
		return
	}
	for i, tn := range t.scene.managed {
		if tn.State != Running {
			continue
		}
		if p := t.refusals.of(tn); p != nil && isUsedUp(p.reason) {
			t.report.Snapshot.Jobs[i].Fixed = true
		}
	}
}

// passOn makes the plan anew where one is to be tried that the plan has no place for: of those like it one is tried
// that has a place. Otherwise a job that finds no room would keep all of them waiting.
func (t caution) passOn(ctx context.Context) error {
	stuck := map[*probing]*managedJob{} // and who is tried instead
	for i, tn := range t.scene.managed {
		p := t.refusals.of(tn)
		if p != nil && p.probe == tn && p.others && !t.scene.at.Before(p.again) &&
			t.report.Plan.Decisions[i].Grant == nil {
			stuck[p] = nil
		}
	}
	if len(stuck) == 0 {
		return nil
	}
	t.unbar(stuck)
	if err := t.planned(ctx); err != nil {
		return err
	}
	for i, tn := range t.scene.managed {
		p := t.refusals.of(tn)
		instead, is := stuck[p]
		if !is || tn.State != Pending || t.report.Plan.Decisions[i].Grant == nil {
			continue
		}
		if instead == nil || tn.record.Refused.Times < instead.record.Refused.Times {
			stuck[p], p.probe = tn, tn
		}
	}
	t.holdBack()
	return t.planned(ctx)
}

// unbar lets a plan start all those that are barred as like refused ones.
func (t caution) unbar(kinds map[*probing]*managedJob) {
	for i, tn := range t.scene.managed {
		if _, is := kinds[t.refusals.of(tn)]; is && tn.State == Pending {
			if j := &t.report.Snapshot.Jobs[i]; j.Barred == t.refusals.bars(tn, t.scene.at).why {
				j.Barred = ""
			}
		}
	}
}

// holdBack bars the jobs that are like refused ones, but for those whose turn it is to be tried.
func (t caution) holdBack() {
	if t.refusals == nil {
		return
	}
	t.barEach(func(tn *managedJob) bar { return t.refusals.bars(tn, t.scene.at) })
}

// holdProbes bars those, too.
func (t caution) holdProbes() {
	behind := queue(t).behind(t.report.Plan)
	t.barEach(func(tn *managedJob) bar {
		switch p := t.refusals.of(tn); {
		case p != nil:
			return p.bar("it is tried again when nobody has to give way")
		case behind[tn.ID]:
			return bar{CauseBehind, "others go first in Slurm's order, and nobody gives way for it"}
		}
		return bar{}
	})
}

func (t caution) barEach(why func(*managedJob) bar) {
	for i, tn := range t.scene.managed {
		if j := &t.report.Snapshot.Jobs[i]; tn.State == Pending && j.Barred == "" {
			tn.bar = why(tn)
			j.Barred = tn.bar.why
		}
	}
}

// daring says that a plan tries a job that was refused, or that Slurm has others before, and stops another: perhaps for
// that one, and then for nothing.
func (t caution) daring() bool {
	if len(t.victims()) == 0 {
		return false
	}
	for i, tn := range t.scene.managed {
		if tn.State == Pending && t.report.Plan.Decisions[i].Grant != nil && t.refusals.of(tn) != nil {
			return true
		}
	}
	return len(queue(t).behind(t.report.Plan)) > 0
}

// refusal is Slurm's word for why it does not start a job whose start was written; empty where it may still do so, or
// was not seen since.
func (a *acting) refusal(s *step) string {
	j := a.seenNow(s.Job)
	reason := word(j.Reason)
	if s.stage != sent || s.since >= a.looked || j.State != Pending || meaning(reason) == "" {
		return ""
	}
	return reason
}

// refuse notes that Slurm refused a start, and puts off those like it that have not been begun.
func (a *acting) refuse(s *step, reason string) {
	if part := a.scene.startsIn(s.job, s.Grant.Nodes); s.job.avoid(part, reason, a.now()) {
		s.Error = refused(reason) + ", in partition " + part
		return
	}
	f := &s.job.record.Refused
	f.Reason, f.At, f.Times = reason, a.now(), 1
	if p := a.refusals.of(s.job); p != nil {
		f.Times = p.times + 1
	}
	s.Error = refused(reason)
	of := s.job.likes(reason)
	for _, other := range a.steps.filter(func(o *step) bool { return o.Verb == Start && o.stage == begun && o.job.likes(reason) == of }) {
		other.PutOff = true
		a.reach(other, done)
	}
}

// accept notes that a job like refused ones has started: the next may be tried at once.
func (a *acting) accept(s *step) {
	if p := a.refusals.of(s.job); p != nil {
		for _, t := range a.scene.managed {
			if a.refusals.of(t) == p {
				t.record.Refused.Times = 0
			}
		}
	}
	s.job.record.Refused = Refusal{}
}
