package slurmrest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
)

// Just after a change a waiting job has no reason; a scheduler pass later it has one. The job is read again after
// firstLook, then after twice the interval each time, up to lastLook, since a pass may never examine it.
const (
	firstLook = time.Second
	lastLook  = 32 * time.Second
)

// knownJob is a job as last read.
type knownJob struct {
	parsedJob
	readAt time.Time // when it was read

	mayReport bool // it runs and reports progress or a curve in its comment
	// watched: its AdminComment may change in a way that matters for sharing GPUs, because it has a slot or such a
	// comment
	watched bool
	// time before its limit from which it is read again and again, since its state does not show a changed limit; 0:
	// never
	watchBeforeLimit time.Duration
	// read again after this, since Slurm may have found a reason; 0: it has one, or never will
	rereadAfter time.Duration
}

// stale reports whether a job must be read again although the sweep shows the same state: it is completing, Slurm may
// have found a reason by now (rereadAfter), its time limit is near and may have been changed, or its begin time has
// come.
func (k *knownJob) stale(at time.Time) bool {
	if k.Completing || k.rereadAfter > 0 && elapsed(k.readAt, at, k.rereadAfter) {
		return true
	}
	if k.watchBeforeLimit > 0 && !at.Add(k.watchBeforeLimit).Before(k.Ends) && elapsed(k.readAt, at, limitEvery) {
		return true
	}
	return k.State == slurm.Pending && k.Begin.After(k.readAt) && !k.Begin.After(at)
}

// limitEvery is how often a job near its time limit is read. It is asked to save before the limit, but not if the limit
// was raised.
const limitEvery = 10 * time.Second

// nearLimit is the time before its limit from which a job is watched; 0: it is not asked to save. It is at least twice
// the time before the limit at which small rounds ask it, the grace plus 15 s (bridge/expire.go).
func nearLimit(job *parsedJob) time.Duration {
	if job.State != slurm.Running || job.Ends.IsZero() {
		return 0
	}
	if !job.directives.Saves {
		return 0
	}
	return 2*job.directives.Grace + time.Minute
}

// nextKnown is the new record of a job that was read at that time; before is its last record, nil for a new job. For a
// job that waits without a reason it sets rereadAfter, the time until the job is read again: firstLook after each
// change of state and after each request of ours to change the job (touched has these jobs, ascending), and twice the
// time before if nothing has changed. Beyond lastLook it is 0, which means never.
func nextKnown(before *knownJob, job parsedJob, at time.Time, touched []int) *knownJob {
	read := &knownJob{parsedJob: job, readAt: at, mayReport: job.State == slurm.Running &&
		(job.directives.Reports || job.directives.Teaches)}
	read.watched = job.State == slurm.Running && job.Runs.Shard != "" || bridge.Accused(job.Admin)
	read.watchBeforeLimit = nearLimit(&read.parsedJob)
	if !read.lacksReason() {
		return read
	}
	read.rereadAfter = firstLook
	if _, ours := slices.BinarySearch(touched, job.ID); !ours && before != nil && before.lacksReason() &&
		before.stateText == job.stateText {
		read.rereadAfter = before.rereadAfter * 2
	}
	if read.rereadAfter > lastLook {
		read.rereadAfter = 0
	}
	return read
}

// lacksReason reports whether a job waits without a reason, or with the reason BeginTime although its begin time has
// come. Slurm has not looked at such a job since, and its reason may change without a change of state. A job with a
// lease never counts.
func (k *knownJob) lacksReason() bool {
	if k.State != slurm.Pending || k.Lease != 0 { // for a lease Slurm shows no more than a dependency
		return false
	}
	return k.Reason == "" || k.Reason == "BeginTime" && !k.Begin.After(k.readAt)
}

// isObservable reports whether a job is reported to rounds: it is not over, or it carries our directive, so that a
// round that asked it to leave learns how it ended.
func (l *parsedJob) isObservable() bool {
	return l.State != slurm.Finished || l.Completing || l.directives.Managed
}

// followed are the known jobs with our directive. A sweep keeps their entries even when they are over, so that a round
// learns how they ended. Nil: there are none.
func (m *jobCache) followed() map[int]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	var followed map[int]bool
	for id, job := range m.jobs {
		if !job.directives.Managed {
			continue
		}
		if followed == nil {
			followed = make(map[int]bool, len(m.jobs))
		}
		followed[id] = true
	}
	return followed
}

