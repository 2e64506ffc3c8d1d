package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"github.com/synergy-slurmd/synergy-slurmd/cmd/internal/times"
)

// flags are the settings that only a restart can change.
type flags struct {
	config      string
	round       time.Duration // between two full rounds
	watch       time.Duration // between two looks for a small round; 0: none
	once        bool
	demo        bool
	shadow      bool
	alone       bool // no ticket in Slurm is taken
	checkConfig bool
	preflight   bool // --check
	asJSON      bool
	version     bool

	slurmrestd string
	user       string
	tokenFile  string
	apiVersion string
	scontrol   string
	byToken    bool // scontrol gets the token

	slurmPlugin string
	slurmSum    string // SHA-256 of the plugin's program; empty: any program
	slurmConfig string // file that is handed to the plugin

	planner      string
	plannerSum   string
	plannerLimit time.Duration // for one plan; 0: a part of a round

	ledger string
	listen string
	// a second place to listen, and its permissions
	socket, socketMode string

	stopPost  string // of release: the unit that was stopped
	ifDead    bool   // of release: only if no daemon leads
	logFormat string
	logLevel  string
}

// Formats of the log.
const (
	logJSON    = "json"
	logConsole = "console"
)

const usageDaemon = `synergy-slurmd gives GPU jobs on Slurm the CPUs and memory that their models need.

Each round it decides who runs, where and with how much, and makes Slurm do it. When it
stops, Slurm goes on by itself.

Usage: synergy-slurmd [flags]
       synergy-slurmd release [flags]     hand every waiting job back to Slurm, and exit
       synergy-slurmd ledger backup FILE  write what the daemon remembers to a file; ledger restore FILE

`

const usageRelease = `synergy-slurmd release hands every waiting job back to Slurm: its user's own request, no
nodes chosen, no begin time but its user's. What runs is not touched, nor what is held.

It is safe to say again. The daemon must have been stopped. Flags that only concern rounds
are taken and mean nothing, so that both can be given the same ones; with --shadow nothing
is changed. Without a configuration that can be read, jobs of any partition are handed back
that carry the daemon's annotation.

Usage: synergy-slurmd release [flags]

`

// releaseVerb is a verb: a first argument that selects another command.
const releaseVerb = "release"

// parseFlags reads the command line of the daemon. The error is pflag.ErrHelp if the usage was asked for and written.
func parseFlags(args []string, out io.Writer) (flags, error) {
	var f flags
	set := newFlagSet(out, usageDaemon)
	f.define(set)
	if err := parse(set, args); err != nil {
		return flags{}, err
	}
	return f, f.check()
}

// parseRelease reads the arguments after the verb release.
func parseRelease(args []string, out io.Writer) (flags, error) {
	var f flags
	set := newFlagSet(out, usageRelease)
	f.defineRelease(set)
	if err := parse(set, args); err != nil {
		return flags{}, err
	}
	if f.ifDead && f.alone {
		return flags{},
			errors.New("--if-dead asks whether a daemon lives, which shows by its ticket: leave --alone out")
	}
	if f.once || f.demo || f.checkConfig || f.preflight || f.version {
		return flags{}, errors.New("release goes with none of --once, --demo, --check-config, --check, --version")
	}
	return f, f.check()
}

func newFlagSet(out io.Writer, about string) *pflag.FlagSet {
	set := pflag.NewFlagSet("synergy-slurmd", pflag.ContinueOnError)
	set.SortFlags = false
	set.SetOutput(out)
	set.Usage = func() { fmt.Fprint(out, about, set.FlagUsages()) }
	return set
}

// parse parses the flags. A word that is none is an error: no command takes one there.
func parse(set *pflag.FlagSet, args []string) error {
	if err := set.Parse(args); err != nil {
		return err
	}
	if set.NArg() > 0 {
		return fmt.Errorf(
			"unexpected argument %q: everything is a flag or in the configuration file, but for release and "+
				"ledger, which stand first", set.Arg(0))
	}
	return nil
}

