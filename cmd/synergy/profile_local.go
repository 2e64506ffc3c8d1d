package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/profiling"
	"github.com/synergy-slurmd/synergy-slurmd/profiling/local"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/profiler"
)

// localOptions are the flags of synergy profile.
type localOptions struct {
	isLocal bool
	size    struct{ cores, memory string }
	virtual int
	budget  durationFlag
	trials  int
	bound   float64
	from    struct{ pattern, progress, watch string }
	patient durationFlag
	cache   struct{ dataset, sample, base, storage float64 } // GB, kB, GB, MB/s
	about   profiler.About
	batch   int
	showOptions
	out, plotTo, log string
	fresh            bool
	checkpoint       string
	job              jobOptions
}

// groups defines the flags of synergy profile, with their defaults.
func (o *localOptions) groups() []group {
	o.budget, o.patient = durationFlag(5*time.Minute), durationFlag(2*time.Minute)
	what, from, cache, about, out := newGroup("What is measured"), newGroup("Where iterations are read"),
		newGroup("A cache that never evicts"),
		newGroup("What the profile says"), newGroup("Output")
	job := newGroup("The job, without --local")
	job.flags.StringVar(&o.job.partition, "partition", "", "`partition` that it is submitted to (default: yours)")
	job.flags.StringArrayVar(&o.job.sbatch, "sbatch", nil,
		"further `options` of sbatch, as --sbatch '--account=ml --constraint=nvlink'; may be repeated")
	what.flags.BoolVar(&o.isLocal, "local", false, "measure on this machine, without a job")
	what.flags.IntVar(&o.gpus, "gpus", 1, "`GPUs` that the trainer uses")
	what.flags.StringVar(&o.size.cores, "cores", "",
		"`cores` of the trainer that may be tried: 1-16, or 2,4,8 (default: from one a GPU to four times the share "+
			"of a node; with --local all that are here)")
	what.flags.StringVar(&o.size.memory, "memory", "",
		"`GB` of the trainer, as 125; with several, as 40,125, whether less is enough is tried, too (default: the "+
			"share of a node; with --local all of the machine's)")
	what.flags.Var(&o.budget, "budget", "begin no trial after this time; the wait in the queue does not count")
	what.flags.StringVar(&o.checkpoint, "checkpoint", "",
		"also measure what leaving costs: `SIGNAL@SECONDS` as in synergy-checkpoint, how the trainer is asked to "+
			"save and leave, and how long that may take")
	what.flags.IntVar(&o.trials, "trials", 5, "trials of cores at `most`")
	what.flags.Float64Var(&o.bound, "bound", 0,
		"what a GPU does with its data at hand, in `samples/s`: the curve ends there")
	what.flags.IntVar(&o.virtual, "virtual-cpus", 0,
		"pretend `N` cores: the trainer is told and bound to none; for a rehearsal with synergy-emujob")
	from.flags.StringVar(&o.from.progress, "progress", "",
		"`file` of progress (default: one of ours, which the trainer finds in SYNERGY_PROGRESS)")
	from.flags.StringVar(&o.from.pattern, "pattern", "tqdm",
		"what the trainer prints: "+strings.Join(local.Patterns(), ", ")+
			", or a regular `expression` with the iterations in parentheses")
	from.flags.StringVar(&o.from.watch, "watch", "",
		"look in this `file` and not in the output; with --pattern, or else it ends in a line with the iterations")
	from.flags.Var(&o.patient, "patience", "how long the trainer may make no progress")
	cache.flags.Float64Var(&o.cache.dataset, "dataset", 0,
		"`GB` that an epoch reads: memory is reckoned then, and confirmed by one trial")
	cache.flags.Float64Var(&o.cache.sample, "sample", 0, "`kB` of a sample as it is stored")
	cache.flags.Float64Var(&o.cache.storage, "storage", 0, "`MB/s` that the trainer gets from storage")
	cache.flags.Float64Var(&o.cache.base, "base", 0, "`GB` that the trainer needs beside the cache")
	about.flags.StringVar(&o.about.Model, "model", "", "`name` (default: that of the profile's file)")
	about.flags.StringVar(&o.about.Task, "task", "other", "image, language, speech or another `word`, for reports")
	about.flags.StringVar(&o.about.GPUType, "gpu-type", "unknown",
		"`type` of the GPUs, as Slurm has it: the profile is believed on no other")
	about.flags.IntVar(&o.batch, "batch", 1, "`samples` of an iteration and GPU")
	about.flags.Float64Var(&o.about.CheckpointSeconds, "checkpoint-s", 10,
		"`seconds` from the signal to leave until it has saved and ended")
	about.flags.Float64Var(&o.about.StartSeconds, "start-s", 0,
		"`seconds` until a restarted job is at full speed (default: as long as the trials took to their first "+
			"iteration)")
	o.node = paperNode()
	out.flags.Var(&o.node, "node", "say what it is worth on such a node")
	out.flags.StringVarP(&o.out, "out", "o", "", "the profile's `file` (default: the command's name with .json)")
	out.flags.StringVar(&o.plotTo, "plot", "", "draw it: a `file` that ends in .png or .svg, or what both begin with")
	out.flags.StringVar(&o.log, "log", "",
		"append what the trainer prints to a `file` (default: the profile's, with .log)")
	out.flags.BoolVar(&o.fresh, "fresh", false,
		"begin anew, and not where an earlier run of the same command was interrupted")
	return []group{what, job, from, cache, about, out}
}

