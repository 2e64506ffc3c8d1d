package policy

import (
	"cmp"
	"time"
)

// checkReservations checks that a job started on a node ends, by its time limit, before a reservation that is not its
// own begins there: Slurm would not start it.
func (k *checker) checkReservations(j *Job, n *Node) {
	if r := conflictingReservation(j, n, k.c.Now); r != nil {
		k.breach(Suited, "job %d: node %s is in reservation %s from %s, before which it does not end", j.ID, n.Name,
			r.Name,
			r.From.Format(time.DateTime))
	}
}

// conflictingReservation finds the first reservation of a node, not the job's own, that a run of job j beginning at
// start would reach into; nil: there is none. A job without a time limit reaches into each one that is not over.
func conflictingReservation(j *Job, n *Node, start time.Time) *Reservation {
	for i := range n.Reserved {
		r := &n.Reserved[i]
		if j.Reservation != "" && j.Reservation == r.Name {
			continue
		}
		gone := !r.To.IsZero() && !start.Before(r.To)
		free := j.TimeLimit > 0 && !start.Add(j.TimeLimit).After(r.From)
		if !gone && !free {
			return r
		}
	}
	return nil
}

// checkRestartable checks that a stopped job need not wait for the end of a reservation. When it has saved and two more
// rounds have passed (it is decided anew after one; the other is to spare), its run must still fit before reservations
// on as many open nodes as it asked for. Where no reservation is in the way, closed nodes are no breach.
func (k *checker) checkRestartable(j *Job) {
	start := k.c.Now.Add(j.Restart).Add(2 * cmp.Or(k.c.Rules.Round, DefaultRound))
	open, kept := 0, ""
	for i := range k.c.Nodes {
		n := &k.c.Nodes[i]
		if n.Total.GPUs == 0 || !askedFor(j, n) {
			continue
		}
		// A reservation that is over by then but has begun now counts, too: the job must not have to wait for its end.
		if r := cmp.Or(conflictingReservation(j, n, start), conflictingReservation(j, n, k.c.Now)); r != nil {
			kept = r.Name
		} else if n.Closed == "" {
			open++
		}
	}
	if kept != "" && open < max(1, j.Nodes) {
		k.breach(Untouched, "job %d: stopped, and reservation %s begins before it could have run again", j.ID, kept)
	}
}
