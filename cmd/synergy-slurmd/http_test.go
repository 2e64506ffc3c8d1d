package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/ledger"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/snapshot"
)

// site is all pages over a ledger with two rounds.
func site(t *testing.T) (http.Handler, *health) {
	t.Helper()
	memory := &ledger.Memory{}
	for _, round := range []int{16, 17} {
		profiles := snapshot.Profiles{{Jobs: []int{3}}}
		if err := memory.Settle(nil, bridge.Report{Round: round, Profiles: profiles,
			Notes: []bridge.Note{{Job: 1, Text: "<script>"}}}); err != nil {
			t.Fatal(err)
		}
	}
	h := newHealth(fiveMinutes, time.Now())
	return pages(h, fullMetrics().registry, memory), h
}

func get(t *testing.T, pages http.Handler, method, path string) *http.Response {
	t.Helper()
	answer := httptest.NewRecorder()
	pages.ServeHTTP(answer, httptest.NewRequest(method, path, nil))
	return answer.Result()
}

func body(t *testing.T, answer *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestEveryPageAnswersWithWhatItPromises(t *testing.T) {
	pages, _ := site(t)
	for _, page := range []struct {
		path   string
		status int
		has    string
	}{
		{"/", 200, "/healthz"},
		{"/healthz", 200, "no round has ended well"},
		{"/status", 200, `"healthy":true,"says":"no round has ended well`},
		{"/metrics", 200, `synergy_build_info{goversion="go`},
		{"/round", 200, `{"round":17,`},
		{"/round/16", 200, `{"round":16,`},
		{"/rounds", 200, "[16,17]"},
		{"/snapshot", 200, `"jobs":[3]`},
		{"/round/15", 404, "no such report"},
		{"/round/last", 400, "want the number of a round"},
		{"/secrets", 404, ""},
		{"/about", 404, ""},
		{"/?user=ann", 200, "/healthz"},
		{"/profiles", 200, "0 profiles"},
		{"/profiles?from=x", 400, "want a number of rows"},
		{"/nodes/n1", 410, "on /#cluster"},
		{"/savings?days=7", 410, "synergy savings"},
		{"/health", 410, "at the top of /"},
	} {
		answer := get(t, pages, "GET", page.path)
		if text := body(t, answer); answer.StatusCode != page.status || !strings.Contains(text, page.has) {
			t.Errorf("%s: %d %.200s", page.path, answer.StatusCode, text)
		}
		if answer.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: a browser may take it for something else", page.path)
		}
	}
}

func TestNothingCanBeWrittenOverHTTP(t *testing.T) {
	pages, _ := site(t)
	for _, path := range []string{"/", "/healthz", "/metrics", "/round", "/round/16", "/rounds", "/snapshot", "/jobs/1",
		"/nodes/n1", "/profiles", "/savings", "/health", "/page/page.css"} {
		want := 200
		if path == "/nodes/n1" || path == "/savings" || path == "/health" {
			want = http.StatusGone
		}
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "BREW"} {
			if answer := get(t, pages, method, path); answer.StatusCode != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: %d", method, path, answer.StatusCode)
			}
		}
		if answer := get(t, pages, "HEAD", path); answer.StatusCode != want {
			t.Errorf("HEAD %s: %d", path, answer.StatusCode)
		}
	}
}

// served is a real server with a report of that many jobs, whose names are that long, and a ledger in a file.
func served(t *testing.T, jobs, long int) (url string, book *ledger.Book) {
	t.Helper()
	book, err := ledger.Open(filepath.Join(t.TempDir(), "ledger"), ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	report := bridge.Report{Round: 1}
	for id := range jobs {
		report.Snapshot.Jobs = append(report.Snapshot.Jobs, policy.Job{ID: id + 1,
			Name: "<script>alert(1)</script>\x1b]0;owned\x07" + strings.Repeat("x", long)})
	}
	if err := book.Settle(nil, report); err != nil {
		t.Fatal(err)
	}
	h := newHealth(fiveMinutes, time.Now())
	server, err := listen("127.0.0.1:0", pages(h, testMetrics().registry, book))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.close(); book.Close() })
	return "http://" + server.server.Addr, book
}

