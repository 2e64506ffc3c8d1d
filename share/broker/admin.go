package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/share/node"
	"github.com/synergy-slurmd/synergy-slurmd/share/wire"
)

// serveAdmin serves the administrator's socket over HTTP until the context ends. GET /status and /metrics are for
// people and Prometheus. POST /look is what a prolog sends (Tell): it answers only when the Fillers of the named GPUs
// have taken the new stamps in. That may include the start of an MPS daemon, hence the long WriteTimeout.
func (b *Broker) serveAdmin(ctx context.Context, l net.Listener) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(b.Status())
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		_, _ = io.WriteString(w, Metrics(b.Status()))
	})
	mux.HandleFunc("POST /look", func(w http.ResponseWriter, r *http.Request) {
		within, stop := context.WithCancel(r.Context())
		defer stop()
		defer context.AfterFunc(ctx, stop)()
		b.refreshNow(within, namedGPUs(r))
		w.WriteHeader(http.StatusNoContent)
	})
	server := &http.Server{Handler: mux, ReadTimeout: 5 * time.Second, WriteTimeout: time.Minute,
		IdleTimeout: 10 * time.Second, MaxHeaderBytes: 8 << 10}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		b.Log.Error("answer the administrator", "error", err)
	}
}

// Status returns the state of the broker and its GPUs.
func (b *Broker) Status() wire.Status {
	s := wire.Status{V: wire.Version, Release: b.Release, Up: time.Since(b.start).Seconds(),
		Policy: string(b.Rules.Policy)}
	for _, g := range b.gpus {
		s.GPUs = append(s.GPUs, g.status())
	}
	s.StillFrozen, s.ThawFailures = b.freezeController.status()
	s.StampErrors, s.LastStampError = b.unstamped()
	b.admission.mu.Lock()
	defer b.admission.mu.Unlock()
	s.Refused = maps.Clone(b.admission.refused)
	return s
}

// unstamped returns how many jobs' stamps could not be written, and the last of them; nil if there are none. These jobs
// run outside the turns, which only the status shows. A file that cannot be read is logged and counts as empty, so that
// the rest of the status is still served.
func (b *Broker) unstamped() (int, *wire.Unstamped) {
	last, err := node.LastUnstamped(b.RunDir)
	if err != nil {
		b.Log.Error("read which jobs could not be stamped", "error", err)
	}
	if last.N == 0 {
		return 0, nil
	}
	return last.N, &wire.Unstamped{Job: last.Job, Since: time.Since(last.At).Seconds(), Error: last.Error}
}

// maxAnswer is more than the largest possible status, bytes.
const maxAnswer = 4 << 20

// Ask asks the broker of this node, which runs in the folder dir, for its status.
func Ask(ctx context.Context, dir string) (wire.Status, error) {
	text, err := adminRequest(ctx, dir, http.MethodGet, "/status")
	if err != nil {
		return wire.Status{}, err
	}
	var s wire.Status
	if err := json.Unmarshal(text, &s); err != nil {
		return wire.Status{}, fmt.Errorf("ask the broker: %w", err)
	}
	return s, nil
}

// adminRequest sends a request to the admin socket of the broker in the folder dir, and returns the body of the answer.
// A status other than 2xx is an error. A body is cut after maxAnswer bytes.
func adminRequest(ctx context.Context, dir, method, path string) ([]byte, error) {
	transport := &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", AdminPath(dir))
		}}
	request, err := http.NewRequestWithContext(ctx, method, "http://broker"+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, fmt.Errorf("ask the broker: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode/100 != 2 {
		return nil, fmt.Errorf("ask the broker: %s", response.Status)
	}
	return io.ReadAll(io.LimitReader(response.Body, maxAnswer))
}

// Metrics formats a status as Prometheus text.
func Metrics(s wire.Status) string {
	var m metrics
	m.name("synergy_broker_up_seconds", "gauge", "Since the broker started.")
	m.value("", s.Up)
	m.name("synergy_broker_refused_total", "counter", "Connections that were not taken, by what they were told.")
	for _, code := range slices.Sorted(maps.Keys(s.Refused)) {
		m.value(fmt.Sprintf(`{code=%q}`, code), float64(s.Refused[code]))
	}
	m.name("synergy_broker_thaw_failures_total", "counter", "Tries to let a stopped job go on that failed.")
	m.value("", float64(s.ThawFailures))
	m.name("synergy_broker_still_frozen", "gauge", "Jobs that are stopped and should not be.")
	m.value("", float64(len(s.StillFrozen)))
	m.name("synergy_broker_stamp_errors_total", "counter", "Jobs whose stamp could not be written: they take no turns.")
	m.value("", float64(s.StampErrors))
	for _, of := range []struct {
		name, kind, help string
		value            func(wire.GPU) float64
	}{
		{"clients", "gauge", "Connections of jobs.",
			func(g wire.GPU) float64 { return float64(len(g.Clients) - g.Silent()) }},
		{"silent", "gauge", "Jobs that ask for no turns and are stopped while others have theirs.",
			func(g wire.GPU) float64 { return float64(g.Silent()) }},
		{"memory_booked_mib", "gauge", "What the jobs that are there may use of the GPU's memory together.",
			func(g wire.GPU) float64 { return float64(g.MemoryBooked) }},
		{"freezes_total", "counter", "Jobs that were stopped since they did not yield.",
			func(g wire.GPU) float64 { return float64(g.Freezes) }},
		{"offences_total", "counter", "Jobs that did not yield so often that they should not share.",
			func(g wire.GPU) float64 { return float64(g.Offences) }},
		{"dropped_total", "counter", "Connections that had outlived their job's stamp.",
			func(g wire.GPU) float64 { return float64(g.Dropped) }},
	} {
		m.name("synergy_broker_"+of.name, of.kind, of.help)
		for _, g := range s.GPUs {
			m.value(fmt.Sprintf(`{gpu="%d"}`, g.GPU), of.value(g))
		}
	}
	for _, of := range []struct {
		name, kind, help string
		value            func(wire.Had) float64
	}{
		{"turns_total", "counter", "Turns granted.", func(h wire.Had) float64 { return float64(h.Turns) }},
		{"held_seconds_total", "counter", "For how long the GPU was held.", func(h wire.Had) float64 { return h.Held }},
		{"overrun_total", "counter", "Turns that went on when they were to be yielded.",
			func(h wire.Had) float64 { return float64(h.Overrun) }},
		{"wait_p50_seconds", "gauge", "Median wait of the last thousand turns.",
			func(h wire.Had) float64 { return h.WaitP50 }},
		{"wait_p95_seconds", "gauge", "The wait that one in twenty of the last thousand turns exceeded.",
			func(h wire.Had) float64 { return h.WaitP95 }},
	} {
		m.name("synergy_broker_"+of.name, of.kind, of.help)
		for _, g := range s.GPUs {
			for _, class := range slices.Sorted(maps.Keys(g.Classes)) {
				m.value(fmt.Sprintf(`{gpu="%d",class=%q}`, g.GPU, class), of.value(g.Classes[class]))
			}
		}
	}
	return m.String()
}

// metrics collects lines of Prometheus text.
type metrics struct {
	strings.Builder
	last string
}

// name writes the HELP and TYPE lines of a metric. The calls of value that follow write its samples.
func (m *metrics) name(name, kind, help string) {
	m.last = name
	fmt.Fprintf(m, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

// value writes a sample of the metric that name was last called for. labels are in braces, or empty.
func (m *metrics) value(labels string, value float64) {
	fmt.Fprintf(m, "%s%s %g\n", m.last, labels, value)
}
