package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/directive"
	"github.com/synergy-slurmd/synergy-slurmd/printable"
	slurmjob "github.com/synergy-slurmd/synergy-slurmd/profiling/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/story"
)

// whyNotOptions are the flags of why-not.
type whyNotOptions struct {
	source
	json bool
}

func whyNotCommand() *cobra.Command {
	var o whyNotOptions
	command := &cobra.Command{
		Use:   "why-not [flags] JOB",
		Short: "why does a job not run, or not have more cores: what is missing where, who has it, what would help",
		Long: `why-not says why a job does not run, in one sentence, and then what each kind of node lacks for it,
who holds that, which limits of the site bind, and what of its own request would have to be
different for it to find room under the last round's plan; each such change was tried. Of a job that
runs it says why it has no more cores. It asks the daemon, or reads the ledger of one that is down;
synergy explain tells what became of the job before.`,
		Example: `  synergy why-not 4711
  synergy why-not --json 4711`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return o.run(c.Context(), c.OutOrStdout(), args[0], time.Now())
		},
	}
	where, out := newGroup("Where rounds are read"), newGroup("Output")
	o.define(where)
	out.flags.BoolVar(&o.json, "json", false, "the answer for programs")
	grouped(command, where, out)
	return command
}

func (o *whyNotOptions) run(ctx context.Context, out io.Writer, name string, now time.Time) error {
	_, answer, err := o.ask(ctx, name)
	if err != nil {
		return err
	}
	if o.json {
		return asJSON(out, answer)
	}
	s := screenOf(out)
	reply(s, &answer, now)
	return done(s.err)
}

// ask is the latest round, and what it says of the job. It is an error if the round does not know the job.
func (o *whyNotOptions) ask(ctx context.Context, name string) (bridge.Report, story.WhyNot, error) {
	job, err := jobNumber(name)
	if err != nil {
		return bridge.Report{}, story.WhyNot{}, err
	}
	report, err := o.latest(ctx)
	if err != nil {
		return report, story.WhyNot{}, err
	}
	answer := story.AskWhyNot(job, &report)
	if answer.State == story.StateUnknown {
		err = failed{o.stranger(ctx, &answer)}
	}
	return report, answer, err
}

// jobNumber reads a job's number.
func jobNumber(name string) (int, error) {
	job, err := strconv.Atoi(name)
	if err != nil || job < 1 {
		return 0, fmt.Errorf("%.40q: want the number of a job, as 4711; each task of an array has a number of its own",
			name)
	}
	return job, nil
}

// stranger is the error for a job that the last round has not seen with our directive. It asks Slurm for the reason,
// and otherwise lists the possible ones.
func (o *whyNotOptions) stranger(ctx context.Context, a *story.WhyNot) error {
	d, _ := o.health(ctx) // without an answer the managed partitions are left out
	ctx, cancel := context.WithTimeout(ctx, slurmLimit)
	defer cancel()
	says, err := slurmjob.Look(ctx, slurmjob.ID(strconv.Itoa(a.Job)))
	if why := unmanaged(a, says, err, d.Partitions); why != "" {
		return fmt.Errorf("job %d: %s", a.Job, why)
	}
	where := "a partition that is not managed"
	if len(d.Partitions) > 0 {
		where = fmt.Sprintf("another partition than %s, which are managed", strings.Join(d.Partitions, ", "))
	}
	return fmt.Errorf("job %d: round %d has not seen it as one of ours: it has no word of ours in its comment "+
		"(synergy-profile=…), is in %s, is over, or came after the round; scontrol show job %d tells which", a.Job,
		a.Round, where, a.Job)
}

// slurmLimit is how long Slurm may take to tell about a job.
const slurmLimit = 10 * time.Second

// unmanaged says why a job is not managed, by what Slurm says of it; empty: Slurm could not be asked.
func unmanaged(a *story.WhyNot, says slurmjob.Status, err error, partitions []string) string {
	managed := func(name string) bool { return slices.Contains(partitions, name) }
	switch {
	case errors.Is(err, slurmjob.ErrForgotten):
		return "Slurm does not know it: it is over for some time, or never was"
	case err != nil:
		return ""
	case says.Ended():
		return "it is over: " + says.Ending()
	case !directive.Parse(says.Comment).Managed:
		return "its comment has no word of ours, so the daemon leaves it to Slurm; submit it with " +
			"--comment=synergy-profile=… for a share by its profile"
	case len(partitions) > 0 && !slices.ContainsFunc(strings.Split(says.Partition, ","), managed):
		return fmt.Sprintf("it is in partition %s, and the daemon manages %s",
			printable.Line(says.Partition, longestName), strings.Join(partitions, ", "))
	}
	return fmt.Sprintf("round %d has not seen it: ask again when the next one has been held", a.Round)
}

