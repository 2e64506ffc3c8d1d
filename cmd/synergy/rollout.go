package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/preflight"
	"github.com/synergy-slurmd/synergy-slurmd/printable"
	"github.com/synergy-slurmd/synergy-slurmd/rollout"
	"github.com/synergy-slurmd/synergy-slurmd/savings"
	"github.com/synergy-slurmd/synergy-slurmd/savings/book"
)

// rolloutOptions are where a daemon and what belongs to it are found.
type rolloutOptions struct {
	daemon         source
	config, flags  string // files
	program, runAs string
	savings        string
	proofs         string // folder
	json           bool
	wanted         rollout.Wanted

	// of next and back
	accounts, partitions []string
	write, anyway        bool
}

func rolloutCommand() *cobra.Command {
	o := &rolloutOptions{wanted: rollout.Usual()}
	command := &cobra.Command{
		Use:   "rollout [flags]",
		Short: "how far this site has come with the daemon, and whether it may go further",
		Long: `rollout says which stage a site is in, and what must be seen before the next: preflight, shadow, canary,
on. The stage is what the daemon itself tells; each criterion has what was measured, what is wanted, and what to do. Run
it on the daemon's host, as root or as the daemon's user. The code is 0 if the next stage may begin, and 1 if not; in
the last stage 0 says that all is well.`,
		Example: `  synergy rollout                          where are we, and what is missing?
  synergy rollout next --account vision    what takes us to the next stage
  synergy rollout prove                    the daemon killed, one job started by Slurm: does it fail open?
  synergy rollout back                     what takes us to the stage before`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.status(c) },
	}
	where, asked := o.where(), newGroup("What is wanted")
	asked.flags.IntVar(&o.wanted.Rounds, "rounds", o.wanted.Rounds, "`rounds` of a stage in a row that end well")
	asked.flags.IntVar(&o.wanted.Jobs, "jobs", o.wanted.Jobs, "`jobs` of the canary that have ended")
	out := newGroup("Output")
	out.flags.BoolVar(&o.json, "json", false, "for programs")
	grouped(command, where, asked, out)
	command.AddCommand(rolloutStatusCommand(), nextCommand(), proveCommand(), backCommand(),
		guardCommand())
	return command
}

// rolloutStatusCommand is rollout itself, for whoever looks for the word.
func rolloutStatusCommand() *cobra.Command {
	o := &rolloutOptions{wanted: rollout.Usual()}
	command := &cobra.Command{
		Use:     "status [flags]",
		Short:   "the same as rollout alone",
		Example: "  synergy rollout status --json",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return o.status(c) },
	}
	out := newGroup("Output")
	out.flags.BoolVar(&o.json, "json", false, "for programs")
	grouped(command, o.where(), out)
	return command
}

const daemonUsage = "the daemon's `address`, as " + usualAddress + ", or its socket, as unix:" + usualSocket +
	" (default: that socket, else that address)"

func (o *rolloutOptions) where() group {
	where := newGroup("Where things are")
	where.give(&o.daemon.daemon, "daemon", "", daemonUsage)
	where.give(&o.config, "config", "/etc/synergy/synergy-slurmd.yaml", "its configuration `file`")
	where.give(&o.flags, "flags", "/etc/synergy/synergy-slurmd.env", "the `file` with its flags")
	where.give(&o.program, "slurmd", "synergy-slurmd", "its `program`, for its checks")
	where.flags.StringVar(&o.runAs, "run-as", "synergy", "as which `user` root runs these; empty: as root")
	where.give(&o.savings, "savings", "/var/lib/synergy/savings", "`folder` of the ledger of savings")
	where.give(&o.proofs, "proofs", "/var/lib/synergy/proofs", "`folder` of proofs of failing open")
	return where
}

func (o *rolloutOptions) status(c *cobra.Command) error {
	s, err := o.judge(c.Context())
	if err != nil {
		return err
	}
	if o.json {
		encoder := json.NewEncoder(c.OutOrStdout())
		encoder.SetIndent("", "  ")
		err = encoder.Encode(s)
	} else {
		err = showStatus(c.OutOrStdout(), s)
	}
	if err == nil && !s.Ready {
		return ended{code: exitFailed}
	}
	return done(err)
}

