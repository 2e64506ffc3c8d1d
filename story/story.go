// Package story tells what became of a job, from the reports of rounds: what it waited for, what it was given where and
// why, what was done to it. It does not know where reports come from, so the daemon and the ledger of a dead daemon
// give the same answers. Why-not is a second opinion: what nodes lack is computed anew from what the plan leaves, and a
// change of a request is named only if policy.Check passes a plan with it.
package story

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// Story is what the given rounds say about a job.
type Story struct {
	Job       int       `json:"job"`
	Known     bool      `json:"known"` // some round planned it; otherwise only Notes and Events have content
	Name      string    `json:"name,omitempty"`
	User      string    `json:"user,omitempty"`
	Profile   string    `json:"profile,omitempty"` // empty: it gets the proportional share
	GPUs      int       `json:"gpus,omitempty"`
	Submitted time.Time `json:"submitted,omitzero"` // of the first submission; a requeue does not change it
	Restarts  int       `json:"restarts"`
	Saves     bool      `json:"saves"` // it has a checkpoint, so it can be asked to leave
	Round     int       `json:"round"` // the newest round that planned it
	Now       string    `json:"now"`   // what that round decided, such as "waits: …"
	Gain      float64   `json:"gain,omitempty"`
	// Wait is why it waits, if it does. Ahead is how many jobs ahead of it wait for room, and Next lists the first of
	// them.
	Wait    *bridge.Wait `json:"wait,omitempty"`
	Ahead   int          `json:"ahead,omitempty"`
	Next    []int        `json:"ahead_next,omitempty"`
	GPUTime float64      `json:"attained_gpu_s,omitempty"`
	Notes   []string     `json:"notes,omitempty"`
	Events  []Event      `json:"events"`         // the oldest first
	Runs    []Run        `json:"runs,omitempty"` // the oldest first; filled from a history only
}

// Event is what one round newly decided about the job, or did to it.
type Event struct {
	Round int       `json:"round"`
	At    time.Time `json:"at"`
	Small bool      `json:"small,omitempty"` // a small round, after the round with that number
	What  string    `json:"what"`
	Error string    `json:"error,omitempty"`
}

// Of tells the story of a job: its state in the newest round, and as events what rounds decided and did. Reports may
// come in any order. A decision that repeats the last one is left out, since a waiting job gets the same one every
// round.
func Of(job int, reports []bridge.Report) Story {
	s := Story{Job: job, Events: []Event{}}
	reports = slices.Clone(reports)
	slices.SortStableFunc(reports, func(a, b bridge.Report) int { return a.Began.Compare(b.Began) })
	said := ""
	for i := range reports {
		report := &reports[i]
		if now, ok := s.copyDecision(report); ok && now != said {
			s.addEvent(report, now, "")
			said = now
		}
		s.addStepEvents(report)
		s.updateNotes(report)
	}
	return s
}

// addEvent adds an event of a report's round. fault is the error of a step, and is empty for a step that succeeded and
// for a decision.
func (s *Story) addEvent(report *bridge.Report, what, fault string) {
	s.Events = append(s.Events, Event{Round: report.Round, At: report.Began, Small: report.Small, What: what,
		Error: fault})
}

// copyDecision copies into the story what a report knows of the job: its request, its wait and the number of jobs ahead
// of it. It returns what the round decided as text. ok is false if the round did not plan the job: then the story keeps
// what an earlier round knew.
func (s *Story) copyDecision(report *bridge.Report) (now string, ok bool) {
	job := findFirst(report.Snapshot.Jobs, func(j policy.Job) bool { return j.ID == s.Job })
	decision := findFirst(report.Plan.Decisions, func(d policy.Decision) bool { return d.Job == s.Job })
	if job == nil || decision == nil {
		return "", false
	}
	s.Known, s.Round, s.Name, s.User, s.Profile = true, report.Round, job.Name, job.User, job.ProfileName
	s.GPUs, s.Submitted, s.Restarts, s.Saves = job.GPUs, job.Arrival, job.Restarts, job.Saves
	s.GPUTime, s.Gain = job.Attained, decision.Gain
	s.Wait, s.Ahead, s.Next = findFirst(report.Waits, func(w bridge.Wait) bool { return w.Job == s.Job }), 0, nil
	if s.Wait != nil {
		before := Ahead(report.Waits, s.Wait)
		s.Ahead, s.Next = len(before), firstAhead(before)
	}
	s.Now = decisionText(job, decision)
	return s.Now, true
}

// findFirst returns a pointer to the first element of a list for which is holds, not to a copy. It returns nil if there
// is none.
func findFirst[T any](list []T, is func(T) bool) *T {
	if i := slices.IndexFunc(list, is); i >= 0 {
		return &list[i]
	}
	return nil
}

