package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/synergy-slurmd/synergy-slurmd/emulate"
	"github.com/synergy-slurmd/synergy-slurmd/launcher"
)

// runOptions are the flags of synergy run.
type runOptions struct {
	on, send               string
	children, group, steps bool
	grace                  durationFlag
	exit                   int
	accept                 []int
	quiet, env             bool
	besideOptions
}

// ignored are the signals that the calling process has made us ignore. They are read at the start, since the tool
// catches signals before it knows its command.
var ignored = launcher.Ignored()

// runCommand is synergy run: its help and its flags. Flags behind COMMAND are the trainer's.
func runCommand() *cobra.Command {
	var o runOptions
	command := &cobra.Command{
		Use: "run [options] -- COMMAND…",
		Short: "run a trainer that knows nothing of us: it is asked to save by the signal that it knows, and the job " +
			"is requeued",
		Long: `synergy run runs COMMAND as the last command of a batch script, or as a task of srun. The signal by which synergy-slurmd asks a job to
save and leave is turned into the one that the trainer listens to; when it has ended then, the exit status is 98, by which Slurm puts the job
back into its queue (docs/job-contract.md; docs/python.md has the line for each framework).

In a batch script say exec, or the shell before it gets the signal and dies of it. The signal that asks is ignored by COMMAND at its start,
so that it need not know it. All other signals go to COMMAND as they are.

The exit status is that of COMMAND, or 128 and the number of the signal that killed it; 126 and 127 where it could not be run. It is 98
when COMMAND was asked and has ended with 0, with 98, by the signal that was sent, or by SIGTERM: it is started again, and one that had just
finished by itself finds nothing left to do then. One that was asked and ends otherwise has failed, and its code says how, unless it is one of --accept.

In a job with synergy-profile=auto COMMAND is measured as by synergy measure, where the daemon asks; with the word synergy-progress in
the job's comment it is said every five minutes how far COMMAND has come. Both count iterations in a progress file or in what COMMAND
prints, as long as that goes to a file. What COMMAND prints is never touched, and what cannot be had of this is said once.`,
		Example: `  exec synergy run -- python train.py                                it saves on TERM, or every now and then
  exec synergy run --send USR2 -- python train.py
  exec synergy run --children --accept 1 -- torchrun --nproc-per-node=4 train.py
  exec synergy run --steps -- srun python pretrain_gpt.py --exit-signal-handler
  srun synergy run -- python train.py                                with synergy-checkpoint=USR1@60/steps
  exec synergy run --pattern lightning -- python train.py            with synergy-profile=auto: by its own progress bar`,
		DisableFlagsInUseLine: true,
		RunE:                  o.run,
	}
	asked, left := newGroup("How COMMAND is asked to save"), newGroup("How it leaves")
	come := newGroup("How far it has come, and what it has")
	asked.flags.StringVar(&o.on, "on", "USR1", "the `signal` that asks, as in the word synergy-checkpoint: "+
		strings.Join(launcher.Asking, ", "))
	asked.flags.StringVar(&o.send, "send", "TERM", "the `signal` that COMMAND listens to: "+
		strings.Join(launcher.Listening, ", "))
	asked.flags.BoolVar(&o.children, "children", false,
		"send it to what COMMAND has started, as torchrun its workers, and not to COMMAND")
	asked.flags.BoolVar(&o.group, "group", false,
		"send it to COMMAND and to all that it has started in its process group, loaders as well")
	asked.flags.BoolVar(&o.steps, "steps", false,
		"send it to the tasks that srun has started, by scancel; so is TERM, INT or QUIT by itself where COMMAND is "+
			"srun, which would end them of it")
	left.flags.Var(&o.grace, "grace",
		"end what has not left so long after it was asked, which gives way all the same (default: that is left "+
			"to Slurm)")
	left.flags.IntVar(&o.exit, "exit", 98, "the `code` with which the job gives way: the site's RequeueExit")
	left.flags.IntSliceVar(&o.accept, "accept", nil,
		"further `codes` with which COMMAND ends when it was asked and has saved, as 1,255")
	come.flags.BoolVar(
		&o.env,
		"env",
		false,
		"tell COMMAND what its job has, where nobody else does: OMP_NUM_THREADS and MKL_NUM_THREADS, which are "+
			"the cores "+
			"for each GPU of the task, SYNERGY_CPUS, SYNERGY_GPUS and SYNERGY_MEMORY_MB",
	)
	left.flags.BoolVarP(&o.quiet, "quiet", "q", false, "say nothing of what is passed on")
	command.Flags().SetInterspersed(false) // options after COMMAND are its own
	o.besideOptions.addFlags(come.flags)
	setGroups(command, asked, left, come)
	return command
}

