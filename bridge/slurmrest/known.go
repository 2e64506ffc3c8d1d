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
)

// Slurm gives no reason for a wait just after a change; a scheduler pass later it does. The job is read again after
// firstLook, then after twice as long each time, up to lastLook: no pass may ever look at it.
const (
	firstLook = time.Second
	lastLook  = 32 * time.Second
)

// known is a job as it was read last.
type known struct {
	listed
	at time.Time // when it was read

	reports bool // it runs, and tells how far it has come
	// watched: an AdminComment may come or go, by which it may share no GPU: it has a seat, or it has such a comment
	watched bool
	// so long before its time limit it is read anew and anew, since no state tells that the limit was changed; 0: never
	near time.Duration
	look time.Duration // how long after that Slurm may have found a reason; 0: it has one, or never will
}

// stale says that a job may differ although its state does not: it is being torn down, Slurm has not yet said why it
// waits, or its begin time has come.
func (k *known) stale(at time.Time) bool {
	if k.Completing || k.look > 0 && elapsed(k.at, at, k.look) {
		return true
	}
	if k.near > 0 && !at.Add(k.near).Before(k.Ends) && elapsed(k.at, at, limitEvery) {
		return true
	}
	return k.State == bridge.Pending && k.Begin.After(k.at) && !k.Begin.After(at)
}

// limitEvery is how old may be what is known of a job whose time limit is near: it is asked to save before it, and not
// if somebody has raised it.
const limitEvery = 10 * time.Second

// nearLimit is how long before its limit a job is asked to save at the earliest, where small rounds look, and as long
// again; 0: it is never asked.
func nearLimit(job *listed) time.Duration {
	if job.State != bridge.Running || job.Ends.IsZero() {
		return 0
	}
	word, _ := bridge.ParseComment(job.Comment)
	if !word.Saves {
		return 0
	}
	return 2*word.Grace + time.Minute
}

// next is what is known after a read. The looks for a reason begin anew with each change of the state and each touch.
func next(before *known, job listed, at time.Time, touched []int) *known {
	read := &known{listed: job, at: at, reports: job.State == bridge.Running &&
		(bridge.Reports(job.Comment) || bridge.Teaches(job.Comment))}
	read.watched = job.State == bridge.Running && job.Runs.Shard != "" || bridge.Accused(job.Admin)
	read.near = nearLimit(&read.listed)
	if !read.wordless() {
		return read
	}
	read.look = firstLook
	if _, ours := slices.BinarySearch(touched, job.ID); !ours && before != nil && before.wordless() &&
		before.words == job.words {
		read.look = before.look * 2
	}
	if read.look > lastLook {
		read.look = 0
	}
	return read
}

// wordless says that a job waits and Slurm's reason is missing, or from before its begin time came.
func (k *known) wordless() bool {
	if k.State != bridge.Pending {
		return false
	}
	return k.Reason == "" || k.Reason == "BeginTime" && !k.Begin.After(k.at)
}

// tells says that a job is told of: it is not over, or it carries our directive, and whoever asked it to leave learns
// how it left.
func (l *listed) tells() bool {
	return l.State != bridge.Finished || l.Completing || bridge.Managed(l.Comment)
}

// followed are the jobs that are told of even when they are over, once they were seen before that.
func (m *memory) followed() map[int]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	var followed map[int]bool
	for id, job := range m.jobs {
		if !bridge.Managed(job.Comment) {
			continue
		}
		if followed == nil {
			followed = make(map[int]bool, len(m.jobs))
		}
		followed[id] = true
	}
	return followed
}

// forgetOthers drops the jobs that the sweep no longer has: they are gone, or over and nobody's business.
func (m *memory) forgetOthers(states map[int]string, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := len(m.jobs)
	maps.DeleteFunc(m.jobs, func(id int, _ *known) bool { return states[id] == "" })
	if len(m.jobs) < before {
		m.moved = at
	}
	maps.DeleteFunc(m.touched, func(id int, _ bool) bool { return states[id] == "" })
}

// doubtful lists the jobs that may differ from what is known of them, ascending.
func (m *memory) doubtful(states map[int]string, at time.Time) []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	var doubtful []int
	for id, swept := range states {
		job := m.jobs[id]
		if job == nil || !m.looksAs(job, swept) || m.touched[id] || job.stale(at) {
			doubtful = append(doubtful, id)
		}
	}
	if len(doubtful) > 0 {
		m.moved = at
	}
	slices.Sort(doubtful)
	for _, more := range [][]int{m.overdue(doubtful, at), m.freed(doubtful, at)} {
		doubtful = append(doubtful, more...)
	}
	slices.Sort(doubtful)
	return doubtful
}

// looksAs says that a sweep tells nothing new of a job: it has the same state, and stands for as many tasks as when it
// was read.
func (m *memory) looksAs(job *known, swept string) bool {
	words, tasks, several := strings.Cut(swept, "*")
	return job.words == words && (!several || m.tasks[job.ID] == tasks || strconv.Itoa(len(job.Tasks)) == tasks)
}

// count notes for how many tasks the jobs of arrays stand that have just been read.
func (m *memory) count(states map[int]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.tasks)
	for id, swept := range states {
		if _, tasks, several := strings.Cut(swept, "*"); several {
			m.tasks[id] = tasks
		}
	}
}

