package artifact

import (
	"cmp"
	"slices"
)

// tune places job i with its demand, or else with its least: its share where the demand exceeds that. If neither fits,
// other jobs on the chosen servers (peers) are downgraded to their shares, and the least is tried again. It sets the
// job's speed to 1, that of the share, if the demand exceeds the share and did not fit. It always succeeds if amounts
// are exact and enough GPUs are free; if it returns false, the artifact ends the whole program.
func (e *engine) tune(i int32) bool {
	j := &e.jobs[i]
	if e.place(i, &j.demand) {
		return true
	}
	if j.exceedsShare {
		j.speed = 1
	}
	if e.place(i, &j.least) {
		return true
	}
	e.chooseTargets(j.class.gpus)
	for _, t := range e.targets {
		e.makeRoom(t.server, &j.least.whole, float64(t.gpus)/j.n)
	}
	return e.place(i, &j.least)
}

// chooseTargets lists the servers on which room should be made for a job, and how many GPUs it is to get on each. A job
// with several GPUs gets the first server with enough free ones, and otherwise, like a job with one GPU, the servers
// with the fewest free GPUs. The caller makes sure that so many GPUs are free in all.
func (e *engine) chooseTargets(gpus int) {
	e.targets = e.targets[:0]
	for s := 0; s < len(e.servers) && gpus > 1; s++ {
		if e.servers[s].free >= gpus {
			e.targets = append(e.targets, part{server: s, gpus: gpus})
			return
		}
	}
	for free := 1; free <= e.shape.gpus; free++ {
		for s := range e.servers {
			if e.servers[s].free != free {
				continue
			}
			e.targets = append(e.targets, part{server: s, gpus: min(free, gpus)})
			if gpus -= free; gpus <= 0 {
				return
			}
		}
	}
}

// makeRoom downgrades as many peers on a server as are needed until this fraction of the amount fits there, and all of
// them if that is not enough. It does nothing if the fraction fits already. It first counts the peers that are needed
// and then downgrades these.
func (e *engine) makeRoom(number int, whole *vector, fraction float64) {
	need := whole.times(fraction)
	for r := range need {
		need[r] = max(0, need[r]-e.servers[number].left[r])
	}
	if need.isZero() {
		return
	}
	e.rankPeers(number)
	count := 0
	for count < len(e.peers) {
		e.lessenNeed(&need, &e.peers[count])
		count++
		if need.isZero() {
			break
		}
	}
	for k := range count {
		e.downgrade(e.peers[k].job)
	}
}

// peer is a job on a server that could be downgraded.
type peer struct {
	job         int32
	spread      int     // number of servers that it is on
	gpus        int     // on this server
	alloc       vector  // its amounts, over all servers
	cpu, memory float64 // per GPU
}

// rankPeers lists the jobs of a server in the order in which they are downgraded: those on few servers first, then
// those with the most cores per GPU, then those with the most memory per GPU. The server's own list gets this order
// too, which decides between equal jobs the next time.
func (e *engine) rankPeers(number int) {
	jobs := e.servers[number].jobs
	e.peers = e.peers[:0]
	for _, i := range jobs {
		e.peers = append(e.peers, e.describePeer(i, number))
	}
	slices.SortStableFunc(e.peers, func(a, b peer) int {
		return cmp.Or(cmp.Compare(a.spread, b.spread), cmp.Compare(b.cpu, a.cpu), cmp.Compare(b.memory, a.memory))
	})
	for k := range e.peers {
		jobs[k] = e.peers[k].job
	}
}

// describePeer describes a job on this server as a candidate for a downgrade.
func (e *engine) describePeer(i int32, number int) peer {
	j := &e.jobs[i]
	p := peer{job: i, spread: j.to - j.from}
	for _, on := range e.parts[j.from:j.to] {
		if on.server == number {
			p.gpus = on.gpus
		}
		for r := cpu; r <= storage; r++ {
			p.alloc[r] += on.held[r]
		}
	}
	p.alloc[gpu] = j.n
	p.cpu, p.memory = p.alloc[cpu]/j.n, p.alloc[memory]/j.n
	return p
}

// lessenNeed subtracts from the need what a downgrade of the peer would free on the server: what it holds there beyond
// its share, taken as an equal part for each of its GPUs.
func (e *engine) lessenNeed(need *vector, p *peer) {
	n := float64(p.gpus)
	on := p.alloc.times(n / p.alloc[gpu])
	share := e.fair.times(n)
	for r := range need {
		need[r] = max(0, need[r]-max(0, on[r]-share[r]))
	}
}

// downgrade reduces a placed job to its least, in the same place, and repeats its round at the speed of the share. It
// first takes back the round that was credited when the job was placed. If a server has more room than before, it
// raises releaseCount, because requests that did not fit may fit again.
func (e *engine) downgrade(i int32) {
	j := &e.jobs[i]
	if j.exceedsShare {
		j.speed = 1
	}
	opened := false
	for k := j.from; k < j.to; k++ {
		p := &e.parts[k]
		s := &e.servers[p.server]
		before := s.left
		s.subtract(&e.server, &p.held)
		p.held = j.least.whole.times(float64(p.gpus) / j.n)
		s.add(&e.server, &p.held)
		opened = opened || s.left.exceeds(&before)
	}
	if opened {
		e.releaseCount++
	}
	j.attained = max(0, j.attained-e.Round)
	j.executed = j.executedBefore
	j.progress(e.Round, j.atShare)
}
