package slurmrest

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
)

// Slurm gives no reason for a wait just after a change; a scheduler pass later it does. The job is read again after firstLook,
// then after twice as long each time, up to lastLook: no pass may ever look at it.
const (
	firstLook = time.Second
	lastLook  = 32 * time.Second
)

// known is a job as it was read last.
type known struct {
	listed
	at time.Time // when it was read

	reports bool          // it runs, and tells how far it has come
	look    time.Duration // how long after that Slurm may have found a reason; 0: it has one, or never will
}

// stale says that a job may differ although its state does not: it is being torn down, Slurm has not yet said why it waits, or
// its begin time has come.
func (k *known) stale(at time.Time) bool {
	if k.Completing || k.look > 0 && at.Sub(k.at) >= k.look {
		return true
	}
	return k.State == bridge.Pending && k.Begin.After(k.at) && !k.Begin.After(at)
}

// next is what is known after a read. The looks for a reason begin anew with each change of the state and each touch.
func next(before *known, job listed, at time.Time, touched []int) *known {
	read := &known{listed: job, at: at, reports: job.State == bridge.Running && bridge.Reports(job.Comment)}
	if !read.wordless() {
		return read
	}
	read.look = firstLook
	if _, ours := slices.BinarySearch(touched, job.ID); !ours && before != nil && before.wordless() && before.words == job.words {
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

// forgetOthers drops the jobs that the sweep no longer has: they are gone or over.
func (c *Client) forgetOthers(states map[int]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.jobs, func(id int, _ *known) bool { return states[id] == "" })
	maps.DeleteFunc(c.touched, func(id int, _ bool) bool { return states[id] == "" })
}

// doubtful lists the jobs that may differ from what is known of them, ascending.
func (c *Client) doubtful(states map[int]string, at time.Time) []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	var doubtful []int
	for id, swept := range states {
		job := c.jobs[id]
		if job == nil || job.words != swept || c.touched[id] || job.stale(at) {
			doubtful = append(doubtful, id)
		}
	}
	doubtful = append(doubtful, c.overdue(doubtful, at)...)
	slices.Sort(doubtful)
	return doubtful
}

// mostReports is how many jobs one observation reads for their reports alone: those that were read longest ago.
const mostReports = 16

// overdue lists the running jobs that may have reported since they were read, beside those that are read anyway.
func (c *Client) overdue(already []int, at time.Time) []int {
	if c.options.ReportsEvery <= 0 {
		return nil
	}
	var overdue []int
	for id, job := range c.jobs {
		if job.reports && at.Sub(job.at) >= c.options.ReportsEvery && !slices.Contains(already, id) {
			overdue = append(overdue, id)
		}
	}
	slices.SortFunc(overdue, func(x, y int) int { return cmp.Or(c.jobs[x].at.Compare(c.jobs[y].at), cmp.Compare(x, y)) })
	return overdue[:min(len(overdue), mostReports)]
}

// beginRead takes the marks off the jobs that are about to be read (nil: all): what touches them from now on marks them again.
// It returns those that had one, ascending.
func (c *Client) beginRead(ids []int) []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	var touched []int
	for id := range c.touched {
		if _, about := slices.BinarySearch(ids, id); about || ids == nil {
			touched = append(touched, id)
			delete(c.touched, id)
		}
	}
	slices.Sort(touched)
	return touched
}

// look notes that an Observe begins or ends.
func (c *Client) look(begins bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looking = begins
}

// touch marks jobs as different from what is known of them.
func (c *Client) touch(ids ...int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		c.touched[id] = true
	}
}
