package sensitivity

import (
	"math"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// Rate returns the throughput in samples per second and GPU with the given share: bilinear between measured points,
// constant beyond the last one, and falling in proportion below the first, since nothing was measured there and nothing
// may be promised. More of anything is never slower.
func (p *Profile) Rate(share Share) float64 {
	row := locateCores(p.CoresPerGPU, share.Cores)
	column := locateMemory(p.MemoryPerGPU, share.Memory)
	low := column.between(p.Throughput[row.low])
	high := column.between(p.Throughput[row.high])
	return row.scale * column.scale * mix(low, high, row.part)
}

// position is where a value lies on an axis: between the points low and high, at the given part of the way. Beyond
// either end both are that end; scale is below 1 only below the first point.
type position struct {
	low, high   int
	part, scale float64
}

func (at position) between(points []float64) float64 {
	return mix(points[at.low], points[at.high], at.part)
}

func mix(a, b, t float64) float64 { return a + float64(t*(b-a)) }

// locateCores finds x on the axis of cores; axis ascends.
func locateCores(axis []float64, x float64) position {
	next := 0
	for next < len(axis) && axis[next] <= x {
		next++
	}
	if next == 0 || next == len(axis) {
		return end(next, len(axis), x/axis[0])
	}
	return position{next - 1, next, (x - axis[next-1]) / (axis[next] - axis[next-1]), 1}
}

// locateMemory finds x on the axis of memory; axis ascends.
func locateMemory(axis []gres.Memory, x float64) position {
	next := 0
	for next < len(axis) && float64(axis[next]) <= x {
		next++
	}
	if next == 0 || next == len(axis) {
		return end(next, len(axis), x/float64(axis[0]))
	}
	low, high := float64(axis[next-1]), float64(axis[next])
	return position{next - 1, next, (x - low) / (high - low), 1}
}

// end returns the position before the first of n points, if next is 0, or after the last. The scale counts only before
// the first point.
func end(next, n int, scale float64) position {
	if next == 0 {
		return position{scale: max(0, scale)}
	}
	return position{low: n - 1, high: n - 1, scale: 1}
}

// Gain returns the throughput with v relative to that with fair, the proportional share of the same GPUs: 1 is as fast
// as the cluster owes the job, 2 is twice as fast. It is rounded to a billionth, far below what any measurement
// resolves, so that equal speeds compare equal. If the rate with fair is 0, nothing is owed and the gain is 1.
func (p *Profile) Gain(v, fair gres.Vector) float64 {
	return gain(p.Rate(ShareOf(v)), p.Rate(ShareOf(fair)))
}

func gain(rate, owed float64) float64 {
	if owed == 0 {
		return 1
	}
	return math.Round(rate/owed*1e9) / 1e9
}
