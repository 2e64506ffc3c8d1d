package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/ledger"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// TestTheShelvesThatADaemonFollowsAreShown, those of a configuration that it took over later, too.
func TestTheShelvesThatADaemonFollowsAreShown(t *testing.T) {
	config := Config{ProfileDirs: []string{"../../etc/profiles"}}
	h := newHealth(fiveMinutes, time.Now())
	h.beside.config = func() Config { return config }
	all := pages(h, testMetrics().registry, &ledger.Memory{})
	if text := browse(all, "/profiles?name=RES18").Body.String(); !strings.Contains(text, "res18.json") ||
		strings.Contains(text, "gnmt.json") || !strings.Contains(text, "1 of 10 profiles") {
		t.Error(text)
	}
	config = Config{ProfileDirs: []string{"/nowhere"}}
	if text := browse(all, "/profiles").Body.String(); !strings.Contains(text, "open /nowhere: no such file") {
		t.Error(text)
	}
}

// TestWhatIsWrongIsToldWithItsRemedy, for as long as it is, and rounds that failed alike in a row as one.
func TestWhatIsWrongIsToldWithItsRemedy(t *testing.T) {
	start := time.Now()
	h := newHealth(fiveMinutes, start)
	for k := range 3 {
		h.round(0, start.Add(time.Duration(k)*time.Minute), fmt.Errorf("observe: %w", slurm.ErrUnreachable))
	}
	h.round(0, start, errors.New("something else\x1b[31m"))
	h.round(4, start, nil)
	h.round(0, start, errors.New("something else\x1b[31m"))
	h.setTrouble("the configuration stays as it was", errors.New("line 3"), remedyOfReload)
	report := bridge.Report{Round: 4, LimitsGap: "500", LearnFault: "disk full", Fallback: "late",
		Refused: "job 3 is slower", ClockAhead: time.Hour, Lost: []bridge.Loss{{Job: 7, Why: "was killed"}},
		Steps:   []bridge.Step{{Job: 8, Verb: bridge.Start, Error: "503"}, {Job: 9, Verb: bridge.Start}},
		Ignored: map[bridge.Ignored]int{bridge.IgnoredCurve: 2}}
	c := h.pageHealth(report, start)
	if first := c.Past[2]; len(c.Past) != 3 || first.Times != 3 || first.Remedy == "" ||
		first.Until != start.Add(2*time.Minute) {
		t.Errorf("%+v", c.Past)
	}
	var said []string
	for _, trouble := range c.Now {
		said = append(said, trouble.What)
		if trouble.Remedy == "" {
			t.Errorf("%s: no remedy", trouble.What)
		}
	}
	const want = "the configuration stays as it was: line 3; the site's limits are not known: 500; what jobs teach " +
		"cannot be kept: disk full; the built-in planner stood in: late; a plan broke a promise, so one was made " +
		"that stops nobody: job 3 is slower; slurm's clock is 1h0m0s ahead of ours; did not come back " +
		"after it was asked to save and leave: it was killed; start: 503; jobs of which a word is ignored, curve: 2"
	if got := strings.Join(said, "; "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	h.setTrouble("the configuration stays as it was", nil, "")
	if c := h.pageHealth(bridge.Report{}, start); len(c.Now) != 0 {
		t.Errorf("%+v is still wrong", c.Now)
	}
	for k := range 100 {
		h.round(0, start, fmt.Errorf("fault %d", k))
	}
	if n := len(h.pageHealth(report, start).Past); n != mostFailures {
		t.Errorf("%d are kept, want %d", n, mostFailures)
	}
}

// TestWhatIsAskedOfPagesIsBounded: a name that is too long and a cause that there is not are refused with a sentence.
func TestWhatIsAskedOfPagesIsBounded(t *testing.T) {
	pages, _ := site(t)
	long := strings.Repeat("x", longestUser+1)
	for path, want := range map[string]string{"/?user=" + long: "want the name of one",
		"/?cause=boredom": "want one that", "/?from=-1": "want a number of rows",
		"/profiles?name=" + long: "want a part of a name"} {
		if answer := browse(pages, path); answer.Code != http.StatusBadRequest ||
			!strings.Contains(answer.Body.String(), want) {
			t.Errorf("%.40s: %d %s", path, answer.Code, answer.Body)
		}
	}
}

// FuzzWhatIsAskedOfPages: whatever an address asks for, it is answered or refused, and never obeyed.
func FuzzWhatIsAskedOfPages(f *testing.F) {
	dir := f.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "bad.json"), []byte("{"), 0o644); err != nil {
		f.Fatal(err)
	}
	memory := &ledger.Memory{}
	if err := memory.Settle(nil, bridge.Report{Round: 1, Snapshot: policy.Cluster{Nodes: []policy.Node{{Name: "n1"}}},
		Waits: []bridge.Wait{{Job: 1, Cause: bridge.CauseTurn}}}); err != nil {
		f.Fatal(err)
	}
	h := newHealth(fiveMinutes, time.Now())
	h.beside.config = func() Config { return Config{ProfileDirs: []string{dir}} }
	all := pages(h, testMetrics().registry, memory)
	for _, seed := range []string{"user=ann&cause=turn&from=250", "name=res&from=9",
		"from=99999999999999999999",
		"user=%00%E2%80%AE&cause=%22%3E%3Cimg", "user=\"><script>", ";;&&==%zz"} {
		f.Add("/", seed)
		f.Add("/profiles", seed)
	}
	f.Add("/nodes/n1", "")
	f.Add("/jobs/1", "")
	f.Add("/rounds", "days=7")
	obeyed := regexp.MustCompile(`<img|\x1b|\x{202e}|javascript:`)
	f.Fuzz(func(t *testing.T, path, query string) {
		u, err := url.ParseRequestURI(path)
		if err != nil || !strings.HasPrefix(path, "/") || u.RawQuery != "" || u.Host != "" ||
			strings.ContainsAny(path+query, "\r\n \x00#?") || strings.HasPrefix(path, "/page/events") {
			return
		}
		if _, err := url.ParseRequestURI(path + "?" + query); err != nil {
			return
		}
		answer := browse(all, path+"?"+query)
		text := answer.Body.String()
		if answer.Code >= 500 || len(text) > 200_000 {
			t.Errorf("%d, %d bytes", answer.Code, len(text))
		}
		html := strings.HasPrefix(answer.Header().Get("Content-Type"), "text/html")
		if html && (obeyed.MatchString(text) || strings.Count(text, "<script") > 1) {
			t.Errorf("%s", text)
		}
	})
}