// run runs COMMAND and ends with its exit code. If the job's size is not known, COMMAND runs all the same, only without
// the variables of --env.
func (o *runOptions) run(c *cobra.Command, argv []string) error {
	if len(argv) == 0 {
		return errors.New("want a command behind --, as synergy run -- python train.py")
	}
	l, err := o.launcher(argv)
	if err != nil {
		return err
	}
	l.Say = func(text string) {
		if !o.quiet {
			fmt.Fprintln(c.ErrOrStderr(), "synergy run:", text)
		}
	}
	if err := o.setEnvironment(l); err != nil {
		l.Say(fmt.Sprintf("COMMAND is not told its size: %v", err))
	}
	if err := o.accompany(l, os.Getenv); err != nil {
		return err
	}
	code, err := l.Run()
	return exitError{code, err}
}

// launcher returns the launcher that the options describe. Impossible values are errors, and with signals to srun's
// tasks also a process that is in no job.
func (o *runOptions) launcher(argv []string) (*launcher.Command, error) {
	l := &launcher.Command{Argv: argv, Grace: time.Duration(o.grace), Exit: o.exit, Accept: o.accept, Ignored: ignored}
	var err error
	if l.On, err = launcher.ParseSignal(o.on, launcher.Asking); err != nil {
		return nil, fmt.Errorf("--on %w", err)
	}
	if l.Send, err = launcher.ParseSignal(o.send, launcher.Listening); err != nil {
		return nil, fmt.Errorf("--send %w", err)
	}
	if o.exit < 1 || o.exit > 255 {
		return nil, fmt.Errorf("--exit %d: want the site's RequeueExit, from 1 to 255", o.exit)
	}
	for _, code := range o.accept {
		if code < 1 || code > 255 {
			return nil, fmt.Errorf("--accept %d: want exit codes from 1 to 255", code)
		}
	}
	if l.To, err = o.signalTarget(filepath.Base(argv[0]), l.Send); err != nil {
		return nil, err
	}
	if l.To == launcher.Steps {
		if l.Job, err = stepsJob(os.Getenv); err != nil {
			return nil, fmt.Errorf("--steps: %w", err)
		}
	}
	return l, nil
}

// signalTarget returns which processes get the signal that asks to save (send): those that an option names, or COMMAND
// itself. srun passes signals on to its tasks, but TERM, INT and QUIT make it end them. So if COMMAND is srun in a job
// and send is one of these, the tasks are signalled past it by scancel, as with --steps.
func (o *runOptions) signalTarget(command string, send syscall.Signal) (launcher.Target, error) {
	var said []launcher.Target
	for target, is := range map[launcher.Target]bool{launcher.Children: o.children, launcher.Group: o.group,
		launcher.Steps: o.steps} {
		if is {
			said = append(said, target)
		}
	}
	ends := slices.Contains([]syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT}, send)
	switch {
	case len(said) > 1:
		return 0, errors.New("--children, --group, --steps: want one of them, or none for COMMAND itself")
	case len(said) == 1:
		return said[0], nil
	case command == "srun" && ends && os.Getenv("SLURM_JOB_ID") != "":
		return launcher.Steps, nil
	}
	return launcher.Process, nil
}

// jobName is a job, or a task of an array.
var jobName = regexp.MustCompile(`^[0-9]{1,10}(_[0-9]{1,10})?$`)

// stepsJob returns the job in the form in which scancel takes it, to signal its steps. A task of an array is named as
// 17_3, since the last task has the array's own ID, which would mean all tasks. It is an error outside of a job, and
// without scancel.
func stepsJob(getenv func(string) string) (string, error) {
	job := getenv("SLURM_JOB_ID")
	if array, task := getenv("SLURM_ARRAY_JOB_ID"), getenv("SLURM_ARRAY_TASK_ID"); array != "" && task != "" {
		job = array + "_" + task
	}
	if !jobName.MatchString(job) {
		return "", fmt.Errorf("SLURM_JOB_ID is %.40q: want to be in a job of Slurm", getenv("SLURM_JOB_ID"))
	}
	if _, err := exec.LookPath("scancel"); err != nil {
		return "", fmt.Errorf("want scancel, which signals the steps: %w", err)
	}
	return job, nil
}

// setEnvironment warns if the signal will not reach this process, and with --env gives COMMAND its size in its
// environment.
func (o *runOptions) setEnvironment(l *launcher.Command) error {
	if other := launcher.Unheard(l.On, os.Getenv("SLURM_TASK_PID")); other != "" && os.Getenv("SLURM_JOB_ID") != "" {
		l.Say(fmt.Sprintf("%s would reach %s and not this process, and end it: begin the line with exec", o.on, other))
	}
	if !o.env {
		return nil
	}
	grant, err := emulate.FromSlurm(os.Getenv)
	if err != nil {
		return err
	}
	if more := launcher.Environment(os.Environ(), grant.PerNode); len(more) > 0 {
		l.Env = append(os.Environ(), more...)
	}
	return nil
}

// exitError is an error that says the exit code: that of the program that was run, or for synergy status the daemon's
// state. cause is what the user is told; it is nil if there is nothing more to tell.
type exitError struct {
	code  int
	cause error
}

// Error is the cause, or how the command ended.
func (e exitError) Error() string {
	if e.cause == nil {
		return fmt.Sprintf("ended with %d", e.code)
	}
	return e.cause.Error()
}

func (e exitError) Unwrap() error { return e.cause }