// defineRelease adds the flags of release to those of the daemon, of which it takes all, so that both can be started
// with the same ones.
func (f *flags) defineRelease(set *pflag.FlagSet) {
	f.define(set)
	set.StringVar(&f.stopPost, "stop-post", "",
		"for ExecStopPost: do nothing when systemd is about to start this `unit` again")
	set.BoolVar(&f.ifDead, "if-dead", false, "for a timer: do nothing, and exit with 0, while a daemon lives")
}

func (f *flags) define(set *pflag.FlagSet) {
	set.StringVar(&f.config, "config", "/etc/synergy/synergy-slurmd.yaml",
		"configuration `file`; SIGHUP reads it again")
	times.Var(set, &f.round, "round", 300*time.Second, "time between rounds")
	times.Var(set, &f.watch, "watch", time.Second,
		"time between looks for what may start before the next round; 0 for none")
	set.BoolVar(&f.once, "once", false, "hold one round and exit")
	set.BoolVar(&f.shadow, "shadow", false, "decide and report, but change nothing in Slurm")
	set.BoolVar(&f.alone, "alone", false, "take no ticket in Slurm: you promise that there is no second daemon")
	set.BoolVar(&f.demo, "demo", false,
		"show rounds on a Slurm in memory, without Slurm and without a configuration, and exit")
	set.BoolVar(&f.checkConfig, "check-config", false,
		"read the configuration and the profiles, say what is wrong, and exit")

	set.BoolVar(&f.preflight, "check", false,
		"say whether Slurm and this host are ready for the daemon, line by line with the remedy, and exit")
	set.BoolVar(&f.asJSON, "json", false, "with --check: the lines as JSON")

	set.StringVar(&f.slurmrestd, "slurmrestd", "http://127.0.0.1:6820", "`URL` of slurmrestd, http://… or unix:/…")
	set.StringVar(&f.user, "user", "synergy", "Slurm `user` to act as, an operator")
	set.StringVar(&f.tokenFile, "token-file", "/var/lib/synergy/token",
		"`file` with that user's JSON web token, readable by its owner only")
	set.StringVar(&f.apiVersion, "api-version", "",
		"`version` of the REST API, as v0.0.42; empty takes the newest known to both sides")
	set.StringVar(&f.scontrol, "scontrol", "scontrol",
		"`program` for what the REST API cannot do: split arrays and, before v0.0.45, requeue")
	set.BoolVar(&f.byToken, "scontrol-by-token", false, "give scontrol the token too, on a host without munge")

	set.StringVar(&f.slurmPlugin, "slurm-plugin", "",
		"`program` that drives the workload manager in place of slurmrestd; the flags above are not its business")
	set.StringVar(&f.slurmSum, "slurm-plugin-sha256", "", "its `checksum`: another program of that name is not started")
	set.StringVar(&f.slurmConfig, "slurm-plugin-config", "", "`file` that is handed to it as it is")

	set.StringVar(&f.planner, "planner-plugin", "",
		"`program` that plans rounds in place of the built-in planner, which stands in for it")
	set.StringVar(&f.plannerSum, "planner-plugin-sha256", "",
		"its `checksum`: another program of that name is not started")
	times.Var(set, &f.plannerLimit, "planner-plugin-timeout", 0,
		"for one plan; 0 is a quarter of a round, 30s at most")

	set.StringVar(&f.ledger, "ledger", "/var/lib/synergy/ledger",
		"`file` with attained service and the last reports; locked: one daemon has it at a time")
	set.StringVar(&f.listen, "listen", "127.0.0.1:9817", "`address` for /metrics, /healthz and /round; empty for none")
	set.StringVar(&f.socket, "socket", "",
		"`file` of a unix socket with the same pages, as /run/synergy/synergy-slurmd.sock; empty for none")
	set.StringVar(&f.socketMode, "socket-mode", "0660",
		"its `permissions`: 0660 for the daemon's group, 0666 for everybody on this host")
	set.StringVar(&f.logFormat, "log-format", logJSON, "json or console")
	set.StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error")
	set.BoolVar(&f.version, "version", false, "print the version and exit")
}

