package artifact_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/sim/artifact"
	"github.com/synergy-slurmd/synergy-slurmd/sim/models"
	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
)

// The oracle is the published simulator once more, written down from its description with no thought of speed: one
// event at a time, maps and lists as there, nothing remembered from round to round that is not state. It knows no opt.
// The engine must agree with it on every job.

type vec [5]float64 // GPU, CPU, memory, storage, network

func (a vec) plus(b vec) vec {
	for r := range a {
		a[r] += b[r]
	}
	return a
}

func (a vec) minus(b vec) vec {
	for r := range a {
		a[r] -= b[r]
	}
	return a
}

func (a vec) times(x float64) vec {
	for r := range a {
		a[r] = float64(a[r] * x)
	}
	return a
}

func (a vec) over(x float64) vec {
	for r := range a {
		a[r] /= x
	}
	return a
}

// positive is max(0, a), component by component.
func (a vec) positive() vec {
	for r := range a {
		a[r] = max(0, a[r])
	}
	return a
}

type oracleJob struct {
	trace.Job
	model         models.Model
	g             float64
	demand        vec
	speed0, speed float64
	executed      int64
	prev          int64
	attained      float64
	priority      float64
	lastExec      float64
	gpus          []int
	servers       []int // of res, in the order of insertion
	res           map[int]vec

	firstRun, finish float64
	arrived          bool
	rounds           []float64 // in which it ran
}

func (j *oracleJob) alloc() vec {
	sum := vec{}
	for _, s := range j.servers {
		sum = sum.plus(j.res[s])
	}
	return vec{float64(len(j.gpus)), sum[1], sum[2], sum[3], 0}
}

type oracleEvent struct {
	time float64
	kind int // 1 arrival, 3 end of a lease, 4 schedule
	job  *oracleJob
}

func (a oracleEvent) less(b oracleEvent) bool {
	return a.time < b.time || a.time == b.time && a.kind < b.kind
}

// oracleHeap is a binary heap as CPython's heapq has it.
type oracleHeap []oracleEvent

func (h *oracleHeap) push(e oracleEvent) {
	*h = append(*h, e)
	h.bubble(len(*h) - 1)
}

func (h oracleHeap) bubble(i int) {
	for i > 0 && h[i].less(h[(i-1)>>1]) {
		parent := (i - 1) >> 1
		h[i], h[parent] = h[parent], h[i]
		i = parent
	}
}

func (h *oracleHeap) pop() oracleEvent {
	old := *h
	root, x := old[0], old[len(old)-1]
	*h = old[:len(old)-1]
	if len(*h) == 0 {
		return root
	}
	i := 0
	for 2*i+1 < len(*h) {
		child := 2*i + 1
		if child+1 < len(*h) && !(*h)[child].less((*h)[child+1]) {
			child++
		}
		(*h)[i] = (*h)[child]
		i = child
	}
	(*h)[i] = x
	h.bubble(i)
	return root
}

type oracle struct {
	artifact.Config
	set        []models.Model
	servers, G int
	cap, fair  vec
	used, hold []vec
	free       []int
	serverJobs [][]*oracleJob
	runnable   []*oracleJob
	events     oracleHeap
	jobs       []*oracleJob
	pending    int
	windowLeft map[int]bool
	held       int
	ended      float64
	done       bool
	busy       vec
	rounds     []outcome.Round
	places     map[place]string
	err        error
}

func newOracle(c artifact.Config) *oracle {
	g := c.Cluster.Groups[0]
	set, err := models.Set(cmp.Or(c.Ratio, g.CPUs/g.GPUs))
	if err != nil {
		panic(err)
	}
	o := &oracle{
		Config: c, set: set, servers: g.Servers, G: g.GPUs,
		places: map[place]string{},
		cap:    vec{float64(g.GPUs), float64(g.CPUs), g.Memory, g.Storage, g.Network},
	}
	if o.Round == 0 {
		o.Round = 300
	}
	o.fair = o.cap.over(float64(o.G))
	o.used, o.hold = make([]vec, o.servers), make([]vec, o.servers)
	for x := range o.servers * o.G {
		o.free = append(o.free, x)
	}
	return o
}

