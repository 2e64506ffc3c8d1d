package main

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/sim"
	"github.com/synergy-slurmd/synergy-slurmd/sim/cluster"
	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
)

// options are what describes an experiment, as typed or as in its file. Each is a key of the file; those that scripts
// vary are flags, too.
type options struct {
	generator  generatorOptions
	recorded   recorded
	fromLog    fromLog
	site       site
	schedules  schedules
	production productionOptions
	reference  referenceOptions
	output     output

	groups []group        // all options, in the order of the help
	all    *pflag.FlagSet // the same
	typed  *pflag.FlagSet // those that are flags of synergy sim; the others are only keys of a file
	known  *pflag.FlagSet // those that this command has

	// Those that have no meaning for recorded jobs, without a log, and with the other engine.
	ofDrawing, ofLogs, ofProduction, ofArtifact []string

	file  string         // the experiment's, for messages; empty: none was named
	lines map[string]int // the line of each option that the file says
}

// generatorOptions says how a workload is drawn.
type generatorOptions struct {
	load, split, gpus, durations, arrivals, assign, seed string
	multigpu, static                                     bool
}

// recorded says which workload is replayed, and how much of a workload is simulated.
type recorded struct {
	trace, format, window string
	jobs                  int
	until                 durationFlag
}

// fromLog says which jobs of a site's log are used.
type fromLog struct {
	limit           int
	keep, submitted string
	compress        float64
}

// site is the cluster and its profiles.
type site struct {
	cluster, profiles string
	ratio             int
}

// schedules are what is compared.
type schedules struct {
	engine, policy, allocator, placement string
	schedulers                           []string
	round                                durationFlag
}

// productionOptions are the options that only the production engine has.
type productionOptions struct {
	restart, checkpoint, minRun, horizon, payback, patience durationFlag
	schedulerDelay, teardown, launch                        durationFlag
	maxPreemptions                                          int
	stranded                                                float64
	ends                                                    string
	baseline                                                string
	bfInterval, bfResolution, bfWindow                      durationFlag
	optIn, checkpoints, share                               float64
	shareMode                                               string
}

// referenceOptions are the options that only the artifact engine has.
type referenceOptions struct{ prioritize, strict bool }

// output says what is written.
type output struct {
	json, jobs, rounds, report, record string
	quiet, wall, certify               bool
	parallel                           int
}

// The defaults of a drawn workload: the load of the paper's check run on 128 GPUs, and enough jobs for a first
// impression.
const (
	defaultLoad = "9"
	defaultJobs = 200
)

// exampleWorkload is the workload of a command that names none: small, so that it takes a moment, and mixed, so that
// the allocators differ.
var exampleWorkload = []struct{ option, value string }{
	{"cluster", "4x8:24:500"}, {"load", "12"}, {"jobs", "300"}, {"split", "60,30,10"}, {"durations", "small"},
}

// applyExample sets the options to the example's values if no workload is named, except options that were given. It
// returns what it has set, for a remark to the user. The text is empty if a workload is named.
func (o *options) applyExample() (taken string, err error) {
	if slices.ContainsFunc([]string{"trace", "load", "jobs", "window", "until"}, o.changed) {
		return "", nil
	}
	var words []string
	for _, e := range exampleWorkload {
		f := o.all.Lookup(e.option)
		if f.Changed {
			continue
		}
		if err := f.Value.Set(e.value); err != nil {
			return "", err
		}
		words = append(words, e.option+" "+e.value)
	}
	return strings.Join(words, ", "), nil
}

// When an ended job counts as finished.
const (
	endsAtOnce   = "at-once"
	endsInRounds = "rounds"
)

// workloadGroup defines the options of which workload is simulated, and how much of it.
func (o *options) workloadGroup() group {
	g := newGroup("Workload")
	g.flags.StringVar(&o.recorded.trace, "trace", "",
		"replay the jobs of `FILE`: a recorded trace, or a site's log, whose jobs get models by --split")
	g.flags.StringVar(&o.recorded.format, "format", "",
		"`name` of the trace's format: recorded, philly, condensed, openb or sacct (default recognised)")
	g.flags.IntVar(&o.recorded.jobs, "jobs", 0, "simulate the first `N` jobs only")
	g.flags.StringVar(&o.recorded.window, "window", "",
		"count only jobs with IDs from `FIRST-END`, 4000-5000 being 4000 to 4999, and end when they have finished")
	g.keys.Var(&o.recorded.until, "until", "end at this `time` of the simulation, as 1000h")
	return g
}

