package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/pflag"

	"github.com/synergy-slurmd/synergy-slurmd/cmd/internal/times"
	"github.com/synergy-slurmd/synergy-slurmd/emulate"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/library"
)

// flags are the flags of the command line.
type flags struct {
	profile     string
	profileDirs []string

	iterations, samples int64
	duration            seconds

	virtualCPU                 bool
	speedup                    float64
	nodes, gpus, cpus, memory  int
	startCost                  seconds
	checkpoint                 string
	checkpointEvery, checkCost seconds
	resumeAny                  bool
	requeueExit                int
	signal                     string
	log                        string
	report                     string
	interval                   seconds
	progress, pretend          string
	measure                    seconds
	turn                       string
	gpuBusy                    float64
	gpuMemory                  int
	turns                      emulate.Turns // nil: the job has its GPU to itself

	set *pflag.FlagSet
}

const usage = `synergy-emujob is an emulated training job: it iterates at the rate that a sensitivity profile gives for
the cores, memory and GPUs that Slurm granted, saves when asked and resumes where it was.

  synergy-emujob --profile res18.json --iterations 5000 --virtual-cpu --checkpoint /shared/ckpt

In a batch script, exec it, so that signals to the script are signals to it:

  #!/bin/sh
  #SBATCH --gres=gpu:1 --comment=synergy-profile=res18.json --open-mode=append
  exec synergy-emujob --profile res18.json --iterations 5000 --virtual-cpu --checkpoint /shared/ckpt

A job on several nodes is run in the same way: the one process stands for all nodes. In a step of several tasks, the task of
rank 0 saves and logs, and the others do the same in silence.

With --virtual-cpu it uses next to no CPU, and any number of cores can be pretended; use it where Slurm's nodes
claim more than there is. Without, it keeps the granted cores of this node as busy as the model would, so that too
few or too slow ones cost it iterations: the CPU time of one comes from the profile's steepest part, and none is
shorter than the profile says. Memory is never used, only believed. Figures of the two modes do not compare.

On a GPU that several jobs share, --turn has it use the GPU only in its turns, which the node's broker gives: what it
waits comes on top, and the log says how long that was. Without a broker it runs as if it were alone.

Flags:
`

const usageEnd = `
Signals:
  --signal (USR1)  finish the iteration, save, exit with --requeue-exit; ignored without --checkpoint
  TERM             save at once, exit
  USR2             save and go on

Exit codes:
  0    the goal is reached, or the job was terminated and has saved
  1    a checkpoint or the log could not be read or written
  2    wrong usage, no profile, or nothing granted
  75   emulated out of memory: the broker refuses --gpu-memory
  98   --requeue-exit: it was asked to leave, and has saved
  143  terminated without --checkpoint
`

// parse reads the command line and says what is wrong with it. Help is printed to stderr and returns pflag.ErrHelp.
func parse(args []string, stderr io.Writer) (*flags, error) {
	f := &flags{interval: seconds(5 * time.Second), checkpointEvery: seconds(10 * time.Minute)}
	set := pflag.NewFlagSet("synergy-emujob", pflag.ContinueOnError)
	f.set = set
	set.SortFlags = false
	set.SetOutput(io.Discard)
	f.defineWork(set)
	f.defineGrant(set)
	f.defineCheckpoints(set)
	f.defineTurns(set)
	set.StringVar(&f.log, "log", "-", "`file` to append JSON lines to; - is the standard output")
	set.Var(&f.interval, "interval", "`time` between log lines, by the wall clock")
	set.StringVar(&f.report, "report", "",
		"with each log line, make these `words` and the progress so far the job's comment, by scontrol; start them "+
			"with a profile")
	set.StringVar(&f.progress, "progress", os.Getenv("SYNERGY_PROGRESS"),
		"`file` that says how many iterations are done (default SYNERGY_PROGRESS)")
	set.StringVar(&f.pretend, "pretend", "",
		"with --virtual-cpu, `file` that says how many of the granted cores it may use; while there is none, all")
	set.Var(&f.measure, "measure",
		"have synergy measure, which lies beside this program, measure this job in windows of so much `time`, if the "+
			"daemon wants that")
	set.Usage = func() { fmt.Fprint(stderr, usage, set.FlagUsagesWrapped(110), usageEnd) }
	if err := set.Parse(args); err != nil {
		return nil, err
	}
	return f, f.check()
}

