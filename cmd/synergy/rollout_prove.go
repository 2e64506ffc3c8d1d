package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/cmd/internal/times"
	"github.com/synergy-slurmd/synergy-slurmd/preflight"
	"github.com/synergy-slurmd/synergy-slurmd/printable"
	"github.com/synergy-slurmd/synergy-slurmd/rollout"
	"github.com/synergy-slurmd/synergy-slurmd/rollout/proof"
)

// proveOptions are those of the proof.
type proveOptions struct {
	rolloutOptions
	slurm       proof.Programs
	unit        string
	halt, start string // command lines in place of the unit
	patience    time.Duration
	yes         bool
}

func proveCommand() *cobra.Command {
	o := &proveOptions{}
	command := &cobra.Command{
		Use:   "prove [flags]",
		Short: "show on this site that jobs start when the daemon dies",
		Long: `prove submits one small job, waits until the daemon has leased it, kills the daemon as if it had crashed
for good, waits until the lease is over and Slurm has started the job as it was asked for, and starts the daemon again,
whatever happens, also when it is interrupted, or killed: then another process does, which watches it. What was seen is
written down for the criterion of synergy rollout. It takes as long as a lease. It touches no other job; but the leases of all that wait end too, as they would in earnest.

As root it submits the job as the user of --user, or of sudo. Where systemd does not run the daemon, --halt and --start
say how it is stopped and started, as programs with arguments and without a shell.`,
		Example: `  sudo synergy rollout prove --partition gpu
  sudo synergy rollout prove --user ann --account vision --yes
  synergy rollout prove --halt "pkill -STOP -x synergy-slurmd" --start "pkill -CONT -x synergy-slurmd"`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c) },
	}
	where, job, end := newGroup("Where things are"), newGroup("The job"), newGroup("The daemon's end")
	where.give(&o.daemon.daemon, "daemon", "", daemonUsage)
	where.give(&o.proofs, "proofs", "/var/lib/synergy/proofs", "`folder` of proofs of failing open")
	job.flags.StringVar(&o.slurm.User, "user", "", "`user` whose job it is (default: as who runs this, or ran sudo)")
	job.flags.StringVar(&o.slurm.Partition, "partition", "", "its `partition` (default: the canary's, or the user's)")
	job.flags.StringVar(&o.slurm.Account, "account", "", "its `account` (default: the canary's, or the user's)")
	job.flags.IntVar(&o.slurm.GPUs, "gpus", 1, "how many `GPUs` it asks for; that many should be free")
	times.Var(job.flags, &o.slurm.Hold, "hold", time.Minute, "how long it asks to be kept from starting, shorter "+
		"than a lease: until then the daemon must have leased it")
	end.give(&o.unit, "unit", "synergy-slurmd.service", "the daemon's `unit`, which is killed")
	end.give(&o.halt, "halt", "", "`command` that stops the daemon, in place of the unit")
	end.give(&o.start, "start", "", "`command` that starts it again")
	times.Var(end.flags, &o.patience, "patience", 10*time.Minute, "for each wait, beyond the lease")
	end.flags.BoolVar(&o.yes, "yes", false, "ask nothing")
	grouped(command, where, job, end)
	return command
}

func (o *proveOptions) check() error {
	switch {
	case o.slurm.GPUs < 1 || o.slurm.GPUs > 1024:
		return fmt.Errorf("--gpus %d: want 1 or more, since only jobs with GPUs are managed", o.slurm.GPUs)
	case o.slurm.Hold < time.Second || o.slurm.Hold > time.Hour:
		return fmt.Errorf("--hold %s: want 1s to 1h, 1m is usual", o.slurm.Hold)
	case o.patience < time.Second || o.patience > 24*time.Hour:
		return fmt.Errorf("--patience %s: want 1s to 24h", o.patience)
	case (o.halt == "") != (o.start == ""):
		return errors.New("--halt and --start: say both or none: what was stopped has to be started again")
	}
	for name, text := range map[string]string{"--partition": o.slurm.Partition, "--account": o.slurm.Account,
		"--user": o.slurm.User} {
		if strings.ContainsAny(text, " \t\n,") || strings.HasPrefix(text, "-") {
			return fmt.Errorf("%s %.40q: want the name of one", name, text)
		}
	}
	if name := o.unit; o.halt == "" && (name == "" || name[0] == '-' || strings.ContainsAny(name, "/ \t\n")) {
		return fmt.Errorf("--unit %.40q: want the name of one, as synergy-slurmd.service", name)
	}
	return nil
}

