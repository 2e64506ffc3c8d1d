package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/synergy-slurmd/synergy-slurmd/etc/profiles"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/bound"
	"github.com/synergy-slurmd/synergy-slurmd/policy/snapshot"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// planning are the flags of plan.
type planning struct {
	policy, allocator string
	profiles          []string
	json              bool
}

func planCommand() *cobra.Command {
	var p planning
	command := &cobra.Command{
		Use:   "plan [flags] FILE",
		Short: "plan a saved snapshot, and say how good the plan can be",
		Long: `plan decides one round of a cluster that was saved as JSON, offline: who runs where with how much, why the
others wait, what the plan is worth, the most that any plan for the same jobs could be, and what binds. FILE is a
snapshot, as the daemon's page /snapshot gives it, or the report of a round that has one, as the pages /round and
/round/N do; - is the standard input. The profiles of its jobs come along. Nothing is sent to Slurm.`,
		Example: `  curl -s localhost:9817/snapshot > now.json && synergy plan now.json
  synergy plan --policy srtf --allocator greedy round.json
  synergy plan --profiles /etc/synergy/profiles --json round.json | jq .certificate`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return p.run(c, args[0]) },
	}
	how, out := newGroup("How it is planned"), newGroup("Output")
	how.flags.StringVar(&p.policy, "policy", "", "who goes first (default as the round had it, or fifo)")
	how.flags.StringVar(&p.allocator, "allocator", "",
		"how much each job gets (default as the round had it, or tune)")
	how.flags.StringArrayVar(&p.profiles, "profiles", nil,
		"`folder` with the profiles that jobs name, where FILE does not bring them along; may be repeated, the first "+
			"that has a name wins (default the ten of the paper)")
	out.flags.BoolVar(&p.json, "json", false, "the plan and its certificate as JSON")
	grouped(command, how, out)
	return command
}

// mostBytes bounds a file: several times a snapshot of a hundred thousand jobs.
const mostBytes = 1 << 28

// run plans the snapshot, checks the plan, and shows it with its certificate.
func (p *planning) run(c *cobra.Command, path string) error {
	if err := p.check(); err != nil {
		return err
	}
	text, err := readAll(path, c.InOrStdin())
	if err != nil {
		return err
	}
	shelf, err := p.shelf()
	if err != nil {
		return err
	}
	file, err := snapshot.Read(text, shelf.find)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	shelf.tell(c.ErrOrStderr())
	cluster := file.Cluster
	who, how, err := rulers(cmp.Or(p.policy, file.Policy), cmp.Or(p.allocator, file.Allocator))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	plan := policy.Decide(cluster, who, how)
	if err := policy.Check(cluster, plan); err != nil {
		return failed{fmt.Errorf("check the plan: %w", err)}
	}
	cert := bound.Certify(&cluster, plan)
	if err := p.show(c.OutOrStdout(), &cluster, plan, cert); err != nil {
		return failed{err}
	}
	return nil
}

// check finds what is wrong with the flags.
func (p *planning) check() error {
	if _, err := policy.ParsePolicy(cmp.Or(p.policy, fallbackPolicy)); err != nil {
		return fmt.Errorf("--policy: %w", err)
	}
	if _, err := policy.ParseAllocator(cmp.Or(p.allocator, fallbackAllocator)); err != nil {
		return fmt.Errorf("--allocator: %w", err)
	}
	return nil
}

// Policy and allocator if neither the flags nor the snapshot name them.
const (
	fallbackPolicy    = "fifo"
	fallbackAllocator = "tune"
)

// rulers are the policy and the allocator of these names.
func rulers(who, how string) (policy.Policy, policy.Allocator, error) {
	first, err := policy.ParsePolicy(cmp.Or(who, fallbackPolicy))
	if err != nil {
		return policy.Policy{}, policy.Allocator{}, fmt.Errorf("%w: name it with --policy", err)
	}
	much, err := policy.ParseAllocator(cmp.Or(how, fallbackAllocator))
	if err != nil {
		return policy.Policy{}, policy.Allocator{}, fmt.Errorf("%w: name it with --allocator", err)
	}
	return first, much, nil
}