// Quiet sweeps the states, and compares them with what is known.
func (c *Client) Quiet(ctx context.Context) (quiet bool, failure error) {
	defer c.discreet(&failure)
	c.observing.Lock()
	defer c.observing.Unlock()
	at := c.now()
	if elapsed(c.full, at, c.options.FullEvery) {
		return false, nil
	}
	if !elapsed(c.swept, at, c.spare) {
		return true, nil // nothing is known, and to know costs too much
	}
	states, _, err := c.sweep(ctx)
	if err != nil {
		return false, fmt.Errorf("sweep: %w", err)
	}
	c.swept = c.now()
	c.spare = min(watchShare*c.swept.Sub(at), mostSpared)
	if c.lacks(states) {
		return false, nil
	}
	return c.asBefore(ctx, c.doubtful(states, at), at)
}

// A sweep of ten thousand tasks of arrays takes slurmrestd half a second. So that it is not kept busy by being watched,
// so many times as long passes until the next one, at most so long.
const (
	watchShare = 10
	mostSpared = 10 * time.Second
)

// asBefore says that these jobs look as they did. Those that are held or wait for others, of which no state tells, are
// read for that, a few at a time; of any other there is news.
func (c *Client) asBefore(ctx context.Context, ids []int, at time.Time) (bool, error) {
	if len(ids) > mostHeld+mostDependent {
		return false, nil
	}
	for _, id := range ids {
		if !c.secretive(id, at) {
			return false, nil
		}
		job, err := c.job(ctx, id)
		if err != nil && !errors.Is(err, bridge.ErrGone) {
			return false, fmt.Errorf("read job %d: %w", id, err)
		}
		if err != nil || !c.confirm(job, at) {
			c.touch(id)
			return false, nil
		}
	}
	return true, nil
}

// secretive says that a job is doubtful for no other reason than that its state would not tell if it were free to
// start.
func (m *memory) secretive(id int, at time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	job := m.jobs[id]
	return job != nil && (job.Held || job.Dependency) && !m.touched[id] && !job.stale(at)
}

// confirm notes that a waiting job was read again, and says whether it looks as it did.
func (m *memory) confirm(job listed, at time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	was := m.jobs[job.ID]
	if was == nil || was.words != job.words || was.Held != job.Held || was.Dependency != job.Dependency ||
		was.Reason != job.Reason {
		return false
	}
	again := *was // what was handed out stays as it is
	again.at = at
	m.jobs[job.ID] = &again
	return true
}

// lacks says that a job that is known is in a sweep no more.
func (m *memory) lacks(states map[int]string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id := range m.jobs {
		if states[id] == "" {
			return true
		}
	}
	return false
}

// No state tells that a hold was released, or that what a job waited for has come about. So jobs of ours that are held
// are read in turn, a few with each look, and those that wait for another job whenever some job has moved, for as long
// as slurmctld may need to find out what that means for them.
const (
	mostHeld       = 2
	mostDependent  = 16
	findsOutWithin = 15 * time.Second
)

// freed lists the waiting jobs that may be free to start since they were read, beside those that are read anyway.
func (m *memory) freed(already []int, at time.Time) []int {
	var held, dependent []int
	for id, job := range m.jobs {
		if job.State != bridge.Pending || !bridge.Managed(job.Comment) || among(already, id) {
			continue
		}
		switch {
		case job.Held:
			held = append(held, id)
		case job.Dependency && !elapsed(m.moved, at, findsOutWithin):
			dependent = append(dependent, id)
		}
	}
	return append(m.oldest(held, mostHeld), m.oldest(dependent, mostDependent)...)
}

// among says that a job is in an ascending list.
func among(ids []int, id int) bool {
	_, found := slices.BinarySearch(ids, id)
	return found
}

// oldest are the jobs of a list that were read longest ago, at most so many.
func (m *memory) oldest(ids []int, most int) []int {
	slices.SortFunc(ids, func(x, y int) int { return cmp.Or(m.jobs[x].at.Compare(m.jobs[y].at), cmp.Compare(x, y)) })
	return ids[:min(len(ids), most)]
}

// mostReports is how many jobs one observation reads for their reports alone: those that were read longest ago.
const mostReports = 16

// watchEvery is how old may be what is known of a job of which a node, or an administrator, may say something.
const watchEvery = time.Minute

// overdue lists the running jobs that may have reported since they were read, and those of which somebody may have said
// something, beside those that are read anyway.
func (m *memory) overdue(already []int, at time.Time) []int {
	var overdue []int
	for id, job := range m.jobs {
		due := job.reports && m.reportsEvery > 0 && elapsed(job.at, at, m.reportsEvery) ||
			job.watched && elapsed(job.at, at, watchEvery)
		if due && !among(already, id) {
			overdue = append(overdue, id)
		}
	}
	return m.oldest(overdue, mostReports)
}

// beginRead takes the marks off the jobs that are about to be read (nil: all): what touches them from now on marks them
// again. It returns those that had one, ascending.
func (m *memory) beginRead(ids []int) []int {
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

// look notes that an Observe begins or ends.
func (m *memory) look(begins bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.looking = begins
}

// touch marks jobs as different from what is known of them.
func (m *memory) touch(ids ...int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		m.touched[id] = true
	}
}