// reply prints the answer: why the job waits, then nodes, limits, and what would help.
func reply(s *screen, a *story.WhyNot, now time.Time) {
	title := fmt.Sprintf("job %d", a.Job)
	if a.User != "" {
		title += fmt.Sprintf(" %q of %s: %s", strings.TrimSpace(a.Name), a.User, counted(a.GPUs, "GPU"))
	}
	s.say(0, title)
	s.say(2, a.Says)
	s.say(2, circumstances(a, now))
	for _, note := range a.Notes {
		s.say(2, "note: "+note)
	}
	section(s, "nodes", len(a.Kinds))
	for i := range a.Kinds {
		k := &a.Kinds[i]
		s.say(4, kindOf(k)+": "+k.Says)
		if text := holders(k); text != "" {
			s.say(8, text)
		}
	}
	section(s, "limits", len(a.Quotas))
	for i := range a.Quotas {
		t := &a.Quotas[i]
		s.say(4, t.Name+" "+t.Says+heldBy(t.Holds))
	}
	section(s, "what would help", len(a.Helps))
	for _, text := range a.Helps {
		s.say(4, text)
	}
}

func section(s *screen, title string, entries int) {
	if entries > 0 {
		s.say(2, title+":")
	}
}

// circumstances are since when and behind which jobs it waits, and of which round that is.
func circumstances(a *story.WhyNot, now time.Time) string {
	var parts []string
	if a.Wait != nil {
		parts = append(parts, fmt.Sprintf("reason %s, cause %s", a.Wait.Reason, a.Wait.Cause))
	}
	if before := ahead("", a.Ahead, a.Next); before != "" {
		parts = append(parts, before)
	}
	if a.Wait != nil && a.Wait.Starts != nil {
		parts = append(parts, "expected to start: "+expected(a.Wait.Starts))
	}
	if !a.Since.IsZero() {
		what := "submitted"
		if a.State == story.StateRuns {
			what = "runs since"
		}
		parts = append(parts, fmt.Sprintf("%s %s", what, clockTime(a.Since)))
	}
	return strings.Join(append(parts, asOf(a.Round, a.Began, now, false)), "; ")
}

func kindOf(k *story.Kind) string {
	text := fmt.Sprintf("%s (%s, %s, %s", story.Nodes(k.Nodes), counted(k.Each.GPUs, "GPU"),
		counted(k.Each.CPUs, "core"), story.Gigabytes(k.Each.Memory))
	if k.Type != "" {
		text += ", " + k.Type
	}
	return text + ")"
}

// fewHolders is how many jobs are named.
const fewHolders = 6

// holders says which jobs hold what on the nearest node.
func holders(k *story.Kind) string {
	var parts []string
	for i, h := range k.Holders {
		if i == fewHolders {
			parts = append(parts, fmt.Sprintf("%d more", len(k.Holders)-i))
			break
		}
		who := fmt.Sprintf("job %d of %s", h.Job, h.User)
		if h.Job == 0 {
			who = "jobs that are not managed"
		}
		has := fmt.Sprintf("%s %s, %s and %s", who, counted(h.Has.GPUs, "GPU"), counted(h.Has.CPUs, "core"),
			story.Gigabytes(h.Has.Memory))
		if h.GivesBack {
			has += ", which can be asked back"
		}
		parts = append(parts, has)
	}
	if len(parts) == 0 {
		return ""
	}
	return "on " + k.Nearest + " have " + strings.Join(parts, "; ")
}

// heldBy names the jobs that use up a limit.
func heldBy(jobs []int) string {
	text := ""
	for i, job := range jobs {
		switch {
		case i == fewHolders:
			return text + fmt.Sprintf(" and %d more", len(jobs)-i)
		case i == 0:
			text = "; the rest is held by " + plainJobs(len(jobs)) + " "
		default:
			text += ", "
		}
		text += strconv.Itoa(job)
	}
	return text
}

func plainJobs(n int) string {
	if n == 1 {
		return "job"
	}
	return "jobs"
}
