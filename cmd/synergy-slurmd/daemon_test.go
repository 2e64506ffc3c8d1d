package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/rollout"
)

// roundsOf is a rounder that does what it is told and remembers when.
type roundsOf struct {
	hold  func(ctx context.Context, number int) error
	small func() error // nil: a small round that finds nothing
	began []time.Time
	looks []time.Time
}

func (r *roundsOf) SmallRound(context.Context) (bridge.Report, bool, error) {
	r.looks = append(r.looks, time.Now())
	if r.small == nil {
		return bridge.Report{Small: true}, false, nil
	}
	return bridge.Report{Small: true}, true, r.small()
}

func (r *roundsOf) Round(ctx context.Context) (bridge.Report, error) {
	r.began = append(r.began, time.Now())
	return bridge.Report{Round: len(r.began)}, r.hold(ctx, len(r.began))
}

func atOnce(context.Context, int) error { return nil }

// lasting is a round that takes so long, or until it is cancelled.
func lasting(d time.Duration) func(context.Context, int) error {
	return func(ctx context.Context, _ int) error { return wall{}.Sleep(ctx, d) }
}

// testDaemon has rounds of five minutes that end at once.
func testDaemon(rounds rounder) *daemon {
	return &daemon{
		period:    fiveMinutes,
		connect:   func(context.Context, Config) (rounder, error) { return rounds, nil },
		reload:    func() (Config, error) { return Config{}, nil },
		journal:   &journal{log: zerolog.Nop()},
		metrics:   newMetrics(func() float64 { return 0 }, "test"),
		health:    newHealth(fiveMinutes, time.Now()),
		heartbeat: &heartbeatWriter{log: zerolog.Nop()},
		savings:   &savingsWriter{log: zerolog.Nop()},
		outlook:   &outlook{},
	}
}

// runFor runs the daemon for so long in virtual time.
func runFor(t *testing.T, d *daemon, long time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	d.run(ctx)
}

// offsets says when rounds began, from the start of the bubble's clock, which is a midnight.
func offsets(began []time.Time) string {
	var all []string
	for _, at := range began {
		all = append(all, at.Sub(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).String())
	}
	return strings.Join(all, " ")
}

func wantOffsets(t *testing.T, began []time.Time, want string) {
	t.Helper()
	if got := offsets(began); got != want {
		t.Errorf("rounds began at %s, want %s", got, want)
	}
}

func TestRoundsBeginWithThePeriodsOfTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(2 * time.Minute)
		rounds := &roundsOf{hold: lasting(10 * time.Second)}
		runFor(t, testDaemon(rounds), 14*time.Minute)
		wantOffsets(t, rounds.began, "2m0s 5m0s 10m0s 15m0s")
	})
}

func TestARoundThatLastsTooLongIsFollowedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rounds := &roundsOf{hold: func(ctx context.Context, number int) error {
			if number == 2 {
				return lasting(5*time.Minute+2*time.Second)(ctx, number)
			}
			return nil
		}}
		runFor(t, testDaemon(rounds), 17*time.Minute)
		wantOffsets(t, rounds.began, "0s 5m0s 10m2s 15m0s")
	})
}

func TestARoundThatDoesNotEndIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rounds := &roundsOf{hold: lasting(24 * time.Hour)}
		d := testDaemon(rounds)
		runFor(t, d, 7*time.Minute)
		wantOffsets(t, rounds.began, "0s 6m5s")
	})
}

func TestFailedRoundsAreTriedAgainSoonerThenLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rounds := &roundsOf{hold: func(_ context.Context, number int) error {
			if number <= 8 {
				return slurm.ErrUnreachable
			}
			return nil
		}}
		runFor(t, testDaemon(rounds), 21*time.Minute)
		wantOffsets(t, rounds.began, "0s 5s 15s 35s 1m15s 2m35s 5m15s 10m15s 15m15s 20m0s")
	})
}