// run checks the flags, and measures the trainer on this machine or in a job.
func (o *localOptions) run(c *cobra.Command, command []string) error {
	if len(command) == 0 {
		return errors.New("want the trainer behind --, as synergy profile -- ./train.sh")
	}
	if err := o.validate(c); err != nil {
		return err
	}
	command, err := local.Program(command)
	if err != nil {
		return err
	}
	o.nameFiles(command)
	if !o.isLocal {
		return o.runJob(c, command)
	}
	return o.runHere(c, command)
}

// runHere measures on this machine and writes the profile. What an earlier, interrupted call has measured is not
// measured again.
func (o *localOptions) runHere(c *cobra.Command, command []string) error {
	if o.job.partition != "" || len(o.job.sbatch) > 0 {
		return errors.New("--partition, --sbatch: are for a job, and with --local there is none")
	}
	cpus, err := local.Allowed()
	if err != nil {
		return failed{err}
	}
	most := max(o.virtual, len(cpus))
	q, err := o.question(coreRange{most, most, "this process may use"}, machineMemory())
	if err != nil {
		return err
	}
	kept, err := o.loadKeptRuns(command, q)
	if err != nil {
		return err
	}
	t := o.task(c, kept, q)
	trainer, err := t.newTrainer(cpus)
	if err != nil {
		return err
	}
	look, blind := gpuLooks()
	defer blind()
	trainer.Look = look
	told := newProgressPrinter(c.ErrOrStderr(), q, t.Budget)
	s := profiling.Session{
		Question: q, Trainer: trainer, Record: kept.Record, Keep: kept.write, Begins: told.beginTrial,
		Ends:   told.endTrial,
		Saver:  t.saver(trainer),
		Enough: func() bool { return told.elapsed() > t.Budget },
	}
	told.resumed(s.Record)
	d, err := s.Measure(c.Context())
	told.clear()
	if err != nil {
		return o.unfinishedError(c.Context(), err, kept.path, s.Record)
	}
	told.printRemarks(s.Record, d)
	return o.deliver(c, q, d, s.Record, []nodeKind{{o.node, ""}})
}

