package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
)

// Slurm keeps the waiting tasks of an array in one record, and an update of that record changes them all. So as many
// tasks as may soon start are given jobs of their own, which are then like any other job; the common record of the
// remaining tasks waits under its lease. One call splits many tasks, and the planner sees of an array of ten thousand
// only as many tasks as the cluster can hold.

// maxSplit is how many tasks of an array get jobs of their own in one round: slurmctld does nothing else while it
// splits. The next round splits more.
const maxSplit = 256

// firstSplitDelay is when an array is tried again after a first failure, and addedSplitDelay is added after each
// further failure in a row. Only from the second failure on is the array left to Slurm until then: one failure may be
// due to a task that was just cancelled or to a restarting controller.
const (
	firstSplitDelay = 3 * time.Second
	addedSplitDelay = 10 * time.Minute
)

// splitFailure is what is remembered of an array whose tasks could not be given jobs of their own.
type splitFailure struct {
	why      string
	failures int           // in a row
	retryAt  time.Duration // when to try again, on the host's monotonic clock
}

// untouchedReason says why rounds do not touch a job with our directive: because of its request, because it is outside
// the canary, or because it is an array whose tasks cannot be split off. It is empty if rounds plan the job.
func (r *Runner) untouchedReason(j *slurm.Job) string {
	if why := leftAlone(j); why != "" {
		return why
	}
	if !r.Settings.Canary.includes(j) {
		return notInCanary
	}
	if !j.StandsForTasks() {
		return ""
	}
	if r.Splitter == nil {
		return "is an array, and nothing here gives its tasks jobs of their own"
	}
	if failed := r.splitFailures[j.ID]; failed.failures > 1 && r.Clock.Elapsed() < failed.retryAt {
		return failed.why
	}
	return ""
}

// splitArrays gives tasks of arrays jobs of their own, as many as may soon start. anew says whether the cluster is to
// be observed anew: tasks were split off, or an array could not be split. Such an array is left to Slurm from the
// second failure on. Only a lost leadership and a cancelled ctx are returned as errors: one user's array must not end
// every round, and if Slurm is unreachable, the next call shows it.
func splitArrays(ctx context.Context, t *activeRound) (anew bool, err error) {
	if t.runner.Settings.Shadow || t.runner.Splitter == nil {
		return false, nil
	}
	for _, array := range dueSplits(t) {
		err := t.runner.Splitter.Split(ctx, array.ID, array.tasks)
		switch {
		case err == nil:
			delete(t.runner.splitFailures, array.ID)
			anew = true
		case errors.Is(err, slurm.ErrNotLeader), ctx.Err() != nil:
			return anew, fmt.Errorf("give tasks of array %d jobs of their own: %w", array.ID, err)
		case errors.Is(err, slurm.ErrNotPending), errors.Is(err, slurm.ErrGone), errors.Is(err, slurm.ErrHeld):
			// it has changed: the next observation shows how
		default:
			// Jobs are sorted anew, since the array may be left to Slurm from now on (untouchedReason).
			t.runner.noteSplitFailure(array.ID, err)
			anew = true
		}
	}
	return anew, nil
}

// noteSplitFailure remembers that an array could not be split, and when to try again: after firstSplitDelay, and from
// the second failure in a row on after addedSplitDelay more.
func (r *Runner) noteSplitFailure(array int, err error) {
	if r.splitFailures == nil {
		r.splitFailures = map[int]splitFailure{}
	}
	failed := splitFailure{fmt.Sprintf("is an array whose tasks cannot be given jobs of their own: %v", err),
		r.splitFailures[array].failures + 1, r.Clock.Elapsed()}
	if failed.retryAt += firstSplitDelay; failed.failures > 1 {
		failed.retryAt += addedSplitDelay
	}
	r.splitFailures[array] = failed
}

// arraySplitPlan is an array with those of its tasks that shall get jobs of their own now. Its managedJob is the common
// record of the tasks that have none.
type arraySplitPlan struct {
	*managedJob
	tasks        []int // those to be split off
	activeTasks  int   // tasks with jobs of their own that run, or wait and may start
	waitingTasks int   // those of them that wait
}

// dueSplits lists the arrays of which more tasks could start than have jobs of their own, and which tasks to split off,
// in Slurm's order of priority. As many tasks wait with jobs of their own as fill the cluster's GPUs or may be armed
// behind them; more would only cost Slurm and the planner time. Each array may have at least one such job. While more
// than half of them still wait, none is split off: to split one after every start would read the array again each time.
// No array gets more jobs than it may run at once (AtOnce, %N in sbatch --array).
func dueSplits(t *activeRound) []arraySplitPlan {
	all := splittableArrays(t)
	if len(all) == 0 {
		return nil
	}
	slices.SortStableFunc(all, func(a, b arraySplitPlan) int { return cmp.Compare(b.Priority, a.Priority) })
	room := 0 // for waiting tasks, in GPUs
	for _, i := range t.observation.topology.managed {
		room += t.observation.nodes[i].Total.GPUs
	}
	var due []arraySplitPlan
	for _, s := range all {
		gpus := max(1, s.Request.GPUs)
		// As many as fill the cluster, and those that may be armed behind them.
		most := max(1, (room+gpus-1)/gpus+t.runner.Settings.Ahead)
		n := min(most-s.waitingTasks, len(s.Tasks), maxSplit)
		// enough wait: splitting one more after every start would read the array again each time
		if s.waitingTasks > most/2 {
			n = 0
		}
		if s.AtOnce > 0 {
			n = min(n, s.AtOnce-s.activeTasks)
		}
		if n > 0 {
			s.tasks = s.Tasks[:n]
			due = append(due, s)
		}
		room = max(0, room-(s.waitingTasks+max(0, n))*gpus)
	}
	return due
}

// splittableArrays are the managed arrays with tasks that have no jobs of their own and may start, ascending in ID.
// Arrays that were not split a moment ago wait for their next try (retryAt). For each array it counts the tasks that
// have jobs already. A waiting task that is held, or may not start for another reason of its own, is not counted as
// active: in Slurm, too, only running tasks count for the array's limit (%N).
func splittableArrays(t *activeRound) []arraySplitPlan {
	var all []arraySplitPlan
	for _, tn := range t.observation.managed {
		soon := t.runner.Clock.Elapsed() < t.runner.splitFailures[tn.ID].retryAt
		if tn.StandsForTasks() && tn.State == slurm.Pending && !tn.Dependency &&
			!tn.record.NotBefore.After(t.observation.at) &&
			!soon {
			all = append(all, arraySplitPlan{managedJob: tn})
		}
	}
	if len(all) == 0 {
		return nil
	}
	at := make(map[int]*arraySplitPlan, len(all))
	for k := range all {
		at[all[k].Array] = &all[k]
	}
	for _, j := range t.seen {
		s := at[j.Array]
		if s == nil || j.StandsForTasks() {
			continue
		}
		waits := j.State == slurm.Pending && !j.Completing
		switch {
		case waits && !isPlannable(t, j), j.State == slurm.Finished && !j.Completing:
			continue
		case waits:
			s.waitingTasks++
		}
		s.activeTasks++
	}
	return all
}

// isPlannable says whether a waiting job is managed and may start as far as it is known (startBarOf).
func isPlannable(t *activeRound, j *slurm.Job) bool {
	tn := t.observation.find(j.ID)
	return tn != nil && tn.treatmentAt(t.observation.at) == managed &&
		t.runner.startBarOf(tn, &t.observation) == (barReason{})
}
