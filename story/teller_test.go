package story

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// onNode is a report as a round of a cluster with a node gives it.
func onNode(r bridge.Report) *bridge.Report {
	r.Snapshot.Now, r.Snapshot.Nodes = r.Began, []policy.Node{{Name: "n1"}}
	return &r
}

// heard is what a teller tells of reports, a line for each event and each word of a run.
func heard(teller *Teller, reports ...bridge.Report) string {
	var lines []string
	for _, r := range reports {
		for _, p := range teller.Tell(onNode(r)) {
			for _, e := range p.Events {
				lines = append(lines, fmt.Sprintf("%d %d %s", r.Round, p.Job, e.What))
			}
			for _, run := range p.Runs {
				lines = append(lines, fmt.Sprintf("%d run of %d: %q %s %.0f", r.Round, run.Job, run.Why, run.End,
					run.GPUTime))
			}
		}
	}
	return strings.Join(lines, "\n")
}

func TestATellerTellsWhatOneStoryDoes(t *testing.T) {
	reports := life()
	var passages []Passage
	teller := &Teller{}
	for _, r := range reports {
		for _, p := range teller.Clone().Tell(onNode(r)) { // a clone is another teller
			_ = p
		}
		for _, p := range teller.Tell(onNode(r)) {
			if p.Job == 17 {
				passages = append(passages, p)
			}
		}
	}
	s := Join(17, passages, Story{})
	var lines []string
	for _, line := range strings.Split(told(s), "\n") {
		if !strings.Contains(line, " ran for ") {
			lines = append(lines, line)
		}
	}
	if got, want := strings.Join(lines, "\n"), told(Of(17, reports)); got != want {
		t.Errorf("told\n%s\nwant\n%s", got, want)
	}
	if len(s.Runs) != 1 || s.Runs[0].Why != "its turn" || s.Runs[0].End != "COMPLETED" || s.User != "alice" ||
		!s.Known {
		t.Errorf("the story is %+v", s)
	}
}

func TestARunUnderAClockThatWasSetBackTookNoTimeAndNotLess(t *testing.T) {
	reports := life()
	for i := range reports[5:] { // it ends the day before it began
		reports[5+i].Began = reports[5+i].Began.Add(-24 * time.Hour)
	}
	if got := heard(&Teller{}, reports...); !strings.Contains(got, "6 17 ran for 0s with") {
		t.Errorf("told\n%s", got)
	}
}

func TestAReasonThatChangesToAndFroIsToldOnceAnHour(t *testing.T) {
	var reports []bridge.Report
	for n := range 24 { // two hours
		reason := []policy.Reason{policy.Turn, policy.Gang}[n%2]
		reports = append(reports, round(n, nil, policy.Decision{Reason: reason, Why: string(reason)}))
	}
	if got := heard(&Teller{}, reports...); strings.Count(got, "waits") != 2 {
		t.Errorf("told\n%s\nwant it at the beginning and after an hour", got)
	}
}

func TestAJobThatIsTornDownIsNotGoneAndOneThatNobodyTellsOfIs(t *testing.T) {
	given := policy.Decision{Grant: &granted, Gain: 1.5, Fair: gres.Vector{GPUs: 2, CPUs: 6, Memory: 125000}}
	runs := round(3, &granted, given)
	without := func(n int) bridge.Report {
		return bridge.Report{Round: n, Began: noon.Add(time.Duration(n) * 5 * time.Minute)}
	}
	small, over := without(3), without(4)
	small.Small = true
	over.Ended = []bridge.Ended{{Job: 17, End: slurm.End{State: "FAILED"}, Attained: 600}}
	if got := heard(&Teller{}, runs, small, small, small, over); !strings.Contains(got, `run of 17: "" FAILED 600`) {
		t.Errorf("told\n%s", got)
	}
	got := heard(&Teller{}, runs, small, without(4), without(5), without(6))
	if strings.Count(got, Unseen) != 1 || !strings.Contains(got, "5 run of 17") {
		t.Errorf("told\n%s", got)
	}
}

func TestARequeueEndsARunAndTheNextOneIsAnother(t *testing.T) {
	given := policy.Decision{Grant: &granted, Gain: 1.5}
	waits := policy.Decision{Reason: policy.Turn, Why: "others go first"}
	again := round(5, &granted, given)
	again.Snapshot.Jobs[0].Started = noon.Add(24 * time.Minute)
	got := heard(&Teller{}, round(3, &granted, given), round(4, nil, waits), again)
	if strings.Count(got, "run of 17") != 3 || strings.Count(got, Requeued) != 1 {
		t.Errorf("told\n%s", got)
	}
}

func TestAReportWithoutAPlanTellsNothingAndForgetsNothing(t *testing.T) {
	teller := &Teller{}
	given := policy.Decision{Grant: &granted, Gain: 1.5}
	heard(teller, round(3, &granted, given))
	failed := round(4, &granted, given)
	failed.Plan.Decisions = nil
	blind := bridge.Report{Round: 5}
	if got := teller.Tell(&blind); got != nil {
		t.Errorf("of a round that saw nothing: %+v", got)
	}
	if got := heard(teller, failed); got != "" || len(teller.Running()) != 1 {
		t.Errorf("told %s, and %d run", got, len(teller.Running()))
	}
}

func TestWordsOfOneRunAreJoinedInWhateverOrder(t *testing.T) {
	began := Run{Job: 17, Began: noon, Why: "its turn", Round: 3}
	ended := Run{Job: 17, Began: noon, Ended: noon.Add(time.Hour), End: "COMPLETED", Ran: 2, Windows: 3}
	for _, runs := range [][]Run{MergeRuns([]Run{began}, []Run{ended}), MergeRuns([]Run{ended}, []Run{began})} {
		if len(runs) != 1 || runs[0].Why != "its turn" || runs[0].End != "COMPLETED" || runs[0].Windows != 3 {
			t.Errorf("joined %+v", runs)
		}
	}
	if runs := MergeRuns([]Run{began}, []Run{{Job: 17, Began: noon.Add(time.Hour)}}); len(runs) != 2 {
		t.Errorf("two runs are %+v", runs)
	}
}

// TestARequeueThatNobodySawEndsARunWithItsOwnGPUTime: what the next run has attained since is not counted twice.
func TestARequeueThatNobodySawEndsARunWithItsOwnGPUTime(t *testing.T) {
	given := policy.Decision{Grant: &granted, Gain: 1.5}
	again := round(6, &granted, given)
	again.Snapshot.Jobs[0].Started = noon.Add(25 * time.Minute) // 2 GPUs for 10 minutes before, and for 5 since
	again.Snapshot.Jobs[0].Attained = 1800
	got := heard(&Teller{}, round(3, &granted, given), again)
	if !strings.Contains(got, Requeued+" 1200") {
		t.Errorf("told\n%s", got)
	}
}