// forgetOthers drops from the cache the jobs that the sweep no longer has: they are gone, or over and without our
// directive. If any was dropped, at is noted as a time of change, after which jobs that depend on others are read.
func (m *jobCache) forgetOthers(states map[int]string, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := len(m.jobs)
	maps.DeleteFunc(m.jobs, func(id int, _ *knownJob) bool { return states[id] == "" })
	if len(m.jobs) < before {
		m.lastChange = at
	}
	maps.DeleteFunc(m.touched, func(id int, _ bool) bool { return states[id] == "" })
}

// doubtful lists the jobs that must be read because they may differ from what is known, ascending: new, changed or
// touched ones (touch), stale ones, those whose lease job ended, and a few from dueReports and maybeFreed. It also
// updates which lease jobs still wait, and notes at as a time of change if there is any but those few.
func (m *jobCache) doubtful(states map[int]string, at time.Time) []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id := range m.leases {
		m.leases[id] = strings.Contains(states[id], "PENDING")
	}
	var doubtful []int
	for id, swept := range states {
		job := m.jobs[id]
		if job == nil || !m.looksAs(job, swept) || m.touched[id] || job.stale(at) ||
			job.Lease != 0 && !m.leases[job.Lease] {
			doubtful = append(doubtful, id)
		}
	}
	if len(doubtful) > 0 {
		m.lastChange = at
	}
	slices.Sort(doubtful)
	for _, more := range [][]int{m.dueReports(doubtful, at), m.maybeFreed(doubtful, at)} {
		doubtful = append(doubtful, more...)
	}
	slices.Sort(doubtful)
	return doubtful
}

// looksAs reports whether the sweep shows nothing new for a job: the same state, and, for the common record of an
// array, as many tasks as in the last sweep or as when it was read. The last sweep's number counts as well because
// job.Tasks is cut off for a long array.
func (m *jobCache) looksAs(job *knownJob, swept string) bool {
	words, tasks, several := strings.Cut(swept, "*")
	return job.stateText == words && (!several || m.tasks[job.ID] == tasks || strconv.Itoa(len(job.Tasks)) == tasks)
}

// count records for how many tasks each array's common record stood in this sweep, so that the next one shows whether a
// task has left it.
func (m *jobCache) count(states map[int]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.tasks)
	for id, swept := range states {
		if _, tasks, several := strings.Cut(swept, "*"); several {
			m.tasks[id] = tasks
		}
	}
}

// Quiet implements slurm.Watcher: it sweeps the states and compares them with what is known. If the last sweep is so
// recent that another would cost too much, it says quiet without asking. If a full listing is due it says that
// something may have changed.
func (c *Client) Quiet(ctx context.Context) (quiet bool, failure error) {
	defer c.hideToken(&failure)
	c.observing.Lock()
	defer c.observing.Unlock()
	at := c.now()
	if elapsed(c.lastListing, at, c.options.FullEvery) {
		return false, nil
	}
	if !elapsed(c.lastSweep, at, c.sweepPause) {
		return true, nil // nothing is known, but finding out would cost too much
	}
	states, _, err := c.sweep(ctx)
	if err != nil {
		return false, fmt.Errorf("sweep: %w", err)
	}
	c.lastSweep = c.now()
	c.sweepPause = min(watchShare*c.lastSweep.Sub(at), mostSpared)
	if c.hasMissingJob(states) {
		return false, nil
	}
	return c.areUnchanged(ctx, c.doubtful(states, at), at)
}

// A sweep of ten thousand array tasks takes slurmrestd half a second. So that watching does not keep it busy, the pause
// after a sweep is watchShare times its duration, at most mostSpared.
const (
	watchShare = 10
	mostSpared = 10 * time.Second
)

// areUnchanged reports whether these doubtful jobs are unchanged, so that no round is needed. Held and dependent jobs,
// whose state does not show a change, are read, a few at a time; any other doubtful job counts as changed. A job that
// has changed is marked (touch), so that the next observation reads it.
func (c *Client) areUnchanged(ctx context.Context, ids []int, at time.Time) (bool, error) {
	if len(ids) > mostHeld+mostDependent { // then some are doubtful for another reason, see maybeFreed
		return false, nil
	}
	for _, id := range ids {
		if !c.mayBeFreed(id, at) {
			return false, nil
		}
		job, err := c.job(ctx, id)
		if err != nil && !errors.Is(err, slurm.ErrGone) {
			return false, fmt.Errorf("read job %d: %w", id, err)
		}
		if err != nil || !c.confirm(job, at) {
			c.touch(id)
			return false, nil
		}
	}
	return true, nil
}