// readAll reads a file of at most mostBytes, or the standard input for "-".
func readAll(path string, input io.Reader) ([]byte, error) {
	if path != standard {
		file, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, cause(err))
		}
		defer file.Close()
		input = file
	}
	text, err := io.ReadAll(io.LimitReader(input, mostBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, cause(err))
	case len(text) > mostBytes:
		return nil, fmt.Errorf("%s: more than %d bytes: want a snapshot", path, mostBytes)
	}
	return text, nil
}

// shelf finds profiles by the names that jobs give, and remembers which are missing.
type shelf struct {
	profiles map[string]*sensitivity.Profile // by file name, without its extension
	missing  map[string]int                  // number of jobs, by missing name
	names    []string                        // missing ones, in the order in which they came
}

// shelf has the profiles of the named folders, or else the paper's.
func (p *planning) shelf() (*shelf, error) {
	s := &shelf{profiles: map[string]*sensitivity.Profile{}, missing: map[string]int{}}
	if len(p.profiles) == 0 {
		return s, s.add(profiles.FS)
	}
	for _, folder := range p.profiles {
		if err := s.add(os.DirFS(folder)); err != nil {
			return nil, fmt.Errorf("--profiles %s: %w", folder, cause(err))
		}
	}
	return s, nil
}

const profileExtension = ".json"

// add reads the profiles of a folder. A name that is known already is skipped: the first folder wins.
func (s *shelf) add(folder fs.FS) error {
	entries, err := fs.ReadDir(folder, ".")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name, is := strings.CutSuffix(entry.Name(), profileExtension)
		if !is || s.profiles[name] != nil || !entry.Type().IsRegular() {
			continue
		}
		text, err := fs.ReadFile(folder, entry.Name())
		if err != nil {
			return err
		}
		p, err := sensitivity.Parse(text)
		if err != nil {
			return fmt.Errorf("profile %s: %w", entry.Name(), err)
		}
		s.profiles[name] = p
	}
	return nil
}

func (s *shelf) find(name string) *sensitivity.Profile {
	p := s.profiles[strings.TrimSuffix(name, profileExtension)]
	if p == nil {
		if s.missing[name] == 0 {
			s.names = append(s.names, name)
		}
		s.missing[name]++
	}
	return p
}

// toldNames is how many missing profiles are named.
const toldNames = 10

// tell prints which profiles are missing.
func (s *shelf) tell(notes io.Writer) {
	for i, name := range s.names {
		if i == toldNames {
			fmt.Fprintf(notes, "synergy: %d more profiles are missing\n", len(s.names)-i)
			return
		}
		fmt.Fprintf(notes, "synergy: profile %s is missing: %d of the jobs are planned without one; "+
			"name its folder with --profiles\n", name, s.missing[name])
	}
}

// planned is a plan and how good it is, as JSON.
type planned struct {
	Plan        policy.Plan       `json:"plan"`
	Certificate bound.Certificate `json:"certificate"`
	Sentence    string            `json:"sentence"`
}

func (p *planning) show(out io.Writer, on *policy.Cluster, plan policy.Plan, cert bound.Certificate) error {
	if p.json {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(planned{plan, cert, cert.String()})
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	costs := restarting(on)
	for i := range plan.Decisions {
		d := &plan.Decisions[i]
		why := d.Why
		if d.Reason != "" {
			why = strings.TrimSuffix(fmt.Sprintf("%s: %s", d.Reason, d.Why), ": ")
			if cost := costs[d.Job]; cost > 0 {
				why += fmt.Sprintf(" (a restart costs it %s)", cost.Round(time.Second))
			}
		}
		if d.Grant == nil {
			fmt.Fprintf(table, "job %d\twaits\t\t\t%s\n", d.Job, why)
			continue
		}
		nodes := strings.Join(d.Grant.Nodes, ",")
		if d.Grant.Device != "" {
			nodes += "/" + d.Grant.Device
		}
		fmt.Fprintf(table, "job %d\t%s\t%s\t×%.2f\t%s\n", d.Job, nodes, d.Grant.PerNode, d.Gain, why)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\n%s\n", cert.String())
	return err
}

// restarting is the cost of a restart of each running job, by job. A running job with a reason in the plan is stopped
// or restarted.
func restarting(on *policy.Cluster) map[int]time.Duration {
	costs := map[int]time.Duration{}
	for i := range on.Jobs {
		if j := &on.Jobs[i]; j.Running != nil {
			costs[j.ID] = j.Restart
		}
	}
	return costs
}
