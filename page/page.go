// Package page draws what a round saw and decided: the nodes with what is granted, lent and idle, the queue with
// reasons, and the jobs; and what is known of how fast models train. It turns reports into HTML that works without a
// script and loads nothing from elsewhere. It does not know where reports come from. Series over time are Prometheus'
// and Grafana's.
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

// The pages, and what leads to them from each page. The queue is a section of the cluster's page, and jobs are linked
// where they are named.
var (
	clusterPage  = pageTemplate("cluster.html")
	jobPage      = pageTemplate("job.html")
	profilesPage = pageTemplate("profiles.html")

	places = []place{{"Cluster", "/"}, {"Queue", "/#queue"}, {"Profiles", "/profiles"}}
)

// place is an entry of the navigation.
type place struct{ Name, Path string }

// pageTemplate parses frame.html with the file of one page. The file defines the template "main", and may define "top",
// which stands under the title.
func pageTemplate(file string) *template.Template {
	return template.Must(template.New("frame.html").Funcs(words).ParseFS(files, "frame.html", file))
}

// frame is the data of frame.html.
type frame struct {
	Title  string
	Here   string // its path in the navigation; empty: it is not there
	Round  int    // the round that is shown; 0: none
	Reload bool   // without a script it reloads itself, since each round changes it
	Page   any    // the data of the page's own templates
	Places []place
}

// Cluster writes the page of a round, with the requested part of the queue. An empty report, as before the first round,
// is drawn as empty.
func Cluster(w io.Writer, report bridge.Report, health Health, asked Asked, now time.Time) error {
	return write(w, clusterPage, frame{Title: "synergy-slurmd", Here: "/", Round: report.Round, Reload: true,
		Page: clusterOf(report, health, asked, now)})
}

// Job writes the page of one job.
func Job(w io.Writer, told story.Story) error {
	return write(w, jobPage, frame{Title: fmt.Sprintf("Job %d", told.Job), Round: told.Round, Reload: true, Page: told})
}

// Profiles writes the page of profiles and learned profiles.
func Profiles(w io.Writer, s Shelf, wanted Wanted) error {
	return write(w, profilesPage, frame{Title: "Profiles", Here: "/profiles", Page: newProfileList(s, wanted)})
}

// pager has the addresses of the rows before and after those that are shown; empty: there are none.
type pager struct{ Back, Next string }

// paged returns the rows that are shown, at most most, the number of rows before them, and what leads to the others. at
// is the address of the rows from a number on; any number may be asked for. A number beyond the rows shows none, with a
// way back.
func paged[T any](rows []T, asked, most int, at func(from int) string) (shown []T, from int, to pager) {
	from = min(max(0, asked), len(rows))
	if from > 0 {
		to.Back = at(max(0, from-most))
	}
	if from+most < len(rows) {
		to.Next = at(from + most)
	}
	return rows[from:min(len(rows), from+most)], from, to
}

func write(w io.Writer, page *template.Template, f frame) error {
	f.Places = places
	if err := page.Execute(w, f); err != nil {
		return fmt.Errorf("page %s: %w", f.Title, err)
	}
	return nil
}