// job derives a job's demand, chapter "from profile to demand vector".
func (o *oracle) job(from trace.Job) *oracleJob {
	i := slices.IndexFunc(o.set, func(m models.Model) bool { return m.Name == from.Model })
	m, g := o.set[i], float64(from.GPUs)
	want := vec{g, g * m.CPUs, g * m.Memory, g * 62.5, 0}
	speed, clipped := m.Speedup, false
	for _, r := range []int{1, 2, 3} {
		if want[r] > o.cap[r] {
			want[r], clipped = o.cap[r], true
			if from.GPUs > o.G {
				want[r], speed, clipped = g*(o.cap[r]/float64(o.G)), 1, false
			}
		}
	}
	if clipped {
		slope := 0.0
		fair := float64(g * (o.cap[1] / float64(o.G)))
		if excess := float64(g*m.CPUs) - fair; excess != 0 {
			slope = (speed - 1) / excess
		}
		speed = 1 + float64(slope*(want[1]-fair))
	}
	j := &oracleJob{Job: from, model: m, g: g, demand: want, speed0: speed, speed: speed, lastExec: -1, firstRun: -1,
		finish: -1}
	if o.Prioritize && o.Window.Has(from.ID) {
		j.priority = 1
	}
	o.jobs = append(o.jobs, j)
	return j
}

func (o *oracle) run() {
	o.windowLeft = map[int]bool{}
	first := 0.0
	if o.Mode == artifact.Generated {
		o.generate()
		for id := o.Window.First; id < o.Window.End; id++ {
			o.windowLeft[id] = true
		}
	} else {
		for o.generate() {
		}
		for _, j := range o.jobs {
			o.windowLeft[j.ID] = o.Window != (outcome.Window{}) && o.Window.Has(j.ID)
		}
		first = math.Ceil(o.jobs[0].Arrival/o.Round) * o.Round
	}
	if o.Mode == artifact.Static {
		first = 1
	}
	for id, left := range o.windowLeft {
		if !left {
			delete(o.windowLeft, id)
		}
	}
	o.events.push(oracleEvent{first, 4, nil})
	for !o.done {
		o.handle(o.events.pop())
	}
}

func (o *oracle) generate() bool {
	next, more := o.Jobs.Next()
	if more {
		j := o.job(next)
		o.events.push(oracleEvent{j.Arrival, 1, j})
		o.pending++
	}
	return more
}

func (o *oracle) handle(e oracleEvent) {
	o.ended = e.time
	switch e.kind {
	case 1:
		o.pending--
		e.job.arrived = true
		o.runnable = append(o.runnable, e.job)
		if o.Mode == artifact.Generated {
			o.generate()
		}
	case 3:
		e.job.lastExec = e.time
		o.release(e.job)
		if e.job.executed >= e.job.Iterations {
			o.finish(e.job, e.time)
		}
	case 4:
		if o.Until > 0 && e.time >= o.Until {
			o.done = true
			return
		}
		o.schedule(e.time)
		idle := len(o.runnable) == 0 && (o.pending == 0 || o.Strict && o.Mode != artifact.Generated)
		if idle || o.err != nil {
			o.done = true
			return
		}
		o.events.push(oracleEvent{e.time + o.Round, 4, nil})
	}
}

func (o *oracle) finish(j *oracleJob, now float64) {
	o.runnable = slices.DeleteFunc(o.runnable, func(k *oracleJob) bool { return k == j })
	j.finish = now
	if o.windowLeft[j.ID] {
		delete(o.windowLeft, j.ID)
		o.done = len(o.windowLeft) == 0
	}
}

