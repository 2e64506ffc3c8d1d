package profiler

import (
	"math"
	"slices"
	"time"
)

// Window is a stretch of a run: how many iterations of the whole job were finished in it. Windows of a run follow each
// other.
type Window struct {
	Seconds    float64 `json:"s"`
	Iterations float64 `json:"n"`
}

// Batches come in bursts where a loader is what the GPUs wait for: its workers start together and finish together, each
// with a batch. So stretches have to be as long as it takes for what they say to agree, or several batches of each
// worker; and what the queues had before the run began (two batches a worker, as torch's loaders prefetch) is left out.
const (
	leastInStretch = 4    // iterations
	perWorker      = 3    // batches of each worker in a stretch that is long enough in any case
	prefetched     = 2    // batches of each worker that wait when training begins
	stretches      = 6    // that a scatter is told from
	instant        = 1e-3 // seconds, below which nothing was measured
	agree          = 0.25 // standard deviation of stretches that are long enough
)

// pace is what a run says.
type pace struct {
	rate    float64 // iterations/s
	scatter float64 // of rate, relative to it: one standard error; 0: not known
	parts   int     // stretches that it is told from
}

// paceOf is the pace of a run in which so many workers prepare batches for each GPU.
func paceOf(windows []Window, workers int) pace {
	settled := drained(windows, float64(prefetched*workers))
	most := float64(max(leastInStretch, perWorker*workers))
	for enough := float64(leastInStretch); ; enough *= 2 {
		parts := stretched(settled, enough)
		if len(parts) < 2 {
			return coarse(total(settled), workers)
		}
		at := together(parts)
		swing := float64(at.scatter * math.Sqrt(float64(len(parts))))
		if len(parts) < 2*stretches && enough >= most || swing+resolution(settled, parts) <= agree {
			return at
		}
	}
}

// resolution is how much of a stretch its last window is: stretches end with windows, not with bursts.
func resolution(windows, parts []Window) float64 {
	return float64(len(parts)) / float64(len(windows))
}

// together is the mean of stretches, without those that are far off their median: in a validation or a checkpoint
// nothing is trained. The median itself would be off, since stretches end with windows and so have few different
// lengths.
func together(parts []Window) pace {
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

// spread is the standard deviation of the rates of stretches, relative to that of all together.
func spread(parts []Window) float64 {
	mean, sum := total(parts).rate(), 0.0
	for _, p := range parts {
		sum += float64((p.rate()/mean - 1) * (p.rate()/mean - 1))
	}
	return math.Sqrt(sum / float64(max(1, len(parts)-1)))
}

// coarse is the pace of a run that is too short for several stretches: it may be off by a burst.
func coarse(sum Window, workers int) pace {
	if sum.Iterations <= 0 {
		return pace{}
	}
	return pace{rate: sum.rate(), scatter: min(1, float64(workers)/sum.Iterations)}
}

// drained is what is left when the first batches are taken away, no more than half of all.
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

// stretched puts windows together until each has enough iterations.
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

// median of at least one number.
func median(numbers []float64) float64 {
	sorted := slices.Sorted(slices.Values(numbers))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// deviation is the standard deviation of numbers around their middle, told from the median of the distances.
func deviation(numbers []float64, middle float64) float64 {
	const ofNormal = 1.4826
	distances := make([]float64, len(numbers))
	for i, x := range numbers {
		distances[i] = math.Abs(x - middle)
	}
	return ofNormal * median(distances)
}

// workers is how many prepare batches for each GPU: as many as there are cores for it.
func (q Question) workers(cores int) int { return max(1, cores/q.GPUs) }

// Enough says that a run is as good as it has to be, and need not go on.
func (q Question) Enough(r Run) bool {
	q = q.Defaults()
	at := paceOf(r.Windows, q.workers(r.Cores))
	return at.parts >= stretches && at.scatter <= q.Noise
}

// unfinished says how much longer a run has to go on; 0: it is good, or as long as may be.
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

// needed are the seconds in which a trainer of that pace drains its queues and has a batch of each worker in each
// stretch.
func (q Question) needed(cores int, iterations float64) float64 {
	if iterations <= 0 {
		return q.Long.Seconds()
	}
	return float64((prefetched+stretches)*max(leastInStretch, q.workers(cores))) / iterations
}

// seconds is at least the least.
func seconds(s float64, least time.Duration) time.Duration {
	return max(least, time.Duration(s*float64(time.Second)).Round(100*time.Millisecond))
}