func TestAThousandFailuresDoNotShortenThePause(t *testing.T) {
	d := testDaemon(nil)
	for d.failures = 7; d.failures < 1000; d.failures++ {
		if pause := d.pause(time.Now(), time.Now()); pause != fiveMinutes {
			t.Fatalf("after %d failures: %s", d.failures, pause)
		}
	}
}

// The clock was set back by hours while a round went on, or while the daemon rested.
func TestNoPauseIsLongerThanAPeriodHoweverTheClockIsSet(t *testing.T) {
	d, noon := testDaemon(nil), time.Date(2026, 11, 21, 12, 1, 0, 0, time.UTC)
	for _, hours := range []time.Duration{-48, -1, 0, 1, 48} {
		if pause := d.pause(noon, noon.Add(hours*time.Hour)); pause < 0 || pause > fiveMinutes {
			t.Errorf("set by %d hours: the next round in %s", hours, pause)
		}
	}
}

func TestSlurmIsConnectedAgainUntilThatWorksAndThenKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rounds := &roundsOf{hold: atOnce}
		d := testDaemon(rounds)
		tries := 0
		d.connect = func(context.Context, Config) (rounder, error) {
			if tries++; tries < 3 {
				return nil, slurm.ErrUnreachable
			}
			return rounds, nil
		}
		runFor(t, d, 11*time.Minute)
		if tries != 3 {
			t.Errorf("connected %d times", tries)
		}
		wantOffsets(t, rounds.began, "15s 5m0s 10m0s")
	})
}

func TestARoundUnderWayMayEndWhenTheDaemonIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := errors.New("never")
		rounds := &roundsOf{hold: func(ctx context.Context, number int) error {
			ended = lasting(15*time.Second)(ctx, number)
			return ended
		}}
		runFor(t, testDaemon(rounds), 10*time.Second)
		if ended != nil {
			t.Errorf("it ended with %v", ended)
		}
		wantOffsets(t, rounds.began, "0s")
	})
}

func TestARoundThatGoesOnIsCancelledAWhileAfterTheStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended error
		rounds := &roundsOf{hold: func(ctx context.Context, number int) error {
			ended = lasting(4*time.Minute)(ctx, number)
			return ended
		}}
		began := time.Now()
		runFor(t, testDaemon(rounds), 10*time.Second)
		if !errors.Is(ended, context.Canceled) {
			t.Errorf("it ended with %v", ended)
		}
		if took := time.Since(began); took != 10*time.Second+farewell {
			t.Errorf("the daemon ended after %s", took)
		}
	})
}

func TestTheNextRoundFollowsANewConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rounds := &roundsOf{hold: atOnce}
		d := testDaemon(rounds)
		var used []string
		d.config.Partitions = []string{"old"}
		d.connect = func(_ context.Context, c Config) (rounder, error) {
			used = append(used, c.Partitions...)
			return rounds, nil
		}
		d.reload = func() (Config, error) { return Config{Partitions: []string{"new"}}, nil }
		hangUpAfter(d, time.Minute)
		runFor(t, d, 11*time.Minute)
		if !slices.Equal(used, []string{"old", "new"}) {
			t.Errorf("connected with %v", used)
		}
		wantOffsets(t, rounds.began, "0s 5m0s 10m0s")
		if about := d.health.statusInfo(time.Now()); !slices.Equal(about.Partitions, []string{"new"}) ||
			about.Well != 3 {
			t.Errorf("the daemon says of itself %+v", about)
		}
	})
}

