package workload

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Durations is how long jobs run at the proportional share, either a name or a distribution:
//
//	fixed:2h             all the same
//	exponential:90m      exponential with this mean
//	lognormal:30m,2.0    lognormal with this median, and this standard deviation of the logarithm
//	uniform:10m-2h       uniform between the two
//
// No job longer than ten years is drawn.
type Durations string

// The named distributions, both the artifact's.
const (
	// PaperDurations are those of Gavel (OSDI'20), which the paper uses: in minutes, 10 to a power from 1.5 to 3 for
	// four of five jobs, and from 3 to 4 for the fifth; that is 32 minutes to 167 hours.
	PaperDurations Durations = "paper"
	// SmallDurations are for small clusters: powers from 1.5 to 2.5, and from 2.5 to 2.7; 32 minutes to 8 hours.
	SmallDurations Durations = "small"
)

const durationChoices = "paper, small, fixed:2h, exponential:90m, lognormal:30m,2.0 or uniform:10m-2h"

// ParseDurations parses a name or a distribution.
func ParseDurations(text string) (Durations, error) {
	d := Durations(strings.ToLower(strings.TrimSpace(text)))
	_, err := d.newDurationFunc()
	return d, err
}

// durationFunc draws a job's duration in seconds.
type durationFunc func(t *twister) float64

// newDurationFunc parses the name or distribution, and returns the function that draws from it.
func (d Durations) newDurationFunc() (durationFunc, error) {
	kind, parameters, _ := strings.Cut(string(d), ":")
	switch {
	case d == PaperDurations:
		return shortAndLong(1.5, 3, 4), nil
	case d == SmallDurations:
		return shortAndLong(1.5, 2.5, 2.7), nil
	case kind == "fixed":
		return d.fixed(parameters)
	case kind == "exponential":
		return d.exponential(parameters)
	case kind == "lognormal":
		return d.lognormal(parameters)
	case kind == "uniform":
		return d.uniform(parameters)
	}
	return nil, wrong("durations", string(d), durationChoices)
}

// shortAndLong draws a power of ten in minutes, as the artifact does: with exponents from low to middle for four of
// five jobs, and from middle to high for the fifth.
func shortAndLong(low, middle, high float64) durationFunc {
	return func(t *twister) float64 {
		if t.random() >= 0.8 {
			return 60 * pow10(t.uniform(middle, high))
		}
		return 60 * pow10(t.uniform(low, middle))
	}
}

// fixed gives all jobs the same duration.
func (d Durations) fixed(text string) (durationFunc, error) {
	seconds, ok := seconds(text)
	if !ok {
		return nil, d.wrong("fixed:2h")
	}
	return func(*twister) float64 { return seconds }, nil
}

// exponential draws from the exponential distribution with this mean.
func (d Durations) exponential(text string) (durationFunc, error) {
	mean, ok := seconds(text)
	if !ok {
		return nil, d.wrong("exponential:90m")
	}
	return redrawLong(func(t *twister) float64 { return -ln(1-t.random()) * mean }), nil
}

// lognormal draws from the lognormal distribution with this median and standard deviation of the logarithm.
func (d Durations) lognormal(text string) (durationFunc, error) {
	first, second, _ := strings.Cut(text, ",")
	median, ok := seconds(first)
	sigma, err := strconv.ParseFloat(strings.TrimSpace(second), 64)
	if !ok || err != nil || !inRange(sigma, 0, 10) {
		return nil, d.wrong("lognormal:30m,2.0 with a standard deviation from 0 to 10")
	}
	return redrawLong(func(t *twister) float64 { return median * exp(sigma*t.gauss()) }), nil
}

// uniform draws evenly between two durations, written with a hyphen between them.
func (d Durations) uniform(text string) (durationFunc, error) {
	first, second, _ := strings.Cut(text, "-")
	low, lowOK := seconds(first)
	high, highOK := seconds(second)
	if !lowOK || !highOK || low > high {
		return nil, d.wrong("uniform:10m-2h, the shorter one first")
	}
	return func(t *twister) float64 { return t.uniform(low, high) }, nil
}

func (d Durations) wrong(like string) error {
	return wrong("durations", string(d), fmt.Sprintf("lengths of time above 0, at most ten years, as in %s", like))
}

// seconds parses a duration such as 90m or 1h30m, and returns false if the text is no duration or not one that a job
// may have.
func seconds(text string) (float64, bool) {
	d, err := time.ParseDuration(strings.TrimSpace(text))
	return d.Seconds(), err == nil && d > 0 && d.Seconds() <= maxDuration
}

// redrawLong repeats draws of more than the longest duration. If the mean or median is a valid duration, at least half
// of the draws are kept, so it soon ends.
func redrawLong(draw durationFunc) durationFunc {
	return func(t *twister) float64 {
		for {
			if seconds := draw(t); seconds <= maxDuration {
				return seconds
			}
		}
	}
}
