package main

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/savings"
	"github.com/synergy-slurmd/synergy-slurmd/savings/book"
	"github.com/synergy-slurmd/synergy-slurmd/story"
)

// standing is what the daemon says of itself on /status. Rounds write it, requests read it. A nil one says nothing.
type standing struct {
	health *health
	shadow bool
	period time.Duration
	seat   func() *seat
	taught func() float64
	config atomic.Pointer[Config]

	failedRounds, failedSteps atomic.Int64
}

// note counts what a round, or a small one, did not bring about.
func (s *standing) note(config Config, report bridge.Report, err error) {
	if s == nil {
		return
	}
	s.config.Store(&config)
	if err != nil {
		s.failedRounds.Add(1)
	}
	for i := range report.Steps {
		if report.Steps[i].Error != "" {
			s.failedSteps.Add(1)
		}
	}
}

// now is how the daemon stands.
func (s *standing) now(at time.Time) story.Daemon {
	says, wrong := s.health.check(at)
	d := story.Daemon{Version: running(), Well: wrong == nil, Says: says, Shadow: s.shadow, Leads: s.leads(),
		Round: s.period, Learned: int(s.taught()), FailedRounds: s.failedRounds.Load(),
		FailedSteps: s.failedSteps.Load()}
	if wrong != nil {
		d.Says = wrong.Error()
	}
	if config := s.config.Load(); config != nil {
		d.Partitions = config.Partitions
		d.Savings = saved(config.Savings, s.shadow, at)
	}
	return d
}

// leads says that this daemon acts.
func (s *standing) leads() bool {
	if s.shadow {
		return false
	}
	seat := s.seat()
	if seat == nil {
		return true // it is alone, by its administrator's promise
	}
	line, err := seat.position()
	return line == "" && err == nil
}

// savedOver is the time of which savings are told.
const savedOver = 7 * 24 * time.Hour

// saved is what was saved lately, in a sentence; empty: nobody keeps a ledger of it, or nothing can be read there now.
func saved(folder string, shadow bool, at time.Time) string {
	if folder == "" {
		return ""
	}
	lines, _, err := book.Read(folder, at.Add(-savedOver), at)
	if err != nil {
		return ""
	}
	var sums savings.Sums
	for _, l := range lines {
		if l.Shadow == shadow {
			sums = sums.Plus(l.Sums)
		}
	}
	return sums.Sentence(shadow, "in the last seven days")
}

// forStatus serves it.
func forStatus(mux *http.ServeMux, desk chan struct{}, s *standing) {
	if s == nil {
		return
	}
	mux.Handle("GET /status", inTurn(desk, func(w http.ResponseWriter, _ *http.Request) {
		serveJSON(w, s.now(time.Now()), nil)
	}))
}
