package trace

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// accounted is a job of Slurm's accounting with all its runs.
type accounted struct {
	id   string
	runs []run
}

// run is one run of a job, or of one component of it.
type run struct {
	*labels
	submitted, started float64 // seconds; started may be unknown
	ended              float64 // seconds; may be unknown
	ran                float64 // seconds; may be unknown
	limit              float64 // seconds; 0: not recorded
	priority           int64   // 0: not recorded
	gpus, cpus         int32
	memory             float64 // GB of 1000 MiB
	running            bool    // it still goes on
}

// labels are texts that many runs share. Each combination is stored once.
type labels struct{ component, user, queue, state, name string }

// add returns the runs of the job together with r. Listings may overlap, so a second record of the same run replaces
// the first one in place, unless it is shorter: the listing with the shorter run was made while it still went on.
func (j *accounted) add(r run) []run {
	for i, known := range j.runs {
		if known.component == r.component && known.submitted == r.submitted && known.started == r.started {
			if r.ran >= known.ran {
				j.runs[i] = r
			}
			return j.runs
		}
	}
	return append(j.runs, r)
}

// addJob turns a job's runs into one entry, or counts why it was left out. Components run at the same time, so the job
// takes as long as the longest of them, also in its past. A job that did not run is left out with the reason from its
// last run; log.store leaves out a job without GPUs.
func (l *log) addJob(j accounted) {
	slices.SortStableFunc(j.runs, func(a, b run) int {
		return cmp.Or(cmp.Compare(a.submitted, b.submitted), cmp.Compare(a.started, b.started))
	})
	last := j.runs[len(j.runs)-1]
	e := Entry{ID: j.id, User: last.user, Queue: last.queue, State: last.state, Submitted: j.runs[0].submitted}
	told := Told{Asked{last.limit, last.priority}, j.past()}
	components := j.components()
	for _, c := range components {
		e.Duration, e.GPUs = max(e.Duration, c.ran), e.GPUs+int(c.gpus)
	}
	if e.GPUs > 0 && e.Duration == 0 {
		l.dropped.add(j.noRunReason())
		return
	}
	if told.Past.Known() {
		told.Past.Ran = e.Duration
	}
	if told != (Told{}) {
		e.Told = &told
	}
	if l.store(e) {
		l.adjust(j, components)
	}
}

// past says when the job ran, for the baseline that shows the log as it was. It is zero if a run that took time has no
// valid start and end, or if no run took time; other runs are ignored. A run that still goes on counts as ended when it
// was last seen. Cores and memory are those of the last run of each component, added in the order of names, since the
// last digit of a sum depends on the order. The runs must be sorted by submission.
func (j *accounted) past() Past {
	p := Past{Started: math.Inf(1)}
	times := map[string]int{} // runs per component
	held := map[string]run{}
	for _, r := range j.runs {
		if r.ran <= 0 {
			continue
		}
		if r.started < j.runs[0].submitted || r.ended < r.started {
			return Past{}
		}
		p.Started, p.Ended = min(p.Started, r.started), max(p.Ended, r.ended)
		times[r.component]++
		p.Runs = max(p.Runs, times[r.component])
		held[r.component] = r
	}
	if p.Runs == 0 || p.Ended <= p.Started {
		return Past{}
	}
	for _, name := range slices.Sorted(maps.Keys(held)) {
		p.CPUs, p.Memory = p.CPUs+int(held[name].cpus), p.Memory+held[name].memory
	}
	return p
}

// component is one component of a heterogeneous job, or a whole ordinary job, with its runs added up.
type component struct {
	name string
	ran  float64 // seconds, of all runs
	gpus int32
	runs int // that took time
}

// components adds up the runs of each component. GPUs are those of the last run that took time, or of the last one if
// none did.
func (j *accounted) components() []component {
	var list []component
	for _, r := range j.runs {
		at := slices.IndexFunc(list, func(c component) bool { return c.name == r.component })
		if at < 0 {
			at, list = len(list), append(list, component{name: r.component})
		}
		c := &list[at]
		if r.ran > 0 {
			c.ran, c.runs = c.ran+r.ran, c.runs+1
		}
		if r.ran > 0 || c.runs == 0 {
			c.gpus = r.gpus
		}
	}
	return list
}

// noRunReason says why a job did not run, from its last run, for the list of jobs that were left out.
func (j *accounted) noRunReason() string {
	switch last := j.runs[len(j.runs)-1]; {
	case last.started == unknown:
		return neverStarted
	case last.ran == unknown:
		return "no telling how long it ran"
	}
	return noTime
}

// adjust counts in which ways the job's entry differs from its records, which summaries list.
func (l *log) adjust(j accounted, components []component) {
	if slices.ContainsFunc(j.runs, func(r run) bool { return r.running }) {
		l.adjusted.add("still running, counted for as long as it had run")
	}
	if slices.ContainsFunc(components, func(c component) bool { return c.runs > 1 }) {
		l.adjusted.add("restarted, all runs counted together")
	}
	if len(components) > 1 {
		l.adjusted.add("heterogeneous, its components taken for one job")
	}
}
