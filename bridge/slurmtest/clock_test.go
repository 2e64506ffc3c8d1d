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
