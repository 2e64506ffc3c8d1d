package bridge_test

import (
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/policy/forecast"
)

// prophecy is an outlook that says the same of all jobs but some, with words that a test chooses.
type prophecy struct {
	at    time.Time
	words string
	mute  int
}

func (p *prophecy) Start(job int) (forecast.Spread, string, bool) {
	return forecast.Spread{P50: p.at}, p.words, job != p.mute
}

func (p *prophecy) Habits() forecast.Habits { return forecast.Habits{0, 1} }

// updates counts the jobs about which a round wrote something.
func updates(report bridge.Report) int { return len(report.Steps) }

func TestAnEstimateIsToldWithTheRenewalsAndCausesNoUpdateOfItsOwn(t *testing.T) {
	told := map[bool]int{}
	for _, foresees := range []bool{false, true} {
		w := newWorld(t, 1, server)
		p := &prophecy{at: epoch.Add(time.Hour), words: "expected to start soon"}
		if foresees {
			w.runner.Outlook = p
		}
		w.submit(8, model("res18"), forAges)
		waiting := w.submit(8, model("res18"))
		for round := range 12 {
			p.words = "expected to start in round " + string(rune('a'+round))
			report := w.rounds(1)
			told[foresees] += updates(report)
			for _, s := range report.Steps {
				if foresees && s.Verb == bridge.Renew && !strings.HasSuffix(s.Why, "; "+p.words) {
					t.Errorf("round %d tells job %d %q, want the estimate behind the reason", round, s.Job, s.Why)
				}
			}
			if extra := w.job(waiting).Extra; foresees && !strings.Contains(extra, "expected to start in round ") {
				t.Errorf("round %d: %s", round, extra)
			}
		}
	}
	if told[true] != told[false] || told[true] == 0 {
		t.Errorf("%d steps with estimates that change each round, %d without", told[true], told[false])
	}
}

func TestARoundReportsWhenEachWaitingJobIsExpectedToStart(t *testing.T) {
	w := newWorld(t, 1, server)
	w.runner.Settings.Explain, w.runner.Settings.Profiled = true, true
	w.submit(8, model("res18"), forAges)
	known, unknown := w.submit(8, model("res18")), w.submit(8, model("res18"))
	w.runner.Outlook = &prophecy{at: epoch.Add(time.Hour), mute: unknown}
	report := w.rounds(1)
	for _, wait := range report.Waits {
		switch {
		case wait.Job == known && (wait.Starts == nil || wait.Starts.P50 != epoch.Add(time.Hour)):
			t.Errorf("job %d: %+v", known, wait.Starts)
		case wait.Job == unknown && wait.Starts != nil:
			t.Errorf("job %d: %+v, of which nothing is known", unknown, wait.Starts)
		}
	}
	if len(report.Waits) != 2 || len(report.Habits) != 2 {
		t.Errorf("%d wait, habits %v", len(report.Waits), report.Habits)
	}
}
