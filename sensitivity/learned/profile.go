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

// Parameters of the profile that is made from the points.
const (
	rateTolerance = 0.03 // rates that differ by less count as equal, since windows of 20 s cannot tell them apart
	climbPart     = 0.25 // a curve climbs if a core of its last stretch gives at least this part of the mean per core
	// The last stretch begins at the last point with at most this part of the cores; on a shorter one a climb would not
	// show.
	shortStretch = 0.9
	longStretch  = 0.75 // a longer stretch, which must climb as well
	climbStep    = 2    // times the measured cores: as far as a climbing curve is extrapolated
)

// rates returns the points' rates, made never to fall, and equal at the end where they differ by less than windows can
// tell. A curve's point has twice the weight of a progress point with as many reports, since progress includes
// validations and checkpoints.
func (e *Entry) rates() []float64 {
	rates, weights := make([]float64, len(e.Points)), make([]float64, len(e.Points))
	for k, p := range e.Points {
		rates[k], weights[k] = p.Rate, float64(min(p.Count, maxCount))
		if p.Way == Curve {
			weights[k] *= 2
		}
	}
	rates = profiler.Isotonic(rates, weights)
	for k := len(rates) - 2; k >= 0 && rates[k] > rates[len(rates)-1]*(1-rateTolerance); k-- {
		rates[k] = rates[len(rates)-1]
	}
	return rates
}

// slope returns what one more core gives at the end of the curve. With only one measured size that is half of what its
// cores give on average. Otherwise it is the least of two stretches, and no more than a core gives on average.
func (e *Entry) slope(rates []float64) float64 {
	last := len(e.Points) - 1
	if last == 0 {
		return rates[0] / e.Points[0].Cores / 2
	}
	return min(e.slopeFrom(shortStretch, rates), e.slopeFrom(longStretch, rates), rates[last]/e.Points[last].Cores)
}

// slopeFrom returns what a core gives on the stretch that ends with the last point and begins at the given part of its
// cores, or before.
func (e *Entry) slopeFrom(part float64, rates []float64) float64 {
	last := len(e.Points) - 1
	base := last - 1
	for base > 0 && e.Points[base].Cores > e.Points[last].Cores*part {
		base--
	}
	return (rates[last] - rates[base]) / (e.Points[last].Cores - e.Points[base].Cores)
}

// Climbs reports whether the knee was not seen: by the measurements, more cores than the most that were measured would
// be faster. It is false where one step more would exceed the cores that a profile may have.
func (e *Entry) Climbs() bool {
	if e == nil || len(e.Points) == 0 {
		return false
	}
	rates, last := e.rates(), len(e.Points)-1
	return e.Points[last].Cores*climbStep <= maxCores && e.slope(rates) >= climbPart*rates[last]/e.Points[last].Cores
}

// Profile returns the profile of the points, with an iteration as the sample; nil if there are none. Beyond what was
// measured it promises nothing, except for one step if the curve still climbs; a job that gets that size will be
// measured there.
func (e *Entry) Profile() *sensitivity.Profile {
	if e == nil || len(e.Points) == 0 {
		return nil
	}
	p := e.Exported()
	last := len(e.Points) - 1
	if rates := e.rates(); e.Climbs() {
		cores := e.Points[last].Cores
		p.CoresPerGPU = append(p.CoresPerGPU, cores*climbStep)
		p.Throughput = append(p.Throughput, []float64{rates[last] + float64(e.slope(rates)*cores*(climbStep-1))})
	}
	return p
}

// Exported returns the profile of what was measured and nothing more, to be saved as a file; nil if there are no
// points. The batch is 1: an iteration counts as a sample.
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

// source describes for people where the profile comes from.
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

// Scatter returns how uncertain the points are: the largest scatter of those that were reported more than once, and at
// least what windows of 20 s cannot tell apart.
func (e *Entry) Scatter() float64 {
	worst := rateTolerance
	for _, p := range e.Points {
		worst = math.Max(worst, p.Scatter)
	}
	return worst
}

// name makes a user's text fit for a profile and a terminal.
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
