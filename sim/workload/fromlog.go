package workload

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
)

// FromLog is how jobs are made from a site's log, which does not contain models. Comments say what empty values mean.
//
// The artifact's workload with the GPUs of the Philly log is {GPUs: PowersOrOne, Durations: "paper", Keep: PaperKeep(),
// Arrivals: "poisson", Load: …}. The one with the log's durations and arrivals as well is {GPUs: Powers, Keep:
// PaperKeep(), From: 2400 h, To: 3000 h, Jobs: 8000}, except for a job submitted at exactly 2400 h, which the artifact
// drops. Entries must be in the order of the file.
type FromLog struct {
	Classes []Class
	Split   Split  // empty: one part with all classes
	Assign  Assign // empty: BySplit
	Seed    int64  // as in CPython, for two generators: one for durations, one for everything else

	GPUs  LogMix // empty: OwnGPUs
	Limit int    // jobs that would have more GPUs are dropped; 0: no limit

	Durations LogDurations // empty: OwnDurations
	Keep      Range        // of the log's durations, even if others are drawn; empty: all

	Arrivals LogArrivals // empty: OwnArrivals
	Load     float64     // jobs an hour, as in Config; only if arrivals are drawn
	// Compress divides the log's own arrival times, so that the load is as many times higher; 0: unchanged.
	Compress float64

	// From and To are in seconds: jobs submitted before From, or at To or later, are dropped; To = 0: no end.
	From, To float64
	Jobs     int // the number of jobs to keep, the first ones of the log; 0: all
}

// Range is an open interval of durations, in seconds.
type Range struct {
	Above float64
	Below float64 // 0: no bound
}

// PaperKeep is the range of durations that the artifact keeps of the Philly log, the same that it can draw: 31.6
// minutes to 166.7 hours.
func PaperKeep() Range { return Range{1897.3665961010277, 600000} }

// LogMix is how the log's numbers of GPUs are changed.
type LogMix string

// The possible changes. The artifact has EachOne, Powers and PowersOrOne.
const (
	OwnGPUs     LogMix = "log"           // unchanged
	EachOne     LogMix = "one"           // every job has one
	Powers      LogMix = "powers"        // 1, 2, 4, 8 and 16 are kept, other jobs are dropped
	PowersOrOne LogMix = "powers-or-one" // 1, 2, 4, 8 and 16 are kept, others below become 1, larger ones are dropped
	RoundUp     LogMix = "up"            // to a power of two
	RoundDown   LogMix = "down"          // to a power of two
)

// ParseLogMix parses log, one, powers, powers-or-one, up or down.
func ParseLogMix(text string) (LogMix, error) {
	return choose("gpus", text, OwnGPUs, EachOne, Powers, PowersOrOne, RoundUp, RoundDown)
}

// LogDurations is how long jobs of a log run: OwnDurations, or one of Durations, which are then drawn.
type LogDurations string

// OwnDurations are the log's own durations.
const OwnDurations LogDurations = "log"

// ParseLogDurations parses log, or what ParseDurations accepts.
func ParseLogDurations(text string) (LogDurations, error) {
	d := LogDurations(strings.ToLower(strings.TrimSpace(text)))
	if _, err := ParseDurations(text); err != nil && d != OwnDurations {
		return "", fmt.Errorf("%w; or log", err)
	}
	return d, nil
}

// newDurationFunc returns the function that draws durations. It is nil if nothing is drawn, because jobs keep the log's
// own durations.
func (d LogDurations) newDurationFunc() (durationFunc, error) {
	if d == "" || d == OwnDurations {
		return nil, nil
	}
	return Durations(d).newDurationFunc()
}

// LogArrivals is when jobs of a log arrive: OwnArrivals, or one of Arrivals, which are then drawn.
type LogArrivals string

// OwnArrivals are the log's own arrivals, counted from the first job that is kept.
const OwnArrivals LogArrivals = "log"

// ParseLogArrivals parses log, or what ParseArrivals accepts.
func ParseLogArrivals(text string) (LogArrivals, error) {
	return choose("arrivals", text, OwnArrivals, LogArrivals(Poisson), LogArrivals(Static), LogArrivals(Uniform),
		LogArrivals(Daily))
}

// isOwn says whether arrivals are the log's own instead of drawn.
func (a LogArrivals) isOwn() bool { return a == "" || a == OwnArrivals }

// newArrivalFunc returns the function that draws arrivals at a load in jobs an hour. It is nil if nothing is drawn,
// because jobs keep the log's own arrivals.
func (a LogArrivals) newArrivalFunc(load float64) (arrivalFunc, error) {
	if a.isOwn() {
		return nil, nil
	}
	return Arrivals(a).newArrivalFunc(load)
}

// FromEntries makes jobs of a log's entries, and counts those that it leaves out. Jobs with the log's own arrivals are
// sorted by them; if arrivals are drawn, jobs keep the order of the log. It is an error if no job is left. A job's
// recorded past is removed where jobs are changed: sim.AsItWas would compare the outcome of other jobs with it.
func FromEntries(entries []trace.Entry, options FromLog) ([]trace.Job, []trace.Dropped, error) {
	m, err := options.maker()
	if err != nil {
		return nil, nil, err
	}
	kept, dropped := options.filterEntries(entries)
	if len(kept) == 0 {
		return nil, dropped, nothingLeft(len(entries), dropped)
	}
	if m.nextDuration != nil {
		for i := range kept {
			kept[i].seconds = m.nextDuration(m.lengths)
		}
	}
	if m.nextArrival == nil {
		options.retime(kept)
	}
	if !options.isUnchanged() {
		for i := range kept {
			kept[i].told.Past = trace.Past{}
		}
	}
	return m.jobs(kept), dropped, nil
}

