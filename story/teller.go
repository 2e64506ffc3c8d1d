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

// Head is who a job is.
type Head struct {
	Name      string    `json:"name,omitempty"`
	User      string    `json:"user,omitempty"`
	Profile   string    `json:"profile,omitempty"` // empty: it has the proportional share
	GPUs      int       `json:"gpus,omitempty"`
	Submitted time.Time `json:"submitted,omitzero"` // first; a requeue does not change it
	Saves     bool      `json:"saves,omitempty"`    // it can be asked to give way
}

// Run is one run of a job: with what, when, why, and at what speed.
type Run struct {
	Job       int              `json:"job"`
	Name      string           `json:"name,omitempty"`
	User      string           `json:"user,omitempty"`
	Profile   string           `json:"profile,omitempty"`
	Submitted time.Time        `json:"submitted,omitzero"`
	Began     time.Time        `json:"began"`
	Ended     time.Time        `json:"ended,omitzero"` // when that was seen; zero: it runs
	Held      policy.Placement `json:"held"`
	Fair      gres.Vector      `json:"fair,omitzero"` // its proportional share on each node
	// Gain is how many times as fast as with its share it was to train, by its profile; 0: not known.
	Gain float64 `json:"gain,omitempty"`
	// Ran is how many iterations a second it did by its own reports, the mean over Windows of them, and Claimed how
	// many its profile says; 0: not known.
	Ran     float64 `json:"ran,omitempty"`
	Claimed float64 `json:"claimed,omitempty"`
	Windows int     `json:"windows,omitempty"`
	Why     string  `json:"why,omitempty"`   // it was started; empty: Slurm did, or nobody saw it
	Round   int     `json:"round,omitempty"` // which started it
	Small   bool    `json:"small,omitempty"` // a small round after that
	Shadow  bool    `json:"shadow,omitempty"`
	GPUTime float64 `json:"gpu_s,omitempty"` // GPU-seconds, of one that has ended
	End     string  `json:"end,omitempty"`   // Slurm's word, or Requeued or Unseen

	from float64 // what the job had attained before
}

// How a run ended of which Slurm says nothing.
const (
	Requeued = "REQUEUED" // it gave way, or was put back into the queue
	Unseen   = "UNSEEN"   // Slurm did not tell how the job ended
)

// Passage is what one report tells anew of a job.
type Passage struct {
	Job    int     `json:"job"`
	Head   *Head   `json:"head,omitempty"` // where it is the first, or has changed
	Events []Event `json:"events,omitempty"`
	// Runs are those that began, and those that ended; a run is told again, with its end.
	Runs []Run `json:"runs,omitempty"`
}

// memory is what a teller remembers of a job from one report to the next.
type memory struct {
	head  Head
	said  string    // what the last report decided, without its figures
	at    time.Time // when that was told
	why   string    // it was started, by the last that did
	round int
	small bool
	run   *Run
	over  bool
	gone  int // rounds in a row in which nothing was told of it
}

// Teller reads reports in their order and tells what is new in each. The zero value remembers nothing: to it all is
// new. It is not for several goroutines at once.
type Teller struct{ jobs map[int]memory }

// Clone is a teller that goes on by itself from here.
func (t *Teller) Clone() *Teller {
	jobs := make(map[int]memory, len(t.jobs))
	for id, m := range t.jobs {
		if m.run != nil {
			run := *m.run
			m.run = &run
		}
		jobs[id] = m
	}
	return &Teller{jobs}
}

// Running are the runs under way, ascending in job.
func (t *Teller) Running() []Run {
	var runs []Run
	for _, id := range slices.Sorted(maps.Keys(t.jobs)) {
		if run := t.jobs[id].run; run != nil {
			runs = append(runs, *run)
		}
	}
	return runs
}

// Remind gives runs under way what only an earlier word of them knew: why they were started, and how fast they ran.
func (t *Teller) Remind(runs []Run) {
	for _, r := range runs {
		if m := t.jobs[r.Job]; m.run != nil && m.run.Began.Equal(r.Began) && r.Ended.IsZero() {
			from := m.run.from
			*m.run = m.run.after(r)
			m.run.from = from
		}
	}
}

