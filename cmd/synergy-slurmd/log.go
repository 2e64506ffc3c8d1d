package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sort"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/rs/zerolog"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/leader"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest"
	"github.com/synergy-slurmd/synergy-slurmd/ledger"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// newLog returns a logger that writes one line per event: JSON for machines, or columns for people. Rounds and the
// leader election may use it at the same time.
func newLog(out io.Writer, format, level string) (zerolog.Logger, error) {
	least, err := zerolog.ParseLevel(level)
	if err != nil {
		return zerolog.Nop(), err
	}
	if format == logConsole {
		out = zerolog.ConsoleWriter{Out: out, TimeFormat: time.DateTime, NoColor: true}
	} else {
		out = escapingWriter{out}
	}
	return zerolog.New(zerolog.SyncWriter(out)).Level(least).With().Timestamp().Logger(), nil
}

// escapingWriter writes lines of JSON without characters that a terminal obeys. JSON itself escapes only ASCII's
// control characters. Those of eight bits, and those that turn the direction of writing, would reach the terminal of a
// reader of the journal.
type escapingWriter struct{ io.Writer }

// Write escapes such characters as JSON does, in UTF-16, so that a program reads the same text. It counts the line as
// given.
func (p escapingWriter) Write(line []byte) (int, error) {
	if !bytes.ContainsFunc(line, isUnprintable) {
		return p.Writer.Write(line)
	}
	escaped := make([]byte, 0, 2*len(line))
	for _, r := range string(line) {
		if !isUnprintable(r) {
			escaped = utf8.AppendRune(escaped, r)
			continue
		}
		for _, half := range utf16.AppendRune(nil, r) {
			escaped = fmt.Appendf(escaped, "\\u%04x", half)
		}
	}
	if _, err := p.Writer.Write(escaped); err != nil {
		return 0, err
	}
	return len(line), nil
}

func isUnprintable(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }

// journal logs rounds: each change in a line, and everything else only when it is new.
type journal struct {
	log   zerolog.Logger
	state failureKind              // of the last round
	ill   int                      // how many rounds in a row had it
	said  map[remark]bool          // by the last good round
	waits map[int]bridge.WaitCause // of each job that waited in the last good round
	apart bool                     // Slurm's clock and the host's differed in the last good round
	gap   bool                     // some of the site's limits were unknown in the last good round

	unleased  bool // there was no lease job in the last round
	unlearned bool // what jobs teach could not be stored in the last round
}

// remark is a sentence about a job to which nothing was done.
type remark struct {
	job  int
	text string
}

// failureKind is a kind of failure. While it lasts, only its first round is logged as an error.
type failureKind string

const (
	noFailure   failureKind = ""
	unreachable failureKind = "unreachable"
	denied      failureKind = "denied"
	vetoed      failureKind = "vetoed"
	late        failureKind = "late"
	unkept      failureKind = "unkept"
	stopped     failureKind = "stopped"
	outranked   failureKind = "outranked"
	ticketless  failureKind = "ticketless"
)

// failureKindOf names the kind of an error. Errors of no known kind are distinguished by their text. The order counts:
// an error may be of several kinds, as a request that Slurm forbids is also one that it denies.
func failureKindOf(err error) failureKind {
	switch {
	case err == nil:
		return noFailure
	case errors.Is(err, errStopped):
		return stopped
	case errors.Is(err, leader.ErrLost):
		return ticketless
	case errors.Is(err, slurm.ErrNotLeader):
		return outranked
	case errors.Is(err, slurm.ErrUnreachable):
		return unreachable
	case mayNot(err):
		return vetoed
	case errors.Is(err, slurm.ErrDenied):
		return denied
	case errors.Is(err, ledger.ErrUnkept):
		return unkept
	case errors.Is(err, context.DeadlineExceeded):
		return late
	}
	return failureKind(err.Error())
}

// accessDenied is Slurm's ESLURM_ACCESS_DENIED. An invalid token has another number.
const accessDenied = 2002

