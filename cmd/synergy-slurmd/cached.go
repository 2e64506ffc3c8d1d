package main

import (
	"bytes"
	"maps"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// cachedFor is how long a page is served from the cache.
const cachedFor = 200 * time.Millisecond

// cachedPage serves all readers the same page from memory. It needs no place at the desk, since readers of it use no
// memory that others wait for. The page must not depend on the request.
type cachedPage struct {
	render http.Handler
	// version says when the content of the page last changed; a page of an older version is rendered again. nil:
	// unknown.
	version func() time.Time

	mu         sync.Mutex
	renderedAt time.Time
	shows      time.Time // the version of the cached page
	page       recorder
}

// recorder is an http.ResponseWriter that keeps the response in memory.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader keeps the status code.
func (r *recorder) WriteHeader(status int) { r.status = status }

// Write appends to the body.
func (r *recorder) Write(part []byte) (int, error) { return r.body.Write(part) }

// current is the cached page, rendered again if it is too old or shows an older version.
func (c *cachedPage) current() recorder {
	c.mu.Lock()
	defer c.mu.Unlock()
	version := c.shows
	if c.version != nil {
		version = c.version()
	}
	if time.Since(c.renderedAt) <= cachedFor && version.Equal(c.shows) {
		return c.page
	}
	c.page = recorder{header: http.Header{}, status: http.StatusOK}
	request := &http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/"}, Header: http.Header{}}
	c.render.ServeHTTP(&c.page, request)
	c.renderedAt, c.shows = time.Now(), version
	return c.page
}

func (c *cachedPage) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	page := c.current()
	maps.Copy(w.Header(), page.header)
	w.WriteHeader(page.status)
	_, _ = w.Write(page.body.Bytes()) // fails if the reader has gone
}
