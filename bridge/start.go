package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"
)

// blocked maps the nodes that a victim has still to leave, or will not leave, to the stage of its step.
func (a *acting) blocked() map[string]stage {
	var nodes map[string]stage // most rounds have no victims
	for k := range a.steps {
		s := &a.steps[k]
		if s.Verb != Preempt || s.stage == done {
			continue
		}
		if nodes == nil {
			nodes = map[string]stage{}
		}
		for _, n := range s.from {
			nodes[n] = max(nodes[n], s.stage)
		}
	}
	return nodes
}

// dropHopeless gives up the starts whose place a victim will not leave, or whose own last run was not stopped.
func (a *acting) dropHopeless() {
	stay := a.filter(func(s *step) bool { return s.Verb == Preempt && s.stage == failed })
	if len(stay) == 0 {
		return
	}
	nodes := a.blocked()
	for _, s := range a.filter(func(s *step) bool { return s.Verb == Start && s.stage == begun }) {
		runsOn := slices.ContainsFunc(stay, func(other *step) bool { return other.Job == s.Job })
		if runsOn || slices.ContainsFunc(s.Grant.Nodes, func(n string) bool { return nodes[n] == failed }) {
			a.fail(s, "its place was not freed")
		}
	}
}

// startable lists the starts whose nodes nobody has to leave any more and on which nothing is being torn down. A job that is
// restarted must itself be through with its last run. None is begun that might not be taken back before the round ends.
func (a *acting) startable() []*step {
	if a.left() <= a.retreat() {
		return nil
	}
	nodes := a.blocked()
	return a.filter(func(s *step) bool {
		if s.Verb != Start || s.stage != begun {
			return false
		}
		if j, there := a.find(s.Job); there && !a.through(s, j) {
			return false
		}
		return !slices.ContainsFunc(s.Grant.Nodes, func(n string) bool {
			_, busy := nodes[n]
			return busy || a.completing(n)
		})
	})
}

// completing says that something is being torn down on a node.
func (a *acting) completing(name string) bool {
	k, found := sort.Find(len(a.nodes), func(k int) int { return strings.Compare(name, a.nodes[k].Name) })
	return found && a.nodes[k].Completing
}

// settled says that a job is through with its last run at a moment. Slurm takes one that starts in the very second in which that was torn
// down for the old run, and kills it for good; the time of the requeue says when that was. One more second is for clocks that differ.
func settled(j *Job, at time.Time) bool {
	return j.State != Running && !j.Completing && (j.Restarts == 0 || at.Unix() > j.Submitted.Unix()+1)
}

// through says that the job of a step is settled. Where the time of the requeue says nothing, since the clock was set, it is enough that so
// long has passed since the job was seen to be through with its last run.
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
	u := starting(s.tenant.record, *s.Grant, a.report.Round, s.Why, s.tenant.note, a.now())
	return a.write(ctx, s, u)
}

// verify closes the starts that came about, and takes back those that did not in time.
func (a *acting) verify(ctx context.Context) error {
	for _, s := range a.filter(func(s *step) bool { return s.stage == sent }) {
		if j, there := a.find(s.Job); s.since < a.Clock.Elapsed() && (!there || j.State != Pending) {
			a.started(s)
		}
	}
	out := a.left() <= a.retreat()
	late := a.filter(func(s *step) bool {
		return s.stage == sent && (out || a.Clock.Elapsed()-s.since >= a.Settings.StartTimeout)
	})
	return a.takeBack(ctx, late)
}

func (a *acting) started(s *step) {
	a.reach(s, done)
	r := s.tenant.record
	r.Starts, r.Failed, r.FailedAt = r.Starts+1, 0, time.Time{}
}

// takeBack gives jobs that did not start their user's own request and a lease again.
func (a *acting) takeBack(ctx context.Context, late []*step) error {
	err := a.each(ctx, late, failed, func(s *step) error {
		u := a.leased(s)
		u.Extra = stampOf(s.tenant.record, a.report.Round, "did not start, is tried again", s.tenant.note).String()
		err := a.write(ctx, s, u)
		if errors.Is(err, ErrNotPending) {
			return nil // it has started after all: the next round sees it run
		}
		return err
	})
	for _, s := range late {
		if s.stage == sent {
			continue // there was no time to
		}
		r := s.tenant.record
		r.Failed, r.FailedAt = r.Failed+1, a.now()
		if s.Error == "" {
			s.Error = fmt.Sprintf("did not start within %s", a.Settings.StartTimeout)
		}
	}
	return err
}

// retreat is the time that it may take to take back the starts that are on their way, and one more: as long as the slowest calls so
// far. Where calls take no time worth mentioning it is none.
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
