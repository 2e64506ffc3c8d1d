// Command synergy-slurmd is the daemon: it holds rounds and reports what they did, in the log, to Prometheus and on its
// pages. What a round does is in package bridge. The command decides when there is a round and with which
// configuration; after a failed round it tries again later and changes nothing meanwhile.
//
// Its listener is never full. Before it would be, it closes the connection that has been silent for longest, or else
// the one that has been served for longest. Pages that take much memory have few places, and metrics, pages and bulk
// data have separate ones. Each name and path of the configuration is checked by preflight, or names_test.go says why
// there is nothing to check.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"github.com/synergy-slurmd/synergy-slurmd/cmd/synergy-slurmd/demo"
	"github.com/synergy-slurmd/synergy-slurmd/ledger"
	"github.com/synergy-slurmd/synergy-slurmd/rollout"
)

// Exit codes.
const (
	exitGood   = 0
	exitFailed = 1
	exitUsage  = 2 // the command line or the configuration is wrong: the same start would fail again
)

// version is set by the linker.
var version string

// garbage is the daemon's GOGC. The daemon uses a small part of a core and reads a large listing now and then:
// collecting twice as often as by default costs little and takes a quarter off the peak of memory.
const garbage = 50 // percent of the live heap

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbage)
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run runs the command line and returns the exit code. release and ledger are verbs: they stand first and have flags of
// their own.
func run(args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == releaseVerb {
		return handBack(args[1:], stdout, stderr)
	}
	if len(args) > 0 && args[0] == ledgerVerb {
		return runLedger(args[1:], stdout, stderr)
	}
	if describes(args) {
		return writeDocs(args, stdout, stderr)
	}
	f, err := parseFlags(args, stdout)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return exitGood
	case err != nil:
		return complain(stderr, err)
	case f.version:
		fmt.Fprintln(stdout, "synergy-slurmd", programVersion())
		return exitGood
	case f.demo:
		return runDemo(stdout, stderr)
	}
	config, err := loadConfig(f.config, f.round)
	if err == nil && f.checkConfig {
		err = checkConfiguration(stdout, f, config)
	}
	switch {
	case err != nil:
		return complain(stderr, err)
	case f.checkConfig:
		return exitGood
	case f.preflight:
		return runPreflight(f, config, stdout, stderr)
	}
	return serve(f, config, stderr)
}

// runDemo writes the demonstration.
func runDemo(stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := demo.Run(ctx, stdout); err != nil {
		fmt.Fprintln(stderr, "synergy-slurmd: demonstration:", err)
		return exitFailed
	}
	return exitGood
}

// complain prints what is wrong with the command line or the configuration.
func complain(stderr io.Writer, err error) int {
	fmt.Fprintln(stderr, "synergy-slurmd:", err)
	return exitUsage
}

