package page

import (
	"fmt"
	"math/rand/v2"
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
	var node, filtered strings.Builder
	if err := Node(&node, report, evil); err != nil || !strings.Contains(node.String(), "By job") {
		t.Fatal(err, node.String())
	}
	if err := Cluster(&filtered, report, Health{}, Asked{User: evil, Cause: evil}, noon); err != nil {
		t.Fatal(err)
	}
	for _, page := range []string{drawn(t, report), job.String(), node.String(), filtered.String()} {
		if strings.Contains(page, "<img") || strings.Count(page, "<script") != 1 ||
			strings.ContainsAny(page, "\x1b\u202e") {
			t.Errorf("it is obeyed:\n%s", page)
		}
	}
}

// TestPagesTakeNothingFromElsewhere, and have no style or script in them that the policy would not allow.
func TestPagesTakeNothingFromElsewhere(t *testing.T) {
	page := drawn(t, small())
	if found := regexp.MustCompile(`https?://|\sstyle=|<style|\son[a-z]+=|javascript:`).FindString(page); found != "" {
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

// TestABarNeverHasMoreThanThereIs whatever the numbers, as of a node that lost GPUs while jobs ran on it.
func TestABarNeverHasMoreThanThereIs(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		u := Use{Total: draw.IntN(20), Share: draw.IntN(20), Lent: draw.IntN(20), Foreign: draw.IntN(20),
			Closed: draw.IntN(20), Stranded: draw.IntN(20)}
		end := 0
		for _, p := range u.parts() {
			if p.At != end || p.Width < 0 {
				t.Fatalf("%+v: %+v", u, u.parts())
			}
			end = p.At + p.Width
		}
		if end > 1000 {
			t.Fatalf("%+v ends at %d of 1000", u, end)
		}
	}
}
