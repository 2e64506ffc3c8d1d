package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/synergy-slurmd/synergy-slurmd/policy/replay"
	"github.com/synergy-slurmd/synergy-slurmd/printable"
)

// replaying are the flags of replay.
type replaying struct {
	chronicle
	file, export      string
	policy, allocator string
	json              bool
}

func replayRoundCommand() *cobra.Command {
	var o replaying
	command := &cobra.Command{
		Use:   "replay [flags] [ROUND]",
		Short: "plan a kept round again, and say what differs",
		Long: `replay plans a round again that the daemon has kept, with the profiles as they were then: by this
version, and by the policy and the allocator of then or others. It says that the plan is the same, byte for byte, or for each job what was
decided then and what is now. A round that is exported has all that it takes and can be planned again anywhere, from
its file. Nothing is sent to Slurm. Small rounds, which start jobs between two rounds, are told (synergy explain,
synergy history) and not kept to be planned again.

It ends with 1 where a plan differs although nothing else was asked for and a planner of the site's own did not make
it: then the versions differ in it.`,
		Example: `  synergy replay 4711
  synergy replay --policy srtf --allocator greedy 4711
  synergy replay --export round.json 4711 && scp round.json laptop: && ssh laptop synergy replay --snapshot round.json
  sudo -u synergy synergy replay --history /var/lib/synergy/history 4711`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return o.run(c, args) },
	}
	where, how, out := newGroup("Where the round is read"), newGroup("How it is planned"), newGroup("Output")
	o.define(where)
	where.give(&o.file, "snapshot", "", "`file` of a round that was exported; - for the standard input")
	how.give(&o.policy, "policy", "", "who goes first (default as then)")
	how.give(&o.allocator, "allocator", "", "how much each job gets (default as then)")
	out.give(&o.export, "export", "", "`file` for the round with all that it takes to plan it again")
	out.flags.BoolVar(&o.json, "json", false, "what differs as JSON")
	grouped(command, where, how, out)
	return command
}

// run plans the round again and shows the differences. A difference is an error only if the same policy and allocator
// were asked for and the plan was the built-in planner's.
func (o *replaying) run(c *cobra.Command, args []string) error {
	text, err := o.text(c.Context(), c.InOrStdin(), args)
	if err != nil {
		return err
	}
	round, err := replay.Read(text)
	if err != nil {
		return fmt.Errorf("read the round%s: %w", o.from(), err)
	}
	if o.export != "" {
		if err := os.WriteFile(o.export, append(text, '\n'), 0o600); err != nil {
			return failed{fmt.Errorf("--export: %w", err)}
		}
	}
	plan, err := round.Again(o.policy, o.allocator)
	if err != nil {
		return fmt.Errorf("plan round %d again: %w", round.Round, err)
	}
	differs, err := replay.Compare(round.Plan, plan)
	if err != nil {
		return failed{err}
	}
	r := plannedAgain{Round: round.Round, Began: round.Began, Version: round.Version, By: running(),
		Was: [2]string{round.Policy, round.Allocator}, Is: [2]string{round.Policy, round.Allocator},
		External: round.External, Jobs: len(plan.Decisions), Same: len(differs) == 0, Differs: differs,
		Left: fmt.Sprintf(smallOnes, round.Round)}
	if o.policy != "" {
		r.Is[0] = o.policy
	}
	if o.allocator != "" {
		r.Is[1] = o.allocator
	}
	if err := r.show(c.OutOrStdout(), o.json); err != nil {
		return failed{err}
	}
	if !r.Same && r.Was == r.Is && !r.External {
		return failed{fmt.Errorf("round %d is not planned as it was", r.Round)}
	}
	return nil
}

// from names the file that the round is read from, for an error.
func (o *replaying) from() string {
	if o.file == "" {
		return ""
	}
	return " of --snapshot " + o.file
}

// text is the round as it was kept.
func (o *replaying) text(ctx context.Context, input io.Reader, args []string) ([]byte, error) {
	if o.file != "" {
		if len(args) > 0 {
			return nil, errors.New("--snapshot names the one round that there is: leave its number out")
		}
		return readAll(o.file, input)
	}
	if len(args) == 0 {
		return nil, errors.New("which round? Want its number, as 4711, or a file that was exported: --snapshot FILE")
	}
	number, err := strconv.Atoi(args[0])
	if err != nil || number < 1 {
		return nil, fmt.Errorf("%.40q: want the number of a round, as 4711", args[0])
	}
	return o.round(ctx, number)
}

// smallOnes says what is missing from a kept round.
const smallOnes = "not in it: what small rounds started between round %d and the next; a busy day has thousands of " +
	"them, each with a snapshot of the whole cluster, so they have no number and are not kept to be planned again; " +
	"synergy explain JOB tells their starts, and why"

// plannedAgain is the result of a replay.
type plannedAgain struct {
	Round    int       `json:"round"`
	Began    time.Time `json:"began"`
	Version  string    `json:"version"`     // that made the round
	By       string    `json:"replayed_by"` // the version that planned it again
	Was      [2]string `json:"was"`         // policy and allocator
	Is       [2]string `json:"is"`
	External bool      `json:"external,omitempty"`
	Jobs     int       `json:"jobs"`
	Same     bool      `json:"same"`

	Differs []replay.Difference `json:"differs,omitempty"`
	Left    string              `json:"left_out"` // what of that time cannot be planned again
}

func (r *plannedAgain) show(out io.Writer, asJSON bool) error {
	if asJSON {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(r)
	}
	version := r.Version
	if version == "" {
		version = "of an unknown version"
	}
	planner := fmt.Sprintf("%s and %s", r.Was[0], r.Was[1])
	if r.External {
		planner = "a planner of the site's own"
	}
	lines := []string{fmt.Sprintf("round %d of %s, planned by synergy-slurmd %s with %s; again by %s with %s and %s",
		r.Round, clockTime(r.Began), version, planner, r.By, r.Is[0], r.Is[1])}
	if r.Same {
		lines = append(lines, fmt.Sprintf("the same plan, byte for byte, of %d jobs", r.Jobs))
	} else {
		lines = append(lines, fmt.Sprintf("another plan: %d of %d jobs are decided otherwise", len(r.Differs), r.Jobs))
	}
	for _, d := range r.Differs {
		lines = append(lines, fmt.Sprintf("job %d was: %s", d.Job, replay.Words(d.Was)),
			fmt.Sprintf("job %d now: %s", d.Job, replay.Words(d.Is)))
	}
	for _, line := range append(lines, r.Left) {
		if _, err := fmt.Fprintln(out, printable.Line(line, longestLine)); err != nil {
			return err
		}
	}
	return nil
}