// mayNot reports whether Slurm accepted the token and refused the request: our user has no right to it, or the gate
// does not trust our user.
func mayNot(err error) bool {
	var failure *slurmrest.Failure
	return errors.As(err, &failure) && failure.Number == accessDenied
}

// remedy is what an administrator can do about it; empty: nothing.
func (a failureKind) remedy() string {
	switch a {
	case unreachable:
		return "nothing is changed meanwhile; when it lasts, leases lapse and Slurm starts waiting jobs as they were " +
			"asked for"
	case denied:
		return "renew the token, as a file that only the daemon's user can read"
	case vetoed:
		return "the token is good: name the uid of the daemon's user in trusted_uids of synergy_settings.lua, and " +
			"make him an operator in slurmdbd"
	case outranked:
		return "nothing more is changed; when the other daemon is to go, stop that one"
	case ticketless:
		return "another ticket is taken; when that goes too, look who cancels jobs of the daemon's user, and whether " +
			"slurmrestd lists any jobs"
	case unkept:
		return "make room on the ledger's disk, or mend it; a round whose intent cannot be written does nothing, one " +
			"whose end cannot is told in the log alone"
	case late:
		return "the round took longer than the time between rounds: look at the phases in /metrics"
	}
	return ""
}

// round logs one round. The changes come first: they were made even if the round failed afterwards.
func (j *journal) round(report bridge.Report, took time.Duration, err error) {
	if i := report.Interrupted; i != nil {
		j.log.Warn().Int("round", i.Round).Time("at", i.At).Int("steps",
			len(i.Steps)).Msg("this round was cut short; its steps are in /round")
	}
	j.audit(report)
	j.losses(report)
	if err != nil {
		j.failure(report.Round, err)
		return
	}
	j.recovery()
	j.remarks(report)
	j.lessons(report)
	j.reasons(report)
	j.clocks(report)
	j.refusedPlan(report)
	j.limits(report)
	j.lease(report)
	c := count(report)
	line := j.log.Info().Int("round", report.Round).Float64("seconds", seconds(took)).Bool("shadow", report.Shadow)
	if report.Certificate != nil {
		line = line.Stringer("plan", report.Certificate)
	}
	line.Int("running", c.granted).Int("waiting", c.waiting).Int("outside", c.outside).
		Int("started", c.of(bridge.Start)).Int("preempted", c.of(bridge.Preempt)).Int("renewed", c.of(bridge.Renew))
	addFailures(line, c).Msg("round")
}

// smallRound logs what a small round did. Most failures are left to the next round to report, if they last. A plan that
// breaks a promise is an error at once: it is a fault of ours, and the next round need not have it.
func (j *journal) smallRound(report bridge.Report, took time.Duration, err error) {
	j.audit(report)
	j.losses(report)
	j.clocks(report)
	j.refusedPlan(report)
	j.lessons(report)
	if err != nil {
		level := zerolog.DebugLevel
		if errors.Is(err, bridge.ErrPlan) {
			level = zerolog.ErrorLevel
		}
		j.log.WithLevel(level).Int("after_round", report.Round).Err(err).Msg("small round failed")
		return
	}
	c := count(report)
	line := j.log.Info().Int("after_round", report.Round).Float64("seconds", seconds(took)).
		Bool("shadow", report.Shadow).Int("started", c.of(bridge.Start))
	addFailures(line, c).Msg("small round")
}

// addFailures adds failed and put-off steps to a round's line. The word "failed" is left out if nothing failed, because
// people search logs for it.
func addFailures(line *zerolog.Event, c tally) *zerolog.Event {
	if n := c.failures(); n > 0 {
		line.Int("failed", n)
	}
	if n := c.putOff(); n > 0 {
		line.Int("put_off", n)
	}
	return line
}