func (f *flags) defineWork(set *pflag.FlagSet) {
	set.StringVar(&f.profile, "profile", "",
		"sensitivity profile: a `name` in --profile-dir, or a file if there is a / in it")
	set.StringArrayVar(&f.profileDirs, "profile-dir", []string{"/etc/synergy/profiles"},
		"`directory` of profiles; may be given again")
	set.Int64Var(&f.iterations, "iterations", 0, "end after this many, counted over all starts")
	set.Int64Var(&f.samples, "samples", 0, "end after this many samples on all GPUs, counted over all starts")
	set.Var(&f.duration, "duration",
		"end after this `time` of training, counted over all starts, without starts and checkpoints")
	set.BoolVar(&f.virtualCPU, "virtual-cpu", false,
		"sleep as if the granted cores were there, instead of keeping them busy")
	set.Float64Var(&f.speedup, "speedup", 1, "divide every duration but --interval by `S`")
}

func (f *flags) defineGrant(set *pflag.FlagSet) {
	set.IntVar(&f.nodes, "nodes", 0, "number of nodes (default SLURM_JOB_NUM_NODES, or 1)")
	set.IntVar(&f.gpus, "gpus", 0, "GPUs on each node (default SLURM_GPUS_ON_NODE or CUDA_VISIBLE_DEVICES)")
	set.IntVar(&f.cpus, "cpus", 0,
		"cores on each node (default SLURM_CPUS_ON_NODE; without --virtual-cpu at most what this process may use)")
	set.IntVar(&f.memory, "memory", 0,
		"`MiB` on each node (default SLURM_MEM_PER_NODE, or that of the CPUs or GPUs; none: enough)")
}

func (f *flags) defineCheckpoints(set *pflag.FlagSet) {
	set.Var(&f.startCost, "start-cost", "`time` from the start to the first iteration (default start_s of the profile)")
	set.StringVar(&f.checkpoint, "checkpoint", "",
		"`path` of the checkpoints PATH.0 and PATH.1; in a directory they are named by the job ID")
	set.Var(&f.checkpointEvery, "checkpoint-every", "`time` between checkpoints; 0: only when asked")
	set.Var(&f.checkCost, "checkpoint-cost", "`time` that a checkpoint takes (default checkpoint_s of the profile)")
	set.BoolVar(&f.resumeAny, "resume-any", false, "resume from the checkpoint of another job, too")
	set.IntVar(&f.requeueExit, "requeue-exit", 98, "exit `code` after leaving on request, RequeueExit in slurm.conf")
	set.StringVar(&f.signal, "signal", "USR1", "`name` of the signal that asks to leave")
}

func (f *flags) defineTurns(set *pflag.FlagSet) {
	socket := os.Getenv("SYNERGY_TURN_SOCK")
	set.StringVar(&f.turn, "turn", socket,
		"with --virtual-cpu, use the GPU in turns that the broker at this `socket` gives; without a value, or without "+
			"the flag, at SYNERGY_TURN_SOCK, if it is set; --turn= for none")
	set.Lookup("turn").NoOptDefVal = noSocket
	if socket != "" {
		set.Lookup("turn").NoOptDefVal = socket
	}
	set.Float64Var(&f.gpuBusy, "gpu-busy", 0,
		"the `part` of each iteration in which it uses the GPU (default gpu_busy of the profile, or 1)")
	set.IntVar(&f.gpuMemory, "gpu-memory", 0,
		"`MiB` of the GPU's memory that it says it uses (default gpu_memory_mib of the profile)")
}

// noSocket is the value of a --turn without a value if SYNERGY_TURN_SOCK is not set; check refuses it.
const noSocket = "SYNERGY_TURN_SOCK"