func (o *proveOptions) run(c *cobra.Command) error {
	if err := o.check(); err != nil {
		return err
	}
	at, err := o.daemon.remote()
	if err != nil {
		return err
	}
	if os.Geteuid() == 0 && o.slurm.User == "" {
		o.slurm.User = os.Getenv("SUDO_USER")
	}
	daemon := at.settled(c.Context())
	switch {
	case daemon.Why != "":
		return unseen{fmt.Errorf("the daemon does not answer: %s", daemon.Why)}
	case daemon.Value.Shadow:
		return failed{errors.New("the daemon is in the shadow, and leases nothing: there is nothing to prove yet")}
	case daemon.Value.Behind || !daemon.Value.Healthy:
		const longest = 400
		return failed{fmt.Errorf("the daemon is not the one that works: %s",
			printable.Line(daemon.Value.Says, longest))}
	}
	o.within(daemon.Value.Canary)
	path, err := o.recordFile()
	if err != nil {
		return failed{err}
	}
	others := at.waiting(c.Context())
	if agreed, err := o.agreed(c, daemon.Value, others); err != nil || !agreed {
		return err
	}
	return o.prove(c, at, rollout.Proof{Version: daemon.Value.Version, Partition: o.slurm.Partition,
		Account: o.slurm.Account, GPUs: o.slurm.GPUs, How: o.how(), Others: others}, path,
		time.Duration(daemon.Value.Lease*float64(time.Second)))
}

// settling is how long a daemon that was just started may look for another one that leads.
const settling = 15 * time.Second

// settled is what the daemon says of itself, as soon as it leads; as it is where that takes too long.
func (a remote) settled(ctx context.Context) preflight.Known[rollout.Daemon] {
	until := time.Now().Add(settling)
	for {
		daemon := a.about(ctx)
		if daemon.Why != "" || !daemon.Value.Behind || time.Now().After(until) || ctx.Err() != nil {
			return daemon
		}
		time.Sleep(time.Second)
	}
}

// within puts the job into the canary, where nobody said otherwise.
func (o *proveOptions) within(canary bridge.Canary) {
	if o.slurm.Account == "" && len(canary.Accounts) > 0 {
		o.slurm.Account = canary.Accounts[0]
	}
	if o.slurm.Partition == "" && len(canary.Partitions) > 0 {
		o.slurm.Partition = canary.Partitions[0]
	}
}

// recordFile is where the record goes, which is found out before anything is done.
func (o *proveOptions) recordFile() (string, error) {
	if err := os.MkdirAll(o.proofs, 0o755); err != nil {
		return "", fmt.Errorf("--proofs: %w", err)
	}
	trial, err := os.CreateTemp(o.proofs, ".trial-*")
	if err != nil {
		return "", fmt.Errorf("--proofs: %w: name a folder that can be written to", err)
	}
	err = errors.Join(trial.Close(), os.Remove(trial.Name()))
	return filepath.Join(o.proofs, time.Now().UTC().Format("20060102T150405Z")+proofExtension), err
}

// waiting counts the managed jobs that wait now, by the last round.
func (a remote) waiting(ctx context.Context) (n int) {
	var last bridge.Report
	if a.get(ctx, "/round", &last) != nil {
		return 0 // there was none yet
	}
	for _, w := range last.Waits {
		if w.Reason != bridge.Unplanned && w.Reason != bridge.OnHold {
			n++
		}
	}
	return n
}

