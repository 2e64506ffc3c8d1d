//go:build browser

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/ledger"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/bound"
	"github.com/synergy-slurmd/synergy-slurmd/policy/forecast"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/learned"
)

// evil is what somebody calls his jobs.
const evil = `"><script>alert(1)</script><img src=x onerror=alert(1)>` + "\x1b[31m\u202egpj.exe"

// busy is a round of a cluster in which jobs run on most nodes, a few nodes are closed, and many jobs wait.
func busy(round, nodes, waiting int, began time.Time) bridge.Report {
	draw := rand.New(rand.NewPCG(uint64(round), 7))
	r := bridge.Report{Round: round, Began: began, Certificate: &bound.Certificate{}, Phases: []bridge.Phase{
		{Name: "observe", Took: 800 * time.Millisecond}, {Name: "decide", Took: 300 * time.Millisecond},
		{Name: "ask", Took: time.Duration(draw.IntN(4000)) * time.Millisecond}}}
	r.Snapshot.Now = began
	id := 1000
	for k := range nodes {
		n := policy.Node{Name: fmt.Sprintf("gpu%03d", k+1), GPUType: "V100",
			Total: gres.Vector{GPUs: 8, CPUs: 24, Memory: 500000}}
		if k%9 == 4 {
			n.Closed = "drained: fan of GPU 3, see the ticket"
		} else {
			id = occupy(&r, &n, id, draw, began)
		}
		r.Snapshot.Nodes = append(r.Snapshot.Nodes, n)
	}
	causes := []bridge.WaitCause{bridge.CauseTurn, bridge.CauseTurn, bridge.CauseGang, bridge.CauseQuota,
		bridge.CauseDependency, bridge.CauseShape, bridge.CauseCores, bridge.CauseHeld}
	for k := range waiting {
		id++
		cause := causes[(k+round)%len(causes)]
		name, user := fmt.Sprintf("train-%d", k), fmt.Sprintf("user%d", k%40)
		if k%97 == 3 {
			name, user = evil, evil
		}
		r.Snapshot.Jobs = append(r.Snapshot.Jobs, policy.Job{ID: id, Name: name, User: user, GPUs: 1 << (k % 5),
			Arrival: began.Add(-time.Duration(k) * time.Minute)})
		r.Plan.Decisions = append(r.Plan.Decisions, policy.Decision{Job: id, Reason: policy.Turn, Why: "turn"})
		w := bridge.Wait{Job: id, Reason: cause.Reason(), Cause: cause, Place: k + 1,
			Why: "no node has 8 free GPUs of its type together with the cores that it is owed"}
		if k%3 == 0 {
			w.Starts = &forecast.Spread{P10: began.Add(time.Hour), P50: began.Add(2 * time.Hour),
				P90: began.Add(9 * time.Hour)}
		}
		r.Waits = append(r.Waits, w)
	}
	r.Certificate.Value, r.Certificate.Bound = float64(8*nodes)*(1.3+draw.Float64()/5), float64(8*nodes)*1.55
	r.Notes = []bridge.Note{{Job: 1001, Text: evil}}
	r.Steps = []bridge.Step{{Job: 1001, Verb: bridge.Start, Why: "it has waited longest"},
		{Job: 1002, Verb: bridge.Preempt, Why: evil, Error: "slurmrestd: 503 " + evil}}
	r.LimitsGap = "slurmrestd: 500 Internal Server Error"
	return r
}

// occupy fills a node with jobs and other people's, and leaves some of it idle.
func occupy(r *bridge.Report, n *policy.Node, id int, draw *rand.Rand, began time.Time) int {
	n.Foreign = gres.Vector{GPUs: draw.IntN(2), CPUs: 2, Memory: 20000}
	free := n.Total.Minus(n.Foreign)
	for free.GPUs > 0 && draw.IntN(6) > 0 {
		id++
		gpus := min(free.GPUs, 1<<draw.IntN(3))
		has := gres.Vector{GPUs: gpus, CPUs: min(free.CPUs, 1+draw.IntN(5*gpus)),
			Memory: min(free.Memory, gres.Memory(30000+draw.IntN(60000*gpus)))}
		free = free.Minus(has)
		grant := &policy.Placement{Nodes: []string{n.Name}, PerNode: has}
		job := policy.Job{ID: id, Name: "resnet", User: "ann", GPUs: gpus, ProfileName: "res18.json", Saves: true,
			Arrival: began.Add(-5 * time.Hour), Started: began.Add(-time.Hour), Running: grant}
		r.Snapshot.Jobs = append(r.Snapshot.Jobs, job)
		r.Plan.Decisions = append(r.Plan.Decisions, policy.Decision{Job: id, Grant: grant,
			Gain: 1 + draw.Float64(), Fair: gres.Proportional(n.Total, gpus)})
	}
	if free.GPUs > 0 && free.CPUs == 0 {
		on := bound.StrandedNode{Node: n.Name, GPUs: free.GPUs, Lacks: "cores"}
		r.Certificate.StrandedOn = append(r.Certificate.StrandedOn, on)
		r.Certificate.Stranded.Cores += free.GPUs
	}
	return id
}

