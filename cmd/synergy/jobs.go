package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/sim"
	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
	"github.com/synergy-slurmd/synergy-slurmd/sim/workload"
)

// workloads are the jobs that the options name: drawn, recorded in a trace, or made from a site's log. What is left out
// of a log is written to notes.
func (o *options) workloads(g simSetup, notes io.Writer) ([]sim.Workload, error) {
	if o.recorded.trace == "" {
		return o.drawnWorkloads(g)
	}
	format, err := trace.ParseFormat(o.recorded.format)
	if err != nil {
		return nil, fmt.Errorf("--%w", err)
	}
	t, err := trace.Open(o.recorded.trace, format)
	if err != nil {
		return nil, err
	}
	printTraceNotes(notes, t)
	if t.Format == trace.Recorded {
		return o.recordedWorkload(t, g)
	}
	return o.logWorkloads(t, g, notes)
}

// printTraceNotes prints which jobs of a trace are left out or changed.
func printTraceNotes(notes io.Writer, t *trace.Trace) {
	for _, d := range t.Dropped {
		fmt.Fprintf(notes, "synergy: trace %s: left out %d jobs: %s\n", t.Name, d.Count, d.Why)
	}
	for _, a := range t.Adjusted {
		fmt.Fprintf(notes, "synergy: trace %s: changed %d jobs: %s\n", t.Name, a.Count, a.How)
	}
}

// drawnWorkloads are the workloads of generated jobs, one for each load and seed. Jobs that are all there from the
// beginning have no load.
func (o *options) drawnWorkloads(g simSetup) ([]sim.Workload, error) {
	config := workload.Config{Classes: g.classes, Jobs: o.recorded.jobs}
	var err error
	if config.Split, config.Assign, err = o.generator.splitAndAssign(); err != nil {
		return nil, err
	}
	if config.GPUs, err = workload.ParseMix(o.generator.gpuMix()); err != nil {
		return nil, fmt.Errorf("--%w", err)
	}
	if config.Durations, err = workload.ParseDurations(o.generator.durations); err != nil {
		return nil, fmt.Errorf("--%w", err)
	}
	if config.Arrivals, err = workload.ParseArrivals(o.generator.arrivalsName()); err != nil {
		return nil, fmt.Errorf("--%w", err)
	}
	if config.Arrivals == workload.Static && o.changed("load") {
		return nil,
			errors.New("--load: jobs that are all there from the beginning come at no rate: leave it out, or --static")
	}
	if config.Arrivals == workload.Static && config.Jobs == 0 {
		return nil, errors.New("--static: say with --jobs how many there are at the beginning")
	}
	loads, seeds, err := o.generator.loadsAndSeeds()
	if err != nil {
		return nil, err
	}
	// Jobs that are there from the beginning are the same for every load.
	if config.Arrivals == workload.Static {
		loads = loads[:1]
	}
	return sim.Drawn(o.generator.workloadName(), config, loads, seeds), nil
}

// splitAndAssign are the parts of the models (--split), and how jobs get their model (--assign).
func (d generatorOptions) splitAndAssign() (workload.Split, workload.Assign, error) {
	split, err := workload.ParseSplit(d.split)
	if err != nil {
		return nil, "", fmt.Errorf("--%w", err)
	}
	assign, err := workload.ParseAssign(d.assign)
	if err != nil {
		return nil, "", fmt.Errorf("--%w", err)
	}
	return split, assign, nil
}

// gpuMix is the name of the distribution of the jobs' GPUs.
func (d generatorOptions) gpuMix() string {
	if d.multigpu {
		return string(workload.PaperMix)
	}
	return d.gpus
}

// arrivalsName is the name of the way in which jobs arrive.
func (d generatorOptions) arrivalsName() string {
	if d.static {
		return string(workload.Static)
	}
	return d.arrivals
}

// loadsAndSeeds are the loads (jobs an hour) and the seeds of the options; each pair of them is a workload.
func (d generatorOptions) loadsAndSeeds() (loads []float64, seeds []int64, err error) {
	if loads, err = parseLoads(d.load); err != nil {
		return nil, nil, fmt.Errorf("--load %w", err)
	}
	if seeds, err = parseSeeds(d.seed); err != nil {
		return nil, nil, fmt.Errorf("--seed %w", err)
	}
	return loads, seeds, nil
}

