// Package exam tests any planner: it asks for plans of random snapshots and checks each plan against the promises,
// which are those of policy.Check and three more. It does not know how a planner is reached.
package exam

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// Planner answers a question with a plan. Restart makes it lose all its state.
type Planner interface {
	Ask(ctx context.Context, round int, c policy.Cluster, p policy.Policy, a policy.Allocator) (policy.Plan, error)
	Restart()
}

// Paper is the definition of an exam.
type Paper struct {
	Seed      uint64
	Snapshots int
	Within    time.Duration   // time allowed for one plan; the planner itself gives up at twice that
	Only      *policy.Cluster // if not nil, asked in place of the snapshots of the seed
	Seen      func(asked int) // called after each snapshot; may be nil
	Policy    policy.Policy
	Allocator policy.Allocator
}

// Line is the result for one promise: on how many snapshots it was tested (Asked) and broken (Failed), and what it
// means for people.
type Line struct {
	Promise string
	Means   string
	Asked   int
	Failed  int
	First   *Case // the first failure; nil: none
}

// Case is a snapshot on which a promise was broken, so that it can be asked again.
type Case struct {
	Number  int // of the snapshot, as for Snapshot
	Cluster policy.Cluster
	Wrong   error // what was wrong
}

// Verdict is the result of an exam.
type Verdict struct {
	Lines   []Line        // one for each promise, in the order of the report
	Asked   int           // snapshots
	Planned int           // those that got a plan
	Slowest time.Duration // longest time for a plan
	Mean    time.Duration
	Jobs    int // in the largest snapshot
}

// Passed reports whether every promise was tested and kept.
func (v Verdict) Passed() bool {
	for _, l := range v.Lines {
		if l.Failed > 0 || l.Asked == 0 {
			return false
		}
	}
	return true
}

// First is the first failure over all promises; nil: none.
func (v Verdict) First() *Case {
	var first *Case
	for _, l := range v.Lines {
		if l.First != nil && (first == nil || l.First.Number < first.Number) {
			first = l.First
		}
	}
	return first
}

// The promises in addition to those of policy.Check.
const (
	promiseAnswers       = "answers"
	promiseInTime        = "in time"
	promiseDeterministic = "deterministic"
)

// meanings explains each promise to people.
var meanings = map[string]string{
	promiseAnswers:           "every snapshot gets a plan that can be read",
	promiseInTime:            "and gets it in time",
	string(policy.Complete):  "one decision for each job, ascending in ID",
	string(policy.Told):      "who waits is told why",
	string(policy.Whole):     "a job's GPUs all together, or none of them",
	string(policy.Suited):    "only where and as a job can run",
	string(policy.Untouched): "what must not be stopped goes on",
	string(policy.Fair):      "nobody below the proportional share",
	string(policy.Asked):     "nobody below what its user asked for",
	string(policy.Allowed):   "nobody above what the site allows",
	string(policy.Capacity):  "no node gives away more than it has",
	promiseDeterministic:     "the same snapshot gets the same plan, after a restart too",
}

// Every snapshot with number repeatEvery, twice that and so on is asked for a second time; at those of restartEvery the
// planner is restarted before that.
const (
	repeatEvery  = 5
	restartEvery = 25
)

// maxSilent is the number of successive snapshots without a plan after which the exam ends: with a planner that never
// answers it would take hours otherwise.
const maxSilent = 3

// Hold holds the exam: it asks for a plan of each snapshot and counts, for each promise, how often it was tested and
// broken. The error is that of ctx; the verdict then covers what was asked until then.
func Hold(ctx context.Context, planner Planner, paper Paper) (Verdict, error) {
	h := newExamRun(planner, paper)
	for n := range paper.Snapshots {
		if err := h.askSnapshot(ctx, n); err != nil {
			return h.verdict, err
		}
		if h.verdict.Asked++; paper.Seen != nil {
			paper.Seen(h.verdict.Asked)
		}
		if h.silent == maxSilent {
			break
		}
	}
	return h.verdict, nil
}

// examRun is the state of an exam.
type examRun struct {
	planner Planner
	paper   Paper
	verdict Verdict
	lines   map[string]*Line
	sum     time.Duration
	silent  int // successive snapshots without a plan
}

// newExamRun begins an exam: its verdict has a line for each promise, in the order of the report.
func newExamRun(planner Planner, paper Paper) *examRun {
	order := []string{promiseAnswers, promiseInTime}
	for _, p := range policy.Promises() {
		order = append(order, string(p))
	}
	order = append(order, promiseDeterministic)
	h := &examRun{planner: planner, paper: paper, lines: map[string]*Line{}}
	h.verdict.Lines = make([]Line, len(order))
	for i, name := range order {
		h.verdict.Lines[i] = Line{Promise: name, Means: meanings[name]}
		h.lines[name] = &h.verdict.Lines[i]
	}
	return h
}

