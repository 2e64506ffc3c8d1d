package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/ledger"
	"github.com/synergy-slurmd/synergy-slurmd/policy/snapshot"
)

// archive has the reports of past rounds.
type archive interface {
	Rounds() ([]int, error)
	Report(round int) (bridge.Report, error)
	Latest() (bridge.Report, error)
}

const index = `synergy-slurmd

/            in a browser: what is wrong, the cluster, the queue and the last round
/healthz     200 while rounds end well, 503 and the reason otherwise
/metrics     for Prometheus
/round       the last round: snapshot, plan and steps
/snapshot    what the last round saw, with the profiles of its jobs: synergy plan reads it
/rounds      the numbers of the rounds that are kept
/round/17    one of them
/replay/17   that round with all that it takes to plan it again: synergy plan --round reads it
/story/4711  a job's story, as long as the history goes back
/history     who ran with what: ?user=alice&job=4711&since=2026-11-01T00:00:00Z&until=…
/jobs/4711   in a browser: a job, over the last rounds
/profiles    in a browser: what is known of how fast models train
/status      what runs, how and how well, for programs
`

// pages serves everything that can be read over HTTP. Nothing can be written.
func pages(h *health, metrics prometheus.Gatherer, reports archive) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { serveHealth(w, h) })
	at := newPageLimiters()
	handleBrowser(mux, at.people, h, reports)
	handleStatus(mux, h)
	handleHistory(mux, at.bulk, reports)
	mux.Handle("GET /metrics", &cachedPage{render: promhttp.HandlerFor(metrics,
		promhttp.HandlerOpts{DisableCompression: true})})
	mux.Handle("GET /round", limitedPage(at.bulk, func(w http.ResponseWriter, _ *http.Request) {
		report, err := reports.Latest()
		serveJSON(w, report, err)
	}))
	mux.Handle("GET /snapshot", limitedPage(at.bulk, func(w http.ResponseWriter, _ *http.Request) {
		report, err := reports.Latest()
		serveJSON(w, snapshotOf(report), err)
	}))
	mux.Handle("GET /rounds", limitedPage(at.bulk, func(w http.ResponseWriter, r *http.Request) {
		serveNumbers(w, r, reports)
	}))
	mux.Handle("GET /round/{number}", limitedPage(at.bulk, func(w http.ResponseWriter, r *http.Request) {
		number, err := strconv.Atoi(r.PathValue("number"))
		if err != nil {
			http.Error(w, "want the number of a round, as /round/17", http.StatusBadRequest)
			return
		}
		report, err := reports.Report(number)
		serveJSON(w, report, err)
	}))
	return guarded(mux)
}

// snapshotOf is what a round saw and the policy and allocator by which it decided. A report of an older version has
// only the names of profiles.
func snapshotOf(r bridge.Report) snapshot.File {
	return snapshot.File{Cluster: r.Snapshot, Profiles: r.Profiles, Policy: r.Policy, Allocator: r.Allocator,
		Habits: r.Habits}
}

// limitedPage serves a page that needs much memory as soon as there is a place at the desk. Health, status, metrics,
// the index and the page of the cluster need no place, so that monitoring is answered however many others read.
func limitedPage(d *pageLimiter, page http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { d.serve(w, r, page) })
}

// guarded sets headers with which browsers treat job names and other words of users as data only. It also refuses
// requests of pages from elsewhere whose host name was pointed at this host (DNS rebinding).
func guarded(inner http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Content-Security-Policy", "default-src 'none'")
		if !namesThisHost(r) {
			http.Error(w, "this address is asked for by its number, or as localhost", http.StatusMisdirectedRequest)
			return
		}
		inner.ServeHTTP(w, r)
	})
}

// namesThisHost reports whether a request over a loopback address names this host by number or as localhost. A page
// from elsewhere can point its own name here, and its browser would then let it read the answer. On other addresses
// every name is allowed, since only the administrator knows them.
func namesThisHost(r *http.Request) bool {
	address, known := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !known || !isLoopback(address.String()) {
		return true
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	return host == "" || host == "localhost" || net.ParseIP(host) != nil
}

// serveHealth says that rounds end well, or with the status 503 why not, for a monitor that reads only the status.
func serveHealth(w http.ResponseWriter, h *health) {
	last, err := h.check(time.Now())
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, last)
}

// serveJSON serves a value. A round that is not kept is a page that is not there (404).
func serveJSON(w http.ResponseWriter, value any, err error) {
	if errors.Is(err, ledger.ErrNoReport) {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(value) // fails only if the reader is gone
}

// Limits on readers. A report of a large cluster is some megabytes.
const (
	readLimit     = 10 * time.Second
	writeLimit    = time.Minute
	headerLimit   = 16 << 10
	shutdownLimit = 3 * time.Second
)

// listening is a server that answers until it is closed.
type listening struct {
	server  *http.Server
	stopped chan struct{}
}

// listen starts to answer at the address.
func listen(address string, handler http.Handler) (*listening, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen: %w: name another --listen address, or an empty one for none", err)
	}
	return answer(listener, handler), nil
}

// answer starts to answer at the listener.
func answer(listener net.Listener, handler http.Handler) *listening {
	l := &listening{
		server: &http.Server{Addr: listener.Addr().String(), Handler: handler, ReadTimeout: readLimit,
			ReadHeaderTimeout: readLimit,
			WriteTimeout:      writeLimit, MaxHeaderBytes: headerLimit},
		stopped: make(chan struct{}),
	}
	// Requests that wait for the next round end when the server shuts down.
	leave, cancel := context.WithCancel(context.Background())
	l.server.BaseContext = func(net.Listener) context.Context { return leave }
	l.server.RegisterOnShutdown(cancel)
	l.server.SetKeepAlivesEnabled(false) // a reader that has its answer and stays connected would keep others out
	crowd := newBoundedListener(listener, placesHere())
	l.server.ConnState = crowd.follow
	go func() {
		defer close(l.stopped)
		// ends with close; if Accept fails for good, monitoring shows the target as down
		l.server.Serve(crowd)
	}()
	return l
}

// close lets running answers end, and waits for the server.
func (l *listening) close() {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownLimit)
	defer cancel()
	if l.server.Shutdown(ctx) != nil {
		l.server.Close()
	}
	<-l.stopped
}
