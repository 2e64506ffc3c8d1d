package main

import (
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/savings"
	"github.com/synergy-slurmd/synergy-slurmd/savings/book"
)

// savingsWriter keeps the ledger of savings beside the rounds: no round waits for it, and none fails for it. A failure
// is logged once.
type savingsWriter struct {
	log   zerolog.Logger
	dir   string           // of the open ledger
	book  *book.Book       // nil: none is open
	queue chan queuedRound // nil: note writes at once

	mu    sync.Mutex
	fault error // why the last round was not written; nil: it was

	metrics *metrics        // nil: nothing is counted
	ill     func(why error) // called after each write with its error; may be nil
}

// queuedRound is a round to be written, and where.
type queuedRound struct {
	dir   string
	most  time.Duration // how long the speeds of this round count at most
	round savings.Round
}

// work writes rounds until stop is called. Rounds that wait then are written within lastBookings, or left out on a disk
// that hangs.
func (a *savingsWriter) work() (stop func()) {
	a.queue = make(chan queuedRound, mostBehind)
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

// bookedRounds is for how many rounds the speeds of one round count if those after it failed.
const bookedRounds = 2

// note queues a round for the folder that the configuration names. A round has savings to book only if one is named,
// and a small round has none.
func (a *savingsWriter) note(config Config, period time.Duration, report bridge.Report) {
	if report.Savings == nil {
		return
	}
	b := queuedRound{config.Savings, bookedRounds * period, *report.Savings}
	if a.queue == nil {
		a.write(b)
		return
	}
	select {
	case a.queue <- b:
	default:
		a.logResult(errBehind)
	}
}

// write writes a round to the ledger, and counts what it added.
func (a *savingsWriter) write(b queuedRound) {
	if a.book != nil && b.dir != a.dir {
		a.close()
	}
	if b.dir == "" || a.book == nil && !a.open(b.dir) {
		return
	}
	sums, err := a.book.Note(b.round, b.most)
	a.logResult(err)
	if a.metrics != nil {
		a.metrics.savings(sums)
	}
}

// open opens the ledger and reports whether that worked. Each round tries again.
func (a *savingsWriter) open(dir string) bool {
	opened, err := book.Open(dir)
	if err != nil {
		a.logResult(err)
		return false
	}
	a.book, a.dir = opened, dir
	return true
}

// close writes what is buffered, and closes the ledger.
func (a *savingsWriter) close() {
	if a.book != nil {
		a.logResult(a.book.Close())
	}
	a.book, a.dir = nil, ""
}

// logResult logs when writing begins to fail, and when it works again.
func (a *savingsWriter) logResult(err error) {
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
