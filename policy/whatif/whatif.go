// Package whatif says what a round would decide if something were different: the number of nodes, their cores and
// memory, the policy, the request of one job. Both snapshots are planned by the daemon's planner, and their futures use
// the same draws (policy/forecast), so that they differ by the change alone. Changes that would start a job are found
// by planning each candidate, not by inference. The package is pure and changes none of its arguments.
//
// It compares one round and some hours after it. Whether more nodes would attract more jobs is another question, which
// a simulation of a log answers. A job that asks for fewer GPUs takes longer; only its start is compared.
package whatif

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/bound"
	"github.com/synergy-slurmd/synergy-slurmd/policy/forecast"
)

// Case is a cluster as a round saw it, with the policy and allocator.
type Case struct {
	Cluster   policy.Cluster
	Policy    policy.Policy
	Allocator policy.Allocator
	Habits    forecast.Habits // nil: the default habits
}

// Change is something that could be different.
type Change interface {
	// Apply makes the change in a case that it may modify. The error is a sentence that says why it is not possible.
	Apply(c *Case) error
	// String is the change as part of a sentence: "with 2 more nodes like n1", "if it asked for 4 GPUs".
	String() string
}

// With returns the case with the changes applied in order. The case itself is not changed.
func (c Case) With(changes ...Change) (Case, error) {
	c.Cluster.Nodes, c.Cluster.Jobs = slices.Clone(c.Cluster.Nodes), slices.Clone(c.Cluster.Jobs)
	for _, change := range changes {
		if err := change.Apply(&c); err != nil {
			return Case{}, err
		}
	}
	return c, nil
}

// Started returns the case with the jobs of the map, which were started after the snapshot, running on the placements
// in the map. They are just starting, so they are fixed. A job that runs in the snapshot stays as it is.
func (c Case) Started(with map[int]*policy.Placement) Case {
	c.Cluster.Jobs = slices.Clone(c.Cluster.Jobs)
	for i := range c.Cluster.Jobs {
		if j := &c.Cluster.Jobs[i]; j.Running == nil && with[j.ID] != nil {
			j.Running, j.Started, j.Fixed = with[j.ID], c.Cluster.Now, true
		}
	}
	return c
}

// Options of a question.
type Options struct {
	Job int // the job in question; 0: none
	// Begin is called before futures are played, once for each of the two cases. The function that it returns is
	// forecast.Options.Stop. nil: never stop.
	Begin func() func() bool
}

// Answer compares what is with what would be.
type Answer struct {
	Sentence string  `json:"sentence"`
	Before   Outcome `json:"before"`
	After    Outcome `json:"after"`
	// Starts and Stops are the jobs that start, or are stopped or restarted, only with the changes; ascending.
	Starts []int `json:"starts"`
	Stops  []int `json:"stops"`
}

// Outcome is the result of planning a case.
type Outcome struct {
	Nodes  int `json:"nodes_open"`
	GPUs   int `json:"gpus_open"` // on these nodes
	Busy   int `json:"gpus_busy"`
	Runs   int `json:"jobs_running"`
	Waits  int `json:"jobs_waiting"`
	Starts int `json:"jobs_starting"`
	Stops  int `json:"jobs_stopped"` // or restarted
	// Value is what the plan trains, in GPU-hours per hour at the proportional speed of the unchanged cluster. Ratio is
	// Value as a part of the proven bound.
	Value float64 `json:"value"`
	Ratio float64 `json:"ratio"`
	// Trained is the mean of Value over the next Hours, over several futures.
	Trained float64 `json:"trained"`
	Hours   float64 `json:"trained_over_h"`
	Job     *Place  `json:"job,omitempty"`
	// Cut says that there was no time to play all futures.
	Cut bool `json:"cut,omitempty"`

	plan policy.Plan
}

// Place is what happens to the job in question.
type Place struct {
	Job   int               `json:"job"`
	Grant *policy.Placement `json:"grant,omitempty"`
	Gain  float64           `json:"gain,omitempty"`
	Runs  bool              `json:"runs,omitempty"` // it runs already
	Why   string            `json:"why,omitempty"`
	Place int               `json:"place,omitempty"` // position among the waiting jobs, from 1
	// Start is when it is expected to start if not now, and Words the same for people. nil: unknown.
	Start *forecast.Spread `json:"expected,omitempty"`
	Words string           `json:"words,omitempty"`
}

// Ask compares a case with the same case after changes: both are planned, and their futures played. The answer lists
// the jobs that start or stop only with the changes.
func Ask(is Case, changes []Change, o Options) (Answer, error) {
	would, err := is.With(changes...)
	if err != nil {
		return Answer{}, err
	}
	reference := policy.Reference(is.Cluster.Nodes)
	a := Answer{Starts: []int{}, Stops: []int{}}
	a.Before, a.After = is.outcome(o, reference, &is.Cluster), would.outcome(o, reference, &is.Cluster)
	jobs := jobsByID(&is.Cluster)
	for _, d := range a.After.plan.Decisions {
		// then is with the changes, now without; both are compared with what the job holds in the unchanged snapshot.
		then, now := effectOf(jobs[d.Job], &d), effectOf(jobs[d.Job], decisionOf(a.Before.plan, d.Job))
		if then == effectStarts && now != effectStarts {
			a.Starts = append(a.Starts, d.Job)
		}
		if then == effectStops && now != effectStops {
			a.Stops = append(a.Stops, d.Job)
		}
	}
	a.Sentence = a.sentence(changes)
	return a, nil
}

