package page

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// Asked is which part of the queue a reader wants to see; the zero value is all of it, from its beginning.
type Asked struct {
	User  string           // whose jobs; empty: everybody's
	Cause bridge.WaitCause // for what they wait; empty: whatever it is
	From  int              // rows at the beginning that are left out
}

// queue is who waits, the next one first, as far as the reader asked for it.
type queue struct {
	Asked   Asked
	Reasons []reason // of all that wait, in the order in which they bind
	Rows    []waiter
	All     int // that wait
	Found   int // of them, those that were asked for
	Back    string
	Timed   bool   // somebody has estimated when some of them start
	Next    string // where the rows before and after these are; empty: there are none
}

// waiter is a job that waits.
type waiter struct {
	bridge.Wait
	Name, User string
	GPUs       int // 0: no round plans it, so that nothing but its number is known
	Since      time.Duration
	before     int    // jobs that wait for room and go before it
	Soon       string // when it is expected to start; empty: nobody has estimated it
}

// Ahead is how many jobs that wait for room go before it; a dash: nobody has asked the policy.
func (w waiter) Ahead() string {
	if w.Place == 0 {
		return "–"
	}
	return strconv.Itoa(w.before)
}

// reason is how many jobs wait for a cause, and what that means.
type reason struct {
	Reason bridge.WaitReason
	Cause  bridge.WaitCause
	Means  string
	Fault  bool // of the request or of the configuration: waiting alone does not mend it
	N      int
	Link   string
}

func queueOf(report bridge.Report, asked Asked) queue {
	all := waitersOf(report)
	q := queue{Asked: asked, Reasons: reasonsOf(all, asked.User), All: len(all)}
	for _, w := range all {
		if (asked.User == "" || w.User == asked.User) && (asked.Cause == "" || w.Cause == asked.Cause) {
			q.Rows = append(q.Rows, w)
		}
	}
	q.Found = len(q.Rows)
	from := min(max(0, asked.From), len(q.Rows))
	if from > 0 {
		q.Back = asked.at(max(0, from-longest))
	}
	if from+longest < len(q.Rows) {
		q.Next = asked.at(from + longest)
	}
	q.Rows = q.Rows[from:min(len(q.Rows), from+longest)]
	q.Timed = slices.ContainsFunc(q.Rows, func(w waiter) bool { return w.Soon != "" })
	return q
}

// Chosen says that not the whole queue was asked for.
func (a Asked) Chosen() bool { return a.User != "" || a.Cause != "" }

// at is the address of the queue from that row on.
func (a Asked) at(from int) string {
	values := url.Values{}
	if a.User != "" {
		values.Set("user", a.User)
	}
	if a.Cause != "" {
		values.Set("cause", string(a.Cause))
	}
	if from > 0 {
		values.Set("from", strconv.Itoa(from))
	}
	return "/?" + values.Encode() + "#queue"
}

// waitersOf are the jobs that wait, in the order in which the policy has them; those that it was not asked for follow
// by what binds them.
func waitersOf(report bridge.Report) []waiter {
	jobs := make(map[int]*policy.Job, len(report.Snapshot.Jobs))
	for i := range report.Snapshot.Jobs {
		jobs[report.Snapshot.Jobs[i].ID] = &report.Snapshot.Jobs[i]
	}
	waits := report.Waits
	if len(waits) == 0 {
		waits = planned(report.Plan)
	}
	all := make([]waiter, 0, len(waits))
	for _, wait := range waits {
		w := waiter{Wait: wait}
		if job := jobs[wait.Job]; job != nil {
			w.Name, w.User, w.GPUs = job.Name, job.User, job.GPUs
			w.Since = report.Snapshot.Now.Sub(job.Arrival)
		}
		w.Soon = soon(wait, report.Snapshot.Now)
		all = append(all, w)
	}
	ranks := make(map[bridge.WaitCause]int)
	for rank, cause := range bridge.WaitCauses() {
		ranks[cause] = rank
	}
	slices.SortFunc(all, func(a, b waiter) int {
		return cmp.Or(cmp.Compare(last(a.Place), last(b.Place)), cmp.Compare(ranks[a.Cause], ranks[b.Cause]),
			cmp.Compare(a.Job, b.Job))
	})
	before := 0
	for i := range all {
		all[i].before = before
		if w := &all[i]; w.Place > 0 && (w.Reason == bridge.ForRoom || w.Reason == bridge.ByOrder) {
			before++
		}
	}
	return all
}

