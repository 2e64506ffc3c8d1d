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

// FromLog is how jobs are made of a site's log, which knows no models. What may be empty says what that means.
//
// The artifact's workload with the GPUs of the Philly log is {GPUs: PowersOrOne, Durations: "paper", Keep: PaperKeep(),
// Arrivals: "poisson", Load: …}; that with its durations and arrivals too is {GPUs: Powers, Keep: PaperKeep(), From:
// 2400 h, To: 3000 h, Jobs: 8000}, but for a job of the very second 2400 h, which the artifact drops. The entries have
// to stand in the order of the file.
type FromLog struct {
	Classes []Class
	Split   Split  // empty: one part with all classes
	Assign  Assign // empty: BySplit
	Seed    int64  // CPython's, of two generators: one for durations, one for all else

	GPUs  LogMix // empty: OwnGPUs
	Limit int    // jobs that would have more GPUs are dropped; 0: none are

	Durations LogDurations // empty: OwnDurations
	Keep      Range        // of the log's durations, also where others are drawn; empty: all

	Arrivals LogArrivals // empty: OwnArrivals
	Load     float64     // jobs an hour, as in Config; only where arrivals are drawn
	// the log's own arrivals come so many times faster, so the load is so many times higher; 0: as they are
	Compress float64

	// seconds: jobs submitted before From, or at To and later, are dropped; To = 0: none for being late
	From, To float64
	Jobs     int // only so many of the jobs that would be kept are, the first ones of the log; 0: all
}

// Range is the durations between two bounds, in seconds; neither bound is in it.
type Range struct {
	Above float64
	Below float64 // 0: no bound
}

// PaperKeep are the durations that the artifact keeps of the Philly log: those that it can draw, 31.6 minutes to 166.7
// hours.
func PaperKeep() Range { return Range{1897.3665961010277, 600000} }

// LogMix is what becomes of a log's numbers of GPUs.
type LogMix string

// What may become of them. The artifact knows EachOne, Powers and PowersOrOne.
const (
	OwnGPUs     LogMix = "log"           // they stay
	EachOne     LogMix = "one"           // all jobs have one
	Powers      LogMix = "powers"        // 1, 2, 4, 8 and 16 stay, jobs with others are dropped
	PowersOrOne LogMix = "powers-or-one" // 1, 2, 4, 8 and 16 stay, others below become one, jobs with more are dropped
	RoundUp     LogMix = "up"            // to a power of two
	RoundDown   LogMix = "down"          // to a power of two
)

// ParseLogMix reads log, one, powers, powers-or-one, up or down.
func ParseLogMix(text string) (LogMix, error) {
	return choose("gpus", text, OwnGPUs, EachOne, Powers, PowersOrOne, RoundUp, RoundDown)
}

// LogDurations is how long jobs of a log run: OwnDurations, or any Durations, which are then drawn.
type LogDurations string

// OwnDurations are those that the log says.
const OwnDurations LogDurations = "log"

// ParseLogDurations reads log, or what ParseDurations reads.
func ParseLogDurations(text string) (LogDurations, error) {
	d := LogDurations(strings.ToLower(strings.TrimSpace(text)))
	if _, err := ParseDurations(text); err != nil && d != OwnDurations {
		return "", fmt.Errorf("%w; or log", err)
	}
	return d, nil
}

// length is nil where durations are the log's own.
func (d LogDurations) length() (length, error) {
	if d == "" || d == OwnDurations {
		return nil, nil
	}
	return Durations(d).length()
}

// LogArrivals is when jobs of a log arrive: OwnArrivals, or any Arrivals, which are then drawn.
type LogArrivals string

// OwnArrivals are those that the log says, counted from the first job that is kept.
const OwnArrivals LogArrivals = "log"

// ParseLogArrivals reads log, or what ParseArrivals reads.
func ParseLogArrivals(text string) (LogArrivals, error) {
	return choose("arrivals", text, OwnArrivals, LogArrivals(Poisson), LogArrivals(Static), LogArrivals(Uniform),
		LogArrivals(Daily))
}

func (a LogArrivals) own() bool { return a == "" || a == OwnArrivals }

// clock is nil where arrivals are the log's own.
func (a LogArrivals) clock(load float64) (clock, error) {
	if a.own() {
		return nil, nil
	}
	return Arrivals(a).clock(load)
}

