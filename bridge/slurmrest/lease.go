package slurmrest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/leader"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/wire"
)

// Leases manages the lease job: a held job of the client's user, with a deadline.
type Leases struct{ *Tickets }

var _ slurm.Leases = Leases{}

// Leases uses a lease job in that partition. It stays held and never runs.
func (c *Client) Leases(partition string) Leases { return Leases{c.Tickets(partition)} }

// limitOfLease is the time limit of the lease job. Slurm ends a waiting job when its deadline is nearer than its time
// limit, which it checks once a minute (purge_old_job in job_mgr.c).
const limitOfLease = time.Minute

// deadline is the deadline, from now, of a lease of this length. Slurm ends the job within the minute before the length
// is over, or for short leases within the minute after three quarters of it, so possibly late.
func deadline(length time.Duration) time.Duration {
	return limitOfLease + max(length-limitOfLease, length*3/4)
}

// Renew implements slurm.Leases. It renews all live lease jobs: a second one exists if the answer to a submission was
// lost. Jobs get the first.
func (l Leases) Renew(ctx context.Context, length time.Duration) (int, error) {
	live, err := l.live(ctx)
	if err != nil {
		return 0, fmt.Errorf("find lease job: %w", err)
	}
	end := l.client.now().Add(deadline(length)).Unix()
	for _, id := range live {
		if err := l.line.post(ctx, id, wire.Change{Deadline: &end}); err != nil {
			return 0, fmt.Errorf("renew lease job %d: %w", id, err)
		}
		l.client.touch(id) // its deadline must be read again
	}
	if len(live) > 0 {
		return live[0], nil
	}
	job := l.ticket(leader.Words{}) // held like a ticket, but it carries no words
	job.Name, job.Extra, job.Deadline, job.Limit = slurm.LeaseName, "", end, int(limitOfLease/time.Minute)
	id, err := l.submit(ctx, job)
	if err != nil {
		return 0, fmt.Errorf("submit job %s to partition %s: %w", slurm.LeaseName, l.partition, err)
	}
	l.client.noteLease(id)
	return id, nil
}

// End implements slurm.Leases.
func (l Leases) End(ctx context.Context) error {
	live, err := l.live(ctx)
	if err != nil {
		return fmt.Errorf("find lease job: %w", err)
	}
	for _, id := range live {
		err := l.cancel(ctx, id)
		if err != nil && !errors.Is(err, slurm.ErrGone) && !errors.Is(err, slurm.ErrNotRunning) {
			return fmt.Errorf("cancel lease job %d: %w", id, err)
		}
	}
	return nil
}

// live returns the IDs of the waiting lease jobs, ascending, each just read. If jobs were never listed it lists them
// first: a lease job of an earlier daemon is found only by its name.
func (l Leases) live(ctx context.Context) ([]int, error) {
	if l.client.neverListed() {
		if _, err := l.client.ticketsSeen(ctx); err != nil { // this updates all that is known
			return nil, err
		}
	}
	var live []int
	for _, id := range l.client.leaseJobs() {
		job, err := l.line.job(ctx, id)
		switch {
		case errors.Is(err, slurm.ErrGone), err == nil && !l.client.isLease(&job):
			l.client.forgetLease(id)
		case err != nil:
			return nil, fmt.Errorf("read job %d: %w", id, err)
		default:
			live = append(live, id)
		}
	}
	return live, nil
}

// isLease reports whether a job is a waiting lease job.
func (c *Client) isLease(job *parsedJob) bool {
	return job.State == slurm.Pending && c.isDaemons(job, slurm.LeaseName)
}

// neverListed reports whether jobs were never listed, so that a lease job of an earlier daemon would not be known.
func (m *jobCache) neverListed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lastListing.IsZero()
}

// leaseJobs returns the IDs of the lease jobs that are known to wait, ascending.
func (m *jobCache) leaseJobs() []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(slices.Sorted(maps.Keys(m.leases)), func(id int) bool { return !m.leases[id] })
}

// noteLease records a lease job just submitted, before a listing shows it.
func (m *jobCache) noteLease(id int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leases[id] = true
}

// forgetLease records that a lease job is over, so that jobs that depended on it are free to start. The ID stays in
// leases, with false: depend must still tell it from a user's dependency.
func (m *jobCache) forgetLease(id int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leases[id] = false
}

// depend separates the lease of a job that was read from the dependencies of its user. After the end of a lease job
// Slurm shows the dependency for some time; it does not count.
func (m *jobCache) depend(job *parsedJob) {
	m.mu.Lock()
	defer m.mu.Unlock()
	job.depend(m.leases)
}

// depend sets Lease, Either and Dependency from Slurm's text and leaves the user's part in dependency. leases has the
// lease jobs by ID, and whether they still wait. In afterok:5(unfulfilled),afterany:17(unfulfilled), job 17 may be a
// lease job. A "?" means that any one of the jobs is enough (Either). No lease is ever added to such a list, so all of
// it is the user's.
func (l *parsedJob) depend(leases map[int]bool) {
	if l.dependency == "" {
		return
	}
	l.Either = strings.Contains(l.dependency, "?")
	var own []string
	for clause := range strings.SplitSeq(l.dependency, ",") {
		id := leaseOf(clause)
		if live, is := leases[id]; is && !l.Either {
			if live {
				l.Lease = id
			}
			continue
		}
		own = append(own, clause)
	}
	l.dependency = strings.Join(own, ",")
	l.Dependency = l.dependency != ""
}

// leaseOf is the job in an afterany clause; 0: it is another clause.
func leaseOf(clause string) int {
	text, after := strings.CutPrefix(clause, "afterany:")
	number, _, _ := strings.Cut(text, "(")
	id, err := strconv.Atoi(number)
	if !after || err != nil {
		return 0
	}
	return id
}

// dependsOn is the dependency that an update writes: the user's own and the lease job, or the user's alone if lease is
// 0. The states in parentheses that Slurm prints may stay in the text, since Slurm accepts them.
func (l *parsedJob) dependsOn(lease int) string {
	if lease == 0 {
		return l.dependency
	}
	clause := "afterany:" + strconv.Itoa(lease)
	if l.dependency == "" {
		return clause
	}
	return l.dependency + "," + clause
}