func TestTheDaemonTellsHowManyRoundsInARowEndedWellAndOfTheLastThatDidNot(t *testing.T) {
	h := newHealth(fiveMinutes, time.Now())
	h.follows(Config{Lease: time.Minute, Canary: bridge.Canary{Accounts: []string{"ml"}}})
	h.round(1, time.Now(), nil)
	h.round(2, time.Now(), errors.New("slurmrestd:\n\x1b[2J503"))
	h.round(3, time.Now(), nil)
	h.round(4, time.Now(), nil)
	about := h.statusInfo(time.Now())
	if about.Well != 2 || about.Failed != 1 || about.Failure != "slurmrestd: [2J503" || !about.Healthy ||
		about.Behind || about.Lease != 60 || about.Stage() != rollout.Canary ||
		!strings.HasPrefix(about.Says, "round 4 ended well") {
		t.Errorf("%+v", about)
	}
	h.standBy("behind another")
	if about := h.statusInfo(time.Now()); !about.Behind || about.Says != "behind another" {
		t.Errorf("one that stands by says %+v", about)
	}
	late := h.statusInfo(time.Now().Add(time.Hour))
	h.lead(time.Now().Add(-time.Hour))
	h.round(5, time.Now(), errors.New("503"))
	ill := h.statusInfo(time.Now())
	if ill.Healthy || !strings.Contains(ill.Says, "503") || late.Failed != 1 || ill.Well != 0 {
		t.Errorf("an ill one says %+v", ill)
	}
}

func TestABadConfigurationChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rounds := &roundsOf{hold: atOnce}
		d := testDaemon(rounds)
		d.config.Partitions = []string{"old"}
		connected := 0
		d.connect = func(context.Context, Config) (rounder, error) { connected++; return rounds, nil }
		d.reload = func() (Config, error) { return Config{Partitions: []string{"new"}}, errors.New("line 2: lease: soon") }
		hangUpAfter(d, time.Minute)
		runFor(t, d, 6*time.Minute)
		if connected != 1 || d.config.Partitions[0] != "old" {
			t.Errorf("connected %d times, with %v", connected, d.config.Partitions)
		}
	})
}

// hangUpAfter sends the signal for a reload.
func hangUpAfter(d *daemon, after time.Duration) {
	hangups := make(chan os.Signal, 1)
	d.hangups = hangups
	time.AfterFunc(after, func() { hangups <- os.Interrupt })
}

// listener is what systemd hears.
type listener struct {
	mu    sync.Mutex
	heard []string
	done  chan struct{}
}

// listenFor makes a socket as systemd does and hears what is said to it until the test ends.
func listenFor(t *testing.T) *listener {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("NOTIFY_SOCKET", path)
	l := &listener{done: make(chan struct{})}
	go l.hear(socket)
	t.Cleanup(func() {
		socket.Close()
		<-l.done
	})
	return l
}

func (l *listener) hear(socket *net.UnixConn) {
	defer close(l.done)
	message := make([]byte, 4096)
	for {
		n, err := socket.Read(message)
		if err != nil {
			return
		}
		word, _, _ := strings.Cut(string(message[:n]), "=")
		l.mu.Lock()
		l.heard = append(l.heard, word)
		l.mu.Unlock()
	}
}

// words waits for the last word and returns all.
func (l *listener) words(last string) []string {
	for {
		l.mu.Lock()
		heard := slices.Clone(l.heard)
		l.mu.Unlock()
		if len(heard) > 0 && heard[len(heard)-1] == last {
			return heard
		}
		time.Sleep(time.Millisecond)
	}
}

func TestTheServiceManagerHearsOfEveryTurnInTheDaemonsLife(t *testing.T) {
	systemd := listenFor(t)
	synctest.Test(t, func(t *testing.T) {
		d := testDaemon(&roundsOf{hold: atOnce})
		hangUpAfter(d, time.Minute)
		runFor(t, d, 2*time.Minute)
	})
	want := []string{"READY", "STATUS", "RELOADING", "READY", "STOPPING"}
	if heard := systemd.words("STOPPING"); !slices.Equal(heard, want) {
		t.Errorf("heard %v, want %v", heard, want)
	}
}

