package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/synergy-slurmd/synergy-slurmd/cmd/internal/times"
	"github.com/synergy-slurmd/synergy-slurmd/printable"
	"github.com/synergy-slurmd/synergy-slurmd/share/experiment"
	"github.com/synergy-slurmd/synergy-slurmd/share/predict"
	"github.com/synergy-slurmd/synergy-slurmd/share/testbed"
)

// trialOptions are the flags that synergy share run and sweep have in common.
type trialOptions struct {
	file     string
	kernels  []string
	alone    []string
	duration time.Duration
	jitter   float64
	seed     uint64
}

func (o *trialOptions) group() group {
	g := newGroup("The experiment")
	g.flags.StringVarP(&o.file, "file", "f", "", "the experiment `file`, as Deft's are")
	g.flags.StringArrayVar(&o.kernels, "kernels", nil,
		"`NAME=COUNT,MS`: how many kernels a job of the model launches whose output_file_name is NAME, and how long "+
			"one takes; may be repeated")
	g.flags.StringArrayVar(&o.alone, "alone", nil,
		"`NAME=MS`: how long its job takes alone (default: as published, or as long as its kernels); may be repeated")
	times.Var(g.flags, &o.duration, "duration", 0, "how long it `lasts` (default: as the file says)")
	g.flags.Float64Var(&o.jitter, "jitter", 0.05, "by which `part` jobs and pauses are shorter or longer, 0 to 0.9")
	g.flags.Uint64Var(&o.seed, "seed", 1, "of the jitter: the same `number` gives the same figures")
	return g
}

// trial is an experiment that can be run.
type trial struct {
	experiment.File
	text []byte
	work []experiment.Work
}

// read reads the experiment and prints remarks about it.
func (o *trialOptions) read(notes io.Writer) (*trial, error) {
	if o.file == "" {
		return nil, errors.New("-f: want an experiment file")
	}
	if !(o.jitter >= 0 && o.jitter <= 0.9) {
		return nil, fmt.Errorf("--jitter %g: want 0 to 0.9", o.jitter)
	}
	if o.duration != 0 && (o.duration < time.Second || o.duration > 24*time.Hour) {
		return nil, fmt.Errorf("--duration %v: want 1s to 24h", o.duration)
	}
	text, err := readFile(o.file)
	if err != nil {
		return nil, err
	}
	file, remarks, err := experiment.Parse(text)
	for _, r := range remarks {
		fmt.Fprintf(notes, "synergy: %s: %s\n", o.file, printable.Line(r, longestSentence))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.file, err)
	}
	file.Duration = cmp.Or(o.duration, file.Duration)
	t := &trial{File: file, text: text}
	return t, o.works(t, notes)
}

// works fills in what each model does: its kernels, and how long its job takes alone.
func (o *trialOptions) works(t *trial, notes io.Writer) error {
	said, err := byModel(t, "kernels", o.kernels, 2)
	if err != nil {
		return err
	}
	alone, err := byModel(t, "alone", o.alone, 1)
	if err != nil {
		return err
	}
	for _, m := range t.Models {
		w, err := experiment.WorkOf(m)
		if x, is := said[m.Out]; is {
			count, each := int(x[0]), time.Duration(x[1]*float64(time.Millisecond))
			if float64(count) != x[0] || count > 1e6 || each < 1 || x[1] > 6e4 {
				return fmt.Errorf("--kernels %s=%g,%g: want a whole number of kernels up to 1000000, and milliseconds "+
					"up to 60000", m.Out, x[0], x[1])
			}
			k := predict.Kernels{Count: count, Each: each}
			w, err = experiment.Work{Kernels: k, Alone: time.Duration(count) * each}, nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", o.file, err)
		}
		if x, is := alone[m.Out]; is {
			if x[0] > 6e7 {
				return fmt.Errorf("--alone %s=%g: want milliseconds", m.Out, x[0])
			}
			w.Alone = time.Duration(x[0] * float64(time.Millisecond))
		}
		if w.Remark != "" {
			fmt.Fprintf(notes, "synergy: %s, %s: %s\n", m.Out, m.Name, w.Remark)
		}
		t.work = append(t.work, w)
	}
	return nil
}

// byModel reads options of the form NAME=NUMBER,…, where NAME is a model's.
func byModel(t *trial, option string, all []string, numbers int) (map[string][]float64, error) {
	found := map[string][]float64{}
	for _, text := range all {
		name, values, _ := strings.Cut(text, "=")
		x, err := positive(strings.Split(values, ",")...)
		if err == nil && len(x) != numbers {
			err = fmt.Errorf("want %s", several(numbers, "number"))
		}
		if err != nil {
			return nil, fmt.Errorf("--%s %.60q: %w", option, text, err)
		}
		known := false
		for _, m := range t.Models {
			known = known || m.Out == name
		}
		if !known {
			return nil, fmt.Errorf("--%s %.60q: no model of the file has the output_file_name %.40q", option, text,
				name)
		}
		found[name] = x
	}
	return found, nil
}

