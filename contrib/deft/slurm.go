package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/synergy-slurmd/synergy-slurmd/contrib/deft/experiment"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/printable"
	slurmjob "github.com/synergy-slurmd/synergy-slurmd/profiling/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// clusterOptions are the flags for running an experiment through Slurm.
type clusterOptions struct {
	slurm  bool
	sbatch []string
	memory float64 // GiB of the GPU
	emujob string
	queue  time.Duration
	ownOptions
}

func (o *clusterOptions) define(c *cobra.Command) {
	flags := c.Flags()
	flags.BoolVar(&o.slurm, "slurm", false,
		"submit each model as a job of synergy-emujob with synergy-share, from a folder that the nodes see")
	flags.StringArrayVar(&o.sbatch, "sbatch", nil,
		"further `options` of sbatch, as --sbatch '--account=ml'; may be repeated")
	flags.Float64Var(&o.memory, "gpu-memory", 1, "`GiB` of the GPU that each model says it needs")
	flags.StringVar(&o.emujob, "emujob", "synergy-emujob", "the `program` on the nodes")
	o.ownOptions.define(c)
	flags.DurationVar(&o.queue, "queue", 10*time.Minute, "how long all of them may `wait` for their start")
}

// How often files are looked at, how often Slurm is asked, and how long cancelling may take.
const (
	lookAtFiles = 500 * time.Millisecond
	askLater    = 5 * time.Second
	slurmLimit  = 10 * time.Second
)

// clusterRun is an experiment that runs as jobs.
type clusterRun struct {
	*clusterOptions
	*trial
	folder string
	own    map[string]string // shell commands in place of emulated jobs, by the models' output_file_name
	jobs   []slurmjob.ID
	notes  io.Writer
}

// onCluster runs the experiment as jobs, and returns what each model has done and the numbers of the jobs. The jobs are
// cancelled at the end, however it ends.
func (o *clusterOptions) onCluster(
	ctx context.Context, t *trial, folder string, notes io.Writer,
) (done [][]experiment.Job, pids []int, err error) {
	if !(o.memory > 0 && o.memory <= 1024) {
		return nil, nil, fmt.Errorf("--gpu-memory %g: want GiB, more than 0 and at most 1024", o.memory)
	}
	if folder, err = filepath.Abs(folder); err != nil {
		return nil, nil, err
	}
	options, err := slurmjob.Options(o.sbatch)
	if err != nil {
		return nil, nil, fmt.Errorf("--sbatch: %w", err)
	}
	// sbatch takes any beginning of --comment that is unique.
	if slices.ContainsFunc(options, func(word string) bool { return strings.HasPrefix(word, "--com") }) {
		return nil, nil, errors.New("--sbatch: the comment is what opts in, and there is one: want other options")
	}
	own, err := o.byName(t)
	if err != nil {
		return nil, nil, err
	}
	r := &clusterRun{o, t, folder, own, nil, notes}
	// The file that lets the jobs begin, from an earlier run. A folder of that name is somebody else's.
	if err := os.Remove(r.inFolder("run")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("%w: the jobs wait for a file of this name: want a folder without it", err)
	}
	defer r.cancel()
	for i := range t.Models {
		if err := r.submit(ctx, i, options); err != nil {
			return nil, nil, err
		}
		number, _ := strconv.Atoi(string(r.jobs[i]))
		pids = append(pids, number)
	}
	if err := r.follow(ctx); err != nil {
		return nil, nil, err
	}
	for i := range t.Models {
		jobs, err := r.done(i)
		if err != nil {
			return nil, nil, err
		}
		done = append(done, jobs)
	}
	return done, pids, nil
}

func (r *clusterRun) inFolder(name string) string { return filepath.Join(r.folder, name) }

// profile is a model's profile, for the daemon and for synergy-emujob. One sample of it is a job of the model with the
// pause after it. It has one size only, so neither cores nor memory change the speed.
func (r *clusterRun) profile(i int) *sensitivity.Profile {
	m, w := r.Models[i], r.work[i]
	return &sensitivity.Profile{
		Version: sensitivity.VersionGPU, Model: m.Name, Task: "emulated", GPUType: "any", Batch: 1,
		Source:      "an experiment file, by deft run",
		CoresPerGPU: []float64{1}, MemoryPerGPU: []gres.Memory{1},
		Throughput: [][]float64{{1 / (w.Alone + m.Pause).Seconds()}},
		GPUBusy:    w.Busy(m.Pause), GPUMemory: gres.Memory(max(1, r.memory*1024)),
	}
}