func (o *oracle) key(j *oracleJob, now float64) float64 {
	rem := j.model.Iteration * float64(j.Iterations-j.executed)
	if o.Allocator != artifact.Proportional {
		rem /= j.speed
	}
	n := float64(o.servers)
	sum := vec{n * o.cap[0], n * o.cap[1], n * o.cap[2]}
	switch o.Policy {
	case artifact.FIFO:
		return j.Arrival
	case artifact.SRTF:
		return rem
	case artifact.LAS:
		return j.attained * j.g
	case artifact.FTF:
		return ((now - j.Arrival) + rem) / (j.model.Iteration * float64(j.Iterations))
	case artifact.DRF:
		return max(j.g/sum[0], j.demand[1]/sum[1], j.demand[2]/sum[2])
	case artifact.Tetris:
		return float64(float64(j.g/sum[0]*rem)+float64(j.demand[1]/sum[1]*rem)) + float64(j.demand[2]/sum[2]*rem)
	}
	panic("no such policy")
}

func (o *oracle) sort(now float64) {
	keys := map[*oracleJob]float64{}
	for _, j := range o.runnable {
		keys[j] = o.key(j, now)
	}
	slices.SortStableFunc(o.runnable, func(a, b *oracleJob) int {
		pairs := [][2]float64{{-a.priority, -b.priority}, {keys[a], keys[b]}, {a.Arrival, b.Arrival}}
		if o.Policy == artifact.FIFO {
			pairs = pairs[1:]
		}
		for _, p := range pairs {
			if p[0] != p[1] {
				if p[0] < p[1] {
					return -1
				}
				return 1
			}
		}
		return 0
	})
}

func (o *oracle) schedule(now float64) {
	o.held++
	o.sort(now)
	o.serverJobs = make([][]*oracleJob, o.servers)
	for _, j := range o.runnable {
		j.speed = j.speed0
	}
	k, selected := len(o.free), []*oracleJob(nil)
	for _, j := range o.runnable {
		if j.GPUs <= k {
			selected = append(selected, j)
			k -= j.GPUs
		}
		since := j.lastExec
		if since == -1 {
			since = j.Arrival
		}
		if now-since > 1000*3600 {
			j.priority = 1
		}
	}
	list := slices.Clone(o.runnable)
	if o.Policy == artifact.LAS {
		list = selected
		if o.Allocator == artifact.Tune {
			slices.SortStableFunc(list, func(a, b *oracleJob) int { return b.GPUs - a.GPUs })
		}
	}
	for _, j := range list {
		if j.GPUs <= len(o.free) && o.allocate(j) {
			o.events.push(oracleEvent{now + o.Round, 3, j})
			if j.firstRun < 0 {
				j.firstRun = now
			}
			j.rounds = append(j.rounds, now)
		}
	}
	for _, u := range o.used {
		o.busy = o.busy.plus(u.times(o.Round))
	}
	o.record(now)
	if len(o.runnable) > 0 && o.rounds[len(o.rounds)-1].Running == 0 && o.pending == 0 {
		o.err = fmt.Errorf("nobody fits in round %d and nobody will", o.held)
	}
}

// place is a job on a server in a round.
type place struct {
	job, server int
	at          float64
}

// record notes who has what right after a round.
func (o *oracle) record(now float64) {
	r, before := outcome.Round{At: now}, math.Inf(-1)
	if n := len(o.rounds); n > 0 {
		before = o.rounds[n-1].At
	}
	for _, u := range o.used {
		r.GPUs, r.CPUs, r.Memory = r.GPUs+u[0], r.CPUs+u[1], r.Memory+u[2]
	}
	for _, j := range o.runnable {
		r.Demand += j.g
		switch ran := slices.Contains(j.rounds, before); {
		case j.gpus == nil:
			r.Waiting++
			if ran {
				r.Stopped++
			}
			continue
		case !ran:
			r.Started++
		}
		r.Running++
		for _, s := range j.servers {
			devices := []int{}
			for _, x := range slices.Sorted(slices.Values(j.gpus)) {
				if x/o.G == s {
					devices = append(devices, x%o.G)
				}
			}
			o.places[place{j.ID, s, now}] = fmt.Sprint(devices, math.Round(j.res[s][1]))
		}
	}
	o.rounds = append(o.rounds, r)
}

