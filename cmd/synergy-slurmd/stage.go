package main

import (
	"context"
	"errors"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/internal/cli/ask"
	"github.com/synergy-slurmd/synergy-slurmd/preflight"
	"github.com/synergy-slurmd/synergy-slurmd/rollout"
	"github.com/synergy-slurmd/synergy-slurmd/savings"
	"github.com/synergy-slurmd/synergy-slurmd/savings/book"
)

// stageOf asks the daemon on this host, if one runs, how far the rollout has come.
func stageOf(ctx context.Context, f flags, config Config) rollout.Facts {
	const answersWithin = 20 * time.Second
	ctx, cancel := context.WithTimeout(ctx, answersWithin)
	defer cancel()
	var facts rollout.Facts
	daemon, err := clientOf(f)
	if err == nil {
		err = daemon.Get(ctx, "/status", &facts.Daemon.Value)
	}
	if err != nil {
		facts.Daemon.Why = err.Error()
		return facts
	}
	reports, err := daemon.Reports(ctx)
	facts.Rounds = factOf(rollout.OfStage(&facts.Daemon.Value, reports), err)
	facts.Savings = factOf(savedBy(config.Savings, facts.Daemon.Value.Shadow, time.Now()))
	return facts
}

// clientOf reads the pages of the daemon that was started with these flags: by its socket if there is one.
func clientOf(f flags) (ask.Client, error) {
	switch {
	case ask.IsSocket(f.socket):
		return ask.BySocket(f.socket), nil
	case f.listen == "":
		return ask.Client{}, errors.New("it is told to listen nowhere")
	}
	return ask.Named("http://" + f.listen)
}

// savedBy sums up the ledger of savings over the last days, for rounds in shadow mode or for others.
func savedBy(folder string, shadow bool, now time.Time) (rollout.Savings, error) {
	if folder == "" {
		return rollout.Savings{}, errors.New("no ledger of savings is kept")
	}
	sums, err := bookedLately(folder, shadow, now)
	if err != nil {
		return rollout.Savings{}, err
	}
	ran := 0.0
	if sums.Checks > 0 {
		ran = sums.Ran / float64(sums.Checks)
	}
	return rollout.Savings{Checks: sums.Checks, Ran: ran,
		Known: sums.Known / time.Hour.Seconds(), Saved: sums.Saved / time.Hour.Seconds(),
		Ended: sums.Ended, Later: sums.Later, Belated: time.Duration(sums.Belated * float64(time.Second))}, nil
}

// bookedLately adds up the ledger of savings over the last days, for rounds in shadow mode or for others.
func bookedLately(folder string, shadow bool, now time.Time) (savings.Sums, error) {
	lines, _, err := book.Read(folder, now.Add(-savedOver), now)
	var sums savings.Sums
	for _, l := range lines {
		if l.Shadow == shadow {
			sums = sums.Plus(l.Sums)
		}
	}
	return sums, err
}

// stageLines are the lines of --check about the stage of the rollout.
func stageLines(ctx context.Context, f flags, config Config) []preflight.Line {
	return rollout.Lines(stageOf(ctx, f, config))
}