// fed counts how often the watchdog is fed in an hour of rounds.
func fed(t *testing.T, hold func(context.Context, int) error) int {
	t.Helper()
	systemd := listenFor(t)
	synctest.Test(t, func(t *testing.T) {
		d := testDaemon(&roundsOf{hold: hold})
		d.serviceManager.watchdog = 2 * time.Minute
		runFor(t, d, time.Hour)
	})
	times := 0
	for _, word := range systemd.words("STOPPING") {
		if word == "WATCHDOG" {
			times++
		}
	}
	return times
}

func TestTheWatchdogIsFedWhileRoundsGoOnWellOrNot(t *testing.T) {
	for name, hold := range map[string]func(context.Context, int) error{
		"well":   atOnce,
		"slowly": lasting(4 * time.Minute),
		"badly":  func(context.Context, int) error { return slurm.ErrDenied },
		"slowly and badly": func(ctx context.Context, number int) error {
			return errors.Join(lasting(4*time.Minute)(ctx, number), slurm.ErrDenied)
		},
	} {
		if times := fed(t, hold); times < 58 {
			t.Errorf("rounds go on %s: fed %d times in an hour", name, times)
		}
	}
}

func TestTheWatchdogIsNotFedWhenARoundHangs(t *testing.T) {
	times := fed(t, func(context.Context, int) error {
		time.Sleep(2 * time.Hour)
		return nil
	})
	if times > 8 {
		t.Errorf("fed %d times in an hour", times)
	}
}

func TestAWatchdogIntervalThatIsNoNumberIsAnError(t *testing.T) {
	t.Setenv("WATCHDOG_USEC", "soon")
	if _, err := newServiceManager(); err == nil {
		t.Error("it was taken")
	}
}

func TestOneRoundSaysWhetherItEndedWell(t *testing.T) {
	for _, want := range []error{nil, slurm.ErrDenied} {
		d := testDaemon(&roundsOf{hold: func(context.Context, int) error { return want }})
		if err := d.once(t.Context()); (err == nil) != (want == nil) {
			t.Errorf("a round that ended with %v: %v", want, err)
		}
	}
}

func TestARoundThatIsCutShortByTheStopIsNoFailureOfSlurm(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	d := testDaemon(&roundsOf{hold: func(context.Context, int) error {
		cancel()
		return fmt.Errorf("observe: %w", context.Canceled)
	}})
	d.roundAndReport(ctx)
	if d.journal.state != stopped {
		t.Errorf("it was diagnosed as %q", d.journal.state)
	}
}

func TestBetweenRoundsTheDaemonLooksEveryTwoSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rounds := &roundsOf{hold: atOnce}
		d := testDaemon(rounds)
		d.watch = 2 * time.Second
		runFor(t, d, 2*fiveMinutes-time.Second)
		if len(rounds.looks) < 290 || len(rounds.began) > 3 {
			t.Errorf("%d looks and %d rounds in ten minutes, want one each two seconds beside the rounds",
				len(rounds.looks), len(rounds.began))
		}
	})
}

func TestAfterASmallRoundThatFailedNoneIsHeldUntilARoundEndsWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rounds := &roundsOf{hold: atOnce, small: func() error { return slurm.ErrUnreachable }}
		d := testDaemon(rounds)
		d.watch = 2 * time.Second
		runFor(t, d, 2*fiveMinutes-time.Second)
		if len(rounds.looks) != len(rounds.began) {
			t.Errorf("%d looks that failed beside %d rounds, want one after each round", len(rounds.looks),
				len(rounds.began))
		}
	})
}

func TestNoSmallRoundIsHeldWhileRoundsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rounds := &roundsOf{hold: func(context.Context, int) error { return slurm.ErrUnreachable }}
		d := testDaemon(rounds)
		d.watch = time.Second
		runFor(t, d, fiveMinutes)
		if len(rounds.looks) > 0 {
			t.Errorf("%d looks while Slurm is away", len(rounds.looks))
		}
	})
}
