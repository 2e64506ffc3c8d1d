package main

import (
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/synergy-slurmd/synergy-slurmd/sim/models"
	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
	"github.com/synergy-slurmd/synergy-slurmd/sim/workload"
)

// generateCommand is synergy trace generate, which draws a workload: its help and its flags.
func generateCommand() *cobra.Command {
	o, output := newOptions(), ""
	command := &cobra.Command{
		Use:   "generate [FILE] [options]",
		Short: "draw a workload, and write it as a recorded trace",
		Long: `synergy trace generate draws jobs as synergy sim does without --trace, and writes them as a recorded trace, byte for byte as the
paper's artifact does. The same options draw the same jobs, on any machine.

FILE is an experiment as for synergy sim. Of its keys it may have those that --help lists here, with and without dashes.`,
		Example: `  synergy trace generate small.yaml --static --jobs 100                 all jobs at once, on the standard output
  synergy trace generate --load 9 --jobs 12000 -o single.csv            the paper's workload of one-GPU jobs
  synergy trace generate --load 3.5 --jobs 160 --multigpu -o multi.csv  the paper's workload of several`,
		Args:                  cobra.MaximumNArgs(1),
		DisableFlagsInUseLine: true,
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.readExperiment(c.InOrStdin(), args...); err != nil {
				return err
			}
			jobs, err := o.generate()
			if err != nil {
				return o.withGivenNames(err)
			}
			return save("output", output, c.OutOrStdout(),
				func(w io.Writer) error { return writeRecorded(w, jobs, o.site.ratio) })
		},
	}
	o.ofOneTrace()
	o.all.Lookup("jobs").Usage = "how many `jobs` are drawn"
	o.setDefault("jobs", "1000")
	file := newGroup("Output")
	outputFlag(file, &output)
	o.defineFlags(
		command,
		o.subset("Workload", "load", "jobs", "split", "multigpu", "static", "seed", "gpus", "durations",
			"arrivals", "assign", "ratio"),
		file,
	)
	return command
}

// ofOneTrace describes options as a command has them that writes one trace, and gives --ratio the default of such
// traces.
func (o *options) ofOneTrace() {
	for name, usage := range map[string]string{
		"jobs":   "the first `N` of the jobs that are kept (default all)",
		"load":   "`jobs/h` that arrive, where arrivals are drawn",
		"seed":   "`number` that everything is drawn from that is drawn",
		"static": "all jobs are there from the beginning",
		"ratio":  "`cores` for each GPU of the servers that iterations are counted for: 3, 4, 5 or 6",
	} {
		o.all.Lookup(name).Usage = usage
	}
	o.setDefault("ratio", strconv.Itoa(publishedRatio))
}

// paperModels are the paper's models at this ratio.
func paperModels(ratio int) ([]workload.Class, error) {
	if !isMeasured(ratio) {
		return nil, ratioError(ratio)
	}
	return workload.Paper(ratio)
}

// isMeasured reports whether the paper's models were measured with so many cores for each GPU.
func isMeasured(ratio int) bool { return ratio >= models.LeastRatio && ratio <= models.MostRatio }

func ratioError(ratio int) error {
	return fmt.Errorf("--ratio %d: want %d to %d, for which the models were measured", ratio, models.LeastRatio,
		models.MostRatio)
}

func outputFlag(g group, output *string) {
	g.flags.StringVarP(output, "output", "o", stdioName,
		"write to `FILE`, compressed if it ends in .gz; - is the standard output")
}

// maxDrawnJobs bounds the jobs that are drawn, since they are all kept in memory.
const maxDrawnJobs = 10_000_000

// generate draws the jobs that the options describe, one load and one seed, since it writes one trace.
func (o *options) generate() ([]trace.Job, error) {
	if o.recorded.jobs < 1 || o.recorded.jobs > maxDrawnJobs {
		return nil, fmt.Errorf("--jobs %d: want a number from 1 to %d", o.recorded.jobs, maxDrawnJobs)
	}
	if err := o.checkWorkload(); err != nil {
		return nil, err
	}
	classes, err := paperModels(o.site.ratio)
	if err != nil {
		return nil, err
	}
	if err := o.checkSingle(); err != nil {
		return nil, err
	}
	drawn, err := o.drawnWorkloads(simSetup{classes: classes, ratio: o.site.ratio})
	if err != nil {
		return nil, err
	}
	source, err := drawn[0].Source()
	if err != nil {
		return nil, err
	}
	var jobs []trace.Job
	for job, more := source.Next(); more; job, more = source.Next() {
		jobs = append(jobs, job)
	}
	return jobs, nil
}

// checkSingle refuses options that describe several traces, of which only one can be written.
func (o *options) checkSingle() error {
	loads, seeds, err := o.generator.loadsAndSeeds()
	switch {
	case err != nil:
		return err
	case len(loads) > 1:
		return fmt.Errorf("--load %q: want one number, since one trace is written", o.generator.load)
	case len(seeds) > 1:
		return fmt.Errorf("--seed %q: want one number, since one trace is written", o.generator.seed)
	}
	return nil
}
