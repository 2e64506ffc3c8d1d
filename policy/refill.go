package policy

import (
	"cmp"
	"math"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// portion is one way of dealing with the first few jobs of a server: what they take beyond what they have, what that brings, and
// how it came about.
type portion struct {
	more   gres.Vector
	gain   float64 // GPUs at the proportional speed
	before int     // the portion of the jobs before
	option int     // of the last job; asItIs: none
}

const asItIs = -1

// most bounds the portions that are compared at once. What is left on a server with more, steps hand out.
const most = 1 << 14

// refill finds the best sizes for the single-node jobs on server n that start and can be asked to give back: no other choice of
// theirs for what is left has more throughput. It goes from job to job and keeps the portions that no other is better than with no
// more of anything.
func (b *board) refill(n int) {
	left := b.servers[n].open()
	var jobs []int
	layers := [][]portion{{{option: asItIs}}}
	for _, i := range b.servers[n].jobs {
		s := &b.seats[i]
		if s.standing != fresh || len(s.servers) > 1 || !b.jobs[i].Saves || len(above(s)) == 0 {
			continue
		}
		last := layers[len(layers)-1]
		if len(last)*len(above(s)) > most {
			return
		}
		jobs, layers = append(jobs, i), append(layers, undominated(extended(last, s, left)))
	}
	b.serve(jobs, layers)
}

// extended adds to each portion every size of one more job that fits.
func extended(portions []portion, s *seat, left gres.Vector) []portion {
	options := above(s)
	all := make([]portion, 0, len(portions)*(len(options)+1))
	for k, p := range portions {
		all = append(all, portion{p.more, p.gain, k, asItIs})
		for o := range options {
			if more := p.more.Plus(options[o].Size).Minus(s.size); more.Fits(left) {
				all = append(all, portion{more, p.gain + (options[o].Gain-s.gain)*float64(s.size.GPUs), k, o})
			}
		}
	}
	return all
}

// undominated keeps the portions for which no other brings as much with no more cores and no more memory, the best first. It uses
// the slice that it is given.
func undominated(all []portion) []portion {
	slices.SortFunc(all, portion.compare)
	low, high := 0, 0
	for _, p := range all {
		low, high = min(low, p.more.CPUs), max(high, p.more.CPUs)
	}
	least := make([]gres.Memory, high-low+1) // of those at least as good, by cores
	for k := range least {
		least[k] = math.MaxInt64
	}
	kept := all[:0]
	for _, p := range all {
		if least[p.more.CPUs-low] <= p.more.Memory {
			continue
		}
		kept = append(kept, p)
		for c := p.more.CPUs - low; c < len(least) && least[c] > p.more.Memory; c++ {
			least[c] = p.more.Memory
		}
	}
	return kept
}

func (p portion) compare(q portion) int {
	return cmp.Or(cmp.Compare(q.gain, p.gain), cmp.Compare(p.more.CPUs, q.more.CPUs), cmp.Compare(p.more.Memory, q.more.Memory),
		cmp.Compare(p.before, q.before), cmp.Compare(p.option, q.option))
}

// serve gives the jobs the sizes of the best portion of all of them.
func (b *board) serve(jobs []int, layers [][]portion) {
	at := 0
	for k := len(jobs) - 1; k >= 0; k-- {
		p := layers[k+1][at]
		if p.option != asItIs {
			b.reseat(jobs[k], fresh, above(&b.seats[jobs[k]])[p.option])
		}
		at = p.before
	}
}
