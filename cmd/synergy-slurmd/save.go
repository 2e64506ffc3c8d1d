package main

import (
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/savings"
	"github.com/synergy-slurmd/synergy-slurmd/savings/book"
)

// accountant keeps the ledger of savings, beside the rounds: none waits for it, and none fails for it. It is told once
// that this does not work.
type accountant struct {
	log   zerolog.Logger
	dir   string      // of the ledger that is open
	book  *book.Book  // nil: none is
	queue chan toBook // nil: who notes books at once

	mu    sync.Mutex
	fault error // why the last round was not booked; nil: it was

	metrics *metrics        // nil: nobody counts
	ill     func(why error) // is told of each booking; nil: nobody is
}

// toBook is a round to be booked, and where.
type toBook struct {
	dir   string
	most  time.Duration // for which its speeds stand
	round savings.Round
}

// work books rounds until the function that it returns is called. What waits then is booked within a short time, and
// left out on a disk that hangs.
func (a *accountant) work() (stop func()) {
	a.queue = make(chan toBook, mostBehind)
	over := make(chan struct{})
	go func() {
		defer close(over)
		for b := range a.queue {
			a.write(b)
		}
		a.close()
	}()
	return func() {
		close(a.queue)
		select {
		case <-over:
		case <-time.After(lastBookings):
			a.log.Error().Msg("the last rounds are not in the ledger of savings: its disk hangs")
		}
	}
}

// bookedRounds is for how many rounds the speeds of one stand, when those after it failed.
const bookedRounds = 2

// note has a round booked in the folder that the configuration names.
func (a *accountant) note(config Config, period time.Duration, report bridge.Report) {
	if report.Savings == nil {
		return
	}
	b := toBook{config.Savings, bookedRounds * period, *report.Savings}
	if a.queue == nil {
		a.write(b)
		return
	}
	select {
	case a.queue <- b:
	default:
		a.told(errBehind)
	}
}

// write books a round.
func (a *accountant) write(b toBook) {
	if a.book != nil && b.dir != a.dir {
		a.close()
	}
	if b.dir == "" || a.book == nil && !a.open(b.dir) {
		return
	}
	sums, err := a.book.Note(b.round, b.most)
	a.told(err)
	if a.metrics != nil {
		a.metrics.savings(sums)
	}
}

// open opens the ledger. Each round tries again.
func (a *accountant) open(dir string) bool {
	opened, err := book.Open(dir)
	if err != nil {
		a.told(err)
		return false
	}
	a.book, a.dir = opened, dir
	return true
}

// close writes what is still to be written.
func (a *accountant) close() {
	if a.book != nil {
		a.told(a.book.Close())
	}
	a.book, a.dir = nil, ""
}

// told says when booking begins to fail, and when it ends to.
func (a *accountant) told(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ill != nil {
		a.ill(err)
	}
	if err != nil && a.fault == nil {
		a.log.Error().Err(err).Str("remedy", remedyOfSavings).
			Msg("rounds are not booked in the ledger of savings")
	}
	if err == nil && a.fault != nil {
		a.log.Info().Msg("rounds are booked in the ledger of savings again")
	}
	if a.fault = err; a.metrics != nil {
		a.metrics.booked.failed.Set(zeroOrOne(err != nil))
	}
}
