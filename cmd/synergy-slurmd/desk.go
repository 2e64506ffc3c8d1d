package main

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of a desk.
const (
	readers    = 4  // pages of size at once, so that readers cannot use up the memory that rounds need
	mostQueued = 32 // requests that wait for a place; who comes then is told at once to come again
	// takesIt is how long a reader may take over an answer that has been worked out while another one waits for his
	// place. What fits into the buffers of a connection, as all pages of a usual cluster do, takes no time.
	takesIt = 2 * time.Second
)

// desk is so many places for pages that take memory to write. A reader who does not take his answer loses his place to
// whoever waits for it.
type desk struct {
	places  chan struct{}
	waiting atomic.Int32

	mu      sync.Mutex
	sitting map[*sitter]struct{}
}

func newDesk(places int) *desk {
	return &desk{places: make(chan struct{}, places), sitting: make(map[*sitter]struct{})}
}

// desks are one for each kind of reader, so that none is kept waiting by those of another.
type desks struct {
	people *desk // for browsers
	bulk   *desk // for reports as data, which are the largest
}

func newDesks() desks { return desks{newDesk(readers), newDesk(readers)} }

// sitter is a reader who has a place.
type sitter struct {
	http.ResponseWriter
	desk  *desk
	since time.Time // the first byte of the answer was to be sent; zero: it is still worked out
}

// Write sends a part of the answer.
func (s *sitter) Write(part []byte) (int, error) {
	s.desk.mu.Lock()
	if s.since.IsZero() {
		s.since = time.Now()
	}
	s.desk.mu.Unlock()
	return s.ResponseWriter.Write(part)
}

// Unwrap is for http.ResponseController.
func (s *sitter) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// serve writes the page as soon as there is a place.
func (d *desk) serve(w http.ResponseWriter, r *http.Request, page http.HandlerFunc) {
	if !d.wait(r) {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many read at once: try again", http.StatusServiceUnavailable)
		return
	}
	defer func() { <-d.places }()
	if r.Context().Err() != nil { // who has gone meanwhile is written nothing
		return
	}
	s := &sitter{ResponseWriter: w, desk: d}
	d.mu.Lock()
	d.sitting[s] = struct{}{}
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.sitting, s)
	}()
	page(s, r)
}

// wait takes a place; false: there was none for too long, or too many wait already.
func (d *desk) wait(r *http.Request) bool {
	select {
	case d.places <- struct{}{}:
		return true
	default:
	}
	defer d.waiting.Add(-1)
	if d.waiting.Add(1) > mostQueued {
		return false
	}
	const look = takesIt / 10
	for range int(readLimit / look) {
		d.shed(time.Now())
		select {
		case d.places <- struct{}{}:
			return true
		case <-r.Context().Done():
			return false
		case <-time.After(look):
		}
	}
	return false
}

// shed ends the writing of answers that nobody has taken in time.
func (d *desk) shed(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for s := range d.sitting {
		if !s.since.IsZero() && now.Sub(s.since) > takesIt {
			// one that cannot be ended so ends with writeLimit
			_ = http.NewResponseController(s.ResponseWriter).SetWriteDeadline(now)
		}
	}
}