// wholeSite is a daemon's pages with everything on them, and how it tells that another round was held.
func wholeSite(t *testing.T, nodes, waiting int) (address string, next func()) {
	t.Helper()
	began := time.Now().Add(-4 * time.Hour)
	memory := &ledger.Memory{}
	round := 0
	settle := func() {
		round++
		began = began.Add(5 * time.Minute)
		if round == 20 {
			began = began.Add(time.Hour) // the daemon was down
		}
		if err := memory.Settle(nil, busy(round, nodes, waiting, began)); err != nil {
			t.Error(err)
		}
	}
	for range 36 {
		settle()
	}
	h := newHealth(fiveMinutes, time.Now())
	h.round(0, time.Now().Add(-time.Hour), errors.New("observe: slurmrestd: connect: connection refused "+evil))
	h.round(0, time.Now().Add(-50*time.Minute), context.DeadlineExceeded)
	h.round(round, time.Now(), nil)
	h.beside = sources{config: func() Config {
		return Config{ProfileDirs: []string{"../../etc/profiles", brokenProfiles(t)}}
	}, learned: someLearned}
	server, err := listen("127.0.0.1:0", pages(h, testMetrics().registry, memory))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.close)
	return "http://" + server.server.Addr, func() { settle(); h.round(round, time.Now(), nil) }
}

func brokenProfiles(t *testing.T) string {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "broken.json"), []byte(`{"version":7}`), 0o644); err != nil {
		t.Error(err)
	}
	return dir
}

func someLearned() []*learned.Entry {
	at := time.Now().Add(-time.Hour)
	var all []*learned.Entry
	for _, key := range []learned.Key{{User: "ann", Job: "vision"}, {User: evil, Job: evil}} {
		var e *learned.Entry
		all = append(all, e.With(key, learned.Report{Job: 7, At: at, GPUType: "V100", GPUs: 1, Memory: 62500,
			Way: learned.Curve, Latest: at, Rates: []learned.Rate{{Cores: 1, Rate: 10}, {Cores: 2, Rate: 20},
				{Cores: 3, Rate: 30}}}))
	}
	return all
}

// everyPage is the address of each kind of page.
var everyPage = []string{"/", "/?user=user7", "/?cause=turn&from=250", "/jobs/1001", "/jobs/4711", "/profiles",
	"/profiles?name=ann"}

// TestEveryPageInChromium complains of nothing, asks nobody else, can be read by those who do not see it, and with keys
// alone, and has contrast enough in light and in dark.
func TestEveryPageInChromium(t *testing.T) {
	for _, size := range []struct{ nodes, waiting int }{{8, 12}, {512, 5000}} {
		address, _ := wholeSite(t, size.nodes, size.waiting)
		b := startBrowser(t, 1280, 900)
		for _, path := range everyPage {
			t.Run(fmt.Sprintf("%d nodes %s", size.nodes, path), func(t *testing.T) {
				b.t = t
				b.media("screen", "light")
				b.open(address + path)
				mustBeReadable(t, b)
				mustBeBounded(t, b, size.nodes)
				for _, scheme := range []string{"light", "dark"} {
					b.media("screen", scheme)
					mustContrast(t, b, scheme)
				}
				mustBeReached(t, b)
				if all := b.complaints(address); all != nil {
					t.Errorf("%.600q", all)
				}
				b.keep(size.nodes, path)
			})
		}
	}
}

// keep leaves pictures to be looked at, in the folder that PICTURES names.
func (b *browser) keep(nodes int, path string) {
	folder := os.Getenv("PICTURES")
	if folder == "" {
		return
	}
	name := fmt.Sprintf("%d-%s", nodes, strings.NewReplacer("/", "_", "?", "-", "&", "-", "=", "-").Replace(path[1:]))
	for _, kind := range []struct{ media, scheme string }{{"screen", "light"}, {"screen", "dark"}, {"print", "light"}} {
		b.media(kind.media, kind.scheme)
		file := filepath.Join(folder, name+"-"+kind.media+"-"+kind.scheme+".png")
		if err := os.WriteFile(file, b.picture(), 0o644); err != nil {
			b.t.Error(err)
		}
	}
	b.media("", "light")
	if err := os.WriteFile(filepath.Join(folder, name+".pdf"), b.paper(), 0o644); err != nil {
		b.t.Error(err)
	}
}