// flutter is for how long a job that waits is told nothing of a reason that changes: some go to and fro every round.
const flutter = time.Hour

// Tell is what a report tells anew, ascending in job. A report without a plan tells nothing.
func (t *Teller) Tell(report *bridge.Report) []Passage {
	if len(report.Plan.Decisions) < len(report.Snapshot.Jobs) || len(report.Snapshot.Nodes) == 0 {
		return nil
	}
	if t.jobs == nil {
		t.jobs = map[int]memory{}
	}
	p := &passages{report: report, teller: t, of: map[int]*Passage{}}
	decisions := make(map[int]*policy.Decision, len(report.Plan.Decisions))
	for i := range report.Plan.Decisions {
		decisions[report.Plan.Decisions[i].Job] = &report.Plan.Decisions[i]
	}
	p.seen = make(map[int]bool, len(report.Snapshot.Jobs))
	for i := range report.Snapshot.Jobs {
		j := &report.Snapshot.Jobs[i]
		p.seen[j.ID] = true
		if d := decisions[j.ID]; d != nil {
			p.planned(j, d)
		}
	}
	p.acted()
	p.sped()
	p.ended()
	p.vanished()
	return p.sorted()
}

// passages are those of one report.
type passages struct {
	report *bridge.Report
	teller *Teller
	seen   map[int]bool
	of     map[int]*Passage
}

func (p *passages) passage(job int) *Passage {
	if p.of[job] == nil {
		p.of[job] = &Passage{Job: job}
	}
	return p.of[job]
}

func (p *passages) tell(job int, what, fault string) {
	passage := p.passage(job)
	passage.Events = append(passage.Events, Event{Round: p.report.Round, At: p.report.Began, Small: p.report.Small,
		What: what, Error: fault})
}

func (p *passages) sorted() []Passage {
	list := make([]Passage, 0, len(p.of))
	for _, job := range slices.Sorted(maps.Keys(p.of)) {
		list = append(list, *p.of[job])
	}
	return list
}

// planned tells what was decided about a job, where that is new, and follows its runs.
func (p *passages) planned(j *policy.Job, d *policy.Decision) {
	m := p.teller.jobs[j.ID]
	head := Head{j.Name, j.User, j.ProfileName, j.GPUs, j.Arrival, j.Saves}
	if head != m.head {
		m.head, p.passage(j.ID).Head = head, &head
	}
	m.over = false
	p.follow(&m, j, d)
	if said := gist(j, d); said != m.said && !m.fluttersFrom(d, p.report.Began) {
		m.said, m.at = said, p.report.Began
		p.tell(j.ID, phrase(j, d), "")
	}
	p.teller.jobs[j.ID] = m
}

// fluttersFrom says that a job which waits on was told a short while ago why.
func (m *memory) fluttersFrom(d *policy.Decision, now time.Time) bool {
	return d.Grant == nil && strings.HasPrefix(m.said, waiting) && now.Sub(m.at) < flutter && now.After(m.at)
}

const waiting = "waits "

// gist is what a round decided about a job, without figures that change from round to round.
func gist(j *policy.Job, d *policy.Decision) string {
	switch {
	case d.Grant == nil:
		return waiting + string(d.Reason)
	case j.Running != nil && j.Running.Equal(*d.Grant):
		return fmt.Sprintf("runs %d %v", j.Started.Unix(), d.Grant.PerNode)
	}
	return fmt.Sprintf("given %v %v", d.Grant.Nodes, d.Grant.PerNode)
}

