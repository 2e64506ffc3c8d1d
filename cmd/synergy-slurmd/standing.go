package main

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/rollout"
)

// daemonStatus is what /status says of the daemon beside its health: whether it leads, failed steps, learned profiles
// and savings. Rounds write it, requests read it. A nil one says nothing.
type daemonStatus struct {
	health       *health
	elector      func() *elector
	learnedCount func() float64
	config       atomic.Pointer[Config]
	failedSteps  atomic.Int64
	saved        savingsCache
}

// note counts the failed steps of a round, full or small.
func (s *daemonStatus) note(config Config, report bridge.Report) {
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
func (s *daemonStatus) following() Config {
	if config := s.config.Load(); config != nil {
		return *config
	}
	return Config{}
}

// now is the content of /status.
func (s *daemonStatus) now(at time.Time) rollout.Standing {
	stands := rollout.Standing{
		Daemon:      s.health.statusInfo(at),
		Learned:     int(s.learnedCount()),
		FailedSteps: s.failedSteps.Load(),
	}
	stands.Leads = !stands.Shadow && s.leads()
	if config := s.config.Load(); config != nil {
		stands.Savings = s.saved.sentence(config.Savings, stands.Shadow, at)
	}
	return stands
}

// leads reports whether this daemon acts.
func (s *daemonStatus) leads() bool {
	elector := s.elector()
	if elector == nil {
		return true // it is alone, as the administrator promised by --alone
	}
	line, err := elector.position()
	return line == "" && err == nil
}

// savedOver is the time over which savings are summed up.
const savedOver = 7 * 24 * time.Hour

// savingsSentence is a sentence about what was saved lately; empty: no ledger of savings is kept, or it cannot be read
// now.
func savingsSentence(folder string, shadow bool, at time.Time) string {
	if folder == "" {
		return ""
	}
	sums, err := bookedLately(folder, shadow, at)
	if err != nil {
		return ""
	}
	return sums.Sentence(shadow, "in the last seven days")
}

// savingsCache caches that sentence, for which a week of lines is read. It is read again at most once a minute, by one
// request at a time. Other requests get the last sentence meanwhile, so that monitoring waits for no disk.
type savingsCache struct {
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
func (l *savingsCache) sentence(folder string, shadow bool, at time.Time) string {
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
	text := savingsSentence(folder, shadow, at)
	l.last.Store(&savedLately{at, folder, shadow, text})
	return text
}

// handleStatus serves /status. It takes no place at the desk, so that monitoring is answered however many others read.
func handleStatus(mux *http.ServeMux, h *health) {
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		now := time.Now()
		if h.status == nil {
			serveJSON(w, rollout.Standing{Daemon: h.statusInfo(now)}, nil)
			return
		}
		serveJSON(w, h.status.now(now), nil)
	})
}
