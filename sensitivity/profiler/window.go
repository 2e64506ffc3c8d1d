package profiler

import (
	"math"
	"slices"
	"time"
)

// Window is a part of a run: how many iterations of the whole job finished in it. The windows of a run follow each
// other.
type Window struct {
	Seconds    float64 `json:"s"`
	Iterations float64 `json:"n"`
}

// If the GPUs wait for the loader, batches come in bursts: its workers start together and finish together, each with a
// batch. So windows are joined to stretches, until these agree or have several batches of each worker. What the queues
// held before the run began (two batches per worker, as torch's loaders prefetch) is left out.
const (
	leastInStretch = 4    // iterations
	perWorker      = 3    // batches of each worker in a stretch that is long enough in any case
	prefetched     = 2    // batches of each worker that are queued when training begins
	stretches      = 6    // needed to compute a scatter
	instant        = 1e-3 // seconds below which nothing was measured
	agree          = 0.25 // largest standard deviation of stretches that agree, relative to their rate
)

// pace is the result of a run.
type pace struct {
	rate    float64 // iterations/s
	scatter float64 // standard error, relative to rate; 0: unknown
	parts   int     // stretches that it was computed from
}

// paceOf returns the pace of a run in which this many workers prepare batches for each GPU. Stretches are made longer
// until they agree (swing is their standard deviation) or are long enough. While there are at least twice as many as a
// scatter needs, they can still be joined.
func paceOf(windows []Window, workers int) pace {
	settled := drained(windows, float64(prefetched*workers))
	most := float64(max(leastInStretch, perWorker*workers))
	for enough := float64(leastInStretch); ; enough *= 2 {
		parts := stretched(settled, enough)
		if len(parts) < 2 {
			return coarse(total(settled), workers)
		}
		at := meanPace(parts)
		swing := float64(at.scatter * math.Sqrt(float64(len(parts))))
		if len(parts) < 2*stretches && enough >= most || swing+resolution(settled, parts) <= agree {
			return at
		}
	}
}

// resolution is how large one window is compared with a stretch: a stretch ends with a window, not with a burst.
func resolution(windows, parts []Window) float64 {
	return float64(len(parts)) / float64(len(windows))
}

// meanPace returns the mean of the stretches, without those far off their median, such as a validation or a checkpoint,
// in which nothing is trained. The median itself would be inexact, since stretches end with windows and so have only
// few different lengths.
func meanPace(parts []Window) pace {
	rates := make([]float64, len(parts))
	for i, p := range parts {
		rates[i] = p.rate()
	}
	middle := median(rates)
	far := max(outlying*deviation(rates, middle), 2*agree*middle)
	var kept []Window
	for i, p := range parts {
		if math.Abs(rates[i]-middle) <= far {
			kept = append(kept, p)
		}
	}
	return pace{total(kept).rate(), min(1, spread(kept)/math.Sqrt(float64(len(kept)))), len(kept)}
}

// outlying is how many standard deviations off a stretch is left out.
const outlying = 3

// spread returns the standard deviation of the rates of stretches, relative to their overall rate.
func spread(parts []Window) float64 {
	mean, sum := total(parts).rate(), 0.0
	for _, p := range parts {
		sum += float64((p.rate()/mean - 1) * (p.rate()/mean - 1))
	}
	return math.Sqrt(sum / float64(max(1, len(parts)-1)))
}

// coarse returns the pace of a run that is too short for several stretches; it may be off by a burst.
func coarse(sum Window, workers int) pace {
	if sum.Iterations <= 0 {
		return pace{}
	}
	return pace{rate: sum.rate(), scatter: min(1, float64(workers)/sum.Iterations)}
}

// drained removes the windows with the first batches, at most half of all iterations. A run that has no more than that
// still gives a rate.
func drained(windows []Window, batches float64) []Window {
	batches = min(batches, total(windows).Iterations/2)
	seen := 0.0
	for i, w := range windows {
		if seen >= batches {
			return windows[i:]
		}
		seen += w.Iterations
	}
	return nil
}

// stretched joins windows until each stretch has enough iterations.
func stretched(windows []Window, enough float64) (parts []Window) {
	var part Window
	for _, w := range windows {
		part.Seconds += w.Seconds
		part.Iterations += w.Iterations
		if part.Iterations >= enough && part.Seconds >= instant {
			parts = append(parts, part)
			part = Window{}
		}
	}
	return parts
}

func (w Window) rate() float64 {
	if w.Seconds < instant {
		return 0
	}
	return w.Iterations / w.Seconds
}

func total(windows []Window) (sum Window) {
	for _, w := range windows {
		sum.Seconds += w.Seconds
		sum.Iterations += w.Iterations
	}
	return sum
}

// median needs at least one number.
func median(numbers []float64) float64 {
	sorted := slices.Sorted(slices.Values(numbers))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// deviation estimates the standard deviation of numbers around their middle from the median of the distances (times
// 1.4826, as for a normal distribution).
func deviation(numbers []float64, middle float64) float64 {
	const ofNormal = 1.4826
	distances := make([]float64, len(numbers))
	for i, x := range numbers {
		distances[i] = math.Abs(x - middle)
	}
	return ofNormal * median(distances)
}

// workers is how many workers prepare batches for each GPU: as many as it has cores.
func (q Question) workers(cores int) int { return max(1, cores/q.GPUs) }

// Enough reports whether a run is exact enough and need not go on.
func (q Question) Enough(r Run) bool {
	q = q.Defaults()
	at := paceOf(r.Windows, q.workers(r.Cores))
	return at.parts >= stretches && at.scatter <= q.Noise
}

// unfinished returns how much longer a run has to go on; 0: it is exact enough, or as long as allowed. With too few
// stretches it goes on for as long as they take, and at least by half of its time; if it only scatters, by half of its
// time.
func (q Question) unfinished(r Run) time.Duration {
	sum := total(r.Windows)
	left := q.Long.Seconds() - sum.Seconds
	if q.Recorded || r.Fault != "" || left <= 0 {
		return 0
	}
	at := paceOf(r.Windows, q.workers(r.Cores))
	switch {
	case at.parts < stretches:
		return seconds(min(left, max(sum.Seconds/2, q.needed(r.Cores, sum.rate())-sum.Seconds)), q.Short/4)
	case at.scatter > q.Noise:
		return seconds(min(left, sum.Seconds/2), q.Short/4)
	}
	return 0
}

// needed returns the seconds in which a trainer of this pace drains its queues and has a batch of each worker in each
// stretch.
func (q Question) needed(cores int, iterations float64) float64 {
	if iterations <= 0 {
		return q.Long.Seconds()
	}
	return float64((prefetched+stretches)*max(leastInStretch, q.workers(cores))) / iterations
}

// seconds returns s as a Duration, at least the given one.
func seconds(s float64, least time.Duration) time.Duration {
	return max(least, time.Duration(s*float64(time.Second)).Round(100*time.Millisecond))
}
