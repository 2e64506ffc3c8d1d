package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/ledger"
	"github.com/synergy-slurmd/synergy-slurmd/page"
	"github.com/synergy-slurmd/synergy-slurmd/printable"
	"github.com/synergy-slurmd/synergy-slurmd/savings/book"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/learned"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/library"
)

// sources are what pages show beside reports. The zero value has nothing.
type sources struct {
	config  func() Config           // the configuration that the daemon follows now
	learned func() []*learned.Entry // by user and job name
}

func (s sources) current() Config {
	if s.config == nil {
		return Config{}
	}
	return s.config()
}

// pages serves what is beside the last round: rounds over time, profiles, savings, health.
func (s sources) pages(mux *http.ServeMux, desk *desk, h *health, reports archive) {
	track, trend := &track{reports: reports}, newTrend()
	mux.Handle("GET /rounds", inTurn(desk, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "Accept")
		if !strings.Contains(r.Header.Get("Accept"), "text/html") {
			rounds, err := reports.Rounds()
			serveJSON(w, append([]int{}, rounds...), err)
			return
		}
		reach, err := reachAsked(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		kept, is := reports.(remembered)
		past := page.Past{Reach: reach, Kept: is && kept.past.reader() != nil}
		switch {
		case reach.Days == 0:
			past.Points, err = track.points()
		case past.Kept:
			past.Points, past.Gaps, err = trend.points(r.Context(), kept.past, reach, time.Now())
		}
		servePage(w, err, func(text *bytes.Buffer) error { return page.Rounds(text, past) })
	}))
	mux.Handle("GET /profiles", inTurn(desk, func(w http.ResponseWriter, r *http.Request) {
		s.serveProfiles(w, r, reports)
	}))
	mux.Handle("GET /savings", inTurn(desk, s.serveSavings))
	mux.Handle("GET /health", inTurn(desk, func(w http.ResponseWriter, r *http.Request) {
		report, err := latest(reports)
		servePage(w, err, func(text *bytes.Buffer) error {
			return page.Condition(text, h.checkup(report, time.Now()), time.Now())
		})
	}))
}

// track has the points that are drawn of the last rounds. Each report is decoded once and one at a time, since it has
// some megabytes.
type track struct {
	reports archive

	mu    sync.Mutex
	known map[int]page.Point // by round
}

// points returns the points of the rounds that are still kept, and forgets those of others.
func (t *track) points() (all []page.Point, err error) {
	rounds, err := t.reports.Rounds()
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := make(map[int]page.Point, len(rounds))
	for _, round := range rounds {
		point, known := t.known[round]
		if !known {
			report, err := t.reports.Report(round)
			if errors.Is(err, ledger.ErrNoReport) {
				continue // it was overwritten meanwhile
			}
			if err != nil {
				return nil, err
			}
			point = page.PointOf(report)
		}
		kept[round] = point
		all = append(all, point)
	}
	t.known = kept
	return all, nil
}

