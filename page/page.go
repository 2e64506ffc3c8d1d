// Package page draws what a round saw and decided as people think of a cluster: its nodes with what is given, lent and
// idle, its queue with reasons, its jobs. It turns reports into HTML that needs no script and nothing from elsewhere,
// and refuses to know where reports come from or who reads.
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

// Policy is the Content-Security-Policy under which the pages work: their own style, their own script and its one
// connection, and forms that ask this daemon.
const Policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'"

// Health is whether the daemon does its work, in words.
type Health struct {
	Well bool
	Says string
}

// File is a file that the pages name, by its name, with its type; ok is false where there is none.
func File(name string) (text []byte, kind string, ok bool) {
	kinds := map[string]string{"page.css": "text/css; charset=utf-8", "live.js": "text/javascript; charset=utf-8"}
	kind, ok = kinds[name]
	if !ok {
		return nil, "", false
	}
	text, err := files.ReadFile(name)
	return text, kind, err == nil
}

// Cluster writes the page of a round, with the part of the queue that was asked for. A report of which nothing is set,
// as before the first round, is drawn as that.
func Cluster(w io.Writer, report bridge.Report, health Health, asked Asked, now time.Time) error {
	return write(w, "cluster.html", clusterOf(report, health, asked, now))
}

// Node writes the page of one node: who has what of it.
func Node(w io.Writer, report bridge.Report, name string) error {
	return write(w, "node.html", nodePageOf(report, name))
}

// Rounds writes the page of rounds over time.
func Rounds(w io.Writer, past Past) error { return write(w, "rounds.html", roundsOf(past)) }

// Profiles writes the page of what is known of how fast models train.
func Profiles(w io.Writer, s Shelf, wanted Wanted) error {
	return write(w, "profiles.html", shelfOf(s, wanted))
}

// Savings writes the page of what was saved, or would have been.
func Savings(w io.Writer, s Saved) error { return write(w, "savings.html", savedOf(s)) }

// Condition writes the page of how the daemon does.
func Condition(w io.Writer, c Checkup, now time.Time) error {
	return write(w, "health.html", checkupOf(c, now))
}

// Job writes the page of one job.
func Job(w io.Writer, told story.Story) error { return write(w, "job.html", told) }

// place is a page that all others lead to.
type place struct{ Name, Path string }

var places = []place{{"Cluster", "/"}, {"Rounds", "/rounds"}, {"Profiles", "/profiles"}, {"Savings", "/savings"},
	{"Health", "/health"}}

// frame is what is around a page.
type frame struct {
	Title   string
	Here    string // the place that it is; empty: none of them
	Renewed bool   // by each round
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
