package ask

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/bound"
	"github.com/synergy-slurmd/synergy-slurmd/policy/replay"
	"github.com/synergy-slurmd/synergy-slurmd/policy/snapshot"
	"github.com/synergy-slurmd/synergy-slurmd/printable"
)

// Plan plans a saved snapshot, or a kept round again.
type Plan struct {
	Past
	Round             string // the number of a kept round, or the file of one that was exported
	Export            string // a file for that round; empty: none
	Policy, Allocator string // empty: as the snapshot or the round had them
	Profiles          []string
	Version           string // of this program
	JSON              bool
}

// Run plans the snapshot of a file, checks the plan against the rules that every plan must keep (policy.Check), and
// writes it with its certificate, the proof of how near it comes to the best plan.
func (o *Plan) Run(input io.Reader, out, notes io.Writer, path string) error {
	if err := o.check(); err != nil {
		return err
	}
	text, err := readAll(path, input)
	if err != nil {
		return err
	}
	s, err := loadProfileSet(o.Profiles)
	if err != nil {
		return err
	}
	file, err := snapshot.Read(text, s.find)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	s.printMissing(notes)
	who, how, err := policyAndAllocator(cmp.Or(o.Policy, file.Policy), cmp.Or(o.Allocator, file.Allocator))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	plan := policy.Decide(file.Cluster, who, how)
	if err := policy.Check(file.Cluster, plan); err != nil {
		return Failed{fmt.Errorf("check the plan: %w", err)}
	}
	cert := bound.Certify(&file.Cluster, plan)
	return write(out, &planAnswer{plan, cert, cert.String(), &file.Cluster}, o.JSON, time.Time{})
}

// check refuses flags that are for a kept round only, and wrong names of policy and allocator. It is called before the
// file is read. The names in the file are checked later, so a mistake on the command line is not reported as one of the
// file.
func (o *Plan) check() error {
	for _, f := range []struct{ name, value string }{{"export", o.Export}, {"daemon", o.Daemon}, {"ledger", o.Ledger},
		{"history", o.Folder}} {
		if f.value != "" {
			return fmt.Errorf("--%s: is about a kept round: name it with --round", f.name)
		}
	}
	if _, err := policy.ParsePolicy(cmp.Or(o.Policy, fallbackPolicy)); err != nil {
		return fmt.Errorf("--policy: %w", err)
	}
	if _, err := policy.ParseAllocator(cmp.Or(o.Allocator, fallbackAllocator)); err != nil {
		return fmt.Errorf("--allocator: %w", err)
	}
	return nil
}

// planAnswer is a plan and how good it is.
type planAnswer struct {
	Plan        policy.Plan       `json:"plan"`
	Certificate bound.Certificate `json:"certificate"`
	Sentence    string            `json:"sentence"`

	cluster *policy.Cluster // what was planned
}

// show writes a row for each job: where it runs with what, or that it waits, and why. Below stands the certificate, how
// good the plan is.
func (p *planAnswer) show(t *Text, _ time.Time) {
	costs := restartCosts(p.cluster)
	var rows [][]string
	for i := range p.Plan.Decisions {
		d := &p.Plan.Decisions[i]
		why := d.Why
		// A decision with a reason is a job that waits, or a running job that is stopped or restarted.
		if d.Reason != "" {
			why = strings.TrimSuffix(fmt.Sprintf("%s: %s", d.Reason, d.Why), ": ")
			if cost := costs[d.Job]; cost > 0 {
				why += fmt.Sprintf(" (a restart costs it %s)", cost.Round(time.Second))
			}
		}
		row := []string{fmt.Sprintf("job %d", d.Job), "waits", "", "", Cell(why, LongestSentence)}
		if d.Grant != nil {
			nodes := strings.Join(d.Grant.Nodes, ",")
			if d.Grant.Device != "" {
				nodes += "/" + d.Grant.Device
			}
			row[1], row[2] = Cell(nodes, LongestSentence), d.Grant.PerNode.String()
			row[3] = fmt.Sprintf("×%.2f", d.Gain)
		}
		rows = append(rows, row)
	}
	t.Table(rows, 0)
	t.Blank()
	// The certificate stays whole and on one line.
	t.write(printable.Line(p.Sentence, 0) + "\n")
}

// restartCosts is the cost of a restart of each running job, by ID. The table shows it for those that the plan
// restarts.
func restartCosts(on *policy.Cluster) map[int]time.Duration {
	costs := map[int]time.Duration{}
	for i := range on.Jobs {
		if j := &on.Jobs[i]; j.Running != nil {
			costs[j.ID] = j.Restart
		}
	}
	return costs
}

