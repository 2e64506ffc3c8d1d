package policy

import (
	"cmp"
	"slices"
	"time"
)

// reservation keeps nodes for a job that has been passed over for too long: what starts there meanwhile must be able to give
// way again.
type reservation struct {
	job     int
	servers set
}

// bars says whether jobs of kind k must be kept off server n for the sake of another.
func (b *board) bars(k *kind, n int) bool {
	return b.reserved != nil && !k.lends && b.reserved.servers.has(n)
}

// reserve keeps nodes free for waiting job i, if it is the first in turn to be out of patience, and says whether it did.
func (b *board) reserve(i int) bool {
	if b.reserved != nil || b.seats[i].stopped || b.waited(b.jobs[i]) < b.c.Rules.patience() {
		return false
	}
	for _, w := range b.seats[i].kind.ways {
		if servers := b.soonest(i, w); servers != nil {
			b.reserved = &reservation{i, newSet(len(b.servers))}
			for _, n := range servers {
				b.reserved.servers.add(n)
			}
			return true
		}
	}
	return false
}

// waited is how long j has been waiting, in all its waits.
func (b *board) waited(j *Job) time.Duration {
	served := time.Duration(j.Attained / float64(max(1, j.GPUs)) * float64(time.Second))
	return b.c.Now.Sub(j.Arrival) - served
}

// soonest picks the nodes that lack the fewest GPUs for job i.
func (b *board) soonest(i int, w way) []int {
	z := b.seats[i].kind.zone
	var able []int
	for n := range b.servers {
		sv := &b.servers[n]
		if z.servers.has(n) && sv.Closed == "" && sv.Total.GPUs >= w.gpus && b.least(i, w, n).Size.Fits(sv.Total) {
			able = append(able, n)
		}
	}
	slices.SortStableFunc(able, func(x, y int) int {
		return cmp.Compare(b.servers[y].free.GPUs, b.servers[x].free.GPUs)
	})
	found := gathering{nodes: w.nodes}
	for _, n := range able {
		if found.add(b.servers[n].shape, n); found.servers != nil {
			break
		}
	}
	return found.servers
}
