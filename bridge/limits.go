package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/limits"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// Limits tells what the site has set. slurmrest does; a workload manager that does not is one without limits.
type Limits interface {
	Limits(ctx context.Context) (limits.Site, error)
}

// How long what was read of limits is good for.
const (
	// it is not read again before; nor before a hundred times as long has passed as reading took
	limitsFresh = time.Minute
	limitsStale = 6 * time.Hour    // after which nothing is believed to be known
	limitsAgain = 10 * time.Minute // the longest pause after failures, which doubles from limitsFresh
)

// Almanac keeps what was last read of the site's limits. They change when somebody runs sacctmgr, so an old answer is
// far better than none: while they cannot be read the last answer holds for six hours. Without one no job is given more
// than its user asked for, which is what Slurm has checked; to take no limits for granted would break them, and to
// start nothing would make slurmdbd's absence everybody's.
//
// It may outlive the Runner whose rounds use it, and is used by one round at a time.
type Almanac struct {
	Source Limits

	book     *limits.Book  // nil: nothing is known
	read     time.Duration // when, on our own watch
	next     time.Duration // not to be asked before
	failures int           // in a row
	failed   error         // the last time; nil: it went well
}

// look brings the almanac up to date, within a time that leaves the round its own.
func (a *Almanac) look(ctx context.Context, clock Clock, within time.Duration) {
	began := clock.Elapsed()
	if began < a.next {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	site, err := a.Source.Limits(bounded)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = fmt.Errorf("no answer within %v: %w", within, err)
	}
	now := clock.Elapsed()
	if a.failed = err; err != nil {
		a.failures++
		a.next = now + min(limitsAgain, limitsFresh<<min(a.failures-1, 10))
		return
	}
	a.book, a.read, a.failures = limits.NewBook(site), now, 0
	a.next = now + max(limitsFresh, 100*(now-began))
}

// known is the book, as long as it is good.
func (a *Almanac) known(now time.Duration) *limits.Book {
	if a.book != nil && now-a.read > limitsStale {
		a.book = nil
	}
	return a.book
}

// gap says what of the limits is not known, and what is done meanwhile; empty when all is.
func (a *Almanac) gap() string {
	switch {
	case a.failed == nil:
		return ""
	case a.book == nil:
		return fmt.Sprintf("%v: no job is given more than it asked for", a.failed)
	}
	return fmt.Sprintf("%v: what was read before holds for %v", a.failed, limitsStale)
}

// consultAlmanac reads the site's limits when that is due.
func (t *turn) consultAlmanac(ctx context.Context) {
	if t.Almanac == nil {
		return
	}
	within := 2 * time.Second
	if !t.small {
		within = min(max(t.Settings.Round/10, within), 30*time.Second)
	}
	t.Almanac.look(ctx, t.Clock, within)
	t.report.LimitsGap = t.Almanac.gap()
}

// limit puts the site's limits into the snapshot.
func (t *turn) limit(c *policy.Cluster) {
	if t.Almanac == nil {
		return
	}
	jobs := t.limited()
	var v limits.Verdict
	if book := t.Almanac.known(t.Clock.Elapsed()); book != nil {
		v = book.Judge(jobs)
	} else {
		v = t.modest(jobs)
	}
	c.Quotas = v.Quotas
	for i := range v.Terms {
		impose(&v.Terms[i], &c.Jobs[i])
		tn := t.scene.managed[i]
		if never := v.Terms[i].Never; never != "" {
			tn.bar = bar{CauseAboveLimits, never}
		}
		if len(v.Terms[i].Shut) > 0 {
			tn.shut = append(tn.shut, v.Terms[i].Shut...)
			c.Jobs[i].Only = t.scene.only(tn)
		}
	}
}

// impose puts what the site allows a job into what the planner knows of it. Managed jobs are in the same order in both.
// One that runs although it could not start again as it is goes on: once stopped it would wait for ever.
func impose(terms *limits.Terms, j *policy.Job) {
	j.Quotas = terms.Quotas
	j.Priority += int64(terms.Tier) << 32 // a priority has 32 bits
	j.Ceiling.CPUs = tighter(j.Ceiling.CPUs, terms.Ceiling.CPUs)
	j.Ceiling.Memory = tighter(j.Ceiling.Memory, terms.Ceiling.Memory)
	j.Ceiling.GPUs = tighter(j.Ceiling.GPUs, terms.Ceiling.GPUs)
	if j.Running != nil {
		j.Fixed = j.Fixed || terms.Never != ""
		return
	}
	// what does not pass by itself first: a start that failed is no reason to be armed
	j.Barred = cmp.Or(terms.Never, j.Barred)
}

// tighter is the smaller of two bounds of which 0 is none.
func tighter[N int | gres.Memory](a, b N) N {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// modest is the verdict where no limit is known. What runs with more than was asked for goes on: nothing says that it
// may not.
func (t *turn) modest(jobs []limits.Job) limits.Verdict {
	v := limits.Modest(jobs)
	for i, tn := range t.scene.managed {
		if most := &v.Terms[i].Ceiling; tn.State == Running {
			held := tn.Runs.PerNode
			most.CPUs = raised(most.CPUs, held.CPUs)
			most.Memory = raised(most.Memory, held.Memory)
		}
	}
	return v
}

// raised is a bound, of which 0 is none, that does not forbid what is held.
func raised[N int | gres.Memory](bound, held N) N {
	if bound == 0 {
		return 0
	}
	return max(bound, held)
}

// limited are all jobs of the cluster as limits see them, ascending in ID.
func (t *turn) limited() []limits.Job {
	jobs, ours := make([]limits.Job, len(t.seen)), t.scene.managed
	for i, j := range t.seen {
		jobs[i] = t.scene.limited(j)
		if len(ours) > 0 && ours[0].ID == j.ID {
			jobs[i].Managed, jobs[i].Asks = true, ours[0].record.Own.perNode()
			jobs[i].Asks.GPUs = 0 // its GPUs no round changes
			if ours[0].chooses() {
				jobs[i].Choice = ours[0].open()
				jobs[i].Partition = jobs[i].Choice[0]
			}
			ours = ours[1:]
		}
	}
	return jobs
}

// limited is one job. Slurm counts it from its start until its teardown begins.
func (s *scene) limited(j *Job) limits.Job {
	l := limits.Job{
		ID: j.ID, User: j.User, Account: j.Account, QOS: j.QOS, Partition: j.Partition, TimeLimit: j.TimeLimit,
		Nodes: max(1, j.Request.Nodes), GPUs: j.Request.GPUs, GPUType: j.Request.GPUType,
	}
	if l.Running = j.State == Running; l.Running {
		l.Holds, l.On, l.Type = j.Runs.PerNode.Times(len(j.Runs.Nodes)), j.Runs.Nodes, j.Request.GPUType
		if l.Type == "" && len(l.On) > 0 {
			l.Type = s.typeOn(l.On[0])
		}
	}
	return l
}

// typeOn is the type of a node's GPUs.
func (s *scene) typeOn(name string) string {
	k, found := sort.Find(len(s.nodes), func(k int) int { return strings.Compare(name, s.nodes[k].Name) })
	if !found {
		return ""
	}
	return s.nodes[k].GPUType
}
