package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/synergy-slurmd/synergy-slurmd/internal/cli/ask"
	"github.com/synergy-slurmd/synergy-slurmd/share/node"
	"github.com/synergy-slurmd/synergy-slurmd/share/wire"
)

// usualBroker is the socket of a node's broker.
const usualBroker = node.Folder + "/broker.sock"

// shareStatusOptions are the flags of synergy share status.
type shareStatusOptions struct {
	source ask.Source // of a job
	socket string     // of the node's broker
	json   bool
}

// shareStatusCommand is synergy share status. Without a job it asks the broker of this node, with one the daemon, so
// the flags of the other are errors.
func shareStatusCommand() *cobra.Command {
	var o shareStatusOptions
	command := &cobra.Command{
		Use:   "status [flags] [JOB]",
		Short: "who has this node's GPUs now; or why a job shares a GPU or not, and how fast it is there",
		Long: `Without a job status asks the broker of this node, as root: for each GPU which job has it, which wait for it,
what each class had of it and how long it waited, how much of its memory is booked, and which jobs had to be stopped.

Of a job with synergy-share in its comment it says on which GPU it is, beside which jobs, and how fast it is there by
prediction; or why it shares none. It asks the daemon for that, or reads the ledger of one that is down.`,
		Example: `  synergy share status 4711
  sudo synergy share status --json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case len(args) == 1 && c.Flags().Changed("broker"):
				return errors.New("--broker: want no job with it, since the daemon is asked about a job")
			case len(args) == 1:
				return o.showJob(c.Context(), c.OutOrStdout(), args[0], time.Now())
			case o.source.Daemon != "" || o.source.Ledger != "":
				return errors.New("--daemon, --ledger: want a job with them, as: synergy share status 4711")
			}
			return o.showNode(c.Context(), c.OutOrStdout())
		},
	}
	here, job, out := newGroup("Of this node"), newGroup("Of a job"), newGroup("Output")
	here.flags.StringVar(&o.socket, "broker", usualBroker, "the broker's `socket`")
	job.addSourceFlags(&o.source)
	out.flags.BoolVar(&o.json, "json", false, "the answer for programs")
	setGroups(command, here, job, out)
	return command
}

// brokerTimeout is how long the command waits for the broker.
const brokerTimeout = 5 * time.Second

// showNode shows the state of this node's broker, the program that hands out its shared GPUs. If none answers the error
// is unseen, since the command line was right.
func (o *shareStatusOptions) showNode(ctx context.Context, out io.Writer) error {
	path, err := filepath.Abs(o.socket)
	if err != nil {
		return fmt.Errorf("--broker %.80q: %w", o.socket, err)
	}
	ctx, cancel := context.WithTimeout(ctx, brokerTimeout)
	defer cancel()
	var status wire.Status
	if err := ask.BySocket(path).Get(ctx, "/status", &status); err != nil {
		if errors.Is(err, ask.ErrSilent) {
			err = unseen{fmt.Errorf("%s: no broker answers: is synergy-broker running on this node, and are you root?",
				path)}
		}
		return err
	}
	if o.json {
		return ask.JSON(out, status)
	}
	s := ask.NewText(out)
	showBroker(s, &status)
	return asFailed(s.Err())
}

// showBroker prints the broker's state: its GPUs one by one, then jobs that are stopped wrongly, and requests that it
// refused.
func showBroker(s *ask.Text, status *wire.Status) {
	s.Say(0, fmt.Sprintf("broker %s, up for %s, policy %s", ask.Cell(status.Release, ask.LongestName),
		ask.Ago(seconds(status.Up)), ask.Cell(status.Policy, ask.LongestName)))
	for i := range status.GPUs {
		s.Blank()
		showGPU(s, &status.GPUs[i])
	}
	for _, job := range status.StillFrozen {
		s.Say(0, fmt.Sprintf("job %d is stopped and should not be, for %s: %s", job.Job, secondsText(job.Since),
			ask.Cell(job.Error, ask.LongestSentence)))
	}
	if last := status.LastStampError; last != nil {
		s.Say(0, fmt.Sprintf("jobs that could not be stamped, and take no turns: %d; the last, job %d, %s ago: %s",
			status.StampErrors, last.Job, secondsText(last.Since), ask.Cell(last.Error, ask.LongestSentence)))
	}
	for _, code := range sortedKeys(status.Refused) {
		if n := status.Refused[code]; n > 0 {
			s.Say(0, fmt.Sprintf("refused %s: %d times", ask.Cell(code, ask.LongestName), n))
		}
	}
}

// showGPU prints the state of one GPU: what was stopped there, its clients, and what each class had of it.
func showGPU(s *ask.Text, g *wire.GPU) {
	title := fmt.Sprintf("GPU %d, %s, %s of its memory booked", g.GPU, ask.Cell(g.Mode, ask.LongestName),
		gibibytes(g.MemoryBooked))
	if g.Freezes+g.Offences > 0 {
		title += fmt.Sprintf(", %d times a job was stopped that would not let go, %d told to the daemon", g.Freezes,
			g.Offences)
	}
	s.Say(0, title)
	if g.WhyTurns != "" {
		s.Say(2, "jobs take turns: "+ask.Cell(g.WhyTurns, ask.LongestSentence))
	}
	if len(g.Clients) == 0 {
		s.Say(2, "nobody is there")
	} else {
		rows := [][]string{{"  job", "class", "state", "for", "turns", "had it for", "memory", "pid"}}
		for _, c := range g.Clients {
			rows = append(rows, []string{"  " + strconv.Itoa(c.Job), ask.Cell(c.Class, ask.LongestName),
				ask.Cell(c.State, ask.LongestName), secondsText(c.Since), strconv.Itoa(c.Turns), secondsText(c.Used),
				gibibytes(c.Memory) + " of " + gibibytes(c.MemoryCap), strconv.Itoa(c.PID)})
		}
		s.Table(rows, shownRows)
	}
	for _, c := range g.Clients {
		if c.IsSilent() {
			s.Say(2, fmt.Sprintf("job %d asks for no turns: it is stopped while others have theirs", c.Job))
		}
	}
	for _, class := range sortedKeys(g.Classes) {
		h := g.Classes[class]
		s.Say(2, fmt.Sprintf(
			"%s: %d turns, %s, waits of %s in the middle and %s for one in twenty, %d turns too long",
			ask.Cell(
				class,
				ask.LongestName,
			),
			h.Turns,
			secondsText(h.Held),
			secondsText(h.WaitP50),
			secondsText(h.WaitP95),
			h.Overrun,
		))
	}
}

// shownRows is how many clients of a GPU are shown.
const shownRows = 50

// secondsText is a time in seconds from the broker as text. It may be microseconds.
func secondsText(s float64) string {
	if s < 1 {
		return fmt.Sprintf("%.2f ms", s*1000)
	}
	return ask.Ago(seconds(s))
}

// seconds converts another program's seconds to a duration, bounded so that it cannot overflow. What is negative or no
// number is 0.
func seconds(s float64) time.Duration {
	const most = 1e9 // seconds, some 30 years
	if !(s > 0) {
		return 0
	}
	return time.Duration(min(s, most) * float64(time.Second))
}

// sortedKeys are the keys of a map, ascending.
func sortedKeys[T any](of map[string]T) (names []string) {
	for name := range of {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