// decisionOf returns a job's decision by a binary search; one without a grant if the plan has none.
func decisionOf(p policy.Plan, job int) *policy.Decision {
	k, found := slices.BinarySearchFunc(p.Decisions, job, func(d policy.Decision, job int) int { return d.Job - job })
	if !found {
		return &policy.Decision{Job: job}
	}
	return &p.Decisions[k]
}

// jobsByID maps the IDs of a snapshot's jobs to the jobs.
func jobsByID(c *policy.Cluster) map[int]*policy.Job {
	jobs := make(map[int]*policy.Job, len(c.Jobs))
	for i := range c.Jobs {
		jobs[c.Jobs[i].ID] = &c.Jobs[i]
	}
	return jobs
}

// effect is the effect of a decision on a job.
type effect int

const (
	effectWaits effect = iota
	effectStarts
	effectStays
	effectStops // or is restarted
)

// effectOf is what a decision does to a job that is as in the unchanged snapshot. So a job that has to leave because a
// change made its node smaller counts as stopped.
func effectOf(j *policy.Job, d *policy.Decision) effect {
	switch {
	case j.Running == nil && d.Grant == nil:
		return effectWaits
	case j.Running == nil:
		return effectStarts
	case d.Grant != nil && d.Grant.Equal(*j.Running):
		return effectStays
	}
	return effectStops
}

// jobOf finds a job by its ID; nil: there is none.
func jobOf(c *policy.Cluster, job int) *policy.Job {
	for i := range c.Jobs {
		if c.Jobs[i].ID == job {
			return &c.Jobs[i]
		}
	}
	return nil
}

// outcome plans a case and plays its futures. Speeds are relative to one reference server, that of the unchanged
// snapshot, since a change may make another server the reference. now is that snapshot: jobs are compared with what
// they hold in it.
func (c Case) outcome(o Options, reference gres.Vector, now *policy.Cluster) Outcome {
	var planner policy.Planner
	out := Outcome{plan: planner.Decide(c.Cluster, c.Policy, c.Allocator)}
	for i := range c.Cluster.Nodes {
		if n := &c.Cluster.Nodes[i]; n.Closed == "" {
			out.Nodes, out.GPUs = out.Nodes+1, out.GPUs+n.Total.GPUs
		}
	}
	out.count(&c.Cluster, now, reference)
	cert := bound.Certify(&c.Cluster, out.plan)
	out.Ratio = cert.Ratio()
	var stop func() bool
	if o.Begin != nil {
		stop = o.Begin()
	}
	// Without a job in question Only has no job's ID: the futures end after the time over which Trained is averaged.
	f := forecast.Starts(&c.Cluster, forecast.Options{Policy: c.Policy, Allocator: c.Allocator, Habits: c.Habits,
		Only: []int{o.Job}, Reference: reference, Stop: stop})
	out.Trained, out.Hours, out.Cut = f.Trained, f.Span.Hours(), f.Cut
	if o.Job != 0 {
		out.Job = c.place(o.Job, &planner, &f, out.plan)
	}
	return out
}

// count counts jobs by outcome and sums their value. c is the case that was planned, now the unchanged snapshot, with
// which jobs are compared. The reference server of that snapshot makes the values of both cases comparable. Jobs that
// share a GPU count it as busy once (policy.GPUCount).
func (out *Outcome) count(c, now *policy.Cluster, reference gres.Vector) {
	types := map[string]string{}
	for i := range c.Nodes {
		types[c.Nodes[i].Name] = c.Nodes[i].GPUType
	}
	jobs, were := jobsByID(c), jobsByID(now)
	var held policy.GPUCount
	for _, d := range out.plan.Decisions {
		switch effectOf(were[d.Job], &d) {
		case effectStarts:
			out.Starts++
		case effectStops:
			out.Stops++
		}
		if d.Grant == nil {
			out.Waits++
			continue
		}
		out.Runs++
		gpus := d.Grant.Total().GPUs
		unit := policy.Unit(policy.ProfileOn(jobs[d.Job].Profile, types[d.Grant.Nodes[0]]), d.Fair, reference)
		out.Busy += held.More(*d.Grant) * len(d.Grant.Nodes)
		out.Value += float64(float64(gpus) * d.Gain * unit)
	}
}