// follow opens and closes runs of a job.
func (p *passages) follow(m *memory, j *policy.Job, d *policy.Decision) {
	if m.run != nil && (j.Running == nil || !j.Started.Equal(m.run.Began)) {
		p.close(m, Requeued, j.Attained)
	}
	if j.Running == nil {
		return
	}
	fresh := m.run == nil
	if fresh {
		m.run = &Run{Job: j.ID, Name: j.Name, User: j.User, Profile: j.ProfileName, Submitted: j.Arrival,
			Began: j.Started, Why: m.why, Round: m.round, Small: m.small, Shadow: p.report.Shadow,
			from: max(0, j.Attained-float64(p.report.Snapshot.Now.Sub(j.Started).Seconds()*float64(j.GPUs)))}
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

// close ends the run under way of a job that had attained so much service then, in GPU-seconds.
func (p *passages) close(m *memory, end string, attained float64) {
	run := *m.run
	m.run, run.End, run.Ended = nil, end, p.report.Snapshot.Now
	if run.Ended.Before(run.Began) { // a clock was set back
		run.Ended = run.Began
	}
	run.GPUTime = max(0, attained-run.from)
	p.tell(run.Job, run.String(), "")
	passage := p.passage(run.Job)
	passage.Runs = append(passage.Runs, run)
}

// String is a run that has ended in a sentence.
func (r Run) String() string {
	text := fmt.Sprintf("ran for %s with %s on %s", r.Ended.Sub(r.Began).Round(time.Second), size(r.Held),
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

// acted tells what was done to jobs.
func (p *passages) acted() {
	for _, step := range p.report.Steps {
		deed := deedOf(p.report, step)
		if deed == "" {
			continue
		}
		p.tell(step.Job, deed+": "+step.Why, step.Error)
		if m, known := p.teller.jobs[step.Job]; known && (step.Verb == bridge.Start || step.Verb == bridge.Arm) &&
			step.Error == "" {
			m.why, m.round, m.small = step.Why, p.report.Round, p.report.Small
			p.teller.jobs[step.Job] = m
		}
	}
}

// sped takes over how fast jobs ran by their own reports.
func (p *passages) sped() {
	for _, s := range p.report.Speeds {
		m := p.teller.jobs[s.Job]
		if m.run == nil || s.Ran <= 0 {
			continue
		}
		m.run.Windows++
		m.run.Ran += (s.Ran - m.run.Ran) / float64(m.run.Windows)
		m.run.Claimed = s.Claimed
		if bits.OnesCount(uint(m.run.Windows)) == 1 { // 1, 2, 4, …: so Remind knows about that
			passage := p.passage(s.Job)
			passage.Runs = append(passage.Runs, *m.run)
		}
	}
}

// ended tells of jobs that are over, each once: Slurm tells of it for a while.
func (p *passages) ended() {
	for _, e := range p.report.Ended {
		p.seen[e.Job] = true
		m, known := p.teller.jobs[e.Job]
		if !known || m.over { // it was over before somebody began to listen, or that is told
			continue
		}
		if m.run != nil {
			p.close(&m, e.End.State, e.Attained)
		}
		p.tell(e.Job, endOf(e), "")
		m.over = true
		p.teller.jobs[e.Job] = m
	}
}

// patience is after how many rounds a job of which nothing is told is gone: while it is torn down nothing is, and how
// it ended is told then.
const patience = 2

// vanished forgets jobs of which nothing is told any more.
func (p *passages) vanished() {
	for _, o := range p.report.Outside {
		p.seen[o.Job] = true
	}
	for _, job := range slices.Sorted(maps.Keys(p.teller.jobs)) {
		m := p.teller.jobs[job]
		if p.seen[job] {
			m.gone = 0
			p.teller.jobs[job] = m
			continue
		}
		if !p.report.Small {
			m.gone++
		}
		if m.gone < patience {
			p.teller.jobs[job] = m
			continue
		}
		if m.run != nil {
			p.close(&m, Unseen, m.run.from+float64(p.report.Snapshot.Now.Sub(m.run.Began).Seconds()*
				float64(m.run.Held.Total().GPUs)))
		}
		delete(p.teller.jobs, job)
	}
}

// Join is a job's story from what was told of it over time, the oldest first, and what the newest reports say of it
// now.
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
	if len(s.Events) == 0 { // nobody has booked it yet
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

// MergeRuns adds runs to others of the same job. One that is told again takes the place of what was told of it before.
func MergeRuns(runs, more []Run) []Run {
	for _, r := range more {
		k := slices.IndexFunc(runs, func(had Run) bool { return had.Job == r.Job && had.Began.Equal(r.Began) })
		if k < 0 {
			runs = append(runs, r)
			continue
		}
		runs[k] = r.after(runs[k])
	}
	return runs
}

// after is a run that was told twice, in whatever order: how it ended, and what only one word of it knew.
func (r Run) after(before Run) Run {
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