// Again plans a kept round again and writes the differences, to see what another version, policy or allocator would do.
// Differences are an error only if policy and allocator are those of the round and the built-in planner made its plan:
// that planner is to give the same plan again. With --export it also writes the round to a file.
func (o *Plan) Again(ctx context.Context, input io.Reader, out io.Writer) error {
	if len(o.Profiles) > 0 {
		return errors.New("--profiles: a kept round brings those of its jobs along: leave it out")
	}
	text, err := o.keptRound(ctx, input)
	if err != nil {
		return err
	}
	round, err := replay.Read(text)
	if err != nil {
		return fmt.Errorf("read --round %s: %w", o.Round, err)
	}
	if o.Export != "" {
		if err := os.WriteFile(o.Export, append(text, '\n'), 0o600); err != nil {
			return Failed{fmt.Errorf("--export: %w", err)}
		}
	}
	plan, err := round.Again(o.Policy, o.Allocator)
	if err != nil {
		return fmt.Errorf("plan round %d again: %w", round.Round, err)
	}
	differs, err := replay.Compare(round.Plan, plan)
	if err != nil {
		return Failed{err}
	}
	a := replayAnswer{Round: round.Round, Began: round.Began, Version: round.Version, By: o.Version,
		Was:      [2]string{round.Policy, round.Allocator},
		Is:       [2]string{cmp.Or(o.Policy, round.Policy), cmp.Or(o.Allocator, round.Allocator)},
		External: round.External, Jobs: len(plan.Decisions), Same: len(differs) == 0, Differs: differs,
		Left: fmt.Sprintf(smallRoundsText, round.Round)}
	if err := write(out, &a, o.JSON, time.Time{}); err != nil {
		return err
	}
	if !a.Same && a.Was == a.Is && !a.External {
		return Failed{fmt.Errorf("round %d is not planned as it was", a.Round)}
	}
	return nil
}

// keptRound returns the text of the round that --round names, by its number or by a file. A text of digits only is a
// number. An empty text is treated as a number too, so that its error asks for one.
func (o *Plan) keptRound(ctx context.Context, input io.Reader) ([]byte, error) {
	if strings.Trim(o.Round, "0123456789") == "" {
		number, err := strconv.Atoi(o.Round)
		if err != nil || number < 1 {
			return nil, fmt.Errorf("--round %.40q: want the number of a round, as 4711", o.Round)
		}
		return o.readKeptRound(ctx, number)
	}
	if o.Daemon != "" || o.Ledger != "" || o.Folder != "" {
		return nil, fmt.Errorf("--round %.60q: with a daemon, a ledger or a history want the number of a round, "+
			"as 4711", o.Round)
	}
	text, err := readAll(o.Round, input)
	if err != nil {
		return nil, fmt.Errorf("--round %w: want the number of a round, as 4711, or a file that --export has written",
			err)
	}
	return text, nil
}

// smallRoundsText says what is missing from a kept round.
const smallRoundsText = "not in it: what small rounds started between round %d and the next; a busy day has thousands " +
	"of them, each with a snapshot of the whole cluster, so they have no number and are not kept to be planned again; " +
	"synergy explain JOB tells their starts, and why"

// replayAnswer is a kept round planned again, and what differs.
type replayAnswer struct {
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

// show says by which policy and allocator the round was planned then and now, and lists each decision that differs.
func (r *replayAnswer) show(t *Text, _ time.Time) {
	planner := fmt.Sprintf("%s and %s", r.Was[0], r.Was[1])
	if r.External {
		planner = "a planner of the site's own"
	}
	t.Say(0, fmt.Sprintf("round %d of %s, planned by synergy-slurmd %s with %s; again by %s with %s and %s", r.Round,
		clockTime(r.Began), cmp.Or(r.Version, "of an unknown version"), planner, r.By, r.Is[0], r.Is[1]))
	if r.Same {
		t.Say(0, fmt.Sprintf("the same plan, byte for byte, of %d jobs", r.Jobs))
	} else {
		t.Say(0, fmt.Sprintf("another plan: %d of %d jobs are decided otherwise", len(r.Differs), r.Jobs))
	}
	for _, d := range r.Differs {
		t.Say(0, fmt.Sprintf("job %d was: %s", d.Job, replay.Words(d.Was)))
		t.Say(0, fmt.Sprintf("job %d now: %s", d.Job, replay.Words(d.Is)))
	}
	t.Say(0, r.Left)
}
