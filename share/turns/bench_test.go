package turns

import (
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// BenchmarkATurn is a turn of an important client that asks, is granted, and releases beside three others that wait,
// all of whose gaps and steps are known: what the broker adds to a turn besides its socket.
func BenchmarkATurn(b *testing.B) {
	a := New(Defaults())
	now := time.Duration(0)
	for id := Client(1); id <= 4; id++ {
		class := share.Low
		if id == 1 {
			class = share.High
		}
		a.Step(now, Event{Kind: Join, Client: id, Class: class, Job: int(id)})
		a.Step(now, Event{Kind: Ask, Client: id, Seq: 1, Estimate: time.Hour})
	}
	for seq := uint64(1); b.Loop(); seq++ {
		now += 25 * ms
		a.Step(now, Event{Kind: Release, Client: 1, Seq: seq})
		now += 20 * ms
		a.Step(now, Event{Kind: Ask, Client: 1, Seq: seq + 1, Estimate: 25 * ms})
		a.Wake()
	}
}