// nothingLeft is the error if no entry becomes a job, with the reasons.
func nothingLeft(entries int, dropped []trace.Dropped) error {
	if entries == 0 {
		return errors.New("log without jobs: want one at least")
	}
	reasons := make([]string, len(dropped))
	for i, d := range dropped {
		reasons[i] = fmt.Sprintf("%d jobs: %s", d.Count, d.Why)
	}
	return fmt.Errorf("none of the log's %d jobs is left: %s", entries, strings.Join(reasons, "; "))
}

// maker is the state with which jobs are made from the entries of a log.
type maker struct {
	classes      []Class
	class        assigner     // chooses each job's model
	nextArrival  arrivalFunc  // nil: arrivals are the log's own
	nextDuration durationFunc // nil: durations are the log's own
	main         *twister     // draws arrivals and models
	lengths      *twister     // draws durations
}

// maker checks the options and prepares the generators and the assigner.
func (o *FromLog) maker() (m *maker, err error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	m = &maker{classes: o.Classes, main: seeded(o.Seed), lengths: seeded(o.Seed)}
	if m.nextDuration, err = o.Durations.newDurationFunc(); err != nil {
		return nil, err
	}
	if m.nextArrival, err = o.Arrivals.newArrivalFunc(o.Load); err != nil {
		return nil, err
	}
	m.class, err = cmp.Or(o.Assign, BySplit).assigner(o.Split, o.Classes)
	return m, err
}

// check returns an error for the first invalid option.
func (o *FromLog) check() error {
	if o.GPUs != "" {
		if _, err := ParseLogMix(string(o.GPUs)); err != nil {
			return err
		}
	}
	below, to := cmp.Or(o.Keep.Below, maxDuration), cmp.Or(o.To, maxSubmission)
	switch {
	case o.Limit < 0:
		return wrong("gpu limit", fmt.Sprint(o.Limit), "a number of GPUs, or 0 for none")
	case o.Jobs < 0:
		return wrong("jobs", fmt.Sprint(o.Jobs), "a number, or 0 for all")
	case !inRange(o.Keep.Above, 0, maxDuration) || !(o.Keep.Above < below):
		return wrong("durations kept", fmt.Sprintf("%g to %g s", o.Keep.Above, o.Keep.Below),
			"the shorter one first, within ten years")
	case !inRange(o.From, -maxSubmission, maxSubmission) || !(o.From < to):
		return wrong("window of arrivals", fmt.Sprintf("%g to %g s", o.From, o.To), "the earlier one first")
	case o.Compress != 0 && !inRange(o.Compress, 1e-6, 1e6):
		return wrong("compress", fmt.Sprint(o.Compress),
			"a factor from 0.000001 to 1000000, or 0 for arrivals as they are")
	case o.Compress != 0 && !o.Arrivals.isOwn():
		return wrong("compress", fmt.Sprint(o.Compress),
			fmt.Sprintf("arrivals of the log's own; %s arrivals follow the load", o.Arrivals))
	case o.Load != 0 && o.Arrivals.isOwn():
		return wrong("load", fmt.Sprint(o.Load), "arrivals that are drawn; compress the log's own to raise their load")
	}
	return nil
}

// retime sorts jobs by the log's arrivals, counts these from the first one that is kept, and divides them by Compress,
// in whole milliseconds. There must be at least one job.
func (o *FromLog) retime(kept []keptEntry) {
	slices.SortStableFunc(kept, func(a, b keptEntry) int { return cmp.Compare(a.arrival, b.arrival) })
	first := kept[0].arrival
	for i := range kept {
		kept[i].arrival -= first
		kept[i].told.Past = kept[i].told.Past.Since(first)
		if o.Compress != 0 {
			kept[i].arrival = math.Round(kept[i].arrival/o.Compress*1000) / 1000
		}
	}
}

// isUnchanged says whether jobs arrive, ask and run as in the log, so that their recorded past remains valid.
func (o *FromLog) isUnchanged() bool {
	own := o.Arrivals.isOwn() && cmp.Or(o.Durations, OwnDurations) == OwnDurations && cmp.Or(o.GPUs, OwnGPUs) == OwnGPUs
	return own && (o.Compress == 0 || o.Compress == 1)
}

// jobs makes the jobs, in the order of arrival, with their positions as IDs, and draws their models and, if wanted,
// their arrivals.
func (m *maker) jobs(kept []keptEntry) []trace.Job {
	jobs := make([]trace.Job, len(kept))
	for i, k := range kept {
		arrival := k.arrival
		if m.nextArrival != nil {
			arrival = m.nextArrival(m.main)
		}
		class := &m.classes[m.class.next(m.main)]
		jobs[i] = trace.Job{ID: i, Model: class.Name, User: k.user, GPUs: k.gpus, Arrival: arrival,
			Iterations: class.iterations(k.seconds), Told: k.told}
	}
	return jobs
}
