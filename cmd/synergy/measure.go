package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/synergy-slurmd/synergy-slurmd/cmd/internal/times"
	"github.com/synergy-slurmd/synergy-slurmd/profiling/inside"
	"github.com/synergy-slurmd/synergy-slurmd/profiling/local"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/profiler"
)

// measureOptions are the flags of measure.
type measureOptions struct {
	pid                              int
	progress, watched, text, pretend string
	window, total                    time.Duration
	printsOnly                       bool
}

// measureCommand is synergy measure: its help and its flags.
func measureCommand() *cobra.Command {
	var o measureOptions
	command := &cobra.Command{
		Use:   "measure [options]",
		Short: "measure, from inside of a job with synergy-profile=auto, how fast it trains with fewer of its cores",
		Long: `synergy measure is for the background of a batch script whose job was submitted with --comment=synergy-profile=auto. Where the
daemon wants the job measured, it lets the processes of the script use fewer of the job's cores for some seconds at a time, counts
iterations, gives all cores back, and says the curve in the job's comment. Otherwise, and outside of a job, it ends at once.

The training is neither started, stopped nor signalled; it is slower for three minutes at most, once for each job name.

Iterations come from the file that SYNERGY_PROGRESS names, or by a pattern from what the job prints.`,
		Example: `  synergy measure &                     # in the script, before the training is started
  exec python train.py`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context()) },
	}
	what := newGroup("What")
	what.flags.IntVar(&o.pid, "pid", 0,
		"the `process` that is measured with all that it starts (default the batch script, or the task of srun)")
	what.flags.StringVar(&o.progress, "progress", os.Getenv("SYNERGY_PROGRESS"), "`file` of its iterations")
	what.flags.StringVar(&o.watched, "watch", "",
		"`file` in which the pattern is looked for (default the job's output)")
	what.flags.StringVar(&o.text, "pattern", "tqdm",
		"`pattern` of iterations in that: a name or a regular expression, as of synergy profile")
	how := newGroup("How")
	times.Var(how.flags, &o.window, "window", inside.DefaultWindow, "`time` for each size")
	times.Var(how.flags, &o.total, "total", inside.DefaultTotal, "`time` for all sizes together")
	how.flags.StringVar(&o.pretend, "pretend", "",
		"write the number of cores into this `file` in place of taking them, for nodes that claim more cores than "+
			"they have")
	how.flags.BoolVar(&o.printsOnly, "print", false,
		"measure whether or not the daemon asks, and print the word in place of saying it")
	setGroups(command, what, how)
	return command
}

// run measures the job if the daemon asks for that. An error costs only the measurement, and shows in the exit status.
// It ends well and does nothing outside of a job, if the daemon does not ask, or if another process of the job measures
// already, since every batch script may call it.
func (o *measureOptions) run(ctx context.Context) error {
	if o.window < time.Second || o.total < o.window || o.total > inside.DefaultTotal {
		return fmt.Errorf("--window %s --total %s: want a second at least, and all windows within %s", o.window,
			o.total, inside.DefaultTotal)
	}
	manager := inside.Slurm{Job: inside.JobOf(os.Getenv)}
	var asked inside.Asked
	if !o.printsOnly {
		if manager.Job == "" {
			return nil
		}
		var err error
		if asked, err = manager.Asked(ctx); err != nil {
			return failed{err}
		}
		if !asked.Measure {
			return nil
		}
	}
	job, err := o.measuredJob(asked.Output)
	if err != nil {
		return err
	}
	during, end := ctx, func() {}
	if tree, is := job.Cores.(*inside.Tree); is {
		tree.Job = manager.Job
		during, end = tree.During(ctx)
	}
	defer end()
	points, err := inside.Measure(during, job)
	switch {
	case errors.Is(err, inside.ErrClaimed) || during.Err() != nil && ctx.Err() == nil:
		// Another process measures the job, or the trainer has ended.
		return nil
	case err != nil:
		return failed{fmt.Errorf("measure: %w", err)}
	}
	return o.reportCurve(ctx, manager, points)
}

// reportCurve writes the measured curve into the job's comment, where the daemon reads it, or prints it with --print.
func (o *measureOptions) reportCurve(ctx context.Context, manager inside.Slurm, points []profiler.Point) error {
	word := inside.Word(points, time.Now())
	if o.printsOnly {
		_, err := fmt.Println(word)
		return err
	}
	if err := manager.Say(ctx, word); err != nil {
		return failed{fmt.Errorf("say %s: %w", word, err)}
	}
	fmt.Fprintln(os.Stderr, "synergy: measured", word)
	return nil
}

// measuredJob is what is measured: the processes and cores, and where iterations are read. output are the files to
// which the job prints, which are read unless options name others.
func (o *measureOptions) measuredJob(output []string) (inside.Job, error) {
	pattern, err := local.ParsePattern(o.text)
	if err != nil {
		return inside.Job{}, fmt.Errorf("--pattern: %w", err)
	}
	if o.watched != "" {
		output = []string{o.watched}
	}
	job := inside.Job{Source: local.Files(o.progress, output, pattern), Window: o.window, Total: o.total, GPUs: 1}
	if o.pretend != "" {
		job.Cores = inside.Pretended(o.pretend)
		if job.Most, err = strconv.Atoi(os.Getenv("SLURM_CPUS_ON_NODE")); err != nil || job.Most < 1 {
			return inside.Job{}, errors.New("--pretend: want SLURM_CPUS_ON_NODE, as in a job")
		}
		return job, nil
	}
	if o.pid == 0 {
		o.pid = inside.Script(os.Getppid())
	}
	tree, err := inside.TreeOf(o.pid)
	if err != nil {
		return inside.Job{}, fmt.Errorf("--pid %d: %w", o.pid, err)
	}
	job.Cores, job.Most = tree, len(tree.CPUs)
	return job, nil
}
