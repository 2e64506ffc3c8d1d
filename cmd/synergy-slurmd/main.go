// Command synergy-slurmd is the daemon: it holds rounds and tells what they did, in the log, to Prometheus and on its
// pages. What a round does is package bridge's business; the command decides when there is one, with which
// configuration, and what to do when it fails, which is to try again later and to change nothing meanwhile.
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

	"github.com/synergy-slurmd/synergy-slurmd/cmd/internal/usage"
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

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == release {
		return handBack(args[1:], stdout, stderr)
	}
	if len(args) > 0 && args[0] == keep {
		return keepFiles(args[1:], stdout, stderr)
	}
	if describes(args) {
		return documented(args, stdout, stderr)
	}
	f, err := parseFlags(args, stdout)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return exitGood
	case err != nil:
		return complain(stderr, err)
	case f.version:
		fmt.Fprintln(stdout, "synergy-slurmd", running())
		return exitGood
	case f.demo:
		return show(stdout, stderr)
	}
	config, err := loadConfig(f.config, f.round)
	if err == nil && f.checkConfig {
		err = inspect(stdout, f, config)
	}
	switch {
	case err != nil:
		return complain(stderr, err)
	case f.checkConfig:
		return exitGood
	case f.preflight:
		return look(f, config, stdout, stderr)
	}
	return serve(f, config, stderr)
}

// show plays the demonstration; on a terminal at a pace that can be followed.
func show(stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	var options demo.Options
	if file, is := stdout.(*os.File); is {
		options = demo.OptionsFor(file)
	}
	if err := demo.Run(ctx, stdout, options); err != nil {
		fmt.Fprintln(stderr, "synergy-slurmd: demonstration:", err)
		return exitFailed
	}
	return exitGood
}

// complain tells the person at the terminal what to mend.
func complain(stderr io.Writer, err error) int {
	if errors.As(err, new(usage.Wrong)) {
		fmt.Fprintln(stderr, err)
		return exitUsage
	}
	fmt.Fprintln(stderr, "synergy-slurmd:", err)
	return exitUsage
}

// running is the version that runs: what the linker was told, or else what the compiler knows of the source.
func running() string {
	if version != "" {
		return version
	}
	if info, known := debug.ReadBuildInfo(); known && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

// serve holds rounds until a signal ends it, or one.
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
	if err := hold(ctx, f, config, log); err != nil {
		log.Error().Err(err).Msg("ended")
		return exitFailed
	}
	log.Info().Msg("ended")
	return exitGood
}

// hold puts the daemon together, holds its rounds, and takes it apart again.
func hold(ctx context.Context, f flags, config Config, log zerolog.Logger) error {
	if err := inspectPlugin(f); err != nil {
		return err
	}
	book, err := openLedger(f.ledger, log)
	if err != nil {
		return err
	}
	defer book.Close()
	numbers := newMetrics(sizeOf(book), running())
	numbers.onlyPlans(f.shadow)
	adviser := newAdviser(f, log, numbers)
	defer adviser.close()
	future := &outlook{}
	if last, err := book.Latest(); err == nil {
		future.recall(last.Habits)
	}
	slurm := &connector{
		outlook: future,
		flags:   f, book: &recollection{Book: book}, log: log, metrics: numbers, config: config,
		planner: adviser.orNone(),
	}
	defer slurm.close()
	numbers.ofShelf(slurm.taught)
	d, err := newDaemon(f, config, log, numbers)
	if err != nil {
		return err
	}
	numbers.ofHistory(d.history.failing)
	if slurm.seat, err = newSeat(f, book, queue{slurm}, log, numbers); err != nil {
		return err
	}
	d.connect, d.seat, d.outlook = slurm.connect, slurm.seat, future
	d.health.stands = &standing{health: d.health, taught: slurm.taught, seat: func() *seat { return slurm.seat }}
	d.health.stands.config.Store(&config)
	d.health.beside = sources{config: d.health.stands.following, learned: slurm.known}
	if d.seat != nil {
		d.seat.takeover = slurm.succeed
	}
	log.Info().Str("version", running()).Stringer("period", f.round).Bool("shadow", f.shadow).
		Strs("partitions", config.Partitions).Int("last_round", book.LastRound()).Msg("started")
	if f.once {
		return d.once(ctx)
	}
	return d.serveAndRun(ctx, f, remembered{book, d.history})
}

func newDaemon(f flags, config Config, log zerolog.Logger, numbers *metrics) (*daemon, error) {
	manager, err := newManager()
	if err != nil {
		return nil, err
	}
	health := newHealth(f.round, time.Now())
	health.about = rollout.Daemon{Version: running(), Started: time.Now().UTC(), Shadow: f.shadow,
		Round: f.round.Seconds()}
	health.follows(config)
	return &daemon{
		period:  f.round,
		watch:   f.watch,
		config:  config,
		reload:  func() (Config, error) { return loadConfig(f.config, f.round) },
		journal: &journal{log: log},
		metrics: numbers,
		health:  health,
		manager: manager,
		heart:   &heart{log: log, silent: f.shadow},
		savings: &accountant{log: log, metrics: numbers, ill: func(why error) {
			health.note("rounds are not booked in the ledger of savings", why, remedyOfSavings)
		}},
		outlook: &outlook{},
		history: newHistorian(log),
	}, nil
}

// serveAndRun answers requests for as long as rounds are held.
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

// listen answers at the address and at the socket, where they are named, until the function that it returns is called.
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

// sizeOf measures the ledger whenever Prometheus asks.
func sizeOf(book *ledger.Book) func() float64 {
	return func() float64 {
		size, err := book.Size()
		if err != nil {
			return 0
		}
		return float64(size)
	}
}
