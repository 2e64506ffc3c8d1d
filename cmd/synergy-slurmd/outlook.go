package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/forecast"
)

// outlook estimates when jobs will start. It works between two rounds and never during one: a round that begins stops
// it, and what has been estimated by then stands until the next estimates.
type outlook struct {
	latest atomic.Pointer[forecast.Forecast]
	habits atomic.Pointer[forecast.Habits]

	seen   []float64      // the part of its time limit that each ended job used, 0 to 1
	before policy.Cluster // the cluster as the last round saw it
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// Limits on the estimates.
const (
	outlookLimit = 20 * time.Second // on one core; never more than a quarter of the time between two rounds
	mostSeen     = 2000             // ended jobs that are remembered, the last ones
)

// recall starts with what an earlier daemon has learned. Habits are quantiles, of which at least two are needed: fewer
// are none.
func (o *outlook) recall(learned forecast.Habits) {
	if len(learned) > 1 {
		o.habits.Store(&learned)
	}
}

// Start says when a job is expected to start.
func (o *outlook) Start(job int) (start forecast.Spread, words string, known bool) {
	f := o.latest.Load()
	if f == nil {
		return forecast.Spread{}, "", false
	}
	s, known := f.Of(job)
	if !known {
		return forecast.Spread{}, "", false
	}
	return s.Spread, f.Words(s.Spread), true
}

// Habits are the learned parts of their time limits that jobs use; nil: none.
func (o *outlook) Habits() forecast.Habits {
	if h := o.habits.Load(); h != nil {
		return *h
	}
	return nil
}

// orNone is the outlook as rounds know it: nil if there is none, and no nil pointer in the interface.
func (o *outlook) orNone() bridge.Outlook {
	if o == nil {
		return nil
	}
	return o
}

// look starts to estimate from what a round saw. It works in the background for a quarter of the period at most, until
// the next round stops it. With estimates switched off those of earlier rounds are dropped.
func (o *outlook) look(config Config, period time.Duration, report bridge.Report) {
	o.stop()
	c := &report.Snapshot
	o.learn(c)
	if !config.EstimateStarts {
		o.latest.Store(nil)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), min(outlookLimit, period/4))
	options := forecast.Options{Policy: config.Policy, Allocator: config.Allocator, Habits: o.Habits(),
		Stop: func() bool { return ctx.Err() != nil }}
	o.cancel = cancel
	o.done.Go(func() {
		f := forecast.Starts(c, options)
		o.latest.Store(&f)
	})
}

// learn notes which jobs have ended since the last round. With fewer ended jobs than are enough, what an earlier daemon
// has learned stays.
func (o *outlook) learn(c *policy.Cluster) {
	o.seen = append(o.seen, forecast.Seen(&o.before, c)...)
	o.seen = o.seen[max(0, len(o.seen)-mostSeen):]
	o.before = *c
	if len(o.seen) >= forecast.EnoughHabits {
		learned := forecast.Learn(o.seen, c)
		o.habits.Store(&learned)
	}
}

// stop ends the estimates under way.
func (o *outlook) stop() {
	if o.cancel != nil {
		o.cancel()
		o.done.Wait()
		o.cancel = nil
	}
}
