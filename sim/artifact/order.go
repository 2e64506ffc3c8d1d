package artifact

import "slices"

// entry is a job in the queue.
type entry struct {
	key, arrival float64
	late         int32 // 0: urgent, 1: not
	job          int32
	place        int32 // in the queue before it was sorted
}

// before is the artifact's order. Its sorts are stable and in place, so that what is equal stays as it was in the round
// before.
func (a *entry) before(b *entry) bool {
	switch {
	case a.late != b.late:
		return a.late < b.late
	case a.key != b.key:
		return a.key < b.key
	case a.arrival != b.arrival:
		return a.arrival < b.arrival
	}
	return a.place < b.place
}

// key is what a policy sorts jobs by, smaller first.
type key func(e *engine, j *job, now float64) float64

// keys of all policies but FIFO, for which the queue stays as it grew.
var keys = map[Policy]key{
	SRTF:   func(e *engine, j *job, _ float64) float64 { return e.remaining(j) },
	LAS:    func(_ *engine, j *job, _ float64) float64 { return j.attained * j.n },
	FTF:    fairness,
	DRF:    func(_ *engine, j *job, _ float64) float64 { return j.dominant },
	Tetris: volume,
}

// fairness would be the finish-time fairness of Themis if it were sorted the other way round: who is best off comes
// first.
func fairness(e *engine, j *job, now float64) float64 {
	return ((now - j.arrival) + e.remaining(j)) / (j.model.Iteration * float64(j.total))
}

func volume(e *engine, j *job, _ float64) float64 {
	left := e.remaining(j)
	return float64(float64(j.parts[gpu]*left)+float64(j.parts[cpu]*left)) + float64(j.parts[memory]*left)
}

// remaining is the time that a job would still need with the speed of the round before. That is stale: 1 where the job
// was downgraded then.
func (e *engine) remaining(j *job) float64 {
	left := float64(j.model.Iteration * float64(j.total-j.executed))
	if e.Allocator == Proportional {
		return left
	}
	return left / j.speed
}

// steady says that a job's key never changes.
func (p Policy) steady() bool { return p == FIFO || p == DRF }

// sort brings the queue into the policy's order. FIFO knows no urgency, so its queue is always in order.
func (e *engine) sort(now float64) {
	if e.key == nil || e.Policy.steady() && !e.unsorted {
		return
	}
	e.unsorted = false
	for k := range e.queue {
		x := &e.queue[k]
		j := &e.jobs[x.job]
		x.key, x.place = e.key(e, j, now), int32(k)
		if j.urgent {
			x.late = 0
		}
	}
	e.reorder()
}

// reorder sorts a queue in which few are out of place: it takes out whoever does not follow the one before, and that
// one too, since either may be the stray; sorts those; and merges them in again.
func (e *engine) reorder() {
	kept := 0
	e.strays = e.strays[:0]
	for k := range e.queue {
		x := &e.queue[k]
		switch {
		case kept > 0 && x.before(&e.queue[kept-1]):
			kept--
			e.strays = append(e.strays, e.queue[kept], *x)
		case kept < k:
			e.queue[kept] = *x
			kept++
		default:
			kept++
		}
	}
	slices.SortFunc(e.strays, func(a, b entry) int {
		if a.before(&b) {
			return -1
		}
		return 1
	})
	e.merge(kept, e.strays)
}

// merge puts sorted strays among the first n of the queue, from behind.
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

// tooLong is how long a job may not have run before it becomes urgent, in seconds.
const tooLong = 1000 * 3600

// flagStarving makes jobs urgent, for good, that have not run for a thousand hours. They come first from the next round
// on.
func (e *engine) flagStarving(now float64) {
	e.alarm = false
	if e.key == nil || now-e.starve <= tooLong {
		return
	}
	e.starve = now
	for _, x := range e.queue {
		switch j := &e.jobs[x.job]; {
		case j.urgent:
		case now-j.since() > tooLong:
			j.urgent, e.alarm, e.unsorted = true, true, true
		default:
			e.starve = min(e.starve, j.since())
		}
	}
}

// bySize is a stable sort of the selected jobs by their GPUs, descending.
func (e *engine) bySize() {
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
