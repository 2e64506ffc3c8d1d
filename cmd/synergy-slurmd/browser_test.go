package main

import (
	"context"
	"html"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/ledger"
	"github.com/synergy-slurmd/synergy-slurmd/page"
)

// browse asks as a browser does.
func browse(pages http.Handler, path string) *httptest.ResponseRecorder {
	answer := httptest.NewRecorder()
	request := httptest.NewRequest("GET", path, nil)
	request.Header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	pages.ServeHTTP(answer, request)
	return answer
}

func TestABrowserIsShownAPageAndEverybodyElseTheIndex(t *testing.T) {
	pages, _ := site(t)
	for path, has := range map[string]string{"/": "<h2 id=\"round-h\">Round 17</h2>", "/jobs/1": "&lt;script&gt;",
		"/page/page.css": "--paper", "/page/live.js": "EventSource"} {
		answer := browse(pages, path)
		if answer.Code != 200 || !strings.Contains(answer.Body.String(), has) {
			t.Errorf("%s: %d, want %q:\n%s", path, answer.Code, has, answer.Body)
		}
		if kind := answer.Header().Get("Content-Type"); strings.HasPrefix(kind, "text/html") &&
			answer.Header().Get("Content-Security-Policy") != page.Policy {
			t.Errorf("%s may take anything from anywhere: %v", path, answer.Header())
		}
	}
	if text := body(t, get(t, pages, "GET", "/")); strings.Contains(text, "<html") {
		t.Errorf("who does not ask for HTML gets\n%s", text)
	}
	for path, code := range map[string]int{"/jobs/x": 400, "/jobs/-1": 400, "/jobs/99": 200, "/page/page.go": 404,
		"/page/../http.go": 307, "/nodes/n1/gpus": 404} {
		if answer := browse(pages, path); answer.Code != code {
			t.Errorf("%s: %d, want %d", path, answer.Code, code)
		}
	}
}

// TestABrowserThatAsksForAPageThatIsGoneIsToldWhereToLook, at an address that answers; a program has the numbers of
// rounds as before.
func TestABrowserThatAsksForAPageThatIsGoneIsToldWhereToLook(t *testing.T) {
	pages, _ := site(t)
	for path, instead := range map[string]string{"/health": "/", "/health?x=1": "/status", "/nodes/n1": "/#cluster",
		"/savings?days=30": "synergy savings", "/savings": "Grafana", "/rounds": "etc/grafana/synergy.json",
		"/rounds?days=7": "/round/17"} {
		answer := browse(pages, path)
		if text := answer.Body.String(); answer.Code != http.StatusGone || !strings.Contains(text, instead) ||
			!strings.HasPrefix(text, "this page is gone: ") {
			t.Errorf("%s: %d %s, want a word of %s", path, answer.Code, text, instead)
		}
		if strings.HasPrefix(instead, "etc/") {
			read(t, "../"+instead)
		}
		instead, _, _ = strings.Cut(instead, "#")
		if strings.HasPrefix(instead, "/") && browse(pages, instead).Code != 200 {
			t.Errorf("%s leads to %s, which does not answer", path, instead)
		}
	}
	if text := body(t, get(t, pages, "GET", "/rounds")); strings.TrimSpace(text) != "[16,17]" {
		t.Errorf("a program is told %s", text)
	}
}

