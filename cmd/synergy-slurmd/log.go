package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/rs/zerolog"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/leader"
	"github.com/synergy-slurmd/synergy-slurmd/ledger"
)

// newLog writes one line per event, rounds and the seat side by side: JSON for machines, or columns for people.
func newLog(out io.Writer, format, level string) (zerolog.Logger, error) {
	least, err := zerolog.ParseLevel(level)
	if err != nil {
		return zerolog.Nop(), err
	}
	if format == logConsole {
		out = zerolog.ConsoleWriter{Out: out, TimeFormat: time.DateTime, NoColor: true}
	} else {
		out = plain{out}
	}
	return zerolog.New(zerolog.SyncWriter(out)).Level(least).With().Timestamp().Logger(), nil
}

// plain writes lines of JSON without what a terminal obeys. JSON itself escapes the controls of ASCII alone; those in eight bits, and what
// turns the direction of writing, would reach whoever reads the journal.
type plain struct{ io.Writer }

func (p plain) Write(line []byte) (int, error) {
	if !bytes.ContainsFunc(line, unseen) {
		return p.Writer.Write(line)
	}
	escaped := make([]byte, 0, 2*len(line))
	for _, r := range string(line) {
		if !unseen(r) {
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

func unseen(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }

// journal tells the log about rounds: what was changed, line by line, and everything else only when it is news.
type journal struct {
	log   zerolog.Logger
	state ailment         // of the last round
	ill   int             // rounds that it has lasted
	said  map[remark]bool // by the last good round
	apart bool            // Slurm's clock and ours, in the last good round
}

// remark is a sentence about a job that no change goes with.
type remark struct {
	job  int
	text string
}

// ailment is a kind of failure. While it lasts, only its first round is an error in the log.
type ailment string

const (
	well        ailment = ""
	unreachable ailment = "unreachable"
	denied      ailment = "denied"
	late        ailment = "late"
	unkept      ailment = "unkept"
	stopped     ailment = "stopped"
	outranked   ailment = "outranked"
	ticketless  ailment = "ticketless"
)

// diagnose names what ails a round. Failures of no known kind are told apart by their text.
func diagnose(err error) ailment {
	switch {
	case err == nil:
		return well
	case errors.Is(err, errStopped):
		return stopped
	case errors.Is(err, leader.ErrLost):
		return ticketless
	case errors.Is(err, bridge.ErrNotLeader):
		return outranked
	case errors.Is(err, bridge.ErrUnreachable):
		return unreachable
	case errors.Is(err, bridge.ErrDenied):
		return denied
	case errors.Is(err, ledger.ErrUnkept):
		return unkept
	case errors.Is(err, context.DeadlineExceeded):
		return late
	}
	return ailment(err.Error())
}

// remedies are what an administrator can do.
func (a ailment) remedy() string {
	switch a {
	case unreachable:
		return "nothing is changed meanwhile; when it lasts, leases lapse and Slurm starts waiting jobs as they were asked for"
	case denied:
		return "renew the token, and make the user an operator in slurmdbd"
	case outranked:
		return "nothing more is changed; when the other daemon is to go, stop that one"
	case ticketless:
		return "another ticket is taken; when that goes too, look who cancels jobs of the daemon's user, and whether slurmrestd lists any jobs"
	case unkept:
		return "make room on the ledger's disk, or mend it; a round whose intent cannot be written does nothing, one whose end cannot is told in the log alone"
	case late:
		return "the round took longer than the time between rounds: look at the phases in /metrics"
	}
	return ""
}

// round writes down one round. The changes come first: they were made even if the round then failed.
func (j *journal) round(report bridge.Report, took time.Duration, err error) {
	if i := report.Interrupted; i != nil {
		j.log.Warn().Int("round", i.Round).Time("at", i.At).Int("steps", len(i.Steps)).Msg("this round was cut short; its steps are in /round")
	}
	j.audit(report)
	if err != nil {
		j.failure(report.Round, err)
		return
	}
	j.recovery()
	j.remarks(report)
	j.clocks(report)
	c := count(report)
	j.log.Info().Int("round", report.Round).Float64("seconds", milliseconds(took)).Bool("shadow", report.Shadow).
		Int("running", c.granted).Int("waiting", c.waiting).Int("outside", c.outside).
		Int("started", c.of(bridge.Start)).Int("preempted", c.of(bridge.Preempt)).Int("renewed", c.of(bridge.Renew)).
		Int("failed", c.failures()).Int("put_off", c.putOff()).Msg("round")
}

// farApart is by how much two clocks may differ before a human should look.
const farApart = 30 * time.Second

// clocks says when Slurm's clock was set, and once that it and ours differ. Rounds go by Slurm's, so neither does any harm to a job.
func (j *journal) clocks(report bridge.Report) {
	if report.ClockStep != 0 {
		j.log.Warn().Int("round", report.Round).Float64("seconds", milliseconds(report.ClockStep)).
			Msg("slurm's clock was set: leases end sooner or later by as much, and are renewed")
	}
	apart := report.ClockAhead.Abs() > farApart
	if apart && !j.apart {
		j.log.Warn().Int("round", report.Round).Float64("slurm_ahead_seconds", milliseconds(report.ClockAhead)).
			Str("remedy", "run the same time service on both hosts").Msg("slurm's clock and ours differ: rounds go by slurm's")
	}
	j.apart = apart
}

// audit writes one line for each step, and one for each field that it changed. Lease renewals are many and say nothing new, so
// they are for debugging unless they fail.
func (j *journal) audit(report bridge.Report) {
	for _, step := range report.Steps {
		level := levelOf(step)
		for _, change := range step.Changes {
			j.step(level, report, step).Str("field", change.Field).Str("old", change.Old).Str("new", change.New).Msg("change")
		}
		line := j.step(level, report, step).Float64("seconds", milliseconds(step.Took))
		if step.Grant != nil {
			line = line.Strs("nodes", step.Grant.Nodes).Stringer("per_node", step.Grant.PerNode)
		}
		if step.Error != "" {
			line = line.Str("error", step.Error)
		}
		line.Msg("step")
	}
}

func levelOf(step bridge.Step) zerolog.Level {
	switch {
	case step.Error != "":
		return zerolog.WarnLevel
	case step.Verb == bridge.Renew:
		return zerolog.DebugLevel
	}
	return zerolog.InfoLevel
}

// step begins a line about a step.
func (j *journal) step(level zerolog.Level, report bridge.Report, step bridge.Step) *zerolog.Event {
	return j.log.WithLevel(level).Int("round", report.Round).Int("job", step.Job).Str("verb", string(step.Verb)).
		Str("reason", step.Why).Bool("shadow", report.Shadow)
}

// milliseconds is d in seconds, without digits that nobody measured.
func milliseconds(d time.Duration) float64 { return d.Round(time.Millisecond).Seconds() }

// failure says what went wrong, loudly when it is new.
func (j *journal) failure(round int, err error) {
	kind := diagnose(err)
	level := zerolog.ErrorLevel
	switch {
	case kind == stopped:
		level = zerolog.InfoLevel
	case kind == j.state:
		level = zerolog.DebugLevel
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
	line.Msg("round failed")
}

// recovery says once that rounds end well again.
func (j *journal) recovery() {
	if j.state != well {
		j.log.Info().Int("rounds_failed", j.ill).Msg("rounds end well again")
	}
	j.state, j.ill = well, 0
}

// remarks says about jobs what the last round did not say.
func (j *journal) remarks(report bridge.Report) {
	said := make(map[remark]bool, len(report.Outside)+len(report.Notes))
	level := zerolog.InfoLevel
	say := func(message string, r remark) {
		if !j.said[r] {
			j.log.WithLevel(level).Int("round", report.Round).Int("job", r.job).Str("reason", r.text).Msg(message)
		}
		said[r] = true
	}
	for _, outside := range report.Outside {
		say("left to slurm", remark{outside.Job, outside.Why})
	}
	for _, note := range report.Notes {
		say("note", remark{note.Job, note.Text})
	}
	level = zerolog.WarnLevel
	for _, found := range report.Contradicting {
		say("contradicts its profile", remark{found.Job, found.String() + " until it ends"})
	}
	j.said = said
}

// reload says what became of a new configuration.
func (j *journal) reload(err error) {
	if err != nil {
		j.log.Error().Err(err).Str("remedy", "mend the file and send SIGHUP again").Msg("reload failed: the configuration stays as it was")
		return
	}
	j.log.Info().Msg("reloaded: the next round follows the new configuration")
}
