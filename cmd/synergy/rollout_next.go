package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/synergy-slurmd/synergy-slurmd/rollout"
)

func nextCommand() *cobra.Command {
	o := &rolloutOptions{wanted: rollout.Usual()}
	command := &cobra.Command{
		Use:   "next [flags]",
		Short: "say what takes the site to the next stage, if it may go there",
		Long: `next prints the lines of the configuration and the commands that lead to the next stage. Nothing is
changed but with --write, which writes the lines, keeps the old files beside the new ones, and has the daemon's program
check them first. The commands are yours to say. If a criterion is not met, it says which, and ends with 1.`,
		Example: `  synergy rollout next --account vision
  sudo synergy rollout next --partition a100 --write`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.next(c) },
	}
	grouped(command, o.where(), o.moving(true))
	return command
}

func backCommand() *cobra.Command {
	o := &rolloutOptions{wanted: rollout.Usual()}
	command := &cobra.Command{
		Use:   "back [flags]",
		Short: "say what takes the site to the stage before",
		Long: `back prints the lines of the configuration and the commands that lead to the stage before. Nothing is
asked for that, and nothing is changed but with --write, as by next.`,
		Example: `  synergy rollout back
  sudo synergy rollout back --account vision --write`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.back(c) },
	}
	grouped(command, o.where(), o.moving(false))
	return command
}

func (o *rolloutOptions) moving(asks bool) group {
	how := newGroup("The stage")
	how.flags.StringSliceVar(&o.accounts, "account", nil, "`account` of the canary; may be said again")
	how.flags.StringSliceVar(&o.partitions, "partition", nil, "`partition` of the canary; may be said again")
	how.flags.BoolVar(&o.write, "write", false, "write the lines")
	if asks {
		how.flags.BoolVar(&o.anyway, "anyway", false, "whatever is not met")
	}
	return how
}

// move is what leads from one stage to another: commands before the files are written, and after.
type move struct {
	to            rollout.Stage
	before, after []string
	config, flags func(text string) (string, error) // nil: the file stays
}

const gateLine = "# install the gate now: job_submit.lua and synergy_settings.lua beside slurm.conf, with " +
	"managed_partitions as partitions"

const (
	startUnit   = "systemctl enable --now synergy-slurmd"
	stopUnit    = "systemctl stop synergy-slurmd"
	disableUnit = "systemctl disable --now synergy-slurmd"
	restartUnit = "systemctl restart synergy-slurmd"
	reloadUnit  = "systemctl reload synergy-slurmd"
)

func (o *rolloutOptions) next(c *cobra.Command) error {
	if err := o.named(); err != nil {
		return err
	}
	s, err := o.judge(c.Context())
	if err != nil {
		return err
	}
	if s.Next == "" {
		return failed{errors.New("the daemon manages everybody already: there is no next stage")}
	}
	if !s.Ready && !o.anyway {
		if err := showStatus(c.OutOrStdout(), s); err != nil {
			return failed{err}
		}
		return ended{code: exitFailed}
	}
	m := move{to: s.Next}
	switch s.Next {
	case rollout.Shadow:
		m.flags, m.after = rollout.WithShadow, []string{startUnit}
	case rollout.Canary:
		if m.config, err = o.narrowed(); err != nil {
			return err
		}
		m.before = []string{gateLine}
		m.flags, m.after = rollout.WithoutShadow, []string{restartUnit, "synergy rollout prove"}
	case rollout.On:
		m.config, m.after = widened, []string{reloadUnit}
	}
	return o.moveTo(c, m)
}

func (o *rolloutOptions) back(c *cobra.Command) error {
	if err := o.named(); err != nil {
		return err
	}
	at, err := o.daemon.remote()
	if err != nil {
		return err
	}
	daemon := at.about(c.Context())
	m := move{}
	switch {
	case daemon.Why != "" && o.shadowed():
		return failed{fmt.Errorf("no daemon answers, and its flags say --shadow: there is no stage before (%s)",
			daemon.Why)}
	case daemon.Why != "", daemon.Value.Stage() == rollout.Canary:
		if daemon.Why == "" && o.write {
			return failed{errors.New("say " + stopUnit + " first: a daemon in the shadow hands nothing back")}
		}
		m = move{to: rollout.Shadow, before: []string{stopUnit}, flags: rollout.WithShadow,
			after: []string{"systemctl start synergy-slurmd"}}
	case daemon.Value.Stage() == rollout.On:
		m = move{to: rollout.Canary, after: []string{reloadUnit}}
		if m.config, err = o.narrowed(); err != nil {
			return err
		}
	default:
		m = move{to: rollout.Preflight, after: []string{disableUnit}}
	}
	return o.moveTo(c, m)
}

func (o *rolloutOptions) shadowed() bool {
	flags, err := o.flagsOf()
	return err == nil && rollout.Shadowed(flags)
}

