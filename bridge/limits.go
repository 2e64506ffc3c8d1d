package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/limits"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// Limits reads the limits that the site has set. Slurmrest does; a workload manager that does not has none.
type Limits interface {
	Limits(ctx context.Context) (limits.Site, error)
}

// When limits are read, and how long an answer is used.
const (
	// minLimitsPause is the least time between two readings. After a slow reading the pause is a hundred times its
	// duration.
	minLimitsPause = time.Minute
	maxLimitsAge   = 6 * time.Hour    // after which the last answer is dropped
	maxLimitsPause = 10 * time.Minute // the longest pause after failures; it starts at minLimitsPause and doubles
)

// LimitsCache is a cache of the site's limits. They change when an administrator runs sacctmgr, so an old answer is far
// better than none: if they cannot be read, the last answer is used for six hours. Without an answer no job is given
// more than its user asked for, which Slurm has checked. To assume that there are no limits could violate them; to
// start nothing would stop the site whenever slurmdbd is away.
//
// It may outlive the Runner that uses it, and is used by one round at a time.
type LimitsCache struct {
	Source Limits

	book      *limits.Book  // nil: nothing is known
	readAt    time.Duration // when it was read, on the host's monotonic clock
	nextRead  time.Duration // not to be read before
	failures  int           // in a row
	lastError error         // error of the last reading; nil: it succeeded
}

// refresh reads the limits if that is due, and gives up after the given time. If it fails, the last answer stays, and
// the next attempt is put off longer after each failure.
func (a *LimitsCache) refresh(ctx context.Context, clock Clock, within time.Duration) {
	began := clock.Elapsed()
	if began < a.nextRead {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	site, err := a.Source.Limits(bounded)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = fmt.Errorf("no answer within %v: %w", within, err)
	}
	now := clock.Elapsed()
	if a.lastError = err; err != nil {
		a.failures++
		a.nextRead = now + min(
			maxLimitsPause,
			minLimitsPause<<min(a.failures-1, 10),
		) // at 10 the shift is far above maxLimitsPause
		return
	}
	a.book, a.readAt, a.failures = limits.NewBook(site), now, 0
	a.nextRead = now + max(minLimitsPause, 100*(now-began))
}

// cachedBook is the cached answer at now, on the host's monotonic clock; nil if there is none or it is too old. An
// answer that is too old is dropped, so that gapText says what is done without it.
func (a *LimitsCache) cachedBook(now time.Duration) *limits.Book {
	if a.book != nil && now-a.readAt > maxLimitsAge {
		a.book = nil
	}
	return a.book
}

// gapText says, for the report, why the present limits are unknown and what is done meanwhile; empty: they are known.
func (a *LimitsCache) gapText() string {
	switch {
	case a.lastError == nil:
		return ""
	case a.book == nil:
		return fmt.Sprintf("%v: no job is given more than it asked for", a.lastError)
	}
	return fmt.Sprintf("%v: what was read before holds for %v", a.lastError, maxLimitsAge)
}

// refreshLimits refreshes the cache of the site's limits if that is due. It takes at most 2 s, or in a full round a
// tenth of the round between 2 and 30 s: as long as it waits for slurmdbd, no job starts.
func (t *activeRound) refreshLimits(ctx context.Context) {
	if t.runner.Limits == nil {
		return
	}
	within := 2 * time.Second
	if !t.small {
		within = min(max(t.runner.Settings.Round/10, within), 30*time.Second)
	}
	t.runner.Limits.refresh(ctx, t.runner.Clock, within)
	t.report.LimitsGap = t.runner.Limits.gapText()
}

// applyLimits puts the site's limits into the snapshot, so that no plan gives a job what Slurm would refuse: quotas,
// ceilings, and for jobs that can never start the reason. A job that may not start in some of its partitions has only
// the nodes of the others. Without a cache of limits nothing is changed; while no limits are known, no job gets more
// than it asked for.
func (t *activeRound) applyLimits(c *policy.Cluster) {
	if t.runner.Limits == nil {
		return
	}
	jobs := t.limitsJobs()
	var v limits.Verdict
	if book := t.runner.Limits.cachedBook(t.runner.Clock.Elapsed()); book != nil {
		v = book.Judge(jobs)
	} else {
		v = t.verdictWithoutLimits(jobs)
	}
	c.Quotas = v.Quotas
	for i := range v.Terms {
		applyTerms(&v.Terms[i], &c.Jobs[i])
		tn := t.observation.managed[i]
		if never := v.Terms[i].Never; never != "" {
			tn.bar = barReason{CauseAboveLimits, never}
		}
		if len(v.Terms[i].Shut) > 0 {
			// The limits close these partitions to it for now, and with them the nodes that only they have.
			tn.closedPartitions = append(tn.closedPartitions, v.Terms[i].Shut...)
			c.Jobs[i].Only = t.observation.allowedNodes(tn)
		}
	}
}