// drawingGroup defines the options by which jobs are drawn.
func (o *options) drawingGroup() group {
	g := newGroup("Workload that is drawn, without --trace")
	g.flags.StringVar(&o.generator.load, "load", defaultLoad,
		"`jobs/h` that arrive: 9, several as 3,6,9, or first:last:step as 1:8:0.5")
	g.flags.StringVar(&o.generator.split, "split", "20,70,10",
		"`percent` of image, language and speech jobs, or of models by name, as res18=50,gnmt=50")
	g.keys.StringVar(&o.generator.gpus, "gpus", "one",
		"GPUs of the jobs: one, paper, which is 70, 10, 15 and 5 % with 1, 2, 4 and 8, or `weights` as 1=60,4=40")
	g.flags.BoolVar(&o.generator.multigpu, "multigpu", false, "short for gpus: paper")
	g.keys.StringVar(&o.generator.durations, "durations", "paper",
		"`how` long jobs run: paper, small, fixed:2h, exponential:90m, lognormal:30m,2.0 or uniform:10m-2h")
	g.keys.StringVar(&o.generator.arrivals, "arrivals", "poisson",
		"`how` jobs arrive: poisson, uniform, daily or static")
	g.flags.BoolVar(
		&o.generator.static,
		"static",
		false,
		"all jobs are there from the beginning, also those of a trace",
	)
	g.keys.StringVar(&o.generator.assign, "assign", "split", "`how` jobs get their models: split, random or roundrobin")
	g.flags.StringVar(&o.generator.seed, "seed", "42",
		"`number` that the workload is drawn from: 42, several as 42,43, or first:last as 1:10")
	return g
}

// logGroup defines the options that select the jobs of a site's log. The three names in the title are options of the
// drawn workload. Without them a log's job has its own length, arrival and GPUs; with one of them that is drawn.
func (o *options) logGroup() group {
	g := newGroup("Workload of a site's log, with --trace; where not named, durations, arrivals and\n" +
		"gpus (log, one, powers, powers-or-one, up or down) are the log's")
	g.keys.IntVar(&o.fromLog.limit, "gpu-limit", 0, "leave out jobs with more than `N` GPUs")
	g.keys.StringVar(&o.fromLog.keep, "keep", "",
		"leave out jobs that ran for other `times` than 30m-100h, or, with paper, than the artifact keeps")
	g.keys.StringVar(&o.fromLog.submitted, "submitted", "",
		"leave out jobs that were submitted at other `times` than 2400h-3000h of the log")
	g.keys.Float64Var(&o.fromLog.compress, "compress", 0, "have the log's jobs arrive `N` times as fast")
	return g
}

// siteGroup defines the options of the cluster and the profiles.
func (o *options) siteGroup() group {
	g := newGroup("Cluster")
	g.flags.StringVar(&o.site.cluster, "cluster", "16x8:24:500",
		"a `FILE` in YAML or the paper's ini, or "+cluster.Shape)
	g.keys.IntVar(&o.site.ratio, "ratio", 0,
		"`cores` for each GPU, 3, 4, 5 or 6, of the servers and of the table of models (default the cluster's)")
	g.flags.StringVar(&o.site.profiles, "profiles", "",
		"`folder` of sensitivity profiles (default the ten models of the paper)")
	return g
}

// scheduleGroup defines the options of which schedules are compared, and by which engine.
func (o *options) scheduleGroup() group {
	g := newGroup("Schedules, all of which are compared")
	g.flags.StringVar(&o.schedules.policy, "policy", "fifo",
		"`list` of who goes first: fifo, srtf, srsf, las, ftf, drf, tetris, slurm")
	g.flags.StringVar(&o.schedules.allocator, "allocator", "proportional,greedy,tune",
		"`list` of how much jobs get: proportional, greedy, tune, opt")
	g.keys.StringArrayVar(&o.schedules.schedulers, "scheduler", nil,
		"policy and allocator as the paper's artifact spells them, as `FIFO+fair`, SRTF+tune, LAS+tune+place, or a "+
			"list of these")
	g.keys.Var(&o.schedules.round, "round", "`time` between rounds")
	g.flags.StringVar(&o.schedules.engine, "engine", "production",
		"`what` simulates: production, the daemon's own rounds, or artifact, the arithmetic that the paper's figures "+
			"are from")
	return g
}

