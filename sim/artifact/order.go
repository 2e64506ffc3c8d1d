package artifact

import "slices"

// entry is a job in the queue.
type entry struct {
	key, arrival   float64 // the policy's value, smaller first; seconds
	urgencyRank    int32   // 0: urgent, 1: not
	job            int32
	positionBefore int32 // position in the queue before sorting
}

// before is the artifact's order: urgent jobs, then the policy's key, then arrival. Its sorts are stable and in place,
// so jobs equal in all of these keep their order of the round before.
func (a *entry) before(b *entry) bool {
	switch {
	case a.urgencyRank != b.urgencyRank:
		return a.urgencyRank < b.urgencyRank
	case a.key != b.key:
		return a.key < b.key
	case a.arrival != b.arrival:
		return a.arrival < b.arrival
	}
	return a.positionBefore < b.positionBefore
}

// key is the value by which a policy sorts jobs, smaller first.
type key func(e *engine, j *job, now float64) float64

// keys has the keys of all policies but FIFO, whose queue keeps the order of arrival.
var keys = map[Policy]key{
	SRTF:   func(e *engine, j *job, _ float64) float64 { return e.remaining(j) },
	LAS:    func(_ *engine, j *job, _ float64) float64 { return j.attained * j.n },
	FTF:    fairness,
	DRF:    func(_ *engine, j *job, _ float64) float64 { return j.dominant },
	Tetris: volume,
}

// fairness is the key of FTF: the time from arrival to the expected finish, divided by the time that the job would take
// with its share. It is the finish-time fairness of Themis, but sorted the wrong way round, as in the artifact: the job
// that is best off comes first.
func fairness(e *engine, j *job, now float64) float64 {
	return ((now - j.arrival) + e.remaining(j)) / (j.model.Iteration * float64(j.total))
}

// volume is the key of Tetris: the remaining seconds, weighted by the parts of the cluster's GPUs, cores and memory
// that the job demands.
func volume(e *engine, j *job, _ float64) float64 {
	left := e.remaining(j)
	return float64(float64(j.fractions[gpu]*left)+float64(j.fractions[cpu]*left)) + float64(j.fractions[memory]*left)
}

// remaining is the time in seconds that a job would still need at its speed in the round before; under Proportional
// always at the speed of the share. The speed before is outdated if the job was downgraded in that round, but the
// artifact sorts by it.
func (e *engine) remaining(j *job) float64 {
	left := float64(j.model.Iteration * float64(j.total-j.executed))
	if e.Allocator == Proportional {
		return left
	}
	return left / j.speed
}

// hasFixedKeys says whether a job's key never changes. The queue then needs sorting only after an arrival or when a job
// becomes urgent, and rounds in which nothing happens can be skipped.
func (p Policy) hasFixedKeys() bool { return p == FIFO || p == DRF }

// sort sorts the queue by the policy. FIFO has no key and ignores urgency, so its queue is always sorted. Under a
// policy with fixed keys the order changes only when a job has arrived or become urgent.
func (e *engine) sort(now float64) {
	if e.key == nil || e.Policy.hasFixedKeys() && !e.unsorted {
		return
	}
	e.unsorted = false
	for k := range e.queue {
		x := &e.queue[k]
		j := &e.jobs[x.job]
		x.key, x.positionBefore = e.key(e, j, now), int32(k)
		if j.urgent {
			x.urgencyRank = 0
		}
	}
	e.reorder()
}

// reorder sorts the queue. In most rounds few jobs are out of place, so it removes each job that must not follow its
// predecessor, together with that predecessor, since either may be misplaced; sorts the removed jobs; and merges them
// in again. No two entries are equal, since their positions before differ, so an unstable sort serves.
func (e *engine) reorder() {
	kept := 0
	e.outOfOrder = e.outOfOrder[:0]
	for k := range e.queue {
		x := &e.queue[k]
		switch {
		case kept > 0 && x.before(&e.queue[kept-1]):
			kept--
			e.outOfOrder = append(e.outOfOrder, e.queue[kept], *x)
		case kept < k:
			e.queue[kept] = *x
			kept++
		default:
			kept++
		}
	}
	slices.SortFunc(e.outOfOrder, func(a, b entry) int {
		if a.before(&b) {
			return -1
		}
		return 1
	})
	e.merge(kept, e.outOfOrder)
}

// merge merges strays, the sorted entries that reorder removed, into the first n entries of the queue, which are sorted
// as well. It fills the queue from the end, where there is room for the strays, so that no entry is overwritten before
// it is moved.
func (e *engine) merge(n int, strays []entry) {
	for to, m := len(e.queue)-1, len(strays); m > 0; to-- {
		if n > 0 && strays[m-1].before(&e.queue[n-1]) {
			n--
			e.queue[to] = e.queue[n]
			continue
		}
		m--
		e.queue[to] = strays[m]
	}
}

// starvationTime is how long a job may go without running before it becomes urgent, in seconds.
const starvationTime = 1000 * 3600

// flagStarving marks jobs as urgent for good that have not run for a thousand hours, as the artifact does. They come
// first from the next round on, except under FIFO, which knows no urgency. To save time, the queue is searched only
// when some job may have waited that long (oldestWait), which is then determined anew.
func (e *engine) flagStarving(now float64) {
	e.becameUrgent = false
	if e.key == nil || now-e.oldestWait <= starvationTime {
		return
	}
	e.oldestWait = now
	for _, x := range e.queue {
		switch j := &e.jobs[x.job]; {
		case j.urgent:
		case now-j.waitingSince() > starvationTime:
			j.urgent, e.becameUrgent, e.unsorted = true, true, true
		default:
			e.oldestWait = min(e.oldestWait, j.waitingSince())
		}
	}
}

// sortBySize sorts the selected jobs by descending GPUs, in which order Tune serves them; jobs of equal size keep the
// order of the policy. It appends them once more, size by size, and removes the first copy.
func (e *engine) sortBySize() {
	chosen := len(e.selected)
	for _, size := range e.sizes {
		for _, i := range e.selected[:chosen] {
			if e.jobs[i].gpus == size {
				e.selected = append(e.selected, i)
			}
		}
	}
	e.selected = append(e.selected[:0], e.selected[chosen:]...)
}