// unfinishedError is the error of a measurement that did not finish. If the user interrupted it, the error says where
// its results are kept.
func (o *localOptions) unfinishedError(ctx context.Context, err error, path string, r profiling.Record) error {
	if ctx.Err() != nil {
		return failed{fmt.Errorf("interrupted: what %s gave is in %s; the same command goes on there",
			countText(len(r.Runs), "trial"), path)}
	}
	return failed{err}
}

// validate refuses impossible values, and options of a cache of which a part is missing. Whether the job fits on the
// node of --node is checked only if that was given: its default is only the kind of node for which the profile's worth
// is said.
func (o *localOptions) validate(c *cobra.Command) error {
	if err := checkGPUs(o.gpus, o.node.Vector); err != nil && c.Flags().Changed("node") {
		return err
	}
	asked := 0
	for _, x := range []float64{o.cache.dataset, o.cache.sample, o.cache.storage} {
		if x > 0 {
			asked++
		}
	}
	switch {
	case o.gpus < 1 || o.gpus > 1024:
		return fmt.Errorf("--gpus %d: want 1 to 1024", o.gpus)
	case o.trials < 2 || o.trials > 64:
		return fmt.Errorf("--trials %d: want 2 to 64", o.trials)
	case o.virtual < 0 || o.virtual > 4096:
		return fmt.Errorf("--virtual-cpus %d: want 1 to 4096", o.virtual)
	case o.checkpoint != "" && checkpointError(o.checkpoint) != nil:
		return fmt.Errorf("--checkpoint %w", checkpointError(o.checkpoint))
	case !(o.bound >= 0 && o.bound <= 1e9):
		return fmt.Errorf("--bound %g: want samples a second and GPU", o.bound)
	case o.budget <= 0 || o.patient <= 0:
		return errors.New("--budget, --patience: want more than 0")
	case !(o.cache.dataset >= 0 && o.cache.sample >= 0 && o.cache.storage >= 0 && o.cache.base >= 0) ||
		max(o.cache.dataset, o.cache.base) > 1e6:
		return errors.New("--dataset, --sample, --storage, --base: want numbers from 0 on")
	case asked != 0 && asked != 3:
		return errors.New("--dataset, --sample, --storage: want all three, or none")
	}
	return nil
}

// nameFiles fills in the names of the profile, the model, the log and the progress file, where no option names them.
// The name is taken from the last word of the command, which is usually a trainer's script, or from its first word if
// the last one is an option or a value.
func (o *localOptions) nameFiles(command []string) {
	base := filepath.Base(command[len(command)-1])
	if strings.HasPrefix(base, "-") || strings.ContainsAny(base, " =") {
		base = filepath.Base(command[0])
	}
	o.out = cmp.Or(o.out, strings.TrimSuffix(base, filepath.Ext(base))+profileExtension)
	stem := strings.TrimSuffix(o.out, profileExtension)
	o.about.Model = cmp.Or(o.about.Model, filepath.Base(stem))
	o.log = cmp.Or(o.log, stem+".log")
	if o.from.progress == "" {
		o.from.progress = stem + ".progress"
	}
	if path, err := filepath.Abs(o.from.progress); err == nil { // absolute, since the trainer may change its folder
		o.from.progress = path
	}
}

// coreRange is how many cores a trainer can have, and what bounds them, for errors.
type coreRange struct {
	usual, most int    // without --cores, and with
	whose       string // what bounds most, as the end of a sentence
}

