package bridge

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

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

// taught is an entry to be kept, and the job that taught it.
type taught struct {
	entry *learned.Entry
	job   int
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
		}
		next := known.entry.With(report.key, report.Report)
		if report.drifted && known.entry != nil {
			next = known.entry.Forgotten(s.at)
		}
		if next != known.entry {
			entries[report.key] = taught{next, report.Job}
		}
	}
	for _, e := range entries {
		t.lessons = append(t.lessons, e)
	}
	slices.SortFunc(t.lessons, func(a, b taught) int {
		return cmp.Or(cmp.Compare(a.entry.User, b.entry.User), cmp.Compare(a.entry.Job, b.entry.Job))
	})
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
		if len(tn.User) > learned.MaxText || len(tn.Name) > learned.MaxText || !utf8.ValidString(tn.Name) {
			tn.doubt = "what it could teach is not kept: want a job name of UTF-8 that is not as long"
			continue
		}
		if tn.drifted {
			all = append(all, heard{tn.teaches(learned.Progress, nil), tn.keyOf(), true})
		}
		if tn.drifted || tn.record.Audit.Found != nil {
			continue // who was found to run otherwise than he said is not believed again
		}
		if rates := tn.curve(s); rates != nil {
			r := tn.teaches(learned.Curve, rates)
			r.At = tn.said.curve.At
			all = append(all, heard{r, tn.keyOf(), false})
		}
		if tn.ran > 0 {
			r := tn.teaches(learned.Progress, []learned.Rate{{Cores: tn.Runs.PerNode.CPUs, Rate: tn.ran}})
			r.At = tn.said.progress.At
			all = append(all, heard{r, tn.keyOf(), false})
		}
	}
	slices.SortStableFunc(all, func(a, b heard) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Job, b.Job)) })
	return all
}

// learnsFrom says that a job teaches what it does.
func (r learner) learnsFrom(t *managedJob) bool {
	return r.Learned != nil && t.said.word.Auto && t.said.wrong == nil && t.record.Audit.Found == nil
}

func (t *managedJob) teaches(way learned.Way, rates []learned.Rate) learned.Report {
	return learned.Report{
		Job: t.ID, At: t.said.progress.At, GPUType: t.topology.gpuType(t.on[0]), GPUs: t.Runs.PerNode.GPUs,
		Memory: t.Runs.PerNode.Memory,
		Way:    way, Rates: rates,
	}
}

// curve is the curve that a job reports of this run, nil where there is none or it cannot be.
func (t *managedJob) curve(s *scene) []learned.Rate {
	said := &t.said.curve
	switch most := len(said.Rates); {
	case t.said.unclean != nil:
		t.doubt = t.said.unclean.Error()
	case most == 0 || said.At.Before(t.Started): // of an earlier run: it was learned then
	case said.At.After(s.at.Add(aheadOfUs)):
		t.doubt = "a curve that comes from the future is ignored"
	case len(t.Runs.Nodes) != 1:
		t.doubt = fmt.Sprintf("a curve of a job on %d nodes is ignored: what one of them does says little",
			len(t.Runs.Nodes))
	case said.Rates[most-1].Cores > t.Runs.PerNode.CPUs:
		t.doubt = fmt.Sprintf("a curve up to %d cores of a job that holds %d is ignored", said.Rates[most-1].Cores,
			t.Runs.PerNode.CPUs)
	default:
		return said.Rates
	}
	return nil
}

// teach writes down what was learned, after the intent and before anything is done. What cannot be kept now stands in
// the jobs' comments still, and the next round learns it; no round fails for it.
func (t learning) teach() {
	for _, l := range t.lessons {
		if err := t.Learned.Keep(l.entry); err != nil {
			t.report.LearnFault = err.Error()
			return
		}
		t.report.Lessons = append(t.report.Lessons, Lesson{l.entry.User, l.entry.Job, l.job, len(l.entry.Points),
			len(l.entry.Points) == 0})
	}
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
