package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/synergy-slurmd/synergy-slurmd/cmd/internal/times"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/whatif"
	"github.com/synergy-slurmd/synergy-slurmd/printable"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// supposition are the flags of what-if.
type supposition struct {
	present
	addNodes, drain, coresPerNode, memoryPerNode string
	policy, allocator, profile                   string
	coresPerGPU, job, gpus, nodes                int
	checkpoint, first, json                      bool
	within                                       time.Duration
}

func whatIfCommand() *cobra.Command {
	var q supposition
	command := &cobra.Command{
		Use:   "what-if [flags] CHANGE...",
		Short: "say what would be otherwise with other nodes, another policy, or another request of a job",
		Long: `what-if plans what the last round saw, and plans it again with changes: more nodes or fewer, other cores and memory,
another policy, another request of one job. It says in a sentence what that comes to, and shows both beside each other.
With --job and no change it tries by itself what would have the job start now: another spread over nodes, a shorter time
limit, fewer restrictions, less cores or memory, a checkpoint, fewer GPUs, a shared GPU, and going first. Nothing is
sent to Slurm, and nothing is changed. Who would submit more if there were more is another question: synergy sim
answers it from a log.`,
		Example: `  synergy what-if --job 4711                       what would have it start now?
  synergy what-if --job 4711 --gpus 4 --nodes 1
  synergy what-if --cores-per-node +4
  synergy what-if --add-nodes 4:like=n1 --policy las
  synergy what-if --drain n[3-4] --job 4711`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return q.run(c) },
	}
	where, cluster, job, out := newGroup("What is now"), newGroup("Changes of the cluster"),
		newGroup("Changes of a job"), newGroup("Output")
	q.register(where)
	cluster.give(&q.addNodes, "add-nodes", "", "so many more nodes, as 4 or `4:like=n1`")
	cluster.give(&q.drain, "drain", "", "nodes on which nothing starts, as `n[3-4]`")
	cluster.flags.IntVar(&q.coresPerGPU, "cores-per-gpu", 0, "of each node with GPUs")
	cluster.give(&q.coresPerNode, "cores-per-node", "", "of each node with GPUs, as 64, `+4` or -4")
	cluster.give(&q.memoryPerNode, "memory-per-node", "",
		"of each node with GPUs, as 512G, `+100G` or -100G")
	cluster.give(&q.policy, "policy", "", "who goes first")
	cluster.give(&q.allocator, "allocator", "", "how much each job gets")
	job.flags.IntVar(&q.job, "job", 0, "the `number` of the job that is asked about")
	job.flags.IntVar(&q.gpus, "gpus", 0, "that it asks for, on all nodes together")
	job.flags.IntVar(&q.nodes, "nodes", 0, "that it asks for")
	job.flags.BoolVar(&q.checkpoint, "checkpoint", false, "it declares a checkpoint")
	job.flags.BoolVar(&q.first, "first", false, "it goes before all others")
	job.give(&q.profile, "profile", "", "the `file` with its profile")
	times.Var(out.flags, &q.within, "within", 10*time.Second, "time for looking ahead")
	out.flags.BoolVar(&q.json, "json", false, "the answer for programs")
	grouped(command, where, cluster, job, out)
	return command
}

// run asks what the changes would bring. Without changes it searches for one that starts the job.
func (q *supposition) run(c *cobra.Command) error {
	if err := q.check(); err != nil {
		return err
	}
	is, err := q.read(c.Context(), c.InOrStdin(), c.ErrOrStderr())
	if err != nil {
		return err
	}
	changes, err := q.changes(&is)
	if err != nil {
		return err
	}
	begin := stopsAfter(c.Context(), q.within/2)
	if len(changes) == 0 {
		found, err := whatif.Search(is.Started(q.started), q.job, whatif.Options{Begin: begin})
		if err != nil {
			return failed{err}
		}
		return q.tellSearch(c.OutOrStdout(), found)
	}
	if q.job != 0 && !slices.ContainsFunc(is.Cluster.Jobs, func(j policy.Job) bool { return j.ID == q.job }) {
		return failed{fmt.Errorf("job %d is not in the snapshot: want one that waits or runs", q.job)}
	}
	answer, err := whatif.Ask(is, changes, whatif.Options{Job: q.job, Begin: begin})
	if err != nil {
		return err
	}
	return q.tell(c.OutOrStdout(), answer)
}

