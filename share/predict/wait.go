package predict

import (
	"math"
	"time"
)

// Wait is what taking turns costs: the one that goes first, each time that it wants the GPU, and the other in sum.
type Wait struct {
	Worst, Mean time.Duration
	// Overhead is the part of its time that the other loses beside what the first uses.
	Overhead float64
}

// Inflation is by how much longer a step of the one that goes first takes than alone.
func (w Wait) Inflation(step time.Duration) float64 {
	if step <= 0 {
		return 1
	}
	return 1 + float64(w.Mean)/float64(step)
}

// Stepwise is the wait for a GPU that another has for steps of such a length, for a part of the time: it finishes the
// step, which on the average is half over. A change costs a round trip to the broker.
func Stepwise(step time.Duration, held float64, trip time.Duration) Wait {
	return Wait{
		Worst: step + trip, Mean: time.Duration(held*float64(step)/2) + trip,
		Overhead: part(trip, step),
	}
}

// Kernels are the launches of a step: K and k of Deft's cost model.
type Kernels struct {
	Count int
	Each  time.Duration
}

// Bounded is the wait for a GPU that another has with never more than so many kernels in its queue, for a part of the
// time. To keep to the bound it waits for its queue after every so many launches, and each such wait costs the time of
// a synchronisation.
func Bounded(k Kernels, bound int, held float64, sync, trip time.Duration) Wait {
	bound = max(1, min(bound, k.Count))
	queue := time.Duration(bound) * k.Each
	return Wait{
		Worst: queue + sync + trip, Mean: time.Duration(held*float64(queue)/2) + trip,
		Overhead: part(sync*time.Duration(k.Count/bound), time.Duration(k.Count)*k.Each),
	}
}

// BestBound is the bound at which the longest wait of the one and the time that all the other's synchronisations take
// are equal, and their sum the least: N* = √(a·K/k).
func (k Kernels) BestBound(sync time.Duration) int {
	if k.Each <= 0 || k.Count <= 0 || sync <= 0 {
		return 1
	}
	return max(1, int(math.Round(math.Sqrt(float64(sync)*float64(k.Count)/float64(k.Each)))))
}

func part(of, whole time.Duration) float64 {
	if whole <= 0 {
		return 0
	}
	return float64(of) / float64(whole)
}