// productionGroup defines the options that only the production engine has, the daemon's rules and Slurm's delays.
func (o *options) productionGroup() group {
	g := newGroup("Production engine")
	p := &o.production
	g.flags.Var(&p.restart, "restart",
		"`time` that a restart costs a job in all (default 1m0s, or with --profiles what they say)")
	g.keys.Var(&p.checkpoint, "checkpoint", "`time` of a restart that is the save (default a third)")
	g.flags.StringVar(&p.ends, "ends", endsAtOnce,
		"`when` an ended job counts as finished: at-once, or rounds, with the round as in the artifact")
	g.flags.Var(&p.minRun, "min-run", "`time` for which a job that was started is left alone")
	g.flags.IntVar(&p.maxPreemptions, "max-preemptions", 20,
		"`number` of running jobs that a round may stop; 0 is no bound")
	g.keys.Var(&p.horizon, "horizon",
		"`time` ahead that a place counts for a job that waits, against the restarts that it takes")
	g.keys.Var(&p.payback, "payback", "`time` in which a restart for a better size or place must have paid for itself")
	g.keys.Var(&p.patience, "patience", "`time` that a job is passed over before nodes are kept free for it")
	g.keys.Float64Var(&p.stranded, "stranded", policy.DefaultStranded,
		"`part` of the GPUs that jobs without a checkpoint may leave without their share")
	g.keys.Var(&p.schedulerDelay, "scheduler-delay", "`time` from a change until Slurm's scheduler looks")
	g.keys.Var(&p.teardown, "teardown", "`time` that Slurm takes to clean up after a job")
	g.keys.Var(&p.launch, "launch", "`time` from each start of a job until it trains, beside the restart's")
	return g
}

// artifactGroup defines the options that only the artifact engine has.
func (o *options) artifactGroup() group {
	g := newGroup("Artifact engine")
	g.flags.StringVar(&o.schedules.placement, "placement", "random",
		"`list` of where jobs are put: random, which is first fit, consolidate")
	g.keys.BoolVar(&o.reference.prioritize, "prioritize", false, "the jobs of the window go first from the start")
	g.keys.BoolVar(&o.reference.strict, "strict", false,
		"end a replay at the first round without a job, as the published program does")
	return g
}

// outputGroup defines the options of what is written, and where.
func (o *options) outputGroup() group {
	g := newGroup(outputTitle)
	g.flags.StringVar(&o.output.json, "json", "",
		"write all figures and settings as JSON to `FILE`, or with - in place of the table")
	g.flags.StringVar(&o.output.jobs, "jobs-out", "", "write what became of each job to `FILE`, as CSV")
	g.flags.StringVar(&o.output.rounds, "rounds-out", "", "write the cluster after each round to `FILE`, as CSV")
	g.keys.BoolVar(&o.output.certify, "certify", false,
		"in --rounds-out, also what each plan is worth and the most that one for the same jobs could be")
	g.flags.StringVar(&o.output.record, "record", "", "write the jobs that were drawn to `FILE`, for --trace")
	g.flags.StringVar(&o.output.report, "report", "", "write a page with all figures, and its pictures, to `folder`")
	g.keys.BoolVar(&o.output.wall, "wall", false,
		"write how long simulations took, too, which is never twice the same; a terminal shows it anyway")
	g.flags.BoolVarP(&o.output.quiet, "quiet", "q", false, "no table and no progress: only what is written to files")
	g.keys.IntVar(&o.output.parallel, "parallel", 0,
		"`number` of simulations at a time (default one for each processor); the outcome is the same")
	return g
}

// outputTitle is the title of the options that do not change the figures.
const outputTitle = "Output"

// newOptions defines all options with their defaults, and collects the names of those that have no effect in a case:
// for recorded jobs, without a log, and for the engine to which they do not belong.
func newOptions() *options {
	o := &options{
		schedules: schedules{round: durationFlag(5 * time.Minute)},
		production: productionOptions{
			minRun:  durationFlag(10 * time.Minute),
			horizon: durationFlag(policy.DefaultHorizon), payback: durationFlag(policy.DefaultPayback),
			patience: durationFlag(policy.DefaultPatience),
		},
		all: newSet("all"), typed: newSet("typed"), known: newSet("known"), lines: map[string]int{},
	}
	o.production.setBackfillDefaults()
	drawing, log := o.drawingGroup(), o.logGroup()
	production, baseline, artifact := o.productionGroup(), o.production.baselineGroup(), o.artifactGroup()
	o.groups = []group{
		o.workloadGroup(), drawing, log, o.siteGroup(), o.scheduleGroup(), production, baseline, artifact,
		o.outputGroup(),
	}
	static := func(name string) bool { return name == "static" } // recorded jobs may be there at once, too
	o.ofDrawing = slices.DeleteFunc(slices.Concat(drawing.names(), log.names()), static)
	o.ofLogs = append(log.names(), "format")
	o.ofProduction = append(slices.Concat(production.names(), baseline.names()), "profiles", "certify")
	o.ofArtifact = artifact.names()
	for _, g := range o.groups {
		o.typed.AddFlagSet(g.flags)
		o.all.AddFlagSet(g.flags)
		o.all.AddFlagSet(g.keys)
	}
	return o
}

