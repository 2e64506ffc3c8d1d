package slurmrest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
)

// askClock is how long the offset to Slurm's clock is used before Slurm is asked again.
const askClock = 20 * time.Second

// timepiece estimates Slurm's clock, by which all job times and begin times are. The host's clock may be wrong or be
// set, so only its monotonic part is used.
type timepiece struct {
	mu    sync.Mutex
	began time.Time     // host time at the start; only its monotonic reading counts
	ahead time.Duration // by how much Slurm's clock is ahead of began plus the time since
	asked time.Duration // when Slurm was last asked, after began; 0: never
}

// newTimepiece takes the host's date for Slurm's until Slurm is asked.
func newTimepiece() *timepiece { return &timepiece{began: time.Now()} }

// now is the present time by Slurm's clock, as far as known.
func (c *timepiece) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.began.Round(0).Add(time.Since(c.began) + c.ahead) // Round(0) drops the monotonic reading
}

// due reports whether Slurm was never asked for its time, or last more than askClock ago.
func (c *timepiece) due() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked == 0 || time.Since(c.began)-c.asked >= askClock
}

// take processes an answer: Slurm's clock showed this second at some time between before and after, both counted from
// began. The previous offset is kept where it agrees, since it is finer than a second.
func (c *timepiece) take(second time.Time, before, after time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	least := second.Sub(c.began.Round(0).Add(after))
	most := second.Add(time.Second).Sub(c.began.Round(0).Add(before))
	c.ahead, c.asked = min(max(c.ahead, least), most), max(after, 1) // 0 would mean never asked
}

// askTime asks Slurm for its time if that is due. If slurmrestd does not tell the time, or refuses, the offset stays as
// it is; before the first answer the host's date counts. Only an unreachable Slurm or a denied identity is an error.
func (c *Client) askTime(ctx context.Context) error {
	if !c.clock.due() {
		return nil
	}
	before := time.Since(c.clock.began)
	second, err := ask(ctx, c.link, c.api.Time())
	switch {
	case errors.Is(err, slurm.ErrUnreachable), errors.Is(err, slurm.ErrDenied), ctx.Err() != nil:
		return err
	case err != nil:
		return nil
	}
	if second > 0 {
		c.clock.take(time.Unix(second, 0), before, time.Since(c.clock.began))
	}
	return nil
}