// stopsAfter returns a function that starts a time limit. What that returns reports whether the limit has passed.
func stopsAfter(ctx context.Context, within time.Duration) func() func() bool {
	return func() func() bool {
		end := time.Now().Add(within)
		return func() bool { return ctx.Err() != nil || time.Now().After(end) }
	}
}

// check finds what is wrong with the flags by themselves.
func (q *supposition) check() error {
	ofJob := map[string]bool{"--gpus": q.gpus != 0, "--nodes": q.nodes != 0, "--checkpoint": q.checkpoint,
		"--first": q.first, "--profile": q.profile != ""}
	for _, name := range []string{"--gpus", "--nodes", "--checkpoint", "--first", "--profile"} {
		if ofJob[name] && q.job == 0 {
			return fmt.Errorf("%s: of which job? Name it with --job", name)
		}
	}
	switch {
	case q.job < 0:
		return fmt.Errorf("--job %d: want the number of a job, as 4711", q.job)
	case q.gpus < 0:
		return fmt.Errorf("--gpus %d: want at least 1", q.gpus)
	case q.nodes < 0:
		return fmt.Errorf("--nodes %d: want at least 1", q.nodes)
	case q.coresPerGPU < 0:
		return fmt.Errorf("--cores-per-gpu %d: want at least 1", q.coresPerGPU)
	case q.coresPerGPU > 0 && q.coresPerNode != "":
		return errors.New("--cores-per-gpu and --cores-per-node: want one of them")
	case q.within < time.Second || q.within > time.Hour:
		return fmt.Errorf("--within %s: want a time from 1s to 1h", q.within)
	}
	return nil
}

// changes are the changes that the flags name, those of the cluster first. There may be none if a job is named.
func (q *supposition) changes(is *whatif.Case) (list []whatif.Change, err error) {
	for _, of := range []func() (whatif.Change, error){q.added, q.drained, q.cores, q.memory, q.ordered, q.sized,
		func() (whatif.Change, error) { return q.asked(is) }, q.saving, q.profiled, q.preferred} {
		change, err := of()
		if err != nil {
			return nil, err
		}
		if change != nil {
			list = append(list, change)
		}
	}
	if len(list) == 0 && q.job == 0 {
		return nil, errors.New("no change: want one, as --cores-per-node +4, or a job, as --job 4711")
	}
	return list, nil
}

// added is the change of --add-nodes; nil: not given. Each of the following functions is one flag's change.
func (q *supposition) added() (whatif.Change, error) {
	if q.addNodes == "" {
		return nil, nil
	}
	count, like, _ := strings.Cut(q.addNodes, ":")
	n, err := strconv.Atoi(count)
	name, is := strings.CutPrefix(like, "like=")
	if err != nil || n < 1 || like != "" && (!is || name == "") {
		return nil, fmt.Errorf("--add-nodes %.60q: want a number of nodes, as 4 or 4:like=n1", q.addNodes)
	}
	return whatif.AddNodes{N: n, Like: name}, nil
}

func (q *supposition) drained() (whatif.Change, error) {
	if q.drain == "" {
		return nil, nil
	}
	names, err := gres.ParseHosts(q.drain)
	if err != nil {
		return nil, fmt.Errorf("--drain: %w", err)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("--drain %.60q: want nodes, as n[3-4]", q.drain)
	}
	return whatif.Drain{Nodes: names}, nil
}

func (q *supposition) cores() (whatif.Change, error) {
	if q.coresPerGPU != 0 {
		return whatif.Cores{Amount: q.coresPerGPU, How: whatif.PerGPU}, nil
	}
	if q.coresPerNode == "" {
		return nil, nil
	}
	n, err := strconv.Atoi(q.coresPerNode)
	if err != nil || n == 0 {
		return nil, fmt.Errorf("--cores-per-node %.60q: want a number of cores, as 64, or of more, as +4 or -4",
			q.coresPerNode)
	}
	return whatif.Cores{Amount: n, How: relative(q.coresPerNode)}, nil
}

