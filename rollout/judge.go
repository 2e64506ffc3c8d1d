package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/preflight"
)

// criterion is one condition that must hold before the next stage, or that is still watched in the last stage.
type criterion struct {
	name   string
	wanted string
	judge  func(f *Facts) finding
}

// finding is the outcome of one criterion: the verdict, what was measured, and a remedy.
type finding struct {
	verdict          preflight.Verdict
	measured, remedy string
}

func ok(format string, a ...any) finding { return finding{preflight.OK, fmt.Sprintf(format, a...), ""} }

// fail is an unmet criterion. It is a warning only, see Lines.
func fail(remedy, format string, a ...any) finding {
	return finding{preflight.Warn, fmt.Sprintf(format, a...), remedy}
}

func unknown(remedy, why string) finding { return finding{preflight.Skip, "not known: " + why, remedy} }

var (
	ofHealth  = criterion{"health", "rounds end well", judgeHealth}
	ofRounds  = criterion{"rounds", fmt.Sprintf("%d in a row in this stage", wantedRounds), judgeRounds}
	ofTime    = criterion{"time of a round", fmt.Sprintf("at most %g of the period", fastRound), judgeRoundTime}
	ofSavings = criterion{"savings", "jobs with a profile", judgeSavings}
	ofJobs    = criterion{"ended jobs", fmt.Sprintf("%d of the canary", wantedJobs), judgeEndedJobs}
	ofLost    = criterion{"lost jobs", "none", judgeLostJobs}
	ofSpeed   = criterion{"speed by progress", "no job far below its profile", judgeSpeed}
	ofRuns    = criterion{"ended runs", "none later than as asked for, by the ledger of savings", judgeRunEnds}
	ofUpdates = criterion{"updates", "none refused", judgeUpdates}
)

// criteria lists what is judged in each stage.
var criteria = map[Stage][]criterion{
	Shadow: {ofHealth, ofRounds, ofTime, ofSavings},
	Canary: {ofHealth, ofRounds, ofTime, ofJobs, ofLost, ofSpeed, ofRuns, ofUpdates},
	On:     {ofHealth, ofTime, ofLost, ofSpeed, ofRuns, ofUpdates},
}

// Lines reports which stage a site is in and what is missing for the next one. An unmet criterion is a warning only,
// since the daemon keeps running as it is.
func Lines(f Facts) []preflight.Line {
	const check = "stage"
	if f.Daemon.Why != "" {
		return []preflight.Line{{Check: check, Verdict: preflight.Skip, Text: "no daemon answers: " + f.Daemon.Why}}
	}
	stage := f.Daemon.Value.Stage()
	lines := []preflight.Line{{Check: check, Verdict: preflight.OK,
		Text: fmt.Sprintf("%s; the daemon: %s", stage, f.Daemon.Value.Says)}}
	of := string(stage)
	if next := stage.Next(); next != "" {
		of = "before " + string(next)
	}
	for _, c := range criteria[stage] {
		found := c.judge(&f)
		line := preflight.Line{Check: of + ": " + c.name, Verdict: found.verdict,
			Text: fmt.Sprintf("%s (wanted: %s)", found.measured, c.wanted)}
		if line.Verdict != preflight.OK {
			line.Remedy = found.remedy
		}
		lines = append(lines, line)
	}
	return lines
}

// judgeHealth requires that the daemon does not stand by behind another one, and that its rounds end well.
func judgeHealth(f *Facts) finding {
	d := &f.Daemon.Value
	switch {
	case d.Behind:
		return fail("ask the one that leads: --daemon", "%s", d.Says)
	case !d.Healthy:
		return fail("see the daemon's log: journalctl -u synergy-slurmd", "%s", d.Says)
	case d.Failed > 0:
		return ok("%s; of %d since its start that failed, the last: %s", d.Says, d.Failed, d.Failure)
	}
	return ok("%s", d.Says)
}

// judgeRounds counts the latest rounds of this stage without a failed one in between. It needs both sources: kept
// reports do not show failed rounds, and the daemon's own count does not tell the stages apart.
func judgeRounds(f *Facts) finding {
	if f.Rounds.Why != "" {
		return unknown("see that the daemon's address is reached", f.Rounds.Why)
	}
	n := min(len(f.Rounds.Value), f.Daemon.Value.Well)
	if n < wantedRounds {
		return fail("wait; if rounds fail, the daemon's log says why",
			"%d in a row; %d failed since the daemon's start%s", n, f.Daemon.Value.Failed, last(f.Daemon.Value.Failure))
	}
	return ok("%d in a row", n)
}

// last adds the last failure to a sentence, if there was one.
func last(failure string) string {
	if failure == "" {
		return ""
	}
	return ", the last: " + failure
}

