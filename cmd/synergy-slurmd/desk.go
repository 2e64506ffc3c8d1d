package main

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// The bounds of a desk.
const (
	readers    = 4  // large pages written at once, so that readers cannot use up the memory that rounds need
	mostQueued = 32 // requests that wait for a place; further ones are refused at once and told to retry
	// takesIt is how long a reader may take to receive a finished answer while another reader waits for a place. An
	// answer that fits into the buffers of a connection, as all pages of a usual cluster do, takes no time.
	takesIt = 2 * time.Second
)

// desk limits how many pages are written at once that need much memory. A reader that does not receive its answer loses
// its place to one that waits.
type desk struct {
	places  chan struct{}
	waiting atomic.Int32

	mu      sync.Mutex
	sitting map[*sitter]struct{}
}

func newDesk(places int) *desk {
	return &desk{places: make(chan struct{}, places), sitting: make(map[*sitter]struct{})}
}

// desks has one desk for each kind of reader, so that browsers do not wait for scripts, nor scripts for browsers.
type desks struct {
	people *desk // for browsers
	bulk   *desk // for reports as data, which are the largest
}

func newDesks() desks { return desks{newDesk(readers), newDesk(readers)} }

// sitter is a reader that has a place.
type sitter struct {
	http.ResponseWriter
	desk  *desk
	since time.Time // when the first byte of the answer was to be sent; zero: the answer is still being made
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
	if r.Context().Err() != nil { // the reader has gone meanwhile
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

// wait takes a place. It returns false if none became free in time, or if too many wait already. It waits as long as a
// request may be read (readLimit), in steps, since each look may free a place: shed ends answers that nobody receives.
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

// shed stops writing the answers that readers have not received in time.
func (d *desk) shed(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for s := range d.sitting {
		if !s.since.IsZero() && now.Sub(s.since) > takesIt {
			// if that is not possible, the answer ends with writeLimit
			_ = http.NewResponseController(s.ResponseWriter).SetWriteDeadline(now)
		}
	}
}
