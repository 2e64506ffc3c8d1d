package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/synergy-slurmd/synergy-slurmd/profiling"
	"github.com/synergy-slurmd/synergy-slurmd/profiling/inside"
	"github.com/synergy-slurmd/synergy-slurmd/profiling/local"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/profiler"
)

// task is a measurement as it is passed to the process that makes it: this one, or one inside a job.
type task struct {
	Question profiler.Question `json:"question"`
	Kept     runsKey           `json:"kept"`
	Runs     string            `json:"runs"`     // file of what is measured
	Outcome  string            `json:"outcome"`  // file of the jobReport; empty without a job
	Log      string            `json:"log"`      // file to which the trainer's output is appended
	Progress string            `json:"progress"` // file to which the trainer writes its iterations
	Watch    string            `json:"watch"`    // file in which iterations are looked for; empty: the output
	Pattern  string            `json:"pattern"`  // empty: none
	Patience time.Duration     `json:"patience"` // how long the trainer may make no progress
	Budget   time.Duration     `json:"budget"`
	Asks     string            `json:"checkpoint"` // empty: the cost of leaving is not measured
	GPUTypes map[string]string `json:"gpu_types"`  // by node, if Slurm knows them
}

// task returns the measurement that the options describe. With --watch it has a pattern only if --pattern was given:
// the default pattern is for what trainers print, and a watched file ends in the number of iterations itself.
func (o *localOptions) task(c *cobra.Command, k *keptRuns, q profiler.Question) task {
	t := task{
		Question: q, Kept: k.Kept, Runs: k.path, Log: o.log, Progress: o.from.progress, Watch: o.from.watch,
		Patience: time.Duration(o.patient), Budget: time.Duration(o.budget), Asks: o.checkpoint,
	}
	if o.from.watch == "" || c.Flags().Changed("pattern") {
		t.Pattern = o.from.pattern
	}
	return t
}

// grace is how long a trainer has to end when a trial is over.
const grace = 15 * time.Second

// newTrainer returns the task's trainer on these CPUs, which measures one trial after another. Its Confine changes the
// cores of the running trainer, so that not each trial needs a new start.
func (t task) newTrainer(cpus []int) (*local.Trainer, error) {
	trainer := &local.Trainer{
		Command: t.Kept.Command, GPUs: t.Kept.GPUs, CPUs: cpus, Virtual: t.Kept.Virtual, Progress: t.Progress,
		Watch: t.Watch, Log: t.Log,
		Patience: t.Patience, Grace: grace, Confine: inside.Confine,
	}
	var err error
	if t.Asks != "" {
		if trainer.Asks, err = parseRequest(t.Asks); err != nil {
			return nil, fmt.Errorf("--checkpoint %w", err)
		}
	}
	if t.Pattern != "" {
		if trainer.Pattern, err = local.ParsePattern(t.Pattern); err != nil {
			return nil, fmt.Errorf("--pattern %w", err)
		}
	}
	return trainer, nil
}

// saver returns the trainer as the one that is asked to save, to measure what leaving costs. It is nil without
// --checkpoint.
func (t task) saver(trainer *local.Trainer) profiling.Saver {
	if t.Asks == "" {
		return nil
	}
	return trainer
}

// checkpointError is what is wrong with a --checkpoint, or nil. It is checked before a job is submitted, since the job
// would find it too late.
func checkpointError(text string) error {
	_, err := parseRequest(text)
	return err
}

// checkpointSignals are those that the directive synergy-checkpoint may name.
var checkpointSignals = map[string]syscall.Signal{
	"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "HUP": syscall.SIGHUP, "INT": syscall.SIGINT,
	"TERM": syscall.SIGTERM,
}

// parseRequest reads USR1@60, the form of the directive synergy-checkpoint: how the trainer is asked to save, and how
// many seconds that may take.
func parseRequest(text string) (r local.Request, err error) {
	const usual, most = 60, 3600 // seconds, as in the directive
	if strings.HasSuffix(text, "/steps") {
		return r,
			fmt.Errorf(
				"%.40q: a signal to the tasks of srun cannot be measured: time it in a job, and say --checkpoint-s "+
					"and --start-s", text)
	}
	name, seconds, timed := strings.Cut(text, "@")
	signal, known := checkpointSignals[name]
	if !known {
		return r, fmt.Errorf("%.40q: want one of USR1, USR2, HUP, INT, TERM, and @ seconds if 60 are not right", text)
	}
	n := usual
	if timed {
		if n, err = strconv.Atoi(seconds); err != nil || n < 1 || n > most || strconv.Itoa(n) != seconds {
			return r, fmt.Errorf("%.40q: want 1 to %d whole seconds after the @", text, most)
		}
	}
	return local.Request{Signal: signal, Name: name, Within: time.Duration(n) * time.Second}, nil
}

// jobReport is what the measuring job reports to the command that submitted it.
type jobReport struct {
	Node  string `json:"node"` // where it has begun; empty: it has not
	Ended bool   `json:"ended"`
	Error string `json:"error,omitempty"` // why it could not measure
}

