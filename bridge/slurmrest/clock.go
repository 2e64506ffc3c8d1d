package slurmrest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
)

// askClock is how long Slurm's clock is taken to go evenly.
const askClock = 20 * time.Second

// timepiece is Slurm's own, as far as it is known: all times of jobs are by that, and a begin time that is sent is one
// of its moments. The clock of our host may be wrong or be set; from it comes only how much time has passed.
type timepiece struct {
	mu    sync.Mutex
	began time.Time     // on our own clock; its monotonic reading is what counts
	ahead time.Duration // by which Slurm's clock is ahead of began and what has passed since
	asked time.Duration // when Slurm was asked last, after began; 0: never
}

func newTimepiece() *timepiece { return &timepiece{began: time.Now()} }

func (c *timepiece) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.began.Round(0).Add(time.Since(c.began) + c.ahead)
}

func (c *timepiece) due() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked == 0 || time.Since(c.began)-c.asked >= askClock
}

// take takes over that Slurm said this second at some time after before and not after after, both counted from began.
// What is known already stays where it agrees, since it is finer than a second.
func (c *timepiece) take(second time.Time, before, after time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	least := second.Sub(c.began.Round(0).Add(after))
	most := second.Add(time.Second).Sub(c.began.Round(0).Add(before))
	c.ahead, c.asked = min(max(c.ahead, least), most), max(after, 1)
}

// askTime asks Slurm what time it is, if that was long ago. A slurmrestd that does not say it leaves us with our own
// clock.
func (c *Client) askTime(ctx context.Context) error {
	if !c.clock.due() {
		return nil
	}
	before := time.Since(c.clock.began)
	second, err := ask(ctx, c.link, c.api.Time())
	switch {
	case errors.Is(err, bridge.ErrUnreachable), errors.Is(err, bridge.ErrDenied), ctx.Err() != nil:
		return err
	case err != nil:
		return nil
	}
	if second > 0 {
		c.clock.take(time.Unix(second, 0), before, time.Since(c.clock.began))
	}
	return nil
}