// applyTerms applies what the site allows a job to the planner's view of it. A job in a partition of a higher
// PriorityTier goes before any priority, as in Slurm. A running job that could not start again is fixed, since once
// stopped it would wait for ever. A waiting one is barred.
func applyTerms(terms *limits.Terms, j *policy.Job) {
	j.Quotas = terms.Quotas
	j.Priority += int64(terms.Tier) << 32 // a priority has 32 bits
	j.Ceiling.CPUs = tighterBound(j.Ceiling.CPUs, terms.Ceiling.CPUs)
	j.Ceiling.Memory = tighterBound(j.Ceiling.Memory, terms.Ceiling.Memory)
	j.Ceiling.GPUs = tighterBound(j.Ceiling.GPUs, terms.Ceiling.GPUs)
	if j.Running != nil {
		j.Fixed = j.Fixed || terms.Never != ""
		return
	}
	// A lasting reason comes first: a job whose starts failed may be armed, one above its limits may not.
	j.Barred = cmp.Or(terms.Never, j.Barred)
}

// tighterBound is the smaller of two bounds; 0 means no bound.
func tighterBound[N int | gres.Memory](a, b N) N {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// verdictWithoutLimits is the verdict while no limits are known: no job gets more than it asked for, which Slurm has
// checked when it was submitted. A running job keeps what it holds beyond that, since nothing forbids it.
func (t *activeRound) verdictWithoutLimits(jobs []limits.Job) limits.Verdict {
	v := limits.Modest(jobs)
	for i, tn := range t.observation.managed {
		if most := &v.Terms[i].Ceiling; tn.State == slurm.Running {
			held := tn.Runs.PerNode
			most.CPUs = raisedBound(most.CPUs, held.CPUs)
			most.Memory = raisedBound(most.Memory, held.Memory)
		}
	}
	return v
}

// raisedBound is the bound, raised to what is held if that is more; 0 means no bound and stays.
func raisedBound[N int | gres.Memory](bound, held N) N {
	if bound == 0 {
		return 0
	}
	return max(bound, held)
}

// limitsJobs are all jobs of the cluster as the limits package sees them, ascending in ID. Unmanaged jobs are among
// them, since they use up shared limits, too. Managed jobs also say what their users asked for and in which partitions
// they may start.
func (t *activeRound) limitsJobs() []limits.Job {
	jobs, ours := make([]limits.Job, len(t.seen)), t.observation.managed
	for i, j := range t.seen {
		jobs[i] = t.observation.limitsJob(j)
		if len(ours) > 0 && ours[0].ID == j.ID {
			jobs[i].Managed, jobs[i].Asks = true, ours[0].record.Own.PerNode()
			jobs[i].Asks.GPUs = 0 // no round changes the number of GPUs
			if ours[0].hasPartitionChoice() {
				// Its limits are those of each partition in which it may start; Partition must be one of them.
				jobs[i].Choice = ours[0].openPartitions()
				jobs[i].Partition = jobs[i].Choice[0]
			}
			ours = ours[1:]
		}
	}
	return jobs
}

// limitsJob is one job as the limits package sees it. Slurm counts it from its start until its cleanup begins.
func (s *sortedObservation) limitsJob(j *slurm.Job) limits.Job {
	l := limits.Job{
		ID: j.ID, User: j.User, Account: j.Account, QOS: j.QOS, Partition: j.Partition, TimeLimit: j.TimeLimit,
		Nodes: max(1, j.Request.Nodes), GPUs: j.Request.GPUs, GPUType: j.Request.GPUType,
	}
	if l.Running = j.State == slurm.Running; l.Running {
		l.Holds, l.On, l.Type = j.Runs.PerNode.Times(len(j.Runs.Nodes)), j.Runs.Nodes, j.Request.GPUType
		if l.Type == "" && len(l.On) > 0 {
			l.Type = s.gpuTypeOn(l.On[0])
		}
	}
	return l
}

// gpuTypeOn is the type of a node's GPUs; empty if the node is unknown.
func (s *sortedObservation) gpuTypeOn(name string) string {
	k, found := sort.Find(len(s.nodes), func(k int) int { return strings.Compare(name, s.nodes[k].Name) })
	if !found {
		return ""
	}
	return s.nodes[k].GPUType
}
