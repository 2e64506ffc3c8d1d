package bridge

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/learned"
)

// Learned stores what was learned from jobs, over restarts. An entry that it returns is never changed. It is
// implemented by the package shelf and by a map in tests.
type Learned interface {
	// Of is the entry of an owner and a job name; nil: none. It must be cheap, since each round asks for each job.
	Of(key learned.Key) *learned.Entry
	// Keep replaces the entry of the same key. On an error the old entry stays.
	Keep(e *learned.Entry) error
}

// Lesson is one outcome of learning.
type Lesson struct {
	User   string `json:"user"`
	Name   string `json:"job_name"`
	Job    int    `json:"job"`    // that reported it
	Points int    `json:"points"` // that are known now
	Forgot bool   `json:"forgot"` // all was forgotten, since the job's speed does not fit what was known
}

// lesson is an entry and the profile made from it. It is kept so that the profile stays the same pointer as long as the
// entry does.
type lesson struct {
	entry   *learned.Entry
	profile *sensitivity.Profile
}

// taught is a new entry to be stored, and the job that reported it.
type taught struct {
	entry, before *learned.Entry // before is the entry that it replaces; nil: none
	job           int
	turn          int // index among the entries of the same owner
}

// Why a job with synergy-profile=auto has no profile.
var (
	errNoLearning = errors.New("synergy-profile=auto, and this site does not learn profiles")
	errUnknownYet = errors.New(
		"nothing is known of your jobs of this name yet: this one measures itself, or teaches by its progress")
)

// learner is the part of a Runner that reads what was learned, and learning the part of a round that learns.
type (
	learner  struct{ *Runner }
	learning struct{ *turn }
)

// keyOf is the key under which the job's entries are stored.
func (t *managedJob) keyOf() learned.Key { return learned.Key{User: t.User, Job: t.Name} }

// taught is the profile learned from the jobs of the same owner and name.
func (r learner) taught(t *managedJob) (*sensitivity.Profile, error) {
	if r.Learned == nil {
		return nil, errNoLearning
	}
	if profile := r.lessonOf(t.keyOf()).profile; profile != nil {
		return profile, nil
	}
	return nil, errUnknownYet
}

// lessonOf is the entry of a key with its profile; empty if there is none. It comes from the cache if neither the entry
// nor the configured restart cost has changed.
func (r learner) lessonOf(key learned.Key) *lesson {
	entry := r.Learned.Of(key)
	if entry == nil {
		return &lesson{}
	}
	if known := r.reader.lessons[key]; known != nil && known.entry == entry && known.cost(r.Runner) {
		return known
	}
	if r.reader.lessons == nil || len(r.reader.lessons) > 2*len(r.reader.jobs)+spare {
		r.reader.lessons = map[learned.Key]*lesson{}
	}
	l := &lesson{entry, entry.Profile()}
	if l.profile != nil {
		l.profile.StartSeconds = r.Settings.RestartCost.Seconds() // no one has measured what a restart costs it
	}
	r.reader.lessons[key] = l
	return l
}

// cost says that the profile has the restart cost of the present settings.
func (l *lesson) cost(r *Runner) bool {
	return l.profile == nil || l.profile.StartSeconds == r.Settings.RestartCost.Seconds()
}

// measures is 1 if a job on one node should measure itself in its next run: its speed is unknown, or it may get more
// cores than were ever measured while the curve still rises. It is a number because programs on nodes match it in the
// annotation. A job that contradicted its profile does not measure, since it is not believed again.
func (r learner) measures(t *managedJob) int {
	if r.Learned == nil || !t.directives.Auto || t.directives.Err() != nil || t.record.Own.Nodes != 1 ||
		t.record.Audit.Found != nil {
		return 0
	}
	if e := r.Learned.Of(t.keyOf()); e.Wants(e.Measured() + 1) {
		return 1
	}
	return 0
}

