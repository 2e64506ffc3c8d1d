package forecast

import (
	"cmp"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// trainedFor is the time over which the value of the cluster is averaged.
const trainedFor = 4 * time.Hour

// jobFuture is what a future knows of a job beyond what the planner sees: when it ends, above all.
type jobFuture struct {
	work       time.Duration // progress at which it ends, see endProgress
	gain       float64       // speed while it runs
	trainsFrom time.Time     // when it starts to train after a start or restart
	fixed      bool          // Job.Fixed of the snapshot
}

// future is the state of one future: a copy of the cluster in which rounds are played until the asked jobs have
// started.
type future struct {
	*Options
	c            policy.Cluster    // a copy that changes from round to round
	lives        []jobFuture       // by index in c.Jobs
	from         time.Time         // time of the snapshot
	now          time.Time         // time that is reached
	end          time.Time         // from plus Options.Horizon
	round        time.Time         // time of the last full round, which may stop jobs
	meanEnd      time.Time         // mean end of the jobs that ended since the last decision; now if none did
	asked        map[int]bool      // IDs of the jobs of interest
	open         int               // number of asked jobs that have not started
	started      map[int]time.Time // when asked jobs started
	maySkipSaves bool              // running jobs without a checkpoint may be stopped
	guesses      int               // see Forecast.Guess
	types        map[string]string // GPU type by node, where there is one
	trained      float64           // within trainedFor, in GPU-seconds
	decisionStep time.Duration     // minimum time between decisions, see minStep
	cut          bool              // it ended before the asked jobs had started and the horizon was reached
}

// newFuture makes a future with its own copy of the cluster and an end drawn for each job; draw is the future's number.
// Its jobs are sorted by ID, as the decisions of a plan are, so that a job and its decision have the same index. It
// counts the jobs of unknown length in guesses, but for one that is the only asked job.
func newFuture(c *policy.Cluster, o *Options, draw uint64, asked []int) *future {
	p := &future{
		Options: o,
		c:       *c,
		from:    c.Now,
		now:     c.Now,
		meanEnd: c.Now,
		end:     c.Now.Add(o.Horizon),
		open:    len(asked),
		asked:   make(map[int]bool, len(asked)),
		started: make(map[int]time.Time, len(asked)),
		types:   map[string]string{},
	}
	p.decisionStep = min(p.period(), minStep*time.Duration(max(1, len(c.Jobs)/fewJobs)))
	for i := range c.Nodes {
		if n := &c.Nodes[i]; n.GPUType != "" {
			p.types[n.Name] = n.GPUType
		}
	}
	for _, job := range asked {
		p.asked[job] = true
	}
	p.c.Jobs = slices.Clone(c.Jobs)
	slices.SortStableFunc(p.c.Jobs, func(a, b policy.Job) int { return cmp.Compare(a.ID, b.ID) })
	p.lives = make([]jobFuture, len(c.Jobs))
	for i := range p.c.Jobs {
		j := &p.c.Jobs[i]
		p.lives[i] = jobFuture{endProgress(j, c.Now, o.Habits, stratified(draw, o, j.ID)), 1, c.Now, j.Fixed}
		if alone := len(asked) == 1 && p.asked[j.ID]; lengthKnowledge(j, c.Now) == unknownLength && !alone {
			p.guesses++
		}
		p.maySkipSaves = p.maySkipSaves || j.Running != nil && !j.Saves && !j.Fixed
	}
	return p
}

// stratified is a job's chance in the future with number draw, by which endProgress draws its end. The range from 0 to
// 1 is divided into one interval per future, so that a few futures cover long and short jobs. Each job has its own
// permutation of the intervals (a stride without a common divisor), so that the long draws of two jobs do not always
// meet.
func stratified(draw uint64, o *Options, job int) float64 {
	n := uint64(o.Draws)
	stride := 1 + uint64(hashChance(o.Seed, uint64(job), 1)*float64(n))
	for gcd(stride, n) != 1 {
		stride++
	}
	turn := uint64(float64(hashChance(o.Seed, uint64(job)) * float64(n)))
	part := (turn + draw*stride) % n
	return (float64(part) + hashChance(o.Seed, uint64(job), draw, 2)) / float64(n)
}

// gcd is the greatest common divisor.
func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// run plays rounds until the asked jobs have started and trainedFor has passed, or the horizon is reached. It sets cut
// if Stop ends it before, or if asked jobs still wait after maxDecisions decisions.
func (p *future) run(planner *policy.Planner) {
	p.decide(planner, true)
	for range maxDecisions {
		if p.open == 0 && p.now.Sub(p.from) >= trainedFor || !p.now.Before(p.end) {
			return
		}
		if p.Stop != nil && p.Stop() {
			p.cut = true
			return
		}
		p.advanceTo(p.nextDecision())
		p.decide(planner, p.now.Sub(p.round) >= p.period())
	}
	p.cut = p.open > 0 && p.now.Before(p.end) // too many decisions: as if Stop had ended it
}

// period is the time between two full rounds.
func (p *future) period() time.Duration { return cmp.Or(p.c.Rules.Round, policy.DefaultRound) }

// nextDecision is the next time to decide: when a running job ends or a full round is due, since before that nothing
// can start. The further from the beginning, the more of these moments are combined into one decision: there an
// estimate need not be as fine, and a future of a week would take too long otherwise.
func (p *future) nextDecision() time.Time {
	next := p.round.Add(p.period())
	for i := range p.c.Jobs {
		if p.c.Jobs[i].Running == nil {
			continue
		}
		if over := p.endTime(i); over.Before(next) {
			next = over
		}
	}
	if soonest := p.now.Add(max(p.decisionStep, p.now.Sub(p.from)/stepDivisor)); next.Before(soonest) {
		next = soonest
	}
	if next.After(p.end) {
		return p.end
	}
	return next
}

// endTime is when running job i ends at its present speed, or is ended by its time limit.
func (p *future) endTime(i int) time.Time {
	j, l := &p.c.Jobs[i], &p.lives[i]
	from := p.now
	if l.trainsFrom.After(from) {
		from = l.trainsFrom
	}
	over := from.Add(scaled(l.work-j.Done, 1/l.gain))
	if limit := j.Started.Add(j.TimeLimit); j.TimeLimit > 0 && limit.Before(over) {
		return limit
	}
	return over
}

// advanceTo advances the time: running jobs make progress, and those that end are removed. It notes when, on average,
// they ended (meanEnd): jobs that start in their place start then.
func (p *future) advanceTo(to time.Time) {
	kept, ended, sum := 0, 0, time.Duration(0)
	for i := range p.c.Jobs {
		j, l := &p.c.Jobs[i], &p.lives[i]
		if j.Running != nil {
			over := p.endTime(i)
			p.advance(i, to)
			if !over.After(to) {
				ended++
				sum += max(0, over.Sub(p.now))
				continue
			}
		}
		p.c.Jobs[kept], p.lives[kept] = *j, *l
		kept++
	}
	p.c.Jobs, p.lives = p.c.Jobs[:kept], p.lives[:kept]
	p.meanEnd = to
	if ended > 0 {
		p.meanEnd = p.now.Add(sum / time.Duration(ended))
	}
	p.now = to
}

// advance lets running job i train until a time, or until it ends. After a restart it trains nothing until it has
// started up (trainsFrom). What it trains within trainedFor is added to the cluster's sum (p.trained).
func (p *future) advance(i int, to time.Time) {
	j, l := &p.c.Jobs[i], &p.lives[i]
	j.Attained += float64(float64(j.GPUs) * to.Sub(p.now).Seconds())
	from, until := p.now, to
	if l.trainsFrom.After(from) {
		from = l.trainsFrom
	}
	if over := p.endTime(i); over.Before(until) {
		until = over
	}
	if !until.After(from) {
		return
	}
	j.Done += scaled(until.Sub(from), l.gain)
	if end := p.from.Add(trainedFor); until.After(end) {
		until = end
	}
	if until.After(from) {
		p.trained += float64(float64(float64(j.GPUs)*l.gain) * until.Sub(from).Seconds())
	}
}

// decide plans a round and carries it out at once. Only a full round (whole) may stop jobs: in a small one all running
// jobs are fixed, as in the daemon.
func (p *future) decide(planner *policy.Planner, whole bool) {
	p.c.Now = p.now
	if whole {
		p.round = p.now
	}
	for i := range p.c.Jobs {
		j := &p.c.Jobs[i]
		j.Fixed = j.Running != nil && (p.lives[i].fixed || !whole)
	}
	plan := planner.Decide(p.c, p.Policy, p.Allocator)
	for i := range p.c.Jobs {
		p.applyDecision(i, &plan.Decisions[i])
	}
}

// applyDecision applies the plan's decision to job i: it is stopped, restarted, started, or goes on. A job that
// continues from a checkpoint trains only after its restart time. A stop counts in Restarts, as a restart does, since
// Slurm requeues the job in both cases.
func (p *future) applyDecision(i int, d *policy.Decision) {
	j, l := &p.c.Jobs[i], &p.lives[i]
	was := j.Running
	switch {
	case d.Grant == nil && was == nil:
		return
	case d.Grant == nil:
		j.Running = nil
		j.Restarts++
		return
	}
	l.gain = max(0.01, p.speed(j, d)) // not 0: endTime divides by it, and every job must end
	if was != nil && (was == d.Grant || was.Equal(*d.Grant)) {
		return
	}
	j.Running, j.Started, l.trainsFrom = d.Grant, p.now, p.now
	if j.Done > 0 {
		l.trainsFrom = p.now.Add(j.Restart)
	}
	if was != nil {
		j.Restarts++
		return
	}
	// A new run without a checkpoint may be stopped if the snapshot has such runs that may: its rules allow it then.
	l.fixed = !j.Saves && !p.maySkipSaves
	p.startWaiting(i)
}

// speed is a job's speed relative to the share of the reference server.
func (p *future) speed(j *policy.Job, d *policy.Decision) float64 {
	return d.Gain * policy.Unit(policy.ProfileOn(j.Profile, p.types[d.Grant.Nodes[0]]), d.Fair, p.Reference)
}

// startWaiting lets waiting job i start at meanEnd, the mean time at which jobs ended since the last decision: one
// decision covers a stretch of time, in which GPUs would otherwise idle. A job that continues from a checkpoint starts
// at the decision instead (applyDecision). Progress until the decision stays below the job's work, so that advanceTo
// ends it like any other. An asked job's first start is noted as meanEnd for the forecast.
func (p *future) startWaiting(i int) {
	j, l := &p.c.Jobs[i], &p.lives[i]
	if j.Done == 0 {
		j.Started, l.trainsFrom = p.meanEnd, p.meanEnd
		j.Done = min(scaled(p.now.Sub(p.meanEnd), l.gain), l.work-1)
	}
	if _, again := p.started[j.ID]; p.asked[j.ID] && !again {
		p.started[j.ID] = p.meanEnd
		p.open--
	}
}
