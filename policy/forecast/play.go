package forecast

import (
	"cmp"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// trainedFor is over how long the value of the cluster is averaged.
const trainedFor = 4 * time.Hour

// life is what a future holds for a job, beside what the planner sees of it.
type life struct {
	work   time.Duration // that it has done when it ends
	gain   float64       // its speed, where it runs
	trains time.Time     // when it does so again, after a start or a restart
	fixed  bool          // what the snapshot says of it
}

// play is one future under way.
type play struct {
	*Options
	c       policy.Cluster
	lives   []life // as its jobs
	from    time.Time
	now     time.Time
	end     time.Time
	round   time.Time // when the last one was that may stop somebody
	freed   time.Time // when, in the middle, jobs ended since the last decision; now, where none did
	asked   map[int]bool
	open    int // of those, who has not started
	started map[int]time.Time
	daring  bool // who has no checkpoint may be stopped
	guesses int
	types   map[string]string // of GPUs, by node, where there are any
	trained float64           // within trainedFor, in GPU-seconds
	finest  time.Duration
	cut     bool
}

// newPlay begins a future: its own copy of the cluster, and when each job is to end.
func newPlay(c *policy.Cluster, o *Options, draw uint64, asked []int) *play {
	p := &play{Options: o, c: *c, from: c.Now, now: c.Now, freed: c.Now, end: c.Now.Add(o.Horizon), open: len(asked),
		asked: make(map[int]bool, len(asked)), started: make(map[int]time.Time, len(asked)),
		types: map[string]string{}}
	p.finest = min(p.period(), finest*time.Duration(max(1, len(c.Jobs)/fewJobs)))
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
	p.lives = make([]life, len(c.Jobs))
	for i := range p.c.Jobs {
		j := &p.c.Jobs[i]
		p.lives[i] = life{work(j, c.Now, o.Habits, stratified(draw, o, j.ID)), 1, c.Now, j.Fixed}
		if alone := len(asked) == 1 && p.asked[j.ID]; known(j, c.Now) == unknown && !alone {
			p.guesses++
		}
		p.daring = p.daring || j.Running != nil && !j.Saves && !j.Fixed
	}
	return p
}

// stratified is a job's chance in one of the draws: each has a part of the range of its own, so that few draws see long
// jobs and short ones.
func stratified(draw uint64, o *Options, job int) float64 {
	n := uint64(o.Draws)
	stride := 1 + uint64(chance(o.Seed, uint64(job), 1)*float64(n))
	for gcd(stride, n) != 1 {
		stride++
	}
	turn := uint64(float64(chance(o.Seed, uint64(job)) * float64(n)))
	part := (turn + draw*stride) % n
	return (float64(part) + chance(o.Seed, uint64(job), draw, 2)) / float64(n)
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// run plays rounds until those who are asked for have started, or there is no more time.
func (p *play) run(planner *policy.Planner) {
	p.decide(planner, true)
	for range rounds {
		if p.open == 0 && p.now.Sub(p.from) >= trainedFor || !p.now.Before(p.end) {
			return
		}
		if p.Stop != nil && p.Stop() {
			p.cut = true
			return
		}
		p.pass(p.next())
		p.decide(planner, p.now.Sub(p.round) >= p.period())
	}
	p.cut = p.open > 0 && p.now.Before(p.end)
}

// period is the time between two rounds that may stop somebody.
func (p *play) period() time.Duration { return cmp.Or(p.c.Rules.Round, policy.DefaultRound) }

// next is when there is something to decide: a job ends, or it is time for a round. The further from the beginning, the
// more of that is taken together.
func (p *play) next() time.Time {
	next := p.round.Add(p.period())
	for i := range p.c.Jobs {
		if p.c.Jobs[i].Running == nil {
			continue
		}
		if over := p.over(i); over.Before(next) {
			next = over
		}
	}
	if soonest := p.now.Add(max(p.finest, p.now.Sub(p.from)/coarsest)); next.Before(soonest) {
		next = soonest
	}
	if next.After(p.end) {
		return p.end
	}
	return next
}

// over is when a running job ends, as it runs now.
func (p *play) over(i int) time.Time {
	j, l := &p.c.Jobs[i], &p.lives[i]
	from := p.now
	if l.trains.After(from) {
		from = l.trains
	}
	over := from.Add(times(l.work-j.Done, 1/l.gain))
	if limit := j.Started.Add(j.TimeLimit); j.TimeLimit > 0 && limit.Before(over) {
		return limit
	}
	return over
}

// pass lets time pass: jobs that run get on, and some end.
func (p *play) pass(to time.Time) {
	kept, ended, sum := 0, 0, time.Duration(0)
	for i := range p.c.Jobs {
		j, l := &p.c.Jobs[i], &p.lives[i]
		if j.Running != nil {
			over := p.over(i)
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
	p.freed = to
	if ended > 0 {
		p.freed = p.now.Add(sum / time.Duration(ended))
	}
	p.now = to
}

// advance has a running job train until then.
func (p *play) advance(i int, to time.Time) {
	j, l := &p.c.Jobs[i], &p.lives[i]
	j.Attained += float64(float64(j.GPUs) * to.Sub(p.now).Seconds())
	from, until := p.now, to
	if l.trains.After(from) {
		from = l.trains
	}
	if over := p.over(i); over.Before(until) {
		until = over
	}
	if !until.After(from) {
		return
	}
	j.Done += times(until.Sub(from), l.gain)
	if end := p.from.Add(trainedFor); until.After(end) {
		until = end
	}
	if until.After(from) {
		p.trained += float64(float64(float64(j.GPUs)*l.gain) * until.Sub(from).Seconds())
	}
}

// decide plans a round and carries it out at once. Between two whole rounds nobody is stopped.
func (p *play) decide(planner *policy.Planner, whole bool) {
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
		p.carryOut(i, &plan.Decisions[i])
	}
}

// carryOut makes of a decision what is so.
func (p *play) carryOut(i int, d *policy.Decision) {
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
	l.gain = max(0.01, p.speed(j, d))
	if was != nil && (was == d.Grant || was.Equal(*d.Grant)) {
		return
	}
	j.Running, j.Started, l.trains = d.Grant, p.now, p.now
	if j.Done > 0 {
		l.trains = p.now.Add(j.Restart)
	}
	if was != nil {
		j.Restarts++
		return
	}
	l.fixed = !j.Saves && !p.daring
	p.begin(i)
}

// speed is a job's, in terms of the share of the reference server.
func (p *play) speed(j *policy.Job, d *policy.Decision) float64 {
	return d.Gain * policy.Unit(policy.ProfileOn(j.Profile, p.types[d.Grant.Nodes[0]]), d.Fair, p.Reference)
}

// begin has a job that waited begin when, in the middle, room came free for it: what is decided of a stretch of time at
// once would otherwise leave GPUs idle in it.
func (p *play) begin(i int) {
	j, l := &p.c.Jobs[i], &p.lives[i]
	if j.Done == 0 {
		j.Started, l.trains = p.freed, p.freed
		j.Done = min(times(p.now.Sub(p.freed), l.gain), l.work-1)
	}
	if _, again := p.started[j.ID]; p.asked[j.ID] && !again {
		p.started[j.ID] = p.freed
		p.open--
	}
}
