package learned

import (
	"fmt"
	"math"
	"strings"
	"unicode"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/profiler"
)

// What is made of points.
const (
	even  = 0.03 // rates that differ by less are one: windows of 20 s tell no better
	steep = 0.25 // a curve climbs on where its last stretch gives this part or more of what a core gives in the mean
	// the last stretch begins at the last point with no more than this part of the cores: in less a curve that climbs
	// does not show it
	near = 0.9
	back = 0.75 // and so does a longer one, which has to climb as well
	step = 2    // times the cores that were measured: as far as a curve that climbs is believed
)

// rates are the points' rates, which never fall, and are one where they differ by no more than windows do.
func (e *Entry) rates() []float64 {
	rates, weights := make([]float64, len(e.Points)), make([]float64, len(e.Points))
	for k, p := range e.Points {
		rates[k], weights[k] = p.Rate, float64(min(p.Count, maxCount))
		if p.Way == Curve {
			weights[k] *= 2
		}
	}
	rates = profiler.Isotonic(rates, weights)
	for k := len(rates) - 2; k >= 0 && rates[k] > rates[len(rates)-1]*(1-even); k-- {
		rates[k] = rates[len(rates)-1]
	}
	return rates
}

// slope is what one more core gives at the end of the curve. Where only one size was ever seen, half of what its cores
// give.
func (e *Entry) slope(rates []float64) float64 {
	last := len(e.Points) - 1
	if last == 0 {
		return rates[0] / e.Points[0].Cores / 2
	}
	return min(e.slopeFrom(near, rates), e.slopeFrom(back, rates), rates[last]/e.Points[last].Cores)
}

// slopeFrom is what a core gives on the stretch that ends with the last point and begins at that part of its cores, or
// before.
func (e *Entry) slopeFrom(part float64, rates []float64) float64 {
	last := len(e.Points) - 1
	base := last - 1
	for base > 0 && e.Points[base].Cores > e.Points[last].Cores*part {
		base--
	}
	return (rates[last] - rates[base]) / (e.Points[last].Cores - e.Points[base].Cores)
}

// Climbs says that the knee was not seen: what was measured says that more cores than any that were measured would be
// faster.
func (e *Entry) Climbs() bool {
	if e == nil || len(e.Points) == 0 {
		return false
	}
	rates, last := e.rates(), len(e.Points)-1
	return e.Points[last].Cores*step <= maxCores && e.slope(rates) >= steep*rates[last]/e.Points[last].Cores
}

// Profile is what the points say, with an iteration as the sample; nil where there are none. Beyond what was measured
// it promises nothing, but for one step where the curve still climbs: who takes that step is measured there.
func (e *Entry) Profile() *sensitivity.Profile {
	if e == nil || len(e.Points) == 0 {
		return nil
	}
	p := e.Exported()
	last := len(e.Points) - 1
	if rates := e.rates(); e.Climbs() {
		cores := e.Points[last].Cores
		p.CoresPerGPU = append(p.CoresPerGPU, cores*step)
		p.Throughput = append(p.Throughput, []float64{rates[last] + float64(e.slope(rates)*cores*(step-1))})
	}
	return p
}

// Exported is the profile of what was measured and nothing more, as a file for everybody; nil where there are no
// points. A batch is 1: an iteration counts as a sample.
func (e *Entry) Exported() *sensitivity.Profile {
	if e == nil || len(e.Points) == 0 {
		return nil
	}
	p := &sensitivity.Profile{
		Version: sensitivity.Version, Model: name(e.Job), Task: "learned", GPUType: e.GPUType, Batch: 1,
		Source:       e.source(),
		MemoryPerGPU: []gres.Memory{max(1, e.Memory)},
	}
	for k, rate := range e.rates() {
		p.CoresPerGPU = append(p.CoresPerGPU, e.Points[k].Cores)
		p.Throughput = append(p.Throughput, []float64{rate})
	}
	return p
}

func (e *Entry) source() string {
	reports := 0
	for _, p := range e.Points {
		reports += p.Count
	}
	return fmt.Sprintf(
		"learned by synergy-slurmd from jobs of %s until %s: %d points from %d reports, ± %.0f %%; iterations/s, "+
			"memory was not varied",
		name(e.User), e.Updated.UTC().Format("2006-01-02"), len(e.Points), reports, 100*e.Scatter())
}

// Scatter is how certain the points are: the largest scatter of those that were reported more than once, and no less
// than what windows of 20 s cannot tell apart.
func (e *Entry) Scatter() float64 {
	worst := even
	for _, p := range e.Points {
		worst = math.Max(worst, p.Scatter)
	}
	return worst
}

// name is a text of a user's as a profile and a terminal can have it.
func name(text string) string {
	const most = 64
	clean := strings.Map(func(c rune) rune {
		if c > unicode.MaxASCII || !(unicode.IsLetter(c) || unicode.IsDigit(c) || strings.ContainsRune("._-", c)) {
			return '_'
		}
		return c
	}, text)
	if clean == "" {
		return "job"
	}
	return clean[:min(len(clean), most)]
}
