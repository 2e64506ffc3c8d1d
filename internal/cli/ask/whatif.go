package ask

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/whatif"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// WhatIf asks what would be otherwise with other nodes, another policy, or another request of a job. Fields that are
// empty or 0 change nothing. The texts are as they were typed.
type WhatIf struct {
	Present
	AddNodes, Drain, CoresPerNode, MemoryPerNode string
	Policy, Allocator, Profile                   string // Profile is a file
	CoresPerGPU, Job, GPUs, Nodes                int
	Checkpoint, First, JSON                      bool
	Within                                       time.Duration // for looking ahead
}

// Run writes what the changes would bring. If only a job is named and no change, it searches for a change that starts
// the job. Half of the time of --within goes to each forecast or search, of which a question has up to two.
func (q *WhatIf) Run(ctx context.Context, input io.Reader, out, notes io.Writer) error {
	if err := q.check(); err != nil {
		return err
	}
	is, err := q.read(ctx, input, notes)
	if err != nil {
		return err
	}
	changes, err := q.changes(&is)
	if err != nil {
		return err
	}
	// A question has two steps that take time, each with half of it: what is and what would be played forward, or what
	// is played forward and the search.
	begin := stopsAfter(ctx, q.Within/2)
	if len(changes) == 0 {
		// The search asks for a change with which the job starts now, so the jobs that the round has just started must
		// hold their nodes.
		found, err := whatif.Search(is.Started(q.started), q.Job, whatif.Options{Begin: begin})
		if err != nil {
			return Failed{err}
		}
		return write(out, searchAnswer{found}, q.JSON, time.Time{})
	}
	if q.Job != 0 && !slices.ContainsFunc(is.Cluster.Jobs, func(j policy.Job) bool { return j.ID == q.Job }) {
		return Failed{fmt.Errorf("job %d is not in the snapshot: want one that waits or runs", q.Job)}
	}
	a, err := whatif.Ask(is, changes, whatif.Options{Job: q.Job, Begin: begin})
	if err != nil {
		return err
	}
	return write(out, whatIfAnswer{a, q.Job}, q.JSON, time.Time{})
}

// stopsAfter returns a function that a forecast calls when it begins. Each such call starts a time limit of its own,
// and returns the function that the forecast then asks whether to stop: it reports whether the limit has passed or ctx
// has ended.
func stopsAfter(ctx context.Context, within time.Duration) func() func() bool {
	return func() func() bool {
		end := time.Now().Add(within)
		return func() bool { return ctx.Err() != nil || time.Now().After(end) }
	}
}

// check refuses flags that do not go together, before a daemon is asked. The names are checked in a fixed order, so
// that the same command line has the same error.
func (q *WhatIf) check() error {
	ofJob := map[string]bool{"--gpus": q.GPUs != 0, "--nodes": q.Nodes != 0, "--checkpoint": q.Checkpoint,
		"--first": q.First, "--profile": q.Profile != ""}
	for _, name := range []string{"--gpus", "--nodes", "--checkpoint", "--first", "--profile"} {
		if ofJob[name] && q.Job == 0 {
			return fmt.Errorf("%s: of which job? Name it with --job", name)
		}
	}
	switch {
	case q.Job < 0:
		return fmt.Errorf("--job %d: want the number of a job, as 4711", q.Job)
	case q.GPUs < 0:
		return fmt.Errorf("--gpus %d: want at least 1", q.GPUs)
	case q.Nodes < 0:
		return fmt.Errorf("--nodes %d: want at least 1", q.Nodes)
	case q.CoresPerGPU < 0:
		return fmt.Errorf("--cores-per-gpu %d: want at least 1", q.CoresPerGPU)
	case q.CoresPerGPU > 0 && q.CoresPerNode != "":
		return errors.New("--cores-per-gpu and --cores-per-node: want one of them")
	}
	return checkWithin(q.Within)
}

// changes returns the changes that the flags name, those of the cluster first, in the order in which they are applied.
// Without any change the list is empty if a job is named, since Run then searches for a change. If no job is named
// either, that is an error.
func (q *WhatIf) changes(is *whatif.Case) (list []whatif.Change, err error) {
	for _, of := range []func() (whatif.Change, error){q.nodesChange, q.drainChange, q.coresChange, q.memoryChange,
		q.policyChange,
		q.allocatorChange,
		func() (whatif.Change, error) { return q.requestChange(is) }, q.checkpointChange, q.profileChange,
		q.firstChange} {
		change, err := of()
		if err != nil {
			return nil, err
		}
		if change != nil {
			list = append(list, change)
		}
	}
	if len(list) == 0 && q.Job == 0 {
		return nil, errors.New("no change: want one, as --cores-per-node +4, or a job, as --job 4711")
	}
	return list, nil
}

