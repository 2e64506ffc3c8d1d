package bridge

import "sync"

// runParallel calls f for 0 … n−1, at most width at a time, and returns the n errors, by index, when all have returned.
// An error stops no other call. With a width of 1 or less the calls come one after the other, so that tests are
// deterministic.
func runParallel(width, n int, f func(k int) error) []error {
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
