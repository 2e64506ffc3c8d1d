package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// dropHopeless gives up the starts whose place a victim will not leave, or whose own last run was not stopped.
func (a *acting) dropHopeless() {
	stay := a.steps.filter(func(s *step) bool { return s.Verb == Preempt && s.stage == failed })
	if len(stay) == 0 {
		return
	}
	nodes := a.steps.blocked()
	for _, s := range a.steps.filter(func(s *step) bool { return s.Verb == Start && s.stage == begun }) {
		runsOn := slices.ContainsFunc(stay, func(other *step) bool { return other.Job == s.Job })
		if runsOn || slices.ContainsFunc(s.Grant.Nodes, func(n string) bool { return nodes[n] == failed }) {
			a.fail(s, "its place was not freed")
		}
	}
}

// startable lists the starts whose nodes nobody has to leave any more and on which nothing is being torn down. A job
// that is restarted must itself be through with its last run. None is begun that might not be taken back before the
// round ends.
func (a *acting) startable() []*step {
	if a.left() <= a.retreat() {
		return nil
	}
	nodes, seats := a.steps.blocked(), a.steps.seats()
	ready := a.steps.filter(func(s *step) bool {
		if s.Verb != Start || s.stage != begun {
			return false
		}
		if j, there := a.find(s.Job); there && !a.through(s, j) || s.rivalsForSeats(seats) {
			return false
		}
		if !a.hasRoom(s) {
			return false
		}
		return !slices.ContainsFunc(s.Grant.Nodes, func(n string) bool {
			_, busy := nodes[n]
			return busy || a.completing(n)
		})
	})
	return ready[:a.inTime(len(ready))]
}

// inTime is how many of these starts can be sent, and all taken back again, before the round ends, if each update takes
// as long as the slowest so far. At least one.
func (a *acting) inTime(starts int) int {
	update, atOnce := a.update.get(), max(1, a.Settings.Parallel)
	if update == 0 {
		return starts
	}
	batches := int((a.left() - a.retreat()) / (2 * update))
	if batches >= starts { // compared first: the product may not fit
		return starts
	}
	return min(starts, max(1, batches*atOnce))
}

// hasRoom says that the nodes of a start have room for it. What a victim leaves others may have taken: a start that
// waits for its nodes would only keep others from these. One that Slurm has started by itself needs none.
func (a *acting) hasRoom(s *step) bool {
	if a.seenNow(s.Job).State != Pending || s.Grant.Device != "" {
		return true
	}
	return !slices.ContainsFunc(s.Grant.Nodes, func(name string) bool { return !a.fits(name, s.Grant) })
}

// settled says that a job is through with its last run at a moment. Slurm takes one that starts in the very second in
// which that was torn down for the old run, and kills it for good; the time of the requeue says when that was. One more
// second is for clocks that differ.
func settled(j *Job, at time.Time) bool {
	return j.State != Running && !j.Completing && (j.Restarts == 0 || at.Unix() > j.Submitted.Unix()+1)
}

// through says that the job of a step is settled. Where the time of the requeue says nothing, since the clock was set,
// it is enough that so long has passed since the job was seen to be through with its last run.
func (a *acting) through(s *step, j *Job) bool {
	if j.State == Running || j.Completing {
		s.quiet = 0
		return false
	}
	if s.quiet == 0 {
		s.quiet = max(1, a.Clock.Elapsed())
	}
	return settled(j, a.at) || a.Clock.Elapsed()-s.quiet > 3*time.Second
}

func (a *acting) start(ctx context.Context, s *step) error {
	s.began, s.secured = a.now(), false
	u := starting(s.job.record, *s.Grant, a.report.Round, s.Why, s.job.note, s.began,
		seating{a.Runner}.grantOf(s.job, s.Grant))
	u.Request.Partition = a.scene.startsIn(s.job, s.Grant.Nodes)
	err := a.write(ctx, s, u)
	if errors.Is(err, ErrNotPending) {
		return nil // Slurm has just started it by itself: the next look says with what
	}
	// it may be drained: another one may not be
	part := u.Request.Partition
	if errors.Is(err, ErrRefused) && part != "" && s.job.avoid(part, "", a.now()) {
		return err
	}
	if errors.Is(err, ErrRefused) && part != "" {
		r := s.job.record
		r.Failed, r.FailedAt = r.Failed+1, a.now()
	}
	a.refuseSize(s, err)
	return err
}

