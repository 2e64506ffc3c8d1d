package turns

import (
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// owner identifies the job of a client. A client whose job is unknown (0) is its own owner, so that it shares nothing
// with other clients.
type owner struct {
	job    int
	client Client
}

// ownerOf returns the owner of a client that joins.
func ownerOf(e Event) owner {
	if e.Job == 0 {
		return owner{client: e.Client}
	}
	return owner{job: e.Job}
}

// job is what is known of one job over all its connections. So a job that connects anew at each step is recognised, and
// one with many connections gets no more slices for it.
type job struct {
	owner   owner
	class   share.Class
	clients int // connected ones
	active  int // those that wait, hold the GPU or are frozen

	// queued is when it began to wait, or when its last slice ended if that was later. place is its number in the order
	// of these moments: of two jobs that the policy ranks equal, the one with the lower place goes first.
	queued      time.Duration
	place       uint64
	hasReleased bool          // it has had the GPU and released it
	idleSince   time.Duration // when it last stopped wanting the GPU; its gap began then
	departedAt  time.Duration // when its last client left

	gaps, steps, releaseDelays history // releaseDelays: from a yield, or from the end of a lease, to the release

	minShareCredit float64 // seconds of GPU time that it may still have for its least share
	// concedeBudget is how many seconds it may still lose to slices that do not fit into its gaps.
	concedeBudget float64
	weightedTime  time.Duration   // GPU time divided by the weight of its class, as Weighted compares it
	ignoredYields []time.Duration // when it was frozen lately for an ignored yield
}

// observedStep returns how long nine in ten of the job's steps took at most lately; 0: none was seen. The time from a
// yield to the release counts too, since that is at most one step. It uses nothing that the job says of itself, so a
// job gains nothing by a wrong estimate.
func (j *job) observedStep() time.Duration {
	return max(quantile(j.steps.sorted, 0.9), quantile(j.releaseDelays.sorted, 0.9))
}

// roster holds the jobs whose clients share the GPU and those that left lately, with what each has had and is owed.
type roster struct {
	rules     Rules
	now       time.Duration
	jobs      []*job // in order of arrival
	departed  []*job // jobs whose clients have all left, in the order of leaving
	lastPlace uint64 // the last place given to a waiting job
}

// joinJob returns the job of a client that joins, and counts the client. A job that left lately keeps its record:
// otherwise reconnecting would clear what it has had of the GPU.
func (r *roster) joinJob(e Event, class share.Class) *job {
	r.forget()
	who := ownerOf(e)
	named := func(j *job) bool { return j.owner == who }
	at := slices.IndexFunc(r.jobs, named)
	if at < 0 {
		j := &job{owner: who}
		if old := slices.IndexFunc(r.departed, named); old >= 0 {
			j = r.departed[old]
			r.departed = slices.Delete(r.departed, old, old+1)
		}
		r.jobs, at = append(r.jobs, j), len(r.jobs)
	}
	j := r.jobs[at]
	j.class = class
	j.clients++
	return j
}

// leaveJob counts one client less of the job. After the last one the job's record is kept for departedTTL, in case it
// connects again.
func (r *roster) leaveJob(j *job) {
	if j.clients--; j.clients > 0 {
		return
	}
	r.jobs = slices.DeleteFunc(r.jobs, func(other *job) bool { return other == j })
	if j.owner.job != 0 { // a client without a job never comes back
		j.departedAt = r.now
		r.departed = append(r.departed, j)
	}
	r.forget()
}

// forget drops the records of jobs that left long ago, and the oldest ones if there are too many. Records are in the
// order of leaving, so the first is the oldest.
func (r *roster) forget() {
	for len(r.departed) > 0 && (len(r.departed) > maxDeparted || r.now-r.departed[0].departedAt > departedTTL) {
		r.departed = slices.Delete(r.departed, 0, 1)
	}
}

// addActive counts one more client of the job that wants the GPU. The first one ends the job's gap, which is recorded
// to predict its next ones, and puts the job behind those that the policy ranks equal. It also raises the weighted GPU
// time of a job that was away for long (entryCharge).
func (r *roster) addActive(j *job) {
	if j.active++; j.active > 1 {
		return
	}
	if j.hasReleased {
		j.gaps.add(r.now - j.idleSince)
	}
	r.moveToBack(j)
	j.weightedTime = r.entryCharge(j)
}

// removeActive counts one client less that wants the GPU. After the last one the job's gap begins.
func (r *roster) removeActive(j *job) {
	if j.active--; j.active == 0 {
		j.idleSince = r.now
	}
}

// recordSlice is called when a slice of the job has ended. The job then goes behind those that the policy ranks equal,
// whichever of its clients is next, so that equal jobs take turns.
func (r *roster) recordSlice(j *job) {
	r.moveToBack(j)
	j.hasReleased = true
}

// moveToBack puts the job behind all jobs that the policy ranks equal to it, as if it began to wait now.
func (r *roster) moveToBack(j *job) {
	r.lastPlace++
	j.queued, j.place = r.now, r.lastPlace
}

// entryCharge returns the weighted GPU time with which a job begins to want the GPU. It is the job's own, but at most a
// quantum below the least of the other jobs that want the GPU now. Otherwise a job that was away for long would get
// every slice until it has caught up. If no other job wants the GPU it is the job's own.
func (r *roster) entryCharge(j *job) time.Duration {
	return max(j.weightedTime, r.leastSpent(j)-r.rules.Quantum)
}

// leastSpent returns the least weighted GPU time of the other jobs that want the GPU; 0 if there are none.
func (r *roster) leastSpent(j *job) time.Duration {
	least := forever
	for _, other := range r.jobs {
		if other != j && other.active > 0 {
			least = min(least, other.weightedTime)
		}
	}
	if least == forever {
		return 0
	}
	return least
}

// earnMinShare credits each job that wants the GPU with its least share of the seconds that have passed. No job saves
// up more than the least share of one window. The share is per job: with one for the class, a job whose steps fit into
// every gap would get all of it, and one whose steps never fit would wait for ever.
func (r *roster) earnMinShare(seconds float64) {
	for _, j := range r.jobs {
		if j.active == 0 {
			continue
		}
		part := r.jobMinShare(j.class)
		j.minShareCredit = min(float64(part*r.rules.Window.Seconds()), j.minShareCredit+float64(part*seconds))
	}
}

// jobMinShare returns the least share of one job of the class, as a part of the GPU's time: that of the class, divided
// by the number of its jobs that want the GPU.
func (r *roster) jobMinShare(class share.Class) float64 {
	active := 0
	for _, j := range r.jobs {
		if j.class == class && j.active > 0 {
			active++
		}
	}
	return r.rules.MinShare / float64(max(1, active))
}

// recordIgnoredYield counts an ignored yield. It reports whether there have been maxIgnoredYields of them within
// offenceWindow, for which the job is reported to the daemon; the count then begins anew. The count is per job and not
// per client, since the job's next process behaves the same.
func (j *job) recordIgnoredYield(now time.Duration) bool {
	j.ignoredYields = slices.DeleteFunc(j.ignoredYields, func(at time.Duration) bool { return now-at > offenceWindow })
	j.ignoredYields = append(j.ignoredYields, now)
	if len(j.ignoredYields) < maxIgnoredYields {
		return false
	}
	j.ignoredYields = nil
	return true
}