// FromEntries makes jobs of a log's entries, and says which it left out. Jobs whose arrivals are the log's own are
// sorted by them; where arrivals are drawn, jobs keep the order of the log. It is an error if no job is left.
func FromEntries(entries []trace.Entry, options FromLog) ([]trace.Job, []trace.Dropped, error) {
	m, err := options.maker()
	if err != nil {
		return nil, nil, err
	}
	kept, dropped := options.sift(entries)
	if len(kept) == 0 {
		return nil, dropped, nothingLeft(len(entries), dropped)
	}
	if m.length != nil {
		for i := range kept {
			kept[i].seconds = m.length(m.lengths)
		}
	}
	if m.clock == nil {
		options.retime(kept)
	}
	if !options.asTheyWere() {
		for i := range kept {
			kept[i].told.Past = trace.Past{}
		}
	}
	return m.jobs(kept), dropped, nil
}

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

// maker is what jobs are made with.
type maker struct {
	classes []Class
	class   assigner
	clock   clock  // nil: arrivals are the log's own
	length  length // nil: durations are the log's own
	main    *twister
	lengths *twister
}

func (o *FromLog) maker() (m *maker, err error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	m = &maker{classes: o.Classes, main: seeded(o.Seed), lengths: seeded(o.Seed)}
	if m.length, err = o.Durations.length(); err != nil {
		return nil, err
	}
	if m.clock, err = o.Arrivals.clock(o.Load); err != nil {
		return nil, err
	}
	m.class, err = cmp.Or(o.Assign, BySplit).assigner(o.Split, o.Classes)
	return m, err
}

// check finds numbers that mean nothing.
func (o *FromLog) check() error {
	if o.GPUs != "" {
		if _, err := ParseLogMix(string(o.GPUs)); err != nil {
			return err
		}
	}
	below, to := cmp.Or(o.Keep.Below, longest), cmp.Or(o.To, latest)
	switch {
	case o.Limit < 0:
		return wrong("gpu limit", fmt.Sprint(o.Limit), "a number of GPUs, or 0 for none")
	case o.Jobs < 0:
		return wrong("jobs", fmt.Sprint(o.Jobs), "a number, or 0 for all")
	case !inRange(o.Keep.Above, 0, longest) || !(o.Keep.Above < below):
		return wrong("durations kept", fmt.Sprintf("%g to %g s", o.Keep.Above, o.Keep.Below),
			"the shorter one first, within ten years")
	case !inRange(o.From, -latest, latest) || !(o.From < to):
		return wrong("window of arrivals", fmt.Sprintf("%g to %g s", o.From, o.To), "the earlier one first")
	case o.Compress != 0 && !inRange(o.Compress, 1e-6, 1e6):
		return wrong("compress", fmt.Sprint(o.Compress),
			"a factor from 0.000001 to 1000000, or 0 for arrivals as they are")
	case o.Compress != 0 && !o.Arrivals.own():
		return wrong("compress", fmt.Sprint(o.Compress),
			fmt.Sprintf("arrivals of the log's own; %s arrivals follow the load", o.Arrivals))
	case o.Load != 0 && o.Arrivals.own():
		return wrong("load", fmt.Sprint(o.Load), "arrivals that are drawn; compress the log's own to raise their load")
	}
	return nil
}

// retime sorts by the log's arrivals, counts them from the first, and compresses them, to the millisecond.
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

// asTheyWere says that jobs come, ask and run as the log says, so that what became of them there is theirs.
func (o *FromLog) asTheyWere() bool {
	own := o.Arrivals.own() && cmp.Or(o.Durations, OwnDurations) == OwnDurations && cmp.Or(o.GPUs, OwnGPUs) == OwnGPUs
	return own && (o.Compress == 0 || o.Compress == 1)
}

// jobs makes the jobs, in the order in which they arrive.
func (m *maker) jobs(kept []keptEntry) []trace.Job {
	jobs := make([]trace.Job, len(kept))
	for i, k := range kept {
		arrival := k.arrival
		if m.clock != nil {
			arrival = m.clock(m.main)
		}
		class := &m.classes[m.class.next(m.main)]
		jobs[i] = trace.Job{ID: i, Model: class.Name, User: k.user, GPUs: k.gpus, Arrival: arrival,
			Iterations: class.iterations(k.seconds), Told: k.told}
	}
	return jobs
}