// submit submits the job of a model. Files of an earlier run with the same names would be taken for this one's and are
// removed. The time limit covers the longest wait for the start and the longest run that follow allows.
func (r *clusterRun) submit(ctx context.Context, i int, options []string) error {
	m := r.Models[i]
	text, err := r.profile(i).Print()
	if err == nil {
		_, err = sensitivity.Parse(text)
	}
	if err != nil {
		return fmt.Errorf("%s: its profile would be wrong: %w", m.Out, err)
	}
	profile, script := m.Out+".profile.json", m.Out+".sh"
	batch, size := r.script(i, profile), gres.Vector{GPUs: 1, CPUs: 1, Memory: 500}
	if command, is := r.own[m.Out]; is {
		batch, size = r.ownScript(i, command), r.size()
	}
	for _, f := range []struct {
		name, text string
		mode       os.FileMode
	}{{profile, string(text), 0o644}, {script, batch, 0o755}} {
		if err := os.WriteFile(r.inFolder(f.name), []byte(f.text), f.mode); err != nil {
			return err
		}
	}
	for _, old := range []string{".loaded", ".progress", ".log", ownJobs, ownOver} {
		if err := os.Remove(r.inFolder(m.Out + old)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	directives := fmt.Sprintf("synergy-profile=%s synergy-share=%s,mem=%s", profile, m.Class(),
		strconv.FormatFloat(r.memory, 'f', -1, 64))
	id, err := slurmjob.Submit(ctx, slurmjob.Job{
		Name: "synergy-share", Size: size,
		Limit:  r.queue + 2*r.Duration + 5*time.Minute,
		Folder: r.folder, Output: r.inFolder(m.Out + ".log"), Script: r.inFolder(script),
		Options: append([]string{"--comment=" + directives}, options...),
	})
	if err != nil {
		return fmt.Errorf("submit %s: %w", m.Out, err)
	}
	r.jobs = append(r.jobs, id)
	fmt.Fprintf(r.notes, "deft: %s is job %s, with %s\n", m.Out, id, directives)
	return nil
}

// script is a model's batch script: it says that the model is loaded, waits until all are, and starts. It has more
// iterations than it can do, since cancel ends it.
func (r *clusterRun) script(i int, profile string) string {
	m := r.Models[i]
	return fmt.Sprintf(`#!/bin/sh
echo 'model loaded'
: > %s
n=0
while [ ! -e %s ]; do
    n=$((n + 1))
    [ "$n" -lt %d ] || { echo 'nobody said run'; exit 1; }
    sleep 0.1
done
exec %s --profile %s --virtual-cpu --cpus 1 --gpus 1 --memory 500 --start-cost 0s --iterations 1000000000 \
    --interval 10ms --gpu-busy %s --log %s
`, forShell(r.inFolder(m.Out+".loaded")), forShell(r.inFolder("run")), int(r.queue/(100*time.Millisecond)),
		forShell(r.emujob),
		forShell(r.inFolder(profile)), strconv.FormatFloat(r.work[i].Busy(m.Pause), 'f', 6, 64),
		forShell(r.inFolder(m.Out+".progress")))
}

// follow waits until all models are loaded, starts them, and waits until the time is over and each has done enough
// jobs. That may take twice the time and a minute. A command that has ended by itself need not wait for the end of the
// time.
func (r *clusterRun) follow(ctx context.Context) error {
	loaded := func(i int, _ bool) bool {
		if _, is := r.own[r.Models[i].Out]; is {
			return saysLoaded(r.inFolder(r.Models[i].Out + ".log"))
		}
		_, err := os.Stat(r.inFolder(r.Models[i].Out + ".loaded"))
		return err == nil
	}
	if err := r.until(ctx, r.queue, "start", loaded); err != nil {
		return err
	}
	if err := os.WriteFile(r.inFolder("run"), nil, 0o644); err != nil {
		return err
	}
	fmt.Fprintf(r.notes, "deft: all models are loaded: they run for %v\n", r.Duration)
	over := time.Now().Add(r.Duration)
	var wrong error // in a command's own file
	err := r.until(ctx, 2*r.Duration+time.Minute, "do ten jobs", func(i int, ended bool) bool {
		if _, is := r.own[r.Models[i].Out]; time.Now().Before(over) && !(is && ended) {
			return false
		}
		jobs, err := r.done(i)
		if wrong = err; errors.Is(err, os.ErrNotExist) {
			wrong = nil
		}
		return err == nil && len(jobs) >= experiment.LeastJobs
	})
	if err != nil && wrong != nil {
		err = fmt.Errorf("%w; %w", err, wrong)
	}
	return err
}

// until waits until is returns true for each model. If a model's job has ended, is is asked once more with ended set,
// since a command may have ended by itself. Slurm is asked less often than files are looked at, since each question is
// a request to slurmctld.
func (r *clusterRun) until(
	ctx context.Context, patience time.Duration, what string, is func(model int, ended bool) bool,
) error {
	deadline, asked := time.Now().Add(patience), time.Now()
	for i := 0; i < len(r.jobs); {
		if is(i, false) {
			i++
			continue
		}
		if time.Since(asked) > askLater {
			asked = time.Now()
			status, err := slurmjob.Look(ctx, r.jobs[i])
			if errors.Is(err, slurmjob.ErrForgotten) || err == nil && status.Ended() {
				if is(i, true) {
					i++
					continue
				}
				return fmt.Errorf("job %s of %s is over: its output is in %s", r.jobs[i], r.Models[i].Out,
					r.inFolder(r.Models[i].Out+".log"))
			}
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s does not %s within %v: is there a GPU for job %s, and do the nodes see %s?",
				r.Models[i].Out, what, patience, r.jobs[i], r.folder)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("interrupted: %w", ctx.Err())
		case <-time.After(lookAtFiles):
		}
	}
	return nil
}

// done are the jobs that a model has done so far, from the command's own file if it wrote one.
func (r *clusterRun) done(i int) ([]experiment.Job, error) {
	if _, is := r.own[r.Models[i].Out]; is {
		jobs, err := ownDone(r.inFolder(r.Models[i].Out + ownJobs))
		if !errors.Is(err, os.ErrNotExist) {
			return jobs, err
		}
	}
	return r.progress(i)
}

// progress are the jobs by the log of synergy-emujob.
func (r *clusterRun) progress(i int) ([]experiment.Job, error) {
	path := r.inFolder(r.Models[i].Out + ".progress")
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	jobs, err := experiment.ReadProgress(file, r.Models[i].Pause)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", printable.Line(path, longestSentence), err)
	}
	return jobs, nil
}

// cancel cancels the jobs, also if the caller was interrupted.
func (r *clusterRun) cancel() {
	ctx, end := context.WithTimeout(context.Background(), slurmLimit)
	defer end()
	for _, id := range r.jobs {
		if err := slurmjob.Cancel(ctx, id); err != nil {
			fmt.Fprintf(r.notes, "deft: %v\n", err)
		}
	}
}
