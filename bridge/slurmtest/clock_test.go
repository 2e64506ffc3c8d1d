package slurmtest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"
)

func TestEventsOfOneMomentRunInTheOrderOfPlanning(t *testing.T) {
	clock := NewClock(noon)
	var ran []int
	for i := range 20 {
		clock.At(noon.Add(time.Second), func() { ran = append(ran, i) })
	}
	clock.At(noon, func() { ran = append(ran, -1) })
	clock.Advance(time.Second)
	if !slices.IsSorted(ran) || len(ran) != 21 {
		t.Errorf("ran in the order %v", ran)
	}
}

func TestAnEventRunsAtItsMomentAndMayPlanOthers(t *testing.T) {
	clock := NewClock(noon)
	var at []time.Duration
	note := func() { at = append(at, clock.Now().Sub(noon)) }
	clock.At(noon.Add(3*time.Second), note)
	clock.At(noon.Add(time.Second), func() {
		note()
		clock.At(noon.Add(2*time.Second), note)
		clock.At(noon, note) // has passed: at once
	})
	clock.Advance(10 * time.Second)
	want := []time.Duration{time.Second, time.Second, 2 * time.Second, 3 * time.Second}
	if !slices.Equal(at, want) || !clock.Now().Equal(noon.Add(10*time.Second)) {
		t.Errorf("events at %v, want %v; now is %s", at, want, clock.Now())
	}
}

func TestWhatWasDroppedDoesNotRunAndAllElseDoesInItsOrder(t *testing.T) {
	clock := NewClock(noon)
	var planned []*event
	var ran []int
	for i := range 20 {
		planned = append(planned, clock.plan(noon.Add(time.Duration(i*7%20)*time.Second),
			func() { ran = append(ran, i*7%20) }))
	}
	for _, i := range []int{0, 19, 7, 8, 7} { // one of them twice
		clock.cancelEvent(planned[i])
	}
	clock.Advance(10 * time.Second)
	clock.cancelEvent(planned[1]) // has run
	clock.cancelEvent(nil)
	clock.Advance(10 * time.Second)
	if want := []int{1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 14, 15, 17, 18, 19}; !slices.Equal(ran, want) {
		t.Errorf("ran %v, want %v", ran, want)
	}
}

func TestASleepEndsWithItsContextAtTheMomentOfTheCancel(t *testing.T) {
	clock := NewClock(noon)
	ctx, cancel := context.WithCancel(context.Background())
	clock.At(noon.Add(time.Second), cancel)
	if err := clock.Sleep(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if got := clock.Now().Sub(noon); got != time.Second {
		t.Errorf("slept %s, want until the cancel", got)
	}
}