// programVersion is the program's version: what the linker was given, or else what the compiler knows of the source.
func programVersion() string {
	if version != "" {
		return version
	}
	if info, known := debug.ReadBuildInfo(); known && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

// serve runs the daemon until a signal ends it, or for one round with --once.
func serve(f flags, config Config, stderr io.Writer) int {
	log, err := newLog(stderr, f.logFormat, f.logLevel)
	if err != nil {
		return complain(stderr, err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	context.AfterFunc(ctx, func() {
		stop() // a second signal ends the process at once
		log.Info().Msg("stopping: a round under way may end")
	})
	if err := runDaemon(ctx, f, config, log); err != nil {
		log.Error().Err(err).Msg("ended")
		return exitFailed
	}
	log.Info().Msg("ended")
	return exitGood
}

// runDaemon builds the daemon, holds its rounds, and closes everything again. The parts refer to one another (the
// election needs the connection to Slurm, whose writes the election fences), so some are filled in after both exist.
func runDaemon(ctx context.Context, f flags, config Config, log zerolog.Logger) error {
	if err := inspectPlugin(f); err != nil {
		return err
	}
	book, err := openLedger(f.ledger, log)
	if err != nil {
		return err
	}
	defer book.Close()
	numbers := newMetrics(sizeOf(book), programVersion())
	numbers.onlyPlans(f.shadow)
	adviser := newPlannerPlugin(f, log, numbers)
	defer adviser.close()
	future := &outlook{}
	// Without a report there is nothing to go on from: estimates begin with the default habits.
	if last, err := book.Latest(); err == nil {
		future.recall(last.Habits)
	}
	manager := &connector{
		outlook: future,
		flags:   f, book: &failoverLedger{Book: book}, log: log, metrics: numbers, config: config,
		planner: adviser.orNone(),
	}
	defer manager.close()
	numbers.ofShelf(manager.learnedCount)
	d, err := newDaemon(f, config, log, numbers)
	if err != nil {
		return err
	}
	numbers.ofHistory(d.history.failing)
	if manager.elector, err = newElector(f, book, lazyTickets{manager}, log, numbers); err != nil {
		return err
	}
	d.connect, d.elector, d.outlook = manager.connect, manager.elector, future
	d.health.status = &daemonStatus{
		health:       d.health,
		learnedCount: manager.learnedCount,
		elector:      func() *elector { return manager.elector },
	}
	d.health.status.config.Store(&config)
	d.health.beside = sources{config: d.health.status.following, learned: manager.learnedProfiles}
	if d.elector != nil {
		d.elector.takeover = manager.takeOver
	}
	log.Info().Str("version", programVersion()).Stringer("period", f.round).Bool("shadow", f.shadow).
		Strs("partitions", config.Partitions).Int("last_round", book.LastRound()).Msg("started")
	if f.once {
		return d.once(ctx)
	}
	return d.serveAndRun(ctx, f, archiveWithHistory{book, d.history})
}

// newDaemon is a daemon without a connection to Slurm and without a ticket, which hold adds.
func newDaemon(f flags, config Config, log zerolog.Logger, numbers *metrics) (*daemon, error) {
	manager, err := newServiceManager()
	if err != nil {
		return nil, err
	}
	health := newHealth(f.round, time.Now())
	health.about = rollout.Daemon{Version: programVersion(), Started: time.Now().UTC(), Shadow: f.shadow,
		Round: f.round.Seconds()}
	health.follows(config)
	return &daemon{
		period:         f.round,
		watch:          f.watch,
		config:         config,
		reload:         func() (Config, error) { return loadConfig(f.config, f.round) },
		journal:        &journal{log: log},
		metrics:        numbers,
		health:         health,
		serviceManager: manager,
		heartbeat:      &heartbeatWriter{log: log, silent: f.shadow},
		savings: &savingsWriter{log: log, metrics: numbers, ill: func(why error) {
			health.setTrouble("rounds are not booked in the ledger of savings", why, remedyOfSavings)
		}},
		outlook: &outlook{},
		history: newHistoryWriter(log),
	}, nil
}

// serveAndRun answers HTTP requests for as long as rounds are held.
func (d *daemon) serveAndRun(ctx context.Context, f flags, reports archive) error {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	d.hangups = hangups
	hangUp, err := d.listen(f, pages(d.health, d.metrics.registry, reports))
	if err != nil {
		return err
	}
	defer hangUp()
	d.run(ctx)
	return nil
}

// listen answers at the address and at the socket, if they are named, until end is called.
func (d *daemon) listen(f flags, handler http.Handler) (end func(), err error) {
	var open []*listening
	end = func() {
		for _, l := range open {
			l.close()
		}
	}
	if f.listen != "" {
		if !isLoopback(f.listen) {
			d.journal.log.Warn().Str("listen",
				f.listen).Msg("whoever reaches this address can read jobs' names and plans: keep it behind a firewall")
		}
		server, err := listen(f.listen, handler)
		if err != nil {
			return nil, err
		}
		open = append(open, server)
	}
	if f.socket != "" {
		server, err := listenAt(f.socket, f.socketPermissions(), handler)
		if err != nil {
			end()
			return nil, err
		}
		open = append(open, server)
	}
	return end, nil
}

// sizeOf returns the function with which Prometheus measures the ledger, in bytes; 0 if its size cannot be read.
func sizeOf(book *ledger.Book) func() float64 {
	return func() float64 {
		size, err := book.Size()
		if err != nil {
			return 0
		}
		return float64(size)
	}
}
