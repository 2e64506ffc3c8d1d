// Package whatif says what a round would decide if something were otherwise: another number of nodes, other cores and
// memory on them, another policy, another request of one job. Both are planned by the daemon's planner from the same
// snapshot, and their futures drawn alike (policy/forecast), so that they differ by the change alone. It is pure, and
// changes nothing that it is given.
//
// What it does not know. A round is compared, and some hours after it: who would submit more if there were more nodes
// is another question, which a simulation of a log answers. A job that asks for fewer GPUs takes longer; only its start
// is looked at.
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

// Case is a cluster as a round saw it, and by what is decided.
type Case struct {
	Cluster   policy.Cluster
	Policy    policy.Policy
	Allocator policy.Allocator
	Habits    forecast.Habits // nil: the default ones
}

// Change is something that could be otherwise.
type Change interface {
	// Apply makes it so, in a case that is its to change. The error is a sentence that says why it cannot be.
	Apply(c *Case) error
	// String is the change as the rest of a sentence: "with 2 more nodes like n1", "if it asked for 4 GPUs".
	String() string
}

// With is the case with changes, one after the other. The case itself stays as it is.
func (c Case) With(changes ...Change) (Case, error) {
	c.Cluster.Nodes, c.Cluster.Jobs = slices.Clone(c.Cluster.Nodes), slices.Clone(c.Cluster.Jobs)
	for _, change := range changes {
		if err := change.Apply(&c); err != nil {
			return Case{}, err
		}
	}
	return c, nil
}

// Started is the case with jobs that have been started since, each with what it was given: nobody has their place now.
// They are just starting, so they are left alone.
func (c Case) Started(with map[int]*policy.Placement) Case {
	c.Cluster.Jobs = slices.Clone(c.Cluster.Jobs)
	for i := range c.Cluster.Jobs {
		if j := &c.Cluster.Jobs[i]; j.Running == nil && with[j.ID] != nil {
			j.Running, j.Started, j.Fixed = with[j.ID], c.Cluster.Now, true
		}
	}
	return c
}

// Options say how far is looked.
type Options struct {
	Job int // the one that is asked about; 0: none
	// Begin is called before futures are played, once for what is and once for what would be. It returns what is then
	// asked whether to end with what there is, see forecast.Options. nil: never.
	Begin func() func() bool
}

// Answer is what is, beside what would be.
type Answer struct {
	Sentence string  `json:"sentence"`
	Before   Outcome `json:"before"`
	After    Outcome `json:"after"`
	// Starts and Stops are jobs that would start, or be stopped or restarted, and are not now; ascending.
	Starts []int `json:"starts"`
	Stops  []int `json:"stops"`
}

// Outcome is what comes of a case.
type Outcome struct {
	Nodes  int `json:"nodes_open"`
	GPUs   int `json:"gpus_open"` // on these
	Busy   int `json:"gpus_busy"`
	Runs   int `json:"jobs_running"`
	Waits  int `json:"jobs_waiting"`
	Starts int `json:"jobs_starting"`
	Stops  int `json:"jobs_stopped"` // or restarted
	// Value is what the plan trains, in GPU-hours an hour at the proportional speed of the cluster as it is, and Ratio
	// how much of the proven bound that is.
	Value float64 `json:"value"`
	Ratio float64 `json:"ratio"`
	// Trained is the same over the next hours, in the mean of several futures.
	Trained float64 `json:"trained"`
	Hours   float64 `json:"trained_over_h"`
	Job     *Place  `json:"job,omitempty"`
	// Cut says that there was no time to look as far as was wanted.
	Cut bool `json:"cut,omitempty"`

	plan policy.Plan
}

// Place is what becomes of the job that is asked about.
type Place struct {
	Job   int               `json:"job"`
	Grant *policy.Placement `json:"grant,omitempty"`
	Gain  float64           `json:"gain,omitempty"`
	Runs  bool              `json:"runs,omitempty"` // it does so already
	Why   string            `json:"why,omitempty"`
	Place int               `json:"place,omitempty"` // among those that wait, the next one first, from 1
	// Start is when it starts, where it is not now; words say that for people. nil: nothing is known.
	Start *forecast.Spread `json:"expected,omitempty"`
	Words string           `json:"words,omitempty"`
}

// Ask compares a case with what it would be.
func Ask(is Case, changes []Change, o Options) (Answer, error) {
	would, err := is.With(changes...)
	if err != nil {
		return Answer{}, err
	}
	reference := policy.Reference(is.Cluster.Nodes)
	a := Answer{Starts: []int{}, Stops: []int{}}
	a.Before, a.After = is.outcome(o, reference, &is.Cluster), would.outcome(o, reference, &is.Cluster)
	jobs := byNumber(&is.Cluster)
	for _, d := range a.After.plan.Decisions {
		then, now := kindOf(jobs[d.Job], &d), kindOf(jobs[d.Job], find(a.Before.plan, d.Job))
		if then == starts && now != starts {
			a.Starts = append(a.Starts, d.Job)
		}
		if then == stops && now != stops {
			a.Stops = append(a.Stops, d.Job)
		}
	}
	a.Sentence = a.sentence(changes)
	return a, nil
}

// find is a job's decision; one without a grant where there is none.
func find(p policy.Plan, job int) *policy.Decision {
	k, found := slices.BinarySearchFunc(p.Decisions, job, func(d policy.Decision, job int) int { return d.Job - job })
	if !found {
		return &policy.Decision{Job: job}
	}
	return &p.Decisions[k]
}

