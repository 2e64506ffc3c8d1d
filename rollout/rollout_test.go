package rollout_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/preflight"
	"github.com/synergy-slurmd/synergy-slurmd/rollout"
)

// well are facts of a site in the canary with which all is well.
func well() rollout.Facts {
	var f rollout.Facts
	f.Daemon.Value = rollout.Daemon{Version: "v1", Healthy: true, Well: 12, Round: 300, Lease: 900,
		Says: "round 12 ended well 2s ago", Canary: bridge.Canary{Accounts: []string{"vision"}}}
	for i := range 12 {
		f.Rounds.Value = append(f.Rounds.Value, rollout.Round{Number: i + 1, Period: 5 * time.Minute,
			Took: 2 * time.Second, Ended: []int{i, i + 1}})
	}
	f.Savings.Value = rollout.Savings{Known: 30, Saved: 3, Ended: 20}
	return f
}

// criterion is the line of that name.
func criterion(t *testing.T, lines []preflight.Line, name string) preflight.Line {
	t.Helper()
	for _, line := range lines {
		if strings.HasSuffix(line.Check, ": "+name) {
			return line
		}
	}
	t.Fatalf("no criterion %s in %+v", name, lines)
	return preflight.Line{}
}

func TestTheStageIsWhatTheDaemonTells(t *testing.T) {
	for want, change := range map[string]func(f *rollout.Facts){
		"shadow; before canary": func(f *rollout.Facts) { f.Daemon.Value.Shadow = true },
		"canary; before on":     func(*rollout.Facts) {},
		"on; on":                func(f *rollout.Facts) { f.Daemon.Value.Canary = bridge.Canary{} },
	} {
		f := well()
		change(&f)
		lines := rollout.Lines(f)
		stage, prefix, _ := strings.Cut(want, "; ")
		if lines[0].Text != stage+"; the daemon: round 12 ended well 2s ago" {
			t.Errorf("%q, want stage %s", lines[0].Text, stage)
		}
		for _, line := range lines {
			if line.Verdict != preflight.OK || line.Check != "stage" && !strings.HasPrefix(line.Check, prefix+": ") {
				t.Errorf("%s: %+v", want, line)
			}
		}
	}
}

func TestWhereNoDaemonAnswersThereIsNoStage(t *testing.T) {
	f := well()
	f.Daemon.Why = "connection refused"
	lines := rollout.Lines(f)
	if len(lines) != 1 || lines[0].Verdict != preflight.Skip || !strings.Contains(lines[0].Text, "connection refused") {
		t.Errorf("%+v", lines)
	}
}

// Each of these keeps a site from the next stage by itself, with a remedy.
func TestEachCriterionAloneKeepsASiteFromTheNextStage(t *testing.T) {
	shadow := func(f *rollout.Facts) { f.Daemon.Value.Shadow = true }
	const period, slow = "time of a round", "speed by progress"
	last := func(f *rollout.Facts) *rollout.Round { return &f.Rounds.Value[len(f.Rounds.Value)-1] }
	for name, c := range map[string]struct {
		change    func(f *rollout.Facts)
		criterion string
		says      string
	}{
		"an ill daemon":     {func(f *rollout.Facts) { f.Daemon.Value.Healthy = false }, "health", "round 12"},
		"one that is idle":  {func(f *rollout.Facts) { f.Daemon.Value.Behind = true }, "health", "round 12"},
		"nine rounds":       {func(f *rollout.Facts) { f.Rounds.Value = f.Rounds.Value[:9] }, "rounds", "9 in a row"},
		"a failure lately":  {func(f *rollout.Facts) { f.Daemon.Value.Well = 9 }, "rounds", "9 in a row"},
		"no rounds":         {func(f *rollout.Facts) { f.Rounds.Why = "refused" }, "rounds", "refused"},
		"a slow round":      {func(f *rollout.Facts) { last(f).Took = 31 * time.Second }, period, "31s of 5m0s"},
		"an unknown period": {func(f *rollout.Facts) { last(f).Period = 0 }, period, "round 12"},
		"no known job": {func(f *rollout.Facts) { shadow(f); f.Savings.Value.Known = 0 }, "savings",
			"no job with a profile"},
		"no ledger": {func(f *rollout.Facts) { shadow(f); f.Savings.Why = "there is none" }, "savings",
			"there is none"},
		"nine jobs": {func(f *rollout.Facts) {
			for i := range f.Rounds.Value {
				f.Rounds.Value[i].Ended = []int{i % 9}
			}
		}, "ended jobs", "9 in the 12 rounds"},
		"a lost job": {func(f *rollout.Facts) { last(f).Lost = []string{"job 7, by-signal"} }, "lost jobs",
			"1: job 7, by-signal"},
		"a slow job":  {func(f *rollout.Facts) { last(f).Slow = []string{"job 7"} }, slow, "1: job 7"},
		"a later run": {func(f *rollout.Facts) { f.Savings.Value.Later = 2 }, "ended runs", "2 of"},
		"a refusal":   {func(f *rollout.Facts) { last(f).Refused = []string{"job 7"} }, "updates", "1: job 7"},
	} {
		f := well()
		c.change(&f)
		lines := rollout.Lines(f)
		found := criterion(t, lines, c.criterion)
		if found.Verdict == preflight.OK || found.Verdict == preflight.Fail || !strings.Contains(found.Text, c.says) ||
			found.Remedy == "" {
			t.Errorf("%s: %+v, want %q", name, found, c.says)
		}
		for _, other := range lines {
			if other.Check != found.Check && other.Verdict != preflight.OK && c.criterion != "rounds" {
				t.Errorf("%s: %+v too", name, other)
			}
		}
	}
}