// soon is when a job is expected to start, with what eight of ten futures lie between.
func soon(wait bridge.Wait, now time.Time) string {
	s := wait.Starts
	switch {
	case s == nil:
		return ""
	case s.P50.IsZero():
		return "not in sight"
	case s.P90.IsZero():
		return fmt.Sprintf("in %s, or much later", span(s.P50.Sub(now)))
	case s.P90.Sub(s.P10) < time.Minute:
		return "in " + span(s.P50.Sub(now))
	}
	return fmt.Sprintf("in %s (%s to %s)", span(s.P50.Sub(now)), span(s.P10.Sub(now)), span(s.P90.Sub(now)))
}

// last puts whom nobody gave a place behind all others.
func last(place int) uint { return uint(place) - 1 }

// planned is why jobs wait in the words of the plan, for reports of rounds that explained nothing. Most causes are
// called as in the plan; the others are other.
func planned(plan policy.Plan) (all []bridge.Wait) {
	for _, d := range plan.Decisions {
		if d.Grant != nil {
			continue
		}
		cause := bridge.WaitCause(d.Reason)
		if !slices.Contains(bridge.WaitCauses(), cause) {
			cause = bridge.CauseOther
		}
		all = append(all, bridge.Wait{Job: d.Job, Reason: cause.Reason(), Cause: cause, Why: d.Why})
	}
	return all
}

// reasonsOf counts causes in the order in which they bind.
func reasonsOf(waiting []waiter, user string) (all []reason) {
	counts := map[bridge.WaitCause]int{}
	for _, w := range waiting {
		counts[w.Cause]++
	}
	for _, cause := range bridge.WaitCauses() {
		if n := counts[cause]; n > 0 {
			all = append(all, reason{Reason: cause.Reason(), Cause: cause, Means: meanings[cause],
				Fault: cause.Reason() == bridge.Misconfigured, N: n, Link: Asked{User: user, Cause: cause}.at(0)})
		}
	}
	return all
}

var meanings = map[bridge.WaitCause]string{
	bridge.CauseShape:           "no node of the cluster could ever hold it",
	bridge.CauseAboveLimits:     "it asks for more than the site ever allows it",
	bridge.CausePartitionRules:  "its partition does not take such jobs",
	bridge.CauseAccount:         "its account may not run there",
	bridge.CauseQOS:             "its QOS may not run there",
	bridge.CauseRequest:         "Slurm cannot ever serve what it asks for",
	bridge.CauseReservationGone: "its reservation cannot be used any more",
	bridge.CauseBurstBuffer:     "its burst buffer has failed",
	bridge.CauseHeld:            "it is held",
	bridge.CauseCanary:          "the daemon manages a part of the site for now, and it is not of that",
	bridge.CauseLeftToSlurm:     "no round plans it: it is Slurm's",
	bridge.CauseDependency:      "its user asked it to wait for another job",
	bridge.CauseBegin:           "its user asked it to wait until then",
	bridge.CauseReservation:     "the reservation that it was submitted to has not begun",
	bridge.CauseArray:           "the tasks of its array run one after the other",
	bridge.CauseCleanup:         "its last run is still cleaned up",
	bridge.CauseFailedStart:     "its last starts did not come about",
	bridge.CauseCameBack:        "it came back to the queue again and again, unasked",
	bridge.CauseQuota:           "its group holds all that the site leaves it",
	bridge.CauseSlurmLimit:      "its group holds all that the site leaves it, as Slurm says",
	bridge.CauseUsedUp:          "its group has used all that it may over time",
	bridge.CauseLicenses:        "others hold the licences that it needs",
	bridge.CauseClosed:          "the nodes that could hold it are drained or down",
	bridge.CausePartitionDown:   "its partition is down",
	bridge.CauseReserved:        "the nodes are reserved before its time limit ends",
	bridge.CauseHeldBack:        "what is free is kept for a job that has waited too long",
	bridge.CauseRules:           "it could run if another were stopped, which the rules forbid now",
	bridge.CauseClearing:        "its nodes are emptied for it",
	bridge.CauseBehind:          "others go first in Slurm's own order",
	bridge.CauseTurn:            "jobs that go first hold the GPUs",
	bridge.CauseGang:            "enough GPUs are free, but not together",
	bridge.CauseCores:           "GPUs are free, but not the cores that go with them",
	bridge.CauseMemory:          "GPUs are free, but not the memory that goes with them",
	bridge.CauseSeat:            "each GPU that it could share is shared by as many as may be",
	bridge.CauseGPUMemory:       "GPUs could be shared, but too little of their memory is left",
	bridge.CauseSlowdown:        "GPUs could be shared, but somebody would be slower than he accepts",
	bridge.CauseGaveWay:         "it has just given way, or given back what it held beyond its share",
	bridge.CauseSlurmRoom:       "Slurm lacks ports, powered nodes or a burst buffer",
	bridge.CauseOther:           "a planner of the site's own says why",
}
