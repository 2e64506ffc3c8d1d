package bridge

import (
	"testing"
	"time"
)

func TestOneSlowCallIsExpectedOnceAndNotOfEachCall(t *testing.T) {
	var calls callTimes
	if took := calls.estimate(100, 8); took != 0 {
		t.Errorf("100 calls take %s before one was made", took)
	}
	calls.note(20 * time.Second)
	for range 99 {
		calls.note(10 * time.Millisecond)
	}
	if took := calls.estimate(100, 8); took < 20*time.Second || took > 25*time.Second {
		t.Errorf("100 calls of a mean of 0.21 s, eight at a time, take %s", took)
	}
	if took := calls.estimate(1, 8); took != 20*time.Second {
		t.Errorf("one call takes %s, want as long as the slowest", took)
	}
}
