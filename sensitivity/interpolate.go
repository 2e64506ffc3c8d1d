package sensitivity

import (
	"sort"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// Rate is the throughput in samples per second and GPU with the given share: bilinear between measured points, constant beyond
// the last one, and falling in proportion below the first, since nothing was measured there and nothing may be promised.
func (p *Profile) Rate(share Share) float64 {
	i, u, below := bracket(len(p.CoresPerGPU), func(k int) float64 { return p.CoresPerGPU[k] }, share.Cores)
	j, v, short := bracket(len(p.MemoryPerGPU), func(k int) float64 { return float64(p.MemoryPerGPU[k]) }, share.Memory)
	return below * short * p.cell(i, j, u, v)
}

// cell mixes the four corners of cell (i, j); u and v are the positions inside it, from 0 to 1.
func (p *Profile) cell(i, j int, u, v float64) float64 {
	low := mix(p.Throughput[i][j], p.Throughput[i][p.next(j)], v)
	if u == 0 {
		return low
	}
	return mix(low, mix(p.Throughput[i+1][j], p.Throughput[i+1][p.next(j)], v), u)
}

// next is the column to the right of j, or j itself in the last one, where bracket gives no way across.
func (p *Profile) next(j int) int { return min(j+1, len(p.MemoryPerGPU)-1) }

func mix(a, b, t float64) float64 { return a + t*(b-a) }

// bracket finds where x lies on an ascending axis of n points: between k and k+1 at fraction t. Below the first point it
// answers with that point and the factor x/first; elsewhere the factor is 1.
func bracket(n int, at func(int) float64, x float64) (k int, t, factor float64) {
	if first := at(0); x < first {
		return 0, 0, max(0, x/first)
	}
	k = sort.Search(n, func(k int) bool { return at(k) > x }) - 1
	if k == n-1 {
		return k, 0, 1
	}
	return k, (x - at(k)) / (at(k+1) - at(k)), 1
}

// Gain is the throughput with v relative to that with fair, the proportional share of the same GPUs: 1 is as fast as the
// cluster owes the job, 2 is twice as fast.
func (p *Profile) Gain(v, fair gres.Vector) float64 {
	return p.Rate(ShareOf(v)) / p.Rate(ShareOf(fair))
}