// What an administrator can do, in the log and on the cluster's page.
const (
	remedyOfClocks   = "run the same time service on both hosts"
	remedyOfLearning = "make room in the folder of learned, or make it the daemon's to write: until then each round " +
		"tries again"
	remedyOfLimits  = "look whether slurmdbd runs, and slurmrestd serves its part with the daemon's token"
	remedyOfLease   = "let the daemon's user submit jobs to the first of the partitions"
	remedyOfSavings = "make room in the folder of savings, make it the daemon's to write, or remove the file that is " +
		"damaged"
	remedyOfReload  = "mend the file and send SIGHUP again"
	remedyOfPlanner = "try it with: synergy plugin check"
	remedyOfRefused = "report it with /snapshot of the daemon: the planner is wrong, and nothing of that plan was done"
)

// farApart is by how much two clocks may differ before a person should look.
const farApart = 30 * time.Second

// clocks logs when Slurm's clock was set, and once that it and ours differ. Rounds follow Slurm's clock, so neither
// harms a job.
func (j *journal) clocks(report bridge.Report) {
	if report.ClockStep != 0 {
		j.log.Warn().Int("round", report.Round).Float64("seconds", seconds(report.ClockStep)).
			Msg("slurm's clock was set: leases end sooner or later by as much, and are renewed")
	}
	apart := report.ClockAhead.Abs() > farApart
	if apart && !j.apart {
		j.log.Warn().Int("round", report.Round).Float64("slurm_ahead_seconds", seconds(report.ClockAhead)).
			Str("remedy", remedyOfClocks).Msg(
			"slurm's clock and ours differ: rounds go by slurm's")
	}
	j.apart = apart
}

// refusedPlan logs that the plan of the built-in planner failed its check.
func (j *journal) refusedPlan(report bridge.Report) {
	if report.Refused != "" {
		j.log.Error().Int("round", report.Round).Str("breaks", report.Refused).Str("remedy", remedyOfRefused).
			Msg("plan refused: another one was made, in which all running jobs stay as they are")
	}
}

// lessons logs what was learned from which job, and once that it cannot be stored.
func (j *journal) lessons(report bridge.Report) {
	for _, l := range report.Lessons {
		message := "learned"
		if l.Forgot {
			message = "forgot what was learned: a job of that name runs otherwise"
		}
		j.log.Info().Int("round", report.Round).Int("job", l.Job).Str("user", l.User).Str("job_name",
			l.Name).Int("points", l.Points).Msg(message)
	}
	if report.LearnFault != "" && !j.unlearned {
		j.log.Error().Int("round", report.Round).Str("error", report.LearnFault).
			Str("remedy", remedyOfLearning).
			Msg("what jobs teach cannot be kept")
	}
	j.unlearned = report.LearnFault != ""
}

// limits logs once that the site's limits cannot be read, and once that they can be again.
func (j *journal) limits(report bridge.Report) {
	gap := report.LimitsGap != ""
	switch {
	case gap && !j.gap:
		j.log.Warn().Int("round", report.Round).Str("error", report.LimitsGap).
			Str("remedy", remedyOfLimits).Msg(
			"the site's limits are not known")
	case !gap && j.gap:
		j.log.Info().Int("round", report.Round).Msg("the site's limits are known again")
	}
	j.gap = gap
}

// lease logs once that there can be no lease job, and once that there is one again. Only full rounds renew the lease
// job, so small ones say nothing of it.
func (j *journal) lease(report bridge.Report) {
	if report.Small {
		return
	}
	without := report.NoLeaseJob != ""
	switch {
	case without && !j.unleased:
		j.log.Warn().Int("round", report.Round).Str("error", report.NoLeaseJob).Str("remedy", remedyOfLease).
			Msg("slurm takes no lease job: each waiting job has a begin time, which is renewed one by one")
	case !without && j.unleased:
		j.log.Info().Int("round", report.Round).Msg("all jobs have one lease again")
	}
	j.unleased = without
}

