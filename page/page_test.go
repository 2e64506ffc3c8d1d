package page

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/bound"
	"github.com/synergy-slurmd/synergy-slurmd/story"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func placed(node string, gpus, cpus int, memory gres.Memory) *policy.Placement {
	return &policy.Placement{Nodes: []string{node}, PerNode: gres.Vector{GPUs: gpus, CPUs: cpus, Memory: memory}}
}

// small is a round with a job that has more than its share, one that waits for good, and a node that is closed.
func small() bridge.Report {
	has := placed("n1", 2, 12, 100000)
	return bridge.Report{
		Round: 7, Began: noon.Add(-90 * time.Second),
		Snapshot: policy.Cluster{
			Now: noon,
			Nodes: []policy.Node{
				{Name: "n1", GPUType: "h100", Total: gres.Vector{GPUs: 8, CPUs: 24, Memory: 500000},
					Foreign: gres.Vector{GPUs: 1, CPUs: 4, Memory: 50000}},
				{Name: "n2", Total: gres.Vector{GPUs: 8, CPUs: 24, Memory: 500000}, Closed: "drained: fan"},
			},
			Jobs: []policy.Job{
				{ID: 17, Name: "vision", User: "alice", GPUs: 2, ProfileName: "res18.json", Running: has, Saves: true,
					Arrival: noon.Add(-time.Hour)},
				{ID: 18, Name: "giant", User: "bob", GPUs: 64, Arrival: noon.Add(-26 * time.Hour)},
			},
		},
		Plan: policy.Plan{Decisions: []policy.Decision{
			{Job: 17, Grant: has, Gain: 1.53, Fair: gres.Vector{GPUs: 2, CPUs: 6, Memory: 125000}},
			{Job: 18, Reason: policy.Shape, Why: "it asks for 64 GPUs, and the largest node has 8"},
		}},
		Steps: []bridge.Step{{Job: 17, Verb: bridge.Start, Grant: has, Why: "it has waited longest"},
			{Job: 18, Verb: bridge.Renew, Why: "lease"}},
		Notes:       []bridge.Note{{Job: 18, Text: "gets the proportional share"}},
		Certificate: &bound.Certificate{Value: 3, Bound: 4},
	}
}