// learn collects what running jobs report of themselves: measured curves, and speeds between two progress reports.
// After a drift the entry is emptied instead. A report counts only for its owner and job name, so a lie affects only
// the liar's own jobs. Nothing is stored yet.
func (t learning) learn(s *sortedObservation) {
	t.lessons = nil
	if t.Learned == nil {
		return
	}
	entries := map[learned.Key]taught{}
	for _, report := range t.reports(s) {
		known, is := entries[report.key]
		if !is {
			known.entry = t.Learned.Of(report.key)
			known.before = known.entry
		}
		next := known.entry.With(report.key, report.Report)
		if report.drifted && known.entry != nil {
			next = known.entry.Forgotten(report.At)
		}
		if next != known.entry {
			entries[report.key] = taught{entry: next, before: known.before, job: report.Job}
		}
	}
	t.lessons = byOwnerRoundRobin(entries)
}

// byOwnerRoundRobin orders the entries to be stored, since there may be no time for all: the owners take turns, and of
// each the entry that was stored longest ago comes first. So no user keeps others from learning by many names or
// constant reports.
func byOwnerRoundRobin(entries map[learned.Key]taught) (all []taught) {
	of := map[string][]taught{}
	for key, e := range entries {
		of[key.User] = append(of[key.User], e)
	}
	for _, his := range of {
		slices.SortFunc(his, taught.compare)
		for k := range his {
			his[k].turn = k
		}
		all = append(all, his...)
	}
	slices.SortFunc(all, func(a, b taught) int { return cmp.Or(cmp.Compare(a.turn, b.turn), a.compare(b)) })
	return all
}

// compare orders by the time of the entry that is replaced, then by owner and name.
func (l taught) compare(other taught) int {
	return cmp.Or(l.last().Compare(other.last()), cmp.Compare(l.entry.User, other.entry.User),
		cmp.Compare(l.entry.Job, other.entry.Job))
}

// last is when the replaced entry was stored; zero: there was none.
func (l taught) last() time.Time {
	if l.before == nil {
		return time.Time{}
	}
	return l.before.Updated
}

// heard is a report with the key to which it belongs.
type heard struct {
	learned.Report
	key     learned.Key
	drifted bool // what was learned under the key does not fit this job and is to be forgotten
}

// reports are the reports of the observed jobs, in the order of their times.
func (t learning) reports(s *sortedObservation) (all []heard) {
	for _, tn := range s.managed {
		if !tn.directives.Auto || tn.directives.Err() != nil || tn.State != slurm.Running || len(tn.on) == 0 ||
			tn.on[0] == elsewhere {
			continue
		}
		if !tn.keyOf().Valid() {
			tn.ignore(IgnoredName, "what it could teach is not kept: want a user that is known by name, and a job "+
				"name of UTF-8 that is not as long")
			continue
		}
		if tn.drifted || (learner{t.Runner}).stillKnown(tn) {
			// No earlier than the finding: an entry that was emptied before it would count as still known.
			r := tn.teaches(s, learned.Progress, later(s.at, tn.record.Audit.At), nil)
			all = append(all, heard{r, tn.keyOf(), true})
		}
		if tn.drifted || tn.record.Audit.Found != nil {
			continue // a job that contradicted its profile is not believed again
		}
		if tn.seated() {
			continue // its speed on a shared GPU says nothing about cores
		}
		if rates := tn.curve(s); rates != nil {
			all = append(all, heard{tn.teaches(s, learned.Curve, tn.directives.Curve.At, rates), tn.keyOf(), false})
		}
		if tn.ran > 0 {
			rates := []learned.Rate{{Cores: tn.Runs.PerNode.CPUs, Rate: tn.ran}}
			said := &tn.directives.Progress
			all = append(all, heard{tn.teaches(s, learned.Progress, said.At, rates), tn.keyOf(), false})
		}
	}
	slices.SortStableFunc(all, func(a, b heard) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Job, b.Job)) })
	return all
}