// showStatus writes a status for people. All of it may hold what others wrote.
func showStatus(out io.Writer, s rollout.Status) error {
	const longest = 400
	var b strings.Builder
	line := func(format string, a ...any) {
		b.WriteString(printable.Line(fmt.Sprintf(format, a...), longest) + "\n")
	}
	line("stage: %s; the daemon: %s", s.Stage, s.Daemon)
	for _, c := range s.Criteria {
		fmt.Fprintf(&b, "%-4s ", c.Verdict)
		line("%s: %s (wanted: %s)", c.Name, c.Measured, c.Wanted)
		if c.Verdict != preflight.OK && c.Remedy != "" {
			b.WriteString("     " + printable.Line(c.Remedy, longest) + "\n")
		}
	}
	switch {
	case s.Next == "" && s.Ready:
		line("all is well")
	case s.Next == "":
		line("not all is well: synergy rollout back shows the way back")
	case s.Ready:
		line("ready for %s: synergy rollout next", s.Next)
	default:
		line("not ready for %s", s.Next)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// judge gathers the facts and judges them.
func (o *rolloutOptions) judge(ctx context.Context) (rollout.Status, error) {
	at, err := o.daemon.remote()
	if err != nil {
		return rollout.Status{}, err
	}
	if o.wanted.Rounds < 1 || o.wanted.Jobs < 1 {
		return rollout.Status{}, fmt.Errorf("--rounds %d --jobs %d: want at least 1 of each", o.wanted.Rounds,
			o.wanted.Jobs)
	}
	f := rollout.Facts{Now: time.Now(), Wanted: o.wanted, Daemon: at.about(ctx), Checks: o.checks(ctx)}
	if f.Daemon.Why == "" {
		f.Rounds = at.rounds(ctx, &f.Daemon.Value)
		f.Savings = o.saved(f.Daemon.Value.Shadow, f.Now)
		f.Proof = lastProof(o.proofs)
	}
	return rollout.Judge(f), nil
}

// fact is a fact, or the error as why it is none.
func fact[T any](value T, err error) preflight.Known[T] {
	if err != nil {
		return preflight.Unknown[T](err.Error())
	}
	return preflight.Known[T]{Value: value}
}

// about is what the daemon says of itself.
func (a remote) about(ctx context.Context) preflight.Known[rollout.Daemon] {
	const atOnce = 5 * time.Second
	ctx, stop := context.WithTimeout(ctx, atOnce)
	defer stop()
	var d rollout.Daemon
	err := a.get(ctx, "/status", &d)
	if errors.Is(err, errSilent) { // whose remedy is another command's
		err = errors.New(strings.TrimSuffix(err.Error(), ": "+errSilent.Error()))
	}
	return fact(d, err)
}

// rounds are those that it keeps and held as it is now.
func (a remote) rounds(ctx context.Context, d *rollout.Daemon) preflight.Known[[]rollout.Round] {
	reports, err := a.reports(ctx)
	return fact(rollout.OfStage(d, reports), err)
}

// checks are the lines of synergy-slurmd --check, with the daemon's own flags.
func (o *rolloutOptions) checks(ctx context.Context) preflight.Known[[]preflight.Line] {
	flags, err := o.flagsOf()
	if err != nil {
		return fact[[]preflight.Line](nil, err)
	}
	const most = 3 * time.Minute // it gives up by itself before
	ctx, stop := context.WithTimeout(ctx, most)
	defer stop()
	out, err := o.slurmd(ctx, append([]string{"--check", "--json", "--config", o.config}, flags...)...)
	var lines []preflight.Line
	if wrong := json.Unmarshal(out, &lines); wrong != nil {
		return fact(lines, cmp.Or(err, wrong))
	}
	return fact(lines, nil) // its code only says that something fails
}

func (o *rolloutOptions) flagsOf() ([]string, error) {
	text, err := readSite("--flags", o.flags)
	if err != nil {
		return nil, err
	}
	flags, err := rollout.Flags(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.flags, err)
	}
	return flags, nil
}

// readSite reads a file of the site's, which an option names.
func readSite(option, path string) (string, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("%s %s: is not there: name the file that the daemon has, or make it", option, path)
	}
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", option, path, cause(err))
	}
	return string(text), nil
}

// slurmd runs the daemon's program, as its user where root asks.
func (o *rolloutOptions) slurmd(ctx context.Context, args ...string) ([]byte, error) {
	argv := append([]string{o.program}, args...)
	if me, err := user.Current(); err == nil && me.Uid == "0" && o.runAs != "" {
		argv = append([]string{"runuser", "-u", o.runAs, "--"}, argv...)
	}
	command := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var out, said bytes.Buffer
	command.Stdout, command.Stderr, command.WaitDelay = &out, &said, time.Second
	if err := command.Run(); err != nil {
		if ctx.Err() != nil { // it was killed for that
			err = ctx.Err()
		}
		const longest = 600
		return out.Bytes(), fmt.Errorf("%s: %w: %s", o.program, err, printable.Line(said.String(), longest))
	}
	return out.Bytes(), nil
}

// lately is for how long back the ledger of savings is added up.
const lately = 7 * 24 * time.Hour

// saved is what was booked lately, in the shadow or not.
func (o *rolloutOptions) saved(shadow bool, now time.Time) preflight.Known[rollout.Savings] {
	lines, _, err := book.Read(o.savings, now.Add(-lately), now)
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("there is no ledger of savings in %s", o.savings)
	}
	var sums savings.Sums
	for _, line := range lines {
		if line.Shadow == shadow {
			sums = sums.Plus(line.Sums)
		}
	}
	ran := 0.0
	if sums.Checks > 0 {
		ran = sums.Ran / float64(sums.Checks)
	}
	return fact(rollout.Savings{Checks: sums.Checks, Ran: ran,
		Known: sums.Known / time.Hour.Seconds(), Saved: sums.Saved / time.Hour.Seconds(),
		Ended: sums.Ended, Later: sums.Later, Belated: time.Duration(sums.Belated * float64(time.Second))}, err)
}

// proofExtension is that of records of proofs. Their names ascend with their time.
const proofExtension = ".json"

// lastProof is the newest record in a folder. One that cannot be read is no reason to believe one before it.
func lastProof(dir string) preflight.Known[rollout.Proof] {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return fact(rollout.Proof{}, errors.New("none was made"))
	}
	if err != nil {
		return fact(rollout.Proof{}, err)
	}
	var names []string
	for _, entry := range entries {
		if entry.Type().IsRegular() && filepath.Ext(entry.Name()) == proofExtension {
			names = append(names, entry.Name())
		}
	}
	if len(names) == 0 {
		return fact(rollout.Proof{}, errors.New("none was made"))
	}
	path := filepath.Join(dir, slices.Max(names))
	file, err := os.Open(path)
	if err != nil {
		return fact(rollout.Proof{}, err)
	}
	defer file.Close()
	proof, err := rollout.ReadProof(file)
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return fact(proof, err)
}

// canary is what next and back were told.
func (o *rolloutOptions) canary() bridge.Canary {
	return bridge.Canary{Accounts: o.accounts, Partitions: o.partitions}
}