// question returns what is to be measured. can bounds the cores, and usual is the memory without --memory. A trial
// takes an equal part of the budget, but at least 6 s and at most a minute. The first trial, before the trainer's speed
// is known, takes half of that and at most 10 s.
func (o *localOptions) question(can coreRange, usual gres.Memory) (q profiler.Question, err error) {
	q = profiler.Question{GPUs: o.gpus, Batch: o.batch, Bound: o.bound, Most: o.trials}
	if q.Cores, err = o.parseCores(can); err != nil {
		return q, fmt.Errorf("--cores %w", err)
	}
	if q.Memory, err = o.parseMemory(usual); err != nil {
		return q, fmt.Errorf("--memory %w", err)
	}
	// Without a node there is no share, and no trial is spent on its number of cores.
	if fair := gres.Proportional(o.node.Vector, o.gpus); o.node.GPUs > 0 {
		q.Share = fair.CPUs
	}
	q.Cache = profiler.Cache{
		Dataset: gres.Memory(o.cache.dataset * float64(gres.Gigabyte)),
		Base:    gres.Memory(o.cache.base * float64(gres.Gigabyte)),
		Storage: o.cache.storage, Sample: o.cache.sample / float64(gres.Gigabyte),
	}
	const shortest, longest = 6 * time.Second, time.Minute
	q.Long = min(longest, max(shortest, time.Duration(o.budget)/time.Duration(o.trials+len(q.Memory))))
	q.Short = min(10*time.Second, q.Long/2)
	return q, nil
}

// parseCores reads --cores, as 1-16, or 2,4,8, and returns the numbers ascending. The default is from one core a GPU to
// can.usual. More than can.most is an error.
func (o *localOptions) parseCores(can coreRange) (all []int, err error) {
	text := cmp.Or(o.size.cores, fmt.Sprintf("%d-%d", min(o.gpus, can.usual), can.usual))
	wrong := fmt.Errorf("%.40q: want cores as 1-16, or 2,4,8", text)
	if low, high, is := strings.Cut(text, "-"); is {
		first, err1 := strconv.Atoi(low)
		last, err2 := strconv.Atoi(high)
		if err1 != nil || err2 != nil || first < 1 || last < first || last > 1<<16 {
			return nil, wrong
		}
		for n := first; n <= last; n++ {
			all = append(all, n)
		}
	} else {
		for word := range strings.SplitSeq(text, ",") {
			n, err := strconv.Atoi(word)
			if err != nil || n < 1 {
				return nil, wrong
			}
			all = append(all, n)
		}
		slices.Sort(all)
		all = slices.Compact(all)
	}
	if last := all[len(all)-1]; last > can.most {
		return nil, fmt.Errorf("%.40q: want no more than the %d that %s", text, can.most, can.whose)
	}
	return all, nil
}