// mayBeFreed reports whether a job is doubtful only because its state would not show that it became free to start.
func (m *jobCache) mayBeFreed(id int, at time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	job := m.jobs[id]
	return job != nil && (job.Held || job.Dependency) && !m.touched[id] && !job.stale(at)
}

// confirm reports whether a waiting job that was read again is unchanged, and if so records the time of the read.
func (m *jobCache) confirm(job parsedJob, at time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	was := m.jobs[job.ID]
	if was == nil || was.stateText != job.stateText || was.Held != job.Held || was.Dependency != job.Dependency ||
		was.Reason != job.Reason {
		return false
	}
	again := *was // jobs that were handed out are never modified
	again.readAt = at
	m.jobs[job.ID] = &again
	return true
}

// hasMissingJob reports whether a known job is missing from a sweep: it has ended, so there is something to observe.
func (m *jobCache) hasMissingJob(states map[int]string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id := range m.jobs {
		if states[id] == "" {
			return true
		}
	}
	return false
}

// A state does not show that a hold was released or a dependency fulfilled. So managed jobs that are held are read in
// turn, mostHeld per look. Dependent ones are read, mostDependent per look, while some job has changed within
// findsOutWithin, the time that slurmctld may need to notice what that means for them.
const (
	mostHeld       = 2
	mostDependent  = 16
	findsOutWithin = 15 * time.Second
)

// maybeFreed lists held and dependent jobs that are to be read now because they may have become free to start, except
// those in already.
func (m *jobCache) maybeFreed(already []int, at time.Time) []int {
	var held, dependent []int
	for id, job := range m.jobs {
		if job.State != slurm.Pending || !job.directives.Managed || containsID(already, id) {
			continue
		}
		switch {
		case job.Held:
			held = append(held, id)
		case job.Dependency && !elapsed(m.lastChange, at, findsOutWithin):
			dependent = append(dependent, id)
		}
	}
	return append(m.oldest(held, mostHeld), m.oldest(dependent, mostDependent)...)
}

// containsID reports whether a job is in an ascending list.
func containsID(ids []int, id int) bool {
	_, found := slices.BinarySearch(ids, id)
	return found
}

// oldest returns the jobs of a list that were read longest ago, at most that many, so that all get their turn.
func (m *jobCache) oldest(ids []int, most int) []int {
	slices.SortFunc(
		ids,
		func(x, y int) int { return cmp.Or(m.jobs[x].readAt.Compare(m.jobs[y].readAt), cmp.Compare(x, y)) },
	)
	return ids[:min(len(ids), most)]
}

// mostReports limits the jobs that one observation reads only for their reports; those read longest ago come first.
const mostReports = 16

// watchEvery is how often watched jobs are read for what a node or administrator may write about them.
const watchEvery = time.Minute

// dueReports lists running jobs whose comment may have a new report, and watched jobs, that are to be read now, at most
// mostReports and none of those in already. They are read by time, since a new report or AdminComment changes no state.
func (m *jobCache) dueReports(already []int, at time.Time) []int {
	var overdue []int
	for id, job := range m.jobs {
		due := job.mayReport && m.reportsEvery > 0 && elapsed(job.readAt, at, m.reportsEvery) ||
			job.watched && elapsed(job.readAt, at, watchEvery)
		if due && !containsID(already, id) {
			overdue = append(overdue, id)
		}
	}
	return m.oldest(overdue, mostReports)
}

// beginRead removes the touched marks of the jobs about to be read (nil: all), so that later touches mark them again.
// It returns the jobs that were marked, ascending.
func (m *jobCache) beginRead(ids []int) []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	var touched []int
	for id := range m.touched {
		if _, about := slices.BinarySearch(ids, id); about || ids == nil {
			touched = append(touched, id)
			delete(m.touched, id)
		}
	}
	slices.Sort(touched)
	return touched
}

// setLooking records that an Observe begins or ends. What is written meanwhile may be missing in what it reads, so
// wrote then marks the job.
func (m *jobCache) setLooking(begins bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.isObserving = begins
}

// touch marks jobs as possibly different from what is known, after a request to change them: the next observation reads
// them.
func (m *jobCache) touch(ids ...int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		m.touched[id] = true
	}
}
