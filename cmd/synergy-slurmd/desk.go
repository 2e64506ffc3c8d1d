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

// pageLimiter limits how many pages are written at once that need much memory. A reader that does not receive its
// answer loses its place to one that waits.
type pageLimiter struct {
	places  chan struct{}
	waiting atomic.Int32

	mu      sync.Mutex
	sitting map[*limitedWriter]struct{}
}

func newPageLimiter(places int) *pageLimiter {
	return &pageLimiter{places: make(chan struct{}, places), sitting: make(map[*limitedWriter]struct{})}
}

// pageLimiters has one desk for each kind of reader, so that browsers do not wait for scripts, nor scripts for
// browsers.
type pageLimiters struct {
	people *pageLimiter // for browsers
	bulk   *pageLimiter // for reports as data, which are the largest
}

func newPageLimiters() pageLimiters {
	return pageLimiters{newPageLimiter(readers), newPageLimiter(readers)}
}

// limitedWriter is a reader that has a place.
type limitedWriter struct {
	http.ResponseWriter
	desk  *pageLimiter
	since time.Time // when the first byte of the answer was to be sent; zero: the answer is still being made
}

// Write sends a part of the answer.
func (s *limitedWriter) Write(part []byte) (int, error) {
	s.desk.mu.Lock()
	if s.since.IsZero() {
		s.since = time.Now()
	}
	s.desk.mu.Unlock()
	return s.ResponseWriter.Write(part)
}

// Unwrap is for http.ResponseController.
func (s *limitedWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// serve writes the page as soon as there is a place.
func (d *pageLimiter) serve(w http.ResponseWriter, r *http.Request, page http.HandlerFunc) {
	if !d.acquireSlot(r) {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many read at once: try again", http.StatusServiceUnavailable)
		return
	}
	defer func() { <-d.places }()
	if r.Context().Err() != nil { // the reader has gone meanwhile
		return
	}
	s := &limitedWriter{ResponseWriter: w, desk: d}
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

// acquireSlot takes a place. It returns false if none became free in time, or if too many wait already. It waits as
// long as a request may be read (readLimit), in steps, since each look may free a place: shed ends answers that nobody
// receives.
func (d *pageLimiter) acquireSlot(r *http.Request) bool {
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
		d.dropSlowReaders(time.Now())
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

// dropSlowReaders stops writing the answers that readers have not received in time.
func (d *pageLimiter) dropSlowReaders(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for s := range d.sitting {
		if !s.since.IsZero() && now.Sub(s.since) > takesIt {
			// if that is not possible, the answer ends with writeLimit
			_ = http.NewResponseController(s.ResponseWriter).SetWriteDeadline(now)
		}
	}
}
