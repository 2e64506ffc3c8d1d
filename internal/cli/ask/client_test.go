package ask_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/internal/cli/ask"
)

// TestADaemonIsReadByItsAddressAndByItsSocketAlike serves three rounds of which one is overwritten meanwhile.
func TestADaemonIsReadByItsAddressAndByItsSocketAlike(t *testing.T) {
	daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/rounds":
			fmt.Fprint(w, "[1,2,3]")
		case "/round/1", "/round/3":
			fmt.Fprintf(w, `{"round":%s}`, strings.TrimPrefix(r.URL.Path, "/round/"))
		case "/status":
			fmt.Fprint(w, `{"of":"another program"`)
		case "/metrics":
			http.Error(w, "too busy\x1b[2J", http.StatusServiceUnavailable)
		case "/history":
			fmt.Fprint(w, r.URL.Query().Get("user"))
		default:
			http.NotFound(w, r)
		}
	}))
	defer daemon.Close()
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	local := httptest.Server{Listener: listener, Config: &http.Server{Handler: daemon.Config.Handler}}
	local.Start()
	defer local.Close()
	if !ask.IsSocket(socket) || ask.IsSocket(filepath.Dir(socket)) {
		t.Error("a socket is not told from a folder")
	}
	for _, name := range []string{daemon.URL, socket, "unix:" + socket} {
		c, err := ask.Named(name)
		if err != nil {
			t.Fatal(err)
		}
		ctx := context.Background()
		reports, err := c.Reports(ctx)
		if err != nil || len(reports) != 2 || reports[0].Round != 1 || reports[1].Round != 3 {
			t.Errorf("%s: %d reports, %v, want rounds 1 and 3", name, len(reports), err)
		}
		if _, err := c.Latest(ctx); !errors.Is(err, ask.ErrNoRound) || !errors.As(err, new(ask.Unseen)) {
			t.Errorf("%s: %v, want no round", name, err)
		}
		if text, err := c.Text(ctx, "/history?user=alice"); string(text) != "alice" || err != nil {
			t.Errorf("%s: %q, %v, want what is behind the question mark", name, text, err)
		}
		err = c.Get(ctx, "/status", new(struct{}))
		if !errors.As(err, new(ask.Unseen)) || !strings.Contains(err.Error(), "want what synergy-slurmd answers") {
			t.Errorf("%s: %v", name, err)
		}
		_, err = c.Text(ctx, "/metrics")
		if err == nil || !strings.HasSuffix(err.Error(), "503 Service Unavailable: too busy [2J") ||
			errors.Is(err, ask.ErrGone) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestADaemonThatIsDownIsSilentAndNotGone(t *testing.T) {
	c := ask.BySocket(filepath.Join(t.TempDir(), "s"))
	_, err := c.Latest(context.Background())
	if !errors.Is(err, ask.ErrSilent) || errors.Is(err, ask.ErrGone) || !errors.As(err, new(ask.Unseen)) {
		t.Errorf("%v, want a daemon that is silent", err)
	}
}

func TestWhatIsNeitherAnAddressNorASocketIsRefused(t *testing.T) {
	for _, name := range []string{"", "ctl1", "ctl1:9817", "ftp://ctl1", "http://", "unix:s", "./s"} {
		if _, err := ask.Named(name); err == nil || !strings.Contains(err.Error(), "want an address as http://") {
			t.Errorf("%q: %v", name, err)
		}
	}
}
