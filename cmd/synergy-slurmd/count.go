package main

import (
	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// tally is a report in numbers.
type tally struct {
	granted, waiting, outside int
	// causes counts all waiting jobs, outside ones included.
	causes      map[bridge.WaitCause]int
	given, fair gres.Vector // sums of all grants, and of their proportional shares
	gain        float64     // mean over the granted GPUs; 0: none is granted
	steps       map[stepKind]int
	held        policy.GPUCount
}

// stepKind is a verb with the outcome of its steps.
type stepKind struct {
	verb    bridge.Verb
	outcome outcome
}

// outcome is how something ended, as a label for counting.
type outcome string

const (
	done    outcome = "done"
	failed  outcome = "failed"
	planned outcome = "planned" // in shadow mode nothing more happens
	putOff  outcome = "put-off" // to a later round
	resized outcome = "resized" // Slurm had just started the job with another size than planned
)

// count counts the decisions, waits and steps of a report.
func count(report bridge.Report) tally {
	t := tally{
		outside: len(report.Outside),
		causes:  make(map[bridge.WaitCause]int),
		steps:   make(map[stepKind]int),
	}
	for _, decision := range report.Plan.Decisions {
		t.decision(decision)
	}
	if t.given.GPUs > 0 {
		t.gain /= float64(t.given.GPUs)
	}
	for _, w := range report.Waits {
		t.causes[w.Cause]++
	}
	for _, step := range report.Steps {
		t.steps[stepKind{step.Verb, outcomeOf(step, report.Shadow)}]++
	}
	return t
}

// decision adds the decision for one job. A shared GPU is counted once: for the first of its jobs. The gains of all its
// jobs count, since the sum is divided by GPUs.
func (t *tally) decision(d policy.Decision) {
	if d.Grant == nil {
		t.waiting++
		return
	}
	t.granted++
	given := d.Grant.Total()
	t.gain += d.Gain * float64(given.GPUs)
	if given.GPUs = t.held.More(*d.Grant) * len(d.Grant.Nodes); given.GPUs > 0 { // else it shares a GPU already counted
		t.fair = t.fair.Plus(d.Fair.Times(len(d.Grant.Nodes)))
	}
	t.given = t.given.Plus(given)
}

// outcomeOf is how a step ended.
func outcomeOf(step bridge.Step, shadow bool) outcome {
	switch {
	case step.Error != "":
		return failed
	case shadow:
		return planned
	case step.PutOff:
		return putOff
	case step.Got != nil:
		return resized
	}
	return done
}

// of is the number of steps of a verb that did not fail and were not put off.
func (t *tally) of(verb bridge.Verb) int {
	return t.steps[stepKind{verb, done}] + t.steps[stepKind{verb, planned}] + t.steps[stepKind{verb, resized}]
}

func (t *tally) failures() int { return t.all(failed) }

func (t *tally) putOff() int { return t.all(putOff) }

// all is the number of steps with this outcome.
func (t *tally) all(ended outcome) int {
	sum := 0
	for kind, n := range t.steps {
		if kind.outcome == ended {
			sum += n
		}
	}
	return sum
}