// workloadName describes the workload by what differs from the paper's. The split is left out, since it is shown
// elsewhere.
func (d generatorOptions) workloadName() string {
	parts := []string{"generated"}
	if mix := d.gpuMix(); mix != string(workload.OneGPU) {
		parts = append(parts, "GPUs "+mix)
	}
	if d.durations != string(workload.PaperDurations) {
		parts = append(parts, "durations "+d.durations)
	}
	if coming := d.arrivalsName(); coming != string(workload.Poisson) && coming != string(workload.Static) {
		parts = append(parts, "arrivals "+coming)
	}
	if d.assign != string(workload.BySplit) {
		parts = append(parts, "assigned by "+d.assign)
	}
	return strings.Join(parts, ", ")
}

// recordedWorkload returns the workload of a recorded trace, whose jobs have models and iterations. Options that draw
// jobs are errors, since they would have no effect on it. A trace that does not fit the cluster, the ratio or the
// models is an error, too.
func (o *options) recordedWorkload(t *trace.Trace, g simSetup) ([]sim.Workload, error) {
	for _, name := range o.ofDrawing {
		if o.changed(name) {
			return nil, fmt.Errorf("--%s: the jobs of %s are recorded, and nothing is drawn: leave it out, or --trace",
				name, t.Name)
		}
	}
	if t.CPUsPerGPU != 0 && t.CPUsPerGPU != g.ratio && o.site.profiles == "" {
		return nil,
			fmt.Errorf(
				"trace %s: its iterations are of servers with %d cores for each GPU, the models of the simulation "+
					"are for %d: want --ratio %[2]d",
				t.Name, t.CPUsPerGPU, g.ratio)
	}
	var known []string
	for _, class := range g.classes {
		known = append(known, class.Name)
	}
	if err := t.CheckModels(known); err != nil {
		return nil, err
	}
	if err := t.CheckGPUs(g.cluster.GPUs()); err != nil {
		return nil, err
	}
	jobs := t.Jobs
	if o.generator.static {
		jobs = allAtStart(jobs)
	}
	if n := o.recorded.jobs; n > len(jobs) {
		return nil, fmt.Errorf("--jobs %d: trace %s has %d", n, t.Name, len(jobs))
	} else if n > 0 {
		jobs = jobs[:n]
	}
	return []sim.Workload{{Name: t.Name, Jobs: jobs, Static: o.generator.static}}, nil
}

// allAtStart moves all arrivals to the beginning, a millisecond apart, which keeps their order. Jobs that all arrive
// within the first second stay as they are, as those of a trace that was drawn like this.
func allAtStart(jobs []trace.Job) []trace.Job {
	if len(jobs) == 0 || jobs[len(jobs)-1].Arrival <= 1 {
		return jobs
	}
	moved := slices.Clone(jobs)
	for i := range moved {
		moved[i].Arrival = float64(i) / 1000
	}
	return moved
}

// logWorkloads returns the workloads of a site's log: one for each seed, and if arrivals are drawn one for each load
// and seed. Arrivals of the log itself have no load, for which 0 stands. Which jobs are left out is written to notes
// only for the first workload, since it is the same for all.
func (o *options) logWorkloads(t *trace.Trace, g simSetup, notes io.Writer) ([]sim.Workload, error) {
	rules, err := o.logRules(g)
	if err != nil {
		return nil, err
	}
	loads, seeds, err := o.generator.loadsAndSeeds()
	if err != nil {
		return nil, err
	}
	if !comesAtRate(rules.Arrivals) {
		loads = []float64{0}
	}
	var all []sim.Workload
	entries := t.InFileOrder()
	for _, rules.Load = range loads {
		for _, rules.Seed = range seeds {
			jobs, dropped, err := workload.FromEntries(entries, rules)
			if err != nil {
				return nil, fmt.Errorf("trace %s: %w", t.Name, err)
			}
			if err := g.checkFits(jobs); err != nil {
				return nil, fmt.Errorf("trace %s: %w", t.Name, err)
			}
			if len(all) == 0 {
				printTraceNotes(notes, &trace.Trace{Name: t.Name, Dropped: dropped})
			}
			static := rules.Arrivals == workload.LogArrivals(workload.Static)
			all = append(all, sim.Workload{Name: t.Name, Jobs: jobs, Load: rules.Load, Split: rules.Split.String(),
				Seed: rules.Seed, Static: static})
		}
	}
	return all, nil
}

