package artifact

// kind is the kind of an event. At one time, arrivals precede the ends of leases, and these precede the next round.
type kind int32

const (
	arrival  kind = 1
	leaseEnd kind = 3
	schedule kind = 4
)

// event is an event in the artifact's queue.
type event struct {
	at   float64 // seconds
	kind kind
	job  int32 // unused by the next round
}

func (a *event) before(b *event) bool { return a.at < b.at || a.at == b.at && a.kind < b.kind }

// agenda is the artifact's queue of events, a heap that behaves exactly like CPython's heapq. Events of equal time and
// kind come out in an order that depends on the heap's layout alone. That order changes the result in only three cases:
// jobs that arrive together keep it in the queue; when a run stops with the last job of its window, other jobs that end
// at the same time may or may not have ended; and if amounts are not exact, they are subtracted in this order. In all
// other cases the engine keeps no agenda, which saves time.
type agenda []event

func (a *agenda) push(e event) {
	*a = append(*a, e)
	a.rise(len(*a) - 1)
}

// rise moves the event at i up as long as it is strictly before its parent, as heapq does.
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

// pop removes the first event as heapq does: it moves the smaller child into the hole at the root and so on down to a
// leaf, preferring the right child if both are equal, and then lets the last event rise from there.
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

// isOrderVisible says whether the order of equal future events can change the result, so that an agenda must be kept.
// That is so if amounts are not exact. Otherwise it takes several jobs that are still to arrive, in a run that ends
// with a window or in which some of them arrive together. With at most one arrival left, the agenda's layout does not
// depend on its previous content, so a new one can be opened when the window ends.
func (e *engine) isOrderVisible() bool {
	ahead := len(e.jobs) - e.arrived
	return !e.exact || ahead > 1 && (e.hasWindow() || e.arrived < e.lastTie)
}

// scheduleEvents puts the lease ends of this round and the next round, both at the time next (seconds), on the agenda
// if one is needed. It opens a new agenda when amounts have ceased to be exact, and for the round that ends the window.
// The latter needs no earlier events, since at most one arrival is left then.
func (e *engine) scheduleEvents(next float64) {
	e.hasAgenda = e.hasAgenda && e.isOrderVisible()
	if !e.hasAgenda && (!e.exact || e.endsWindow()) {
		e.openAgenda()
	}
	if !e.hasAgenda {
		return
	}
	for _, i := range e.allocated {
		e.agenda.push(event{next, leaseEnd, i})
	}
	e.agenda.push(event{next, schedule, 0})
}

// openAgenda starts a new agenda with the known future arrivals. The caller adds the next round.
func (e *engine) openAgenda() {
	e.hasAgenda, e.agenda = true, e.agenda[:0]
	for i := e.arrived; i < len(e.jobs); i++ {
		e.agenda.push(event{e.jobs[i].arrival, arrival, int32(i)})
	}
}

// endsWindow says whether this round completes the window while jobs outside it end too. The order of the ends then
// decides which of these jobs count as finished, so an agenda is needed. This is known when the round begins, because
// its iterations are credited then. Without a window it is false.
func (e *engine) endsWindow() bool {
	if !e.hasWindow() {
		return false
	}
	all, counted := 0, 0
	for _, i := range e.allocated {
		if e.jobs[i].isDone() {
			all++
			if e.Window.Has(e.given[i].ID) {
				counted++
			}
		}
	}
	return counted > 0 && counted < all && counted == e.unfinishedInWindow
}
