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

// Learned stores what was learned from jobs, over restarts of the daemon. An entry that it returns is never changed, so
// two pointers to entries are equal only if nothing was learned between. It is implemented by the package shelf and by
// a map in tests.
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

// cachedProfile is an entry and the profile made from it; both are nil if nothing was learned. It is kept so that the
// profile stays the same pointer as long as the entry does: a new pointer makes a round work out anew what depends on
// it.
type cachedProfile struct {
	entry   *learned.Entry
	profile *sensitivity.Profile
}

// entryUpdate is a new entry to be stored, and the job whose report changed it last.
type entryUpdate struct {
	entry, replaced *learned.Entry // replaced is the entry in whose place entry is stored; nil: none
	reporter        int
	ownerIndex      int // index among the entries of the same owner
}

// Why a job with synergy-profile=auto has no profile.
var (
	errNoLearning     = errors.New("synergy-profile=auto, and this site does not learn profiles")
	errNothingLearned = errors.New(
		"nothing is known of your jobs of this name yet: this one measures itself, or teaches by its progress")
)

// learnedKey is the key under which the job's entries are stored.
func (t *managedJob) learnedKey() learned.Key { return learned.Key{User: t.User, Job: t.Name} }

// learnedProfile is the profile learned from the jobs of the same owner and name, for a job with synergy-profile=auto.
// The error says why there is none; its user is told.
func learnedProfile(r *Runner, t *managedJob) (*sensitivity.Profile, error) {
	if r.Learned == nil {
		return nil, errNoLearning
	}
	if profile := cachedProfileOf(r, t.learnedKey()).profile; profile != nil {
		return profile, nil
	}
	return nil, errNothingLearned
}

// cachedProfileOf is the entry of a key with its profile; empty if nothing was learned. It comes from the cache if
// neither the entry nor the configured restart cost has changed: the profile has that cost, since none is learned. If
// the cache has many more entries than there are jobs, it is emptied first.
func cachedProfileOf(r *Runner, key learned.Key) *cachedProfile {
	entry := r.Learned.Of(key)
	if entry == nil {
		return &cachedProfile{}
	}
	if known := r.cache.lessons[key]; known != nil && known.entry == entry && known.hasCurrentCost(r) {
		return known
	}
	if r.cache.lessons == nil || len(r.cache.lessons) > 2*len(r.cache.jobs)+spare {
		r.cache.lessons = map[learned.Key]*cachedProfile{}
	}
	l := &cachedProfile{entry, entry.Profile()}
	if l.profile != nil {
		l.profile.StartSeconds = r.Settings.RestartCost.Seconds() // no one has measured what a restart costs it
	}
	r.cache.lessons[key] = l
	return l
}

// hasCurrentCost says whether the profile has the restart cost of the present settings, which may change between
// rounds.
func (l *cachedProfile) hasCurrentCost(r *Runner) bool {
	return l.profile == nil || l.profile.StartSeconds == r.Settings.RestartCost.Seconds()
}

// measureFlag is 1 if a job should measure its speed by cores in its next run, and otherwise 0. It should if no curve
// was ever measured, or if it may get more cores than were measured while the speed still rises with cores. Jobs on
// several nodes do not, since a curve of one of them says little. Nor do jobs that contradicted their profile, since
// they are not believed again. It is a number because programs on nodes match it as text in the annotation.
func measureFlag(r *Runner, t *managedJob) int {
	if r.Learned == nil || !t.directives.Auto || t.directives.Err() != nil || t.record.Own.Nodes != 1 ||
		t.record.Audit.Found != nil {
		return 0
	}
	if e := r.Learned.Of(t.learnedKey()); e.Wants(e.Measured() + 1) {
		return 1
	}
	return 0
}

// learnProfiles collects in t.lessons what running jobs report of themselves: measured curves, and speeds between two
// progress reports. After a drift, when a job's speed does not fit what was learned, the entry is emptied instead. A
// report counts only for its owner and job name, so a lie affects only the liar's own jobs. Nothing is stored yet: that
// comes after the intent (storeLearned).
func learnProfiles(t *activeRound, s *sortedObservation) {
	t.lessons = nil
	if t.runner.Learned == nil {
		return
	}
	entries := map[learned.Key]entryUpdate{}
	for _, report := range learnableReports(t, s) {
		known, is := entries[report.key]
		if !is {
			known.entry = t.runner.Learned.Of(report.key)
			known.replaced = known.entry
		}
		next := known.entry.With(report.key, report.Report)
		if report.drifted && known.entry != nil {
			next = known.entry.Forgotten(report.At)
		}
		if next != known.entry {
			entries[report.key] = entryUpdate{entry: next, replaced: known.replaced, reporter: report.Job}
		}
	}
	t.lessons = byOwnerRoundRobin(entries)
}

