package workload

import (
	"fmt"
	"math"
)

// Arrivals is how the arrival times of jobs are drawn. All but those of Static are whole seconds.
type Arrivals string

// The kinds of arrivals.
const (
	// Poisson arrivals are independent of each other, as in the artifact: the gaps are exponential, each rounded up to
	// a whole second.
	Poisson Arrivals = "poisson"
	// Static jobs all arrive at the beginning, as in the artifact: a millisecond apart, which keeps them in order.
	Static Arrivals = "static"
	// Uniform arrivals have equal gaps; the first job comes after one gap.
	Uniform Arrivals = "uniform"
	// Daily is Poisson with a rate that follows a working day. The trace begins at midnight, and the load is the day's
	// mean. There are no weekends.
	Daily Arrivals = "daily"
)

// leastLoad is one job in a hundred years: with less, arrival times would soon exceed the exact range of a float64.
const leastLoad = 1e-6

// ParseArrivals parses poisson, static, uniform or daily.
func ParseArrivals(text string) (Arrivals, error) {
	return choose("arrivals", text, Poisson, Static, Uniform, Daily)
}

// arrivalFunc draws the next arrival in seconds since the beginning of the trace, never before the previous one.
type arrivalFunc func(t *twister) float64

// newArrivalFunc returns the function that draws arrivals at a load in jobs an hour, which Static ignores. A load that
// is too low or a kind that does not exist is an error.
func (a Arrivals) newArrivalFunc(load float64) (arrivalFunc, error) {
	if a != Static && !inRange(load, leastLoad, math.MaxFloat64) {
		return nil, wrong("load", fmt.Sprint(load), "jobs an hour, from 0.000001")
	}
	switch a {
	case Poisson:
		return poisson(load), nil
	case Static:
		return static(), nil
	case Uniform:
		return equalGaps(load), nil
	case Daily:
		return daily(load), nil
	default:
		// It fails here, and its error lists the choices.
		_, err := ParseArrivals(string(a))
		return nil, err
	}
}

// poisson draws exponential gaps, each rounded up to a second as in the artifact.
func poisson(load float64) arrivalFunc {
	at := 0.0
	return func(t *twister) float64 {
		at += math.Ceil(gap(t, load))
		return at
	}
}

// gap draws the time between two jobs, in seconds, at a load in jobs an hour. The order of the operations is the
// artifact's, to get the same bits.
func gap(t *twister, load float64) float64 { return -ln(1-t.random()) / load * 60 * 60 }

// static lets a job arrive each millisecond. It divides by 1000 instead of adding 0.001, which no float64 represents
// exactly: a sum would accumulate the error, while job 3 arrives at exactly the float64 nearest to 0.003.
func static() arrivalFunc {
	jobs := 0
	return func(*twister) float64 {
		at := float64(jobs) / 1000
		jobs++
		return at
	}
}

// equalGaps lets jobs arrive at equal distances, rounded up to a second. It multiplies instead of adding the gap, so
// that its rounding error does not accumulate.
func equalGaps(load float64) arrivalFunc {
	jobs := 0
	return func(*twister) float64 {
		jobs++
		return math.Ceil(float64(jobs) * 3600 / load)
	}
}

// workday is the rate of arrivals in each hour from midnight, in percent of the day's mean. It is invented, not
// measured: a quiet night, peaks before and after noon, and a long evening.
var workday = [24]float64{40, 40, 40, 40, 40, 40, 40, 60, 100, 150, 180, 180, 150, 150, 180, 180, 170, 150, 110, 90, 80,
	70, 60, 60}

// daily draws gaps for the mean rate, and stretches them at hours of a lower rate and compresses them at hours of a
// higher one (workday).
func daily(load float64) arrivalFunc {
	at := 0.0
	return func(t *twister) float64 {
		at = dailyTime(at, gap(t, load))
		return math.Ceil(at)
	}
}

// dailyTime returns the time after at by which as many arrivals are expected as in this many seconds at the mean rate.
// Whole days need no search, since the rates of a day have the mean 1.
func dailyTime(at, seconds float64) float64 {
	const day = 24 * 3600
	days := math.Floor(seconds / day)
	at, seconds = at+float64(days*day), seconds-float64(days*day)
	for {
		hour := math.Floor(at / 3600)
		rate, end := workday[int(math.Mod(hour, 24))]/100, float64((hour+1)*3600)
		if within := float64((end - at) * rate); seconds > within {
			at, seconds = end, seconds-within
			continue
		}
		return at + seconds/rate
	}
}