// nodesChange is the change of --add-nodes, a number of nodes with the name of one that they are like, as 4:like=n1. It
// is nil if the flag was not given. Each of the following functions likewise is one flag's change, or nil.
func (q *WhatIf) nodesChange() (whatif.Change, error) {
	if q.AddNodes == "" {
		return nil, nil
	}
	count, like, _ := strings.Cut(q.AddNodes, ":")
	n, err := strconv.Atoi(count)
	name, is := strings.CutPrefix(like, "like=")
	if err != nil || n < 1 || like != "" && (!is || name == "") {
		return nil, fmt.Errorf("--add-nodes %.60q: want a number of nodes, as 4 or 4:like=n1", q.AddNodes)
	}
	return whatif.AddNodes{N: n, Like: name}, nil
}

// drainChange is the change of --drain.
func (q *WhatIf) drainChange() (whatif.Change, error) {
	if q.Drain == "" {
		return nil, nil
	}
	names, err := gres.ParseHosts(q.Drain)
	if err != nil {
		return nil, fmt.Errorf("--drain: %w", err)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("--drain %.60q: want nodes, as n[3-4]", q.Drain)
	}
	return whatif.Drain{Nodes: names}, nil
}

// coresChange is the change of --cores-per-gpu or of --cores-per-node, of which check allows one.
func (q *WhatIf) coresChange() (whatif.Change, error) {
	if q.CoresPerGPU != 0 {
		return whatif.Cores{Amount: q.CoresPerGPU, How: whatif.PerGPU}, nil
	}
	if q.CoresPerNode == "" {
		return nil, nil
	}
	n, err := strconv.Atoi(q.CoresPerNode)
	if err != nil || n == 0 {
		return nil, fmt.Errorf("--cores-per-node %.60q: want a number of cores, as 64, or of more, as +4 or -4",
			q.CoresPerNode)
	}
	return whatif.Cores{Amount: n, How: amountMode(q.CoresPerNode)}, nil
}

// amountMode is how an amount is meant: with a sign it is added to the present one, without a sign it is the new
// amount.
func amountMode(text string) whatif.How {
	if strings.HasPrefix(text, "+") || strings.HasPrefix(text, "-") {
		return whatif.More
	}
	return whatif.Exactly
}

// memoryChange is the change of --memory-per-node. The amount needs a unit, since a bare number could be MB or GB. An
// amount below 1 MiB is refused as a wrong one is, since it would be rounded to 0 and change nothing.
func (q *WhatIf) memoryChange() (whatif.Change, error) {
	if q.MemoryPerNode == "" {
		return nil, nil
	}
	digits, unit := q.MemoryPerNode, 0.0
	for suffix, is := range map[string]gres.Memory{"M": 1, "G": gres.Gigabyte, "T": 1000 * gres.Gigabyte} {
		if rest, has := strings.CutSuffix(digits, suffix); has {
			digits, unit = rest, float64(is)
			break
		}
	}
	const most = 1e12 // MiB; the comparison is written so that NaN fails
	amount, err := strconv.ParseFloat(digits, 64)
	if err != nil || unit == 0 || !(max(amount, -amount)*unit <= most) || int64(amount*unit) == 0 {
		return nil, fmt.Errorf("--memory-per-node %.60q: want an amount with its unit, as 512G, or more, as +100G",
			q.MemoryPerNode)
	}
	return whatif.Memory{Amount: gres.Memory(amount * unit), How: amountMode(q.MemoryPerNode)}, nil
}

// policyChange is the change of --policy.
func (q *WhatIf) policyChange() (whatif.Change, error) {
	if q.Policy == "" {
		return nil, nil
	}
	p, err := policy.ParsePolicy(q.Policy)
	if err != nil {
		return nil, fmt.Errorf("--policy: %w", err)
	}
	return whatif.By{Policy: p}, nil
}

// allocatorChange is the change of --allocator.
func (q *WhatIf) allocatorChange() (whatif.Change, error) {
	if q.Allocator == "" {
		return nil, nil
	}
	a, err := policy.ParseAllocator(q.Allocator)
	if err != nil {
		return nil, fmt.Errorf("--allocator: %w", err)
	}
	return whatif.Sized{Allocator: a}, nil
}

// requestChange is the change of --gpus and --nodes, which are one request. Without --gpus the job keeps its GPUs;
// without --nodes their number of nodes is free.
func (q *WhatIf) requestChange(is *whatif.Case) (whatif.Change, error) {
	if q.GPUs == 0 && q.Nodes == 0 {
		return nil, nil
	}
	return whatif.NewRequest(is, q.Job, q.GPUs, q.Nodes), nil
}

// checkpointChange is the change of --checkpoint.
func (q *WhatIf) checkpointChange() (whatif.Change, error) {
	if !q.Checkpoint {
		return nil, nil
	}
	return whatif.Checkpoint{Job: q.Job}, nil
}

// firstChange is the change of --first.
func (q *WhatIf) firstChange() (whatif.Change, error) {
	if !q.First {
		return nil, nil
	}
	return whatif.First{Job: q.Job}, nil
}

