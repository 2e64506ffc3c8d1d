package main

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/rollout"
	"github.com/synergy-slurmd/synergy-slurmd/savings"
	"github.com/synergy-slurmd/synergy-slurmd/savings/book"
)

// standing is what the daemon says of itself on /status, beside what is on /about. Rounds write it, requests read it. A
// nil one says nothing.
type standing struct {
	health      *health
	seat        func() *seat
	taught      func() float64
	config      atomic.Pointer[Config]
	failedSteps atomic.Int64
}

// note counts what a round, or a small one, did not bring about.
func (s *standing) note(config Config, report bridge.Report) {
	if s == nil {
		return
	}
	s.config.Store(&config)
	for i := range report.Steps {
		if report.Steps[i].Error != "" {
			s.failedSteps.Add(1)
		}
	}
}

// following is the configuration that the daemon follows.
func (s *standing) following() Config {
	if config := s.config.Load(); config != nil {
		return *config
	}
	return Config{}
}

// now is how the daemon stands.
func (s *standing) now(at time.Time) rollout.Standing {
	stands := rollout.Standing{Daemon: s.health.tells(at), Learned: int(s.taught()), FailedSteps: s.failedSteps.Load()}
	stands.Leads = !stands.Shadow && s.leads()
	if config := s.config.Load(); config != nil {
		stands.Savings = saved(config.Savings, stands.Shadow, at)
	}
	return stands
}

// leads says that this daemon acts.
func (s *standing) leads() bool {
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
