package main

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
)

// rounder holds one round after the other; bridge.Runner is the real one.
type rounder interface {
	Round(ctx context.Context) (bridge.Report, error)
	SmallRound(ctx context.Context) (report bridge.Report, held bool, err error)
}

// Time limits of the daemon.
const (
	firstRetry = 5 * time.Second  // after a failed round; doubles up to the time between rounds
	overrun    = time.Minute      // by which a round may be late; it ends by itself when the next is due
	farewell   = 20 * time.Second // for a round to end by itself when the daemon is stopped
	slack      = 30 * time.Second // by which the loop may be late before the watchdog is no longer fed
)

// daemon holds rounds until it is told to stop. It runs one at a time, and reports to the outside only between two of
// them.
type daemon struct {
	period time.Duration
	watch  time.Duration // between two looks for a small round; 0: none is held
	config Config
	// connect makes the rounder for a configuration. It is called for the first round, after each reload, and again as
	// long as it fails.
	connect func(ctx context.Context, config Config) (rounder, error)
	reload  func() (Config, error)
	hangups <-chan os.Signal // each asks for a reload

	journal        *journal
	metrics        *metrics
	health         *health
	serviceManager serviceManager
	heartbeat      *heartbeatWriter
	savings        *savingsWriter
	outlook        *outlook
	history        *historyWriter
	elector        *elector // the daemon's ticket; nil: it takes none

	leadErr          error // why it can neither lead nor stand by; nil: it can
	rounder          rounder
	failures         int  // failed rounds in a row
	smallRoundFailed bool // a small round has failed since the last good round
	// due is when the loop is expected to show the next sign of life, in nanoseconds of the monotonic clock.
	due atomic.Int64
}

// run holds rounds until ctx ends. A round under way at that moment has the time farewell to end by itself.
func (d *daemon) run(ctx context.Context) {
	d.serviceManager.ready()
	defer d.serviceManager.stopping()
	defer d.feedWatchdog()()
	defer d.elector.join()()
	defer d.savings.work()()
	defer d.outlook.stop()
	defer d.history.work()()
	for {
		d.leadErr = d.await(ctx)
		if ctx.Err() != nil {
			return
		}
		began := time.Now()
		d.roundAndReport(ctx)
		d.waitBetweenRounds(ctx, d.pause(began, time.Now()))
	}
}

// feedWatchdog feeds systemd's watchdog until stop is called.
func (d *daemon) feedWatchdog() (stop func()) {
	d.expect(slack)
	ctx, cancel := context.WithCancel(context.Background())
	var feeder sync.WaitGroup
	feeder.Go(func() { d.serviceManager.feed(ctx, d.alive) })
	return func() {
		cancel()
		feeder.Wait()
	}
}

// errOnce ends a --once whose round failed. The log has said how.
var errOnce = errors.New("the round did not end well")

// once holds one round. It waits until this daemon leads, since there is no later round that could, and keeps its
// ticket while the round is held.
func (d *daemon) once(ctx context.Context) error {
	d.leadErr = d.elector.win(ctx)
	defer d.elector.join()()
	defer d.savings.work()()
	defer d.history.work()()
	d.roundAndReport(ctx)
	d.outlook.stop() // there is no later round that would use the estimates
	if d.failures > 0 {
		return errOnce
	}
	return nil
}

// roundAndReport holds one round and reports it everywhere. Only a round that ended well writes the heartbeat, is
// booked as savings, and has start times estimated. A failed one is in the history, too, if it got as far as a plan.
func (d *daemon) roundAndReport(ctx context.Context) {
	d.outlook.stop()
	began := time.Now()
	report, err := d.round(ctx)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = errStopped
	}
	if err == nil {
		d.failures, d.smallRoundFailed = 0, false
	} else {
		d.failures++
	}
	took := time.Since(began)
	d.metrics.round(report, took, err)
	d.health.round(report.Round, time.Now(), err)
	d.health.status.note(d.config, report)
	d.journal.round(report, took, err)
	d.serviceManager.status(report, err)
	d.history.note(d.config, report)
	if err == nil {
		d.heartbeat.beat(d.config, time.Now())
		d.savings.note(d.config, d.period, report)
		d.outlook.look(d.config, d.period, report)
	}
}

// errStopped is the error of a round that was cut short because the daemon was told to stop.
var errStopped = errors.New("cut short: the daemon is stopping")

