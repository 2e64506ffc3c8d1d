package story

import (
	"cmp"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/policy/forecast"
)

// Waiting is one job of the queue.
type Waiting struct {
	// Place is its rank among the listed jobs in the policy's order, from 1; 0 if the round did not ask the policy
	// about it.
	Place     int       `json:"place,omitempty"`
	Job       int       `json:"job"`
	Name      string    `json:"name,omitempty"`
	User      string    `json:"user,omitempty"`
	Partition string    `json:"partition,omitempty"`
	GPUs      int       `json:"gpus,omitempty"`
	Since     time.Time `json:"since,omitzero"` // of the first submission
	Saves     bool      `json:"saves"`
	// Reason and Cause are those of bridge.Wait, or Starting for a job that the round starts or would start.
	Reason bridge.WaitReason `json:"reason"`
	Cause  bridge.WaitCause  `json:"cause,omitempty"`
	Why    string            `json:"why"`
	// Armed says that the job is eligible with its planned size: Slurm starts it as soon as that much is free.
	Armed bool `json:"armed,omitempty"`
	// Starts is the forecast of its start; nil: there is none.
	Starts *forecast.Spread `json:"starts,omitempty"`
}

// Starting is the reason of a job that the plan starts but that did not run when the round ended.
const Starting bridge.WaitReason = "starting"

// Queue lists the jobs that wait after a round: first those that the round starts, then those in the policy's order,
// then the others by cause, in the fixed order of causes. A job with a grant that does not run yet counts as waiting.
// Places are numbered anew from 1, since jobs that the round has started had places, too.
func Queue(report *bridge.Report) []Waiting {
	jobs, armed, started := jobsByID(report), map[int]bool{}, map[int]*bridge.Step{}
	for i := range report.Steps {
		switch s := &report.Steps[i]; s.Verb {
		case bridge.Arm:
			armed[s.Job] = s.Error == "" && !s.PutOff
		case bridge.Start:
			started[s.Job] = s
		}
	}
	var all []Waiting
	for _, w := range waitsOf(report) {
		q := Waiting{Place: w.Place, Job: w.Job, Reason: w.Reason, Cause: w.Cause, Why: w.Why, Armed: armed[w.Job],
			Name: w.Name, User: w.User, Partition: w.Partition, GPUs: w.GPUs, Since: w.Since, Starts: w.Starts}
		if job := jobs[w.Job]; job != nil {
			q.Name, q.User, q.GPUs, q.Since, q.Saves = job.Name, job.User, job.GPUs, job.Arrival, job.Saves
		}
		all = append(all, q)
	}
	for i := range report.Plan.Decisions {
		d := &report.Plan.Decisions[i]
		job := jobs[d.Job]
		if d.Grant == nil || job == nil || job.Running != nil {
			continue
		}
		if why := whyNotStarted(started[d.Job], report.Shadow); why != "" {
			all = append(all, Waiting{Job: d.Job, Name: job.Name, User: job.User, GPUs: job.GPUs, Since: job.Arrival,
				Saves: job.Saves, Reason: Starting, Why: why + " " + grantText(d)})
		}
	}
	slices.SortStableFunc(all, compareWaiting)
	place := 0
	for i := range all {
		if all[i].Place > 0 { // jobs that the round started had places too
			place++
			all[i].Place = place
		}
	}
	return all
}

// whyNotStarted says why a job with a grant does not run yet, as a clause that goes on with the grant. The clause is
// empty if the job was started. step is the job's start in this round, or nil if the round sent none.
func whyNotStarted(step *bridge.Step, shadow bool) string {
	switch {
	case shadow:
		return "would be started now: it is given"
	case step == nil:
		return "is started by Slurm or a round to come: it is given"
	case step.Error != "":
		return "its start failed (" + step.Error + "): it was given"
	case step.PutOff:
		return "is started in the next round: it is given"
	}
	return ""
}

// waitsOf returns a report's waits. A daemon may be configured not to record them (Settings.Explain). Then they are
// made from the plan's decisions without a grant, and have no place in the queue and no exact cause.
func waitsOf(report *bridge.Report) []bridge.Wait {
	if len(report.Waits) > 0 {
		return report.Waits
	}
	var all []bridge.Wait
	for _, d := range report.Plan.Decisions {
		if d.Grant == nil {
			all = append(all, bridge.Wait{Job: d.Job, Reason: bridge.ForRoom, Cause: bridge.CauseOther, Why: d.Why})
		}
	}
	return all
}

// compareWaiting compares two jobs for the order of Queue: first those that the round starts, then those with a place,
// by place, then those without one, by cause and job ID.
func compareWaiting(a, b Waiting) int {
	last := func(place int) int { // jobs without a place come last
		if place == 0 {
			return 1
		}
		return 0
	}
	return cmp.Or(-cmp.Compare(startingRank(a), startingRank(b)), cmp.Compare(last(a.Place), last(b.Place)),
		cmp.Compare(a.Place, b.Place), cmp.Compare(causeRank(a.Cause), causeRank(b.Cause)), cmp.Compare(a.Job, b.Job))
}

// startingRank is 1 for a job that the round starts and 0 for others, to sort by.
func startingRank(w Waiting) int {
	if w.Reason == Starting {
		return 1
	}
	return 0
}

// causeRank is the position of a cause in the fixed order of causes.
func causeRank(c bridge.WaitCause) int { return slices.Index(bridge.WaitCauses(), c) }

// Reasons is the number of jobs that wait for a reason.
type Reasons struct {
	Reason bridge.WaitReason `json:"reason"`
	Jobs   int               `json:"jobs"`
}

// ReasonsOf counts the reasons of a queue, the most frequent first.
func ReasonsOf(queue []Waiting) (all []Reasons) {
	at := map[bridge.WaitReason]int{}
	for _, w := range queue {
		k, known := at[w.Reason]
		if !known {
			k = len(all)
			at[w.Reason], all = k, append(all, Reasons{Reason: w.Reason})
		}
		all[k].Jobs++
	}
	slices.SortStableFunc(all, func(a, b Reasons) int {
		return cmp.Or(cmp.Compare(b.Jobs, a.Jobs), cmp.Compare(a.Reason, b.Reason))
	})
	return all
}
