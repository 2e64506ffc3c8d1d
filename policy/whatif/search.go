package whatif

import (
	"fmt"
	"math"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// Try is a change that was tried for a job.
type Try struct {
	Kind   string `json:"kind"` // kind of change, in words
	Change string `json:"change"`
	Starts bool   `json:"starts"`        // the job would start now
	Why    string `json:"why,omitempty"` // why it would still wait
	// Grant, Gain, Sentence and Others are set if the job would start: its placement, the answer, and the jobs that
	// would be worse off in this round.
	Grant    *policy.Placement `json:"grant,omitempty"`
	Gain     float64           `json:"gain,omitempty"`
	Sentence string            `json:"sentence,omitempty"`
	Others   *Others           `json:"others,omitempty"` // nil: no other job is worse off

	Made Change `json:"-"`
}

// Found is the result of a search for changes that start a job now.
type Found struct {
	// Sentence names the change that costs least, or says that there is none.
	Sentence string `json:"sentence"`
	Now      *Place `json:"job"` // the outcome without a change
	// Tries lists all changes that were tried, in their order; at most one of each kind starts the job.
	Tries []Try `json:"tries"`
	// Cut says that there was no time to try everything.
	Cut bool `json:"cut,omitempty"`
}

// Search tries changes by which a job could start now, kind by kind, from those that cost its user least to those that
// cost the user or others more. It goes on to the next kind once one starts the job. The daemon's planner plans each
// change, so a change that is named works as long as nothing else has changed.
func Search(is Case, job int, o Options) (Found, error) {
	o.Job = job
	j := jobOf(&is.Cluster, job)
	if j == nil {
		return Found{}, fmt.Errorf("job %d is not in the snapshot: want one that waits or runs", job)
	}
	now := is.outcome(o, policy.Reference(is.Cluster.Nodes), &is.Cluster)
	found := Found{Now: now.Job, Tries: []Try{}}
	switch {
	case now.Job.Runs:
		found.Sentence = fmt.Sprintf("job %d runs already", job)
	case now.Job.Grant != nil:
		found.Sentence = fmt.Sprintf("job %d starts now", job)
	case j.Barred != "":
		found.Sentence = fmt.Sprintf("job %d may not start yet, whatever is free: %s", job, j.Barred)
	default:
		s := search{is: is, job: j, before: now.plan, stop: func() bool { return false }}
		if o.Begin != nil {
			s.stop = o.Begin()
		}
		s.tryAll()
		found.Tries, found.Cut = s.tries, s.cut
		found.Sentence = found.sentence()
	}
	return found, nil
}

// search is the state of a search for changes that start a job (Search).
type search struct {
	is      Case // as it is, without a change
	job     *policy.Job
	before  policy.Plan    // of that case
	planner policy.Planner // shared by all tries, since most of the cluster stays the same
	stop    func() bool    // whether the time for the search is over
	tries   []Try
	cut     bool // the time was over before all was tried
}

// tryAll tries kind after kind. Of each kind it stops at the first change that starts the job, since the candidates
// come with the one that costs least first. Changes that are impossible for the job are left out of the tries, and so
// are all that there is no time for.
func (s *search) tryAll() {
	for _, r := range reliefs(&s.is, s.job) {
		for _, change := range r.changes {
			try, can := s.tryChange(r.name, change)
			if !can {
				continue // not possible for this job
			}
			if try.Starts && r.refine != nil {
				try = r.refine(s, try)
			}
			if s.tries = append(s.tries, try); try.Starts {
				break
			}
		}
	}
}

// tryChange plans one change; false if the change is impossible for the job or there is no time. It also finds which
// other jobs would be worse off.
func (s *search) tryChange(kind string, change Change) (Try, bool) {
	if s.cut = s.cut || s.stop(); s.cut { // once it is cut no further change is tried
		return Try{}, false
	}
	would, err := s.is.With(change)
	if err != nil {
		return Try{}, false
	}
	plan := s.planner.Decide(would.Cluster, would.Policy, would.Allocator)
	d := decisionOf(plan, s.job.ID)
	try := Try{Kind: kind, Change: change.String(), Starts: d.Grant != nil, Why: d.Why, Made: change}
	if try.Starts {
		try.Why, try.Grant, try.Gain = "", d.Grant, d.Gain
		try.Others = worseOff(&s.is.Cluster, s.job.ID, s.before, plan)
		try.Sentence = try.sentence(s.job.ID)
	}
	return try, true
}

// sentence is the answer, for the user, for a change that starts the job.
func (t *Try) sentence(job int) string {
	text := fmt.Sprintf("job %d would start now %s", job, t.Change)
	if t.Gain > 0 && t.Gain < 1-equalTolerance {
		text += fmt.Sprintf(", at %.2f of the speed of its share", t.Gain)
	}
	if t.Others != nil {
		text += "; " + t.Others.String()
	}
	return text
}

// sentence is the answer of the search: that of the first change that starts the job, which costs least, or what was
// tried in vain.
func (f *Found) sentence() string {
	for _, t := range f.Tries {
		if t.Starts {
			return t.Sentence
		}
	}
	text := fmt.Sprintf("job %d waits: %s; nothing that was tried would start it now: %s", f.Now.Job, f.Now.Why,
		f.triedText())
	if f.Now.Words != "" {
		text += "; it is " + f.Now.Words
	}
	return text
}

// triedText lists the kinds of changes that were tried, with their numbers, for an answer that names none.
func (f *Found) triedText() string {
	var texts []string
	for k := 0; k < len(f.Tries); {
		end := k
		for end < len(f.Tries) && f.Tries[end].Kind == f.Tries[k].Kind {
			end++
		}
		text := f.Tries[k].Kind
		if end-k > 1 {
			text = fmt.Sprintf("%s (%d)", text, end-k)
		}
		texts, k = append(texts, text), end
	}
	if len(texts) == 0 {
		return "there was no time for any"
	}
	return strings.Join(texts, ", ")
}

// Others are the jobs that would be worse off in the round if another job started; ascending.
type Others struct {
	Wait []int `json:"wait,omitempty"` // start now without the change
	Stop []int `json:"stop,omitempty"` // keep running without the change
	Slow []int `json:"slow,omitempty"` // would get less
	// Loss is the largest loss of speed of one of the Slow jobs, as a part of its speed.
	Loss float64 `json:"loss,omitempty"`
}

// worseOff compares two plans, without and with a change, for all jobs but the one with ID but; nil if no job is worse
// off by it.
func worseOff(c *policy.Cluster, but int, before, after policy.Plan) *Others {
	var o Others
	jobs := jobsByID(c)
	for i := range before.Decisions {
		is := &before.Decisions[i]
		if is.Job == but || is.Grant == nil {
			continue
		}
		o.addIfWorse(jobs[is.Job], is, decisionOf(after, is.Job))
	}
	if len(o.Wait)+len(o.Stop)+len(o.Slow) == 0 {
		return nil
	}
	return &o
}

// addIfWorse adds a job that has a grant without the change to the lists in which it belongs. is is its decision
// without the change, would the one with it. A job that is stopped to be restarted with less is in two lists: Stop and
// Slow.
func (o *Others) addIfWorse(j *policy.Job, is, would *policy.Decision) {
	then, now := effectOf(j, would), effectOf(j, is)
	switch {
	case now == effectStarts && then == effectWaits:
		o.Wait = append(o.Wait, j.ID)
		return
	case then == effectStops && now != effectStops || would.Grant == nil:
		o.Stop = append(o.Stop, j.ID)
	}
	if loss := 1 - would.Gain/max(is.Gain, 1e-9); would.Grant != nil && loss >= equalTolerance {
		o.Slow = append(o.Slow, j.ID)
		o.Loss = math.Max(o.Loss, loss)
	}
}

// String lists the jobs and what would happen to them.
func (o *Others) String() string {
	var texts []string
	if len(o.Wait) > 0 {
		texts = append(texts, jobsText(o.Wait)+" would wait for that and not start now")
	}
	if len(o.Stop) > 0 {
		texts = append(texts, jobsText(o.Stop)+" would be stopped or restarted for that")
	}
	if len(o.Slow) > 0 {
		text := jobsText(o.Slow) + " would train "
		if len(o.Slow) > 1 {
			text += "up to "
		}
		texts = append(texts, text+fmt.Sprintf("%.0f %% less", math.Ceil(100*o.Loss)))
	}
	return strings.Join(texts, ", ")
}

// jobsText lists up to three jobs by their IDs and counts the rest: "jobs 4, 5, 6 and 2 more".
func jobsText(ids []int) string {
	const few = 3
	var names []string
	for _, id := range ids[:min(len(ids), few)] {
		names = append(names, fmt.Sprint(id))
	}
	text := "job "
	if len(ids) > 1 {
		text = "jobs "
	}
	text += strings.Join(names, ", ")
	if more := len(ids) - few; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
