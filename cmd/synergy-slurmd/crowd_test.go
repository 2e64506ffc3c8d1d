package main

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// badReaders are the ways in which a reader can stay without taking what it asked for.
var badReaders = map[string]func(conn net.Conn){
	"say nothing": func(net.Conn) {},
	"begin a request and never end it": func(conn net.Conn) {
		io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
	},
	"announce a body and never send it": func(conn net.Conn) {
		io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n")
	},
	"ask for a large report and take nothing of it": func(conn net.Conn) {
		io.WriteString(conn, "GET /round HTTP/1.1\r\nHost: localhost\r\n\r\n")
	},
	"ask for the page and take nothing of it": func(conn net.Conn) {
		io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\n\r\n")
	},
	"ask for the metrics and take nothing of them": func(conn net.Conn) {
		io.WriteString(conn, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
	},
}

// crowdOf is 700 readers that do such things, and come again as soon as they are thrown out, until they leave.
func crowdOf(t *testing.T, address string, does []func(conn net.Conn)) (leave func()) {
	t.Helper()
	var (
		all   sync.WaitGroup
		mu    sync.Mutex
		over  bool
		conns = map[net.Conn]bool{}
	)
	enter := func(conn net.Conn) bool {
		mu.Lock()
		defer mu.Unlock()
		conns[conn] = true
		return !over
	}
	for i := range 700 {
		all.Go(func() {
			for {
				conn, err := net.Dial("tcp", address)
				if err != nil {
					return
				}
				if !enter(conn) {
					conn.Close()
					return
				}
				does[i%len(does)](conn)
				waitClosed(conn)
			}
		})
	}
	return func() {
		mu.Lock()
		over = true
		for conn := range conns {
			conn.Close()
		}
		mu.Unlock()
		all.Wait()
	}
}

// waitClosed takes a byte now and then, until the other side has closed the connection.
func waitClosed(conn net.Conn) {
	defer conn.Close()
	for one := make([]byte, 1); ; time.Sleep(200 * time.Millisecond) {
		if _, err := conn.Read(one); err != nil {
			return
		}
	}
}

// TestNoCrowdOfReadersKeepsWhoeverWatchesFromHisAnswer: 700 connections that say nothing, and as many of all bad kinds.
func TestNoCrowdOfReadersKeepsWhoeverWatchesFromHisAnswer(t *testing.T) {
	url, _ := served(t, 200, 20_000) // a report of 4 MB
	crowds := map[string][]func(net.Conn){"silent": {badReaders["say nothing"]}}
	for _, does := range badReaders {
		crowds["of all kinds"] = append(crowds["of all kinds"], does)
	}
	for name, does := range crowds {
		leave := crowdOf(t, strings.TrimPrefix(url, "http://"), does)
		time.Sleep(300 * time.Millisecond)
		for _, page := range []string{"/healthz", "/metrics", "/", "/healthz"} {
			// whose answer takes over a second, as on a machine with other work, may have to make room, and asks again
			var status int
			var err error
			took := time.Duration(0)
			for try := 0; try == 0 || try < 3 && err != nil; try++ {
				began := time.Now()
				status, err = watched(url + page)
				took = time.Since(began)
				t.Logf("%s, beside a crowd %s: after %s, %v", page, name, took.Round(time.Millisecond), err)
			}
			if err != nil || status != 200 || took > 5*time.Second {
				t.Errorf("%s, beside a crowd %s: %d after %s, %v", page, name, status, took, err)
			}
		}
		leave()
	}
}

// watched asks for a page as a browser does, and takes all of it.
func watched(url string) (status int, err error) {
	request, err := http.NewRequest("GET", url, nil)
	if err != nil {
		return 0, err
	}
	request.Header.Set("Accept", "text/html")
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, err
}

// TestTheConnectionThatHasSaidNothingForLongestMakesRoom: then the one that has been answered for longest, and nobody
// who has just come.
func TestTheConnectionThatHasSaidNothingForLongestMakesRoom(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name          string
		silent, asked []time.Duration // how long ago
		goes, due     time.Duration
	}{
		{"of the silent ones the oldest", []time.Duration{500 * ms, 900 * ms, 300 * ms}, nil, 900 * ms, 0},
		{"a silent one before one that is answered", []time.Duration{401 * ms},
			[]time.Duration{time.Minute}, 401 * ms, 0},
		{"of those that are answered the oldest", nil, []time.Duration{2000 * ms, 3000 * ms}, 3000 * ms, 0},
		{"one that is answered before one that has just come", []time.Duration{100 * ms},
			[]time.Duration{1500 * ms}, 1500 * ms, 0},
		{"nobody who has just come", []time.Duration{100 * ms, 120 * ms}, nil, 120 * ms, 280 * ms},
		{"nobody who has just asked", []time.Duration{10 * ms}, []time.Duration{900 * ms}, 900 * ms, 100 * ms},
	} {
		now, all := time.Now(), newBoundedListener(nil, 1)
		for _, ago := range c.silent {
			all.guests[&boundedConn{since: now.Add(-ago)}] = struct{}{}
		}
		for _, ago := range c.asked {
			all.guests[&boundedConn{since: now.Add(-ago), hasRequest: true}] = struct{}{}
		}
		if first, due := all.evictionCandidate(now); now.Sub(first.since) != c.goes || due != c.due {
			t.Errorf("%s: that of %s ago, in %s", c.name, now.Sub(first.since), due)
		}
	}
}
