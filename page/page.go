// Package page draws what a round saw and decided: the nodes with what is granted, lent and idle, the queue with
// reasons, and the jobs. It turns reports into HTML that works without a script and loads nothing from elsewhere. It
// does not know where reports come from.
package page

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/story"
)

//go:embed *.html page.css live.js
var files embed.FS

// Policy is the Content-Security-Policy of the pages: their own style, their own script with its one connection, and
// forms that call this daemon.
const Policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'"

// Health says whether the daemon works, and why not.
type Health struct {
	Well bool
	Says string
}

// File returns a file that the pages link to, and its media type; ok is false if there is none.
func File(name string) (text []byte, kind string, ok bool) {
	kinds := map[string]string{"page.css": "text/css; charset=utf-8", "live.js": "text/javascript; charset=utf-8"}
	kind, ok = kinds[name]
	if !ok {
		return nil, "", false
	}
	text, err := files.ReadFile(name)
	return text, kind, err == nil
}

// Cluster writes the page of a round, with the requested part of the queue. An empty report, as before the first round,
// is drawn as empty.
func Cluster(w io.Writer, report bridge.Report, health Health, asked Asked, now time.Time) error {
	return write(w, "cluster.html", clusterOf(report, health, asked, now))
}

// Node writes the page of one node.
func Node(w io.Writer, report bridge.Report, name string) error {
	return write(w, "node.html", nodePageOf(report, name))
}

// Rounds writes the page of rounds over time.
func Rounds(w io.Writer, past Past) error { return write(w, "rounds.html", roundsOf(past)) }

// Profiles writes the page of profiles and learned profiles.
func Profiles(w io.Writer, s Shelf, wanted Wanted) error {
	return write(w, "profiles.html", shelfOf(s, wanted))
}

// Savings writes the page of the ledger of savings.
func Savings(w io.Writer, s Saved) error { return write(w, "savings.html", savedOf(s)) }

// Condition writes the page of the daemon's health.
func Condition(w io.Writer, c Checkup, now time.Time) error {
	return write(w, "health.html", checkupOf(c, now))
}

// Job writes the page of one job.
func Job(w io.Writer, told story.Story) error { return write(w, "job.html", told) }

// place is a page in the navigation of every page.
type place struct{ Name, Path string }

var places = []place{{"Cluster", "/"}, {"Rounds", "/rounds"}, {"Profiles", "/profiles"}, {"Savings", "/savings"},
	{"Health", "/health"}}

// frame is the data of the common part of all pages.
type frame struct {
	Title   string
	Here    string // the name of the page in the navigation; empty: it is not there
	Renewed bool   // it changes with each round
}

func frameOf(title, here string) frame {
	return frame{title, here, here != "/profiles" && here != "/savings"}
}

var pages = template.Must(template.New("").Funcs(words).ParseFS(files, "*.html"))

func write(w io.Writer, name string, view any) error {
	if err := pages.ExecuteTemplate(w, name, view); err != nil {
		return fmt.Errorf("page %s: %w", name, err)
	}
	return nil
}
