//go:build browser

package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/ledger"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// chromium is what a headless Chromium makes of a page within some seconds, and what it complained about.
func chromium(t *testing.T, url string) (dom, complaints string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "chromium", "--headless", "--no-sandbox", "--disable-gpu",
		"--enable-logging=stderr", "--v=0", "--user-data-dir="+t.TempDir(), "--dump-dom", url)
	var out, err strings.Builder
	command.Stdout, command.Stderr = &out, &err
	if fault := command.Run(); fault != nil {
		t.Fatalf("chromium, which apt-get install chromium brings: %v\n%s", fault, err.String())
	}
	for line := range strings.Lines(err.String()) {
		if strings.Contains(line, "CONSOLE") || strings.Contains(line, "Refused") {
			complaints += line
		}
	}
	return out.String(), complaints
}

// servedTo is a server whose ledger has a round of many nodes, and who holds another when somebody listens.
func servedTo(t *testing.T, nodes int) (address string) {
	t.Helper()
	report := bridge.Report{Round: 17, Began: time.Now()}
	for k := range nodes {
		report.Snapshot.Nodes = append(report.Snapshot.Nodes, policy.Node{Name: "n" + string(rune('a'+k%26)),
			Total:   gres.Vector{GPUs: 8, CPUs: 24, Memory: 500000},
			Foreign: gres.Vector{GPUs: 2, CPUs: 6, Memory: 9000}})
	}
	memory := &ledger.Memory{}
	settle := func(round int) {
		report.Round = round
		if err := memory.Settle(nil, report); err != nil {
			t.Error(err)
		}
	}
	settle(17)
	h := newHealth(fiveMinutes, time.Now())
	server, err := listen("127.0.0.1:0", slow(pages(h, testMetrics().registry, memory)))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	stop := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			h.mu.Lock()
			listens := h.held != nil
			h.mu.Unlock()
			if listens {
				settle(18)
				h.round(18, time.Now(), nil)
			}
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		<-ended
		server.close()
	})
	return "http://" + server.server.Addr
}

// slow has the first page name a script that takes its time, since Chromium tells what it has when all is loaded.
func slow(pages http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", pages)
	mux.HandleFunc("/slow.js", func(http.ResponseWriter, *http.Request) { time.Sleep(5 * time.Second) })
	mux.HandleFunc("/first", func(w http.ResponseWriter, r *http.Request) {
		answer := browse(pages, "/")
		maps.Copy(w.Header(), answer.Header())
		w.Write(answer.Body.Bytes())
		fmt.Fprint(w, `<script src="/slow.js" async></script>`)
	})
	return mux
}

// TestAPageInChromiumRenewsItselfWhenARoundIsHeld, is styled, and is refused nothing by its own policy.
func TestAPageInChromiumRenewsItselfWhenARoundIsHeld(t *testing.T) {
	for _, nodes := range []int{8, 512} {
		address := servedTo(t, nodes)
		dom, complaints := chromium(t, address+"/first")
		if complaints != "" {
			t.Errorf("%d nodes: %s", nodes, complaints)
		}
		if !strings.Contains(dom, ">Round 18<") || strings.Contains(dom, ">Round 17<") {
			t.Errorf("%d nodes: after the round it still shows\n%.3000s", nodes, dom)
		}
		if n := len(regexp.MustCompile(`<article class="node"`).FindAllString(dom, -1)); n != nodes {
			t.Errorf("%d of %d nodes are shown", n, nodes)
		}
	}
}
