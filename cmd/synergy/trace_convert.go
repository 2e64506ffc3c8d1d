package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
)

// conversion are the flags of synergy trace convert, as typed.
type conversion struct {
	*options
	to, file  string
	anonymous bool
}

// convertCommand is synergy trace convert: its help and its flags. GPUs, durations and arrivals are by default those of
// the log.
func convertCommand() *cobra.Command {
	v := &conversion{options: newOptions()}
	command := &cobra.Command{
		Use:   "convert FILE [EXPERIMENT] --to FORMAT [options]",
		Short: "write a trace in another format",
		Long: `synergy trace convert writes a trace in another format: recorded, for simulations, or condensed, the shortest of a site's logs.

A site's log knows no models. For a recorded trace its jobs are given some by --split, and as many iterations as the model trains in
the time that the job ran; what the options do not change is the log's. What cannot be converted is left out, and reported.
A condensed log has one line for each job, with no job IDs, users and states.
FILE is - for the standard input. EXPERIMENT is a file as for synergy sim. Of its keys it may have those that --help lists here, with and
without dashes.`,
		Example: `  synergy trace convert sacct.txt --to recorded --split 50,40,10 -o jobs.csv
  synergy trace convert cluster_job_log --to condensed -o philly.csv.gz
  synergy trace convert philly.csv.gz drawn.yaml --to recorded --load 6 --jobs 5000 -o jobs.csv`,
		Args:                  cobra.RangeArgs(1, 2),
		DisableFlagsInUseLine: true,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 2 && args[0] == stdioName && args[1] == stdioName {
				return errors.New("-: the standard input is one file: want the name of the trace or of the experiment")
			}
			if err := v.readExperiment(c.InOrStdin(), args[1:]...); err != nil {
				return err
			}
			return v.withGivenNames(v.run(c, args[0]))
		},
	}
	v.ofOneTrace()
	for _, name := range []string{"gpus", "durations", "arrivals"} {
		v.setDefault(name, "log")
	}
	v.all.Lookup("gpus").Usage = "`what` becomes of their GPUs: log; one; up or down, to a power of two; " +
		"powers, which leaves out the others; powers-or-one, which makes one of them"
	files := v.subset("Files", "format")
	files.flags.StringVar(&v.to, "to", "", "`name` of the format to write: recorded or condensed")
	outputFlag(files, &v.file)
	files.flags.BoolVar(&v.anonymous, "anonymous", false, "leave out who submitted the jobs of a recorded trace")
	v.defineFlags(command, files,
		v.subset("Models, which a site's log does not know", "split", "seed", "assign", "ratio"),
		v.subset("Jobs of a site's log that becomes a recorded trace; what is not said is the log's", "jobs", "load",
			"static", "gpu-limit", "keep", "submitted", "compress", "gpus", "durations", "arrivals"))
	addCompletion(command, "to", stringsOf(targets...))
	return command
}

// targets are the formats that can be written.
var targets = []trace.Format{trace.Recorded, trace.Condensed}

// run converts one file and writes the result. Options that have no effect on this conversion are errors.
func (v *conversion) run(c *cobra.Command, path string) error {
	to, err := trace.ParseFormat(v.to)
	if err != nil || !slices.Contains(targets, to) {
		return fmt.Errorf("--to %q: want recorded or condensed", v.to)
	}
	v.recorded.trace = path
	t, err := openTrace(c, path, v.recorded.format)
	if err != nil {
		return err
	}
	if err := v.checkConversion(t, to); err != nil {
		return err
	}
	write, err := v.writer(c, t, to)
	if err != nil {
		return err
	}
	return save("output", v.file, c.OutOrStdout(), write)
}

// writer returns the function that writes the converted trace. The conversion itself is done here, before the file is
// opened, so that an error in it leaves the old file.
func (v *conversion) writer(c *cobra.Command, t *trace.Trace, to trace.Format) (func(io.Writer) error, error) {
	if to == trace.Condensed {
		entries, err := v.condensedEntries(c, t)
		return func(w io.Writer) error { return trace.WriteCondensed(w, t.Begin, entries) }, err
	}
	jobs, ratio, err := v.recordedJobs(c, t)
	if v.anonymous {
		jobs = withoutUsers(jobs)
	}
	return func(w io.Writer) error { return writeRecorded(w, jobs, ratio) }, err
}