func TestHowMuchProgressWasLookedAtIsTold(t *testing.T) {
	f := well()
	if got := criterion(t, rollout.Lines(f), "speed by progress").Text; !strings.Contains(got,
		"; no job reported progress lately (") {
		t.Error(got)
	}
	f.Savings.Value.Checks, f.Savings.Value.Ran = 41, 1.02
	if got := criterion(t, rollout.Lines(f), "speed by progress").Text; !strings.Contains(got,
		"; 41 windows of progress lately, at 1.02 of what profiles say (") {
		t.Error(got)
	}
}

func TestOnlyRoundsOfThisStageAndThisCanaryCount(t *testing.T) {
	vision, text := bridge.Canary{Accounts: []string{"vision"}}, bridge.Canary{Accounts: []string{"text"}}
	reports := []bridge.Report{{Round: 1, Canary: vision}, {Round: 2, Shadow: true}, {Round: 3, Canary: text},
		{Round: 4, Canary: vision}, {Round: 5, Canary: vision}}
	for want, d := range map[string]rollout.Daemon{
		"[4 5]": {Canary: vision}, "[]": {}, "[] ": {Canary: text}, "[]  ": {Shadow: true},
	} {
		var numbers []int
		for _, r := range rollout.OfStage(&d, reports) {
			numbers = append(numbers, r.Number)
		}
		if got := fmt.Sprint(numbers); got != strings.TrimSpace(want) {
			t.Errorf("%+v: rounds %s, want %s", d, got, want)
		}
	}
}

func TestWhatOfARoundMattersIsTakenFromItsReport(t *testing.T) {
	r := bridge.Report{Round: 9, Phases: []bridge.Phase{{Took: time.Second}, {Took: 2 * time.Second}},
		Snapshot: policy.Cluster{Rules: policy.Rules{Round: time.Minute}},
		Ended:    []bridge.Ended{{Job: 4}}, Lost: []bridge.Loss{{Job: 5, Cause: "x"}},
		Contradicting: []bridge.Contradicting{{Job: 6}},
		Steps: []bridge.Step{{Job: 7, Verb: bridge.Start, Error: "refused"}, {Job: 8, Verb: bridge.Renew},
			{Job: 9, Verb: bridge.Renew, PutOff: true}}}
	got := rollout.RoundOf(r)
	if got.Number != 9 || got.Took != 3*time.Second || got.Period != time.Minute || len(got.Ended) != 1 ||
		len(got.Lost) != 1 || len(got.Slow) != 1 || len(got.Refused) != 1 || got.Refused[0] != "job 7, start: refused" {
		t.Errorf("%+v", got)
	}
}
