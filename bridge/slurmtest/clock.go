package slurmtest

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// Clock is virtual time: it stands still until a goroutine sleeps, and then jumps from event to event. Events of the
// same moment run in the order in which they were planned, so that equal inputs give equal outcomes. Several goroutines
// may sleep, but then their order decides which sees which moment; a reproducible test sleeps in one goroutine.
type Clock struct {
	moveMu sync.Mutex // held while time moves; events run under it

	start time.Time

	mu         sync.Mutex // guards the fields below; never held while an event runs
	now        time.Time
	planned    events
	lastSeq    uint64
	afterEvent []func()
}

// NewClock makes a clock that shows start.
func NewClock(start time.Time) *Clock { return &Clock{start: start, now: start} }

// Now is the current moment.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Elapsed is the time since the start.
func (c *Clock) Elapsed() time.Duration { return c.Now().Sub(c.start) }

// At plans an event; if the moment has passed it runs when time next moves. The event must not sleep.
func (c *Clock) At(moment time.Time, do func()) { c.plan(moment, do) }

// plan adds an event, at the present time if the moment has passed, and returns it so that it can be dropped.
func (c *Clock) plan(moment time.Time, do func()) *event {
	c.mu.Lock()
	defer c.mu.Unlock()
	if moment.Before(c.now) {
		moment = c.now
	}
	c.lastSeq++
	e := &event{at: moment, seq: c.lastSeq, do: do}
	heap.Push(&c.planned, e)
	return e
}

// cancelEvent cancels an event. For nil and for an event that has run it does nothing.
func (c *Clock) cancelEvent(e *event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e != nil && e.heapIndex >= 0 {
		heap.Remove(&c.planned, e.heapIndex)
	}
}

// AfterEach calls watch after every event, for example to check Invariants.
func (c *Clock) AfterEach(watch func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.afterEvent = append(c.afterEvent, watch)
}

// Next is the time of the earliest planned event; false if there is none.
func (c *Clock) Next() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.planned) == 0 {
		return time.Time{}, false
	}
	return c.planned[0].at, true
}

// Advance moves time by d and runs the events in between.
func (c *Clock) Advance(d time.Duration) {
	_ = c.Sleep(context.Background(), d) // only the context could end it early
}

// Sleep moves time by d and runs the events in between, until the context ends. It returns the context's error, also if
// an event has cancelled it; the clock then stays at that event.
func (c *Clock) Sleep(ctx context.Context, d time.Duration) error {
	until := c.Now().Add(d)
	c.moveMu.Lock()
	defer c.moveMu.Unlock()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		next, found := c.next(until)
		if !found {
			return nil
		}
		c.run(next)
	}
}

// next removes the first event that is not after until and sets the clock to its time. If there is none it sets the
// clock to until and returns false: the sleep is over.
func (c *Clock) next(until time.Time) (*event, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.planned) == 0 || c.planned[0].at.After(until) {
		if until.After(c.now) {
			c.now = until
		}
		return nil, false
	}
	first := heap.Pop(&c.planned).(*event)
	if first.at.After(c.now) {
		c.now = first.at
	}
	return first, true
}

// run runs an event, and then the functions that AfterEach was given.
func (c *Clock) run(e *event) {
	e.do()
	for _, watch := range c.watchers() {
		watch()
	}
}

// watchers are the functions that AfterEach was given.
func (c *Clock) watchers() []func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.afterEvent
}

// event is a planned event; seq is the order of planning.
type event struct {
	at  time.Time
	seq uint64
	do  func()

	heapIndex int // index in the heap; negative: it has run or was dropped
}

// events is a heap, the earliest first.
type events []*event

func (e events) Len() int { return len(e) }

// Less orders events by time, and those of the same moment as they were planned, which makes the clock deterministic.
func (e events) Less(i, k int) bool {
	if !e[i].at.Equal(e[k].at) {
		return e[i].at.Before(e[k].at)
	}
	return e[i].seq < e[k].seq
}
func (e events) Swap(i, k int) {
	e[i], e[k] = e[k], e[i]
	e[i].heapIndex, e[k].heapIndex = i, k
}
func (e *events) Push(x any) {
	x.(*event).heapIndex = len(*e)
	*e = append(*e, x.(*event))
}
func (e *events) Pop() any {
	old := *e
	last := old[len(old)-1]
	old[len(old)-1] = nil // releases the closure
	*e = old[:len(old)-1]
	last.heapIndex = -1
	return last
}