// seenSince says that a start was sent, and that the last look began after that: an older one says nothing of it.
func (a *acting) seenSince(s *step) bool { return s.stage == sent && a.sights > s.sight }

// verify closes the starts that came about, and takes back those that did not in time.
func (a *acting) verify(ctx context.Context) error {
	for _, s := range a.steps.filter(a.seenSince) {
		if j, there := a.find(s.Job); !there || j.State != Pending {
			a.started(s)
		}
	}
	out := a.left() <= a.retreat()
	late := a.steps.filter(func(s *step) bool {
		return a.seenSince(s) && (out || a.Clock.Elapsed()-s.since >= a.patience() || a.refusal(s) != "" ||
			a.reservedFrom(s) != "")
	})
	return a.rollBack(ctx, late)
}

// patience is how long a start may take.
func (t *turn) patience() time.Duration {
	if t.small {
		return min(smallStart, t.Settings.StartTimeout)
	}
	return t.Settings.StartTimeout
}

func (a *acting) started(s *step) {
	a.reach(s, done)
	a.accept(s)
	r := s.job.record
	r.Starts, r.Failed, r.FailedAt, r.Displaced = r.Starts+1, 0, time.Time{}, false
	j, there := a.find(s.Job)
	s.compare(j)
	if there && j.State == Running && !j.Configuring && j.Restarts > 0 && !s.secured {
		r.Cost.launched(j.Started.Sub(s.began))
	}
}

// rollBack gives jobs that did not start their user's own request and a lease again.
func (a *acting) rollBack(ctx context.Context, late []*step) error {
	why, reserved := make(map[*step]string, len(late)), map[*step]bool{}
	for _, s := range late {
		why[s], reserved[s] = a.whyLate(s), a.reservedFrom(s) != ""
	}
	err := a.each(ctx, late, failed, func(s *step) error {
		u := a.leased(s)
		u.Extra = annotationOf(s.job.record, a.report.Round, why[s]+"; it is tried again", s.job.note).String()
		err := a.write(ctx, s, u)
		if s.came = errors.Is(err, ErrNotPending); s.came {
			return nil
		}
		return err
	})
	for _, s := range late {
		if s.came { // it was just late
			a.started(s)
			continue
		}
		if s.stage == sent {
			continue // there was no time to
		}
		if reason := word(a.seenNow(s.Job).Reason); why[s] == refused(reason) {
			a.refuse(s, reason)
			continue
		}
		if reserved[s] { // the next plan knows of it, and the job has not failed
			s.Error = cmp.Or(s.Error, why[s])
			continue
		}
		r := s.job.record
		r.Failed, r.FailedAt = r.Failed+1, a.now()
		s.Error = cmp.Or(s.Error, why[s])
	}
	return err
}

// whyLate says why a start is taken back: Slurm's reason where it refuses it, or else how long it was waited for.
func (a *acting) whyLate(s *step) string {
	if reason := a.refusal(s); reason != "" {
		return refused(reason)
	}
	if name := a.reservedFrom(s); name != "" {
		return fmt.Sprintf("Slurm does not start it there: reservation %.40q keeps %s for others", name,
			strings.Join(s.Grant.Nodes, ","))
	}
	why := fmt.Sprintf("did not start within %s", (a.Clock.Elapsed() - s.since).Round(100*time.Millisecond))
	if reason := word(a.seenNow(s.Job).Reason); passing[reason] != "" {
		why += fmt.Sprintf(" (%s: %s)", reason, passing[reason])
	}
	return why
}

// retreat is the time that it may take to take back the starts that are on their way, and one more: as long as the
// slowest calls so far. Where calls take no time worth mentioning it is none.
func (a *acting) retreat() time.Duration {
	under := 1
	for k := range a.steps {
		under += asInt(a.steps[k].stage == sent)
	}
	width := max(1, a.Settings.Parallel)
	return min(a.gaze+a.update.get()*time.Duration((under+width-1)/width), a.Settings.Round/2)
}

func asInt(is bool) int {
	if is {
		return 1
	}
	return 0
}