// relative reports whether an amount is relative: it is if it has a sign.
func relative(text string) whatif.How {
	if strings.HasPrefix(text, "+") || strings.HasPrefix(text, "-") {
		return whatif.More
	}
	return whatif.Exactly
}

func (q *supposition) memory() (whatif.Change, error) {
	if q.memoryPerNode == "" {
		return nil, nil
	}
	digits, unit := q.memoryPerNode, 0.0
	for suffix, is := range map[string]gres.Memory{"M": 1, "G": gres.Gigabyte, "T": 1000 * gres.Gigabyte} {
		if rest, has := strings.CutSuffix(digits, suffix); has {
			digits, unit = rest, float64(is)
			break
		}
	}
	const most = 1e12 // MiB
	amount, err := strconv.ParseFloat(digits, 64)
	if err != nil || unit == 0 || !(max(amount, -amount)*unit <= most) || int64(amount*unit) == 0 {
		return nil, fmt.Errorf("--memory-per-node %.60q: want an amount with its unit, as 512G, or more, as +100G",
			q.memoryPerNode)
	}
	return whatif.Memory{Amount: gres.Memory(amount * unit), How: relative(q.memoryPerNode)}, nil
}

func (q *supposition) ordered() (whatif.Change, error) {
	if q.policy == "" {
		return nil, nil
	}
	p, err := policy.ParsePolicy(q.policy)
	if err != nil {
		return nil, fmt.Errorf("--policy: %w", err)
	}
	return whatif.By{Policy: p}, nil
}

func (q *supposition) sized() (whatif.Change, error) {
	if q.allocator == "" {
		return nil, nil
	}
	a, err := policy.ParseAllocator(q.allocator)
	if err != nil {
		return nil, fmt.Errorf("--allocator: %w", err)
	}
	return whatif.Sized{Allocator: a}, nil
}

func (q *supposition) asked(is *whatif.Case) (whatif.Change, error) {
	if q.gpus == 0 && q.nodes == 0 {
		return nil, nil
	}
	return whatif.NewRequest(is, q.job, q.gpus, q.nodes), nil
}

func (q *supposition) saving() (whatif.Change, error) {
	if !q.checkpoint {
		return nil, nil
	}
	return whatif.Checkpoint{Job: q.job}, nil
}

func (q *supposition) preferred() (whatif.Change, error) {
	if !q.first {
		return nil, nil
	}
	return whatif.First{Job: q.job}, nil
}

func (q *supposition) profiled() (whatif.Change, error) {
	if q.profile == "" {
		return nil, nil
	}
	file, err := os.Open(q.profile)
	if err != nil {
		return nil, fmt.Errorf("--profile: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, sensitivity.MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("--profile %s: %w", q.profile, cause(err))
	}
	p, err := sensitivity.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("--profile %s: %w", q.profile, err)
	}
	return whatif.Profiled{Job: q.job, Name: filepath.Base(q.profile), Profile: p}, nil
}

// longestLine bounds a printed line, in bytes.
const longestLine = 400

// tellSearch prints the changes that start the job, the cheapest first, and then everything that was tried.
func (q *supposition) tellSearch(out io.Writer, found whatif.Found) error {
	if q.json {
		return inJSON(out, found)
	}
	fmt.Fprintln(out, printable.Line(found.Sentence, longestLine))
	for _, t := range found.Tries {
		if t.Starts && t.Sentence != found.Sentence {
			fmt.Fprintln(out, printable.Line(t.Sentence, longestLine))
		}
	}
	if err := tellTries(out, found.Tries); err != nil {
		return err
	}
	if found.Cut {
		fmt.Fprintln(out, "there was no time to try everything: give it more with --within")
	}
	return nil
}

// toldTries is how many changes of a kind are listed that do not start the job.
const toldTries = 6

