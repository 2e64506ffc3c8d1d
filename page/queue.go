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

// Asked selects a part of the queue; the zero value selects all of it, from the beginning.
type Asked struct {
	User  string           // whose jobs; empty: of all users
	Cause bridge.WaitCause // the cause of waiting; empty: any
	From  int              // rows to skip at the beginning
}

// queue is the selected part of the waiting jobs, the next one first.
type queue struct {
	Asked   Asked
	Reasons []reason // of all waiting jobs, in the order in which reasons are reported
	Rows    []waitingJob
	All     int  // waiting jobs
	Found   int  // waiting jobs that are selected
	Timed   bool // for some of the rows a start was forecast
	pager
}

// waitingJob is a waiting job.
type waitingJob struct {
	bridge.Wait
	Name, User string
	GPUs       int // 0: no round plans it, so only its ID is known
	Since      time.Duration
	before     int    // jobs ahead of it that wait for room
	Soon       string // when it is expected to start; empty: there is no forecast
}

// Ahead is how many jobs that wait for room are ahead of it; a dash if the policy did not order it.
func (w waitingJob) Ahead() string {
	if w.Place == 0 {
		return "–"
	}
	return strconv.Itoa(w.before)
}

// reason is how many jobs wait for a cause, and what the cause means.
type reason struct {
	Reason bridge.WaitReason
	Cause  bridge.WaitCause
	Means  string
	Fault  bool // a mistake in the request or the configuration, which waiting does not cure
	N      int
	Link   string
}

// queueOf makes the requested part of the queue, with links to the parts before and after.
func queueOf(report bridge.Report, asked Asked) queue {
	all := waitersOf(report)
	q := queue{Asked: asked, Reasons: reasonsOf(all, asked.User), All: len(all)}
	for _, w := range all {
		if (asked.User == "" || w.User == asked.User) && (asked.Cause == "" || w.Cause == asked.Cause) {
			q.Rows = append(q.Rows, w)
		}
	}
	q.Found = len(q.Rows)
	q.Rows, _, q.pager = paged(q.Rows, asked.From, maxTableRows, asked.pageURL)
	q.Timed = slices.ContainsFunc(q.Rows, func(w waitingJob) bool { return w.Soon != "" })
	return q
}

// Chosen says that only a part of the queue is selected.
func (a Asked) Chosen() bool { return a.User != "" || a.Cause != "" }

// pageURL is the address of the queue that begins with this row.
func (a Asked) pageURL(from int) string {
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

// waitersOf returns the waiting jobs in the policy's order, and after them the jobs that the policy did not order, by
// cause. What is shown of a job that no round plans comes from its Wait, since the snapshot does not have it.
func waitersOf(report bridge.Report) []waitingJob {
	jobs := make(map[int]*policy.Job, len(report.Snapshot.Jobs))
	for i := range report.Snapshot.Jobs {
		jobs[report.Snapshot.Jobs[i].ID] = &report.Snapshot.Jobs[i]
	}
	waits := report.Waits
	if len(waits) == 0 {
		waits = waitsFromPlan(report.Plan)
	}
	all := make([]waitingJob, 0, len(waits))
	for _, wait := range waits {
		w := waitingJob{Wait: wait, Name: wait.Name, User: wait.User, GPUs: wait.GPUs}
		if !wait.Since.IsZero() {
			w.Since = report.Snapshot.Now.Sub(wait.Since)
		}
		if job := jobs[wait.Job]; job != nil {
			w.Name, w.User, w.GPUs = job.Name, job.User, job.GPUs
			w.Since = report.Snapshot.Now.Sub(job.Arrival)
		}
		w.Soon = startText(wait, report.Snapshot.Now)
		all = append(all, w)
	}
	ranks := make(map[bridge.WaitCause]int)
	for rank, cause := range bridge.WaitCauses() {
		ranks[cause] = rank
	}
	slices.SortFunc(all, func(a, b waitingJob) int {
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

// startText formats when a job is expected to start: the median of the forecasts, and the range from the 10th to the
// 90th percentile. A time that is zero lies beyond the end of the forecast.
func startText(wait bridge.Wait, now time.Time) string {
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

// last sorts jobs without a place behind all others: place 0 wraps around to the largest number.
func last(place int) uint { return uint(place) - 1 }

// waitsFromPlan derives waits from the plan, for reports of rounds that gave no reasons. Most causes have the plan's
// names; any other becomes CauseOther.
func waitsFromPlan(plan policy.Plan) (all []bridge.Wait) {
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

// reasonsOf counts the waiting jobs by cause, in the fixed order of causes.
func reasonsOf(waiting []waitingJob, user string) (all []reason) {
	counts := map[bridge.WaitCause]int{}
	for _, w := range waiting {
		counts[w.Cause]++
	}
	for _, cause := range bridge.WaitCauses() {
		if n := counts[cause]; n > 0 {
			all = append(all, reason{Reason: cause.Reason(), Cause: cause, Means: meanings[cause],
				Fault: cause.Reason() == bridge.Misconfigured, N: n, Link: Asked{User: user, Cause: cause}.pageURL(0)})
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
	bridge.CauseSlot:            "each GPU that it could share is shared by as many as may be",
	bridge.CauseGPUMemory:       "GPUs could be shared, but too little of their memory is left",
	bridge.CauseSlowdown:        "GPUs could be shared, but somebody would be slower than he accepts",
	bridge.CauseGaveWay:         "it has just given way, or given back what it held beyond its share",
	bridge.CauseSlurmRoom:       "Slurm lacks ports, powered nodes or a burst buffer",
	bridge.CauseOther:           "a planner of the site's own says why",
}