// check finds what is wrong with the flags by themselves.
func (f *flags) check() error {
	goals := 0
	for _, name := range []string{"iterations", "samples", "duration"} {
		if f.set.Changed(name) {
			goals++
		}
	}
	switch {
	case f.set.NArg() > 0:
		return fmt.Errorf("argument %q: want flags only", f.set.Arg(0))
	case f.profile == "":
		return errors.New("--profile is missing: want the name of a profile")
	case goals != 1:
		return errors.New("want one of --iterations, --samples and --duration")
	// Only one of them was given, so the sum is that one.
	case f.iterations < 0 || f.samples < 0 || f.iterations+f.samples+int64(f.duration) <= 0:
		return errors.New("--iterations, --samples and --duration: want more than 0")
	case !(f.speedup > 0) || f.speedup > 1e9:
		return fmt.Errorf("--speedup=%v: want more than 0, and at most 1e9", f.speedup)
	case f.nodes < 0 || f.gpus < 0 || f.cpus < 0 || f.memory < 0:
		return errors.New("--nodes, --gpus, --cpus and --memory: want more than 0")
	case strings.HasPrefix(f.report, "-") || strings.ContainsFunc(f.report, unicode.IsControl):
		return fmt.Errorf("--report=%q: want the words of a comment", f.report)
	case f.interval <= 0:
		return errors.New("--interval: want more than 0")
	case (f.pretend != "" || f.measure > 0) && !f.virtualCPU:
		return errors.New("--pretend and --measure: want --virtual-cpu; cores that are there are taken by affinity")
	case f.turn == noSocket:
		return errors.New("--turn: SYNERGY_TURN_SOCK is not set: want --turn=SOCKET")
	case f.set.Changed("turn") && f.turn != "" && !f.virtualCPU:
		return errors.New("--turn: want --virtual-cpu; a GPU is only pretended")
	case f.set.Changed("gpu-busy") && !(f.gpuBusy > 0 && f.gpuBusy <= 1):
		return fmt.Errorf("--gpu-busy=%v: want more than 0, and at most 1", f.gpuBusy)
	case f.gpuMemory < 0:
		return errors.New("--gpu-memory: want MiB, more than 0")
	case f.requeueExit < 1 || f.requeueExit > 255:
		return fmt.Errorf("--requeue-exit=%d: want 1 to 255", f.requeueExit)
	}
	return nil
}

// job is the job that flags and environment describe, without signals and log.
func (f *flags) job(getenv func(string) string) (*emulate.Job, error) {
	profile, err := f.readProfile()
	if err != nil {
		return nil, err
	}
	grant, err := f.grant(getenv)
	if err != nil {
		return nil, err
	}
	leave, err := emulate.SignalNamed(f.signal)
	if err != nil {
		return nil, fmt.Errorf("--signal: %w", err)
	}
	restart, _ := strconv.Atoi(getenv("SLURM_RESTART_COUNT")) // absent at the first start
	job := &emulate.Job{
		ID: getenv("SLURM_JOB_ID"), Restart: restart, Profile: profile, Grant: grant, Goal: f.goal(profile, grant),
		Speedup: f.speedup, Every: time.Duration(f.checkpointEvery), Adopt: f.resumeAny, Leave: leave,
		Warmup: f.cost("start-cost", f.startCost, profile.StartSeconds), Interval: time.Duration(f.interval),
		Cost:  f.cost("checkpoint-cost", f.checkCost, profile.CheckpointSeconds),
		Store: f.store(getenv),
	}
	if f.report != "" && !isFollower(getenv) {
		job.Report = reporter{job: job.ID, words: f.report}.report
	}
	f.setWork(job)
	f.setWatch(job)
	return job, nil
}

// watchEvery is how often the job reads how many cores it may use, and writes its progress.
const watchEvery = 100 * time.Millisecond

// setWatch connects the job with the files through which it is measured: it reads its cores from --pretend and writes
// its iterations to --progress.
func (f *flags) setWatch(job *emulate.Job) {
	if f.pretend != "" {
		job.Watch, job.Cores = watchEvery, func() int { return pretended(f.pretend, job.Grant.PerNode.CPUs) }
	}
	if f.progress != "" {
		job.Watch, job.Progress = watchEvery,
			func(iterations int64) error { return writeProgress(f.progress, iterations) }
	}
}

// readProfile finds the profile by name in the directories. A path is split into its directory and its name.
func (f *flags) readProfile() (*sensitivity.Profile, error) {
	if strings.Contains(f.profile, "/") {
		return library.New(filepath.Dir(f.profile)).Lookup(filepath.Base(f.profile))
	}
	return library.New(f.profileDirs...).Lookup(f.profile)
}