// checkFits checks that the cluster has enough GPUs for each job of a log, since a larger job would wait for ever.
// synergy trace convert has a setup without a cluster, for which any job fits.
func (g simSetup) checkFits(jobs []trace.Job) error {
	most := g.cluster.GPUs()
	for _, job := range jobs {
		if most > 0 && job.GPUs > most {
			return fmt.Errorf(
				"a job has %d GPUs, and the cluster %d: leave such jobs out with --gpu-limit %[2]d, or take a larger "+
					"--cluster", job.GPUs, most)
		}
	}
	return nil
}

// comesAtRate reports whether arrivals are drawn at a load, and not taken from the log or all at the beginning.
func comesAtRate(a workload.LogArrivals) bool {
	return a != workload.OwnArrivals && a != workload.LogArrivals(workload.Static)
}

// logRules returns how jobs are made from the entries of a log: which entries are kept, and what is drawn for them.
// GPUs, durations and arrivals that no option names are those of the log. Errors of package workload begin with the
// name of the option, so only dashes are added.
func (o *options) logRules(g simSetup) (workload.FromLog, error) {
	rules := workload.FromLog{Classes: g.classes, Jobs: o.recorded.jobs, Limit: o.fromLog.limit,
		Compress: o.fromLog.compress}
	var err error
	if rules.Split, rules.Assign, err = o.generator.splitAndAssign(); err != nil {
		return rules, err
	}
	if rules.GPUs, err = workload.ParseLogMix(o.valueOrLog("gpus", o.generator.gpus)); err != nil {
		return rules, fmt.Errorf("--%w", err)
	}
	if rules.Durations, err = workload.ParseLogDurations(o.valueOrLog("durations", o.generator.durations)); err != nil {
		return rules, fmt.Errorf("--%w", err)
	}
	arrivals := o.valueOrLog("arrivals", o.generator.arrivals)
	if o.generator.static {
		arrivals = string(workload.Static)
	}
	if rules.Arrivals, err = workload.ParseLogArrivals(arrivals); err != nil {
		return rules, fmt.Errorf("--%w", err)
	}
	if o.changed("load") && !comesAtRate(rules.Arrivals) {
		return rules, errors.New("--load: the jobs come as the log says: draw their --arrivals, or --compress the log")
	}
	return rules, o.fromLog.setRanges(&rules)
}

// valueOrLog is an option's value, or "log" if it was not given.
func (o *options) valueOrLog(name, value string) string {
	if o.changed(name) {
		return value
	}
	return "log"
}

// setRanges adds to rules which jobs of a log are kept, by how long they ran (--keep) and when they came (--submitted).
func (l fromLog) setRanges(rules *workload.FromLog) error {
	if l.keep == "paper" {
		rules.Keep = workload.PaperKeep()
	} else if l.keep != "" {
		shorter, longer, err := parseSpans(l.keep)
		if err != nil {
			return fmt.Errorf("--keep %w", err)
		}
		rules.Keep = workload.Range{Above: shorter, Below: longer}
	}
	if l.submitted != "" {
		from, to, err := parseSpans(l.submitted)
		if err != nil {
			return fmt.Errorf("--submitted %w", err)
		}
		rules.From, rules.To = from, to
	}
	return nil
}

// parseSpans reads two times, the shorter one first, as 30m-100h, and returns them in seconds. A missing first time is
// 0. A missing second time means no bound, for which 0 is returned, too.
func parseSpans(text string) (low, high float64, err error) {
	first, second, _ := strings.Cut(text, "-")
	var from, to durationFlag
	if from.Set(cmp.Or(first, "0")) != nil || to.Set(cmp.Or(second, "0")) != nil || text == "" {
		return 0, 0, fmt.Errorf("%q: want two times, as 30m-100h, or one, as 30m-", text)
	}
	low, high = from.seconds(), to.seconds()
	if second != "" && low >= high {
		return 0, 0, fmt.Errorf("%q: want the shorter time first", text)
	}
	return low, high, nil
}