// TestAPageFromElsewhereCannotReadWhatALoopbackAddressTells: a browser on this host believes that a name of an
// attacker's is here.
func TestAPageFromElsewhereCannotReadWhatALoopbackAddressTells(t *testing.T) {
	url, _ := served(t, 1, 0)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for host, want := range map[string]int{
		"": 200, "localhost": 200, "localhost:9817": 200, "127.0.0.1": 200, "[::1]:9817": 200, "10.1.2.3:80": 200,
		"evil.example": 421, "evil.example:9817": 421, "localhost.evil.example": 421, "127.0.0.1.evil.example": 421,
	} {
		request, err := http.NewRequest("GET", url+"/round", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Host = host
		request.Header.Set("Origin", "http://evil.example")
		answer, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if text := body(t, answer); answer.StatusCode != want || want != 200 && strings.Contains(text, "snapshot") {
			t.Errorf("Host %q: %d %.80s", host, answer.StatusCode, text)
		}
		if answer.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("Host %q: another origin may read it", host)
		}
	}
}

// TestReadersThatDoNotReadHoldNoRoundUp: more of them than there are places ask for a report that fills every buffer on
// the way, and take nothing of it. Rounds settle meanwhile.
func TestReadersThatDoNotReadHoldNoRoundUp(t *testing.T) {
	url, book := served(t, 400, 20_000) // 8 MB, which costs little to write and fits into no buffers
	for range 2 * readers {
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "GET /round HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(200 * time.Millisecond)
	for round := 2; round < 10; round++ {
		began := time.Now()
		if err := book.Settle(bridge.Records{{Job: 1}}, bridge.Report{Round: round}); err != nil {
			t.Fatal(err)
		}
		// who waited for a reader would wait until that is thrown out
		if took := time.Since(began); took > writeLimit/2 {
			t.Errorf("round %d settled in %s", round, took)
		}
	}
}

// answers says within what time /healthz does.
func answers(t *testing.T, url string) {
	t.Helper()
	client := &http.Client{Timeout: 3 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get(url + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
}

// stayers are so many connections that have each asked for the page, and go on being there.
func stayers(t *testing.T, url, page string, number int) []net.Conn {
	t.Helper()
	var conns []net.Conn
	for range number {
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if _, err := io.WriteString(conn, "GET "+page+" HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	return conns
}

func TestReadersThatStayAfterTheirAnswerKeepNobodyFromHealth(t *testing.T) {
	url, _ := served(t, 1, 0)
	for _, conn := range stayers(t, url, "/healthz", 2*connections) {
		if n, err := conn.Read(make([]byte, 16)); n == 0 {
			t.Fatal(err)
		}
	}
	answers(t, url)
}

// slowArchive has a last report as soon as it is told to.
type slowArchive struct {
	ledger.Memory
	ready chan struct{}
}

func (a *slowArchive) Latest() (bridge.Report, error) {
	<-a.ready
	return bridge.Report{}, nil
}

func TestReadersOfReportsKeepNobodyFromHealth(t *testing.T) {
	archive := &slowArchive{ready: make(chan struct{})}
	h := newHealth(fiveMinutes, time.Now())
	server, err := listen("127.0.0.1:0", pages(h, testMetrics().registry, archive))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.close)
	t.Cleanup(func() { close(archive.ready) })
	stayers(t, "http://"+server.server.Addr, "/round", 2*readers)
	time.Sleep(100 * time.Millisecond)
	answers(t, "http://"+server.server.Addr)
}

func TestTheLastRoundIsTheReportThatWasSettled(t *testing.T) {
	pages, _ := site(t)
	answer := get(t, pages, "GET", "/round")
	var report bridge.Report
	if err := json.Unmarshal([]byte(body(t, answer)), &report); err != nil || report.Round != 17 ||
		report.Notes[0].Text != "<script>" {
		t.Errorf("%v: %+v", err, report)
	}
	if kind := answer.Header.Get("Content-Type"); kind != "application/json" {
		t.Errorf("it is of type %s", kind)
	}
}

func TestALedgerWithoutRoundsHasNoLastOne(t *testing.T) {
	empty := pages(newHealth(fiveMinutes, time.Now()), testMetrics().registry, &ledger.Memory{})
	if answer := get(t, empty, "GET", "/round"); answer.StatusCode != 404 {
		t.Errorf("/round: %d", answer.StatusCode)
	}
	if text := body(t, get(t, empty, "GET", "/rounds")); strings.TrimSpace(text) != "[]" {
		t.Errorf("/rounds: %s", text)
	}
}

func TestTheDaemonIsIllThreeRoundsAfterTheLastGoodOne(t *testing.T) {
	start := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	h := newHealth(fiveMinutes, start)
	h.round(4, start.Add(time.Minute), nil)
	h.round(0, start.Add(6*time.Minute), errors.New("observe: slurm controller unreachable"))
	if last, err := h.check(start.Add(16 * time.Minute)); err != nil || last != "round 4 ended well 15m0s ago" {
		t.Errorf("%s, %v", last, err)
	}
	_, err := h.check(start.Add(16*time.Minute + time.Second))
	if err == nil ||
		err.Error() != "round 4 ended well 15m1s ago; the last one: observe: slurm controller unreachable" {
		t.Error(err)
	}
}

func TestADaemonWhoseFirstRoundHangsIsIll(t *testing.T) {
	start := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	h := newHealth(time.Minute, start)
	if _, err := h.check(start.Add(4 * time.Minute)); err == nil ||
		!strings.Contains(err.Error(), "none has ended since") {
		t.Error(err)
	}
}

func TestIllHealthIsServiceUnavailable(t *testing.T) {
	pages, h := site(t)
	h.since = h.since.Add(-time.Hour)
	h.err = errors.New("observe: token file: mode 0644")
	answer := get(t, pages, "GET", "/healthz")
	if text := body(t, answer); answer.StatusCode != 503 || !strings.Contains(text, "mode 0644") {
		t.Errorf("%d %s", answer.StatusCode, text)
	}
}

func TestTheServerEndsWithTheDaemon(t *testing.T) {
	defer goleak.VerifyNone(t)
	pages, _ := site(t)
	server, err := listen("127.0.0.1:0", pages)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	url := "http://" + server.server.Addr + "/healthz"
	answer, err := client.Get(url)
	if err != nil || answer.StatusCode != 200 {
		t.Fatalf("%v, %v", answer, err)
	}
	answer.Body.Close()
	if _, err := listen(server.server.Addr, pages); err == nil {
		t.Error("the address was given twice")
	}
	server.close()
	if _, err := client.Get(url); err == nil {
		t.Error("it answers after its end")
	}
}

func TestRoundsAndPagesEndWithoutLeavingAnythingBehind(t *testing.T) {
	defer goleak.VerifyNone(t)
	for _, address := range []string{"127.0.0.1:0", ""} {
		rounds := &roundsOf{hold: atOnce}
		d := testDaemon(rounds)
		ctx, cancel := contextUntil(t, func() bool { return d.health.good() })
		if err := d.serveAndRun(ctx, flags{listen: address}, &ledger.Memory{}); err != nil {
			t.Error(err)
		}
		cancel()
		if len(rounds.began) == 0 {
			t.Error("no round was held")
		}
	}
}

func TestOnlyThisHostReachesALoopbackAddress(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:9817": true, "localhost:1": true, "[::1]:1": true, "127.8.8.8:1": true,
		":9817": false, "0.0.0.0:9817": false, "[::]:1": false, "10.0.0.1:1": false, "node:1": false, "nonsense": false,
	} {
		if isLoopback(address) != want {
			t.Errorf("%s: %v", address, !want)
		}
	}
}

// contextUntil is a context that ends when something has come about.
func contextUntil(t *testing.T, about func() bool) (context.Context, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for ctx.Err() == nil && !about() {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	return ctx, cancel
}

// good says whether a round has ended well.
func (h *health) good() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last > 0
}