// grant is what Slurm granted, overridden by the flags.
func (f *flags) grant(getenv func(string) string) (emulate.Grant, error) {
	g, err := emulate.FromSlurm(getenv)
	if err != nil {
		return g, err
	}
	if !f.virtualCPU {
		g.PerNode.CPUs = usable(g.PerNode.CPUs)
	}
	g.Nodes = flagOr(f.nodes, g.Nodes)
	g.PerNode.GPUs = flagOr(f.gpus, g.PerNode.GPUs)
	g.PerNode.CPUs = flagOr(f.cpus, g.PerNode.CPUs)
	g.PerNode.Memory = gres.Memory(flagOr(f.memory, int(g.PerNode.Memory)))
	switch {
	case g.PerNode.GPUs == 0:
		return g, errors.New("no GPUs are granted: want SLURM_GPUS_ON_NODE, CUDA_VISIBLE_DEVICES or --gpus")
	case g.PerNode.CPUs == 0:
		return g, errors.New("no cores are granted: want SLURM_CPUS_ON_NODE or --cpus")
	}
	return g, nil
}

// usable is how many of the granted cores this process can keep busy, by affinity mask and cgroup quota. Where Slurm
// does not confine jobs it is the grant; outside Slurm it is all cores of the host.
func usable(granted int) int {
	there := runtime.GOMAXPROCS(0)
	if granted == 0 {
		return there
	}
	return min(granted, there)
}

// flagOr is the value of a flag, or otherwise if the flag is not given.
func flagOr(flag, otherwise int) int {
	if flag > 0 {
		return flag
	}
	return otherwise
}

// goal is how much the job trains. Samples are converted to iterations: an iteration trains one batch per GPU.
func (f *flags) goal(profile *sensitivity.Profile, grant emulate.Grant) emulate.Goal {
	goal := emulate.Goal{Iterations: f.iterations, Training: time.Duration(f.duration)}
	if f.samples > 0 {
		goal.Iterations = int64(math.Ceil(float64(f.samples) / float64(profile.Batch*grant.GPUs())))
	}
	return goal
}

// cost is the flag's duration if the flag was given, else the profile's, in seconds.
func (f *flags) cost(name string, flag seconds, measured float64) time.Duration {
	if f.set.Changed(name) {
		return time.Duration(flag)
	}
	return time.Duration(measured * float64(time.Second))
}

// store is where checkpoints go; nil: none. In a directory they are named by the job, so that jobs can share it.
func (f *flags) store(getenv func(string) string) *emulate.Store {
	if f.checkpoint == "" {
		return nil
	}
	path := f.checkpoint
	if info, err := os.Stat(path); err == nil && info.IsDir() || strings.HasSuffix(path, "/") {
		path = filepath.Join(path, "emujob-"+jobName(getenv))
	}
	return &emulate.Store{Path: path, Follows: isFollower(getenv)}
}

// jobName names the job's checkpoints; outside Slurm all runs have the same ones.
func jobName(getenv func(string) string) string {
	if id := getenv("SLURM_JOB_ID"); id != "" {
		return id
	}
	return "local"
}

// setWork chooses how the job spends its time: asleep, asleep in turns of a shared GPU, or computing.
func (f *flags) setWork(job *emulate.Job) {
	if f.turns != nil {
		job.Mode = emulate.VirtualCPU
		job.Work = &emulate.Turner{Rate: job.Pace(), Busy: f.busy(job.Profile), Turns: f.turns}
		return
	}
	if f.virtualCPU {
		job.Mode, job.Work = emulate.VirtualCPU, &emulate.Sleeper{Rate: job.Pace()}
		return
	}
	job.Mode = emulate.RealCPU
	job.Work = &emulate.Burner{
		Rate: job.Pace(), CPUSeconds: job.Grant.CPUSeconds(job.Profile) / job.Speedup, Cores: job.Grant.PerNode.CPUs,
	}
}

// seconds is a duration on the command line: 90, 90s or 1m30s.
type seconds time.Duration

// Set reads a number of seconds, or a duration as times.Parse does.
func (s *seconds) Set(text string) error {
	if number, err := strconv.ParseFloat(text, 64); err == nil {
		text = strconv.FormatFloat(number, 'f', -1, 64) + "s"
	}
	d, err := times.Parse(text)
	if err != nil {
		return err
	}
	if d < 0 {
		return errors.New("want seconds, or a duration like 1m30s")
	}
	*s = seconds(d)
	return nil
}

// String is empty for 0, so that the help shows no default.
func (s *seconds) String() string {
	if *s == 0 {
		return ""
	}
	return time.Duration(*s).String()
}

// Type is the type's name in the help.
func (s *seconds) Type() string { return "time" }
