package main

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/rollout"
)

// standing is what /status says of the daemon beside its health: whether it leads, failed steps, learned profiles and
// savings. Rounds write it, requests read it. A nil one says nothing.
type standing struct {
	health      *health
	seat        func() *seat
	taught      func() float64
	config      atomic.Pointer[Config]
	failedSteps atomic.Int64
	saved       lately
}

// note counts the failed steps of a round, full or small.
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

// now is the content of /status.
func (s *standing) now(at time.Time) rollout.Standing {
	stands := rollout.Standing{Daemon: s.health.tells(at), Learned: int(s.taught()), FailedSteps: s.failedSteps.Load()}
	stands.Leads = !stands.Shadow && s.leads()
	if config := s.config.Load(); config != nil {
		stands.Savings = s.saved.sentence(config.Savings, stands.Shadow, at)
	}
	return stands
}

// leads reports whether this daemon acts.
func (s *standing) leads() bool {
	seat := s.seat()
	if seat == nil {
		return true // it is alone, as the administrator promised by --alone
	}
	line, err := seat.position()
	return line == "" && err == nil
}

// savedOver is the time over which savings are summed up.
const savedOver = 7 * 24 * time.Hour

// saved is a sentence about what was saved lately; empty: no ledger of savings is kept, or it cannot be read now.
func saved(folder string, shadow bool, at time.Time) string {
	if folder == "" {
		return ""
	}
	sums, err := bookedLately(folder, shadow, at)
	if err != nil {
		return ""
	}
	return sums.Sentence(shadow, "in the last seven days")
}

// lately caches that sentence, for which a week of lines is read. It is read again at most once a minute, by one
// request at a time. Other requests get the last sentence meanwhile, so that monitoring waits for no disk.
type lately struct {
	reading sync.Mutex
	last    atomic.Pointer[savedLately]
}

// savedLately is the cached sentence, and what it was made from and when.
type savedLately struct {
	at     time.Time
	folder string
	shadow bool
	text   string
}

// sentence is the cached sentence if it is less than a minute old, and a new one otherwise.
func (l *lately) sentence(folder string, shadow bool, at time.Time) string {
	last := l.last.Load()
	ours := last != nil && last.folder == folder && last.shadow == shadow
	if ours && at.Sub(last.at).Abs() < time.Minute {
		return last.text
	}
	// Another request reads. Without a sentence of these settings there is none to give meanwhile.
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

// forStatus serves /status. It takes no place at the desk, so that monitoring is answered however many others read.
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
