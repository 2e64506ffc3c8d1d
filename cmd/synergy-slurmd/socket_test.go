package main

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/ledger"
	"github.com/synergy-slurmd/synergy-slurmd/rollout"
)

// through is a client of a socket.
func through(path string) *http.Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}
	return &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
}

// standingSite is all pages of a daemon that is alone, and whose last round failed to start one of two jobs.
func standingSite() http.Handler {
	h := newHealth(fiveMinutes, time.Now())
	h.status = &daemonStatus{
		health:       h,
		learnedCount: func() float64 { return 3 },
		elector:      func() *elector { return nil },
	}
	h.status.note(Config{Partitions: []string{"gpu"}}, bridge.Report{Round: 1,
		Steps: []bridge.Step{{Job: 1, Verb: bridge.Start, Error: "503"}, {Job: 2, Verb: bridge.Start}}})
	h.round(1, time.Now(), nil)
	return pages(h, testMetrics().registry, &ledger.Memory{})
}

func TestTheSocketServesThePagesToWhoMayWriteToItAndNobodyCanWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	server, err := listenAt(path, 0o660, standingSite())
	if err != nil {
		t.Fatal(err)
	}
	defer server.close()
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("%v, %v: want permissions of 0660", info.Mode(), err)
	}
	answer, err := through(path).Get("http://localhost/status")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var stands rollout.Standing
	if err := json.NewDecoder(answer.Body).Decode(&stands); err != nil || !stands.Healthy || !stands.Leads ||
		stands.Learned != 3 || stands.FailedSteps != 1 || !strings.Contains(stands.Says, "round 1 ended well") {
		t.Errorf("%+v, %v", stands, err)
	}
	posted, err := through(path).Post("http://localhost/status", "text/plain", strings.NewReader("x"))
	if err != nil || posted.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("something can be written: %v, %v", posted, err)
	}
}

func TestOnlyASocketAtWhichNobodyAnswersIsTakenOver(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s")
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := listenAt(path, 0o660, http.NotFoundHandler()); !errors.Is(err, errTaken) {
		t.Errorf("%v, want %v", err, errTaken)
	}
	left.SetUnlinkOnClose(false) // as a daemon that was killed
	left.Close()
	server, err := listenAt(path, 0o660, http.NotFoundHandler())
	if err != nil {
		t.Fatal(err)
	}
	server.close()
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v: want a socket that goes with its daemon", err)
	}
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listenAt(path, 0o660, http.NotFoundHandler()); err == nil || !strings.Contains(err.Error(),
		"is a file and no socket") {
		t.Errorf("%v, want a refusal", err)
	}
	if text, _ := os.ReadFile(path); string(text) != "mine" {
		t.Error("the file was touched")
	}
}