// watches reports whether small rounds are held, at least every 5 s. Then what cannot wait for the next round can be
// left to a small round.
func (f *flags) watches() bool { return f.watch > 0 && f.watch < f.round && f.watch <= often }

// often is the longest time between two looks with which a round may rely on small rounds.
const often = 5 * time.Second

// check finds what is wrong with the flags by themselves.
func (f *flags) check() error {
	if f.round < time.Second || f.round > day {
		return fmt.Errorf("--round %s is out of range: want 1s to 24h, 5m is usual", f.round)
	}
	if f.watch < 0 || f.watch > 0 && f.watch < 100*time.Millisecond {
		return fmt.Errorf(
			"--watch %s is out of range: want 100ms or more, 1s is usual, or 0 for no looks between rounds", f.watch)
	}
	if f.logFormat != logJSON && f.logFormat != logConsole {
		return fmt.Errorf("--log-format %q: want json or console", f.logFormat)
	}
	if level, err := zerolog.ParseLevel(f.logLevel); err != nil || level < zerolog.DebugLevel ||
		level > zerolog.ErrorLevel {
		return fmt.Errorf("--log-level %q: want debug, info, warn or error", f.logLevel)
	}
	if _, _, err := net.SplitHostPort(f.listen); f.listen != "" && err != nil {
		return fmt.Errorf("--listen %q: want an address and a port, as 127.0.0.1:9817, or nothing", f.listen)
	}
	if err := f.checkSocket(); err != nil {
		return err
	}
	if err := checkURL(f.slurmrestd); f.slurmPlugin == "" && err != nil {
		return err
	}
	if f.plannerLimit < 0 || f.plannerLimit >= f.round {
		return fmt.Errorf("--planner-plugin-timeout %s: want less than a round of %s", f.plannerLimit, f.round)
	}
	if f.demo && f.planner != "" {
		return errors.New(
			"--demo shows the built-in planner: leave --planner-plugin out, and try a plugin with synergy plugin check")
	}
	if f.planner == "" && (f.plannerSum != "" || f.plannerLimit != 0) {
		return errors.New(
			"--planner-plugin-sha256 and --planner-plugin-timeout are of a plugin: name it with --planner-plugin")
	}
	if f.slurmPlugin == "" && (f.slurmSum != "" || f.slurmConfig != "") {
		return errors.New(
			"--slurm-plugin-sha256 and --slurm-plugin-config are of a plugin: name it with --slurm-plugin")
	}
	if f.asJSON && !f.preflight {
		return errors.New("--json is of --check: say that too")
	}
	if f.preflight && (f.once || f.demo || f.checkConfig) {
		return errors.New("--check goes with none of --once, --demo, --check-config")
	}
	if f.ledger == "" {
		return errors.New("--ledger is empty: name a file, the daemon will make it")
	}
	return nil
}

// checkURL says what is wrong with the address of slurmrestd. A host and a port alone read like a URL whose scheme is
// the host.
func checkURL(address string) error {
	if path, isSocket := strings.CutPrefix(address, "unix:"); isSocket {
		if strings.TrimPrefix(path, "//") == "" {
			return fmt.Errorf("--slurmrestd %q: names no socket: want unix:/run/slurmrestd.sock", address)
		}
		return nil
	}
	parsed, err := url.Parse(address)
	if err == nil && parsed.Host != "" && (parsed.Scheme == "http" || parsed.Scheme == "https") {
		return nil
	}
	if _, _, err := net.SplitHostPort(address); err == nil {
		return fmt.Errorf("--slurmrestd %q: has no scheme: want http://%s", address, address)
	}
	return fmt.Errorf("--slurmrestd %q: want http://host:6820 or unix:/path", address)
}

// isLoopback reports whether only this host can reach the address.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
