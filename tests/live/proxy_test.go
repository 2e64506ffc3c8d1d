//go:build live

package live

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// Mode is how a proxy answers.
type Mode string

// The ways in which slurmrestd can misbehave.
const (
	Pass     Mode = "pass"
	Stopped  Mode = "stopped"   // refuses connections
	Slow     Mode = "slow"      // each answer takes three seconds
	Hangs    Mode = "hangs"     // no answer at all, for as long as the mode lasts
	Status   Mode = "500"       // with a page for people
	Garbage  Mode = "garbage"   // 200, said to be JSON, and noise
	Page     Mode = "page"      // 200 and HTML
	Half     Mode = "half"      // the connection breaks in the middle of the body
	Empty    Mode = "empty"     // well-formed, with no job and no node in it
	NoJobs   Mode = "no jobs"   // the same with all nodes
	NoNodes  Mode = "no nodes"  // the same with all jobs
	Excuses  Mode = "excuses"   // 200 with an error in the body
	AtRandom Mode = "at random" // any of 500, garbage, page, half, excuses, each time anew
)

// Proxy stands between the daemon and slurmrestd, and answers in its place as its mode says.
type Proxy struct {
	t       testing.TB
	address string
	pass    *httputil.ReverseProxy
	serving sync.WaitGroup

	mu       sync.Mutex
	mode     Mode
	changed  chan struct{} // closed when the mode changes
	server   *http.Server  // nil while it is stopped
	requests int
	draw     *rand.Rand
}

// Proxy starts one, on the address of this host in the cluster's network.
func (c *Cluster) Proxy() *Proxy {
	c.t.Helper()
	upstream, err := url.Parse(c.RestURL())
	if err != nil {
		c.t.Fatal(err)
	}
	p := &Proxy{t: c.t, mode: Pass, changed: make(chan struct{}), draw: rand.New(rand.NewPCG(1, 1)),
		address: c.gateway() + ":0"}
	p.pass = &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(upstream) },
		ModifyResponse: p.distort}
	p.listen()
	c.t.Cleanup(func() { p.Set(Stopped) })
	return p
}

// gateway is this host's address in the cluster's network.
func (c *Cluster) gateway() string {
	c.t.Helper()
	return c.docker("network", "inspect", "-f", "{{range .IPAM.Config}}{{.Gateway}}{{end}}", c.network())
}

func (c *Cluster) network() string {
	c.t.Helper()
	return c.docker("network", "ls", "-q", "--filter", "label=com.docker.compose.project="+c.project)
}

// URL is where the daemon finds it.
func (p *Proxy) URL() string { return "http://" + p.address }

// Set changes the mode. What hangs goes on.
func (p *Proxy) Set(mode Mode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mode = mode
	close(p.changed)
	p.changed = make(chan struct{})
	switch {
	case mode == Stopped && p.server != nil:
		p.server.Close()
		p.server = nil
		p.serving.Wait()
	case mode != Stopped && p.server == nil:
		p.listen()
	}
}

// Requests is how many have come.
func (p *Proxy) Requests() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests
}

func (p *Proxy) listen() {
	listener, err := net.Listen("tcp", p.address)
	if err != nil {
		p.t.Fatalf("listen for the daemon: %v", err)
	}
	p.address = listener.Addr().String()
	server := &http.Server{Handler: p}
	p.server = server
	p.serving.Go(func() { _ = server.Serve(listener) })
}

// now is the mode of one request.
func (p *Proxy) now() (mode Mode, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests++
	if p.mode == AtRandom {
		return []Mode{Status, Garbage, Page, Half, Excuses}[p.draw.IntN(5)], p.changed
	}
	return p.mode, p.changed
}

const excuse = `{"errors":[{"error_number":1000,"error":"Unspecified communication error","source":"slurm_load_jobs()"}],"warnings":[]}`

func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	mode, changed := p.now()
	switch mode {
	case Slow:
		wait(changed, 3*time.Second)
	case Hangs:
		wait(changed, time.Hour)
	case Status:
		http.Error(w, "<html>Internal Server Error</html>", http.StatusInternalServerError)
		return
	case Garbage:
		answer(w, "application/json", noise())
		return
	case Page:
		answer(w, "text/html", []byte("<html><body>Sign in to the hotel's network</body></html>"))
		return
	case Excuses:
		answer(w, "application/json", []byte(excuse))
		return
	}
	p.pass.ServeHTTP(w, r)
}

func wait(changed <-chan struct{}, most time.Duration) {
	select {
	case <-changed:
	case <-time.After(most):
	}
}

func answer(w http.ResponseWriter, kind string, body []byte) {
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(body)
}

func noise() []byte {
	body := make([]byte, 4096)
	for k := range body {
		body[k] = byte(rand.IntN(256))
	}
	return body
}

// distort changes slurmrestd's own answer.
func (p *Proxy) distort(r *http.Response) error {
	mode, path := p.current(), r.Request.URL.Path
	jobs := strings.Contains(path, "/jobs/") || strings.Contains(path, "/job/")
	switch {
	case mode == Half || mode == AtRandom:
		return halve(r)
	case (mode == Empty || mode == NoJobs) && jobs && r.Request.Method == http.MethodGet:
		return replace(r, `{"jobs":[],"errors":[],"warnings":[]}`)
	case (mode == Empty || mode == NoNodes) && strings.Contains(path, "/nodes/"):
		return replace(r, `{"nodes":[],"errors":[],"warnings":[]}`)
	}
	return nil
}

func (p *Proxy) current() Mode {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mode
}

// halve lets the body end in its middle, though its length was said before.
func halve(r *http.Response) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	r.Header.Set("Content-Length", fmt.Sprint(len(body)))
	r.ContentLength = int64(len(body))
	r.Body = io.NopCloser(bytes.NewReader(body[:len(body)/2]))
	return nil
}

func replace(r *http.Response, body string) error {
	r.Body.Close()
	r.Header.Set("Content-Length", fmt.Sprint(len(body)))
	r.ContentLength = int64(len(body))
	r.Body = io.NopCloser(strings.NewReader(body))
	return nil
}
