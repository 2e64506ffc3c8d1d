package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/synergy-slurmd/synergy-slurmd/cmd/internal/times"
	"github.com/synergy-slurmd/synergy-slurmd/launcher"
	"github.com/synergy-slurmd/synergy-slurmd/profiling/inside"
	"github.com/synergy-slurmd/synergy-slurmd/profiling/local"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/profiler"
)

// besideOptions is what synergy run does beside its command: it measures the job, and reports its progress.
type besideOptions struct {
	progress, watched, text string
	window                  time.Duration
}

// addFlags defines the flags of where iterations are read and how the job is measured.
func (b *besideOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&b.progress, "progress", os.Getenv("SYNERGY_PROGRESS"), "`file` of its iterations")
	flags.StringVar(&b.watched, "watch", "",
		"`file` in which the pattern is looked for (default what COMMAND prints, or else the job's output)")
	flags.StringVar(&b.text, "pattern", "tqdm",
		"`pattern` of iterations in that: a name or a regular expression, as of synergy profile")
	times.Var(flags, &b.window, "window", inside.DefaultWindow, "`time` for each size that is measured")
}

// longestWindow leaves time for five sizes within the default total.
const longestWindow = inside.DefaultTotal / 5

// firstIteration is how long a trainer may take to its first iteration, as when it unpacks a data set first.
const firstIteration = 2 * time.Hour

// accompany makes the launcher measure and report beside its command. It does so only in a job, and only in the first
// task of a step: all tasks have the same progress, and slurmctld need not get it from each. If the step has several
// tasks it reports and does not measure, since a measurement would slow down only the first of them.
func (b *besideOptions) accompany(l *launcher.Command, getenv func(string) string) error {
	pattern, err := local.ParsePattern(b.text)
	if err != nil {
		return fmt.Errorf("--pattern: %w", err)
	}
	if b.window < time.Second || b.window > longestWindow {
		return fmt.Errorf("--window %s: want a second at least, and %s at most", b.window, longestWindow)
	}
	job := inside.JobOf(getenv)
	if task := getenv("SLURM_PROCID"); job == "" || task != "" && task != "0" {
		return nil
	}
	c := &inside.Companion{Slurm: inside.Slurm{Job: job}, Say: l.Say}
	c.Count = func(asked inside.Asked) func() int64 {
		return local.Files(b.progress, b.iterationFiles(asked.Output), pattern)
	}
	alone := getenv("SLURM_STEP_NUM_TASKS")
	l.Beside = append(l.Beside, func(ctx context.Context, pid int) {
		if alone == "" || alone == "1" { // with several tasks it would see only the first one's processes
			c.Measure = func(ctx context.Context, count func() int64) ([]profiler.Point, error) {
				return b.measureProcess(ctx, pid, job, count)
			}
		}
		c.Accompany(ctx)
	})
	return nil
}

// iterationFiles returns the files in which iterations are looked for: the file of --watch, or else the files to which
// the command prints. If it prints to none, as to a pipe of srun, they are the job's own output files (ofJob), to which
// srun copies what its tasks print.
func (b *besideOptions) iterationFiles(ofJob []string) (files []string) {
	if b.watched != "" {
		return []string{b.watched}
	}
	for _, path := range []string{"/proc/self/fd/1", "/proc/self/fd/2"} {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			files = append(files, path)
		}
	}
	if len(files) == 0 {
		return ofJob
	}
	return files
}

// measureProcess measures the process pid and all that it starts, with fewer of the job's cores for some seconds at a
// time, and returns the points of the curve. count returns the iterations so far.
func (b *besideOptions) measureProcess(
	ctx context.Context,
	pid int,
	job string,
	count func() int64,
) ([]profiler.Point, error) {
	tree, err := inside.TreeOf(pid)
	if err != nil {
		return nil, err
	}
	tree.Job = job
	return inside.Measure(ctx, inside.Job{Cores: tree, Most: len(tree.CPUs), Source: count, Window: b.window,
		Wait: firstIteration})
}
