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

//go:embed cluster.html job.html frame.html page.css live.js
var files embed.FS

// Policy is the Content-Security-Policy under which the pages work: their own style, their own script, and its one
// connection.
const Policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'none'; " +
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

// Cluster writes the page of a round. A report of which nothing is set, as before the first round, is drawn as that.
func Cluster(w io.Writer, report bridge.Report, health Health, now time.Time) error {
	return write(w, "cluster.html", clusterOf(report, health, now))
}

// Job writes the page of one job.
func Job(w io.Writer, told story.Story) error { return write(w, "job.html", told) }

var pages = template.Must(template.New("").Funcs(words).ParseFS(files, "*.html"))

func write(w io.Writer, name string, view any) error {
	if err := pages.ExecuteTemplate(w, name, view); err != nil {
		return fmt.Errorf("page %s: %w", name, err)
	}
	return nil
}
