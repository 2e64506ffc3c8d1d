package main

import (
	"bytes"
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

	"github.com/synergy-slurmd/synergy-slurmd/contrib/deft/experiment"
	"github.com/synergy-slurmd/synergy-slurmd/contrib/deft/testbed"
	"github.com/synergy-slurmd/synergy-slurmd/printable"
	"github.com/synergy-slurmd/synergy-slurmd/share/predict"
)

// trialOptions are the flags that run and sweep have in common.
type trialOptions struct {
	file     string
	kernels  []string
	alone    []string
	duration time.Duration
	jitter   float64
	seed     uint64
}

func (o *trialOptions) define(c *cobra.Command) {
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringVarP(&o.file, "file", "f", "", "the experiment `file`, as Deft's are")
	flags.StringArrayVar(&o.kernels, "kernels", nil,
		"`NAME=COUNT,MS`: how many kernels a job of the model launches whose output_file_name is NAME, and how long "+
			"one takes; may be repeated")
	flags.StringArrayVar(&o.alone, "alone", nil,
		"`NAME=MS`: how long its job takes alone (default: as published, or as long as its kernels); may be repeated")
	flags.DurationVar(&o.duration, "duration", 0, "how long it `lasts` (default: as the file says)")
	flags.Float64Var(&o.jitter, "jitter", 0.05, "by which `part` jobs and pauses are shorter or longer, 0 to 0.9")
	flags.Uint64Var(&o.seed, "seed", 1, "of the jitter: the same `number` gives the same figures")
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
	text, err := beginning(o.file, experiment.MaxBytes+1)
	if err != nil {
		return nil, err
	}
	file, remarks, err := experiment.Parse(text)
	for _, r := range remarks {
		fmt.Fprintf(notes, "deft: %s: %s\n", o.file, printable.Line(r, longestSentence))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.file, err)
	}
	file.Duration = cmp.Or(o.duration, file.Duration)
	t := &trial{File: file, text: text}
	return t, o.works(t, notes)
}

// works fills in what each model does: its kernels, and how long its job takes alone. --kernels replaces what is known
// of a model, also the error that nothing is. --alone replaces only the time alone.
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
			fmt.Fprintf(notes, "deft: %s, %s: %s\n", m.Out, m.Name, w.Remark)
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
		x, err := positive(strings.Split(values, ","))
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

// runOptions are the flags of deft run.
type runOptions struct {
	trialOptions
	clusterOptions
	presets string
	out     string
	noFiles bool
}

func runCommand() *cobra.Command {
	var o runOptions
	command := &cobra.Command{
		Use:   "run -f FILE [flags]",
		Short: "run an experiment file of Deft's on an emulated GPU, and write the files that it writes",
		Long: `run takes an experiment file of Deft's as it is and runs its models on an emulated GPU, in virtual time.
Each model does a job, pauses, and does the next, until the time is over and each has done ten. A job is its kernels,
as measured by Deft's authors. A model that they did not measure is taken for the nearest one, with a remark; --kernels
gives its figures instead. For each model it prints how long its jobs took, by how much that is longer than alone, and
how many took more than 1.6 times as long. The first job of each does not count, as in Deft's pictures.

It writes, into the folder that the file names or --out, a CSV file of each model in Deft's columns, models_pid.json,
a copy of the experiment, and a picture of the jobs' times over time. GPU memory is not emulated: its columns are 0.

--preset says how the GPU is shared:
  file               as the file says
  none               one queue for all
  slicing            time slices
  deft               Deft's bound of the queue that costs least
  reef4, shepherd20  Deft's settings for those systems
  layer              Deft's setting for PipeSwitch
  turns              turns of a step, by class alone
  lookahead          turns of a step with look-ahead, as a node gives them
  fill               MPS with half of the threads for low, by figures measured on an H100
Of several, with commas, each has a folder of its own for its files.

With --slurm each model is a job of synergy-emujob with synergy-share, on nodes that share their GPUs. --out has to be
a folder that the nodes see. run writes a profile of each model there: copy them to the daemon's profiles, since a job
whose profile is unknown is taken to be always busy. All jobs begin when all are loaded, and are cancelled when the
time is over. With --command a program of your own is submitted for a model in place of synergy-emujob. It prints the
line "model loaded", waits for the line "run" on its standard input, and writes its jobs, in Deft's columns, to the
file that SYNERGY_SHARE_CSV names.`,
		Example: `  deft run -f pair.json
  deft run -f pair.json --preset none,deft,turns,lookahead,fill --out compared
  deft run -f pair.json --slurm --out /shared/pair --gpu-memory 4
  deft run -f pair.json --slurm --out /shared/pair --command important='python3 serve.py' --memory 16
  deft run -f three.json --kernels model_B=209,0.02 --duration 2m`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context(), c.OutOrStdout(), c.ErrOrStderr()) },
	}
	flags := command.Flags()
	o.trialOptions.define(command)
	flags.StringVar(&o.presets, "preset", string(experiment.AsSaid),
		"one or more `ways` to share the GPU, with commas")
	o.clusterOptions.define(command)
	flags.StringVarP(&o.out, "out", "o", "", "the `folder` of its files (default: output_file_path of each model)")
	flags.BoolVar(&o.noFiles, "no-files", false, "write no files")
	return command
}

