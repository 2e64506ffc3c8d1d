package bridge

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
)

func TestAsManyCallsAreInFlightAsAllowedAndNoMore(t *testing.T) {
	for _, width := range []int{1, 3} {
		var flying, calls atomic.Int32
		together := make(chan struct{})
		runParallel(width, 12, func(int) error {
			if n := flying.Add(1); n > int32(width) {
				t.Errorf("%d calls in flight, want at most %d", n, width)
			}
			if calls.Add(1) == int32(width) {
				close(together)
			}
			<-together // nobody returns before the first ones are all under way
			flying.Add(-1)
			return nil
		})
		if calls.Load() != 12 {
			t.Errorf("%d calls of 12", calls.Load())
		}
	}
}

func TestErrorsComeBackInTheOrderOfTheCalls(t *testing.T) {
	odd := errors.New("odd")
	for _, width := range []int{-1, 0, 1, 4, 100} {
		errs := runParallel(width, 5, func(k int) error {
			if k%2 == 1 {
				return fmt.Errorf("%d is %w", k, odd)
			}
			return nil
		})
		if got := fmt.Sprint(errs); got != "[<nil> 1 is odd <nil> 3 is odd <nil>]" {
			t.Errorf("width %d: %s", width, got)
		}
	}
}
