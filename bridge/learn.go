package bridge

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/learned"
)

// Learned keeps what jobs have taught, over restarts. An entry that it hands out is not changed by anybody. The
// packages shelf and, for tests, a map are two of them.
type Learned interface {
	// Of is the entry of an owner and a job name; nil: there is none. It is cheap: each round asks for each job.
	Of(key learned.Key) *learned.Entry
	// Keep puts an entry in place of the one that its key has. On an error that one stands.
	Keep(e *learned.Entry) error
}

// Lesson is one outcome of learning.
type Lesson struct {
	User   string `json:"user"`
	Name   string `json:"job_name"`
	Job    int    `json:"job"`    // that taught it
	Points int    `json:"points"` // that are known now
	Forgot bool   `json:"forgot"` // all that was known, since the job runs otherwise
}

// lesson is an entry with the profile that it makes, so that it stays the same pointer as long as the entry does.
type lesson struct {
	entry   *learned.Entry
	profile *sensitivity.Profile
}

// taught is an entry to be kept in the place of another, and the job that taught it.
type taught struct {
	entry, before *learned.Entry // before: nil where there was none
	job           int
	turn          int // of those of its owner
}

// Why a job with synergy-profile=auto has no profile.
var (
	errNoLearning = errors.New("synergy-profile=auto, and this site does not learn profiles")
	errUnknownYet = errors.New(
		"nothing is known of your jobs of this name yet: this one measures itself, or teaches by its progress")
)

// learner is the part of a runner that knows what jobs have taught, and learning the part of a turn in which they
// teach.
type (
	learner  struct{ *Runner }
	learning struct{ *turn }
)

// keyOf is under what a job's lessons are kept.
func (t *managedJob) keyOf() learned.Key { return learned.Key{User: t.User, Job: t.Name} }

// taught is the profile that jobs of the owner and the name have taught.
func (r learner) taught(t *managedJob) (*sensitivity.Profile, error) {
	if r.Learned == nil {
		return nil, errNoLearning
	}
	if profile := r.lessonOf(t.keyOf()).profile; profile != nil {
		return profile, nil
	}
	return nil, errUnknownYet
}

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
		l.profile.StartSeconds = r.Settings.RestartCost.Seconds() // nobody has measured what a restart costs it
	}
	r.reader.lessons[key] = l
	return l
}

// cost says that the lesson reckons restarts as the settings do now.
func (l *lesson) cost(r *Runner) bool {
	return l.profile == nil || l.profile.StartSeconds == r.Settings.RestartCost.Seconds()
}

// measures is 1 where a job should measure itself in its next run, on one node: nobody knows how fast it is, or it may
// get more cores than anybody measured while the curve still climbs.
func (r learner) measures(t *managedJob) int {
	if r.Learned == nil || !t.said.word.Auto || t.said.wrong != nil || t.record.Own.Nodes != 1 ||
		t.record.Audit.Found != nil {
		return 0
	}
	if e := r.Learned.Of(t.keyOf()); e.Wants(e.Measured() + 1) {
		return 1
	}
	return 0
}

// learn takes up what running jobs say of themselves: the curve that one has measured, and how fast one ran between two
// reports. A job teaches under its owner and name alone, so a lie reaches the liar's own jobs. Nothing is written here.
func (t learning) learn(s *scene) {
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
	t.lessons = inTurn(entries)
}

