package ask

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/ledger"
	"github.com/synergy-slurmd/synergy-slurmd/rollout"
)

// Source is where rounds are read: from a daemon by its address or its socket, or from the ledger of one that is down.
// Where neither is named, the daemon on this host is asked, and if none answers the usual ledger is read.
type Source struct{ Daemon, Ledger string }

// roundReader are what a source can be asked.
type roundReader interface {
	// Reports are the reports of the rounds that are kept.
	Reports(ctx context.Context) ([]bridge.Report, error)
	// Latest is the report of the last round; ErrNoRound: there was none.
	Latest(ctx context.Context) (bridge.Report, error)
}

// Reports are the reports of all rounds that are kept.
func (s *Source) Reports(ctx context.Context) (all []bridge.Report, err error) {
	err = s.ask(func(from roundReader) error {
		all, err = from.Reports(ctx)
		return err
	})
	return all, err
}

// Latest is the report of the last round. The error is ErrNoRound if there was none.
func (s *Source) Latest(ctx context.Context) (last bridge.Report, err error) {
	err = s.ask(func(from roundReader) error {
		last, err = from.Latest(ctx)
		return err
	})
	return last, err
}

// ask puts a question to the ledger that was named, or else to the daemon. If neither was named and no daemon answers,
// it puts the question to the usual ledger. If that ledger is missing or may not be read by this user, the error is the
// daemon's: the ledger was only a second choice.
func (s *Source) ask(question func(roundReader) error) error {
	if s.Ledger != "" && s.Daemon != "" {
		return errors.New("--ledger, --daemon: are two places to read rounds: want one of them")
	}
	if s.Ledger != "" {
		return question(ledgerFile(s.Ledger))
	}
	daemon, err := s.client()
	if err != nil {
		return err
	}
	err = question(daemon)
	if s.Daemon == "" && errors.Is(err, ErrSilent) {
		if kept := question(ledgerFile(UsualLedger)); !errors.Is(kept, os.ErrNotExist) &&
			!errors.Is(kept, os.ErrPermission) {
			return kept
		}
	}
	return err
}

// client is the client of the daemon that was named, or of the usual one on this host: at its socket if there is one,
// else at its address.
func (s *Source) client() (Client, error) {
	name := s.Daemon
	if name == "" {
		name = UsualAddress
		if IsSocket(UsualSocket) {
			name = UsualSocket
		}
	}
	c, err := Named(name)
	if err != nil {
		return c, fmt.Errorf("--daemon %w", err)
	}
	c.remedy = "is the daemon down? Then name its ledger: --ledger FILE"
	return c, nil
}

// Newest is the number of the last round that the daemon keeps, or 0 if it keeps none. A caller that polls asks for it
// first, since it is less to read than a report. The usual ledger is not read in its place, so an error says whether a
// daemon answers.
func (s *Source) Newest(ctx context.Context) (newest int, err error) {
	daemon, err := s.client()
	if err != nil {
		return 0, err
	}
	var rounds []int
	if err := daemon.Get(ctx, "/rounds", &rounds); err != nil {
		return 0, err
	}
	for _, round := range rounds {
		newest = max(newest, round)
	}
	return newest, nil
}

// Health is what the daemon says of itself. A ledger does not have that. So if a ledger was named, the error is an
// Unseen, and the caller goes on without this part of its answer.
func (s *Source) Health(ctx context.Context) (d rollout.Standing, err error) {
	if s.Ledger != "" {
		return d, Unseen{errors.New("a ledger was named, and no daemon asked")}
	}
	daemon, err := s.client()
	if err == nil {
		err = daemon.Get(ctx, "/status", &d)
	}
	return d, err
}

// ledgerFile is the path of the ledger of a daemon that is down, as a roundReader.
type ledgerFile string

// Reports are the reports of the rounds that the ledger keeps.
func (s ledgerFile) Reports(context.Context) (all []bridge.Report, err error) {
	err = s.read(func(book *ledger.Book) error {
		all, err = book.Reports()
		return err
	})
	return all, err
}

// Latest is the report of the last round. The error is ErrNoRound if the ledger has none.
func (s ledgerFile) Latest(context.Context) (last bridge.Report, err error) {
	err = s.read(func(book *ledger.Book) error {
		last, err = book.Latest()
		if errors.Is(err, ledger.ErrNoReport) {
			return fmt.Errorf("ledger %s: %w", string(s), ErrNoRound)
		}
		return err
	})
	return last, err
}

// read opens the ledger, lets look read it, and closes it at once, because a daemon that starts meanwhile needs the
// lock on the file.
func (s ledgerFile) read(look func(*ledger.Book) error) error {
	book, err := openLedger(string(s))
	if err != nil {
		return err
	}
	defer book.Close()
	return look(book)
}
