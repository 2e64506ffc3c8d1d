package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/preflight"
)

// criterion is one entry of the table.
type criterion struct {
	name   string
	wanted func(w Wanted) string
	judge  func(f *Facts) finding
}

// finding is what one came to.
type finding struct {
	verdict          preflight.Verdict
	measured, remedy string
}

func ok(format string, a ...any) finding { return finding{preflight.OK, fmt.Sprintf(format, a...), ""} }

func fail(remedy, format string, a ...any) finding {
	return finding{preflight.Fail, fmt.Sprintf(format, a...), remedy}
}

func unknown(remedy, why string) finding { return finding{preflight.Skip, "not known: " + why, remedy} }

// criteria are what must be seen in each stage before the next; in the last one, what goes on being watched.
func criteria(s Stage) []criterion {
	checked := criterion{"checks", wants("no check fails"), checks}
	rounds := criterion{"rounds",
		func(w Wanted) string { return fmt.Sprintf("%d in a row in this stage", w.Rounds) }, rounds}
	fast := criterion{"time of a round",
		func(w Wanted) string { return fmt.Sprintf("at most %g of the period", w.Fast) }, fast}
	refused := criterion{"updates", wants("none refused"), refused}
	lost := criterion{"lost jobs", wants("none"), lost}
	slow := criterion{"speed by progress", wants("no job far below its profile"), slow}
	later := criterion{"ended runs", wants("none later than as asked for, by the ledger of savings"), later}
	proof := criterion{"proof of failing open",
		func(w Wanted) string {
			return fmt.Sprintf("seen with this version in the last %.0f days", w.Fresh.Hours()/24)
		}, proven}
	switch s {
	case Preflight:
		return []criterion{checked}
	case Shadow:
		return []criterion{checked, {"health", wants("rounds end well"), health}, rounds, fast,
			{"savings", wants("jobs with a profile"), known}}
	case Canary:
		jobs := criterion{"ended jobs", func(w Wanted) string { return fmt.Sprintf("%d of the canary", w.Jobs) }, ended}
		return []criterion{checked, {"health", wants("rounds end well"), health}, rounds, fast, jobs, lost, slow, later,
			refused, proof}
	}
	return []criterion{checked, {"health", wants("rounds end well"), health}, fast, lost, slow, later, refused, proof}
}

func wants(text string) func(Wanted) string { return func(Wanted) string { return text } }

// Judge says where a site is and what it lacks.
func Judge(f Facts) Status {
	s := Status{Stage: Preflight, Daemon: "does not answer: " + f.Daemon.Why}
	if f.Daemon.Why == "" {
		s.Stage, s.Daemon = f.Daemon.Value.Stage(), f.Daemon.Value.Says
	}
	s.Next, s.Ready = s.Stage.Next(), true
	for _, c := range criteria(s.Stage) {
		found := c.judge(&f)
		s.Ready = s.Ready && found.verdict == preflight.OK
		s.Criteria = append(s.Criteria,
			Criterion{c.name, found.verdict, found.measured, c.wanted(f.Wanted), found.remedy})
	}
	return s
}

func checks(f *Facts) finding {
	if f.Checks.Why != "" {
		return unknown("see what synergy-slurmd --check says, as the daemon's user and with its flags", f.Checks.Why)
	}
	var failing []string
	counts, gateToCome := map[preflight.Verdict]int{}, ""
	for _, line := range f.Checks.Value {
		switch {
		case line.Verdict == preflight.Fail && f.changesNothing() && ofGate[line.Check]:
			gateToCome = "; the gate is to come with the canary"
			continue
		case line.Verdict == preflight.Fail:
			failing = append(failing, line.Check)
		}
		counts[line.Verdict]++
	}
	if len(failing) > 0 {
		return fail("synergy-slurmd --check says what mends each", "%d fail: %s", len(failing), few(failing))
	}
	if counts[preflight.OK] == 0 {
		return unknown("see what synergy-slurmd --check says", "nothing was checked")
	}
	return ok("%d ok, %d warn, %d skip%s", counts[preflight.OK], counts[preflight.Warn], counts[preflight.Skip],
		gateToCome)
}

// ofGate are the checks of the gate. It stays out as long as the daemon changes nothing, so that jobs start as ever.
var ofGate = map[string]bool{"gate": true, "gate's lease": true, "trusted_uids": true, "gate's settings": true,
	"JobSubmitPlugins": true}

// changesNothing says that there is no daemon, or that it is in the shadow.
func (f *Facts) changesNothing() bool { return f.Daemon.Why != "" || f.Daemon.Value.Shadow }

