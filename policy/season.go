package policy

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"time"
)

// seasons are the reservations of a round: on which servers no run may begin that would reach into one.
type seasons struct {
	any     bool                // a server is or will be reserved
	begins  []time.Time         // of the reservations to come, each time once, ascending
	shut    map[stretch]set     // servers on which no such run may begin
	returns map[comingBack]bool // see mayRestartLater
}

// season is what jobs have in common that may be started on the same servers, as far as reservations go.
type season struct {
	own  string // the reservation that they were submitted to
	now  int    // as stretch.crossed of a run that begins now
	soon int    // as stretch.crossed of a run that begins a round later, when others have made room for it
}

// stretch is a run of which only the end matters.
type stretch struct {
	own     string // the reservation that its job was submitted to
	crossed int    // how many of the reservations to come begin before it ends
}

// comingBack is what decides whether a job could be started again.
type comingBack struct {
	class   *jobClass
	crossed int
}

// findReservations finds the reservations of the round.
func findReservations(b *board) {
	before := b.seasons.any
	b.seasons = seasons{}
	for n := range b.servers {
		for _, r := range b.servers[n].Reserved {
			b.seasons.any = true
			if r.From.After(b.c.Now) {
				b.seasons.begins = append(b.seasons.begins, r.From)
			}
		}
	}
	if before || b.seasons.any { // as time passes, what failed in the last round may be possible now
		b.forget()
	}
	if !b.seasons.any {
		return
	}
	slices.SortFunc(b.seasons.begins, time.Time.Compare)
	b.seasons.begins = slices.CompactFunc(b.seasons.begins, time.Time.Equal)
	b.seasons.shut, b.seasons.returns = map[stretch]set{}, map[comingBack]bool{}
}

// seasonOf is the season of job j.
func (b *board) seasonOf(j *Job) season {
	if !b.seasons.any {
		return season{}
	}
	return season{j.Reservation, b.crossed(j, 0), b.crossed(j, b.c.Rules.round())}
}

// crossed counts the reservations to come that begin before job j would end if it were started after a delay.
func (b *board) crossed(j *Job, delay time.Duration) int {
	begins := b.seasons.begins
	if j.TimeLimit == 0 {
		return len(begins)
	}
	end := b.c.Now.Add(delay).Add(j.TimeLimit)
	return sort.Search(len(begins), func(at int) bool { return !begins[at].Before(end) })
}

// shutTo is the servers on which such a run may not begin; nil: none.
func (b *board) shutTo(s stretch) set {
	if !b.seasons.any {
		return nil
	}
	shut, known := b.seasons.shut[s]
	if !known {
		shut = newSet(len(b.servers))
		for n := range b.servers {
			if b.inTheWay(n, s) != nil {
				shut.add(n)
			}
		}
		b.seasons.shut[s] = shut
	}
	return shut
}

// inTheWay finds the first reservation of server n that a run would reach into; nil: there is none. One that has begun
// counts for every run, one to come if it begins no later than the last that the run crosses.
func (b *board) inTheWay(n int, s stretch) *Reservation {
	list := b.servers[n].Reserved
	for i := range list {
		r := &list[i]
		over := !r.To.IsZero() && !r.To.After(b.c.Now)
		begun := !r.From.After(b.c.Now)
		crossed := s.crossed > 0 && !r.From.After(b.seasons.begins[s.crossed-1])
		if !over && (begun || crossed) && (s.own == "" || r.Name != s.own) {
			return r
		}
	}
	return nil
}

// shutTo reports whether a reservation keeps jobs of class k off server n.
func (k *jobClass) shutTo(n int) bool { return k.shut != nil && k.shut.has(n) }

// shutSoon reports whether a reservation would keep jobs of class k off server n by the time that others have made room
// there.
func (k *jobClass) shutSoon(n int) bool { return k.soon != nil && k.soon.has(n) }

// mayRestartLater reports whether running job i of class k, if it were stopped, could be started again before
// reservations keep it from all servers that suit it, with a round to spare beside the one until it is decided again: a
// job stopped an hour before maintenance would otherwise come back only when that is over.
func mayRestartLater(b *board, i int, k *jobClass) bool {
	if !b.seasons.any {
		return true
	}
	j := b.jobs[i]
	s := stretch{j.Reservation, b.crossed(j, j.Restart+2*b.c.Rules.round())}
	key := comingBack{k, s.crossed}
	may, known := b.seasons.returns[key]
	if !known {
		shut := b.shutTo(s)
		may = !shut.meets(k.eligible.servers) || slices.ContainsFunc(k.gangShapes,
			func(w gangShape) bool { return countHolding(b, k, w, shut) >= w.nodes })
		b.seasons.returns[key] = may
	}
	return may
}

// countHolding counts the open servers that class k may use and that could hold one node's part of its gang if they
// were empty, without those in shut, which a reservation is about to take. With fewer than the gang has nodes, a job of
// the class that is stopped now could not start again before that reservation is over.
func countHolding(b *board, k *jobClass, w gangShape, shut set) int {
	count := 0
	for n := range b.servers {
		if sv := &b.servers[n]; sv.Closed == "" && sv.Total.GPUs >= w.gpus && k.eligible.servers.has(n) &&
			!shut.has(n) {
			count++
		}
	}
	return count
}

// reservationAnswer is the answer to job i if reservations keep it from too many of the servers that could hold it; nil
// if they do not.
func reservationAnswer(b *board, i int) *answer {
	k := b.states[i].class
	if k.shut == nil || len(k.gangShapes) == 0 {
		return nil
	}
	able, w := b.fitOf(k).able, k.gangShapes[0]
	open := slices.Clone(able)
	open.without(b.closed)
	if open.shared(open) < w.nodes { // closed nodes are the reason
		return nil
	}
	shut := open.and(k.shut)
	open.without(k.shut)
	if open.shared(open) >= w.nodes {
		return nil
	}
	return &answer{InReservation, reservationText(b, i, shut)}
}

// reservationText says which reservation job i would run into on those servers. It names, of the first reservation on
// each, the last to begin, since before that one there is most time.
func reservationText(b *board, i int, shut set) string {
	var last *Reservation
	at := 0
	for n := range b.servers {
		if !shut.has(n) {
			continue
		}
		if r := b.inTheWay(n, stretch{b.jobs[i].Reservation, b.states[i].class.season.now}); last == nil ||
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
