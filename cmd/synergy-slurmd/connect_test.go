package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/ledger"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/learned"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/learned/shelf"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/library"
)

// fullConfig sets everything that a configuration can set.
func fullConfig() Config {
	c := defaults(fiveMinutes)
	c.Partitions, c.Canary = []string{"gpu"}, bridge.Canary{Accounts: []string{"ml"}}
	c.PreemptWithoutCheckpoint, c.Sharing.GPUMemory = true, 1
	c.Match, c.Savings = []bridge.Match{{User: "ann"}}, "/var/lib/savings"
	c.Hook.after = []string{"/bin/true"}
	return c
}

func fullFlags(t *testing.T) flags {
	t.Helper()
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("token"), 0o600); err != nil {
		t.Fatal(err)
	}
	return flags{round: fiveMinutes, watch: time.Second, shadow: true, slurmrestd: refusing(t), user: "synergy",
		tokenFile: token, apiVersion: "v0.0.42",
		scontrol: "/bin/false", byToken: true, ledger: filepath.Join(dir, "ledger")}
}

// unset lists the fields of a struct that have their zero value.
func unset(settings any) []string {
	var names []string
	value := reflect.ValueOf(settings)
	for i := range value.NumField() {
		if value.Field(i).IsZero() {
			names = append(names, value.Type().Field(i).Name)
		}
	}
	return names
}

func TestEverySettingReachesTheRound(t *testing.T) {
	if names := unset(settings(fullConfig(), fullFlags(t), &plannerPlugin{}, time.Minute)); len(names) > 0 {
		t.Errorf("not set: %v", names)
	}
}

func TestSmallRoundsSeeToTimeLimitsWhereTheyAreHeldOftenEnough(t *testing.T) {
	for watch, want := range map[time.Duration]bool{0: false, time.Second: true, 5 * time.Second: true,
		6 * time.Second: false} {
		s := settings(defaults(fiveMinutes), flags{round: fiveMinutes, watch: watch}, nil, 0)
		if !s.SaveAtLimit || s.Watched != want {
			t.Errorf("--watch %s: they do %t, want %t; save_at_limit %t", watch, s.Watched, want, s.SaveAtLimit)
		}
	}
	if settings(defaults(time.Second), flags{round: time.Second, watch: time.Second}, nil, 0).Watched {
		t.Error("none is held between rounds that follow one another as fast")
	}
}

func TestEveryOptionReachesSlurm(t *testing.T) {
	c := &connector{flags: fullFlags(t)}
	if names := strings.Join(unset(c.options(fullConfig())), " "); names != "Environ FullEvery Timeout MaxBody" {
		t.Errorf("not set: %v", names)
	}
}

func TestRoundsGoOnWhereTheLedgerEnds(t *testing.T) {
	f := fullFlags(t)
	book, err := openLedger(f.ledger, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	if err := book.Settle(nil, bridge.Report{Round: 41}); err != nil {
		t.Fatal(err)
	}
	manager := &connector{flags: f, book: &failoverLedger{Book: book}, log: zerolog.Nop(), metrics: testMetrics()}
	defer manager.close()
	rounds, err := manager.connect(t.Context(), fullConfig())
	if err != nil {
		t.Fatal(err)
	}
	report, err := rounds.Round(t.Context())
	if report.Round != 42 || !errors.Is(err, slurm.ErrDenied) {
		t.Errorf("round %d: %v", report.Round, err)
	}
	if got := testutil.CollectAndCount(manager.metrics.requests); got == 0 {
		t.Error("no request was counted")
	}
}

func TestASlurmThatCannotBeOpenedLeavesNothingOpen(t *testing.T) {
	f := fullFlags(t)
	manager := &connector{
		flags:   f,
		log:     zerolog.Nop(),
		metrics: testMetrics(),
		book:    &failoverLedger{Book: &ledger.Book{}},
	}
	if _, err := manager.connect(t.Context(), fullConfig()); err != nil {
		t.Fatal(err)
	}
	manager.flags.slurmrestd = "slurmrestd"
	if _, err := manager.connect(t.Context(), fullConfig()); err == nil {
		t.Error("it was opened")
	}
	if manager.client != nil {
		t.Error("the client of before is still there")
	}
}

func TestASleepEndsWithItsTimeOrItsContext(t *testing.T) {
	if err := (wall{}).Sleep(t.Context(), time.Millisecond); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := (wall{}).Sleep(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestAMissingProfileFolderIsToldOnceAndInTheSameWordsOfEveryJob(t *testing.T) {
	var lines bytes.Buffer
	c, missing, there := &connector{log: zerolog.New(&lines)}, filepath.Join(t.TempDir(), "none"), t.TempDir()
	both := c.shelves([]string{missing, there})
	if strings.Count(lines.String(), missing) != 1 || !strings.Contains(lines.String(), "put the profiles there") {
		t.Errorf("the log says\n%s", &lines)
	}
	if _, err := both.lookup("a.json"); !errors.Is(err, library.ErrNoProfile) {
		t.Errorf("in a folder that is there: %v", err)
	}
	one := c.shelves([]string{missing})
	_, first := one.lookup("a.json")
	_, second := one.lookup("b.json")
	if first == nil || second == nil || first.Error() != second.Error() ||
		!strings.Contains(first.Error(), "no folder with profiles can be read: "+missing) {
		t.Errorf("%v; %v", first, second)
	}
}

// TestASuccessorKnowsWhatItsPredecessorLearned: both share the folder, and a file that cannot be read is told of again.
func TestASuccessorKnowsWhatItsPredecessorLearned(t *testing.T) {
	var lines bytes.Buffer
	dir := t.TempDir()
	first, _, err := shelf.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	c := &connector{log: zerolog.New(&lines), book: &failoverLedger{}}
	c.takeOver() // before the first round nothing is open
	knows := c.openLearned(dir)
	key := learned.Key{User: "alice", Job: "vision"}
	var e *learned.Entry
	if err := first.Keep(e.With(key, learned.Report{Job: 7, At: time.Unix(1767268800, 0), GPUs: 1, Memory: 1000,
		Way: learned.Curve, Rates: []learned.Rate{{Cores: 1, Rate: 10}}})); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "junk.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if knows.Of(key) != nil || c.learnedCount() != 0 {
		t.Error("it reads the folder in each round")
	}
	c.takeOver()
	if knows.Of(key) == nil || c.learnedCount() != 1 || !strings.Contains(lines.String(), "junk.json") {
		t.Errorf("after the takeover it knows %g names: %s", c.learnedCount(), &lines)
	}
	if c.openLearned("") != nil || c.learnedCount() != 0 {
		t.Error("without the key it still counts what it knew")
	}
}
