package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/history"
	"github.com/synergy-slurmd/synergy-slurmd/policy/replay"
	"github.com/synergy-slurmd/synergy-slurmd/story"
)

// historyConfig is the section history of the configuration: where rounds are kept, and how many.
type historyConfig struct {
	Path    string        // absolute; empty: no history is kept
	Keep    time.Duration // for how long a day is kept
	MostGiB int           // size of all days together
}

// Limits on the historian's work beside the rounds.
const (
	mostBehind   = 16              // reports that may wait to be written; further ones are left out
	lastBookings = 5 * time.Second // to write the waiting reports when the daemon stops
)

// errBehind means that the disk is too slow, or hangs.
var errBehind = errors.New("its disk is too slow: reports are left out")

// historyWriter writes reports to the history beside the rounds: no round waits for it, and none fails for it. A
// failure is logged once.
type historyWriter struct {
	log     zerolog.Logger
	version string
	reports chan queuedReport

	mu    sync.Mutex
	ill   bool          // the last report was not written
	open  historyConfig // of the store
	store *history.Store
}

// queuedReport is a report to be written, and where.
type queuedReport struct {
	where  historyConfig
	report bridge.Report
}

func newHistoryWriter(log zerolog.Logger) *historyWriter {
	return &historyWriter{log: log, version: programVersion(), reports: make(chan queuedReport, mostBehind)}
}

// work writes reports until stop is called. Reports that wait then are written within lastBookings, or left out on a
// disk that hangs.
func (h *historyWriter) work() (stop func()) {
	if h == nil {
		return func() {}
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		for b := range h.reports {
			h.book(b)
		}
		h.close()
	}()
	return func() {
		close(h.reports)
		select {
		case <-over:
		case <-time.After(lastBookings):
			h.log.Error().Msg("the last reports are not in the history: its disk hangs")
		}
	}
}

// note queues a report, if the round got as far as a plan. A round gets to its steps (diff) with a plan only. If the
// queue is full the report is left out.
func (h *historyWriter) note(config Config, report bridge.Report) {
	planned := slices.ContainsFunc(report.Phases, func(p bridge.Phase) bool { return p.Name == "diff" })
	if h == nil || !planned {
		return
	}
	select {
	case h.reports <- queuedReport{config.History, report}:
	default:
		h.logResult(fmt.Errorf("book round %d in the history: %w", report.Round, errBehind))
	}
}

// book writes a report to the folder that its configuration names.
func (h *historyWriter) book(b queuedReport) {
	if b.where != h.open {
		h.close()
	}
	if b.where.Path == "" {
		return
	}
	store := h.current()
	if store == nil {
		opened, err := history.Open(b.where.Path, history.Options{Keep: b.where.Keep,
			MostBytes: int64(b.where.MostGiB) << 30, Version: h.version})
		if err != nil {
			h.logResult(err)
			return
		}
		store = opened
		h.keep(b.where, store)
	}
	h.logResult(store.Note(&b.report))
}

// current is the open store; nil: none is open.
func (h *historyWriter) current() *history.Store {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.store
}

// keep notes the open store, and the configuration that it was opened with.
func (h *historyWriter) keep(where historyConfig, store *history.Store) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open, h.store = where, store
}

// close closes the store, as when the configuration names another one.
func (h *historyWriter) close() {
	if store := h.current(); store != nil {
		h.keep(historyConfig{}, nil)
		h.logResult(store.Close())
	}
}

// logResult logs when writing begins to fail, and when it works again.
func (h *historyWriter) logResult(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil && !h.ill {
		h.log.Error().Err(err).Str("remedy", remedyOf(err)).Msg("rounds are not booked in the history")
	}
	if err == nil && h.ill {
		h.log.Info().Msg("rounds are booked in the history again")
	}
	h.ill = err != nil
}

// failing is 1 while reports are not written.
func (h *historyWriter) failing() float64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ill {
		return 1
	}
	return 0
}

// remedyOf is what an administrator can do about an error of the history.
func remedyOf(err error) string {
	switch {
	case errors.Is(err, history.ErrRoom):
		return "make room, or keep less: history.keep, history.max_gib"
	case errors.Is(err, history.ErrLocked):
		return "stop the other daemon, or give this one a folder of its own as history.path"
	case errors.Is(err, errBehind):
		return "name a folder on a local disk as history.path"
	}
	return "make the folder of history.path the daemon's to write"
}

// reader reads the history; nil: none is kept.
func (h *historyWriter) reader() *history.Reader {
	if store := h.current(); store != nil {
		return store.Reader()
	}
	return nil
}

// archiveWithHistory is the archive of the last reports, with the history, which goes back further.
type archiveWithHistory struct {
	archive
	past *historyWriter
}

// storyLimit bounds reading a year of history for one job.
const storyLimit = 10 * time.Second

