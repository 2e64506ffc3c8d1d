package policy

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"time"
)

// roundReservations caches, for the round, on which servers no run may begin since it would reach into a reservation.
// Times of reservations are reduced to how many begin before a run ends (countCrossed), since jobs of equal numbers may
// start on the same servers.
type roundReservations struct {
	anyReserved    bool                  // some server is or will be reserved
	begins         []time.Time           // of the reservations to come, each time once, ascending
	blockedServers map[runSpan]serverSet // servers on which no such run may begin
	restartCache   map[restartKey]bool   // see mayRestartLater
}

// reservationKey is what jobs have in common that may be started on the same servers, as far as reservations go; it is
// part of a job's class. It is zero in a round without reservations.
type reservationKey struct {
	own  string // the reservation that they were submitted to; empty: none
	now  int    // runSpan.crossed of a run that begins now
	soon int    // runSpan.crossed of a run that begins a round later, when others have made room for it
}

// runSpan is a run as far as reservations go: only its end matters, and which reservation is its own.
type runSpan struct {
	own     string // the reservation that its job was submitted to; empty: none
	crossed int    // how many of the reservations to come begin before it ends
}

// restartKey is what decides whether a job that is stopped could be started again, see mayRestartLater.
type restartKey struct {
	class   *jobClass
	crossed int
}

// findReservations collects the reservations of the round and empties the caches. With reservations, now or in the last
// round, everything that was searched for in vain is searched for again: time has passed, so it may be possible now.
func findReservations(b *board) {
	before := b.reservations.anyReserved
	b.reservations = roundReservations{}
	for n := range b.servers {
		for _, r := range b.servers[n].Reserved {
			b.reservations.anyReserved = true
			if r.From.After(b.c.Now) {
				b.reservations.begins = append(b.reservations.begins, r.From)
			}
		}
	}
	if before || b.reservations.anyReserved { // as time passes, what failed in the last round may be possible now
		b.forgetAllSearches()
	}
	if !b.reservations.anyReserved {
		return
	}
	slices.SortFunc(b.reservations.begins, time.Time.Compare)
	b.reservations.begins = slices.CompactFunc(b.reservations.begins, time.Time.Equal)
	b.reservations.blockedServers, b.reservations.restartCache = map[runSpan]serverSet{}, map[restartKey]bool{}
}

// reservationKeyOf is the reservationKey of job j; zero in a round without reservations, so that these do not split
// classes.
func (b *board) reservationKeyOf(j *Job) reservationKey {
	if !b.reservations.anyReserved {
		return reservationKey{}
	}
	return reservationKey{j.Reservation, b.countCrossed(j, 0), b.countCrossed(j, b.c.Rules.round())}
}

// countCrossed counts the reservations to come that begin before job j would end by its time limit if it were started
// after a delay. A job without time limit crosses all of them.
func (b *board) countCrossed(j *Job, delay time.Duration) int {
	begins := b.reservations.begins
	if j.TimeLimit == 0 {
		return len(begins)
	}
	end := b.c.Now.Add(delay).Add(j.TimeLimit)
	return sort.Search(len(begins), func(at int) bool { return !begins[at].Before(end) })
}

// reservedServers is the servers on which run s may not begin, since it would reach into a reservation that is not its
// own; nil: no server is or will be reserved. The set is cached for the round and must not be changed.
func (b *board) reservedServers(s runSpan) serverSet {
	if !b.reservations.anyReserved {
		return nil
	}
	shut, known := b.reservations.blockedServers[s]
	if !known {
		shut = newServerSet(len(b.servers))
		for n := range b.servers {
			if b.blockingReservation(n, s) != nil {
				shut.add(n)
			}
		}
		b.reservations.blockedServers[s] = shut
	}
	return shut
}

// blockingReservation finds the first reservation of server n that a run would reach into; nil: there is none. One that
// has begun counts for every run; one to come counts if it is among the first s.crossed to begin. One that is over, or
// the run's own, counts for none.
func (b *board) blockingReservation(n int, s runSpan) *Reservation {
	list := b.servers[n].Reserved
	for i := range list {
		r := &list[i]
		over := !r.To.IsZero() && !r.To.After(b.c.Now)
		begun := !r.From.After(b.c.Now)
		crossed := s.crossed > 0 && !r.From.After(b.reservations.begins[s.crossed-1])
		if !over && (begun || crossed) && (s.own == "" || r.Name != s.own) {
			return r
		}
	}
	return nil
}

