package profiler

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// About is what a profile says besides its throughputs.
type About struct {
	Model, Task, GPUType, Source    string
	CheckpointSeconds, StartSeconds float64
	GPUBusy                         float64
	GPUMemory                       gres.Memory
}

// Profile returns the profile of a decision for the planner: the curve's knots for each amount of memory, all per GPU.
// It fails if nothing was measured. More memory is never made slower than less, whatever was measured.
func (q Question) Profile(d Decision, about About) (*sensitivity.Profile, error) {
	q = q.Defaults()
	if len(d.Curve.Points) == 0 {
		return nil, errors.New("nothing was measured")
	}
	columns := d.Grows.Columns
	if len(columns) == 0 {
		columns = []Column{{q.full(), math.Inf(1), 1}}
	}
	p := &sensitivity.Profile{
		Version: sensitivity.Version, Model: about.Model, Task: about.Task, GPUType: about.GPUType, Batch: q.Batch,
		Source:            about.Source,
		CheckpointSeconds: about.CheckpointSeconds, StartSeconds: about.StartSeconds,
		GPUBusy: about.GPUBusy, GPUMemory: about.GPUMemory,
	}
	if p.GPUBusy > 0 || p.GPUMemory > 0 {
		p.Version = sensitivity.VersionGPU
	}
	for _, c := range columns {
		p.MemoryPerGPU = append(p.MemoryPerGPU, max(1, c.Memory/gres.Memory(q.GPUs)))
	}
	for _, k := range q.corners(d.Curve, columns) {
		row := make([]float64, len(columns))
		for j, c := range columns {
			row[j] = figures(c.Of(k.Rate))
			if j > 0 {
				row[j] = max(row[j], row[j-1])
			}
		}
		p.CoresPerGPU = append(p.CoresPerGPU, k.Cores)
		p.Throughput = append(p.Throughput, row)
	}
	return p, nil
}

// corners returns the curve's knots, with cores per GPU, and the points at which storage becomes the limit. Of knots
// that round to the same cores the slowest is kept, so that nothing is promised that was not measured.
func (q Question) corners(c Curve, columns []Column) []Knot {
	knots := c.Knots()
	for _, column := range columns {
		if k, is := crossing(c.Knots(), column.Most); is {
			knots = append(knots, k)
		}
	}
	slices.SortFunc(knots, func(a, b Knot) int { return cmp.Or(cmp.Compare(a.Cores, b.Cores), cmp.Compare(a.Rate, b.Rate)) })
	for i := range knots {
		knots[i].Cores = math.Round(knots[i].Cores/float64(q.GPUs)*100) / 100
	}
	return slices.CompactFunc(knots, func(a, b Knot) bool { return a.Cores == b.Cores })
}

// crossing returns where a curve reaches a rate between two of its knots.
func crossing(knots []Knot, rate float64) (Knot, bool) {
	for i := 1; i < len(knots); i++ {
		a, b := knots[i-1], knots[i]
		if a.Rate < rate && rate < b.Rate {
			return Knot{a.Cores + float64((rate-a.Rate)/(b.Rate-a.Rate)*(b.Cores-a.Cores)), rate}, true
		}
	}
	return Knot{}, false
}

// figures rounds a rate to five digits, far more than a measurement has.
func figures(rate float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(rate))-4)
	if unit >= 1 {
		return math.Round(rate/unit) * unit
	}
	return math.Round(rate*math.Round(1/unit)) / math.Round(1/unit)
}
