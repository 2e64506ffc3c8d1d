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

// Limits on the daemon's patience.
const (
	firstRetry = 5 * time.Second  // after a failed round; doubles up to the time between rounds
	overrun    = time.Minute      // by which a round may be late; it ends by itself when the next is due
	farewell   = 20 * time.Second // that a round has to end by itself when the daemon is stopped
	slack      = 30 * time.Second // by which the loop may be late before the watchdog is no longer fed
	smallLimit = time.Minute      // of a small round; it ends by itself within half a minute
)

// daemon holds rounds until it is told to stop. It runs one at a time, and everything that it tells the outside it
// tells between two of them.
type daemon struct {
	period time.Duration
	watch  time.Duration // between two looks for a small round; 0: none is held
	config Config
	// connect makes the rounder for a configuration. It is called for the first round, after each reload, and again as
	// long as it fails.
	connect func(ctx context.Context, config Config) (rounder, error)
	reload  func() (Config, error)
	hangups <-chan os.Signal // each asks for a reload

	journal *journal
	metrics *metrics
	health  *health
	manager manager
	heart   *heart
	savings *accountant
	outlook *outlook
	history *historian
	seat    *seat // nil: it takes no ticket

	barred   error // why it cannot even stand by
	rounder  rounder
	failures int  // rounds in a row
	blind    bool // a small round has failed since the last round
	// due is when the loop shows the next sign of life, in nanoseconds of the clock that nobody sets.
	due atomic.Int64
}

// run holds rounds until ctx ends. A round that is under way then is given a while to end by itself.
func (d *daemon) run(ctx context.Context) {
	d.manager.ready()
	defer d.manager.stopping()
	defer d.feedWatchdog()()
	defer d.seat.take()()
	defer d.savings.work()()
	defer d.outlook.stop()
	defer d.history.work()()
	for {
		d.barred = d.await(ctx)
		if ctx.Err() != nil {
			return
		}
		began := time.Now()
		d.turn(ctx)
		d.rest(ctx, d.pause(began, time.Now()))
	}
}

// feedWatchdog feeds it until the function that it returns has returned.
func (d *daemon) feedWatchdog() (stop func()) {
	d.expect(slack)
	ctx, cancel := context.WithCancel(context.Background())
	var feeder sync.WaitGroup
	feeder.Go(func() { d.manager.feed(ctx, d.alive) })
	return func() {
		cancel()
		feeder.Wait()
	}
}

// errOnce is all that there is to add when the log has told how the one round failed.
var errOnce = errors.New("the round did not end well")

// once holds one round.
func (d *daemon) once(ctx context.Context) error {
	d.barred = d.seat.win(ctx)
	defer d.seat.take()()
	defer d.savings.work()()
	defer d.history.work()()
	d.turn(ctx)
	d.outlook.stop() // nobody would read it
	if d.failures > 0 {
		return errOnce
	}
	return nil
}

// turn holds one round and tells everybody about it.
func (d *daemon) turn(ctx context.Context) {
	d.outlook.stop()
	began := time.Now()
	report, err := d.round(ctx)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = errStopped
	}
	if err == nil {
		d.failures, d.blind = 0, false
	} else {
		d.failures++
	}
	took := time.Since(began)
	d.metrics.round(report, took, err)
	d.health.round(report.Round, time.Now(), err)
	d.health.stands.note(d.config, report)
	d.journal.round(report, took, err)
	d.manager.status(report, err)
	d.history.note(d.config, report)
	if err == nil {
		d.heart.beat(d.config, time.Now())
		d.savings.note(d.config, d.period, report)
		d.outlook.look(d.config, d.period, report)
	}
}

// errStopped is the end of a round that was cut short because the daemon was told to stop.
var errStopped = errors.New("cut short: the daemon is stopping")

func (d *daemon) round(ctx context.Context) (bridge.Report, error) {
	if d.barred != nil {
		return bridge.Report{}, d.barred
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

// lingering is a context that ends at the limit, or a while after its parent: a step that has begun had better end.
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

// pause is the time from now until the next round, after one that began at began. Rounds begin with the whole periods
// of the clock, so that they keep their hour over restarts; after one that lasted longer the next follows at once.
// While rounds fail they are tried again sooner, after a pause that doubles. No pause is longer than a period, whatever
// was done to the clock meanwhile.
func (d *daemon) pause(began, now time.Time) time.Duration {
	if d.failures > 0 {
		return min(d.period, firstRetry<<min(d.failures-1, 20))
	}
	return min(d.period, max(0, began.Truncate(d.period).Add(d.period).Sub(now)))
}

// rest waits, holds small rounds meanwhile, and reads the configuration again when it is asked to.
func (d *daemon) rest(ctx context.Context, pause time.Duration) {
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
			d.between(ctx)
			d.expect(max(0, until-wall{}.Elapsed()) + slack)
		case <-d.seat.news(): // after a time without a lead, or with another leader
			return
		case <-d.hangups:
			d.reconfigure()
		}
	}
}

// looks tells when to look for a small round; never, where they bring nothing.
func (d *daemon) looks() (times <-chan time.Time, stop func()) {
	if d.watch <= 0 || d.watch >= d.period {
		return nil, func() {}
	}
	ticker := time.NewTicker(d.watch)
	return ticker.C, ticker.Stop
}

// between holds a small round, if there is anything for one. After one that failed none is held until a round has ended
// well: what is wrong is that round's to say, and it has the patience for it.
func (d *daemon) between(ctx context.Context) {
	if d.rounder == nil || d.barred != nil || d.failures > 0 || d.blind {
		return
	}
	d.expect(smallLimit + farewell + slack)
	within, cancel := lingering(ctx, smallLimit)
	defer cancel()
	began := time.Now()
	report, held, err := d.rounder.SmallRound(within)
	d.blind = err != nil
	d.metrics.smallRound(report, held, err)
	d.health.stands.note(d.config, report)
	if held {
		d.history.note(d.config, report)
	}
	if held || err != nil {
		d.journal.smallRound(report, time.Since(began), err)
	}
}

// reconfigure reads the configuration again for the rounds to come. A bad one changes nothing.
func (d *daemon) reconfigure() {
	d.manager.reloading()
	defer d.manager.ready()
	config, err := d.reload()
	d.metrics.reload(err)
	d.journal.reload(err)
	d.health.note("the configuration stays as it was", err, remedyOfReload)
	if err == nil {
		d.config, d.rounder = config, nil
		d.health.follows(config)
	}
}

// expect announces the next sign of life.
func (d *daemon) expect(within time.Duration) { d.due.Store(int64(wall{}.Elapsed() + within)) }

// alive says whether the loop still turns. Rounds that fail are a sign of life: a restart does not mend Slurm.
func (d *daemon) alive() bool { return int64(wall{}.Elapsed()) <= d.due.Load() }