func drawn(t *testing.T, report bridge.Report) string {
	t.Helper()
	var text strings.Builder
	health := Health{Well: true, Says: "round 7 ended well 90s ago"}
	if err := Cluster(&text, report, health, Asked{}, noon); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

func TestANodeShowsWhoHasItsGPUsAndWhatIsLent(t *testing.T) {
	c := clusterOf(small(), Health{}, Asked{}, noon)
	const cells = "[{share 17} {share 17} {foreign 0} {free 0} {free 0} {free 0} {free 0} {free 0}]"
	if got := fmt.Sprint(c.Nodes[0].Cells); got != cells {
		t.Errorf("GPUs of n1: %s", got)
	}
	if got, want := c.Nodes[0].Cores, (Use{Total: 24, Share: 6, Lent: 6, Foreign: 4, Free: 8}); got != want {
		t.Errorf("cores of n1: %+v, want %+v", got, want)
	}
	if got, want := c.Nodes[0].Memory, (Use{Total: 500000, Share: 100000, Foreign: 50000, Free: 350000}); got != want {
		t.Errorf("memory of n1: %+v, want %+v", got, want)
	}
	if got, want := c.Nodes[1].GPUs, (Use{Total: 8, Closed: 8}); got != want {
		t.Errorf("GPUs of n2: %+v, want %+v", got, want)
	}
	if got, want := c.GPUs, (Use{Total: 16, Share: 2, Foreign: 1, Closed: 8, Free: 5}); got != want {
		t.Errorf("GPUs: %+v, want %+v", got, want)
	}
	if c.Gain != 1.53 || c.Ago != 90*time.Second || len(c.Steps) != 1 {
		t.Errorf("gain %g, %s ago, steps %v", c.Gain, c.Ago, c.Steps)
	}
}

func TestWhatNoWaitingMendsIsTold(t *testing.T) {
	page := drawn(t, small())
	for _, want := range []string{"waiting does not mend that", "the largest node has 8", "1 d 2 h", "1.53×", "75.0 %",
		"6 lent", "drained: fan", "GPU of job 17"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

// TestWhatUsersWriteIsTextAndNothingElse in whatever field it stands.
func TestWhatUsersWriteIsTextAndNothingElse(t *testing.T) {
	const evil = `"><script>alert(1)</script><img src=x onerror=alert(1)>` + "\x1b[31m\u202e"
	report := small()
	for i := range report.Snapshot.Jobs {
		j := &report.Snapshot.Jobs[i]
		j.Name, j.User, j.ProfileName = evil, evil, evil
	}
	report.Snapshot.Nodes[0].Name, report.Snapshot.Nodes[0].GPUType, report.Snapshot.Nodes[1].Closed = evil, evil, evil
	report.Plan.Decisions[0].Grant.Nodes = []string{evil}
	report.Plan.Decisions[1].Why, report.Notes[0].Text = evil, evil
	report.Steps[0].Why, report.Steps[0].Error = evil, evil
	report.Certificate.StrandedOn = []bound.StrandedNode{{Node: evil, GPUs: 5, Lacks: "cores"}}
	var job strings.Builder
	if err := Job(&job, story.Of(17, []bridge.Report{report})); err != nil {
		t.Fatal(err)
	}
	var filtered strings.Builder
	if err := Cluster(&filtered, report, Health{}, Asked{User: evil, Cause: evil}, noon); err != nil {
		t.Fatal(err)
	}
	for _, page := range []string{drawn(t, report), job.String(), filtered.String()} {
		if strings.Contains(page, "<img") || strings.Count(page, "<script") != 1 ||
			strings.ContainsAny(page, "\x1b\u202e") {
			t.Errorf("it is obeyed:\n%s", page)
		}
	}
}

// TestPagesTakeNothingFromElsewhere, and have no style or script in them that the policy would not allow.
func TestPagesTakeNothingFromElsewhere(t *testing.T) {
	page := drawn(t, small())
	elsewhere := regexp.MustCompile(`https?://|\sstyle=|<style|<svg|\son[a-z]+=|javascript:`)
	if found := elsewhere.FindString(page); found != "" {
		t.Errorf("the page has %q", found)
	}
	for _, link := range regexp.MustCompile(`(?:href|src)="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if file, is := strings.CutPrefix(link[1], "/page/"); is {
			if _, _, ok := File(file); !ok {
				t.Errorf("the page names %s, which there is not", link[1])
			}
		}
	}
	if _, _, ok := File("page.go"); ok {
		t.Error("what is not meant for readers is served")
	}
}

func TestBeforeTheFirstRoundThereIsAPage(t *testing.T) {
	if page := drawn(t, bridge.Report{}); !strings.Contains(page, "No round has been held yet") {
		t.Error(page)
	}
}

// TestAHugeQueueIsASmallPage: nobody reads ten thousand rows, and how many there are is said.
func TestAHugeQueueIsASmallPage(t *testing.T) {
	report := small()
	jobs, plan := &report.Snapshot.Jobs, &report.Plan.Decisions
	for id := 100; id < 10100; id++ {
		*jobs = append(*jobs, policy.Job{ID: id, GPUs: 1, Arrival: noon})
		*plan = append(*plan, policy.Decision{Job: id, Reason: policy.Turn, Why: "turn"})
	}
	page := drawn(t, report)
	if len(page) > 200_000 || !strings.Contains(page, `href="/?from=250#queue"`) {
		t.Errorf("%d bytes", len(page))
	}
}

// TestANodeSaysWhoHasWhatOfIt in a line for each resource, and what its idle GPUs lack.
func TestANodeSaysWhoHasWhatOfIt(t *testing.T) {
	report := small()
	report.Certificate.StrandedOn = []bound.StrandedNode{{Node: "n1", GPUs: 5, Lacks: "memory"}}
	nodes := clusterOf(report, Health{}, Asked{}, noon).Nodes
	for k, want := range []string{
		"GPUs, 8: 2 share, 1 others', 5 idle for want of memory; " +
			"Cores, 24: 6 share, 6 lent, 4 others', 8 idle; " +
			"Memory, 500 GB: 100 GB share, 50 GB others', 350 GB idle",
		"GPUs, 8: 8 closed; Cores, 24: 24 closed; Memory, 500 GB: 500 GB closed",
	} {
		if got := strings.Join(nodes[k].Amounts(), "; "); got != want {
			t.Errorf("%s: %s, want %s", nodes[k].Name, got, want)
		}
	}
	report.Snapshot.Nodes[0].Foreign.GPUs = 6
	got := clusterOf(report, Health{}, Asked{}, noon).Nodes[0].Amounts()[1]
	if !strings.HasSuffix(got, "8 idle without a GPU") {
		t.Errorf("no GPU is free: %s", got)
	}
	for many, report := range map[bool]bridge.Report{false: small(), true: large(65)} {
		page := drawn(t, report)
		if n := strings.Count(page, `<p class="amount">`); n != 3*len(report.Snapshot.Nodes) ||
			strings.Contains(page, `class="nodes many"`) != many {
			t.Errorf("%d lines on %d nodes", n, len(report.Snapshot.Nodes))
		}
	}
}

// large is a round of that many nodes.
func large(nodes int) bridge.Report {
	report := small()
	for len(report.Snapshot.Nodes) < nodes {
		report.Snapshot.Nodes = append(report.Snapshot.Nodes, policy.Node{Name: "n", Total: gres.Vector{GPUs: 8}})
	}
	return report
}

// TestWhatIsWrongStandsAtTheTopOfTheClustersPage with its remedy, and rounds that failed at its end, before the first
// round, too.
func TestWhatIsWrongStandsAtTheTopOfTheClustersPage(t *testing.T) {
	health := Health{Says: "no round has ended well", Version: "1.2.3",
		Now: []Trouble{{What: "the site's limits are not known", Remedy: "look whether slurmdbd runs", Job: 18}},
		Past: []Trouble{{What: "slurmrestd: 503", At: noon.Add(-time.Hour), Until: noon, Times: 12},
			{What: "a token", Remedy: "renew it", At: noon, Until: noon, Times: 1}}}
	for _, report := range []bridge.Report{small(), {}} {
		page := text(t, func(w io.Writer) error { return Cluster(w, report, health, Asked{}, noon) })
		at := -1
		for _, want := range []string{"Look at this: no round has ended well (version 1.2.3)", `href="#wrong"`,
			`href="#failed"`, `id="wrong"`, "limits are not known", `<a href="/jobs/18">18</a>`, "whether slurmdbd",
			`id="failed"`, "2026-11-23 11:00:00 UTC", `<td>12</td><td class="name why">slurmrestd: 503`,
			"the log says", "renew it"} {
			next := strings.Index(page, want)
			if next <= at {
				t.Errorf("round %d: %q is not there, or not in this place", report.Round, want)
			}
			at = max(at, next)
		}
	}
	if page := drawn(t, small()); strings.Contains(page, `id="wrong"`) || strings.Contains(page, `id="failed"`) {
		t.Error("something is wrong with a daemon that is well")
	}
	for range 2 * maxTableRows {
		health.Now = append(health.Now, health.Now[0])
	}
	page := text(t, func(w io.Writer) error { return Cluster(w, small(), health, Asked{}, noon) })
	if n := strings.Count(page, "slurmdbd"); n != maxTableRows || !strings.Contains(page, "And 251 more") {
		t.Errorf("%d of %d faults are listed, and it is not said how many more there are", n, len(health.Now))
	}
}

// TestEachPageHasTheFrameAndLeadsToTheOthers, and says which of them it is.
func TestEachPageHasTheFrameAndLeadsToTheOthers(t *testing.T) {
	const current = ` aria-current="page"`
	for here, page := range map[string]string{
		"/":         drawn(t, small()),
		"/jobs/17":  text(t, func(w io.Writer) error { return Job(w, story.Of(17, []bridge.Report{small()})) }),
		"/profiles": text(t, func(w io.Writer) error { return Profiles(w, shelved("a.json"), Wanted{}) }),
	} {
		for _, place := range []string{"/", "/#queue", "/profiles"} {
			link := `<a href="` + place + `"`
			if !strings.Contains(page, link+">") && !strings.Contains(page, link+current) {
				t.Errorf("%s does not lead to %s", here, place)
			}
		}
		if named := strings.Contains(page, `<a href="`+here+`"`+current); named != (here != "/jobs/17") {
			t.Errorf("%s: that it is this page: %v", here, named)
		}
		if follows := strings.Contains(page, ` data-round="7"`); follows != (here != "/profiles") {
			t.Errorf("%s: that it is of round 7: %v", here, follows)
		}
		if reloads := strings.Contains(page, `http-equiv="refresh"`); reloads != (here != "/profiles") {
			t.Errorf("%s reloads itself: %v", here, reloads)
		}
		for _, part := range []string{"<h1>", `<main id="main"`, "</main>\n<footer>", "</html>\n"} {
			if strings.Count(page, part) != 1 {
				t.Errorf("%s has %q %d times", here, part, strings.Count(page, part))
			}
		}
	}
}
