package sensitivity

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// Disagreement is a size at which merged profiles differ.
type Disagreement struct {
	Share     Share
	Low, High float64 // samples/s per GPU
}

// Merge combines profiles of one model, GPU type and batch size, over all numbers of cores and amounts of memory that
// any of them has. The throughput of a size is the mean of the profiles that measured it, or else of those in whose
// range it lies. Sizes at which these differ by more than twice Noise are returned. Costs and GPU use are the largest,
// since too large a value only keeps other jobs away. The given profiles are not changed.
func Merge(profiles []*Profile) (*Profile, []Disagreement, error) {
	if len(profiles) == 0 {
		return nil, nil, errors.New("no profiles: want two or more")
	}
	merged := *profiles[0]
	merged.CoresPerGPU, merged.MemoryPerGPU, merged.Throughput = nil, nil, nil
	var sources []string
	for _, p := range profiles {
		if err := sameModel(&merged, p); err != nil {
			return nil, nil, err
		}
		merged.CoresPerGPU = append(merged.CoresPerGPU, p.CoresPerGPU...)
		merged.MemoryPerGPU = append(merged.MemoryPerGPU, p.MemoryPerGPU...)
		merged.CheckpointSeconds = max(merged.CheckpointSeconds, p.CheckpointSeconds)
		merged.StartSeconds = max(merged.StartSeconds, p.StartSeconds)
		merged.Version = max(merged.Version, p.Version)
		merged.GPUBusy = max(merged.GPUBusy, p.GPUBusy)
		merged.GPUMemory = max(merged.GPUMemory, p.GPUMemory)
		if p.Source != "" && !slices.Contains(sources, p.Source) {
			sources = append(sources, p.Source)
		}
	}
	slices.Sort(merged.CoresPerGPU)
	slices.Sort(merged.MemoryPerGPU)
	merged.CoresPerGPU, merged.MemoryPerGPU = slices.Compact(merged.CoresPerGPU), slices.Compact(merged.MemoryPerGPU)
	if len(merged.CoresPerGPU) > maxCorePoints || len(merged.MemoryPerGPU) > maxMemoryPoints {
		return nil, nil, fmt.Errorf("%d numbers of cores and %d amounts of memory: want at most %d and %d",
			len(merged.CoresPerGPU), len(merged.MemoryPerGPU), maxCorePoints, maxMemoryPoints)
	}
	merged.Source = cut(strings.Join(sources, "; "), maxSource)
	return &merged, merged.fill(profiles), nil
}

// sameModel returns an error if the profiles are not of the same model, GPU type, batch size and task.
func sameModel(a, b *Profile) error {
	for _, field := range []struct{ name, a, b string }{
		{"model", a.Model, b.Model}, {"gpu_type", a.GPUType, b.GPUType},
		{"batch", fmt.Sprint(a.Batch), fmt.Sprint(b.Batch)}, {"task", a.Task, b.Task},
	} {
		if field.a != field.b {
			return fmt.Errorf("%s = %s and %s: want profiles of one model, GPU and batch", field.name, shown(field.a),
				shown(field.b))
		}
	}
	return nil
}

// fill computes the matrix. It is made never to fall, since means of profiles with different ranges could.
func (p *Profile) fill(from []*Profile) (all []Disagreement) {
	p.Throughput = make([][]float64, len(p.CoresPerGPU))
	for i, cores := range p.CoresPerGPU {
		p.Throughput[i] = make([]float64, len(p.MemoryPerGPU))
		for j, memory := range p.MemoryPerGPU {
			rates := nearest(from, cores, memory)
			if low, high := slices.Min(rates), slices.Max(rates); high > low*(1+2*Noise) {
				all = append(all, Disagreement{Share{cores, float64(memory)}, low, high})
			}
			floor, _ := p.floor(i, j)
			p.Throughput[i][j] = max(floor, mean(rates))
		}
	}
	return all
}

// nearest returns the rates of the profiles that know most about a size: those that measured it, else those that have
// it in their range, else all. A range has no upper end in memory: the last amount of a profile is one with which the
// model has its full speed.
func nearest(profiles []*Profile, cores float64, memory gres.Memory) []float64 {
	var measured, within, all []float64
	for _, p := range profiles {
		rate := p.Rate(Share{cores, float64(memory)})
		all = append(all, rate)
		if cores >= p.CoresPerGPU[0] && cores <= p.CoresPerGPU[len(p.CoresPerGPU)-1] && memory >= p.MemoryPerGPU[0] {
			within = append(within, rate)
		}
		if slices.Contains(p.CoresPerGPU, cores) && slices.Contains(p.MemoryPerGPU, memory) {
			measured = append(measured, rate)
		}
	}
	switch {
	case len(measured) > 0:
		return measured
	case len(within) > 0:
		return within
	}
	return all
}

// mean rounds to a millionth.
func mean(numbers []float64) float64 {
	sum := 0.0
	for _, x := range numbers {
		sum += x
	}
	return math.Round(sum/float64(len(numbers))*1e6) / 1e6
}

// cut shortens a text to at most so many bytes.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	const more = "…"
	return strings.ToValidUTF8(text[:most-len(more)], "") + more
}
