package predict

import (
	"math"
	"time"
)

// Wait is what sharing in turns costs: the first job waits each time it wants the GPU, the other loses time in total.
type Wait struct {
	Worst, Mean time.Duration
	// Overhead is the part of its time that the other job loses, besides what the first one uses.
	Overhead float64
}

// Inflation returns how many times as long as alone a step of the first job takes; 1 if the length of the step is
// unknown.
func (w Wait) Inflation(step time.Duration) float64 {
	if step <= 0 {
		return 1
	}
	return 1 + float64(w.Mean)/float64(step)
}

// Stepwise returns the wait for a GPU that another job holds in whole steps of the given length, for the part `held` of
// the time. The first job waits until the other has finished its step, which is half over on average. Each change of
// the holder costs a round trip to the broker (trip).
func Stepwise(step time.Duration, held float64, trip time.Duration) Wait {
	return Wait{
		Worst: step + trip, Mean: time.Duration(held*float64(step)/2) + trip,
		Overhead: ratio(trip, step),
	}
}

// Kernels are the kernel launches of a step: K and k of Deft's cost model.
type Kernels struct {
	Count int
	Each  time.Duration
}

// Bounded returns the wait for a GPU that another job holds for the part `held` of the time, with at most `bound`
// kernels in its queue, so that the first job waits for these and not for a whole step. To keep the bound, the other
// job waits for its queue after every `bound` launches, and each such wait costs one synchronisation (sync). The bound
// is at least 1.
func Bounded(k Kernels, bound int, held float64, sync, trip time.Duration) Wait {
	bound = max(1, min(bound, k.Count))
	queue := time.Duration(bound) * k.Each
	return Wait{
		Worst: queue + sync + trip, Mean: time.Duration(held*float64(queue)/2) + trip,
		Overhead: ratio(sync*time.Duration(k.Count/bound), time.Duration(k.Count)*k.Each),
	}
}

// BestBound returns the bound at which the longest wait of the first job equals the time of all the other's
// synchronisations, so that their sum is least: N* = √(a·K/k), where a is sync, K is Count and k is Each. It is 1 if
// one of them is not positive.
func (k Kernels) BestBound(sync time.Duration) int {
	if k.Each <= 0 || k.Count <= 0 || sync <= 0 {
		return 1
	}
	return max(1, int(math.Round(math.Sqrt(float64(sync)*float64(k.Count)/float64(k.Each)))))
}

// ratio returns of in relation to whole; 0 if there is no whole.
func ratio(of, whole time.Duration) float64 {
	if whole <= 0 {
		return 0
	}
	return float64(of) / float64(whole)
}
