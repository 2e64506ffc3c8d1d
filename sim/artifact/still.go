package artifact

import "math"

// This file has no counterpart in the artifact: rounds that cannot differ from the one before are not computed again.

// keepsPlaces says whether all jobs of the last round can keep their places, because the allocator would give them the
// same ones. It would if the queue still begins with the jobs that it considered (e.considered) and amounts are exact,
// so that the cluster is equally empty. Jobs behind these may still be added. Where jobs are selected before any is
// placed, adding one could change what others get, so there no GPU may be left for a job behind, or no such job may
// exist. A false answer only costs time.
func (e *engine) keepsPlaces() bool {
	if !e.exact || len(e.allocated) == 0 || len(e.queue) < len(e.considered) {
		return false
	}
	for k, i := range e.considered {
		if e.queue[k].job != i {
			return false
		}
	}
	return !e.selectsFirst() || e.freeAfterSelection == 0 || len(e.queue) == len(e.considered)
}

// selectsFirst says whether jobs are selected before any is served, so that a new job can change what others get.
func (e *engine) selectsFirst() bool { return e.Policy == LAS || e.Allocator == Opt }

// repeatRound credits the jobs that keep their places with another round like the last one. Computing the round anew
// would give the same placement.
func (e *engine) repeatRound() {
	for _, i := range e.allocated {
		j := &e.jobs[i]
		j.lastRound = e.run.Held
		j.progress(e.Round, j.credit)
	}
}

// skipRounds holds several rounds at once that cannot differ from the last one, and returns the time of the last of
// them, or now if there are none. Only policies with fixed keys have such rounds, since other keys change in each. None
// are skipped if amounts leave residues, if events are taken from an agenda, if a job has just become urgent and will
// come first in the next round, or if each round is recorded.
func (e *engine) skipRounds(now float64) float64 {
	if !e.exact || e.hasAgenda || e.becameUrgent || e.Detail || !e.Policy.hasFixedKeys() {
		return now
	}
	rounds := e.quietRounds(now)
	if rounds <= 0 {
		return now
	}
	e.run.Held += int(rounds)
	for _, i := range e.allocated {
		j := &e.jobs[i]
		j.lastRound = e.run.Held
		j.attained += float64(float64(rounds) * e.Round)
		j.executedBefore = j.executed + (rounds-1)*j.credit
		j.executed = min(j.total, j.executedBefore+j.credit)
	}
	e.addUsage(rounds)
	return now + float64(float64(rounds)*e.Round)
}

// quietRounds is the number of rounds after now that are like the last one. They end before the round at whose end a
// job finishes, before any in which a waiting or new job could be served, before Until, and before a job becomes
// urgent. If there are none, the number is 0 or negative.
func (e *engine) quietRounds(now float64) int64 {
	rounds := int64(math.MaxInt64)
	for _, i := range e.allocated {
		j := &e.jobs[i]
		rounds = min(rounds, (j.total-j.executed-1)/j.credit)
	}
	if e.arrived < len(e.jobs) && e.arrivalMatters() {
		rounds = min(rounds, e.roundsBefore(e.jobs[e.arrived].arrival, now))
	}
	if e.Until > 0 {
		rounds = min(rounds, e.roundsBefore(e.Until, now))
	}
	if e.key != nil {
		rounds = min(rounds, e.roundsBefore(e.oldestWait+starvationTime, now))
	}
	return rounds
}

// arrivalMatters says whether a new job can change the next round. Under FIFO it comes behind all others, so it can do
// so only if a GPU is free.
func (e *engine) arrivalMatters() bool {
	switch {
	case e.Policy != FIFO:
		return true
	case e.selectsFirst():
		return e.freeAfterSelection > 0
	}
	return e.free > 0
}

// roundsBefore is the number of rounds after now that begin before a moment; both are in seconds. Rounding may make the
// quotient too large, so it is lowered until the last round begins before the moment.
func (e *engine) roundsBefore(moment, now float64) int64 {
	rounds := int64((moment - now) / e.Round)
	for rounds > 0 && now+float64(float64(rounds)*e.Round) >= moment {
		rounds--
	}
	return rounds
}

// addUsage adds what is held in a number of rounds to the totals of the run, in GPU-, core- and GB-seconds.
func (e *engine) addUsage(rounds int64) {
	seconds := float64(rounds) * e.Round
	e.run.BusyGPUs += float64(seconds * e.use[gpu])
	e.run.BusyCPUs += float64(seconds * e.use[cpu])
	e.run.BusyMemory += float64(seconds * e.use[memory])
}

// sumUsage sums what jobs hold now over all servers, for addUsage and the records. It is called when that has changed.
func (e *engine) sumUsage() {
	e.use = vector{gpu: float64(e.count*e.gpus - e.free)}
	for k := range e.servers {
		e.use[cpu] += e.servers[k].used[cpu]
		e.use[memory] += e.servers[k].used[memory]
	}
}