// audit logs one line for each step, and one for each field that it changed. Lease renewals are many and say nothing
// new, so they are logged for debugging unless they fail.
func (j *journal) audit(report bridge.Report) {
	for _, step := range report.Steps {
		level := levelOf(step)
		for _, change := range step.Changes {
			j.step(level, report, step).Str("field", change.Field).Str("old", change.Old).Str("new",
				change.New).Msg("change")
		}
		line := j.step(level, report, step).Float64("seconds", seconds(step.Took))
		if step.Grant != nil {
			line = line.Strs("nodes", step.Grant.Nodes).Stringer("per_node", step.Grant.PerNode)
		}
		if c := step.Cost; c != nil {
			line = line.Float64("restart_s", c.Save+c.Start).Str("restart_by", string(c.By))
		}
		if step.Got != nil {
			line = line.Stringer("got", step.Got)
		}
		if step.Error != "" {
			line = line.Str("error", step.Error)
		}
		line.Msg("step")
	}
}

// losses logs which jobs did not come back after they were asked to save, and the likely cause. No later round reports
// them again.
func (j *journal) losses(report bridge.Report) {
	for _, loss := range report.Lost {
		j.log.Warn().Int("round", report.Round).Int("job", loss.Job).Str("user", loss.User).Str("profile",
			loss.Profile).
			Str("state", loss.End.State).Int("exit_code", loss.End.Code).Int("signal", loss.End.Signal).
			Str("cause", string(loss.Cause)).Str("reason", loss.Why).Msg("lost")
	}
}

// levelOf is the level of a step's lines: a warning if it failed, or if Slurm started the job with another size than
// was planned (Got).
func levelOf(step bridge.Step) zerolog.Level {
	switch {
	case step.Error != "", step.Got != nil:
		return zerolog.WarnLevel
	case step.Verb == bridge.Renew:
		return zerolog.DebugLevel
	}
	return zerolog.InfoLevel
}

// step begins a line about a step.
func (j *journal) step(level zerolog.Level, report bridge.Report, step bridge.Step) *zerolog.Event {
	line := j.log.WithLevel(level).Int("round", report.Round).Int("job", step.Job)
	return addJobOwner(line, report, step.Job).Str("verb", string(step.Verb)).Str("reason", step.Why).Bool("shadow",
		report.Shadow)
}

// addJobOwner adds the job's user and profile to a line, as far as the round knows them.
func addJobOwner(line *zerolog.Event, report bridge.Report, job int) *zerolog.Event {
	if j := snapshotJob(report, job); j != nil {
		line.Str("user", j.User).Str("profile", j.ProfileName)
	}
	return line
}

// snapshotJob is a job as the round saw it; nil if the round does not plan it.
func snapshotJob(report bridge.Report, job int) *policy.Job {
	jobs := report.Snapshot.Jobs
	k, found := sort.Find(len(jobs), func(k int) int { return job - jobs[k].ID })
	if !found {
		return nil
	}
	return &jobs[k]
}

// remarkLines bounds the remarks of one round, since users choose the words in them.
const remarkLines = 200

// waitLines bounds how many changed reasons for waiting one round logs job by job. Many at once are one event.
const waitLines = 50

// reasons logs why a job waits, once, and again when the cause changes. Other words for the same cause, as when other
// nodes are full, are not logged.
func (j *journal) reasons(report bridge.Report) {
	waits, news := make(map[int]bridge.WaitCause), 0
	for _, w := range report.Waits {
		job := snapshotJob(report, w.Job)
		if w.Cause == bridge.CauseHeld || w.Cause == bridge.CauseLeftToSlurm || job != nil && job.Running != nil {
			continue // a job left to Slurm is logged as such, and a stopped job has a step that says why
		}
		waits[w.Job] = w.Cause
		if before, waited := j.waits[w.Job]; waited && before == w.Cause {
			continue
		}
		if news++; news <= waitLines {
			line := j.log.Info().Int("round", report.Round).Int("job", w.Job)
			addJobOwner(line, report, w.Job).Str("waits_for", string(w.Reason)).Str("cause", string(w.Cause)).
				Str("reason", w.Why).Msg("waits")
		}
	}
	if more := news - waitLines; more > 0 {
		j.log.Info().Int("round", report.Round).Int("jobs",
			more).Msg("more jobs wait for another reason than before: each is in /round")
	}
	j.waits = waits
}

// seconds is d in seconds, rounded to milliseconds.
func seconds(d time.Duration) float64 { return d.Round(time.Millisecond).Seconds() }