func health(f *Facts) finding {
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

// rounds counts those that the daemon held in this stage without one that failed between: kept reports alone would not
// tell of those, and its own count alone would not tell the stage.
func rounds(f *Facts) finding {
	if f.Rounds.Why != "" {
		return unknown("see that the daemon's address is reached", f.Rounds.Why)
	}
	n := min(len(f.Rounds.Value), f.Daemon.Value.Well)
	if n < f.Wanted.Rounds {
		return fail("wait; if rounds fail, the daemon's log says why",
			"%d in a row; %d failed since the daemon's start%s", n, f.Daemon.Value.Failed, last(f.Daemon.Value.Failure))
	}
	return ok("%d in a row", n)
}

func last(failure string) string {
	if failure == "" {
		return ""
	}
	return ", the last: " + failure
}

// fast judges the last rounds, as many as are wanted.
func fast(f *Facts) finding {
	if f.Rounds.Why != "" || len(f.Rounds.Value) == 0 {
		return unknown("wait for rounds", orNone(f.Rounds.Why))
	}
	recent := f.Rounds.Value[max(0, len(f.Rounds.Value)-f.Wanted.Rounds):]
	worst := slices.MaxFunc(recent, func(a, b Round) int {
		switch x, y := a.part(), b.part(); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return a.Number - b.Number
	})
	if worst.part() > f.Wanted.Fast {
		return fail("see slurmrestd's and slurmctld's load, or make the rounds longer (--round)",
			"round %d took %s of %s", worst.Number, worst.Took.Round(time.Millisecond), worst.Period)
	}
	return ok("%s of %s at most, in the last %d rounds", worst.Took.Round(time.Millisecond), worst.Period, len(recent))
}

// part is the part of its period that a round took. Of a round whose period nobody knows it is all.
func (r Round) part() float64 {
	if r.Period <= 0 {
		return 1
	}
	return r.Took.Seconds() / r.Period.Seconds()
}

func known(f *Facts) finding {
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

func ended(f *Facts) finding {
	if f.Rounds.Why != "" {
		return unknown("see that the daemon's address is reached", f.Rounds.Why)
	}
	jobs := map[int]bool{}
	for _, r := range f.Rounds.Value {
		for _, job := range r.Ended {
			jobs[job] = true
		}
	}
	if len(jobs) < f.Wanted.Jobs {
		return fail("wait, or widen the canary", "%d in the %d rounds that are kept", len(jobs), len(f.Rounds.Value))
	}
	return ok("%d in the %d rounds that are kept", len(jobs), len(f.Rounds.Value))
}

func lost(f *Facts) finding {
	return none(f, func(r Round) []string { return r.Lost },
		"synergy explain JOB tells the story; let the job trap its signal, or declare no checkpoint")
}

// slow says how much progress was looked at: where no job reports it, none is below its profile either.
func slow(f *Facts) finding {
	found := none(f, func(r Round) []string { return r.Slow }, "measure the profile anew: synergy profile")
	if s := &f.Savings.Value; f.Savings.Why == "" && found.verdict == preflight.OK {
		progress := "no job reported progress lately"
		if s.Checks > 0 {
			progress = fmt.Sprintf("%d windows of progress lately, at %.2f of what profiles say", s.Checks, s.Ran)
		}
		found.measured += "; " + progress
	}
	return found
}

func refused(f *Facts) finding {
	return none(f, func(r Round) []string { return r.Refused },
		"the daemon's log has each; they are forgotten with the rounds that are kept")
}

// none says that no round kept has any of these.
func none(f *Facts, of func(Round) []string, remedy string) finding {
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

func later(f *Facts) finding {
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

func proven(f *Facts) finding {
	const again = "synergy rollout prove"
	p := f.Proof.Value
	switch age := f.Now.Sub(p.At); {
	case f.Proof.Why != "":
		return unknown(again, f.Proof.Why)
	case p.Passed() != nil:
		return fail(again, "of %s: %v", day(p.At), p.Passed())
	case p.Version != f.Daemon.Value.Version:
		return fail(again, "of %s, with version %s; %s runs", day(p.At), p.Version, f.Daemon.Value.Version)
	case age < -time.Hour || age > f.Wanted.Fresh:
		return fail(again, "of %s", day(p.At))
	}
	return ok("%s: %s", day(p.At), p.Sentence())
}

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

func orNone(why string) string {
	if why == "" {
		return "there are none of this stage"
	}
	return why
}

// few are the first of a list, in words.
func few(list []string) string {
	const most = 3
	if more := len(list) - most; more > 0 {
		return fmt.Sprintf("%s, and %d more", strings.Join(list[:most], "; "), more)
	}
	return strings.Join(list, "; ")
}
