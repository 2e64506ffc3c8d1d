package broker

import (
	"testing"
	"time"
)

func TestAClockStandsAsLongAsAnybodyHoldsIt(t *testing.T) {
	start := time.Unix(0, 0)
	k := clock{start: start}
	after := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	says := func(at, want int) {
		t.Helper()
		if got := k.at(after(at)); got != time.Duration(want)*time.Second {
			t.Errorf("after %d s it says %v, want %d s", at, got, want)
		}
	}
	says(1, 1)
	k.hold(after(2))
	says(4, 2)
	k.hold(after(5))
	if k.release(after(6)) {
		t.Error("it goes on, and one holds it still")
	}
	says(7, 2)
	if !k.release(after(8)) {
		t.Error("it does not go on")
	}
	says(10, 4)
	k.hold(after(10))
	k.release(after(20))
	says(21, 5)
}