func byNumber(c *policy.Cluster) map[int]*policy.Job {
	jobs := make(map[int]*policy.Job, len(c.Jobs))
	for i := range c.Jobs {
		jobs[c.Jobs[i].ID] = &c.Jobs[i]
	}
	return jobs
}

// kind is what a decision means to a job.
type kind int

const (
	waits kind = iota
	starts
	stays
	stops // or is restarted
)

// kindOf goes by the job as it is now: who would have to leave because his node would be smaller is stopped, too.
func kindOf(j *policy.Job, d *policy.Decision) kind {
	switch {
	case j.Running == nil && d.Grant == nil:
		return waits
	case j.Running == nil:
		return starts
	case d.Grant != nil && d.Grant.Equal(*j.Running):
		return stays
	}
	return stops
}

func jobOf(c *policy.Cluster, job int) *policy.Job {
	for i := range c.Jobs {
		if c.Jobs[i].ID == job {
			return &c.Jobs[i]
		}
	}
	return nil
}

// outcome plans a case and plays its futures, in terms of one reference server and of the jobs as they are now.
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
	f := forecast.Starts(&c.Cluster, forecast.Options{Policy: c.Policy, Allocator: c.Allocator, Habits: c.Habits,
		Only: []int{o.Job}, Reference: reference, Stop: stop})
	out.Trained, out.Hours, out.Cut = f.Trained, f.Span.Hours(), f.Cut
	if o.Job != 0 {
		out.Job = c.place(o.Job, &planner, &f, out.plan)
	}
	return out
}

// count counts jobs and what they train.
func (out *Outcome) count(c, now *policy.Cluster, reference gres.Vector) {
	types := map[string]string{}
	for i := range c.Nodes {
		types[c.Nodes[i].Name] = c.Nodes[i].GPUType
	}
	jobs, were := byNumber(c), byNumber(now)
	var held policy.GPUCount
	for _, d := range out.plan.Decisions {
		switch kindOf(were[d.Job], &d) {
		case starts:
			out.Starts++
		case stops:
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

// place is what becomes of one job.
func (c Case) place(job int, planner *policy.Planner, f *forecast.Forecast, plan policy.Plan) *Place {
	d, j := find(plan, job), jobOf(&c.Cluster, job)
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

// waitingPlace is a job's place among those that the plan lets wait, from 1: who starts now is not ahead of anybody any
// more. 0: it is in no queue.
func waitingPlace(queue []int, plan policy.Plan, job int) (place int) {
	for _, one := range queue {
		if find(plan, one).Grant == nil {
			place++
		}
		if one == job {
			return place
		}
	}
	return 0
}

// sentence is the answer in one.
func (a *Answer) sentence(changes []Change) string {
	if a.After.Job != nil {
		return a.ofJob(changes)
	}
	text := trains(a.Before.Value, a.After.Value)
	if later := trains(a.Before.Trained, a.After.Trained); later != text {
		text += fmt.Sprintf(" now, and %s over the next %.0f h", strings.TrimPrefix(later, "trains "), a.After.Hours)
	}
	return listed(changes) + " the cluster " + text + "; " + counted(len(a.Starts), "more job starts now",
		"more jobs start now") + stopped(len(a.Stops))
}

// same is a difference that is none.
const same = 0.005

func trains(before, after float64) string {
	switch more := after/max(before, 1e-9) - 1; {
	case before == 0 && after > 0:
		return fmt.Sprintf("trains %.1f GPU-hours an hour and not nothing", after)
	case more >= same:
		return fmt.Sprintf("trains %.1f %% more", 100*more)
	case more <= -same:
		return fmt.Sprintf("trains %.1f %% less", -100*more)
	}
	return "trains as much"
}

func counted(n int, one, many string) string {
	switch n {
	case 0:
		return "no " + one
	case 1:
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func stopped(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return ", and 1 more is stopped or restarted for that"
	}
	return fmt.Sprintf(", and %d more are stopped or restarted for that", n)
}

// listed are changes in a row, the beginning of a sentence.
func listed(changes []Change) string {
	texts := make([]string, len(changes))
	for i, c := range changes {
		texts[i] = c.String()
	}
	return strings.Join(texts, ", ")
}

// ofJob is the answer about a job.
func (a *Answer) ofJob(changes []Change) string {
	before, after, how := a.Before.Job, a.After.Job, " "+listed(changes)
	job := fmt.Sprintf("job %d ", after.Job)
	switch {
	case before.Runs && before.Grant == nil && after.Grant == nil:
		return job + "has to leave anyway: " + before.Why
	case before.Runs && before.Grant == nil:
		return job + "has to leave, and would stay" + how
	case before.Runs && after.Grant == nil:
		return job + "would have to leave" + how + ": " + after.Why
	case before.Runs && before.Grant != nil:
		return job + "runs, and " + strings.Replace(trains(before.Gain, after.Gain), "trains", "would train", 1) + how
	case before.Grant != nil && after.Grant != nil:
		return job + "starts now anyway"
	case before.Grant != nil:
		return job + "would not start now any more" + how + ": " + after.Why
	case after.Grant != nil:
		return job + "would start now" + how
	}
	return job + later(before, after) + how + ": " + after.Why
}

// later says of a job that waits either way when it would start.
func later(before, after *Place) string {
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
		return text + ", " + span(sooner) + " sooner,"
	case sooner < 0:
		return text + ", " + span(-sooner) + " later,"
	}
	return text + ", as now,"
}

// span is a time without seconds.
func span(d time.Duration) string { return strings.TrimSuffix(d.Round(time.Minute).String(), "0s") }