func (o *oracle) allocate(j *oracleJob) bool {
	switch o.Allocator {
	case artifact.Proportional:
		return o.place(j, o.fair.times(j.g), true)
	case artifact.Greedy:
		return o.place(j, j.demand, false)
	}
	ok := o.tunePlace(j)
	if !ok {
		o.err = fmt.Errorf("job %d cannot be placed in round %d", j.ID, o.held)
	}
	return ok
}

func (o *oracle) fits(s int, v vec) bool {
	for r := range v {
		if !((o.cap[r]-o.used[s][r])-o.hold[s][r] >= v[r]) {
			return false
		}
	}
	return true
}

func (o *oracle) commit(j *oracleJob, gpus, servers []int, res map[int]vec, fairflag bool) {
	j.gpus, j.servers, j.res = gpus, servers, res
	it := j.model.Iteration
	if !fairflag {
		it = it / j.speed
	}
	j.attained += o.Round
	j.prev = j.executed
	j.executed = min(j.Iterations, j.executed+int64(math.Floor(o.Round/it)))
	for _, s := range servers {
		for r := range 4 {
			o.used[s][r] += res[s][r]
		}
	}
}

func (o *oracle) release(j *oracleJob) {
	for _, s := range j.servers {
		for r := range 4 {
			o.used[s][r] -= j.res[s][r]
		}
	}
	o.free = slices.Concat(o.free, j.gpus)
	slices.Sort(o.free)
	j.gpus, j.servers, j.res = nil, nil, nil
}

func (o *oracle) place(j *oracleJob, v vec, fairflag bool) bool {
	var got, servers []int
	var res map[int]vec
	if o.Placement == artifact.Consolidate {
		got, servers, res = o.consolidate(j, v)
	} else {
		got, servers, res = o.firstFit(j, v)
	}
	o.hold = make([]vec, o.servers)
	if len(got) < j.GPUs {
		return false
	}
	o.commit(j, got, servers, res, fairflag)
	o.free = slices.DeleteFunc(o.free, func(x int) bool { return slices.Contains(got, x) })
	for _, s := range servers {
		o.serverJobs[s] = append(o.serverJobs[s], j)
	}
	return true
}

// slice puts one GPU's slice of a vector on a server, if it fits.
func (o *oracle) slice(s int, per vec, servers *[]int, res map[int]vec) bool {
	if !o.fits(s, per) {
		return false
	}
	o.hold[s] = o.hold[s].plus(per)
	if _, there := res[s]; !there {
		*servers = append(*servers, s)
	}
	res[s] = res[s].plus(vec{per[0], per[1], per[2], per[3]})
	return true
}

func (o *oracle) firstFit(j *oracleJob, v vec) (got, servers []int, res map[int]vec) {
	res = map[int]vec{}
	per := v.over(v[0])
	for _, x := range o.free {
		if o.slice(x/o.G, per, &servers, res) {
			got = append(got, x)
		}
		if len(got) == j.GPUs {
			break
		}
	}
	return got, servers, res
}