// config is the experiment under a preset.
func (o *trialOptions) config(t *trial, p experiment.Preset) testbed.Config {
	c := t.Emulated(p, t.work)
	c.Jitter, c.Seed = o.jitter, o.seed
	return c
}

// shareRunOptions are the flags of synergy share run.
type shareRunOptions struct {
	trialOptions
	clusterOptions
	presets string
	out     string
	noFiles bool
}

func shareRunCommand() *cobra.Command {
	var o shareRunOptions
	command := &cobra.Command{
		Use:   "run -f FILE [flags]",
		Short: "run an experiment file of Deft's on an emulated GPU, and write the files that it writes",
		Long: `run takes an experiment file of Deft's as it is and runs its models on an emulated GPU, in virtual time: each does a job,
pauses, and does the next, until the time is over and each has done ten. A job is its kernels, by Deft's own measurements where the model is among
them; another is taken for the nearest of them, which is told, and --kernels says it better. Of each model it tells how long its jobs took, by how much that is longer than alone, and how many took
more than 1.6 times as long. The first job of each does not count, as in Deft's pictures.

It writes, into the folder that the file names or --out, a CSV file of each model in Deft's columns, models_pid.json, a copy of the experiment,
and a picture of the jobs' times over time. GPU memory is not emulated: its columns are 0.

--preset says how the GPU is shared: file, as the file says; none, one queue for all; slicing, time slices; deft, the bound of the queue that costs
least; reef4 and shepherd20, as Deft's authors set other systems beside theirs; layer; turns, of a step and by class alone; lookahead, turns as a node
gives them; fill, MPS with half of the threads for the others, by figures measured on an H100. Several, with commas, are put side by
side, and their files into a folder each.

With --slurm each model is a job of synergy-emujob that opts in by synergy-share, and the nodes share their GPUs as they do. It needs a folder that
they see. The profiles that it writes there are for the daemon: in a folder of its own they have it put the jobs together; it takes a job
of a profile that it does not know for always busy. All begin when all are loaded, and are cancelled when the time is over. With --command a
program of your own is submitted for a model in place of synergy-emujob: it prints the line "model loaded", waits for the line "run" on its standard
input, and writes its jobs, in Deft's columns, to the file that SYNERGY_SHARE_CSV names.`,
		Example: `  synergy share run -f pair.json
  synergy share run -f pair.json --preset none,deft,turns,lookahead,fill --out compared
  synergy share run -f pair.json --slurm --out /shared/pair --gpu-memory 4
  synergy share run -f pair.json --slurm --out /shared/pair --command important='python3 serve.py' --memory 16G
  synergy share run -f three.json --kernels model_B=209,0.02 --duration 2m`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context(), c.OutOrStdout(), c.ErrOrStderr()) },
	}
	how, out := newGroup("How the GPU is shared"), newGroup("Output")
	how.flags.StringVar(&o.presets, "preset", string(experiment.AsSaid), "one or more `presets`, with commas")
	out.flags.StringVarP(&o.out, "out", "o", "", "the `folder` of its files (default: output_file_path of each model)")
	out.flags.BoolVar(&o.noFiles, "no-files", false, "write no files")
	grouped(command, o.trialOptions.group(), how, o.clusterOptions.group(), out)
	return command
}

// run runs the experiment under each preset in turn, or once through Slurm.
func (o *shareRunOptions) run(ctx context.Context, out, notes io.Writer) error {
	var presets []experiment.Preset
	for name := range strings.SplitSeq(o.presets, ",") {
		p, err := experiment.ParsePreset(name)
		if err != nil {
			return fmt.Errorf("--preset %w", err)
		}
		presets = append(presets, p)
	}
	if o.slurm && o.presets != string(experiment.AsSaid) {
		return errors.New("--preset, --slurm: want one of them, since on a node its broker says how a GPU is shared")
	}
	if !o.slurm && len(o.commands) > 0 {
		return errors.New("--command: want --slurm with it, since without it models are emulated in virtual time")
	}
	t, err := o.read(notes)
	if err != nil {
		return err
	}
	rows := [][]string{{"preset", "model", "class", "jobs", "alone", "mean", "p50", "p95", "jobs/s", "inflation",
		"late"}}
	how := fmt.Sprintf("emulated, %v of virtual time", t.Duration)
	if o.slurm {
		what := "emulated jobs"
		if n := len(o.commands); n > 0 {
			what = fmt.Sprintf("%s and %s", several(n, "command"), several(len(t.Models)-n, "emulated job"))
		}
		how = fmt.Sprintf("%s through Slurm, %v; alone as it was published or said", what, t.Duration)
		presets = []experiment.Preset{"slurm"}
	}
	for _, p := range presets {
		all, err := o.try(ctx, t, p, notes)
		if err != nil {
			return err
		}
		rows = append(rows, t.rows(p, all)...)
		if o.noFiles {
			continue
		}
		own := ""
		if len(presets) > 1 {
			own = string(p)
		}
		if err := o.write(t, p, all, own, notes); err != nil {
			return err
		}
	}
	s := screenOf(out)
	s.table(rows, 0)
	s.say(0, fmt.Sprintf("%s; late: more than %g times as long as alone", how, experiment.Missed))
	return done(s.err)
}

