package story

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// Head is a job's identity and request.
type Head struct {
	Name      string    `json:"name,omitempty"`
	User      string    `json:"user,omitempty"`
	Profile   string    `json:"profile,omitempty"` // empty: it gets the proportional share
	GPUs      int       `json:"gpus,omitempty"`
	Submitted time.Time `json:"submitted,omitzero"` // of the first submission; a requeue does not change it
	Saves     bool      `json:"saves,omitempty"`    // it has a checkpoint, so it can be asked to leave
}

// Run is one run of a job: what it held, when, why, and at what speed.
type Run struct {
	Job       int              `json:"job"`
	Name      string           `json:"name,omitempty"`
	User      string           `json:"user,omitempty"`
	Profile   string           `json:"profile,omitempty"`
	Submitted time.Time        `json:"submitted,omitzero"`
	Began     time.Time        `json:"began"`
	Ended     time.Time        `json:"ended,omitzero"` // when the end was seen; zero: it runs
	Held      policy.Placement `json:"held"`
	Fair      gres.Vector      `json:"fair,omitzero"` // the proportional share on each node
	// Gain is the expected speed by its profile, relative to the speed with the share; 0: not known.
	Gain float64 `json:"gain,omitempty"`
	// Ran is the speed that the job reported, in iterations a second, as the mean over Windows reports, and Claimed the
	// speed of its profile; 0: not known.
	Ran     float64 `json:"ran,omitempty"`
	Claimed float64 `json:"claimed,omitempty"`
	Windows int     `json:"windows,omitempty"`
	Why     string  `json:"why,omitempty"`   // why it was started; empty: Slurm started it, or no round saw it
	Round   int     `json:"round,omitempty"` // the round that started it
	Small   bool    `json:"small,omitempty"` // a small round, after that round
	Shadow  bool    `json:"shadow,omitempty"`
	GPUTime float64 `json:"gpu_s,omitempty"` // GPU-seconds, once it has ended
	End     string  `json:"end,omitempty"`   // Slurm's state, or Requeued or Unseen

	// attainedBefore are GPU-seconds that the job had attained before this run, from which close gets those of the run.
	attainedBefore float64
}

// The ends of runs about which Slurm says nothing.
const (
	Requeued = "REQUEUED" // it was preempted or requeued
	Unseen   = "UNSEEN"   // Slurm did not report how the job ended
)

// Passage is what one report adds to a job's story.
type Passage struct {
	Job    int     `json:"job"`
	Head   *Head   `json:"head,omitempty"` // if it is the first one or has changed
	Events []Event `json:"events,omitempty"`
	// Runs are those that began or ended; a run occurs a second time with its end.
	Runs []Run `json:"runs,omitempty"`
}

// jobRecord is what a teller knows of a job from earlier reports, to find what is new in the next one.
type jobRecord struct {
	head         Head
	lastDecision string    // the last decision reported, without changing figures
	decidedAt    time.Time // when that was reported
	why          string    // why the job was started last, with round and small
	round        int
	small        bool
	run          *Run // under way; nil: none
	hasEnded     bool // its end was reported
	missedRounds int  // consecutive rounds that did not mention the job
}

// Teller reads reports in their order and finds what is new in each. To the zero value everything is new. It is not
// safe for concurrent use.
type Teller struct{ jobs map[int]jobRecord }

// Clone returns an independent copy. A caller lets the copy read a report and drops it if the passages could not be
// stored, so that the next report has them again.
func (t *Teller) Clone() *Teller {
	jobs := make(map[int]jobRecord, len(t.jobs))
	for id, m := range t.jobs {
		if m.run != nil {
			run := *m.run
			m.run = &run
		}
		jobs[id] = m
	}
	return &Teller{jobs}
}

// Running returns the runs under way, ascending in job.
func (t *Teller) Running() []Run {
	var runs []Run
	for _, id := range slices.Sorted(maps.Keys(t.jobs)) {
		if run := t.jobs[id].run; run != nil {
			runs = append(runs, *run)
		}
	}
	return runs
}

// Remind adds to the runs under way what only stored records of them know: why they were started and how fast they ran.
// A new teller needs that after a restart of the daemon, since it sees such runs for the first time. A stored record
// has no attainedBefore, so the teller's own estimate of it is kept.
func (t *Teller) Remind(runs []Run) {
	for _, r := range runs {
		if m := t.jobs[r.Job]; m.run != nil && m.run.Began.Equal(r.Began) && r.Ended.IsZero() {
			from := m.run.attainedBefore
			*m.run = m.run.merge(r)
			m.run.attainedBefore = from
		}
	}
}

