//go:build browser

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// browser is a headless Chromium that is driven over a pipe, in the words of its DevTools protocol.
type browser struct {
	t       *testing.T
	to      *os.File
	session string

	mu     sync.Mutex
	last   int
	asked  map[int]chan message
	events []message
}

// message is one of the protocol, either way.
type message struct {
	ID      int             `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
	Session string          `json:"sessionId,omitempty"`
}

// patience is for one answer of the browser, on a machine that has other work.
const patience = time.Minute

// startBrowser starts one with a page of that size.
func startBrowser(t *testing.T, width, height int) *browser {
	t.Helper()
	hears, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, says, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
		"--hide-scrollbars", "--user-data-dir="+t.TempDir(), fmt.Sprintf("--window-size=%d,%d", width, height))
	command.ExtraFiles = []*os.File{hears, says}
	if err := command.Start(); err != nil {
		t.Fatalf("chromium, which apt-get install chromium brings: %v", err)
	}
	hears.Close()
	says.Close()
	b := &browser{t: t, to: to, asked: map[int]chan message{}}
	done := make(chan struct{})
	go func() { defer close(done); b.listen(from) }()
	t.Cleanup(func() {
		to.Close()
		command.Process.Kill()
		command.Wait()
		<-done
		from.Close()
	})
	var target struct{ TargetID string }
	b.ask("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.ask("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network", "Accessibility"} {
		b.ask(domain+".enable", nil, nil)
	}
	b.ask("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height,
		"deviceScaleFactor": 1, "mobile": false}, nil)
	return b
}

// listen takes answers and events until the browser ends.
func (b *browser) listen(from *os.File) {
	words := bufio.NewReader(from)
	for {
		text, err := words.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(text[:len(text)-1], &m) != nil {
			continue
		}
		b.mu.Lock()
		answer := b.asked[m.ID]
		delete(b.asked, m.ID)
		if answer == nil {
			b.events = append(b.events, m)
		}
		b.mu.Unlock()
		if answer != nil {
			answer <- m
		}
	}
}

// ask has the browser do something, and reads its answer.
func (b *browser) ask(method string, params, into any) {
	b.t.Helper()
	b.mu.Lock()
	b.last++
	id, answer := b.last, make(chan message, 1)
	b.asked[id] = answer
	b.mu.Unlock()
	text, err := json.Marshal(map[string]any{"id": id, "method": method, "params": params, "sessionId": b.session})
	if b.session == "" {
		text, err = json.Marshal(map[string]any{"id": id, "method": method, "params": params})
	}
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.to.Write(append(text, 0)); err != nil {
		b.t.Fatal(err)
	}
	select {
	case m := <-answer:
		if m.Error != nil {
			b.t.Fatalf("%s: %s", method, m.Error)
		}
		if into != nil {
			if err := json.Unmarshal(m.Result, into); err != nil {
				b.t.Fatalf("%s: %v", method, err)
			}
		}
	case <-time.After(patience):
		b.t.Fatalf("%s: no answer", method)
	}
}

// open shows a page, and returns when it is loaded.
func (b *browser) open(url string) {
	b.t.Helper()
	b.mu.Lock()
	b.events = nil
	b.mu.Unlock()
	b.ask("Page.navigate", map[string]any{"url": url}, nil)
	for until := time.Now().Add(patience); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		if b.loaded(url) {
			return
		}
	}
	b.t.Fatalf("%s was not loaded", url)
}

// loaded says that this page is, and not the one before it.
func (b *browser) loaded(url string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	arrived := false
	for _, m := range b.events {
		var there struct{ Frame struct{ URL string } }
		switch m.Method {
		case "Page.frameNavigated":
			arrived = json.Unmarshal(m.Params, &there) == nil && there.Frame.URL == url
		case "Page.loadEventFired":
			if arrived {
				return true
			}
		}
	}
	return false
}

// heard are the events of a kind since the page was opened.
func (b *browser) heard(method string) (all []message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.events {
		if m.Method == method {
			all = append(all, m)
		}
	}
	return all
}

// complaints are what the console says, and what was asked of anybody else than the daemon.
func (b *browser) complaints(address string) (all []string) {
	for _, kind := range []string{"Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"} {
		for _, m := range b.heard(kind) {
			all = append(all, string(m.Params))
		}
	}
	for _, m := range b.heard("Network.requestWillBeSent") {
		var sent struct{ Request struct{ URL string } }
		if json.Unmarshal(m.Params, &sent) != nil || !strings.HasPrefix(sent.Request.URL, address+"/") {
			all = append(all, "asks "+sent.Request.URL)
		}
	}
	return all
}

// eval is what an expression is worth on the page.
func (b *browser) eval(expression string, into any) {
	b.t.Helper()
	var answer struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	b.ask("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true},
		&answer)
	if answer.ExceptionDetails != nil {
		b.t.Fatalf("%s: %s", expression, answer.ExceptionDetails)
	}
	if err := json.Unmarshal(answer.Result.Value, into); err != nil {
		b.t.Fatalf("%s: %v in %s", expression, err, answer.Result.Value)
	}
}

// media shows the page as for a screen in that colour scheme, or as for paper.
func (b *browser) media(kind, scheme string) {
	b.t.Helper()
	b.ask("Emulation.setEmulatedMedia", map[string]any{"media": kind, "features": []map[string]string{
		{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

// picture is the page as a PNG, as far down as anybody looks.
func (b *browser) picture() []byte {
	b.t.Helper()
	var size struct{ Width, Height int }
	b.eval(`({ Width: innerWidth, Height: Math.min(4000, document.documentElement.scrollHeight) })`, &size)
	var shot struct{ Data []byte }
	b.ask("Page.captureScreenshot", map[string]any{"captureBeyondViewport": true, "clip": map[string]int{"x": 0, "y": 0,
		"width": size.Width, "height": size.Height, "scale": 1}}, &shot)
	return shot.Data
}

// paper is the page as a PDF.
func (b *browser) paper() []byte {
	b.t.Helper()
	var pdf struct{ Data []byte }
	b.ask("Page.printToPDF", map[string]any{"preferCSSPageSize": true}, &pdf)
	return pdf.Data
}

// tab presses the key.
func (b *browser) tab() {
	b.t.Helper()
	for _, kind := range []string{"rawKeyDown", "keyUp"} {
		b.ask("Input.dispatchKeyEvent", map[string]any{"type": kind, "key": "Tab", "code": "Tab",
			"windowsVirtualKeyCode": 9}, nil)
	}
}

// axNode is one of the accessibility tree.
type axNode struct {
	Role    struct{ Value string }
	Name    struct{ Value string }
	Ignored bool
}

// tree is what a screen reader has of the page.
func (b *browser) tree() []axNode {
	b.t.Helper()
	var tree struct{ Nodes []axNode }
	b.ask("Accessibility.getFullAXTree", nil, &tree)
	return tree.Nodes
}