// tried is the result of one model.
type tried struct {
	jobs  []experiment.Job
	alone time.Duration
	class string
	pid   int // or the job's number
}

// try runs the experiment in one way.
func (o *shareRunOptions) try(ctx context.Context, t *trial, p experiment.Preset, notes io.Writer) ([]tried, error) {
	if o.slurm {
		return o.throughSlurm(ctx, t, notes)
	}
	c := o.config(t, p)
	result, err := testbed.Run(c)
	if err != nil {
		return nil, failed{fmt.Errorf("%s: %w", o.file, err)}
	}
	base := time.Now()
	var all []tried
	for i, one := range result.Clients {
		w := t.work[i]
		class := string(c.Clients[i].Class)
		if n := c.Clients[i].Every; n > 0 {
			class += fmt.Sprintf(", N=%d", n)
		}
		all = append(all, tried{w.Jobs(base, one.Steps), one.Alone + w.Host(), class, os.Getpid()})
	}
	return all, nil
}

// throughSlurm runs the experiment as jobs.
func (o *shareRunOptions) throughSlurm(ctx context.Context, t *trial, notes io.Writer) ([]tried, error) {
	folder := cmp.Or(o.out, t.Models[0].Folder, ".")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, fmt.Errorf("--out: %w", err)
	}
	jobs, numbers, err := o.onCluster(ctx, t, folder, notes)
	if err != nil {
		return nil, err
	}
	var all []tried
	for i, m := range t.Models {
		all = append(all, tried{jobs[i], t.work[i].Alone, string(m.Class()), numbers[i]})
	}
	return all, nil
}

// rows are the lines of the table, one for each model.
func (t *trial) rows(p experiment.Preset, all []tried) (rows [][]string) {
	for i, one := range all {
		s := experiment.Summarise(one.jobs, one.alone)
		late := 100 * float64(s.Late) / float64(max(1, s.Jobs))
		rows = append(rows, []string{string(p), printable.Line(t.Models[i].Out, longestName), one.class,
			strconv.Itoa(s.Jobs), inMS(one.alone), inMS(s.Mean), inMS(s.P50), inMS(s.P95), fmt.Sprintf("%.2f", s.Rate),
			fmt.Sprintf("%.2f", s.Inflation), fmt.Sprintf("%d (%.0f %%)", s.Late, late)})
	}
	return rows
}

func inMS(d time.Duration) string { return fmt.Sprintf("%.1f ms", d.Seconds()*1000) }

// write writes the experiment's files. own is a folder of their own within the folder; empty: none.
func (o *shareRunOptions) write(t *trial, p experiment.Preset, all []tried, own string, notes io.Writer) error {
	shared := "" // the folder of what belongs to all models: the first model's
	pids := make([]int, len(t.Models))
	for i, m := range t.Models {
		folder := filepath.Join(cmp.Or(o.out, m.Folder, "."), own)
		if i == 0 {
			shared = folder
		}
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return fmt.Errorf("--out: %w", err)
		}
		pids[i] = all[i].pid
		path := filepath.Join(folder, m.Out+".csv")
		err := save("out", path, notes, func(w io.Writer) error { return experiment.WriteJobs(w, all[i].jobs) })
		if err != nil {
			return err
		}
	}
	processes, err := experiment.Processes(t.Models, pids)
	if err != nil {
		return failed{err}
	}
	for name, text := range map[string][]byte{"models_pid.json": processes, "exp_config.json": t.text} {
		err := save("out", filepath.Join(shared, name), notes, func(w io.Writer) error { return writeAll(w, text) })
		if err != nil {
			return err
		}
	}
	return draw(t.figure(p, all), filepath.Join(shared, "jct_vs_t"), notes)
}
