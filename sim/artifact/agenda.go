package artifact

// kind is a kind of event. At one moment, arrivals come before the ends of leases, and those before the next round.
type kind int32

const (
	arrival  kind = 1
	leaseEnd kind = 3
	schedule kind = 4
)

// event is something that the artifact has in its queue.
type event struct {
	at   float64
	kind kind
	job  int32
}

func (a *event) before(b *event) bool { return a.at < b.at || a.at == b.at && a.kind < b.kind }

// agenda is the artifact's queue of events, a heap to the letter of CPython's heapq. Events of one moment and kind come
// out in an order that its layout gives and nothing else. That order can be seen in three places only: jobs that arrive
// together stay in it; when a run stops at the last job of its window, others that end at the same moment have ended or
// have not; and where amounts are not exact, it is the order in which they are taken away. Elsewhere the engine keeps
// no agenda.
type agenda []event

func (a *agenda) push(e event) {
	*a = append(*a, e)
	a.rise(len(*a) - 1)
}

// rise moves the event at i up while it is strictly before its parent.
func (a agenda) rise(i int) {
	e := a[i]
	for i > 0 {
		parent := (i - 1) >> 1
		if !e.before(&a[parent]) {
			break
		}
		a[i] = a[parent]
		i = parent
	}
	a[i] = e
}

// pop fills the hole at the root with the smaller child, down to a leaf, the right one where both are equal; then the
// last event rises from there.
func (a *agenda) pop() event {
	h := *a
	root, last := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	*a = h
	if len(h) == 0 {
		return root
	}
	hole := 0
	for child := 1; child < len(h); child = 2*hole + 1 {
		if right := child + 1; right < len(h) && !h[child].before(&h[right]) {
			child = right
		}
		h[hole] = h[child]
		hole = child
	}
	h[hole] = last
	h.rise(hole)
	return root
}

// keepOrder says whether the order of equal events that are to come can be seen. With at most one arrival to come, the
// layout of the agenda does not depend on what was in it before.
func (e *engine) keepOrder() bool {
	ahead := len(e.jobs) - e.arrived
	return !e.exact || ahead > 1 && (e.windowed() || e.arrived < e.lastTie)
}

// expect puts what is to happen until the next round, and that round, on the agenda.
func (e *engine) expect(next float64) {
	e.ordered = e.ordered && e.keepOrder()
	if !e.ordered && (!e.exact || e.lastOfWindow()) {
		e.openAgenda()
	}
	if !e.ordered {
		return
	}
	for _, i := range e.allocated {
		e.agenda.push(event{next, leaseEnd, i})
	}
	e.agenda.push(event{next, schedule, 0})
}

// openAgenda begins a new agenda with the only arrival that is known to come.
func (e *engine) openAgenda() {
	e.ordered, e.agenda = true, e.agenda[:0]
	for i := e.arrived; i < len(e.jobs); i++ {
		e.agenda.push(event{e.jobs[i].arrival, arrival, int32(i)})
	}
}

// lastOfWindow says whether this round completes the window while other jobs end with it.
func (e *engine) lastOfWindow() bool {
	if !e.windowed() {
		return false
	}
	all, counted := 0, 0
	for _, i := range e.allocated {
		if e.jobs[i].over() {
			all++
			if e.Window.Has(e.given[i].ID) {
				counted++
			}
		}
	}
	return counted > 0 && counted < all && counted == e.missing
}
