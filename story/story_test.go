package story

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// round is one in which job 17 has this decision; it runs as has says.
func round(number int, has *policy.Placement, d policy.Decision, steps ...bridge.Step) bridge.Report {
	d.Job = 17
	return bridge.Report{
		Round: number, Began: noon.Add(time.Duration(number) * 5 * time.Minute), Steps: steps,
		Snapshot: policy.Cluster{Jobs: []policy.Job{{ID: 17, Name: "vision", User: "alice", GPUs: 2, Running: has,
			Started: noon.Add(15 * time.Minute)}}},
		Plan: policy.Plan{Decisions: []policy.Decision{{Job: 3}, d}},
	}
}

func told(s Story) string {
	var lines []string
	for _, e := range s.Events {
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%d %s %s", e.Round, e.What, e.Error)))
	}
	return strings.Join(lines, "\n")
}

var granted = policy.Placement{Nodes: []string{"n1"}, PerNode: gres.Vector{GPUs: 2, CPUs: 12, Memory: 100000}}

// life is a job that waits, is started, runs, is asked to leave in vain, and is over.
func life() []bridge.Report {
	waits := policy.Decision{Reason: policy.Turn, Why: "others go first"}
	given := policy.Decision{Grant: &granted, Gain: 1.5, Fair: gres.Vector{GPUs: 2, CPUs: 6, Memory: 125000},
		Why: "its turn, at 1.50× the proportional speed"}
	first, again := round(1, nil, waits), round(2, nil, waits)
	again.Waits = []bridge.Wait{ // the round has started who was the first
		{Job: 3, Reason: bridge.ByOrder, Cause: bridge.CauseHeldBack, Place: 4},
		{Job: 4, Reason: bridge.Misconfigured, Cause: bridge.CauseShape, Place: 3},
		{Job: 5, Reason: bridge.ForRoom, Cause: bridge.CauseGang, Place: 2},
		{Job: 17, Reason: bridge.ForRoom, Cause: bridge.CauseTurn, Place: 5}}
	again.Notes = []bridge.Note{{Job: 17, Text: "gets the proportional share"}, {Job: 3, Text: "no"}}
	started := round(3, nil, given, bridge.Step{Job: 17, Verb: bridge.Start, Why: "its turn"},
		bridge.Step{Job: 3, Verb: bridge.Start, Why: "no"})
	asked := round(5, &granted, waits, bridge.Step{Job: 17, Verb: bridge.Renew, Why: "lease"},
		bridge.Step{Job: 17, Verb: bridge.Preempt, Why: "job 18 goes first", Error: "signal: slurmrestd: 500"})
	over := bridge.Report{Round: 6, Began: noon.Add(time.Hour),
		Ended: []bridge.Ended{{Job: 17, End: slurm.End{State: "COMPLETED"}, Attained: 7200}}}
	later := over
	later.Round, later.Began = 7, noon.Add(2*time.Hour)
	return []bridge.Report{first, again, started, round(4, &granted, given), asked, over, later}
}

func TestAStoryIsToldInOrderAndOnceWhateverTheOrderOfTheRounds(t *testing.T) {
	const want = "1 waits: others go first\n" +
		"3 is given 2 GPUs, 12 cores, 100 GB on n1, where its share is 6 cores and 125 GB, " +
		"its turn, at 1.50× the proportional speed\n" +
		"3 started: its turn\n" +
		"4 runs since 2026-11-23 12:15:00 with 2 GPUs, 12 cores, 100 GB on n1, where its share is 6 cores and " +
		"125 GB, 1.50 times as fast as with that\n" +
		"5 waits: others go first\n" +
		"5 asked to save and leave: job 18 goes first signal: slurmrestd: 500\n" +
		"6 is over, COMPLETED: it had 2.0 GPU-hours"
	reports := life()
	if got := told(Of(17, reports)); got != want {
		t.Errorf("\n%s\nwant\n%s", got, want)
	}
	slices.Reverse(reports)
	before := reports[0].Round
	if got := told(Of(17, reports)); got != want {
		t.Errorf("the other way round\n%s\nwant\n%s", got, want)
	}
	if reports[0].Round != before {
		t.Error("the reports were sorted where they lie")
	}
}

// TestWhoIsAheadIsNamedAndNotesAreTheNewest: whoever was started in the round, or waits for something else, is not.
func TestWhoIsAheadIsNamedAndNotesAreTheNewest(t *testing.T) {
	s := Of(17, life()[:2])
	if !s.Known || s.Ahead != 2 || !slices.Equal(s.Next, []int{5, 3}) || s.Wait == nil ||
		s.Wait.Cause != bridge.CauseTurn || s.User != "alice" ||
		!slices.Equal(s.Notes, []string{"gets the proportional share"}) {
		t.Errorf("%+v", s)
	}
	if s := Of(17, life()[:3]); s.Notes != nil || s.Wait != nil || s.Gain != 1.5 {
		t.Errorf("once it is started: %+v", s)
	}
}

func TestAJobThatNoRoundKnowsHasNoStory(t *testing.T) {
	if s := Of(99, life()); s.Known || len(s.Events) > 0 {
		t.Errorf("%+v", s)
	}
	outside := bridge.Report{Round: 1, Outside: []bridge.Outside{{Job: 99, Why: "it is exclusive"}}}
	if s := Of(99, []bridge.Report{outside}); !slices.Equal(s.Notes, []string{"left to Slurm: it is exclusive"}) {
		t.Errorf("%+v", s)
	}
}

func TestInTheShadowStepsAreWhatWouldBe(t *testing.T) {
	report := life()[2]
	report.Shadow = true
	if got := told(Of(17, []bridge.Report{report})); !strings.Contains(got, "would be started: its turn") {
		t.Error(got)
	}
}

func TestManyNodesAreCounted(t *testing.T) {
	if got := Nodes([]string{"a", "b", "c", "d", "e", "f"}); got != "a, b, c, d and 2 more" {
		t.Error(got)
	}
}