// TestNoLinkOfAPageLeadsNowhere, on any page that can be reached from the first one, with a queue, with faults and with
// profiles.
func TestNoLinkOfAPageLeadsNowhere(t *testing.T) {
	memory := &ledger.Memory{}
	report := historic(1)
	report.Steps = []bridge.Step{{Job: 17, Verb: bridge.Start, Error: "503"}}
	report.Outside = []bridge.Outside{{Job: 30, Why: "held"}}
	for job := range 600 {
		report.Waits = append(report.Waits, bridge.Wait{Job: 100 + job, Reason: bridge.ForRoom, Cause: bridge.CauseTurn,
			Place: job + 1})
	}
	if err := memory.Settle(nil, report); err != nil {
		t.Fatal(err)
	}
	h := newHealth(fiveMinutes, time.Now())
	h.round(0, time.Now(), context.DeadlineExceeded)
	h.beside.config = func() Config { return Config{ProfileDirs: []string{"../../etc/profiles"}} }
	all := pages(h, testMetrics().registry, memory)
	link, seen := regexp.MustCompile(`(?:href|src|action)="([^"]*)"`), map[string]bool{}
	for next := []string{"/"}; len(next) > 0; next = next[1:] {
		answer := browse(all, next[0])
		if answer.Code != 200 {
			t.Errorf("%s: %d", next[0], answer.Code)
		}
		text := answer.Body.String()
		if !strings.HasPrefix(answer.Header().Get("Content-Type"), "text/html") {
			continue
		}
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			path, section, _ := strings.Cut(html.UnescapeString(m[1]), "#")
			if path == "" && !strings.Contains(text, `id="`+section+`"`) {
				t.Errorf("%s has no #%s", next[0], section)
			}
			if path == "/" && section != "" && !strings.Contains(browse(all, "/").Body.String(), `id="`+section+`"`) {
				t.Errorf("%s leads to /#%s, which there is not", next[0], section)
			}
			if path != "" && !seen[path] {
				seen[path] = true
				next = append(next, path)
			}
		}
	}
	for _, path := range []string{"/", "/profiles", "/jobs/17", "/jobs/30", "/jobs/349", "/?from=250", "/?cause=turn",
		"/round", "/page/live.js"} {
		if !seen[path] {
			t.Errorf("nothing leads to %s", path)
		}
	}
}

// TestTheNextRoundIsToldToThoseWhoListen, and to them alone.
func TestTheNextRoundIsToldToThoseWhoListen(t *testing.T) {
	defer goleak.VerifyNone(t)
	pages, h := site(t)
	answers := make(chan string, 2)
	for range 2 {
		go func() { answers <- browse(pages, "/page/events").Body.String() }()
	}
	listening := func() bool { h.mu.Lock(); defer h.mu.Unlock(); return h.held != nil }
	for !listening() {
		time.Sleep(time.Millisecond)
	}
	h.round(18, time.Now(), context.Canceled) // one that failed is none
	for told := 0; told < 2; {
		h.round(19, time.Now(), nil)
		select {
		case text := <-answers:
			if told++; !strings.Contains(text, "event: round\nid: 19\ndata: 19\n\n") {
				t.Errorf("told %q", text)
			}
		case <-time.After(10 * time.Millisecond): // the other one did not listen yet
		}
	}
}

// TestARoundThatWasHeldMeanwhileIsToldAtOnce: a page shows one that is older, or its browser was told of one.
func TestARoundThatWasHeldMeanwhileIsToldAtOnce(t *testing.T) {
	pages, h := site(t)
	h.round(18, time.Now(), nil)
	for _, told := range []struct{ path, id string }{{"/page/events?after=17", ""}, {"/page/events?after=3", "17"}} {
		answer := httptest.NewRecorder()
		request := httptest.NewRequest("GET", told.path, nil)
		request.Header.Set("Last-Event-ID", told.id)
		pages.ServeHTTP(answer, request)
		if !strings.Contains(answer.Body.String(), "data: 18\n\n") {
			t.Errorf("%s, %s: %q", told.path, told.id, answer.Body)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for _, query := range []string{"", "?after=18", "?after=-1", "?after=x"} {
		path := "/page/events" + query
		answer := httptest.NewRecorder()
		pages.ServeHTTP(answer, httptest.NewRequestWithContext(ctx, "GET", path, nil))
		if strings.Contains(answer.Body.String(), "data") {
			t.Errorf("%s: %q", path, answer.Body)
		}
	}
}

// TestWhoListensDoesNotHoldUpTheEnd of the daemon.
func TestWhoListensDoesNotHoldUpTheEnd(t *testing.T) {
	defer goleak.VerifyNone(t)
	pages, h := site(t)
	server, err := listen("127.0.0.1:0", pages)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		answer, err := http.Get("http://" + server.server.Addr + "/page/events")
		if err == nil {
			defer answer.Body.Close()
			_, err = answer.Body.Read(make([]byte, 100)) // the first words
			for err == nil {
				_, err = answer.Body.Read(make([]byte, 100))
			}
		}
		ended <- err
	}()
	for {
		h.mu.Lock()
		listens := h.held != nil
		h.mu.Unlock()
		if listens {
			break
		}
		time.Sleep(time.Millisecond)
	}
	began := time.Now()
	server.close()
	if took := time.Since(began); took >= shutdownLimit {
		t.Errorf("the end took %s", took)
	}
	if err := <-ended; err == nil || err.Error() != "EOF" {
		t.Errorf("who listened was told %v, want the end of the answer", err)
	}
	http.DefaultClient.CloseIdleConnections()
}
