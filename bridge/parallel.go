package bridge

import "sync"

// parallel calls f for 0 … n−1, at most width at a time, and returns their errors in that order when all have returned.
func parallel(width, n int, f func(k int) error) []error {
	errs := make([]error, n)
	if width <= 1 || n == 1 {
		for k := range n {
			errs[k] = f(k)
		}
		return errs
	}
	slots := make(chan struct{}, width)
	var all sync.WaitGroup
	for k := range n {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			errs[k] = f(k)
		})
	}
	all.Wait()
	return errs
}
