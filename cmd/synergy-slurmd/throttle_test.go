package main

import (
	"testing"
	"time"
)

func TestThatSlurmctldBoundsUsIsSaidOnceWhileItLasts(t *testing.T) {
	var throttle throttle
	told := 0
	say := func(n int, took time.Duration) {
		for range n {
			if throttle.update(took) {
				told++
			}
		}
	}
	say(30, 3*time.Millisecond)
	for range 200 {
		say(1, time.Second+3*time.Millisecond)
		say(1, 3*time.Millisecond)
	}
	if told != 1 {
		t.Errorf("said %d times, want once", told)
	}
	say(throttleLook, 3*time.Millisecond)
	say(throttleLate, time.Second+time.Millisecond)
	if told != 2 {
		t.Errorf("said %d times, want again after it had ended", told)
	}
}

func TestABusySlurmctldIsNoBound(t *testing.T) {
	var throttle throttle
	for k := range 400 {
		if throttle.update(time.Duration(k%40) * 100 * time.Millisecond) {
			t.Fatalf("said after %d updates of up to four seconds", k)
		}
	}
}
