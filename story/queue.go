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
	// Place is its place among these in the policy's order, from 1; 0: it has none, since the round did not ask the
	// policy about it.
	Place     int       `json:"place,omitempty"`
	Job       int       `json:"job"`
	Name      string    `json:"name,omitempty"`
	User      string    `json:"user,omitempty"`
	Partition string    `json:"partition,omitempty"`
	GPUs      int       `json:"gpus,omitempty"`
	Since     time.Time `json:"since,omitzero"` // first submission
	Saves     bool      `json:"saves"`
	// Reason and Cause are words of bridge.Wait, and Starting for a job that the round starts or would start.
	Reason bridge.WaitReason `json:"reason"`
	Cause  bridge.WaitCause  `json:"cause,omitempty"`
	Why    string            `json:"why"`
	// Armed says that it is sized and eligible: Slurm starts it in the second in which that much is free.
	Armed bool `json:"armed,omitempty"`
	// Starts is when it is expected to start; nil: nobody has estimated it.
	Starts *forecast.Spread `json:"starts,omitempty"`
}

// Starting is the reason of a job that waits no longer by the plan, and did not run when the round ended.
const Starting bridge.WaitReason = "starting"

// Queue are the jobs that wait when a round has ended, in the order of its plan: who starts, then who has a place in
// the policy's order, then the others, in the order in which their reasons bind.
func Queue(report *bridge.Report) []Waiting {
	jobs, armed, started := jobsOf(report), map[int]bool{}, map[int]*bridge.Step{}
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
		if why := unstarted(started[d.Job], report.Shadow); why != "" {
			all = append(all, Waiting{Job: d.Job, Name: job.Name, User: job.User, GPUs: job.GPUs, Since: job.Arrival,
				Saves: job.Saves, Reason: Starting, Why: why + " " + given(d)})
		}
	}
	slices.SortStableFunc(all, inOrder)
	place := 0
	for i := range all {
		if all[i].Place > 0 { // those that the round has started had places as well
			place++
			all[i].Place = place
		}
	}
	return all
}

// unstarted says why a job that is granted a place does not run; empty: it was started.
func unstarted(step *bridge.Step, shadow bool) string {
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

// waitsOf are the waits that a report tells, or where its daemon was told not to, what its plan says.
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

func inOrder(a, b Waiting) int {
	last := func(place int) int { // who has no place goes behind
		if place == 0 {
			return 1
		}
		return 0
	}
	return cmp.Or(-cmp.Compare(starting(a), starting(b)), cmp.Compare(last(a.Place), last(b.Place)),
		cmp.Compare(a.Place, b.Place), cmp.Compare(binds(a.Cause), binds(b.Cause)), cmp.Compare(a.Job, b.Job))
}

func starting(w Waiting) int {
	if w.Reason == Starting {
		return 1
	}
	return 0
}

// binds is a cause's place in the order in which they bind.
func binds(c bridge.WaitCause) int { return slices.Index(bridge.WaitCauses(), c) }

// Reasons counts who waits for what.
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