// askSnapshot asks for a plan of snapshot n and marks all promises that this tests. The last snapshot and those of
// repeatEvery are asked twice. The error is that of ctx; a planner without an answer is only marked, and restarted.
func (h *examRun) askSnapshot(ctx context.Context, n int) error {
	c := Snapshot(h.paper.Seed, n)
	if h.paper.Only != nil {
		c = *h.paper.Only
	}
	h.verdict.Jobs = max(h.verdict.Jobs, len(c.Jobs))
	began := time.Now()
	plan, err := h.planner.Ask(ctx, n+1, c, h.paper.Policy, h.paper.Allocator)
	took := time.Since(began)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil || took > h.paper.Within { // a planner that fails at once has not shown that it is in time
		h.mark(promiseInTime, n, c, tooLate(took, h.paper.Within))
	}
	h.mark(promiseAnswers, n, c, err)
	if err != nil {
		h.silent++
		h.planner.Restart() // a new process for the next snapshot, without the pause after a failure
		return nil
	}
	h.silent = 0
	h.addTime(took)
	h.markPromises(n, c, plan)
	if last := n == h.paper.Snapshots-1; last || n%repeatEvery == repeatEvery-1 {
		return h.repeat(ctx, n, c, plan)
	}
	return nil
}

// addTime adds the time that one plan took to the verdict.
func (h *examRun) addTime(took time.Duration) {
	v := &h.verdict
	v.Planned++
	h.sum += took
	v.Slowest, v.Mean = max(v.Slowest, took), h.sum/time.Duration(v.Planned)
}

// tooLate is the breach of the promise to be in time: an error if a plan took longer than allowed, nil if not.
func tooLate(took, within time.Duration) error {
	if took <= within {
		return nil
	}
	return fmt.Errorf("took %s, and %s is allowed", took.Round(time.Millisecond), within)
}

// markPromises marks each promise of policy.Check for a plan, with its first breach. The promises in grantPromises are
// not marked if the plan has no new grant and so did not test them.
func (h *examRun) markPromises(n int, c policy.Cluster, plan policy.Plan) {
	first := map[policy.Promise]error{}
	for _, breach := range breaches(policy.Check(c, plan)) {
		if first[breach.Promise] == nil {
			first[breach.Promise] = breach
		}
	}
	starts := hasNewGrant(c, plan)
	for _, p := range policy.Promises() {
		if starts || first[p] != nil || !slices.Contains(grantPromises, p) {
			h.mark(string(p), n, c, first[p])
		}
	}
}

// grantPromises are the promises that only a new grant can break. A planner that grants nothing would pass them
// untested.
var grantPromises = []policy.Promise{
	policy.Whole,
	policy.Suited,
	policy.Fair,
	policy.Asked,
	policy.Allowed,
	policy.Capacity,
}

// hasNewGrant reports whether a plan has a new or changed grant. Without one the promises in grantPromises are not
// tested.
func hasNewGrant(c policy.Cluster, plan policy.Plan) bool {
	runs := map[int]*policy.Placement{}
	for i := range c.Jobs {
		runs[c.Jobs[i].ID] = c.Jobs[i].Running
	}
	return slices.ContainsFunc(plan.Decisions, func(d policy.Decision) bool {
		was := runs[d.Job]
		return d.Grant != nil && (was == nil || !d.Grant.Equal(*was))
	})
}

// breaches lists the breaches that policy.Check joined into an error; none if err is nil.
func breaches(err error) []*policy.Breach {
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		return nil
	}
	var list []*policy.Breach
	for _, e := range joined.Unwrap() {
		var b *policy.Breach
		if errors.As(e, &b) {
			list = append(list, b)
		}
	}
	return list
}

// repeat asks for a plan of snapshot n again and marks whether it is the same as before; no answer counts as a breach.
// At the last snapshot, and at those of restartEvery, the planner is restarted first, so that no state can help it.
func (h *examRun) repeat(ctx context.Context, n int, c policy.Cluster, plan policy.Plan) error {
	if n == h.paper.Snapshots-1 || n%restartEvery == restartEvery-1 {
		h.planner.Restart()
	}
	second, err := h.planner.Ask(ctx, n+1, c, h.paper.Policy, h.paper.Allocator)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		h.planner.Restart()
	} else {
		err = firstDifference(plan, second)
	}
	h.mark(promiseDeterministic, n, c, err)
	return nil
}

// firstDifference names the first difference between two plans, which are compared by their JSON; nil: there is none.
func firstDifference(a, b policy.Plan) error {
	for i := range max(len(a.Decisions), len(b.Decisions)) {
		if i >= len(a.Decisions) || i >= len(b.Decisions) {
			return fmt.Errorf("%d decisions at first, then %d", len(a.Decisions), len(b.Decisions))
		}
		x, y := decisionJSON(a.Decisions[i]), decisionJSON(b.Decisions[i])
		if !bytes.Equal(x, y) {
			return fmt.Errorf("job %d: %s at first, then %s", a.Decisions[i].Job, x, y)
		}
	}
	return nil
}

// decisionJSON is a decision as JSON, by which firstDifference compares decisions. For a decision that cannot be
// marshalled it is the text of the error.
func decisionJSON(d policy.Decision) []byte {
	out, err := json.Marshal(d)
	if err != nil {
		return []byte(err.Error())
	}
	return out
}

// mark counts one promise as tested on snapshot n, and as broken if err is not nil; the first breach is kept.
func (h *examRun) mark(promise string, n int, c policy.Cluster, err error) {
	l := h.lines[promise]
	l.Asked++
	if err == nil {
		return
	}
	if l.Failed++; l.Failed == 1 {
		l.First = &Case{n, c, err}
	}
}
