package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

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
		"/page/../http.go": 307} {
		if answer := browse(pages, path); answer.Code != code {
			t.Errorf("%s: %d, want %d", path, answer.Code, code)
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