// reasonDebounce is how long after a waiting job's reason was reported no further change of it is reported. Some
// reasons alternate every round, and would fill the history.
const reasonDebounce = time.Hour

// Tell returns what is new in a report: a passage for each job with news, ascending in job. It returns nothing for a
// report with fewer decisions than jobs or without nodes, as of a round that failed, since jobs that are missing there
// would count as gone. The teller remembers what it has told.
func (t *Teller) Tell(report *bridge.Report) []Passage {
	if len(report.Plan.Decisions) < len(report.Snapshot.Jobs) || len(report.Snapshot.Nodes) == 0 {
		return nil
	}
	if t.jobs == nil {
		t.jobs = map[int]jobRecord{}
	}
	p := &passages{report: report, teller: t, byJob: map[int]*Passage{}}
	decisions := make(map[int]*policy.Decision, len(report.Plan.Decisions))
	for i := range report.Plan.Decisions {
		decisions[report.Plan.Decisions[i].Job] = &report.Plan.Decisions[i]
	}
	p.mentioned = make(map[int]bool, len(report.Snapshot.Jobs))
	for i := range report.Snapshot.Jobs {
		j := &report.Snapshot.Jobs[i]
		p.mentioned[j.ID] = true
		if d := decisions[j.ID]; d != nil {
			p.addDecision(j, d)
		}
	}
	p.addSteps()
	p.addSpeeds()
	p.addEnds()
	p.forgetMissing()
	return p.sorted()
}

// passages collects the passages of one report.
type passages struct {
	report    *bridge.Report
	teller    *Teller
	mentioned map[int]bool     // jobs that the report mentions
	byJob     map[int]*Passage // of the jobs with news
}

// passage returns a job's passage, and makes it when it is first needed: a job without news has none.
func (p *passages) passage(job int) *Passage {
	if p.byJob[job] == nil {
		p.byJob[job] = &Passage{Job: job}
	}
	return p.byJob[job]
}

// addJobEvent adds an event to a job's passage. fault is the error of a step, and is empty for a step that succeeded
// and for a decision.
func (p *passages) addJobEvent(job int, what, fault string) {
	passage := p.passage(job)
	passage.Events = append(passage.Events, Event{Round: p.report.Round, At: p.report.Began, Small: p.report.Small,
		What: what, Error: fault})
}

// sorted returns the passages, ascending in job.
func (p *passages) sorted() []Passage {
	list := make([]Passage, 0, len(p.byJob))
	for _, job := range slices.Sorted(maps.Keys(p.byJob)) {
		list = append(list, *p.byJob[job])
	}
	return list
}

// addDecision adds to the job's passage an event, if the decision d about job j is a new one, and the job's head, if
// the head has changed. Most rounds repeat the last decision, which is not stored again. It also starts and ends the
// job's runs (followRuns), and stores the job's record in the teller.
func (p *passages) addDecision(j *policy.Job, d *policy.Decision) {
	m := p.teller.jobs[j.ID]
	head := Head{j.Name, j.User, j.ProfileName, j.GPUs, j.Arrival, j.Saves}
	if head != m.head {
		m.head, p.passage(j.ID).Head = head, &head
	}
	m.hasEnded = false
	p.followRuns(&m, j, d)
	if said := decisionKey(j, d); said != m.lastDecision && !m.isDebounced(d, p.report.Began) {
		m.lastDecision, m.decidedAt = said, p.report.Began
		p.addJobEvent(j.ID, decisionText(j, d), "")
	}
	p.teller.jobs[j.ID] = m
}

// isDebounced reports whether a job still waits and its last reported reason is younger than reasonDebounce: then a new
// reason is not reported yet. It is false after a clock was set back to before that report, since the age is not known
// then.
func (m *jobRecord) isDebounced(d *policy.Decision, now time.Time) bool {
	return d.Grant == nil && strings.HasPrefix(m.lastDecision, waitPrefix) && now.Sub(m.decidedAt) < reasonDebounce &&
		now.After(m.decidedAt)
}

// waitPrefix begins the decisionKey of a job that waits.
const waitPrefix = "waits "

// decisionKey is a round's decision about a job without the figures that change every round. Decisions with equal keys
// are the same, and only the first is reported.
func decisionKey(j *policy.Job, d *policy.Decision) string {
	switch {
	case d.Grant == nil:
		return waitPrefix + string(d.Reason)
	case j.Running != nil && j.Running.Equal(*d.Grant):
		return fmt.Sprintf("runs %d %v", j.Started.Unix(), d.Grant.PerNode)
	}
	return fmt.Sprintf("given %v %v", d.Grant.Nodes, d.Grant.PerNode)
}

