package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/ledger"
	"github.com/synergy-slurmd/synergy-slurmd/printable"
	"github.com/synergy-slurmd/synergy-slurmd/rollout"
)

// Where a daemon is looked for if none is named: first the socket, then the address. The ledger and the savings are a
// daemon's usual ones.
const (
	usualSocket  = "/run/synergy/synergy-slurmd.sock"
	usualAddress = "http://127.0.0.1:9817"
	usualLedger  = "/var/lib/synergy/ledger"
	usualSavings = "/var/lib/synergy/savings"
)

// source is where rounds are read: from a daemon by its address or its socket, or from the ledger of one that is down.
type source struct {
	daemon, ledger string
}

// define adds the flags to a command.
func (s *source) define(where group) {
	where.give(&s.daemon, "daemon", "", "the daemon's `address`, as "+usualAddress+
		", or its socket, as unix:"+usualSocket+" (default: that socket, else that address)")
	where.give(&s.ledger, "ledger", "",
		"the `file` of a daemon that is down, instead (default, where no daemon answers and none is named: "+
			usualLedger+")")
}

// readings are what a source can be asked.
type readings interface {
	// reports are the reports of the rounds that are kept. One that is overwritten meanwhile is left out.
	reports(ctx context.Context) ([]bridge.Report, error)
	// latest is the report of the last round; errNoRound: there was none.
	latest(ctx context.Context) (bridge.Report, error)
}

var errNoRound = errors.New("no round has been held yet")

// reports are the reports of all rounds that are kept.
func (s *source) reports(ctx context.Context) (all []bridge.Report, err error) {
	err = s.ask(func(from readings) error {
		all, err = from.reports(ctx)
		return err
	})
	return all, err
}

// latest is the report of the last round.
func (s *source) latest(ctx context.Context) (last bridge.Report, err error) {
	err = s.ask(func(from readings) error {
		last, err = from.latest(ctx)
		return err
	})
	return last, err
}

// ask asks the ledger that was named, or else the daemon. If none was named and no daemon answers, it asks the usual
// ledger.
func (s *source) ask(question func(readings) error) error {
	if s.ledger != "" && s.daemon != "" {
		return errors.New("--ledger, --daemon: are two places to read rounds: want one of them")
	}
	if s.ledger != "" {
		return question(shut(s.ledger))
	}
	daemon, err := s.remote()
	if err != nil {
		return err
	}
	err = question(daemon)
	if s.daemon == "" && errors.Is(err, errSilent) {
		if kept := question(shut(usualLedger)); !errors.Is(kept, os.ErrNotExist) && !errors.Is(kept, os.ErrPermission) {
			return kept
		}
	}
	return err
}

// newest is the number of the last round that a daemon keeps; 0: none.
func (s *source) newest(ctx context.Context) (newest int, err error) {
	daemon, err := s.remote()
	if err != nil {
		return 0, err
	}
	var rounds []int
	if err := daemon.get(ctx, "/rounds", &rounds); err != nil {
		return 0, err
	}
	for _, round := range rounds {
		newest = max(newest, round)
	}
	return newest, nil
}

// health is what the daemon says of itself. A ledger does not have that.
func (s *source) health(ctx context.Context) (rollout.Standing, error) {
	var d rollout.Standing
	if s.ledger != "" {
		return d, unseen{errors.New("a ledger was named, and no daemon asked")}
	}
	daemon, err := s.remote()
	if err == nil {
		err = daemon.get(ctx, "/status", &d)
	}
	return d, err
}

// shut is the path of the ledger of a daemon that is down.
type shut string

func (s shut) reports(context.Context) (all []bridge.Report, err error) {
	err = s.read(func(book *ledger.Book) error {
		all, err = book.Reports()
		return err
	})
	return all, err
}

func (s shut) latest(context.Context) (last bridge.Report, err error) {
	err = s.read(func(book *ledger.Book) error {
		last, err = book.Latest()
		if errors.Is(err, ledger.ErrNoReport) {
			return fmt.Errorf("ledger %s: %w", string(s), errNoRound)
		}
		return err
	})
	return last, err
}