// isReservedNow reports whether a reservation keeps jobs of class k off server n.
func (k *jobClass) isReservedNow(n int) bool { return k.reservedNow != nil && k.reservedNow.has(n) }

// isReservedSoon reports whether a reservation will keep jobs of class k off server n a round from now. Where other
// jobs must leave or shrink first, a job starts no earlier.
func (k *jobClass) isReservedSoon(n int) bool { return k.reservedSoon != nil && k.reservedSoon.has(n) }

// mayRestartLater reports whether running job i of class k, if it were stopped, could be started again before
// reservations keep it from the servers that suit it. Its restart and two rounds are allowed for: one until its place
// is decided again, and one to spare. If not, it must not be stopped: it would come back only when the reservation is
// over.
func mayRestartLater(b *board, i int, k *jobClass) bool {
	if !b.reservations.anyReserved {
		return true
	}
	j := b.jobs[i]
	s := runSpan{j.Reservation, b.countCrossed(j, j.Restart+2*b.c.Rules.round())}
	key := restartKey{k, s.crossed}
	may, known := b.reservations.restartCache[key]
	if !known {
		shut := b.reservedServers(s)
		may = !shut.meets(k.eligible.servers) || slices.ContainsFunc(k.gangShapes,
			func(w gangShape) bool { return countHolding(b, k, w, shut) >= w.nodes })
		b.reservations.restartCache[key] = may
	}
	return may
}

// countHolding counts the open servers that class k may use and that have GPUs enough for one node of its gang, without
// those in shut, which a reservation is about to take. If there are fewer than the gang has nodes, a job of the class
// that is stopped now could not start again before that reservation is over.
func countHolding(b *board, k *jobClass, w gangShape, shut serverSet) int {
	count := 0
	for n := range b.servers {
		if sv := &b.servers[n]; sv.Closed == "" && sv.Total.GPUs >= w.gpus && k.eligible.servers.has(n) &&
			!shut.has(n) {
			count++
		}
	}
	return count
}

// reservationAnswer is the reason why job i waits if reservations keep it from too many of the open servers that could
// hold it; nil if they do not, if closed servers are the reason, or if the job has no possible size.
func reservationAnswer(b *board, i int) *answer {
	k := b.states[i].class
	if k.reservedNow == nil || len(k.gangShapes) == 0 {
		return nil
	}
	f := b.fitOf(k)
	able, w := f.ableNodes, f.shape
	open := slices.Clone(able)
	open.removeAll(b.closed)
	if open.countCommon(open) < w.nodes { // closed nodes are the reason
		return nil
	}
	shut := open.intersection(k.reservedNow)
	open.removeAll(k.reservedNow)
	if open.countCommon(open) >= w.nodes {
		return nil
	}
	return &answer{InReservation, reservationText(b, i, shut)}
}

// reservationText says which reservation job i would run into on those servers, of which there is at least one. It
// names, of the first such reservation on each, the last to begin, since before that one there is most time for a run.
func reservationText(b *board, i int, shut serverSet) string {
	var last *Reservation
	at := 0
	for n := range b.servers {
		if !shut.has(n) {
			continue
		}
		r := b.blockingReservation(n, runSpan{b.jobs[i].Reservation, b.states[i].class.reservationKey.now})
		if last == nil ||
			cmp.Or(r.From.Compare(last.From), cmp.Compare(last.Name, r.Name)) > 0 {
			last, at = r, n
		}
	}
	j, begins := b.jobs[i], last.From.Format(time.DateTime)
	switch {
	case !last.From.After(b.c.Now) && last.To.IsZero():
		return fmt.Sprintf("%s is in reservation %s for good", b.servers[at].Name, last.Name)
	case !last.From.After(b.c.Now):
		return fmt.Sprintf("%s is in reservation %s until %s", b.servers[at].Name, last.Name,
			last.To.Format(time.DateTime))
	case j.TimeLimit == 0:
		return fmt.Sprintf("has no time limit, and reservation %s begins at %s", last.Name, begins)
	}
	return fmt.Sprintf("its time limit of %s ends after reservation %s begins at %s", j.TimeLimit, last.Name, begins)
}
