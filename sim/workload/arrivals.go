package workload

import (
	"fmt"
	"math"
)

// Arrivals is when jobs arrive. All but those of Static are whole seconds.
type Arrivals string

// The ways to arrive.
const (
	// Poisson arrivals are independent of each other, as in the artifact: the gaps are exponential, each rounded up to
	// a second.
	Poisson Arrivals = "poisson"
	// Static is all at the beginning, as in the artifact: a millisecond apart, which keeps them in order.
	Static Arrivals = "static"
	// Uniform arrivals are equally far apart; the first one comes after one gap.
	Uniform Arrivals = "uniform"
	// Daily is Poisson with a rate that follows the hours of a working day. The trace begins at midnight; the load is
	// the mean of the day. There are no weekends.
	Daily Arrivals = "daily"
)

// leastLoad is one job in a hundred years: beyond, seconds would soon be no exact numbers any more.
const leastLoad = 1e-6

// ParseArrivals reads poisson, static, uniform or daily.
func ParseArrivals(text string) (Arrivals, error) {
	return choose("arrivals", text, Poisson, Static, Uniform, Daily)
}

// clock draws when the next job arrives, in seconds since the beginning of the trace, never before the last one.
type clock func(t *twister) float64

func (a Arrivals) clock(load float64) (clock, error) {
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
		_, err := ParseArrivals(string(a))
		return nil, err
	}
}

func poisson(load float64) clock {
	at := 0.0
	return func(t *twister) float64 {
		at += math.Ceil(gap(t, load))
		return at
	}
}

// gap draws the time between two jobs, in seconds. The order of the operations is the artifact's.
func gap(t *twister, load float64) float64 { return -ln(1-t.random()) / load * 60 * 60 }

// static divides, because a thousandth is no float64: so job 3 arrives at 0.003 and not at 0.003 and a bit.
func static() clock {
	jobs := 0
	return func(*twister) float64 {
		at := float64(jobs) / 1000
		jobs++
		return at
	}
}

func equalGaps(load float64) clock {
	jobs := 0
	return func(*twister) float64 {
		jobs++
		return math.Ceil(float64(jobs) * 3600 / load)
	}
}

// workday is the rate of arrivals in each hour from midnight, in percent of the day's mean. It is no measurement: a
// quiet night, a peak before noon and one after, and a long evening.
var workday = [24]float64{40, 40, 40, 40, 40, 40, 40, 60, 100, 150, 180, 180, 150, 150, 180, 180, 170, 150, 110, 90, 80,
	70, 60, 60}

// daily draws gaps as if the rate were the mean, and stretches them where it is lower.
func daily(load float64) clock {
	at := 0.0
	return func(t *twister) float64 {
		at = stretched(at, gap(t, load))
		return math.Ceil(at)
	}
}

// stretched is the moment when as many jobs have come since at as would come in so many seconds at the mean rate.
func stretched(at, seconds float64) float64 {
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
