package turns

import (
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// owner is whose a client is: a job, or itself where none is known.
type owner struct {
	job    int
	client Client
}

func ownerOf(e Event) owner {
	if e.Job == 0 {
		return owner{client: e.Client}
	}
	return owner{job: e.Job}
}

// job is what is known of one, by however many connections it comes: who connects anew at each step is no stranger, and
// who has many has no more turns for it.
type job struct {
	owner   owner
	class   share.Class
	clients int // that are connected
	active  int // of those, the ones that wait, hold the GPU or are frozen

	// queued is when it began to wait, or when its last turn ended if that was later, and place numbers those moments:
	// its place among its equals.
	queued time.Duration
	place  uint64
	away   bool          // it has had the GPU and given it back
	left   time.Duration // when it last wanted the GPU no more
	gone   time.Duration // when its last client left

	gaps, steps, drains recent

	credit float64 // seconds of GPU time that it is short of its least share
	// conceded is how many seconds it may still lose to turns that do not fit into its gap.
	conceded float64
	spent    time.Duration   // GPU time by weight, as Weighted counts it
	ignored  []time.Duration // when it was frozen lately for a yield that it ignored
}

// seen is how long a step of the job was lately; 0: none was seen. Its time from being told to yield until it released
// is seen too, since that is at most one step. Nothing that the job says of itself is in it.
func (j *job) seen() time.Duration {
	return max(quantile(j.steps.sorted, 0.9), quantile(j.drains.sorted, 0.9))
}

// roster is the jobs whose clients share the GPU, and those that have gone lately: what each has had, and what it is
// owed.
type roster struct {
	rules  Rules
	now    time.Duration
	jobs   []*job // in the order in which they came
	gone   []*job // those whose clients have all left, in the order in which they did
	places uint64 // that were given to jobs that wait
}

// enter is the job of a client that joins.
func (r *roster) enter(e Event, class share.Class) *job {
	r.forget()
	who := ownerOf(e)
	named := func(j *job) bool { return j.owner == who }
	at := slices.IndexFunc(r.jobs, named)
	if at < 0 {
		j := &job{owner: who}
		if old := slices.IndexFunc(r.gone, named); old >= 0 {
			j = r.gone[old]
			r.gone = slices.Delete(r.gone, old, old+1)
		}
		r.jobs, at = append(r.jobs, j), len(r.jobs)
	}
	j := r.jobs[at]
	j.class = class
	j.clients++
	return j
}

// exit takes a client of the job away. What is known of the job is kept for a while after the last.
func (r *roster) exit(j *job) {
	if j.clients--; j.clients > 0 {
		return
	}
	r.jobs = slices.DeleteFunc(r.jobs, func(other *job) bool { return other == j })
	if j.owner.job != 0 { // no client comes twice
		j.gone = r.now
		r.gone = append(r.gone, j)
	}
	r.forget()
}

// forget drops what is known of jobs that have been gone for long, and of those that went first where there are many.
func (r *roster) forget() {
	for len(r.gone) > 0 && (len(r.gone) > mostGone || r.now-r.gone[0].gone > remembered) {
		r.gone = slices.Delete(r.gone, 0, 1)
	}
}

// begin has a client of the job want the GPU.
func (r *roster) begin(j *job) {
	if j.active++; j.active > 1 {
		return
	}
	if j.away {
		j.gaps.add(r.now - j.left)
	}
	r.queue(j)
	j.spent = r.entry(j)
}

// end has a client of the job want it no more.
func (r *roster) end(j *job) {
	if j.active--; j.active == 0 {
		j.left = r.now
	}
}

// had ends a turn of the job: it goes behind its equals, whichever of its clients is next.
func (r *roster) had(j *job) {
	r.queue(j)
	j.away = true
}

func (r *roster) queue(j *job) {
	r.places++
	j.queued, j.place = r.now, r.places
}

// entry is what a job that begins to wait has spent by the count of those who are there already: a quantum less than
// any of them at the least, so that it is not owed all the time in which it was away.
func (r *roster) entry(j *job) time.Duration {
	return max(j.spent, r.leastSpent(j)-r.rules.Quantum)
}

func (r *roster) leastSpent(j *job) time.Duration {
	least := forever
	for _, other := range r.jobs {
		if other != j && other.active > 0 {
			least = min(least, other.spent)
		}
	}
	if least == forever {
		return 0
	}
	return least
}

// earn lets every job that wants the GPU earn its least share. Each has one of its own: if it were the class's alone, a
// job whose steps fit into every gap would have all of it, and one whose steps never do would wait for ever.
func (r *roster) earn(seconds float64) {
	for _, j := range r.jobs {
		if j.active == 0 {
			continue
		}
		part := r.leastPart(j.class)
		j.credit = min(float64(part*r.rules.Window.Seconds()), j.credit+float64(part*seconds))
	}
}

// leastPart is the least share of a job: that of its class, by how many of its jobs want the GPU.
func (r *roster) leastPart(class share.Class) float64 {
	active := 0
	for _, j := range r.jobs {
		if j.class == class && j.active > 0 {
			active++
		}
	}
	return r.rules.MinShare / float64(max(1, active))
}

// offended counts a yield that was ignored, and says whether there were too many. It is the job's, since its next
// process is no better.
func (j *job) offended(now time.Duration) bool {
	j.ignored = slices.DeleteFunc(j.ignored, func(at time.Duration) bool { return now-at > offenceWindow })
	j.ignored = append(j.ignored, now)
	if len(j.ignored) < mostIgnored {
		return false
	}
	j.ignored = nil
	return true
}
