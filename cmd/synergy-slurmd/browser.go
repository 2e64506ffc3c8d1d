package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/ledger"
	"github.com/synergy-slurmd/synergy-slurmd/page"
	"github.com/synergy-slurmd/synergy-slurmd/printable"
)

// handleBrowser serves the pages for browsers. A client of / that does not accept HTML gets the index as text. The page
// of the cluster without a query is the same for all, and cached.
func handleBrowser(mux *http.ServeMux, desk *pageLimiter, h *health, reports archive) {
	cluster := func(w http.ResponseWriter, r *http.Request) { serveCluster(w, r, h, reports) }
	part, whole := limitedPage(desk, cluster), &cachedPage{render: http.HandlerFunc(cluster), version: h.lastGoodTime}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !isBrowser(r):
			fmt.Fprint(w, index)
		case r.URL.RawQuery == "":
			whole.ServeHTTP(w, r)
		default:
			part.ServeHTTP(w, r)
		}
	})
	mux.Handle("GET /jobs/{job}", limitedPage(desk, func(w http.ResponseWriter, r *http.Request) {
		id, err := strconv.Atoi(r.PathValue("job"))
		if err != nil || id < 1 {
			http.Error(w, "want the number of a job, as /jobs/4711", http.StatusBadRequest)
			return
		}
		serveJob(r.Context(), w, id, reports)
	}))
	mux.Handle("GET /profiles", limitedPage(desk, func(w http.ResponseWriter, r *http.Request) {
		h.beside.serveProfiles(w, r, reports)
	}))
	for path, instead := range gone {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, instead, http.StatusGone)
		})
	}
	mux.HandleFunc("GET /page/{file}", serveFile)
	heard := make(chan struct{}, listeners)
	mux.HandleFunc("GET /page/events", func(w http.ResponseWriter, r *http.Request) { serveEvents(w, r, h, heard) })
}

// isBrowser reports whether a request accepts HTML, as those of browsers do.
func isBrowser(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "text/html") }

// gone are the addresses of pages that there are no more, with what to read instead. A browser that asks for /rounds is
// told goneRounds.
var gone = map[string]string{
	"/health":       "this page is gone: what is wrong stands at the top of /, and for programs there is /status",
	"/nodes/{node}": "this page is gone: what each node has, and which jobs run on it, stands on /#cluster",
	"/savings":      "this page is gone: run synergy savings, and see Grafana for savings over time",
}

const goneRounds = "this page is gone: see Grafana for rounds over time, with etc/grafana/synergy.json as its " +
	"dashboard; /round/17 is one round; programs that do not ask for HTML get the numbers of those that are kept"

// serveNumbers serves the numbers of the rounds that are kept, to programs.
func serveNumbers(w http.ResponseWriter, r *http.Request, reports archive) {
	if isBrowser(r) {
		http.Error(w, goneRounds, http.StatusGone)
		return
	}
	rounds, err := reports.Rounds()
	serveJSON(w, append([]int{}, rounds...), err)
}

// pastRounds is how many rounds a job's page looks back if no history is kept. Each report is read and decoded for
// every page.
const pastRounds = 12

// serveCluster serves the first page, which is empty before the first round, with the part of the queue that was asked
// for.
func serveCluster(w http.ResponseWriter, r *http.Request, h *health, reports archive) {
	asked, err := askedBy(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	report, err := latest(reports)
	servePage(w, err, func(text *bytes.Buffer) error {
		return page.Cluster(text, report, h.pageHealth(report, time.Now()), asked, time.Now())
	})
}

// latest is the last report, or an empty one before the first round.
func latest(reports archive) (bridge.Report, error) {
	report, err := reports.Latest()
	if errors.Is(err, ledger.ErrNoReport) {
		err = nil
	}
	return report, err
}

// longestUser is the longest user name that the queue can be filtered by, in bytes.
const longestUser = 256

// askedBy reads from a request which part of the queue it wants.
func askedBy(r *http.Request) (page.Asked, error) {
	values := r.URL.Query()
	asked := page.Asked{User: strings.TrimSpace(values.Get("user")), Cause: bridge.WaitCause(values.Get("cause"))}
	if len(asked.User) > longestUser {
		return asked, fmt.Errorf("user has %d bytes: want the name of one, of at most %d", len(asked.User), longestUser)
	}
	if asked.Cause != "" && !slices.Contains(bridge.WaitCauses(), asked.Cause) {
		return asked, fmt.Errorf("cause = %s: want one that the table of causes has, as %s",
			printable.Quote(string(asked.Cause), 60), bridge.CauseTurn)
	}
	var err error
	asked.From, err = rowAsked(values.Get("from"))
	return asked, err
}

// rowAsked reads the number of the first row to show.
func rowAsked(text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	from, err := strconv.Atoi(text)
	if err != nil || from < 0 {
		return 0, fmt.Errorf("from = %s: want a number of rows, as 250", printable.Quote(text, 60))
	}
	return from, nil
}

func serveJob(ctx context.Context, w http.ResponseWriter, id int, reports archive) {
	told, err := storyOf(ctx, reports, id)
	servePage(w, err, func(text *bytes.Buffer) error { return page.Job(text, told) })
}

// latestOf returns the reports of the last rounds, newest first. A report that was overwritten meanwhile is left out.
func latestOf(reports archive, most int) (past []bridge.Report, err error) {
	rounds, err := reports.Rounds()
	if err != nil {
		return nil, err
	}
	slices.SortFunc(rounds, func(a, b int) int { return b - a })
	for _, round := range rounds[:min(most, len(rounds))] {
		report, err := reports.Report(round)
		switch {
		case errors.Is(err, ledger.ErrNoReport):
		case err != nil:
			return nil, err
		default:
			past = append(past, report)
		}
	}
	return past, nil
}

// servePage writes a whole page, or the error. The page is drawn in memory first, so no half page is sent.
func servePage(w http.ResponseWriter, err error, draw func(*bytes.Buffer) error) {
	var text bytes.Buffer
	if err == nil {
		err = draw(&text)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Security-Policy", page.Policy)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Write(text.Bytes()) // fails only if the reader is gone
}

// serveFile serves what pages refer to: styles and scripts.
func serveFile(w http.ResponseWriter, r *http.Request) {
	text, kind, ok := page.File(r.PathValue("file"))
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Write(text)
}

const (
	// listeners is how many connections may wait for the next round at once; other browsers reload from time to time.
	listeners = 16
	// earshot is how long one request waits. The browser then asks again, so that no reader keeps its connection.
	earshot = 45 * time.Second
)

// serveEvents sends a server-sent event when the next round ends, if that is soon enough, and closes. The request says
// which round its page shows (?after=) or of which round the browser heard last (Last-Event-ID). If a later round has
// ended already, it is sent at once.
func serveEvents(w http.ResponseWriter, r *http.Request, h *health, heard chan struct{}) {
	select {
	case heard <- struct{}{}:
		defer func() { <-heard }()
	default:
		http.Error(w, "too many listen at once", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprint(w, "retry: 1000\n\n")
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
	known, err := strconv.Atoi(r.Header.Get("Last-Event-ID"))
	if err != nil {
		known, _ = strconv.Atoi(r.URL.Query().Get("after")) // without a number it is 0: no round
	}
	if number, held := h.next(r.Context(), known, earshot); held {
		fmt.Fprintf(w, "event: round\nid: %d\ndata: %d\n\n", number, number)
	}
}
