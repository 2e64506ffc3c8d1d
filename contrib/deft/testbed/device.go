package testbed

import (
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// work is GPU work of a job: done is called when nothing of it is left.
type work struct {
	job  *job
	left time.Duration
	done func()
}

// queue is a device that does its work in the order of arrival.
type queue struct {
	engine *engine
	free   time.Duration // when all its work is done
}

func (q *queue) submit(_ *job, took time.Duration, done func()) {
	q.free = max(q.free, q.engine.now) + took
	q.engine.after(q.free-q.engine.now, done)
}

// sliced is a device that gives each job's work a time slice in turn.
type sliced struct {
	engine  *engine
	waiting []work
	busy    bool
}

func (s *sliced) submit(j *job, took time.Duration, done func()) {
	s.waiting = append(s.waiting, work{job: j, left: took, done: done})
	if !s.busy {
		s.next()
	}
}

// next does the next time slice of the first work, which then goes to the end of the queue.
func (s *sliced) next() {
	s.busy = len(s.waiting) > 0
	if !s.busy {
		return
	}
	w := s.waiting[0]
	s.waiting = s.waiting[1:]
	slice := min(w.left, s.engine.Slice) // a full slice even if no other job waits, since one may come before it ends
	w.left -= slice
	s.engine.after(slice, func() {
		if w.left > 0 {
			s.waiting = append(s.waiting, w)
		} else {
			w.done()
		}
		s.next()
	})
}

// mpsDevice is a device that does all its work at once, each at the speed measured under MPS.
type mpsDevice struct {
	engine *engine
	now    []work
	since  time.Duration
	plan   int // the number of the newest plan; older ones are ignored
}

func (f *mpsDevice) submit(j *job, took time.Duration, done func()) {
	f.progress()
	f.now = append(f.now, work{job: j, left: took, done: done})
	f.replan()
}

// progress counts what was done since the speeds last changed.
func (f *mpsDevice) progress() {
	passed := f.engine.now - f.since
	f.since = f.engine.now
	for i := range f.now {
		f.now[i].left -= times(passed, f.speed(f.now[i].job.Class))
	}
}

// replan plans a call of finish for when the next piece of work will be done. The time is rounded up by a nanosecond,
// so that nothing is left of the work then.
func (f *mpsDevice) replan() {
	f.plan++
	first := time.Duration(-1)
	for _, w := range f.now {
		needs := times(max(0, w.left), 1/f.speed(w.job.Class)) + 1
		if w.left <= 0 {
			needs = 0
		}
		if first < 0 || needs < first {
			first = needs
		}
	}
	if first < 0 {
		return
	}
	plan := f.plan
	f.engine.after(first, func() {
		if plan == f.plan {
			f.finish()
		}
	})
}

// finish calls back for all work that is done.
func (f *mpsDevice) finish() {
	f.progress()
	var ended []work
	var left []work
	for _, w := range f.now {
		if w.left <= 0 {
			ended = append(ended, w)
		} else {
			left = append(left, w)
		}
	}
	f.now = left
	f.replan()
	for _, w := range ended {
		w.done()
	}
}

// speeds are those of an H100 under MPS with ResNet-50 as High and ViT-B/16 as Low, each as a part of its speed alone:
// while both have work (high, low), and of Low while High has none (alone). The first two were measured where neither
// pauses; the last was computed from a run in which High pauses for 20 ms after steps of 22 ms.
type speeds struct {
	threads          float64 // the part of the threads that Low has
	high, low, alone float64
}

var (
	equal    = speeds{threads: 1, high: 0.62, low: 0.69, alone: 1}
	lowerLow = []speeds{
		{threads: 0.25, high: 0.80, low: 0.23, alone: 0.42},
		{threads: 0.5, high: 0.81, low: 0.42, alone: 0.66},
		{threads: 1, high: 0.72, low: 0.54, alone: 1},
	}
)

// together is how much two jobs under MPS do in total if neither is preferred.
const together = 0.62 + 0.69

// speed returns the speed of a job of the class with the present work on the device. Jobs of one class are equals:
// alone on the device they divide what two equals do together, and beside the other class they divide the speed that
// was measured for one.
func (f *mpsDevice) speed(class share.Class) float64 {
	highs, lows := 0, 0
	for _, w := range f.now {
		if w.job.Class == share.High {
			highs++
		} else {
			lows++
		}
	}
	s := f.measured()
	switch {
	case class == share.High && lows == 0:
		return min(1, together/float64(highs))
	case class == share.High:
		return s.high / float64(highs)
	case highs == 0:
		return min(s.alone, together/float64(lows))
	}
	return s.low / float64(lows)
}

// measured returns the speeds for Low's part of the threads, interpolated linearly between the measured ones.
func (f *mpsDevice) measured() speeds {
	if f.engine.SameClass {
		return equal
	}
	threads := f.engine.Threads
	for i, upper := range lowerLow[1:] {
		lower := lowerLow[i]
		if threads > upper.threads {
			continue
		}
		part := (threads - lower.threads) / (upper.threads - lower.threads)
		between := func(a, b float64) float64 { return a + float64(part*(b-a)) }
		return speeds{high: between(lower.high, upper.high), low: between(lower.low, upper.low),
			alone: between(lower.alone, upper.alone)}
	}
	return lowerLow[len(lowerLow)-1]
}