// narrowed writes the canary into the configuration.
// named says whether those of the canary are names, before anything is looked at.
func (o *rolloutOptions) named() error {
	for option, names := range map[string][]string{"--account": o.accounts, "--partition": o.partitions} {
		for _, name := range names {
			if !isName(name) {
				return fmt.Errorf("%s %.40q: want the name of one, or several with commas between", option, name)
			}
		}
	}
	return nil
}

// isName says whether a text can be a name in Slurm, and is no flag of its commands.
func isName(text string) bool {
	return text != "" && !strings.HasPrefix(text, "-") && !strings.ContainsAny(text, " \t\r\n,{}[]\"'#:")
}

func (o *rolloutOptions) narrowed() (func(string) (string, error), error) {
	if len(o.accounts) == 0 && len(o.partitions) == 0 {
		return nil, errors.New("--account or --partition: name with whom it is to be tried, as --account vision")
	}
	return func(text string) (string, error) { return rollout.WithCanary(text, o.canary()), nil }, nil
}

// widened takes the canary out of the configuration.
func widened(text string) (string, error) {
	if !rollout.HasCanary(text) {
		return "", errors.New("has no canary, which the daemon follows: is it this daemon's file?")
	}
	return rollout.WithCanary(text, (&rolloutOptions{}).canary()), nil
}

// moveTo says what leads to a stage, and writes the files if it is told to.
func (o *rolloutOptions) moveTo(c *cobra.Command, m move) error {
	say := func(format string, a ...any) { fmt.Fprintf(c.OutOrStdout(), format+"\n", a...) }
	say("to %s:", m.to)
	for _, command := range m.before {
		say("  %s", command)
	}
	for _, file := range []struct {
		option, path string
		edit         func(string) (string, error)
		check        func(ctx context.Context, path string) error
	}{{"--config", o.config, m.config, o.checkConfig}, {"--flags", o.flags, m.flags, nil}} {
		if file.edit == nil {
			continue
		}
		before, err := readSite(file.option, file.path)
		if err != nil {
			return failed{err}
		}
		after, err := file.edit(before)
		if err != nil {
			return failed{fmt.Errorf("%s: %w", file.path, err)}
		}
		if after == before {
			continue
		}
		for _, line := range changed(before, after) {
			say("  %s: %s", file.path, line)
		}
		if !o.write {
			continue
		}
		kept, err := replace(c.Context(), file.path, []byte(before), []byte(after), file.check)
		if err != nil {
			return failed{err}
		}
		say("  written; the old one is %s", kept)
	}
	for _, command := range m.after {
		say("  %s", command)
	}
	return nil
}

// checkConfig has the daemon's program read a configuration.
func (o *rolloutOptions) checkConfig(ctx context.Context, path string) error {
	flags, err := o.flagsOf()
	if err != nil {
		return err
	}
	_, err = o.slurmd(ctx, append([]string{"--check-config", "--config", path}, flags...)...)
	return err
}

// changed lists the lines that are taken away and put in.
func changed(before, after string) (lines []string) {
	was, is := bytes.Split([]byte(before), []byte("\n")), bytes.Split([]byte(after), []byte("\n"))
	for _, side := range []struct {
		sign       string
		its, other [][]byte
	}{{"- ", was, is}, {"+ ", is, was}} {
		for _, line := range side.its {
			if !slices.ContainsFunc(side.other, func(l []byte) bool { return bytes.Equal(l, line) }) {
				lines = append(lines, side.sign+string(line))
			}
		}
	}
	return lines
}

// replace puts a new text in a file's place, all or nothing, with the same owner and rights, and keeps the old one
// beside it. Whoever reads the file must find the new one good first.
func replace(ctx context.Context, path string, before, after []byte,
	check func(ctx context.Context, path string) error) (kept string, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	beside := func(pattern string, text []byte) (string, error) {
		file, err := os.CreateTemp(filepath.Dir(path), pattern)
		if err != nil {
			return "", err
		}
		_, err = file.Write(text)
		err = errors.Join(err, file.Chmod(info.Mode().Perm()), file.Sync())
		if owner, is := info.Sys().(*syscall.Stat_t); is && os.Geteuid() == 0 {
			err = errors.Join(err, file.Chown(int(owner.Uid), int(owner.Gid)))
		}
		return file.Name(), errors.Join(err, file.Close())
	}
	fresh, err := beside(filepath.Base(path)+".new-*", after)
	defer func() { os.Remove(fresh) }() // where it has not taken the file's place
	if err != nil {
		return "", err
	}
	if check != nil {
		if err := check(ctx, fresh); err != nil {
			return "", fmt.Errorf("%s stays as it is: %w", path, err)
		}
	}
	kept, err = beside(filepath.Base(path)+".before-"+time.Now().UTC().Format("20060102T150405Z")+"-*", before)
	if err != nil {
		return "", err
	}
	return kept, os.Rename(fresh, path)
}
