package outcome

import (
	"math"
	"slices"
)

// Statistics are of the finished jobs that count.
type Statistics struct {
	Mean   float64 `json:"mean"`
	Median float64 `json:"median"`
	P90    float64 `json:"p90"`
	P99    float64 `json:"p99"`
	P999   float64 `json:"p999"`
	Max    float64 `json:"max"`
}

// secondsPerHour is divided by last, as in the paper's artifact.
const secondsPerHour = 3600

// Hours are statistics of seconds in hours.
func (s Statistics) Hours() Statistics {
	return Statistics{
		s.Mean / secondsPerHour, s.Median / secondsPerHour, s.P90 / secondsPerHour,
		s.P99 / secondsPerHour, s.P999 / secondsPerHour, s.Max / secondsPerHour,
	}
}

// statistics are those of one value at least. The values are added in the order in which they stand, which is that of
// the job IDs: so do the artifact's published means come out to the last digit, and in no other order (adding in the
// order in which jobs finished, or sorted, misses the last digit of one run in six).
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

// quantile is between the neighbours of a place in sorted values, as the artifact's library computes it: by way of
// percent, which is a last digit more than 0.999, and from the nearer neighbour. Products are rounded by themselves,
// also where a processor could add in the same step.
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