// failure logs why a round failed: as an error when the kind of failure is new, for debugging when it lasts.
func (j *journal) failure(round int, err error) {
	kind := failureKindOf(err)
	level, message := zerolog.ErrorLevel, "round failed"
	switch {
	case kind == stopped:
		level, message = zerolog.InfoLevel, "round cut short"
	case kind == j.state:
		level, message = zerolog.DebugLevel, "round not well yet"
	}
	if kind == j.state {
		j.ill++
	} else {
		j.state, j.ill = kind, 1
	}
	line := j.log.WithLevel(level).Int("round", round).Err(err).Int("in_a_row", j.ill)
	if remedy := kind.remedy(); remedy != "" {
		line = line.Str("remedy", remedy)
	}
	line.Msg(message)
}

// recovery logs once that rounds end well again.
func (j *journal) recovery() {
	if j.state != noFailure {
		j.log.Info().Int("rounds_failed", j.ill).Msg("rounds end well again")
	}
	j.state, j.ill = noFailure, 0
}

// remarks logs about jobs what the last round did not say.
func (j *journal) remarks(report bridge.Report) {
	said := make(map[remark]bool, len(report.Outside)+len(report.Notes))
	var news newsOf
	say := func(level zerolog.Level, message string, r remark) {
		if !j.said[r] && !said[r] {
			news.add(level, message, r)
		}
		said[r] = true
	}
	for _, outside := range report.Outside {
		say(zerolog.InfoLevel, "left to slurm", remark{outside.Job, outside.Why})
	}
	for _, note := range report.Notes {
		say(zerolog.InfoLevel, "note", remark{note.Job, note.Text})
	}
	for _, found := range report.Contradicting {
		say(zerolog.WarnLevel, "contradicts its profile", remark{found.Job, found.String() + " until it ends"})
	}
	for k, n := range news.all {
		if k == remarkLines {
			j.log.Info().Int("round", report.Round).Int("remarks",
				len(news.all)-k).Msg("more remarks on jobs: each is in /round")
			break
		}
		n.tell(j.log, report)
	}
	j.said = said
}

// news is one sentence that is new, and the jobs that it is about.
type news struct {
	level   zerolog.Level
	message string
	text    string
	jobs    []int
}

// newsOf is the news of a round, in the order in which they came up.
type newsOf struct {
	all []*news
	by  map[[2]string]*news // by message and text
}

// add adds the job to an equal sentence, or begins a new one. The map keeps this fast where there are as many sentences
// as jobs.
func (o *newsOf) add(level zerolog.Level, message string, r remark) {
	key := [2]string{message, r.text}
	n := o.by[key]
	if n == nil {
		if n = (&news{level: level, message: message, text: r.text}); o.by == nil {
			o.by = make(map[[2]string]*news)
		}
		o.by[key], o.all = n, append(o.all, n)
	}
	n.jobs = append(n.jobs, r.job)
}

// oneByOne is up to how many jobs get a line each for one sentence; mentioned is how many are named in a common line.
const (
	oneByOne  = 3
	mentioned = 20
)

// tell logs a sentence for each of its jobs, or once if there are many: what holds for many jobs, as a missing folder,
// concerns the site and not the single job.
func (n *news) tell(log zerolog.Logger, report bridge.Report) {
	if len(n.jobs) > oneByOne {
		log.WithLevel(n.level).Int("round", report.Round).Int("count", len(n.jobs)).Ints("jobs",
			n.jobs[:min(len(n.jobs), mentioned)]).
			Str("reason", n.text).Msg(n.message)
		return
	}
	for _, job := range n.jobs {
		line := log.WithLevel(n.level).Int("round", report.Round).Int("job", job)
		addJobOwner(line, report, job).Str("reason", n.text).Msg(n.message)
	}
}

// reload logs how a reload ended.
func (j *journal) reload(err error) {
	if err != nil {
		j.log.Error().Err(err).Str("remedy", remedyOfReload).Msg("reload failed: the configuration stays as it was")
		return
	}
	j.log.Info().Msg("reloaded: the next round follows the new configuration")
}
