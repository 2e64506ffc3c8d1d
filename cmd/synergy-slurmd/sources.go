package main

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/page"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/learned"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/library"
)

// sources are what pages show beside reports. The zero value has nothing.
type sources struct {
	config  func() Config           // the configuration that the daemon follows now
	learned func() []*learned.Entry // by user and job name
}

// current is the configuration that the daemon follows; the zero one before there is any.
func (s sources) current() Config {
	if s.config == nil {
		return Config{}
	}
	return s.config()
}

// serveProfiles serves the page of profiles, with the part of it that the request asks for.
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
