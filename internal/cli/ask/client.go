// Package ask answers questions about what a daemon knows and has decided. It reads the daemon's pages over HTTP, or
// its files when it is down, and writes each answer as text or as JSON. Nothing is changed by a question.
package ask

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
	"github.com/synergy-slurmd/synergy-slurmd/printable"
)

// Where a daemon is looked for if none is named: first the socket, then the address.
const (
	UsualSocket  = "/run/synergy/synergy-slurmd.sock"
	UsualAddress = "http://127.0.0.1:9817"
)

// Limits on an answer. A report of a large cluster is some megabytes.
const (
	answerTimeout  = time.Minute
	maxAnswerBytes = 1 << 28 // of a page; what is cut off there is no JSON any more, and an error
	maxErrorBytes  = 1 << 10 // bytes of an error's text
)

// Client reads the pages of one daemon.
type Client struct {
	baseURL *url.URL // of the daemon, without a page
	client  *http.Client
	// remedy is added to the error of a daemon that does not answer; empty: nothing is.
	remedy string
}

// Named is the client of a daemon by its address, as UsualAddress, or its socket, as unix:UsualSocket or a path.
func Named(name string) (Client, error) {
	if path := strings.TrimPrefix(name, "unix:"); filepath.IsAbs(path) {
		return BySocket(filepath.Clean(path)), nil
	}
	at, err := url.Parse(name)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" {
		return Client{}, fmt.Errorf("%.80q: want an address as %s, or a socket as unix:%s", name, UsualAddress,
			UsualSocket)
	}
	return Client{baseURL: at, client: &http.Client{Timeout: answerTimeout}}, nil
}

// BySocket is the client of the program that listens at a unix socket: a daemon, or a broker.
func BySocket(path string) Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}
	return Client{baseURL: &url.URL{Scheme: "http", Host: "localhost"},
		client: &http.Client{Timeout: answerTimeout, Transport: &http.Transport{DialContext: dial}}}
}

// IsSocket reports whether there is a unix socket at a path.
func IsSocket(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode()&os.ModeSocket != 0
}

// Errors of a client, by errors.Is.
var (
	ErrGone    = errors.New("no such page")
	ErrSilent  = errors.New("nobody answers")
	ErrNoRound = errors.New("no round has been held yet")
)

// silentError is the error of a daemon that does not answer. It is ErrSilent, too, by which callers know that another
// source may be read instead.
type silentError struct {
	err    error
	remedy string
}

// Error is the cause, with what the user can do about it.
func (s silentError) Error() string {
	if s.remedy == "" {
		return s.err.Error()
	}
	return s.err.Error() + ": " + s.remedy
}

func (s silentError) Unwrap() []error { return []error{s.err, ErrSilent} }

// Reports are the reports of the rounds that the daemon keeps, ascending. It first reads their numbers and then each
// report. The daemon keeps only the last rounds, so one of them may be gone by then: it is left out.
func (c Client) Reports(ctx context.Context) ([]bridge.Report, error) {
	var rounds []int
	if err := c.Get(ctx, "/rounds", &rounds); err != nil {
		return nil, err
	}
	var reports []bridge.Report
	for _, round := range rounds {
		var report bridge.Report
		err := c.Get(ctx, "/round/"+strconv.Itoa(round), &report)
		switch {
		case errors.Is(err, ErrGone):
		case err != nil:
			return nil, err
		default:
			reports = append(reports, report)
		}
	}
	return reports, nil
}

// Latest is the report of the last round. The error is ErrNoRound if there was none.
func (c Client) Latest(ctx context.Context) (last bridge.Report, err error) {
	if err = c.Get(ctx, "/round", &last); errors.Is(err, ErrGone) {
		err = Unseen{ErrNoRound}
	}
	return last, err
}

// Get reads a page as JSON into the value that into points to. The error is ErrGone if there is no such page, and
// ErrSilent if no daemon answers.
func (c Client) Get(ctx context.Context, path string, into any) error {
	text, err := c.Text(ctx, path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return Unseen{fmt.Errorf("%s: want what synergy-slurmd answers: %w", path, err)}
	}
	return nil
}

// Text is the content of a page, whose path may have a query. The error is ErrGone if there is no such page, and
// ErrSilent if no daemon answers. Errors in reading the page are of type Unseen, since the command line was right.
func (c Client) Text(ctx context.Context, path string) ([]byte, error) {
	path, query, _ := strings.Cut(path, "?")
	at := c.baseURL.JoinPath(path)
	at.RawQuery = query
	page := at.String()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return nil, err
	}
	answer, err := c.client.Do(request)
	if err != nil {
		return nil, Unseen{silentError{err, c.remedy}}
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, Unseen{statusError(page, answer)}
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswerBytes))
	if err != nil {
		return nil, Unseen{fmt.Errorf("%s: %w", page, err)}
	}
	return text, nil
}

// statusError is the error of an answer that is not OK, with the page's text on one line; it is ErrGone for the status
// 404.
func statusError(page string, answer *http.Response) error {
	words, _ := io.ReadAll(io.LimitReader(answer.Body, maxErrorBytes)) // the status alone says enough
	if answer.StatusCode == http.StatusNotFound {
		return fmt.Errorf("%s: %w: %s", page, ErrGone, printable.Line(string(words), 300))
	}
	says := printable.Line(answer.Status+": "+string(words), 300)
	return fmt.Errorf("%s: %s", page, strings.TrimSuffix(says, ":"))
}
