package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/ledger"
)

// handBack is the command release: every waiting job goes back to Slurm, and the command ends. A living daemon keeps
// its jobs. For the timer (--if-dead) and for systemd (--stop-post) that is as it should be, and exits with 0; an
// administrator is told why nothing was done.
func handBack(args []string, stdout, stderr io.Writer) int {
	f, err := parseRelease(args, stdout)
	if errors.Is(err, pflag.ErrHelp) {
		return exitGood
	}
	var log zerolog.Logger
	if err == nil {
		log, err = newLog(stderr, f.logFormat, f.logLevel)
	}
	if err != nil {
		return complain(stderr, err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if f.stopPost != "" && comesBack(ctx, f.stopPost, log) {
		return exitGood
	}
	err = releaseAll(ctx, f, log)
	if f.ifDead && (errors.Is(err, slurm.ErrNotLeader) || errors.Is(err, ledger.ErrLocked)) {
		log.Debug().Err(err).Msg("nothing is handed back: a daemon lives")
		return exitGood
	}
	if f.stopPost != "" && errors.Is(err, slurm.ErrNotLeader) {
		log.Info().Err(err).Msg("nothing is handed back: the jobs are another daemon's now")
		return exitGood
	}
	if errors.Is(err, slurm.ErrNotLeader) {
		log.Error().Err(err).Str("remedy",
			"that daemon would take the jobs up again: stop it, and hand back there").Msg("release refused")
		return exitFailed
	}
	if err != nil {
		log.Error().Err(err).Str("remedy",
			"say it again; what is not handed back starts when its lease lapses").Msg("release failed")
		return exitFailed
	}
	return exitGood
}

// releaseAll hands every waiting job back. The heartbeat is removed first, so that no new job is gated meanwhile.
func releaseAll(ctx context.Context, f flags, log zerolog.Logger) error {
	config := configuration(f, log)
	book, closed, err := openRecords(f.ledger, log)
	if err != nil {
		return err
	}
	defer closed()
	client, elector, err := connectAsLeader(ctx, f, config, book, log)
	// Also if Slurm does not answer: without a heartbeat the gate lets new jobs pass, and the leases of the others end.
	// If another daemon leads, the heartbeat is that daemon's.
	if !f.shadow && !errors.Is(err, slurm.ErrNotLeader) {
		(&heartbeatWriter{log: log}).stop(config)
	}
	if err != nil {
		return err
	}
	defer client.close()
	defer elector.join()()
	runner := &bridge.Runner{
		Slurm: elector.fence(client), Leases: elector.fenceLeases(client.leases), Ledger: book, Clock: wall{},
		Settings: settings(config, f, nil, 0),
		Last:     book.LastRound()}
	report, err := runner.Release(ctx)
	return errors.Join(err, logRelease(log, report))
}

// connectAsLeader opens Slurm and becomes the leader there, since a living daemon would manage the jobs again in its
// next round. It waits for a dead daemon until that is certain.
func connectAsLeader(
	ctx context.Context,
	f flags,
	config Config,
	book recordStore,
	log zerolog.Logger,
) (*workloadManager, *elector, error) {
	client, err := (&connector{flags: f, log: log}).dial(ctx, config)
	if err != nil || f.shadow || f.alone {
		return client, nil, err
	}
	identity, err := nameOf(book)
	s := &elector{log: log, show: func(bool) {}, takeover: func() {}, leadGained: make(chan struct{}, 1)}
	s.member = newMember(f, identity, client.tickets)
	if err == nil {
		err = s.win(ctx)
	}
	if err != nil {
		client.close()
		return nil, nil, err
	}
	return client, s, nil
}

// nameOf is the identity in the ledger, so that the ticket of the daemon that had the ledger counts as ours. Without a
// ledger it is a new name.
func nameOf(book recordStore) (string, error) {
	if kept, is := book.(*ledger.Book); is {
		return kept.Identity()
	}
	return fmt.Sprintf("release-%08x", rand.Uint32()), nil
}

// configuration is the configuration file's, or one without partitions if the file cannot be used: a broken file must
// not stop an administrator from removing the daemon.
func configuration(f flags, log zerolog.Logger) Config {
	config, err := loadConfig(f.config, f.round)
	if err != nil {
		log.Warn().Err(err).Msg(
			"without a configuration jobs are known by the annotations that they carry, in any partition")
		return defaults(f.round)
	}
	return config
}

// recordStore is what is known of jobs beside their annotations.
type recordStore interface {
	bridge.Ledger
	LastRound() int
}

// openRecords opens the ledger. A missing one is not made, and one that cannot be read stays as it is: the annotations
// of the jobs have what is needed. It is an error if the ledger is locked, since then a daemon runs.
func openRecords(path string, log zerolog.Logger) (book recordStore, closed func(), err error) {
	nothing := func() {}
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return &ledger.Memory{}, nothing, nil
	}
	opened, err := ledger.Open(path, ledger.Options{})
	switch {
	case errors.Is(err, ledger.ErrLocked):
		return nil, nil, fmt.Errorf("open ledger %s: %w: stop the daemon first, or it would take the jobs up again",
			path, ledger.ErrLocked)
	case err != nil:
		log.Warn().Err(err).Msg("without the ledger jobs are known by the annotations that they carry")
		return &ledger.Memory{}, nothing, nil
	}
	return opened, func() { opened.Close() }, nil
}

// logRelease logs the report: the steps first, then the jobs that are left as they are, then one line that sums it up.
func logRelease(log zerolog.Logger, report bridge.Report) error {
	(&journal{log: log}).audit(report)
	for _, o := range report.Outside {
		log.Info().Int("job", o.Job).Str("reason", o.Why).Msg("left as it is")
	}
	for _, n := range report.Notes {
		log.Warn().Int("job", n.Job).Str("reason", n.Text).Msg("not handed back yet")
	}
	c := count(report)
	log.Info().Int("released", c.of(bridge.Release)).Int("left", len(report.Outside)).Int("coming", len(report.Notes)).
		Int("failed", c.failures()).Bool("shadow", report.Shadow).Msg("handed back to slurm")
	if n := c.failures(); n > 0 {
		return fmt.Errorf("%d of %d jobs could not be handed back", n, len(report.Steps))
	}
	return nil
}