// parseMemory reads --memory, in GB for the whole job, and returns the amounts ascending. Without the option the one
// amount is usual. An amount below 1 MiB counts as 1 MiB.
func (o *localOptions) parseMemory(usual gres.Memory) (all []gres.Memory, err error) {
	if o.size.memory == "" {
		return []gres.Memory{max(1, usual)}, nil
	}
	amounts, err := parsePositive(strings.Split(o.size.memory, ",")...)
	if err != nil {
		return nil, err
	}
	for _, gb := range amounts {
		all = append(all, max(1, gres.Memory(gb*float64(gres.Gigabyte))))
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// machineMemory is this machine's memory in MiB by /proc/meminfo, or 1 GB if that cannot be read.
func machineMemory() gres.Memory {
	text, err := os.ReadFile("/proc/meminfo")
	if err == nil {
		for line := range strings.Lines(string(text)) {
			if words := strings.Fields(line); len(words) > 1 && words[0] == "MemTotal:" {
				kib, _ := strconv.ParseInt(words[1], 10, 64)
				return max(1, gres.Memory(kib/1024))
			}
		}
	}
	return gres.Gigabyte
}

// runsExtension is the extension of the file of measured runs.
const runsExtension = ".runs.json"

// keptRuns is the measured runs on disk, so that an interrupted measurement can go on.
type keptRuns struct {
	path string
	Kept runsKey `json:"question"`
	profiling.Record
}

// runsKey is what must be equal for runs to be comparable.
type runsKey struct {
	Command []string      `json:"command"`
	GPUs    int           `json:"gpus"`
	Memory  []gres.Memory `json:"memory_mib"`
	Virtual int           `json:"virtual_cpus,omitempty"`
}

// loadKeptRuns returns what an earlier call with the same command has measured. It is empty with --fresh, or if there
// was no such call. A file of runs for another command is an error.
func (o *localOptions) loadKeptRuns(command []string, q profiler.Question) (*keptRuns, error) {
	k := &keptRuns{path: strings.TrimSuffix(o.out, profileExtension) + runsExtension, Kept: runsKey{command, o.gpus,
		q.Memory, o.virtual}}
	if o.fresh {
		return k, nil
	}
	if err := k.read(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return k, nil
}

// read reads the file of earlier runs. It is an error if the file is of another command, GPUs or memory, since such
// runs are not comparable, or if it has impossible values: a job writes it, and a user may have edited it.
func (k *keptRuns) read() error {
	text, err := readFile(k.path)
	if err != nil {
		return err
	}
	var earlier keptRuns
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&earlier); err != nil {
		return fmt.Errorf("%s: %w; --fresh begins anew", k.path, err)
	}
	// Both are of one type, so equal questions are equal texts.
	mine, _ := json.Marshal(k.Kept)
	its, _ := json.Marshal(earlier.Kept)
	if !bytes.Equal(mine, its) {
		return fmt.Errorf("%s is of another question, %.200s: --fresh begins anew, or name another file with --out",
			k.path, its)
	}
	for i, r := range earlier.Runs {
		for _, w := range r.Windows {
			if !(w.Seconds >= 0 && w.Seconds < 1e6 && w.Iterations >= 0 && w.Iterations < 1e15) || r.Cores < 1 {
				return fmt.Errorf("%s: runs[%d]: %d cores, window %+v: cannot be; --fresh begins anew", k.path, i,
					r.Cores, w)
			}
		}
	}
	for i, r := range earlier.Runs {
		u := r.Use
		if u != nil && !(u.Busy >= 0 && u.Busy <= 1 && u.Looks >= 0 && u.Memory >= 0 && u.Memory <= maxGPUMemory) {
			return fmt.Errorf("%s: runs[%d]: gpu %+v: cannot be; --fresh begins anew", k.path, i, *u)
		}
	}
	if s := earlier.Saved; s != nil && !(s.Checkpoint >= 0 && s.Checkpoint <= maxRestartSeconds && s.Start >= 0 &&
		s.Start <= maxRestartSeconds) {
		return fmt.Errorf("%s: saved: %+v: cannot be; --fresh begins anew", k.path, *s)
	}
	k.Record = earlier.Record
	return nil
}

// maxGPUMemory is the most GPU memory that a profile may say, in MiB.
const maxGPUMemory = 1 << 20

// maxRestartSeconds is the longest checkpoint or start that a profile may say, in seconds.
const maxRestartSeconds = 86400

// write keeps what is measured in the file, after each trial, so that an interrupted measurement can go on.
func (k *keptRuns) write(r profiling.Record) error {
	k.Record = r
	text, err := json.Marshal(k)
	if err != nil {
		return err
	}
	return save("out", k.path, io.Discard, func(w io.Writer) error { return writeAll(w, append(text, '\n')) })
}

// nodeKind is a kind of node for which the command says what the profile is worth.
type nodeKind struct {
	node        nodeFlag
	countRemark string // how many such nodes there are, if known
}

// deliver writes the profile, and says what it is worth on the kinds of nodes in places. There is at least one, and the
// picture of --plot is for the first. Kinds with fewer GPUs than the job are passed over. It is an error if too little
// was measured for a profile.
func (o *localOptions) deliver(c *cobra.Command, q profiler.Question, d profiler.Decision, r profiling.Record,
	places []nodeKind) error {
	// One point is no curve, unless only one number of cores was to be tried.
	if len(d.Curve.Points) < 2 && (len(d.Curve.Points) == 0 || len(q.Cores) > 1) {
		return failed{fmt.Errorf("nothing is known of the trainer with %s: %s", countText(len(d.Curve.Points), "point"),
			cmp.Or(lastFault(r), "the time of --budget was too short"))}
	}
	p, err := q.Profile(d, o.profileAbout(c, q, d, r))
	if err != nil {
		return failed{err}
	}
	text, err := p.Print()
	if err == nil {
		// A profile that nothing can read is not written.
		_, err = sensitivity.Parse(text)
	}
	if err != nil {
		return fmt.Errorf("the profile would be wrong: %w", err)
	}
	if err := save("out", o.out, c.OutOrStdout(), func(w io.Writer) error { return writeAll(w, text) }); err != nil {
		return err
	}
	fmt.Fprintf(c.OutOrStdout(), "%s: %s on %s, from %s; %s\n", o.out, p.Model, p.GPUType,
		countText(len(r.Runs), "trial"), cmp.Or(d.Grows.How, "memory was not varied"))
	for _, place := range places {
		if o.node = place.node; o.gpus <= o.node.GPUs {
			fmt.Fprint(c.OutOrStdout(), o.worthWithRemark(p, place.countRemark))
		}
	}
	o.node = places[0].node
	if o.plotTo == "" {
		return nil
	}
	return o.plot(p, &d.Curve, o.plotTo, "plot", c.OutOrStdout())
}

// profileAbout returns what a profile says beside its rates: what the user said, or else what was measured. The start
// time is that of the restart that --checkpoint measured, or else the time that trials took to begin.
func (o *localOptions) profileAbout(
	c *cobra.Command, q profiler.Question, d profiler.Decision, r profiling.Record,
) profiler.About {
	about := o.about
	about.Source = o.sourceText(d, r)
	about.GPUBusy, about.GPUMemory = q.UseOf(r.Runs, d.Curve)
	if r.GPU != "" && !c.Flags().Changed("gpu-type") {
		about.GPUType = r.GPU
	}
	start := r.Start
	if r.Saved != nil {
		start = cmp.Or(r.Saved.Start, r.Start)
		if !c.Flags().Changed("checkpoint-s") && r.Saved.Checkpoint > 0 {
			about.CheckpointSeconds = ceilTenths(r.Saved.Checkpoint)
		}
	}
	if !c.Flags().Changed("start-s") {
		about.StartSeconds = ceilTenths(start)
	}
	return about
}

// ceilTenths rounds seconds up to tenths, so that a measured time is never 0. It is cut to the longest that a profile
// may say.
func ceilTenths(seconds float64) float64 { return min(maxRestartSeconds, math.Ceil(seconds*10)/10) }

// sourceText says where, when and how well the profile was measured, so that its readers know how far to trust it.
func (o *localOptions) sourceText(d profiler.Decision, r profiling.Record) string {
	host, _ := os.Hostname()
	where, how := cmp.Or(plainASCII(host), "an unnamed host"), " --local"
	if !o.isLocal {
		where, how = cmp.Or(plainASCII(r.Where), "an unnamed node"), ""
	}
	worst := 0.0
	for _, p := range d.Curve.Points {
		worst = max(worst, p.Scatter)
	}
	return fmt.Sprintf("measured on %s, %s, by synergy profile%s: %s, scatter up to %.1f %%; %s", where,
		time.Now().Format(time.DateOnly), how,
		countText(len(r.Runs), "trial"), 100*worst, cmp.Or(d.Grows.How, "memory was not varied"))
}

// plainASCII drops control characters and all that is not ASCII.
func plainASCII(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, text)
}

// lastFault says why the last failed trial failed. The text is empty if none did.
func lastFault(r profiling.Record) string {
	for _, run := range slices.Backward(r.Runs) {
		if run.Fault != "" {
			return fmt.Sprintf("with %s %s", countText(run.Cores, "core"), run.Fault)
		}
	}
	return ""
}