// run runs the experiment under each preset in turn, or once through Slurm. Of several presets each has a folder of its
// own. Through Slurm the broker's configuration says how the GPU is shared, so "slurm" stands in the place of a preset.
func (o *runOptions) run(ctx context.Context, out, notes io.Writer) error {
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
		all, err := o.runPreset(ctx, t, p, notes)
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
		if err := o.write(t, p, all, own); err != nil {
			return err
		}
	}
	if err := table(out, rows); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s; late: more than %g times as long as alone\n", how, experiment.Missed)
	return err
}

// modelResult is the result of one model.
type modelResult struct {
	jobs  []experiment.Job
	alone time.Duration
	class string
	pid   int // or the job's number
}

// runPreset runs the experiment in one way.
func (o *runOptions) runPreset(
	ctx context.Context,
	t *trial,
	p experiment.Preset,
	notes io.Writer,
) ([]modelResult, error) {
	if o.slurm {
		return o.throughSlurm(ctx, t, notes)
	}
	c := o.config(t, p)
	result, err := testbed.Run(c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.file, err)
	}
	base := time.Now()
	var all []modelResult
	for i, one := range result.Clients {
		w := t.work[i]
		class := string(c.Clients[i].Class)
		if n := c.Clients[i].Every; n > 0 {
			class += fmt.Sprintf(", N=%d", n)
		}
		all = append(all, modelResult{w.Jobs(base, one.Steps), one.Alone + w.Host(), class, os.Getpid()})
	}
	return all, nil
}

// throughSlurm runs the experiment as jobs.
func (o *runOptions) throughSlurm(ctx context.Context, t *trial, notes io.Writer) ([]modelResult, error) {
	folder := cmp.Or(o.out, t.Models[0].Folder, ".")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, fmt.Errorf("--out: %w", err)
	}
	jobs, numbers, err := o.onCluster(ctx, t, folder, notes)
	if err != nil {
		return nil, err
	}
	var all []modelResult
	for i, m := range t.Models {
		all = append(all, modelResult{jobs[i], t.work[i].Alone, string(m.Class()), numbers[i]})
	}
	return all, nil
}

// rows are the lines of the table, one for each model.
func (t *trial) rows(p experiment.Preset, all []modelResult) (rows [][]string) {
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

// write writes the experiment's files. own is a folder of their own within the folder; empty: none. The files about all
// models go into the folder of the first one.
func (o *runOptions) write(t *trial, p experiment.Preset, all []modelResult, own string) error {
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
		var jobs bytes.Buffer
		if err := experiment.WriteJobs(&jobs, all[i].jobs); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, m.Out+".csv"), jobs.Bytes(), 0o644); err != nil {
			return err
		}
	}
	processes, err := experiment.Processes(t.Models, pids)
	if err != nil {
		return err
	}
	for name, text := range map[string][]byte{"models_pid.json": processes, "exp_config.json": t.text} {
		if err := os.WriteFile(filepath.Join(shared, name), text, 0o644); err != nil {
			return err
		}
	}
	return draw(t.figure(p, all), filepath.Join(shared, "jct_vs_t"))
}