// inTurn orders what is to be written down, since there may be more than there is time for: each owner in turn, and
// first who was taught longest ago. Nobody keeps others from learning by having many names, or new things to say at
// each moment.
func inTurn(entries map[learned.Key]taught) (all []taught) {
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

// compare is by when they were taught last, then by owner and name.
func (l taught) compare(other taught) int {
	return cmp.Or(l.last().Compare(other.last()), cmp.Compare(l.entry.User, other.entry.User),
		cmp.Compare(l.entry.Job, other.entry.Job))
}

func (l taught) last() time.Time {
	if l.before == nil {
		return time.Time{}
	}
	return l.before.Updated
}

// heard is a report with whom it is of.
type heard struct {
	learned.Report
	key     learned.Key
	drifted bool
}

// reports are what the jobs of the scene say, in the order of time.
func (t learning) reports(s *scene) (all []heard) {
	for _, tn := range s.managed {
		if !tn.said.word.Auto || tn.said.wrong != nil || tn.State != Running || len(tn.on) == 0 ||
			tn.on[0] == elsewhere {
			continue
		}
		if !tn.keyOf().Valid() {
			tn.ignore(IgnoredName, "what it could teach is not kept: want a user that is known by name, and a job "+
				"name of UTF-8 that is not as long")
			continue
		}
		if tn.drifted || (learner{t.Runner}).stillKnown(tn) {
			r := tn.teaches(s, learned.Progress, later(s.at, tn.record.Audit.At), nil)
			all = append(all, heard{r, tn.keyOf(), true})
		}
		if tn.drifted || tn.record.Audit.Found != nil {
			continue // who was found to run otherwise than he said is not believed again
		}
		if tn.seated() {
			continue // how fast it is beside others says nothing of cores
		}
		if rates := tn.curve(s); rates != nil {
			all = append(all, heard{tn.teaches(s, learned.Curve, tn.said.curve.At, rates), tn.keyOf(), false})
		}
		if tn.ran > 0 {
			rates := []learned.Rate{{Cores: tn.Runs.PerNode.CPUs, Rate: tn.ran}}
			all = append(all, heard{tn.teaches(s, learned.Progress, tn.said.progress.At, rates), tn.keyOf(), false})
		}
	}
	slices.SortStableFunc(all, func(a, b heard) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Job, b.Job)) })
	return all
}

// stillKnown says that what a job was found to contradict is not forgotten yet: that could not be written down.
func (r learner) stillKnown(t *managedJob) bool {
	if t.record.Audit.Found == nil {
		return false
	}
	e := r.Learned.Of(t.keyOf())
	return e != nil && e.GPUType == t.topology.gpuType(t.on[0]) && e.KnowsFromBefore(t.record.Audit.At)
}

// learnsFrom says that a job teaches what it does.
func (r learner) learnsFrom(t *managedJob) bool {
	return r.Learned != nil && t.said.word.Auto && t.said.wrong == nil && t.record.Audit.Found == nil
}

func (t *managedJob) teaches(s *scene, way learned.Way, at time.Time, rates []learned.Rate) learned.Report {
	return learned.Report{
		Job: t.ID, At: at, GPUType: t.topology.gpuType(t.on[0]), GPUs: t.Runs.PerNode.GPUs,
		Memory: t.Runs.PerNode.Memory, Way: way, Rates: rates, Latest: s.at.Add(aheadOfUs),
	}
}

// ignore keeps what is ignored of a job's words, and why.
func (t *managedJob) ignore(what Ignored, why string) { t.ignored, t.doubt = what, why }

// curve is the curve that a job reports of this run, nil where there is none or it cannot be.
func (t *managedJob) curve(s *scene) []learned.Rate {
	said := &t.said.curve
	switch most := len(said.Rates); {
	case t.said.unclean != nil:
		t.ignore(IgnoredCurve, t.said.unclean.Error())
	case most == 0 || said.At.Before(t.Started): // of an earlier run: it was learned then
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

// teachTime is how long a round may take to write down what was learned: who waits for his start does not wait for a
// disk.
const teachTime = 2 * time.Second

// teach writes down what was learned, after the intent and before anything is done. No round fails for it. What cannot
// be kept now, or not in time, is not lost: a curve stands in its job's comment, progress is told again, and a drift is
// forgotten by the next round.
func (t learning) teach() {
	until := t.Clock.Elapsed() + teachTime
	for _, l := range t.lessons {
		if t.Clock.Elapsed() >= until {
			break
		}
		if err := t.Learned.Keep(l.entry); err != nil {
			t.report.LearnFault = cmp.Or(t.report.LearnFault, err.Error())
			continue // it may be this entry alone
		}
		t.report.Lessons = append(t.report.Lessons, Lesson{l.entry.User, l.entry.Job, l.job, len(l.entry.Points),
			len(l.entry.Points) == 0})
	}
	slices.SortFunc(t.report.Lessons, func(a, b Lesson) int {
		return cmp.Or(cmp.Compare(a.User, b.User), cmp.Compare(a.Name, b.Name))
	})
}

// measuredShare is what a job holds, as far as anybody measured: what a learned profile says of more was never seen,
// and is no claim that a job could contradict.
func (r learner) measuredShare(t *managedJob) sensitivity.Share {
	share := sensitivity.ShareOf(t.Runs.PerNode)
	if t.said.word.Auto && r.Learned != nil {
		share.Cores = min(share.Cores, r.Learned.Of(t.keyOf()).Measured())
	}
	return share
}