// script is an expression of testdata/pages.
func script(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "pages", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// mustBeReadable asks for one title, one h1, landmarks, headings without a gap, and tables that say of what they are.
func mustBeReadable(t *testing.T, b *browser) {
	t.Helper()
	var wrong []string
	b.eval(script(t, "readable.js"), &wrong)
	if len(wrong) > 0 {
		t.Errorf("%.600q", wrong)
	}
	roles := map[string]int{}
	for _, n := range b.tree() {
		if n.Ignored {
			continue
		}
		role := n.Role.Value
		roles[role]++
		switch role {
		case "link", "button", "textbox", "table", "image", "heading":
			if strings.TrimSpace(n.Name.Value) == "" {
				t.Errorf("a %s has no name", role)
			}
		}
	}
	if roles["main"] != 1 || roles["banner"] != 1 || roles["contentinfo"] != 1 || roles["navigation"] < 1 {
		t.Errorf("landmarks: %v", roles)
	}
}

// mustBeBounded asks for a page that a slow machine can show.
func mustBeBounded(t *testing.T, b *browser, nodes int) {
	t.Helper()
	var size int
	b.eval(`document.documentElement.outerHTML.length`, &size)
	if most := 400_000 + 5000*nodes; size > most {
		t.Errorf("%d characters, want at most %d", size, most)
	}
}

// mustContrast asks for 4.5 : 1 between each text and what is behind it, 3 : 1 for large ones (WCAG 2.2, 1.4.3).
func mustContrast(t *testing.T, b *browser, scheme string) {
	t.Helper()
	var wrong []string
	b.eval(script(t, "contrast.js"), &wrong)
	if len(wrong) > 0 {
		t.Errorf("%s: too little contrast: %q", scheme, wrong)
	}
}

// mustBeReached asks the tab key to lead through the page in its own order, to begin with the skip link, and to show
// where it is.
func mustBeReached(t *testing.T, b *browser) {
	t.Helper()
	b.eval(`(document.activeElement.blur(), window.scrollTo(0, 0), true)`, new(bool))
	defer b.eval(`(document.activeElement.blur(), true)`, new(bool))
	focus := script(t, "focus.js")
	last := -1
	for step := range 12 {
		b.tab()
		var at struct {
			Index   int
			Outline string
			Class   string
		}
		b.eval(focus, &at)
		if at.Index < 0 || step > 0 && at.Index == 0 { // behind the last one
			break
		}
		if step == 0 && at.Class != "skip" {
			t.Errorf("the first one is %q and not the link to the content", at.Class)
		}
		if at.Index <= last {
			t.Errorf("after number %d comes number %d", last, at.Index)
		}
		if at.Outline == "none" {
			t.Errorf("nobody sees that number %d has the focus", at.Index)
		}
		last = at.Index
	}
	if last < 5 {
		t.Errorf("the tab key came to number %d", last)
	}
}

// TestPagesWorkInChromiumWithoutScript: they show the same, and the form asks for a part of the queue.
func TestPagesWorkInChromiumWithoutScript(t *testing.T) {
	address, _ := wholeSite(t, 8, 200)
	b := startBrowser(t, 1280, 900)
	b.ask("Emulation.setScriptExecutionDisabled", map[string]any{"value": true}, nil)
	for _, path := range everyPage {
		b.open(address + path)
		var document struct{ OuterHTML string }
		var root struct{ Root struct{ NodeID int } }
		b.ask("DOM.getDocument", nil, &root)
		b.ask("DOM.getOuterHTML", map[string]any{"nodeId": root.Root.NodeID}, &document)
		if !strings.Contains(document.OuterHTML, "</main>") || len(b.complaints(address)) > 0 {
			t.Errorf("%s: %q\n%.500s", path, b.complaints(address), document.OuterHTML)
		}
		if script := len(b.heard("Network.requestWillBeSent")); script > 3 {
			t.Errorf("%s: asks %d times", path, script)
		}
	}
}

// TestTheQueueInChromiumIsAskedForByUser with keys alone, and a round meanwhile takes nobody's words away.
func TestTheQueueInChromiumIsAskedForByUser(t *testing.T) {
	address, next := wholeSite(t, 8, 200)
	b := startBrowser(t, 1280, 900)
	b.open(address + "/")
	b.eval(`(document.getElementById("user").focus(), true)`, new(bool))
	b.ask("Input.insertText", map[string]any{"text": "user7"}, nil)
	waitFor(t, b, `performance.getEntriesByType("resource").some((e) => e.name.endsWith("/page/events"))`+
		` || document.readyState === "complete"`)
	next()
	time.Sleep(2 * time.Second)
	var value string
	b.eval(`document.getElementById("user").value`, &value)
	if value != "user7" {
		t.Errorf("after a round the field says %q", value)
	}
	for _, kind := range []string{"keyDown", "keyUp"} {
		b.ask("Input.dispatchKeyEvent", map[string]any{"type": kind, "key": "Enter", "code": "Enter", "text": "\r",
			"windowsVirtualKeyCode": 13}, nil)
	}
	waitFor(t, b, `location.search.startsWith("?user=user7")`)
	waitFor(t, b, `document.readyState === "complete" && document.body.innerText.includes("5 of 200 jobs that wait")`)
	next()
	waitFor(t, b, `document.body.innerText.includes("Round 38")`)
	waitFor(t, b, `document.body.innerText.includes("5 of 200 jobs that wait")`)
	if all := b.complaints(address); all != nil {
		t.Errorf("%.600q", all)
	}
}

// waitFor waits until something holds on the page.
func waitFor(t *testing.T, b *browser, condition string) {
	t.Helper()
	for until := time.Now().Add(patience); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		holds := false
		if b.eval(`Boolean(`+condition+`)`, &holds); holds {
			return
		}
	}
	t.Fatalf("never: %s", condition)
}
