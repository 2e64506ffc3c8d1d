package broker

import (
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/share/turns"
	"github.com/synergy-slurmd/synergy-slurmd/share/wire"
)

func TestATrainerOfAThousandStepsASecondIsNotSlowedDownAndOneThatNeverStopsIs(t *testing.T) {
	p, now := paceOf(DefaultLimits().Messages), time.Unix(0, 0)
	for step := range 10_000 {
		now = now.Add(time.Millisecond)
		for _, what := range []string{"ACQ", "REL"} {
			if wait := p.wait(now); wait > 0 {
				t.Fatalf("%s of step %d waits for %v", what, step, wait)
			}
		}
	}
	begun := now
	const said = 100_000
	for range said {
		now = now.Add(p.wait(now))
	}
	if took, least := now.Sub(begun), said/time.Duration(DefaultLimits().Messages)*time.Second-burst; took < least {
		t.Errorf("%d messages without a pause took %v, want %v", said, took, least)
	}
}

// TestAYieldOfATurnThatIsOverChangesNothing: in the step in which it was granted others may want the GPU back, and by
// then one that had taken its request back has released.
func TestAYieldOfATurnThatIsOverChangesNothing(t *testing.T) {
	g := newGPU(New(Config{RunDir: t.TempDir()}), 0)
	c := &client{id: 1, gpu: g, state: wire.Idle}
	g.clients[1] = c
	for _, verb := range []turns.Verb{turns.Yield, turns.Freeze} {
		if g.do(turns.Effect{Verb: verb, Client: 1}); c.state != wire.Idle || len(g.frozen) > 0 {
			t.Errorf("after %s it is %s", verb, c.state)
		}
	}
}