// profileChange is the change of --profile, a file with another profile for the job. It is nil without the flag.
func (q *WhatIf) profileChange() (whatif.Change, error) {
	if q.Profile == "" {
		return nil, nil
	}
	file, err := os.Open(q.Profile)
	if err != nil {
		return nil, fmt.Errorf("--profile: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, sensitivity.MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("--profile %s: %w", q.Profile, withoutPath(err))
	}
	p, err := sensitivity.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("--profile %s: %w", q.Profile, err)
	}
	return whatif.Profiled{Job: q.Job, Name: filepath.Base(q.Profile), Profile: p}, nil
}

// searchAnswer are the changes that start the job, the cheapest first, and everything that was tried.
type searchAnswer struct{ whatif.Found }

// show writes the sentence of the best change first, then those of the other changes that start the job, and then all
// that was tried as a table.
func (s searchAnswer) show(t *Text, _ time.Time) {
	t.Say(0, s.Sentence)
	for _, try := range s.Tries {
		if try.Starts && try.Sentence != s.Sentence {
			t.Say(0, try.Sentence)
		}
	}
	if len(s.Tries) > 0 {
		t.Blank()
		t.Table(triedRows(s.Tries), 0)
	}
	if s.Cut {
		t.Say(0, "there was no time to try everything: give it more with --within")
	}
}

// maxTriesListed is how many changes of a kind are listed that do not start the job.
const maxTriesListed = 6

// triedRows are the table's rows of what was tried, in the order of tries, in which those of one kind of change stand
// together. All changes that start the job are listed. There may be dozens that do not: of each kind maxTriesListed are
// listed, and the others counted in one row.
func triedRows(tries []whatif.Try) (rows [][]string) {
	vain := 0 // of this kind, without a start
	for k := range tries {
		try := &tries[k]
		if k > 0 && tries[k-1].Kind != try.Kind {
			vain = 0
		}
		if !try.Starts {
			vain++
		}
		if try.Starts || vain <= maxTriesListed {
			rows = append(rows, []string{Cell(try.Change, LongestSentence), Cell(tryResult(try), LongestSentence)})
		}
		if last := k == len(tries)-1 || tries[k+1].Kind != try.Kind; last && vain > maxTriesListed {
			rows = append(rows, []string{try.Kind, fmt.Sprintf("%d more like these start it as little",
				vain-maxTriesListed)})
		}
	}
	return rows
}

// tryResult is the result of a change.
func tryResult(try *whatif.Try) string {
	if !try.Starts {
		return "waits: " + try.Why
	}
	return fmt.Sprintf("starts now on %s with %s", strings.Join(try.Grant.Nodes, ","), try.Grant.PerNode)
}

// whatIfAnswer compares what is planned as the cluster is with what would be planned after the changes.
type whatIfAnswer struct {
	whatif.Answer
	job int // the one that was asked about; 0: none
}

// show writes the answer, both outcomes side by side, and the jobs that start, or are stopped, only after the changes.
func (a whatIfAnswer) show(t *Text, _ time.Time) {
	t.Say(0, a.Sentence)
	t.Blank()
	rows := [][]string{{"", "as it is", "as it would be"}}
	row := func(what string, of func(o *whatif.Outcome) string) {
		rows = append(rows, []string{what, of(&a.Before), of(&a.After)})
	}
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
	if a.job != 0 {
		row(fmt.Sprintf("job %d", a.job), func(o *whatif.Outcome) string { return outcomeText(o.Job) })
	}
	t.Table(rows, 0)
	sayJobs(t, "start", a.Starts)
	sayJobs(t, "stopped or restarted", a.Stops)
	if a.Before.Cut || a.After.Cut {
		t.Say(0, "there was no time to look as far ahead as should be: give it more with --within")
	}
}

// maxJobsListed is how many jobs are named by their numbers.
const maxJobsListed = 20

// sayJobs lists jobs that start, or stop, only with the changes.
func sayJobs(t *Text, what string, jobs []int) {
	if len(jobs) == 0 {
		return
	}
	text := fmt.Sprintf("%s then and not now: %s", what, gres.FormatRanges(jobs[:min(len(jobs), maxJobsListed)]))
	if more := len(jobs) - maxJobsListed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	t.Say(0, text)
}

// outcomeText says in a few words what becomes of the job that was asked about. A gain of 0 means that the plan does
// not state one. It is shown as 1, the speed with the share.
func outcomeText(p *whatif.Place) string {
	if p.Grant == nil {
		text := "waits"
		if p.Place > 0 {
			text += fmt.Sprintf(" as number %d", p.Place)
		}
		if p.Start != nil {
			text += ", starts about " + momentText(p.Start.P50)
		}
		return text
	}
	what := "starts"
	if p.Runs {
		what = "runs"
	}
	return Cell(fmt.Sprintf("%s on %s with %s, ×%.2f", what, strings.Join(p.Grant.Nodes, ","), p.Grant.PerNode,
		cmp.Or(p.Gain, 1)), LongestSentence)
}