func (o *proveOptions) how() string {
	if o.halt != "" {
		return o.halt
	}
	return "killed " + o.unit
}

// agreed says what will happen, and asks.
func (o *proveOptions) agreed(c *cobra.Command, d rollout.Daemon, others int) (bool, error) {
	out := c.OutOrStdout()
	startAgain := o.start
	if o.halt == "" {
		startAgain = fmt.Sprintf("rm %s; systemctl daemon-reload; systemctl start %s", o.systemd(nil).DropIn(), o.unit)
	}
	fmt.Fprintf(out, `This submits a job of %s, stops the daemon (%s) for about %s, and starts it again.
Managed jobs that wait now: %d. Their leases end too, and Slurm starts them as they were asked for, as it has room.
Should this program be killed meanwhile, a process that watches it (proof-guard) starts the daemon; should that be
killed too, start it by hand:
  %s
`, several(o.slurm.GPUs, "GPU"), o.how(), time.Duration(d.Lease*float64(time.Second)), others, startAgain)
	if o.yes {
		return true, nil
	}
	fmt.Fprint(out, "Go on? [y/N] ")
	const longest = 16
	answer := make([]byte, longest)
	n, err := bufio.NewReader(c.InOrStdin()).Read(answer)
	if err != nil || strings.ToLower(strings.TrimSpace(string(answer[:n]))) != "y" {
		fmt.Fprintln(out)
		return false, failed{errors.New("nothing was done: say y, or --yes")}
	}
	return true, nil
}

// unitFolder is where systemd looks for units until the next boot.
const unitFolder = "/run/systemd/system"

func (o *proveOptions) systemd(answers proof.Answering) proof.Unit {
	return proof.Unit{Answering: answers, Name: o.unit, Folder: unitFolder}
}

func (o *proveOptions) prove(c *cobra.Command, at remote, about rollout.Proof, path string,
	lease time.Duration) error {
	// The terminal may go away: the daemon has to be started all the same, and no second interrupt ends this before it
	// is. Nor does a reader that goes away.
	ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	unread := make(chan os.Signal, 1)
	signal.Notify(unread, syscall.SIGPIPE)
	defer signal.Stop(unread)
	answers := func(ctx context.Context) bool { return at.about(ctx).Why == "" }
	trial := proof.Trial{Slurm: o.slurm, Daemon: o.systemd(answers), Clock: wall{}, Patience: o.patience,
		Say: func(format string, a ...any) {
			fmt.Fprintf(c.OutOrStdout(), time.Now().Format(time.TimeOnly)+" "+format+"\n", a...)
		}}
	if o.halt != "" {
		trial.Daemon = proof.Commands{Answering: answers, Halt: strings.Fields(o.halt), Go: strings.Fields(o.start)}
	}
	guarded, err := o.guarded(trial.Daemon, lease)
	if err != nil {
		return failed{fmt.Errorf("nothing was done: %w", err)}
	}
	trial.Daemon = guarded
	seen, err := trial.Run(ctx, about)
	err = errors.Join(err, guarded.Release())
	if !seen.Stopped.IsZero() {
		if wrong := os.WriteFile(path, seen.Text(), 0o644); wrong != nil {
			err = errors.Join(err, wrong)
		} else {
			fmt.Fprintln(c.OutOrStdout(), "written to", path)
		}
	}
	if err != nil {
		return failed{fmt.Errorf("not proved: %w", err)}
	}
	fmt.Fprintf(c.OutOrStdout(), "proved: %s; the daemon answered again after %.0f s\n", seen.Sentence(), seen.Back)
	return nil
}

// wall is the time on the wall.
type wall struct{}

func (wall) Now() time.Time { return time.Now() }

func (wall) Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
