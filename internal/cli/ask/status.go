package ask

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/rollout"
	"github.com/synergy-slurmd/synergy-slurmd/story"
)

// State is how the daemon does.
type State string

// The states.
const (
	Well   State = "well"
	Ill    State = "ill" // it answers, and something is wrong
	Silent State = "silent"
)

// Status asks whether the daemon is well, and what its last round did.
type Status struct {
	Source
	JSON bool
}

// statusAnswer is the answer. Daemon is missing if none answers, Last if there was no round.
type statusAnswer struct {
	State  State             `json:"state"`
	Daemon *rollout.Standing `json:"daemon,omitempty"`
	Silent string            `json:"silent,omitempty"` // why none answers
	Last   *story.Standing   `json:"last,omitempty"`
}

// Run writes the answer, and returns how the daemon does. With the state Silent the error may be nil: then no daemon
// answered, and the answer is of a ledger.
func (o *Status) Run(ctx context.Context, out io.Writer, now time.Time) (State, error) {
	a, err := o.readStanding(ctx)
	if err != nil {
		return a.State, err
	}
	return a.State, write(out, a, o.JSON, now)
}

// readStanding asks the daemon how it does, and for its last round, which comes from the ledger if the daemon does not
// answer. If neither answers, the error comes with the state Silent, which the exit status says. Any other error comes
// without a state: a wrong command line, or a daemon that answers how it does but not with its last round.
func (o *Status) readStanding(ctx context.Context) (*statusAnswer, error) {
	a := &statusAnswer{State: Silent}
	daemon, err := o.Health(ctx)
	switch {
	case err == nil:
		a.Daemon, a.State = &daemon, Ill
		if daemon.Healthy {
			a.State = Well
		}
	case errors.As(err, new(Unseen)):
		a.Silent = err.Error()
	default:
		return &statusAnswer{}, err
	}
	last, wrong := o.Latest(ctx)
	switch {
	case wrong == nil:
		round := story.StandingOf(&last)
		a.Last = &round
	case a.Daemon == nil:
		if o.Ledger != "" { // no daemon was asked, so the ledger's error is the one to report
			err = wrong
		}
		return a, err
	// A daemon that has just started has held no round yet, which is no error.
	case !errors.Is(wrong, ErrNoRound):
		return &statusAnswer{}, wrong
	}
	return a, nil
}

// show writes how the daemon does, what its last round did, and what it has counted since its start.
func (a *statusAnswer) show(t *Text, now time.Time) {
	line := func(title, text string) { t.Say(0, title+": "+text) }
	if a.Daemon != nil {
		line("synergy-slurmd", a.Daemon.Version+", "+modeText(a.Daemon))
		line("health", string(a.State)+"; "+a.Daemon.Says)
	} else {
		line("synergy-slurmd", "no daemon answers, and this is of a ledger; "+a.Silent)
	}
	if a.Last == nil {
		line("last round", "none has been held yet")
	} else {
		showRound(a.Last, line, now)
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

// modeText says whether the daemon acts. Shadow comes first, since a daemon in the shadow acts on nothing whether or
// not it leads.
func modeText(d *rollout.Standing) string {
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

// showRound describes a round. It writes each part with line, which takes a title and a text. At most maxFailedListed
// failed steps are listed, and the others counted.
func showRound(l *story.Standing, line func(title, text string), now time.Time) {
	failed := ""
	if n := len(l.Failed); n > 0 {
		failed = fmt.Sprintf(", %d failed", n)
	}
	line("last round", fmt.Sprintf("%s; it took %s, %d steps%s", AsOf(l.Round, l.Began, now, l.Shadow),
		l.Took.Round(time.Millisecond), l.Steps, failed))
	for i, text := range l.Failed {
		if i == maxFailedListed {
			line("failed", fmt.Sprintf("and %d more", len(l.Failed)-i))
			break
		}
		line("failed", text)
	}
	for _, gap := range l.Gaps {
		line("gap", gap)
	}
	line("GPUs", fmt.Sprintf("%d: %s", l.GPUs.Total, amountText(l.GPUs)))
	line("cores", fmt.Sprintf("%d: %s", l.Cores.Total, amountText(l.Cores)))
	text := fmt.Sprintf("%d run%s; %d wait; %d left to Slurm", l.Runs, gainText(l.Gain), l.Waits, l.Outside)
	if l.Lost > 0 {
		text += fmt.Sprintf("; %d did not come back when they were asked to save", l.Lost)
	}
	line("jobs", text)
	if l.Waits > 0 {
		line("they wait for", reasonsText(l.Reasons))
	}
	if l.Certificate != "" {
		line("plan", l.Certificate)
	}
}

// maxFailedListed is how many failures are shown.
const maxFailedListed = 5

// amountText says how much of something is given, lent, in use by others, closed and idle. Parts of 0 are left out.
func amountText(a story.Amount) string {
	all := []string{fmt.Sprintf("%d given", a.Given())}
	for _, p := range []struct {
		n    int
		text string
	}{{a.Lent, "of these beyond shares"}, {a.Foreign, "others'"}, {a.Closed, "closed"}, {a.Idle, "idle"}} {
		if p.n > 0 {
			all = append(all, fmt.Sprintf("%d %s", p.n, p.text))
		}
	}
	return strings.Join(all, ", ")
}

// gainText is the mean speed of the running jobs relative to their proportional shares, as a clause. It is empty for a
// gain of 0, which means that no GPU is granted.
func gainText(gain float64) string {
	if gain == 0 {
		return ""
	}
	return fmt.Sprintf(", %.2f times as fast as with their shares", gain)
}
