package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/sim"
)

// checkCombinations refuses options that have no effect together, or contradict each other.
func (o *options) checkCombinations() error {
	checks := []func() error{o.checkEngine, o.checkWorkload, o.checkSchedules, o.checkOutput}
	for _, check := range checks {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// checkEngine refuses an unknown engine, and options of the other engine, which would have no effect.
func (o *options) checkEngine() error {
	engine := sim.Engine(o.schedules.engine)
	if !slices.Contains(sim.Engines(), engine) {
		return fmt.Errorf("--engine %q: want %s or %s", engine, sim.Production, sim.Artifact)
	}
	foreign, other := o.ofProduction, sim.Production
	if engine == sim.Production {
		foreign, other = o.ofArtifact, sim.Artifact
	}
	for _, name := range foreign {
		if o.changed(name) {
			return fmt.Errorf("--%s: the %s engine has no such thing: leave it out, or take --engine %s", name, engine,
				other)
		}
	}
	return nil
}

// checkWorkload refuses options of a log without a log, amounts that select nothing, and options of which one would
// undo or contradict another.
func (o *options) checkWorkload() error {
	for _, name := range o.ofLogs {
		if o.recorded.trace == "" && o.changed(name) {
			return fmt.Errorf("--%s: is for a log: name it with --trace", name)
		}
	}
	switch {
	case o.changed("jobs") && o.recorded.jobs < 1:
		return fmt.Errorf("--jobs %d: want 1 or more", o.recorded.jobs)
	case o.changed("until") && o.recorded.until == 0:
		return errors.New("--until 0: want a time above 0, as 1000h")
	case o.changed("gpu-limit") && o.fromLog.limit < 1:
		return fmt.Errorf("--gpu-limit %d: want 1 or more", o.fromLog.limit)
	case o.generator.multigpu && o.changed("gpus"):
		return errors.New("--multigpu is short for --gpus paper: leave one of them out")
	case o.generator.multigpu && o.recorded.trace != "":
		return errors.New(
			"--multigpu: the trace says how many GPUs its jobs have: leave it out; --gpus says what becomes of a log's")
	case o.generator.static && o.changed("arrivals") && o.generator.arrivals != "static":
		return fmt.Errorf("--static: all jobs are there from the beginning, and do not come %s: leave one of them out",
			o.generator.arrivals)
	case o.site.profiles != "" && o.changed("ratio"):
		return errors.New(
			"--ratio: says which column of the paper's models counts, and --profiles are others: leave it out, and " +
				"describe the --cluster")
	case o.changed("share-mode") && o.production.share == 0:
		return errors.New("--share-mode: is about jobs that share GPUs: say how many do with --share")
	case o.reference.prioritize && o.recorded.window == "":
		return errors.New("--prioritize: is for the jobs of a window: name it with --window")
	case o.reference.strict && o.recorded.trace == "":
		return errors.New("--strict: is about the pauses of a replay: name what is replayed with --trace")
	}
	return nil
}

// checkSchedules refuses --scheduler beside the options that it stands for.
func (o *options) checkSchedules() error {
	if !o.changed("scheduler") {
		return nil
	}
	for _, name := range []string{"policy", "allocator", "placement"} {
		if o.changed(name) {
			return fmt.Errorf("--scheduler names policy, allocator and placement in one: leave --%s out", name)
		}
	}
	return nil
}

// checkOutput refuses outputs without a name, and "-" as the name of any but --json: only one output can go to the
// standard output, and the standard input is for the experiment. It also refuses --certify without the file for which
// it is, and wrong paths (checkPaths).
func (o *options) checkOutput() error {
	if o.changed("parallel") && o.output.parallel < 1 {
		return fmt.Errorf("--parallel %d: want 1 or more", o.output.parallel)
	}
	for _, name := range []string{"json", "jobs-out", "rounds-out", "report", "record", "trace"} {
		switch value := o.all.Lookup(name).Value.String(); {
		case o.changed(name) && value == "":
			return fmt.Errorf("--%s: want a name", name)
		case value == stdioName && name != "json":
			return fmt.Errorf("--%s -: only --json knows the standard streams: want the name of a file", name)
		}
	}
	if o.output.certify && o.output.rounds == "" {
		return errors.New("--certify: is about the rounds in a file: name it with --rounds-out")
	}
	return o.checkPaths()
}

// checkPaths refuses output files that would overwrite each other, the trace or an experiment. A name that ends as an
// experiment's is refused, too: --json experiment.yaml is likely a slip.
func (o *options) checkPaths() error {
	paths := make(map[string]string)
	for _, s := range o.namedOutputs() {
		if other := paths[s.path]; other != "" {
			return fmt.Errorf("--%s and --%s name the same file, %s: want two", other, s.option, s.path)
		}
		if s.path == o.recorded.trace {
			return fmt.Errorf("--%s %s: would replace the trace: want another name", s.option, s.path)
		}
		if kind := filepath.Ext(s.path); kind == ".yaml" || kind == ".yml" || s.path == o.file {
			return fmt.Errorf("--%s %s: is the name of an experiment, and would replace it: want another name",
				s.option, s.path)
		}
		paths[s.path] = s.option
	}
	return nil
}