// place is what happens to the job with an ID under the plan: its grant, or why it waits, its position among the jobs
// that keep waiting, and when it is expected to start by the forecast.
func (c Case) place(job int, planner *policy.Planner, f *forecast.Forecast, plan policy.Plan) *Place {
	d, j := decisionOf(plan, job), jobOf(&c.Cluster, job)
	p := &Place{Job: job, Grant: d.Grant, Gain: d.Gain, Why: d.Why, Runs: j != nil && j.Running != nil}
	if d.Grant != nil {
		return p
	}
	p.Place = waitingPlace(planner.Queue(c.Cluster, c.Policy, c.Allocator), plan, job)
	if s, known := f.Of(job); known {
		p.Start, p.Words = &s.Spread, f.Words(s.Spread)
	}
	return p
}

// waitingPlace is a job's position among the jobs that keep waiting under the plan, from 1; jobs that start now do not
// count. It is 0 if the job is not in the queue, because it runs or the policy does not order it. Its callers ask only
// for a job that the plan does not start.
func waitingPlace(queue []int, plan policy.Plan, job int) (place int) {
	for _, one := range queue {
		if decisionOf(plan, one).Grant == nil {
			place++
		}
		if one == job {
			return place
		}
	}
	return 0
}

// sentence is the answer in one sentence: about the job in question, or else about the whole cluster.
func (a *Answer) sentence(changes []Change) string {
	if a.After.Job != nil {
		return a.jobSentence(changes)
	}
	text := trainsText(a.Before.Value, a.After.Value)
	if later := trainsText(a.Before.Trained, a.After.Trained); later != text {
		text += fmt.Sprintf(" now, and %s over the next %.0f h", strings.TrimPrefix(later, "trains "), a.After.Hours)
	}
	return changesText(changes) + " the cluster " + text + "; " + countText(len(a.Starts), "more job starts now",
		"more jobs start now") + stoppedText(len(a.Stops))
}

// equalTolerance is the relative difference below which sentences call two values equal.
const equalTolerance = 0.005

// trainsText says in words how much more or less a cluster or a job trains after a change; before and after are in one
// unit, such as GPU-hours an hour.
func trainsText(before, after float64) string {
	switch more := after/max(before, 1e-9) - 1; {
	case before == 0 && after > 0:
		return fmt.Sprintf("trains %.1f GPU-hours an hour and not nothing", after)
	case more >= equalTolerance:
		return fmt.Sprintf("trains %.1f %% more", 100*more)
	case more <= -equalTolerance:
		return fmt.Sprintf("trains %.1f %% less", -100*more)
	}
	return "trains as much"
}

// countText puts a number before a noun: "no …", "1 …", or the number and many.
func countText(n int, one, many string) string {
	switch n {
	case 0:
		return "no " + one
	case 1:
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// stoppedText is the end of a sentence that says how many more jobs are stopped with the changes; empty: none.
func stoppedText(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return ", and 1 more is stopped or restarted for that"
	}
	return fmt.Sprintf(", and %d more are stopped or restarted for that", n)
}

// changesText joins changes, each with its String, to the beginning of a sentence about them.
func changesText(changes []Change) string {
	texts := make([]string, len(changes))
	for i, c := range changes {
		texts[i] = c.String()
	}
	return strings.Join(texts, ", ")
}

// jobSentence is the answer about the job in question, by what it does without (before) and with the changes (after).
func (a *Answer) jobSentence(changes []Change) string {
	before, after, how := a.Before.Job, a.After.Job, " "+changesText(changes)
	job := fmt.Sprintf("job %d ", after.Job)
	switch {
	case before.Runs && before.Grant == nil && after.Grant == nil:
		return job + "has to leave anyway: " + before.Why
	case before.Runs && before.Grant == nil:
		return job + "has to leave, and would stay" + how
	case before.Runs && after.Grant == nil:
		return job + "would have to leave" + how + ": " + after.Why
	case before.Runs && before.Grant != nil:
		return job + "runs, and " + strings.Replace(
			trainsText(before.Gain, after.Gain),
			"trains",
			"would train",
			1,
		) + how
	case before.Grant != nil && after.Grant != nil:
		return job + "starts now anyway"
	case before.Grant != nil:
		return job + "would not start now any more" + how + ": " + after.Why
	case after.Grant != nil:
		return job + "would start now" + how
	}
	return job + laterText(before, after) + how + ": " + after.Why
}

// laterText says, for a job that waits in both cases, when it is expected to start with the changes, and how much
// sooner or later that is than without. A start that is zero is beyond the forecast.
func laterText(before, after *Place) string {
	switch {
	case after.Start == nil || before.Start == nil:
		return "would still wait"
	case after.Start.P50.IsZero() && before.Start.P50.IsZero():
		return "would still wait, and is " + after.Words
	case after.Start.P50.IsZero():
		return "would wait longer, and is " + after.Words
	}
	text := "would be " + after.Words
	if before.Start.P50.IsZero() {
		return text
	}
	switch sooner := before.Start.P50.Sub(after.Start.P50).Round(time.Minute); {
	case sooner > 0:
		return text + ", " + minutesText(sooner) + " sooner,"
	case sooner < 0:
		return text + ", " + minutesText(-sooner) + " later,"
	}
	return text + ", as now,"
}

// minutesText formats a time in minutes.
func minutesText(d time.Duration) string {
	return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
}
