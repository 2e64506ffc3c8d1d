package slurmtest

import (
	"context"
	"time"
)

// Paced is a clock that takes its time, for demonstrations: a sleep of d lasts d/Speed of real time. Time passes only while
// somebody sleeps, and twice as fast while two do.
type Paced struct {
	Clock *Clock
	Speed float64 // virtual seconds in a real one; more than 0
}

// tick is how long, of real time, Paced waits between two looks at what is planned.
const tick = 20 * time.Millisecond

// Now implements Sleeper.
func (p Paced) Now() time.Time { return p.Clock.Now() }

// Sleep implements Sleeper.
func (p Paced) Sleep(ctx context.Context, d time.Duration) error {
	for until := p.Now().Add(d); ; {
		left := until.Sub(p.Now())
		if left <= 0 {
			return ctx.Err()
		}
		stride := min(left, time.Duration(p.Speed*float64(tick))+1)
		if err := pause(ctx, time.Duration(float64(stride)/p.Speed)); err != nil {
			return err
		}
		if err := p.Clock.Sleep(ctx, stride); err != nil {
			return err
		}
	}
}

// pause waits in real time.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
