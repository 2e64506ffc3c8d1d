package outcome

import (
	"math"
	"slices"
)

// Statistics summarise a value over the finished jobs of the window.
type Statistics struct {
	Mean   float64 `json:"mean"`
	Median float64 `json:"median"`
	P90    float64 `json:"p90"`
	P99    float64 `json:"p99"`
	P999   float64 `json:"p999"`
	Max    float64 `json:"max"`
}

// secondsPerHour divides the finished statistics and not each value, as in the paper's artifact.
const secondsPerHour = 3600

// Hours converts statistics in seconds to hours.
func (s Statistics) Hours() Statistics {
	return Statistics{
		s.Mean / secondsPerHour, s.Median / secondsPerHour, s.P90 / secondsPerHour,
		s.P99 / secondsPerHour, s.P999 / secondsPerHour, s.Max / secondsPerHour,
	}
}

// statistics summarises at least one value. Values are added in their given order, that of the job IDs. Only this order
// reproduces the artifact's published means to the last digit: adding in the order in which jobs finished, or sorted,
// misses the last digit in one run of six.
func statistics(values []float64) Statistics {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	sorted := slices.Sorted(slices.Values(values))
	return Statistics{
		Mean:   sum / float64(len(values)),
		Median: quantile(sorted, 0.5),
		P90:    quantile(sorted, 0.9),
		P99:    quantile(sorted, 0.99),
		P999:   quantile(sorted, 0.999),
		Max:    sorted[len(sorted)-1],
	}
}

// quantile interpolates between neighbours in sorted values exactly as the artifact's library does: it converts to
// percent, which makes 0.999 one unit in the last place larger, and interpolates from the nearer neighbour. The
// conversions round each product, so that no processor fuses it with an addition.
func quantile(sorted []float64, q float64) float64 {
	percent := q * 100
	place := float64(percent / 100 * float64(len(sorted)-1))
	below := math.Floor(place)
	part := place - below
	a := sorted[int(below)]
	b := sorted[min(int(below)+1, len(sorted)-1)]
	if part < 0.5 {
		return a + float64((b-a)*part)
	}
	return b - float64((b-a)*(1-part))
}
