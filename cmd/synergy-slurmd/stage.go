package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
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
	daemon := pagesOf(f)
	facts.Daemon.Why = why(daemon.get(ctx, "/status", &facts.Daemon.Value))
	if facts.Daemon.Why != "" {
		return facts
	}
	reports, err := daemon.reports(ctx)
	facts.Rounds = known(rollout.OfStage(&facts.Daemon.Value, reports), err)
	facts.Savings = known(savedBy(config.Savings, facts.Daemon.Value.Shadow, time.Now()))
	return facts
}

func why(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}

// daemonPages reads the pages of a running daemon.
type daemonPages struct {
	client *http.Client
	host   string
}

// pagesOf reads the pages of the daemon that was started with these flags: by its socket if there is one.
func pagesOf(f flags) daemonPages {
	if info, err := os.Stat(f.socket); err == nil && info.Mode()&os.ModeSocket != 0 {
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", f.socket)
		}
		return daemonPages{&http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}},
			"localhost"}
	}
	return daemonPages{&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, f.listen}
}

// largestPage bounds an answer, in bytes. A report of a large cluster is some megabytes.
const largestPage = 1 << 28

var errNoPage = errors.New("no such page")

// get reads a page as JSON. errNoPage: there is no such page.
func (p daemonPages) get(ctx context.Context, path string, into any) error {
	if p.host == "" {
		return errors.New("it is told to listen nowhere")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.host+path, nil)
	if err != nil {
		return err
	}
	answer, err := p.client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return fmt.Errorf("%s: %w", path, errNoPage)
	default:
		return fmt.Errorf("%s: %s", path, answer.Status)
	}
	if err := json.NewDecoder(io.LimitReader(answer.Body, largestPage)).Decode(into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// reports are the reports of the rounds that the daemon keeps, ascending.
func (p daemonPages) reports(ctx context.Context) (reports []bridge.Report, err error) {
	var rounds []int
	if err := p.get(ctx, "/rounds", &rounds); err != nil {
		return nil, err
	}
	for _, round := range rounds {
		var report bridge.Report
		switch err := p.get(ctx, "/round/"+strconv.Itoa(round), &report); {
		case errors.Is(err, errNoPage): // it is not kept any more
		case err != nil:
			return nil, err
		default:
			reports = append(reports, report)
		}
	}
	return reports, nil
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