// decisionText says what a round decided about a job, for people: it waits, it goes on with what it has, or it is given
// something else. The figures in the text may change every round, so a Teller compares decisions by decisionKey, which
// leaves them out.
func decisionText(job *policy.Job, d *policy.Decision) string {
	switch {
	case d.Grant == nil:
		return "waits: " + d.Why
	case job.Running != nil && job.Running.Equal(*d.Grant):
		return fmt.Sprintf("runs since %s with %s %.2f times as fast as with that",
			job.Started.UTC().Format(time.DateTime), grantText(d), d.Gain)
	}
	return strings.TrimRight(fmt.Sprintf("is given %s %s", grantText(d), d.Why), ", ")
}

// grantText says what a decision gives a job, as the beginning of a clause that goes on with its reason or speed.
func grantText(d *policy.Decision) string {
	return fmt.Sprintf("%s on %s, where its share is %s and %s,", placementText(*d.Grant), Nodes(d.Grant.Nodes),
		countText(d.Fair.CPUs, "core"), Gigabytes(d.Fair.Memory))
}

// countText is a number of things in words.
func countText(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// placementText formats a grant: the resources on each node, and the number of nodes if there are several.
func placementText(p policy.Placement) string {
	per := ""
	if len(p.Nodes) > 1 {
		per = fmt.Sprintf(" on each of %d nodes", len(p.Nodes))
	}
	return fmt.Sprintf("%s, %s, %s%s", countText(p.PerNode.GPUs, "GPU"), countText(p.PerNode.CPUs, "core"),
		Gigabytes(p.PerNode.Memory), per)
}

// Gigabytes formats memory in the units of Slurm's users, who write 1000 MiB as 1000M.
func Gigabytes(m gres.Memory) string { return fmt.Sprintf("%.0f GB", float64(m)/1000) }

// Nodes lists the first four nodes and counts the others.
func Nodes(nodes []string) string {
	const few = 4
	text := ""
	for i, name := range nodes {
		switch {
		case i == few:
			return fmt.Sprintf("%s and %d more", text, len(nodes)-few)
		case i > 0:
			text += ", "
		}
		text += name
	}
	return text
}

// pastTense are the verbs in the past tense. A renewed lease is not part of a story.
var pastTense = map[bridge.Verb]string{
	bridge.Preempt: "asked to save and leave", bridge.Restore: "put back into the queue as its user asked for it",
	bridge.Start: "started", bridge.Release: "handed back to Slurm", bridge.Arm: "sized for Slurm to start",
}

// stepText says what a step did, for an event. In a shadow round, which only plans, it says what the step would have
// done. The text is empty for a renewed lease, which is not worth telling, and for a step that was put off, since this
// round did not do it.
func stepText(report *bridge.Report, step bridge.Step) string {
	deed := pastTense[step.Verb]
	switch {
	case step.PutOff:
		return ""
	case report.Shadow && deed != "":
		return "would be " + deed
	}
	return deed
}

// addStepEvents adds events for what the round did to the job, and for its end. The end is added once, although Slurm
// reports an ended job for a while.
func (s *Story) addStepEvents(report *bridge.Report) {
	for _, step := range report.Steps {
		if deed := stepText(report, step); step.Job == s.Job && deed != "" {
			s.addEvent(report, deed+": "+step.Why, step.Error)
		}
	}
	for _, ended := range report.Ended {
		if ended.Job == s.Job && !s.hasEnded() {
			s.addEvent(report, endText(ended), "")
		}
	}
}

// endText says how a job ended.
func endText(e bridge.Ended) string {
	return fmt.Sprintf("%s %s: it had %.1f GPU-hours", endPrefix, e.End.State, e.Attained/3600)
}

// endPrefix begins the text of the event for a job's end, by which hasEnded knows it.
const endPrefix = "is over,"

// hasEnded reports whether the last event is the job's end. A job that is requeued after its end has later events, so
// its next end counts again.
func (s *Story) hasEnded() bool {
	last := len(s.Events) - 1
	return last >= 0 && len(s.Events[last].What) >= len(endPrefix) && s.Events[last].What[:len(endPrefix)] == endPrefix
}

// updateNotes sets the story's notes to those that a round has for the job's user, and to the reason if the round
// leaves the job to Slurm. If a round has none, the notes of an older round stay, unless the round plans the job: then
// they no longer hold.
func (s *Story) updateNotes(report *bridge.Report) {
	var notes []string
	for _, n := range report.Notes {
		if n.Job == s.Job {
			notes = append(notes, n.Text)
		}
	}
	for _, o := range report.Outside {
		if o.Job == s.Job {
			notes = append(notes, "left to Slurm: "+o.Why)
		}
	}
	if notes != nil || s.Round == report.Round {
		s.Notes = notes
	}
}
