package main

import (
	"time"

	"github.com/rs/zerolog"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/savings/book"
)

// accountant keeps the ledger of savings. It is told once that this does not work, and no round fails for it.
type accountant struct {
	log   zerolog.Logger
	dir   string     // of the ledger that is open
	book  *book.Book // nil: none is
	fault error      // why the last round was not booked; nil: it was

	metrics *metrics // nil: nobody counts
}

// bookedRounds is for how many rounds the speeds of one stand, when those after it failed.
const bookedRounds = 2

// note books a round in the folder that the configuration names.
func (a *accountant) note(config Config, period time.Duration, report bridge.Report) {
	if a.book != nil && config.Savings != a.dir {
		a.close()
	}
	if config.Savings == "" || report.Savings == nil || a.book == nil && !a.open(config.Savings) {
		return
	}
	sums, err := a.book.Note(*report.Savings, bookedRounds*period)
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
