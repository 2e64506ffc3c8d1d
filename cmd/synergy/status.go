package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/synergy-slurmd/synergy-slurmd/rollout"
	"github.com/synergy-slurmd/synergy-slurmd/story"
)

// Exit codes of status, for monitoring.
const (
	statusWell   = 0
	statusIll    = 1
	statusSilent = 2 // no daemon answered, or the command line is wrong
)

// statusOptions are the flags of status.
type statusOptions struct {
	source
	json bool
}

func statusCommand() *cobra.Command {
	var o statusOptions
	command := &cobra.Command{
		Use:   "status [flags]",
		Short: "is the daemon well, what did its last round do, how good is its plan, what waits for what",
		Long: `status says in a few lines whether the daemon is well, whether it acts, stands by or only plans,
when its last round was and what failed in it, who has the GPUs and cores, what jobs wait for, how
near the plan is to the best that is possible and what binds, how many names it has learned profiles
of, and what was saved.

The exit status is 0 when the daemon is well, 1 when it answers and is not, and 2 when it does not answer;
what the ledger knows is shown then, where it can be read.`,
		Example: `  synergy status
  synergy status --daemon http://ctl1:9817 --json | jq .daemon.healthy`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context(), c.OutOrStdout(), time.Now()) },
	}
	where, out := newGroup("Whom to ask"), newGroup("Output")
	o.define(where)
	out.flags.BoolVar(&o.json, "json", false, "the answer for programs")
	grouped(command, where, out)
	return command
}

// stands is the answer as JSON. Daemon is missing if none answers, Last if there was no round.
type stands struct {
	State  string            `json:"state"` // well, ill, silent
	Daemon *rollout.Standing `json:"daemon,omitempty"`
	Silent string            `json:"silent,omitempty"` // why none answers
	Last   *story.Standing   `json:"last,omitempty"`
}

func (o *statusOptions) run(ctx context.Context, out io.Writer, now time.Time) error {
	answer, err := o.look(ctx)
	if err != nil {
		return err
	}
	if o.json {
		if err := asJSON(out, answer); err != nil {
			return err
		}
		return answer.exit()
	}
	s := screenOf(out)
	answer.show(s, now)
	if s.err != nil {
		return done(s.err)
	}
	return answer.exit()
}

// look asks the daemon, and the ledger if the daemon does not answer. It is an error if the command line is wrong, or
// if neither answered.
func (o *statusOptions) look(ctx context.Context) (*stands, error) {
	answer := &stands{State: "silent"}
	daemon, err := o.health(ctx)
	switch {
	case err == nil:
		answer.Daemon, answer.State = &daemon, "ill"
		if daemon.Healthy {
			answer.State = "well"
		}
	case errors.As(err, new(unseen)):
		answer.Silent = err.Error()
	default:
		return nil, err
	}
	last, wrong := o.latest(ctx)
	switch {
	case wrong == nil:
		standing := story.StandingOf(&last)
		answer.Last = &standing
	case answer.Daemon == nil:
		if o.ledger != "" { // no daemon was asked, so the ledger's error is the one to report
			err = wrong
		}
		return nil, ended{statusSilent, err}
	case !errors.Is(wrong, errNoRound):
		return nil, wrong
	}
	return answer, nil
}

// exit is the exit status of the answer.
func (a *stands) exit() error {
	switch a.State {
	case "well":
		return nil
	case "ill":
		return ended{code: statusIll}
	}
	return ended{code: statusSilent}
}

func (a *stands) show(s *screen, now time.Time) {
	line := func(title, text string) { s.say(0, fmt.Sprintf("%s: %s", title, text)) }
	if a.Daemon != nil {
		line("synergy-slurmd", a.Daemon.Version+", "+mode(a.Daemon))
		line("health", a.State+"; "+a.Daemon.Says)
	} else {
		line("synergy-slurmd", "no daemon answers, and this is of a ledger; "+a.Silent)
	}
	if a.Last == nil {
		line("last round", "none has been held yet")
	} else {
		tellOn(a.Last, line, now)
	}
	if d := a.Daemon; d != nil {
		line("since its start", fmt.Sprintf("%d rounds and %d steps failed", d.Failed, d.FailedSteps))
		if d.Learned > 0 {
			line("learned", fmt.Sprintf("profiles of %d job names", d.Learned))
		}
		if d.Savings != "" {
			line("savings", d.Savings)
		}
	}
}

func mode(d *rollout.Standing) string {
	switch {
	case d.Shadow:
		return "in the shadow: it plans, and changes nothing"
	case !d.Leads:
		return "on: it stands by, or does not know yet who leads"
	case d.Stage() == rollout.Canary:
		return "a canary: it leads, and manages some of those who opted in"
	}
	return "on: it leads"
}

// tellOn describes a round.
func tellOn(l *story.Standing, line func(title, text string), now time.Time) {
	failed := ""
	if n := len(l.Failed); n > 0 {
		failed = fmt.Sprintf(", %d failed", n)
	}
	line("last round", fmt.Sprintf("%s; it took %s, %d steps%s", asOf(l.Round, l.Began, now, l.Shadow),
		l.Took.Round(time.Millisecond), l.Steps, failed))
	for i, text := range l.Failed {
		if i == fewFailed {
			line("failed", fmt.Sprintf("and %d more", len(l.Failed)-i))
			break
		}
		line("failed", text)
	}
	for _, gap := range l.Gaps {
		line("gap", gap)
	}
	line("GPUs", fmt.Sprintf("%d: %s", l.GPUs.Total, told(l.GPUs)))
	line("cores", fmt.Sprintf("%d: %s", l.Cores.Total, told(l.Cores)))
	text := fmt.Sprintf("%d run%s; %d wait; %d left to Slurm", l.Runs, gained(l.Gain), l.Waits, l.Outside)
	if l.Lost > 0 {
		text += fmt.Sprintf("; %d did not come back when they were asked to save", l.Lost)
	}
	line("jobs", text)
	if l.Waits > 0 {
		line("they wait for", reasons(l.Reasons))
	}
	if l.Certificate != "" {
		line("plan", l.Certificate)
	}
}

// fewFailed is how many failures are shown.
const fewFailed = 5
