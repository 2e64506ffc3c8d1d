package main

import (
	"bytes"
	"maps"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// stillNew is for how long a rendered page is served again.
const stillNew = 200 * time.Millisecond

// rendered serves one page to any number of readers from one copy in memory, so that it needs no desk: a reader who
// does not take his answer keeps nothing from anybody. The page must not depend on the request.
type rendered struct {
	page http.Handler
	// of is the moment of what the page shows: of another one it is rendered anew; nil: nobody is told when that
	// changes.
	of func() time.Time

	mu   sync.Mutex
	at   time.Time // when it was rendered
	was  time.Time // of what
	last rendering
}

// rendering is what a handler has answered.
type rendering struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *rendering) Header() http.Header { return a.header }

func (a *rendering) WriteHeader(status int) { a.status = status }

func (a *rendering) Write(part []byte) (int, error) { return a.body.Write(part) }

// answer is the page as it is now, or was a moment ago.
func (p *rendered) answer() rendering {
	p.mu.Lock()
	defer p.mu.Unlock()
	is := p.was
	if p.of != nil {
		is = p.of()
	}
	if p.at.IsZero() || time.Since(p.at) > stillNew || !is.Equal(p.was) {
		p.last = rendering{header: http.Header{}, status: http.StatusOK}
		p.page.ServeHTTP(
			&p.last,
			&http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/"}, Header: http.Header{}},
		)
		p.at, p.was = time.Now(), is
	}
	return p.last
}

func (p *rendered) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	now := p.answer()
	maps.Copy(w.Header(), now.header)
	w.WriteHeader(now.status)
	_, _ = w.Write(now.body.Bytes()) // an error is the reader's going away
}