func (s sources) serveProfiles(w http.ResponseWriter, r *http.Request, reports archive) {
	values := r.URL.Query()
	wanted := page.Wanted{Text: strings.TrimSpace(values.Get("name"))}
	from, err := rowAsked(values.Get("from"))
	if err == nil && len(wanted.Text) > longestUser {
		err = fmt.Errorf("name has %d bytes: want a part of a name, of at most %d", len(wanted.Text), longestUser)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	wanted.From = from
	files := library.New(s.current().ProfileDirs...)
	shelf := page.Shelf{Lookup: files.Lookup}
	var fault error
	if shelf.Names, fault = files.Names(); fault != nil {
		shelf.Fault = fault.Error()
	}
	if s.learned != nil {
		shelf.Learned = s.learned()
	}
	report, err := latest(reports)
	shelf.Nodes = report.Snapshot.Nodes
	servePage(w, err, func(text *bytes.Buffer) error { return page.Profiles(text, shelf, wanted) })
}

// serveSavings serves the sums of the ledger of savings over the last days.
func (s sources) serveSavings(w http.ResponseWriter, r *http.Request) {
	days := page.Spans[0]
	if text := r.URL.Query().Get("days"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || !slices.Contains(page.Spans, n) {
			http.Error(w, fmt.Sprintf("days = %s: want one of %v", printable.Quote(text, 60), page.Spans),
				http.StatusBadRequest)
			return
		}
		days = n
	}
	shown := page.Saved{Until: time.Now()}
	shown.Since = shown.Until.AddDate(0, 0, -days)
	dir := s.current().Savings
	var err error
	if shown.Kept = dir != ""; shown.Kept {
		shown.Days, shown.Skipped, err = savedDays(dir, shown.Since, shown.Until)
	}
	servePage(w, err, func(text *bytes.Buffer) error { return page.Savings(text, shown) })
}

// savedDays reads the sums of the ledger of savings by day, and how many damaged lines were skipped.
func savedDays(dir string, since, until time.Time) (days []page.Day, skipped int, err error) {
	lines, skipped, err := book.Read(dir, since, until)
	if errors.Is(err, os.ErrNotExist) {
		return nil, 0, nil // nothing was written yet
	}
	for _, d := range book.ByDay(lines) {
		at, fault := time.Parse(time.DateOnly, d.Day)
		if fault != nil {
			continue // a year of five digits
		}
		days = append(days, page.Day{Day: at, Shadow: d.Shadow, Sums: d.Sums})
	}
	return days, skipped, err
}

// mostFailures bounds the remembered failures of rounds. Equal ones in a row are one.
const mostFailures = 20

// failed notes a failed round. It is called with mu held.
func (h *health) failed(now time.Time, err error) {
	kind := diagnose(err)
	if n := len(h.past); n > 0 && h.ailing && h.kind == kind {
		h.past[n-1].Until, h.past[n-1].What = now, printable.Line(err.Error(), longestFault)
		h.past[n-1].Times++
		return
	}
	h.ailing, h.kind = true, kind
	h.past = append(h.past, page.Trouble{What: printable.Line(err.Error(), longestFault), Remedy: kind.remedy(),
		At: now, Until: now, Times: 1})
	h.past = h.past[max(0, len(h.past)-mostFailures):]
}

// note sets what is wrong beside rounds under the heading what; a nil error removes it.
func (h *health) note(what string, err error, remedy string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wrong = slices.DeleteFunc(h.wrong, func(t page.Trouble) bool { return strings.HasPrefix(t.What, what+": ") })
	if err != nil {
		said := what + ": " + printable.Line(err.Error(), longestFault)
		h.wrong = append(h.wrong, page.Trouble{What: said, Remedy: remedy})
	}
}

// longestFault bounds the text of an error that is kept, in bytes.
const longestFault = 2000

// checkup is the content of the page /health: what is wrong now, by the last report, and what was wrong before.
func (h *health) checkup(report bridge.Report, now time.Time) page.Checkup {
	c := page.Checkup{Health: h.told(now), Version: running(), Round: report.Round, Began: report.Began,
		Shadow: report.Shadow, Now: troubles(report)}
	h.mu.Lock()
	defer h.mu.Unlock()
	c.Now = append(slices.Clone(h.wrong), c.Now...)
	c.Past = slices.Clone(h.past)
	slices.Reverse(c.Past)
	return c
}

// troubles are the problems in a report, with what an administrator can do about each.
func troubles(report bridge.Report) (all []page.Trouble) {
	say := func(wrong bool, job int, remedy, format string, args ...any) {
		if wrong {
			all = append(all, page.Trouble{What: fmt.Sprintf(format, args...), Remedy: remedy, Job: job})
		}
	}
	if i := report.Interrupted; i != nil {
		say(true, 0, "", "round %d was cut short; this one started from what is", i.Round)
	}
	say(report.LimitsGap != "", 0, remedyOfLimits, "the site's limits are not known: %s", report.LimitsGap)
	say(report.NoLeaseJob != "", 0, remedyOfLease, "each waiting job has a lease of its own: %s", report.NoLeaseJob)
	say(report.LearnFault != "", 0, remedyOfLearning, "what jobs teach cannot be kept: %s", report.LearnFault)
	say(report.Fallback != "", 0, remedyOfPlanner, "the built-in planner stood in: %s", report.Fallback)
	say(report.Refused != "", 0, remedyOfRefused, "a plan broke a promise, so one was made that stops nobody: %s",
		report.Refused)
	say(report.ClockAhead.Abs() > farApart, 0, remedyOfClocks, "slurm's clock is %s ahead of ours",
		report.ClockAhead.Round(time.Second))
	for _, loss := range report.Lost {
		say(true, loss.Job, "see that its script traps the signal, and ends with the exit code for it",
			"did not come back after it was asked to save and leave: it %s", loss.Why)
	}
	for _, s := range report.Steps {
		say(s.Error != "", s.Job, "the next round tries again", "%s: %s", s.Verb, s.Error)
	}
	for _, found := range report.Contradicting {
		say(true, found.Job, "measure its model again, or take the profile away", "contradicts its profile: %s",
			found.String())
	}
	for _, found := range report.Slowed {
		say(true, found.Job, "see what its node's synergy-broker says; its profile may say too little of its GPU",
			"slowed down: %s", found.String())
	}
	for _, found := range report.Unruly {
		say(true, found.Job, "see its program's turns in docs/sharing.md: it holds the GPU for longer than it says",
			"keeps turns: it %s", found.String())
	}
	for _, word := range bridge.AllIgnored() {
		n := report.Ignored[word]
		say(n > 0, 0, "the notes on the first page say of which jobs and why",
			"jobs of which a word is ignored, %s: %d", word, n)
	}
	return all
}