// followRuns notices when runs of a job begin and end, and adds them to its passage. A run is identified by its start
// time, so a run with another start time means that the job was requeued in between. The run's gain and share are taken
// from the plan only while the plan grants what the run holds. A new run takes the reason of the last start from the
// record m, and clears it there, so that no later run gets it.
func (p *passages) followRuns(m *jobRecord, j *policy.Job, d *policy.Decision) {
	if m.run != nil && (j.Running == nil || !j.Started.Equal(m.run.Began)) {
		p.endRun(m, Requeued, p.attainedBefore(j))
	}
	if j.Running == nil {
		return
	}
	fresh := m.run == nil
	if fresh {
		m.run = &Run{Job: j.ID, Name: j.Name, User: j.User, Profile: j.ProfileName, Submitted: j.Arrival,
			Began: j.Started, Why: m.why, Round: m.round, Small: m.small, Shadow: p.report.Shadow,
			attainedBefore: p.attainedBefore(j)}
		m.why, m.round, m.small = "", 0, false
	}
	if d.Grant != nil && d.Grant.Equal(*j.Running) {
		m.run.Gain, m.run.Fair = d.Gain, d.Fair
	}
	m.run.Held = *j.Running
	if fresh {
		passage := p.passage(j.ID)
		passage.Runs = append(passage.Runs, *m.run)
	}
}

// endRun ends the run under way in the record m, and adds the run and an event for it to the job's passage. There must
// be a run under way. end is Slurm's state, or Requeued or Unseen. attained is what the job had attained by the end in
// all its runs, in GPU-seconds; what it had before this run is subtracted.
func (p *passages) endRun(m *jobRecord, end string, attained float64) {
	run := *m.run
	m.run, run.End, run.Ended = nil, end, p.report.Snapshot.Now
	if run.Ended.Before(run.Began) { // a clock was set back
		run.Ended = run.Began
	}
	run.GPUTime = max(0, attained-run.attainedBefore)
	p.addJobEvent(run.Job, run.String(), "")
	passage := p.passage(run.Job)
	passage.Runs = append(passage.Runs, run)
}

// attainedBefore estimates how many GPU-seconds a job had attained before its present run: what it has now, less its
// GPUs times the length of the run so far. If the job does not run, the result is all that it has.
func (p *passages) attainedBefore(j *policy.Job) float64 {
	if j.Running == nil {
		return j.Attained
	}
	return max(0, j.Attained-float64(p.report.Snapshot.Now.Sub(j.Started).Seconds()*float64(j.GPUs)))
}

// String describes an ended run in a sentence.
func (r Run) String() string {
	text := fmt.Sprintf("ran for %s with %s on %s", r.Ended.Sub(r.Began).Round(time.Second), placementText(r.Held),
		Nodes(r.Held.Nodes))
	if r.Gain > 0 {
		text += fmt.Sprintf(", %.2f times as fast as with its share by its profile", r.Gain)
	}
	switch {
	case r.Ran > 0 && r.Claimed > 0:
		text += fmt.Sprintf("; it reported %.3g iterations/s, where its profile says %.3g", r.Ran, r.Claimed)
	case r.Ran > 0:
		text += fmt.Sprintf("; it reported %.3g iterations/s", r.Ran)
	}
	return text
}

// addSteps adds events for the round's steps. It also keeps in a job's record why the job is started, since the
// snapshot of this round is from before the start: only a later round sees the run.
func (p *passages) addSteps() {
	for _, step := range p.report.Steps {
		deed := stepText(p.report, step)
		if deed == "" {
			continue
		}
		p.addJobEvent(step.Job, deed+": "+step.Why, step.Error)
		if m, known := p.teller.jobs[step.Job]; known && (step.Verb == bridge.Start || step.Verb == bridge.Arm) &&
			step.Error == "" {
			m.why, m.round, m.small = step.Why, p.report.Round, p.report.Small
			p.teller.jobs[step.Job] = m
		}
	}
}

// addSpeeds adds the speeds that jobs reported to the means of their runs. Not every report stores the run again, but
// the first, second, fourth, eighth and so on, so that a long run has few records. Speeds of jobs without a run under
// way are left out.
func (p *passages) addSpeeds() {
	for _, s := range p.report.Speeds {
		m := p.teller.jobs[s.Job]
		if m.run == nil || s.Ran <= 0 {
			continue
		}
		m.run.Windows++
		m.run.Ran += (s.Ran - m.run.Ran) / float64(m.run.Windows)
		m.run.Claimed = s.Claimed
		if bits.OnesCount(uint(m.run.Windows)) == 1 { // stored at 1, 2, 4, … windows, for Remind
			passage := p.passage(s.Job)
			passage.Runs = append(passage.Runs, *m.run)
		}
	}
}