// tellTries prints a table of what was tried, by kind.
func tellTries(out io.Writer, tries []whatif.Try) error {
	if len(tries) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table)
	vain := 0 // of this kind, without a start
	for k := range tries {
		t := &tries[k]
		if k > 0 && tries[k-1].Kind != t.Kind {
			vain = 0
		}
		if !t.Starts {
			vain++
		}
		if t.Starts || vain <= toldTries {
			fmt.Fprintf(table, "%s\t%s\n", printable.Line(t.Change, longestLine),
				printable.Line(cameTo(t), longestLine))
		}
		if last := k == len(tries)-1 || tries[k+1].Kind != t.Kind; last && vain > toldTries {
			fmt.Fprintf(table, "%s\t%d more like these start it as little\n", t.Kind, vain-toldTries)
		}
	}
	return table.Flush()
}

// cameTo is the result of a change.
func cameTo(t *whatif.Try) string {
	if !t.Starts {
		return "waits: " + t.Why
	}
	return fmt.Sprintf("starts now on %s with %s", strings.Join(t.Grant.Nodes, ","), t.Grant.PerNode)
}

func inJSON(out io.Writer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

func (q *supposition) tell(out io.Writer, a whatif.Answer) error {
	if q.json {
		return inJSON(out, a)
	}
	fmt.Fprintf(out, "%s\n\n", printable.Line(a.Sentence, longestLine))
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(what string, of func(o *whatif.Outcome) string) {
		fmt.Fprintf(table, "%s\t%s\t%s\n", what, of(&a.Before), of(&a.After))
	}
	fmt.Fprintln(table, "\tas it is\tas it would be")
	row("open nodes", func(o *whatif.Outcome) string { return strconv.Itoa(o.Nodes) })
	row("GPUs on them", func(o *whatif.Outcome) string { return strconv.Itoa(o.GPUs) })
	row("GPUs busy", func(o *whatif.Outcome) string { return strconv.Itoa(o.Busy) })
	row("jobs that run", func(o *whatif.Outcome) string { return strconv.Itoa(o.Runs) })
	row("jobs that start", func(o *whatif.Outcome) string { return strconv.Itoa(o.Starts) })
	row("stopped or restarted", func(o *whatif.Outcome) string { return strconv.Itoa(o.Stops) })
	row("jobs that wait", func(o *whatif.Outcome) string { return strconv.Itoa(o.Waits) })
	row("GPU-hours an hour", func(o *whatif.Outcome) string { return fmt.Sprintf("%.1f", o.Value) })
	row("of the proven bound", func(o *whatif.Outcome) string { return fmt.Sprintf("%.1f %%", 100*o.Ratio) })
	row(fmt.Sprintf("over the next %.0f h", a.After.Hours),
		func(o *whatif.Outcome) string { return fmt.Sprintf("%.1f", o.Trained) })
	if q.job != 0 {
		row(fmt.Sprintf("job %d", q.job), func(o *whatif.Outcome) string { return placed(o.Job) })
	}
	if err := table.Flush(); err != nil {
		return err
	}
	tellJobs(out, "start", a.Starts)
	tellJobs(out, "stopped or restarted", a.Stops)
	if a.Before.Cut || a.After.Cut {
		fmt.Fprintln(out, "there was no time to look as far ahead as should be: give it more with --within")
	}
	return nil
}

// toldJobs is how many jobs are named by their numbers.
const toldJobs = 20

func tellJobs(out io.Writer, what string, jobs []int) {
	if len(jobs) == 0 {
		return
	}
	fmt.Fprintf(out, "%s then and not now: %s", what, gres.FormatRanges(jobs[:min(len(jobs), toldJobs)]))
	if more := len(jobs) - toldJobs; more > 0 {
		fmt.Fprintf(out, " and %d more", more)
	}
	fmt.Fprintln(out)
}

// placed is a job's place in the outcome in a few words.
func placed(p *whatif.Place) string {
	if p.Grant == nil {
		text := "waits"
		if p.Place > 0 {
			text += fmt.Sprintf(" as number %d", p.Place)
		}
		if p.Start != nil {
			text += ", starts about " + instant(p.Start.P50)
		}
		return text
	}
	what := "starts"
	if p.Runs {
		what = "runs"
	}
	return printable.Line(fmt.Sprintf("%s on %s with %s, ×%.2f", what, strings.Join(p.Grant.Nodes, ","),
		p.Grant.PerNode, cmp.Or(p.Gain, 1)), longestLine)
}