// writeReport writes how far the job is into the file that the submitting command reads.
func (t task) writeReport(is jobReport) error {
	text, err := json.Marshal(is)
	if err != nil {
		return err
	}
	// Written in place and not by a rename: every NFS client that opens a file that existed before reads it anew.
	return os.WriteFile(t.Outcome, append(text, '\n'), 0o644)
}

// insideCommand is the hidden command that the job of synergy profile runs: it measures there, and reports its begin
// and its end in a file. If it is interrupted it reports no end, since Slurm ends the job then and knows why.
func insideCommand() *cobra.Command {
	return &cobra.Command{
		Use: "inside TASK", Short: "measure inside the job that synergy profile has submitted", Hidden: true,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			t, err := readTask(args[0])
			if err != nil {
				return err
			}
			node := cmp.Or(os.Getenv("SLURMD_NODENAME"), "an unnamed node")
			if err := t.writeReport(jobReport{Node: node}); err != nil {
				return failed{err}
			}
			is := jobReport{Node: node, Ended: true}
			wrong := t.measure(c, node)
			if c.Context().Err() != nil { // Slurm ends this job and knows why; nothing is reported
				return asFailed(wrong)
			}
			if wrong != nil {
				is.Error = wrong.Error()
			}
			return asFailed(errors.Join(wrong, t.writeReport(is)))
		},
	}
}

// readTask reads a task, and refuses what synergy profile cannot have written.
func readTask(path string) (t task, err error) {
	text, err := readFile(path)
	if err != nil {
		return t, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&t); err != nil {
		return t, fmt.Errorf("%s: %w", path, err)
	}
	if len(t.Kept.Command) == 0 || len(t.Question.Cores) == 0 || len(t.Question.Memory) == 0 || t.Budget <= 0 {
		return t, fmt.Errorf("%s: want what synergy profile writes", path)
	}
	return t, nil
}

// measure measures inside the job, on node, until everything is known or the budget is used up. Each run is written to
// a file at once, by which the submitting command and a later job go on.
func (t task) measure(c *cobra.Command, node string) error {
	cpus, err := t.usableCPUs()
	if err != nil {
		return err
	}
	trainer, err := t.newTrainer(cpus)
	if err != nil {
		return err
	}
	look, blind := gpuLooks()
	defer blind()
	trainer.Look = look
	kept := &keptRuns{path: t.Runs, Kept: t.Kept}
	if err := kept.read(); err != nil {
		return err
	}
	told := newProgressPrinter(c.OutOrStdout(), t.Question, t.Budget)
	s := profiling.Session{
		Question: t.Question, Trainer: trainer, Record: kept.Record, Keep: kept.write, Begins: told.beginTrial,
		Ends: told.endTrial, Saver: t.saver(trainer),
	}
	s.Record.Where, s.Record.GPU = node, t.GPUTypes[node]
	if job := os.Getenv("SLURM_JOB_ID"); job != "" {
		s.Record.Where += fmt.Sprintf(" (job %s%s)", job, ofCluster(os.Getenv("SLURM_CLUSTER_NAME")))
	}
	// No trial begins that would end after the budget, since others wait for this GPU.
	s.Enough = func() bool {
		return told.elapsed()+time.Duration(s.Record.Start*float64(time.Second))+t.Question.Short > t.Budget
	}
	_, err = s.Measure(c.Context())
	return err
}

// ofCluster names the cluster, to stand behind a job's ID. It is empty if Slurm has not told the cluster's name.
func ofCluster(cluster string) string {
	if cluster == "" {
		return ""
	}
	return " of " + cluster
}

// usableCPUs returns the CPUs that the job may use. If Slurm does not bind jobs to CPUs, the process may use all CPUs
// of the node, and only as many are returned as the job was given. It is an error if they are fewer than the largest
// trial needs, since that trial would run with fewer cores than the profile says. Pretended cores need no CPUs, since
// the trainer is not bound to any.
func (t task) usableCPUs() ([]int, error) {
	cpus, err := local.Allowed()
	if err != nil {
		return nil, err
	}
	given, most := len(cpus), t.Question.Cores[len(t.Question.Cores)-1]
	if said, err := strconv.Atoi(os.Getenv("SLURM_CPUS_ON_NODE")); err == nil && said > 0 {
		given = said
	}
	switch {
	case os.Getenv("SLURM_ARRAY_TASK_ID") != "" || cmp.Or(os.Getenv("SLURM_JOB_NUM_NODES"), "1") != "1":
		return nil,
			errors.New(
				"the job is an array or has several nodes: is there an option in SBATCH_… or --sbatch that " +
					"makes it so?")
	case given < most:
		return nil, fmt.Errorf("the job has %d of the %d cores that are to be tried", given, most)
	case t.Kept.Virtual == 0 && len(cpus) < most:
		return nil,
			fmt.Errorf(
				"the job has %d cores of Slurm, and its processes may use %d: the node has fewer than Slurm says",
				given, len(cpus))
	}
	return cpus[:min(len(cpus), given)], nil
}