// checkConversion refuses options that have no effect on this conversion, and impossible values.
func (v *conversion) checkConversion(t *trace.Trace, to trace.Format) error {
	idle, why := v.idleOptions(t, to)
	for _, name := range idle {
		if v.changed(name) {
			return fmt.Errorf("--%s: %s: leave it out", name, why)
		}
	}
	switch {
	case v.anonymous && to != trace.Recorded:
		return fmt.Errorf("--anonymous: a %s trace names no users anyway: leave it out", to)
	case v.changed("jobs") && v.recorded.jobs < 1:
		return fmt.Errorf("--jobs %d: want 1 or more", v.recorded.jobs)
	case v.changed("ratio") && !isMeasured(v.site.ratio):
		return ratioError(v.site.ratio)
	}
	return nil
}

// idleOptions are the options that have no effect on this conversion, and why.
func (v *conversion) idleOptions(t *trace.Trace, to trace.Format) (names []string, why string) {
	switch {
	case t.Format == trace.Recorded:
		return slices.Concat(v.ofDrawing, []string{"static", "jobs"}),
			"the jobs of " + t.Name + " are recorded, and nothing is drawn"
	case to == trace.Condensed:
		return slices.Concat(v.ofDrawing, []string{"static", "jobs", "ratio"}),
			"a condensed log has the jobs that the log has, without models"
	}
	return nil, ""
}

// recordedJobs are the jobs of the recorded trace that is written, and the ratio of cores to GPUs for which their
// iterations are counted.
func (v *conversion) recordedJobs(c *cobra.Command, t *trace.Trace) ([]trace.Job, int, error) {
	if t.Format == trace.Recorded {
		ratio, err := v.iterationRatio(t)
		return t.Jobs, ratio, err
	}
	g, err := v.modelSetup(t)
	if err != nil {
		return nil, 0, err
	}
	if err := v.checkWorkload(); err != nil {
		return nil, 0, err
	}
	if err := v.checkSingle(); err != nil {
		return nil, 0, err
	}
	// The options are checked before anything is told of the trace; logWorkloads reads them again.
	if _, err := v.logRules(g); err != nil {
		return nil, 0, err
	}
	printTraceNotes(c.ErrOrStderr(), t)
	made, err := v.logWorkloads(t, g, c.ErrOrStderr())
	if err != nil {
		return nil, 0, err
	}
	return made[0].Jobs, g.ratio, nil
}

// iterationRatio returns the ratio of cores to GPUs for which iterations were counted, or will be for a trace without
// iterations. It is the one that the trace states, or else --ratio. A trace that states another ratio than --ratio is
// an error, since its iterations cannot be converted.
func (v *conversion) iterationRatio(t *trace.Trace) (int, error) {
	ratio := v.site.ratio
	if t.CPUsPerGPU != 0 && !v.changed("ratio") {
		ratio = t.CPUsPerGPU
	}
	if t.CPUsPerGPU != 0 && t.CPUsPerGPU != ratio {
		return 0, fmt.Errorf("--ratio %d: the iterations of %s were counted for %d: leave it out", ratio, t.Name,
			t.CPUsPerGPU)
	}
	return ratio, nil
}

// modelSetup returns a setup with the models of the jobs and no cluster, since a conversion simulates nothing.
func (v *conversion) modelSetup(t *trace.Trace) (simSetup, error) {
	ratio, err := v.iterationRatio(t)
	if err != nil {
		return simSetup{}, err
	}
	classes, err := paperModels(ratio)
	return simSetup{classes: classes, ratio: ratio}, err
}

// condensedEntries returns the entries of the condensed log. A condensed log says how long a job ran, so a recorded job
// gets the time of its iterations at the proportional share, in whole milliseconds and at least one.
func (v *conversion) condensedEntries(c *cobra.Command, t *trace.Trace) ([]trace.Entry, error) {
	if t.Format != trace.Recorded {
		printTraceNotes(c.ErrOrStderr(), t)
		return t.Entries, nil
	}
	g, err := v.modelSetup(t)
	if err != nil {
		return nil, err
	}
	var known []string
	iteration := map[string]float64{}
	for _, class := range g.classes {
		known, iteration[class.Name] = append(known, class.Name), class.Iteration
	}
	if err := t.CheckModels(known); err != nil {
		return nil, err
	}
	var entries []trace.Entry
	for _, j := range t.Jobs {
		seconds := max(0.001, math.Round(float64(j.Iterations)*iteration[j.Model]*1000)/1000)
		entries = append(entries, trace.Entry{ID: strconv.Itoa(j.ID), Submitted: j.Arrival, Duration: seconds,
			GPUs: j.GPUs})
	}
	return entries, nil
}

// withoutUsers are the jobs without their users.
func withoutUsers(jobs []trace.Job) []trace.Job {
	all := slices.Clone(jobs)
	for i := range all {
		all[i].User = ""
	}
	return all
}