// judgeRoundTime judges the slowest of the last wantedRounds rounds. Of equally slow ones it names the latest.
func judgeRoundTime(f *Facts) finding {
	if f.Rounds.Why != "" || len(f.Rounds.Value) == 0 {
		return unknown("wait for rounds", orNone(f.Rounds.Why))
	}
	recent := f.Rounds.Value[max(0, len(f.Rounds.Value)-wantedRounds):]
	worst := slices.MaxFunc(recent, func(a, b Round) int {
		switch x, y := a.part(), b.part(); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return a.Number - b.Number
	})
	if worst.part() > fastRound {
		return fail("see slurmrestd's and slurmctld's load, or make the rounds longer (--round)",
			"round %d took %s of %s", worst.Number, worst.Took.Round(time.Millisecond), worst.Period)
	}
	return ok("%s of %s at most, in the last %d rounds", worst.Took.Round(time.Millisecond), worst.Period, len(recent))
}

// part is the part of its period that a round took; 1 if the period is unknown, so that such a round fails.
func (r Round) part() float64 {
	if r.Period <= 0 {
		return 1
	}
	return r.Took.Seconds() / r.Period.Seconds()
}

// judgeSavings requires that some job with a profile has run, since only such jobs show what the daemon would save.
func judgeSavings(f *Facts) finding {
	switch s := f.Savings.Value; {
	case f.Savings.Why != "":
		return unknown("name a folder as savings in the configuration, and reload", f.Savings.Why)
	case s.Known <= 0:
		return fail("say what jobs are by match in the configuration, or have users carry the word",
			"no job with a profile has run")
	default:
		return ok("%.1f GPU-hours of jobs with a profile, of which %.1f would have been saved", s.Known, s.Saved)
	}
}

// judgeEndedJobs counts the different jobs that ended in the kept rounds.
func judgeEndedJobs(f *Facts) finding {
	if f.Rounds.Why != "" {
		return unknown("see that the daemon's address is reached", f.Rounds.Why)
	}
	jobs := map[int]bool{}
	for _, r := range f.Rounds.Value {
		for _, job := range r.Ended {
			jobs[job] = true
		}
	}
	if len(jobs) < wantedJobs {
		return fail("wait, or widen the canary", "%d in the %d rounds that are kept", len(jobs), len(f.Rounds.Value))
	}
	return ok("%d in the %d rounds that are kept", len(jobs), len(f.Rounds.Value))
}

// judgeLostJobs requires that all preempted jobs came back.
func judgeLostJobs(f *Facts) finding {
	return judgeNone(f, func(r Round) []string { return r.Lost },
		"synergy explain JOB tells the story; let the job trap its signal, or declare no checkpoint")
}

// judgeSpeed requires that no job runs far below the speed of its profile. It also says how many windows of progress
// were compared, since without progress reports no such job can be found.
func judgeSpeed(f *Facts) finding {
	found := judgeNone(f, func(r Round) []string { return r.Slow }, "measure the profile anew: synergy profile")
	if s := &f.Savings.Value; f.Savings.Why == "" && found.verdict == preflight.OK {
		progress := "no job reported progress lately"
		if s.Checks > 0 {
			progress = fmt.Sprintf("%d windows of progress lately, at %.2f of what profiles say", s.Checks, s.Ran)
		}
		found.measured += "; " + progress
	}
	return found
}

// judgeUpdates requires that Slurm refused no update.
func judgeUpdates(f *Facts) finding {
	return judgeNone(f, func(r Round) []string { return r.Refused },
		"the daemon's log has each; they are forgotten with the rounds that are kept")
}

// judgeNone is the finding that no kept round has any entry in the list that of returns. Without a kept round it is
// unknown. An entry that several rounds have counts once.
func judgeNone(f *Facts, of func(Round) []string, remedy string) finding {
	if f.Rounds.Why != "" || len(f.Rounds.Value) == 0 {
		return unknown("wait for rounds", orNone(f.Rounds.Why))
	}
	seen := map[string]bool{}
	var found []string
	for _, r := range f.Rounds.Value {
		for _, text := range of(r) {
			if !seen[text] {
				seen[text] = true
				found = append(found, text)
			}
		}
	}
	if len(found) > 0 {
		return fail(remedy, "%d: %s", len(found), few(found))
	}
	return ok("none in the %d rounds that are kept", len(f.Rounds.Value))
}

// judgeRunEnds requires that no run ended later than it would have with its user's own request.
func judgeRunEnds(f *Facts) finding {
	switch s := f.Savings.Value; {
	case f.Savings.Why != "":
		return unknown("name a folder as savings in the configuration, and reload", f.Savings.Why)
	case s.Later > 0:
		return fail("synergy savings shows the days; synergy explain JOB what a job was given",
			"%d of %d runs, by %s together", s.Later, s.Ended, s.Belated.Round(time.Second))
	default:
		return ok("none of %d runs", s.Ended)
	}
}

func orNone(why string) string {
	if why == "" {
		return "there are none of this stage"
	}
	return why
}

// few lists the first three entries and counts the rest.
func few(list []string) string {
	const most = 3
	if more := len(list) - most; more > 0 {
		return fmt.Sprintf("%s, and %d more", strings.Join(list[:most], "; "), more)
	}
	return strings.Join(list, "; ")
}