// storyOf returns a job's story from the history, if there is one, and from the last reports. With a history only the
// last report is read beside it, for what the job does now.
func storyOf(ctx context.Context, reports archive, job int) (story.Story, error) {
	past, reader := historyOf(reports)
	if reader == nil {
		last, err := latestOf(reports, pastRounds)
		return story.Of(job, last), err
	}
	last, err := latestOf(reports, 1)
	if err != nil {
		return story.Story{}, err
	}
	within, cancel := context.WithTimeout(ctx, storyLimit)
	defer cancel()
	passages, gaps, err := reader.Story(within, job)
	past.tellGaps(gaps)
	return story.Join(job, passages, story.Of(job, last)), err
}

// historyOf returns the history that is kept beside the reports, and its reader; nil: there is none. Each request asks
// for the reader once, since the store may be closed at any moment.
func historyOf(reports archive) (*historyWriter, *history.Reader) {
	kept, is := reports.(archiveWithHistory)
	if !is {
		return nil, nil
	}
	return kept.past, kept.past.reader()
}

// tellGaps logs for the administrator which days readers have to do without.
func (h *historyWriter) tellGaps(gaps []error) {
	for _, gap := range gaps {
		h.log.Debug().Err(gap).Msg("a day of the history is left out")
	}
}

// handleHistory serves the pages made from the history.
func handleHistory(mux *http.ServeMux, desk *pageLimiter, reports archive) {
	mux.Handle("GET /story/{job}", limitedPage(desk, func(w http.ResponseWriter, r *http.Request) {
		id, err := strconv.Atoi(r.PathValue("job"))
		if err != nil || id < 1 {
			http.Error(w, "want the number of a job, as /story/4711", http.StatusBadRequest)
			return
		}
		told, err := storyOf(r.Context(), reports, id)
		serveText(w, told, err)
	}))
	mux.Handle("GET /history", limitedPage(desk, func(w http.ResponseWriter, r *http.Request) {
		_, reader := historyOf(reports)
		if reader == nil {
			http.Error(w, "no history is kept: name a folder as history.path in the configuration", http.StatusNotFound)
			return
		}
		q, err := question(r.URL.Query(), time.Now())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		within, cancel := context.WithTimeout(r.Context(), writeLimit/2)
		defer cancel()
		runs, more, gaps, err := reader.Runs(within, q)
		answer := runsAnswer{Runs: append([]story.Run{}, runs...), More: more}
		for _, gap := range gaps {
			answer.Gaps = append(answer.Gaps, gap.Error())
		}
		serveText(w, answer, err)
	}))
	mux.Handle("GET /replay/{round}", limitedPage(desk, func(w http.ResponseWriter, r *http.Request) {
		number, err := strconv.Atoi(r.PathValue("round"))
		if err != nil || number < 1 {
			http.Error(w, "want the number of a round, as /replay/17", http.StatusBadRequest)
			return
		}
		text, err := keptRound(reports, number)
		switch {
		case errors.Is(err, history.ErrNoRound):
			http.Error(w, err.Error(), http.StatusNotFound)
		case err != nil:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		default:
			w.Header().Set("Content-Type", "application/json")
			w.Write(text) // fails only if the reader is gone
		}
	}))
}

// runsAnswer is the answer of /history.
type runsAnswer struct {
	Runs []story.Run `json:"runs"`
	More bool        `json:"more,omitempty"` // there are others, which began before
	Gaps []string    `json:"gaps,omitempty"` // days that could not be read
}

// mostRuns bounds an answer.
const mostRuns = 10_000

// question reads the parameters of /history: user, job, since and until, the last two in the form of RFC 3339.
func question(words url.Values, now time.Time) (history.Question, error) {
	q := history.Question{User: words.Get("user"), Until: now, Most: mostRuns}
	for name, at := range map[string]*time.Time{"since": &q.Since, "until": &q.Until} {
		if text := words.Get(name); text != "" {
			moment, err := time.Parse(time.RFC3339, text)
			if err != nil {
				return q, fmt.Errorf("%s=%.40q: want a time as 2026-11-01T00:00:00Z", name, text)
			}
			*at = moment
		}
	}
	if text := words.Get("job"); text != "" {
		job, err := strconv.Atoi(text)
		if err != nil || job < 1 {
			return q, fmt.Errorf("job=%.40q: want the number of a job", text)
		}
		q.Job = job
	}
	return q, nil
}

// keptRound returns a round with all that is needed to plan it again, from the history or else from the last reports.
func keptRound(reports archive, number int) ([]byte, error) {
	if _, reader := historyOf(reports); reader != nil {
		if text, err := reader.Round(number); !errors.Is(err, history.ErrNoRound) {
			return text, err
		}
	}
	rounds, err := reports.Rounds()
	if err != nil {
		return nil, err
	}
	if !slices.Contains(rounds, number) {
		return nil, fmt.Errorf("round %d: %w", number, history.ErrNoRound)
	}
	report, err := reports.Report(number)
	if err != nil {
		return nil, err
	}
	round := replay.Round{Round: report.Round, Began: report.Began, External: report.External, Shadow: report.Shadow,
		Snapshot: report.Snapshot, Profiles: report.Profiles, Policy: report.Policy, Allocator: report.Allocator,
		Plan: report.Plan}
	return round.Print()
}

// serveText serves an answer made from the history, as JSON.
func serveText[T story.Story | runsAnswer](w http.ResponseWriter, value T, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(value) // fails only if the reader is gone
}