// round holds one round with the current rounder, which it makes first if there is none.
func (d *daemon) round(ctx context.Context) (bridge.Report, error) {
	if d.leadErr != nil {
		return bridge.Report{}, d.leadErr
	}
	limit := d.period + overrun
	d.expect(limit + farewell + slack)
	ctx, cancel := lingering(ctx, limit)
	defer cancel()
	if d.rounder == nil {
		connected, err := d.connect(ctx, d.config)
		if err != nil {
			return bridge.Report{}, err
		}
		d.rounder = connected
	}
	return d.rounder.Round(ctx)
}

// lingering is a context that ends at the limit, or the time farewell after its parent, so that a step under way can
// end.
func lingering(parent context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(parent), limit)
	var timer atomic.Pointer[time.Timer]
	stop := context.AfterFunc(parent, func() { timer.Store(time.AfterFunc(farewell, cancel)) })
	return ctx, func() {
		stop()
		if t := timer.Load(); t != nil {
			t.Stop()
		}
		cancel()
	}
}

// pause is the time from now until the next round, after one that began at began. Rounds begin at whole multiples of
// the period by the clock, so they keep their times over restarts. After a round that took longer than a period the
// next follows at once. Failed rounds are repeated sooner, after a pause that doubles. No pause is longer than a
// period, even if the clock was set meanwhile. The bound of 20 doublings keeps the number of nanoseconds from
// overflowing.
func (d *daemon) pause(began, now time.Time) time.Duration {
	if d.failures > 0 {
		return min(d.period, firstRetry<<min(d.failures-1, 20))
	}
	return min(d.period, max(0, began.Truncate(d.period).Add(d.period).Sub(now)))
}

// waitBetweenRounds waits for the pause. Meanwhile it holds small rounds, and reads the configuration again when asked
// to.
func (d *daemon) waitBetweenRounds(ctx context.Context, pause time.Duration) {
	d.expect(pause + slack)
	timer := time.NewTimer(pause)
	defer timer.Stop()
	looks, stop := d.looks()
	defer stop()
	until := wall{}.Elapsed() + pause
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-looks:
			d.holdSmallRound(ctx)
			d.expect(max(0, until-wall{}.Elapsed()) + slack)
		case <-d.elector.leadSignal(): // this daemon has become the leader
			return
		case <-d.hangups:
			d.reconfigure()
		}
	}
}

// looks ticks when to look for a small round. It never ticks if small rounds are switched off or no more frequent than
// rounds. The channel nil never delivers.
func (d *daemon) looks() (times <-chan time.Time, stop func()) {
	if d.watch <= 0 || d.watch >= d.period {
		return nil, func() {}
	}
	ticker := time.NewTicker(d.watch)
	return ticker.C, ticker.Stop
}

// holdSmallRound holds a small round if there is something to start. After a failed small round none is held until a
// full round has ended well: that round has the time to find and report what is wrong.
func (d *daemon) holdSmallRound(ctx context.Context) {
	if d.rounder == nil || d.leadErr != nil || d.failures > 0 || d.smallRoundFailed {
		return
	}
	// It waits for starts as long as Slurm's schedulers need to look at them, at most a period.
	limit := d.period + overrun
	d.expect(limit + farewell + slack)
	within, cancel := lingering(ctx, limit)
	defer cancel()
	began := time.Now()
	report, held, err := d.rounder.SmallRound(within)
	d.smallRoundFailed = err != nil
	d.metrics.smallRound(report, held, err)
	d.health.status.note(d.config, report)
	if held {
		d.history.note(d.config, report)
	}
	if held || err != nil {
		d.journal.smallRound(report, time.Since(began), err)
	}
}

// reconfigure reads the configuration again for the rounds to come. An invalid one changes nothing. Without a rounder
// the next round opens Slurm anew.
func (d *daemon) reconfigure() {
	d.serviceManager.reloading()
	defer d.serviceManager.ready()
	config, err := d.reload()
	d.metrics.reload(err)
	d.journal.reload(err)
	d.health.setTrouble("the configuration stays as it was", err, remedyOfReload)
	if err == nil {
		d.config, d.rounder = config, nil
		d.health.follows(config)
	}
}

// expect sets the time within which the next sign of life must come.
func (d *daemon) expect(within time.Duration) { d.due.Store(int64(wall{}.Elapsed() + within)) }

// alive reports whether the loop still runs. A failed round is a sign of life, since a restart does not repair Slurm.
func (d *daemon) alive() bool { return int64(wall{}.Elapsed()) <= d.due.Load() }