// subset returns a group of the named options, for a command that does not have all of them. An option that synergy sim
// has as a flag is a flag here, too, and the others are keys of the file only.
func (o *options) subset(title string, names ...string) group {
	g := newGroup(title)
	for _, name := range names {
		if f := o.typed.Lookup(name); f != nil {
			g.flags.AddFlag(f)
		} else {
			g.keys.AddFlag(o.all.Lookup(name))
		}
	}
	return g
}

// setDefault gives an option another default for one command, before its flags are read.
func (o *options) setDefault(name, value string) {
	f := o.all.Lookup(name)
	if err := f.Value.Set(value); err != nil {
		panic(err) // the value is one of ours
	}
	f.DefValue = value
}

// defineFlags gives the command its options, as flags and as keys of its file. The groups may also have flags that are
// no options, which are the command's own and no keys of its file.
func (o *options) defineFlags(command *cobra.Command, groups ...group) {
	setGroups(command, groups...)
	for _, g := range groups {
		for _, name := range g.names() {
			// A flag of the command may have the name of an option: only the option itself is a key.
			if f := o.all.Lookup(name); f != nil && (f == g.flags.Lookup(name) || f == g.keys.Lookup(name)) {
				o.known.AddFlag(f)
			}
		}
	}
	command.SetFlagErrorFunc(o.unknownFlagError)
	o.addCompletions(command)
}

// changed reports whether an option was given.
func (o *options) changed(name string) bool { return o.all.Changed(name) }

// commandLine returns the command line that gives the same figures again, which a report shows. Options that are only
// keys of a file stand behind it, as its standard input. Options that do not change the figures are left out.
func (o *options) commandLine() string {
	words, keys := []string{"synergy", "sim"}, ""
	for _, g := range o.groups {
		if g.title == outputTitle {
			continue
		}
		g.flags.VisitAll(func(f *pflag.Flag) {
			switch {
			case !f.Changed:
			case f.Value.Type() == "bool":
				words = append(words, "--"+f.Name+"="+f.Value.String())
			default:
				words = append(words, "--"+f.Name, shellQuoted(f.Value.String()))
			}
		})
		g.keys.VisitAll(func(f *pflag.Flag) {
			if f.Changed {
				keys += "\n" + f.Name + ": " + valueInFile(f.Value)
			}
		})
	}
	if keys != "" {
		words = append(words, stdioName, "<<'END'"+keys+"\nEND")
	}
	return strings.Join(words, " ")
}

// addCompletions registers what a shell offers for the values of the command's flags: those of both engines, since the
// engine may be typed later.
func (o *options) addCompletions(command *cobra.Command) {
	both := func(names func(sim.Engine) []string) []string {
		words := slices.Concat(names(sim.Production), names(sim.Artifact))
		slices.Sort(words)
		return slices.Compact(words)
	}
	for name, choices := range map[string][]string{
		"policy":    both(sim.Engine.Policies),
		"allocator": both(sim.Engine.Allocators),
		"placement": sim.Artifact.Placements(),
		"engine":    {string(sim.Production), string(sim.Artifact)},
		"baseline":  append(sim.Baselines(), noBaseline),
		"ends":      {endsAtOnce, endsInRounds},
		"format":    stringsOf(trace.Formats()...),
	} {
		if command.Flags().Lookup(name) != nil {
			addCompletion(command, name, choices)
		}
	}
}

// addCompletion has a shell offer the choices for the values of a flag.
func addCompletion(command *cobra.Command, flag string, choices []string) {
	if err := command.RegisterFlagCompletionFunc(flag, completeList(choices)); err != nil {
		panic(err) // the command has no such flag
	}
}
