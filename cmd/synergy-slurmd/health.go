package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/page"
	"github.com/synergy-slurmd/synergy-slurmd/printable"
	"github.com/synergy-slurmd/synergy-slurmd/rollout"
)

// longFailure bounds what is reported of a failed round, in bytes.
const longFailure = 400

// healthyRounds is how many rounds may pass without a good one until the daemon is unhealthy. The lease of a waiting
// job does not last much longer.
const healthyRounds = 3

// health says whether the daemon does its work. Rounds write it, HTTP requests read it.
type health struct {
	patience time.Duration
	stands   *standing // what else /status says of the daemon; nil: nothing
	beside   sources   // what pages show beside reports

	mu    sync.Mutex
	since time.Time      // when the last good round ended, or the start
	last  int            // number of the last good round; 0: none yet
	err   error          // of the last round
	idle  string         // the sentence that says which leader it stands by for; empty: it holds rounds
	about rollout.Daemon // what /status says of the daemon, except for its health
	held  chan struct{}  // closed and replaced when a round has ended well; nil: no reader waits

	past   []page.Trouble // failed rounds, oldest first
	ailing bool           // the last round failed; kind is how
	kind   ailment
	wrong  []page.Trouble // what is wrong beside rounds, until it is repaired
}

func newHealth(period time.Duration, now time.Time) *health {
	return &health{patience: healthyRounds * period, since: now}
}

// wentWell is when the last good round ended, or the start.
func (h *health) wentWell() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.since
}

// round notes how a round ended.
func (h *health) round(number int, now time.Time, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err = err
	if err != nil {
		h.about.Well, h.about.Failure = 0, printable.Line(err.Error(), longFailure)
		h.about.Failed++
		h.failed(now, err)
		return
	}
	h.about.Well++
	h.ailing = false
	h.since, h.last = now, number
	if h.held != nil {
		close(h.held)
		h.held = nil
	}
}

// next waits for the next round that ends well, at most for the time most. If a round after known has ended well
// already, it is returned at once; known is 0 if the reader knows of none.
func (h *health) next(ctx context.Context, known int, most time.Duration) (number int, held bool) {
	h.mu.Lock()
	if known > 0 && h.last > known {
		defer h.mu.Unlock()
		return h.last, true
	}
	if h.held == nil {
		h.held = make(chan struct{})
	}
	next := h.held
	h.mu.Unlock()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-next:
	case <-ctx.Done():
		return 0, false
	case <-timer.C:
		return 0, false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last, true
}

// standBy notes that another daemon leads, so no rounds are due.
func (h *health) standBy(line string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.idle = line
}

// lead notes that rounds are due again.
func (h *health) lead(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.idle != "" {
		h.idle, h.since, h.err = "", now, nil
	}
}

// check returns a sentence about the last good round, or the reason why a person should look.
func (h *health) check(now time.Time) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.idle != "" {
		return h.idle, nil
	}
	ago := now.Sub(h.since).Round(time.Second)
	last := fmt.Sprintf("round %d ended well %s ago", h.last, ago)
	if h.last == 0 {
		last = fmt.Sprintf("no round has ended well in the %s since the start", ago)
	}
	switch {
	case ago <= h.patience:
		return last, nil
	case h.err != nil:
		return "", fmt.Errorf("%s; the last one: %w", last, h.err)
	}
	return "", fmt.Errorf("%s, and none has ended since", last)
}

// follows notes the configuration for the rounds from now on.
func (h *health) follows(config Config) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.about.Partitions, h.about.Canary, h.about.Lease = config.Partitions, config.Canary, config.Lease.Seconds()
}

// tells is everything that /status says of the daemon's work.
func (h *health) tells(now time.Time) rollout.Daemon {
	says, err := h.check(now)
	h.mu.Lock()
	defer h.mu.Unlock()
	about := h.about
	about.Says, about.Healthy, about.Behind = says, err == nil, h.idle != ""
	if err != nil {
		about.Says = printable.Line(err.Error(), longFailure)
	}
	return about
}