// byOwnerRoundRobin orders the entries to be stored, since a round may not have the time for all: the owners take
// turns, and of each the entry that was stored longest ago comes first. So no user keeps others from learning by many
// names or constant reports.
func byOwnerRoundRobin(entries map[learned.Key]entryUpdate) (all []entryUpdate) {
	of := map[string][]entryUpdate{}
	for key, e := range entries {
		of[key.User] = append(of[key.User], e)
	}
	for _, his := range of {
		slices.SortFunc(his, entryUpdate.compare)
		for k := range his {
			his[k].ownerIndex = k
		}
		all = append(all, his...)
	}
	slices.SortFunc(
		all,
		func(a, b entryUpdate) int { return cmp.Or(cmp.Compare(a.ownerIndex, b.ownerIndex), a.compare(b)) },
	)
	return all
}

// compare orders updates by the time of the entry that is replaced, the oldest first, then by owner and job name.
func (l entryUpdate) compare(other entryUpdate) int {
	return cmp.Or(l.replacedAt().Compare(other.replacedAt()), cmp.Compare(l.entry.User, other.entry.User),
		cmp.Compare(l.entry.Job, other.entry.Job))
}

// replacedAt is when the replaced entry was stored; zero: there was none.
func (l entryUpdate) replacedAt() time.Time {
	if l.replaced == nil {
		return time.Time{}
	}
	return l.replaced.Updated
}

// keyedReport is a report with the key of the entry to which it belongs.
type keyedReport struct {
	learned.Report
	key     learned.Key
	drifted bool // what was learned under the key does not fit this job and is to be forgotten
}

// learnableReports are the reports of running jobs with synergy-profile=auto from which something can be learned, in
// the order of their times. There may be several of one job: one that its entry is to be forgotten, one with a curve,
// one with a speed. Jobs on nodes that are not managed are left out, since the type of GPU is unknown there. Of jobs on
// a shared GPU, curve and speed are left out, since their speed says nothing about cores.
func learnableReports(t *activeRound, s *sortedObservation) (all []keyedReport) {
	for _, tn := range s.managed {
		if !tn.directives.Auto || tn.directives.Err() != nil || tn.State != slurm.Running || len(tn.nodePlaces) == 0 ||
			tn.nodePlaces[0] == unmanagedPlace {
			continue
		}
		if !tn.learnedKey().Valid() {
			tn.noteIgnored(
				IgnoredName,
				"what it could teach is not kept: want a user that is known by name, and a job "+
					"name of UTF-8 that is not as long",
			)
			continue
		}
		if tn.drifted || hasContradictedEntry(t.runner, tn) {
			// No earlier than the finding: an entry that was emptied before it would count as still known.
			r := tn.runReport(s, learned.Progress, later(s.at, tn.record.Audit.At), nil)
			all = append(all, keyedReport{r, tn.learnedKey(), true})
		}
		if tn.drifted || tn.record.Audit.Found != nil {
			continue // a job that contradicted its profile is not believed again
		}
		if tn.hasSlot() {
			continue // its speed on a shared GPU says nothing about cores
		}
		if rates := tn.reportedCurve(s); rates != nil {
			all = append(
				all,
				keyedReport{tn.runReport(s, learned.Curve, tn.directives.Curve.At, rates), tn.learnedKey(), false},
			)
		}
		if tn.measuredSpeed > 0 {
			rates := []learned.Rate{{Cores: tn.Runs.PerNode.CPUs, Rate: tn.measuredSpeed}}
			said := &tn.directives.Progress
			all = append(all, keyedReport{tn.runReport(s, learned.Progress, said.At, rates), tn.learnedKey(), false})
		}
	}
	slices.SortStableFunc(
		all,
		func(a, b keyedReport) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Job, b.Job)) },
	)
	return all
}

// hasContradictedEntry says whether the entry that the job contradicted has not been forgotten yet, because that could
// not be stored. It is then tried again. An entry for another type of GPU, or one learned after the contradiction, is
// not the one that was contradicted. The job must be running on a managed node.
func hasContradictedEntry(r *Runner, t *managedJob) bool {
	if t.record.Audit.Found == nil {
		return false
	}
	e := r.Learned.Of(t.learnedKey())
	return e != nil && e.GPUType == t.topology.gpuType(t.nodePlaces[0]) && e.KnowsFromBefore(t.record.Audit.At)
}