// stillKnown says that the entry which the job contradicted has not been forgotten yet, because that could not be
// stored.
func (r learner) stillKnown(t *managedJob) bool {
	if t.record.Audit.Found == nil {
		return false
	}
	e := r.Learned.Of(t.keyOf())
	return e != nil && e.GPUType == t.topology.gpuType(t.on[0]) && e.KnowsFromBefore(t.record.Audit.At)
}

// learnsFrom says that what a job reports is learned.
func (r learner) learnsFrom(t *managedJob) bool {
	return r.Learned != nil && t.directives.Auto && t.directives.Err() == nil && t.record.Audit.Found == nil
}

// teaches is a report about the run of a job.
func (t *managedJob) teaches(s *sortedObservation, way learned.Way, at time.Time, rates []learned.Rate) learned.Report {
	return learned.Report{
		Job: t.ID, At: at, GPUType: t.topology.gpuType(t.on[0]), GPUs: t.Runs.PerNode.GPUs,
		Memory: t.Runs.PerNode.Memory, Way: way, Rates: rates, Latest: s.at.Add(aheadOfUs),
	}
}

// ignore notes which of a job's reports is ignored, and why.
func (t *managedJob) ignore(what Ignored, why string) { t.ignored, t.doubt = what, why }

// curve is the curve that a job reports of this run; nil if there is none or it cannot be true.
func (t *managedJob) curve(s *sortedObservation) []learned.Rate {
	said := &t.directives.Curve
	switch most := len(said.Rates); {
	case t.directives.BadCurve != nil:
		t.ignore(IgnoredCurve, t.directives.BadCurve.Text)
	case most == 0 || said.At.Before(t.Started): // of an earlier run, and learned then
	case said.At.After(s.at.Add(aheadOfUs)):
		t.ignore(IgnoredCurve, "a curve that comes from the future is ignored")
	case len(t.Runs.Nodes) != 1:
		t.ignore(IgnoredCurve, fmt.Sprintf("a curve of a job on %d nodes is ignored: what one of them does says little",
			len(t.Runs.Nodes)))
	case said.Rates[most-1].Cores > t.Runs.PerNode.CPUs:
		t.ignore(IgnoredCurve, fmt.Sprintf("a curve up to %d cores of a job that holds %d is ignored",
			said.Rates[most-1].Cores, t.Runs.PerNode.CPUs))
	default:
		return said.Rates
	}
	return nil
}

// teachTime is how long a round may take to store what was learned, so that starts do not wait for a disk.
const teachTime = 2 * time.Second

// teach stores what was learned, after the intent and before any change. It never makes a round fail. What is not
// stored now is not lost: a curve stays in its job's comment, progress is reported again, and a contradicted entry is
// forgotten by the next round.
func (t learning) teach() {
	until := t.Clock.Elapsed() + teachTime
	for _, l := range t.lessons {
		if t.Clock.Elapsed() >= until {
			break
		}
		if err := t.Learned.Keep(l.entry); err != nil {
			t.report.LearnFault = cmp.Or(t.report.LearnFault, err.Error())
			continue // perhaps only this entry cannot be stored
		}
		t.report.Lessons = append(t.report.Lessons, Lesson{l.entry.User, l.entry.Job, l.job, len(l.entry.Points),
			len(l.entry.Points) == 0})
	}
	slices.SortFunc(t.report.Lessons, func(a, b Lesson) int {
		return cmp.Or(cmp.Compare(a.User, b.User), cmp.Compare(a.Name, b.Name))
	})
}

// measuredShare is what a job holds, with at most the cores that were ever measured. What a learned profile says beyond
// them is extrapolated and no claim that a job could contradict.
func (r learner) measuredShare(t *managedJob) sensitivity.Share {
	share := sensitivity.ShareOf(t.Runs.PerNode)
	if t.directives.Auto && r.Learned != nil {
		share.Cores = min(share.Cores, r.Learned.Of(t.keyOf()).Measured())
	}
	return share
}
