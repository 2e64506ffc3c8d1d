package main

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/rollout"
	"github.com/synergy-slurmd/synergy-slurmd/savings"
	"github.com/synergy-slurmd/synergy-slurmd/savings/book"
)

// standing is what the daemon says of itself on /status, beside its health. Rounds write it, requests read it. A nil
// one says nothing.
type standing struct {
	health      *health
	seat        func() *seat
	taught      func() float64
	config      atomic.Pointer[Config]
	failedSteps atomic.Int64
	saved       lately
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
		stands.Savings = s.saved.sentence(config.Savings, stands.Shadow, at)
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

// lately is that sentence, which takes a week of lines to read. It is read anew once a minute at most, by one at a
// time; others are told the last one meanwhile, so that whoever watches the daemon waits for no disk.
type lately struct {
	reading sync.Mutex
	last    atomic.Pointer[savedLately]
}

// savedLately is what was said, of what, and when.
type savedLately struct {
	at     time.Time
	folder string
	shadow bool
	text   string
}

func (l *lately) sentence(folder string, shadow bool, at time.Time) string {
	last := l.last.Load()
	ours := last != nil && last.folder == folder && last.shadow == shadow
	if ours && at.Sub(last.at).Abs() < time.Minute {
		return last.text
	}
	if !l.reading.TryLock() {
		if ours {
			return last.text
		}
		return ""
	}
	defer l.reading.Unlock()
	text := saved(folder, shadow, at)
	l.last.Store(&savedLately{at, folder, shadow, text})
	return text
}

// forStatus serves how the daemon stands. It takes no place at the desk: whoever watches it is answered whoever else
// reads.
func forStatus(mux *http.ServeMux, h *health) {
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		now := time.Now()
		if h.stands == nil {
			serveJSON(w, rollout.Standing{Daemon: h.tells(now)}, nil)
			return
		}
		serveJSON(w, h.stands.now(now), nil)
	})
}