// learnsFrom says whether what a job reports can be learned, apart from where it runs. A job that contradicted its
// profile is not believed again.
func learnsFrom(r *Runner, t *managedJob) bool {
	return r.Learned != nil && t.directives.Auto && t.directives.Err() == nil && t.record.Audit.Found == nil
}

// runReport is a report about the run of a job: what it holds, and the rates that it reported at the given time,
// measured in the given way. Latest is the latest time that is believed, maxClockLead after the observation, since the
// clock of a node may be ahead.
func (t *managedJob) runReport(
	s *sortedObservation,
	way learned.Way,
	at time.Time,
	rates []learned.Rate,
) learned.Report {
	return learned.Report{
		Job: t.ID, At: at, GPUType: t.topology.gpuType(t.nodePlaces[0]), GPUs: t.Runs.PerNode.GPUs,
		Memory: t.Runs.PerNode.Memory, Way: way, Rates: rates, Latest: s.at.Add(maxClockLead),
	}
}

// noteIgnored notes which of a job's reports is ignored in this round, and why, for the report and the job's user.
func (t *managedJob) noteIgnored(what Ignored, why string) { t.ignored, t.ignoredReason = what, why }

// reportedCurve is the curve that a job reports of this run: its speed by cores, ascending in cores. Nil: it reports
// none, the curve is of an earlier run, in which it was learned, or it cannot be true, which is then noted for the
// job's user.
func (t *managedJob) reportedCurve(s *sortedObservation) []learned.Rate {
	said := &t.directives.Curve
	switch most := len(said.Rates); {
	case t.directives.BadCurve != nil:
		t.noteIgnored(IgnoredCurve, t.directives.BadCurve.Text)
	case most == 0 || said.At.Before(t.Started): // of an earlier run, and learned then
	case said.At.After(s.at.Add(maxClockLead)):
		t.noteIgnored(IgnoredCurve, "a curve that comes from the future is ignored")
	case len(t.Runs.Nodes) != 1:
		t.noteIgnored(
			IgnoredCurve,
			fmt.Sprintf("a curve of a job on %d nodes is ignored: what one of them does says little",
				len(t.Runs.Nodes)),
		)
	case said.Rates[most-1].Cores > t.Runs.PerNode.CPUs:
		t.noteIgnored(IgnoredCurve, fmt.Sprintf("a curve up to %d cores of a job that holds %d is ignored",
			said.Rates[most-1].Cores, t.Runs.PerNode.CPUs))
	default:
		return said.Rates
	}
	return nil
}

// maxStoreTime is how long a round may take to store what was learned, so that no start waits longer for a slow disk.
const maxStoreTime = 2 * time.Second

// storeLearned stores what was learned, after the intent and before any change to Slurm. It never makes a round fail;
// the report names the first error. What is not stored now is not lost: a curve stays in its job's comment, progress is
// reported again, and a contradicted entry is forgotten by the next round.
func storeLearned(t *activeRound) {
	until := t.runner.Clock.Elapsed() + maxStoreTime
	for _, l := range t.lessons {
		if t.runner.Clock.Elapsed() >= until {
			break
		}
		if err := t.runner.Learned.Keep(l.entry); err != nil {
			t.report.LearnFault = cmp.Or(t.report.LearnFault, err.Error())
			continue // perhaps only this entry cannot be stored
		}
		t.report.Lessons = append(t.report.Lessons, Lesson{l.entry.User, l.entry.Job, l.reporter, len(l.entry.Points),
			len(l.entry.Points) == 0})
	}
	slices.SortFunc(t.report.Lessons, func(a, b Lesson) int {
		return cmp.Or(cmp.Compare(a.User, b.User), cmp.Compare(a.Name, b.Name))
	})
}

// measuredShare is what a job holds for each GPU, with at most the cores that were ever measured. It is for the audit:
// what a learned profile says beyond these cores is extrapolated and no claim that a job could contradict.
func measuredShare(r *Runner, t *managedJob) sensitivity.Share {
	share := sensitivity.ShareOf(t.Runs.PerNode)
	if t.directives.Auto && r.Learned != nil {
		share.Cores = min(share.Cores, r.Learned.Of(t.learnedKey()).Measured())
	}
	return share
}