func (s shut) read(look func(*ledger.Book) error) error {
	book, err := openLedger(string(s))
	if err != nil {
		return err
	}
	defer book.Close()
	return look(book)
}

// Limits on a daemon's answers. A report of a large cluster is some megabytes.
const (
	answerLimit = time.Minute
	answerBytes = 1 << 28
	answerWords = 1 << 10 // of an error's text
)

// remote is a daemon that is asked over HTTP.
type remote struct {
	at     *url.URL
	client *http.Client
}

// remote is the daemon that was named, or the usual one on this host.
func (s *source) remote() (remote, error) {
	name := s.daemon
	if name == "" {
		name = usualAddress
		if info, err := os.Stat(usualSocket); err == nil && info.Mode()&os.ModeSocket != 0 {
			name = usualSocket
		}
	}
	if path := strings.TrimPrefix(name, "unix:"); filepath.IsAbs(path) {
		return bySocket(filepath.Clean(path)), nil
	}
	at, err := url.Parse(name)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" {
		return remote{}, fmt.Errorf("--daemon %.80q: want an address as %s, or a socket as unix:%s", name, usualAddress,
			usualSocket)
	}
	return remote{at, &http.Client{Timeout: answerLimit}}, nil
}

// bySocket is the daemon that listens at a unix socket.
func bySocket(path string) remote {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}
	return remote{&url.URL{Scheme: "http", Host: "localhost"},
		&http.Client{Timeout: answerLimit, Transport: &http.Transport{DialContext: dial}}}
}

// reports are the reports of the rounds that the daemon keeps.
func (a remote) reports(ctx context.Context) ([]bridge.Report, error) {
	var rounds []int
	if err := a.get(ctx, "/rounds", &rounds); err != nil {
		return nil, err
	}
	var reports []bridge.Report
	for _, round := range rounds {
		var report bridge.Report
		err := a.get(ctx, "/round/"+strconv.Itoa(round), &report)
		switch {
		case errors.Is(err, errGone):
		case err != nil:
			return nil, err
		default:
			reports = append(reports, report)
		}
	}
	return reports, nil
}

// latest is the report of the last round.
func (a remote) latest(ctx context.Context) (last bridge.Report, err error) {
	if err = a.get(ctx, "/round", &last); errors.Is(err, errGone) {
		err = unseen{errNoRound}
	}
	return last, err
}

var (
	errGone   = errors.New("no such page")
	errSilent = errors.New("is the daemon down? Then name its ledger: --ledger FILE")
)

// get reads a page as JSON. errGone: there is no such page; errSilent: no daemon answers.
func (a remote) get(ctx context.Context, path string, into any) error {
	text, err := a.text(ctx, path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return unseen{fmt.Errorf("%s: want what synergy-slurmd answers: %w", path, err)}
	}
	return nil
}

// text is the content of a page. The path may have a query.
func (a remote) text(ctx context.Context, path string) ([]byte, error) {
	path, query, _ := strings.Cut(path, "?")
	at := a.at.JoinPath(path)
	at.RawQuery = query
	page := at.String()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return nil, err
	}
	answer, err := a.client.Do(request)
	if err != nil {
		return nil, unseen{fmt.Errorf("%w: %w", err, errSilent)}
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, unseen{refused(page, answer)}
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, answerBytes))
	if err != nil {
		return nil, unseen{fmt.Errorf("%s: %w", page, err)}
	}
	return text, nil
}

// refused is the error of an answer that is not OK, with its text.
func refused(page string, answer *http.Response) error {
	words, _ := io.ReadAll(io.LimitReader(answer.Body, answerWords)) // the status alone says enough
	if answer.StatusCode == http.StatusNotFound {
		return fmt.Errorf("%s: %w: %s", page, errGone, printable.Line(string(words), 300))
	}
	says := printable.Line(answer.Status+": "+string(words), 300)
	return fmt.Errorf("%s: %s", page, strings.TrimSuffix(says, ":"))
}