func (o *oracle) consolidate(j *oracleJob, v vec) (got, servers []int, res map[int]vec) {
	by := map[int][]int{}
	var order []int
	for _, x := range o.free {
		if by[x/o.G] == nil {
			order = append(order, x/o.G)
		}
		by[x/o.G] = append(by[x/o.G], x)
	}
	if j.GPUs > 1 {
		best := -1
		for _, s := range order {
			if o.fits(s, v) && (best < 0 || len(by[s]) < len(by[best])) {
				best = s
			}
		}
		if best >= 0 {
			return slices.Clone(by[best][:j.GPUs]), []int{best}, map[int]vec{best: {v[0], v[1], v[2], v[3]}}
		}
	}
	res = map[int]vec{}
	per := v.over(v[0])
	for len(got) < j.GPUs && len(order) > 0 {
		slices.SortFunc(order, func(a, b int) int {
			if len(by[a]) != len(by[b]) {
				return len(by[a]) - len(by[b])
			}
			return a - b
		})
		s := order[0]
		order = order[1:]
		if o.slice(s, per, &servers, res) {
			got = append(got, by[s][len(by[s])-1])
			by[s] = by[s][:len(by[s])-1]
			if len(by[s]) > 0 {
				order = append(order, s)
			}
		}
	}
	return got, servers, res
}

func (o *oracle) tunePlace(j *oracleJob) bool {
	v := j.demand
	if o.place(j, v, false) {
		return true
	}
	v = o.toFair(j, v)
	if o.place(j, v, false) {
		return true
	}
	for _, t := range o.chooseTargets(j.GPUs) {
		s, n := t[0], float64(t[1])
		need := v.times(n / j.g).minus(o.cap.minus(o.used[s])).positive()
		if need == (vec{}) {
			continue
		}
		for _, p := range o.choosePeers(s, need) {
			o.downgrade(p)
		}
	}
	return o.place(j, v, false)
}

func (o *oracle) toFair(j *oracleJob, v vec) vec {
	for r := range v {
		if v[r] > float64(o.fair[r]*j.g) {
			j.speed = 1
			return vec{v[0], o.fair[1] * j.g, o.fair[2] * j.g, o.fair[3] * j.g, v[4]}
		}
	}
	return v
}

func (o *oracle) chooseTargets(g int) [][2]int {
	count := make([]int, o.servers)
	for _, x := range o.free {
		count[x/o.G]++
	}
	if g > 1 {
		for s, n := range count {
			if n >= g {
				return [][2]int{{s, g}}
			}
		}
	}
	var heap, targets [][2]int
	for s, n := range count {
		if n > 0 {
			heap = append(heap, [2]int{n, s})
		}
	}
	slices.SortFunc(heap, func(a, b [2]int) int { return slices.Compare(a[:], b[:]) })
	for _, e := range heap {
		if e[0] >= g {
			return append(targets, [2]int{e[1], g})
		}
		targets = append(targets, [2]int{e[1], e[0]})
		g -= e[0]
	}
	return targets
}

func (o *oracle) choosePeers(s int, need vec) (peers []*oracleJob) {
	l := o.serverJobs[s]
	slices.SortStableFunc(l, func(a, b *oracleJob) int {
		if n := len(a.servers) - len(b.servers); n != 0 {
			return n
		}
		x, y := a.alloc(), b.alloc()
		for _, r := range []int{1, 2} {
			p, q := x[r]/x[0], y[r]/y[0]
			if p > q {
				return -1
			}
			if p < q {
				return 1
			}
		}
		return 0
	})
	for _, p := range l {
		n := 0.0
		for _, x := range p.gpus {
			if x/o.G == s {
				n++
			}
		}
		share := n / p.alloc()[0]
		excess := p.alloc().times(share).minus(o.fair.times(n)).positive()
		need = need.minus(excess).positive()
		peers = append(peers, p)
		if need == (vec{}) {
			break
		}
	}
	return peers
}

func (o *oracle) downgrade(p *oracleJob) {
	gpus, servers := p.gpus, p.servers
	count := map[int]float64{}
	for _, x := range gpus {
		count[x/o.G]++
	}
	free := o.free
	o.release(p)
	o.free = free
	p.attained = max(0, p.attained-o.Round)
	p.executed = p.prev
	w := o.toFair(p, p.demand)
	res := map[int]vec{}
	for _, q := range servers {
		part := w.times(count[q] / float64(len(gpus)))
		res[q] = vec{part[0], part[1], part[2], part[3]}
	}
	o.commit(p, gpus, servers, res, true)
}
