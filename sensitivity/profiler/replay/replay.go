package replay

import (
	"math"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/profiler"
)

// Outcome is what the estimator made of one record. Errors are relative to the isotonic fit of the whole record, at the
// recorded points.
type Outcome struct {
	Model  string
	Trials []profiler.Trial // in the order of asking
	Stop   profiler.Stop
	Curve  profiler.Curve
	Fit    []float64 // isotonic fit of the record, samples/s, by point
	Errors []float64 // in %, by point
}

// Of runs the estimator over a record: it may ask for the recorded sizes, and gets each rate as recorded, with its
// scatter.
func Of(m Model) Outcome {
	q := profiler.Question{Bound: m.Bound, Recorded: true}
	for _, p := range m.Points {
		q.Cores = append(q.Cores, p.Cores)
	}
	return follow(m, q, func(t profiler.Trial) profiler.Run {
		i := slices.Index(q.Cores, t.Cores)
		return profiler.Run{Cores: t.Cores, Windows: []profiler.Window{{Seconds: 1, Iterations: m.Points[i].Rate}}}
	})
}

// follow makes the estimator's trials until it stops, and compares the result with the record.
func follow(m Model, q profiler.Question, try func(profiler.Trial) profiler.Run) Outcome {
	var runs []profiler.Run
	out := Outcome{Model: m.Name, Fit: Fit(m)}
	for {
		d := profiler.Next(q, runs)
		if d.Stop != "" {
			out.Stop, out.Curve = d.Stop, d.Curve
			break
		}
		if run := try(d.Next); d.Next.Prolongs {
			last := &runs[len(runs)-1]
			last.Windows = append(last.Windows, run.Windows...)
		} else {
			out.Trials = append(out.Trials, d.Next)
			runs = append(runs, run)
		}
	}
	out.Errors = relativeErrors(m, out.Fit, func(cores int) float64 { return out.Curve.At(float64(cores)).Rate })
	return out
}

// Fit returns the isotonic fit of a record with equal weights, samples/s by point.
func Fit(m Model) []float64 {
	rates, weights := make([]float64, len(m.Points)), make([]float64, len(m.Points))
	for i, p := range m.Points {
		rates[i], weights[i] = p.Rate, 1
	}
	return profiler.Isotonic(rates, weights)
}

// relativeErrors returns how far rates are off the fit, in %, by point.
func relativeErrors(m Model, fit []float64, rate func(cores int) float64) []float64 {
	errors := make([]float64, len(fit))
	for i, p := range m.Points {
		errors[i] = 100 * math.Abs(rate(p.Cores)/fit[i]-1)
	}
	return errors
}

// Mean needs at least one number.
func Mean(numbers []float64) float64 {
	sum := 0.0
	for _, x := range numbers {
		sum += x
	}
	return sum / float64(len(numbers))
}

// Quantile interpolates linearly and needs at least one number.
func Quantile(numbers []float64, part float64) float64 {
	sorted := slices.Sorted(slices.Values(numbers))
	at := float64(part * float64(len(sorted)-1))
	low := int(at)
	high := min(low+1, len(sorted)-1)
	return sorted[low] + float64((at-float64(low))*(sorted[high]-sorted[low]))
}