// addEnds adds an event for the end of each job, once, although Slurm reports an ended job for a while.
func (p *passages) addEnds() {
	for _, e := range p.report.Ended {
		p.mentioned[e.Job] = true
		m, known := p.teller.jobs[e.Job]
		if !known || m.hasEnded { // it ended before the first report, or its end was reported
			continue
		}
		if m.run != nil {
			p.endRun(&m, e.End.State, e.Attained)
		}
		p.addJobEvent(e.Job, endText(e), "")
		m.hasEnded = true
		p.teller.jobs[e.Job] = m
	}
}

// maxMissedRounds is after how many rounds without any mention a job counts as gone. While Slurm tears a job down it is
// not mentioned, and its end is reported afterwards.
const maxMissedRounds = 2

// forgetMissing forgets jobs that maxMissedRounds rounds in a row did not mention, so that the teller does not grow for
// ever. Small rounds do not count, since there may be many between two rounds, in the time in which Slurm tears a job
// down. If such a job has a run under way, the run is ended as Unseen with the GPU time since its start.
func (p *passages) forgetMissing() {
	for _, o := range p.report.Outside {
		p.mentioned[o.Job] = true
	}
	for _, job := range slices.Sorted(maps.Keys(p.teller.jobs)) {
		m := p.teller.jobs[job]
		if p.mentioned[job] {
			m.missedRounds = 0
			p.teller.jobs[job] = m
			continue
		}
		if !p.report.Small {
			m.missedRounds++
		}
		if m.missedRounds < maxMissedRounds {
			p.teller.jobs[job] = m
			continue
		}
		if m.run != nil {
			p.endRun(&m, Unseen, m.run.attainedBefore+float64(p.report.Snapshot.Now.Sub(m.run.Began).Seconds()*
				float64(m.run.Held.Total().GPUs)))
		}
		delete(p.teller.jobs, job)
	}
}

// Join combines what a history has about a job with what the newest reports say. past are its passages, the oldest
// first, and now is the story from the reports, which alone know the present state. If now does not know the job, its
// head, its last state and the sums over its runs come from the passages. Events come from now only if the history has
// none.
func Join(job int, past []Passage, now Story) Story {
	s := Story{Job: job, Events: []Event{}}
	if now.Known {
		s = now
		s.Events = []Event{}
	}
	for _, p := range past {
		if p.Head != nil && !now.Known {
			s.Known, s.Name, s.User, s.Profile = true, p.Head.Name, p.Head.User, p.Head.Profile
			s.GPUs, s.Submitted, s.Saves = p.Head.GPUs, p.Head.Submitted, p.Head.Saves
		}
		s.Events = append(s.Events, p.Events...)
		s.Runs = MergeRuns(s.Runs, p.Runs)
	}
	if len(s.Events) == 0 { // no report was stored yet
		s.Events = append(s.Events, now.Events...)
	}
	if n := len(s.Events); n > 0 && !now.Known {
		s.Round, s.Now = s.Events[n-1].Round, s.Events[n-1].What
		s.Restarts, s.GPUTime = max(0, len(s.Runs)-1), 0
		for _, r := range s.Runs {
			s.GPUTime += r.GPUTime
			s.Gain = r.Gain
		}
	}
	if now.Notes != nil {
		s.Notes = now.Notes
	}
	return s
}

// MergeRuns adds runs to a list. A history has several records of one run, from its begin, its speeds and its end. So a
// run of the same job and start as one in the list is merged with that one and not added.
func MergeRuns(runs, more []Run) []Run {
	for _, r := range more {
		k := slices.IndexFunc(runs, func(had Run) bool { return had.Job == r.Job && had.Began.Equal(r.Began) })
		if k < 0 {
			runs = append(runs, r)
			continue
		}
		runs[k] = r.merge(runs[k])
	}
	return runs
}

// merge merges two records of one run, given in either order. The result is the later record with what only the earlier
// one knows: why the run was started, and its speed. A record with an end is the later one; of two without an end it is
// the one with more windows.
func (r Run) merge(before Run) Run {
	if r.Ended.IsZero() && (!before.Ended.IsZero() || before.Windows > r.Windows) {
		r, before = before, r
	}
	if r.Why == "" {
		r.Why, r.Round, r.Small = before.Why, before.Round, before.Small
	}
	if r.Windows == 0 {
		r.Ran, r.Claimed, r.Windows = before.Ran, before.Claimed, before.Windows
	}
	return r
}
