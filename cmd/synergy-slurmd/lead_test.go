package main

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/leader"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/ledger"
)

// queueOf is a Slurm for tickets alone. Its own clock stands still, as no ticket ever needs it.
func queueOf() leader.Tickets {
	server := gres.Vector{GPUs: 8, CPUs: 24, Memory: 500 * gres.Gigabyte}
	return slurmtest.New(slurmtest.NewClock(time.Now()),
		slurmtest.Options{Nodes: slurmtest.Rack(1, server, "gpu")}).Tickets()
}

// seated is a daemon with a seat, whose rounds end at once.
func seated(tickets leader.Tickets, host string, log *bytes.Buffer) (*daemon, *roundsOf) {
	rounds := &roundsOf{hold: atOnce}
	d := testDaemon(rounds)
	d.journal.log = zerolog.New(zerolog.SyncWriter(log))
	d.elector = &elector{
		member: &leader.Member{Tickets: tickets, Clock: wall{}, Holder: host, Run: host, TTL: time.Minute},
		log:    d.journal.log, takeover: func() {}, show: d.metrics.leads, leadGained: make(chan struct{}, 1),
	}
	return d, rounds
}

// first takes the first ticket, and beats until the function that it returns is called, which leaves it or just stops.
func first(t *testing.T, tickets leader.Tickets) (member *leader.Member, stop func()) {
	t.Helper()
	member = &leader.Member{Tickets: tickets, Clock: wall{}, Holder: "first", Run: "1", TTL: time.Minute}
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for ctx.Err() == nil {
			pause, _ := member.Step(ctx)
			_ = wall{}.Sleep(ctx, pause)
		}
	}()
	synctest.Wait()
	return member, func() { cancel(); <-gone }
}

func TestADaemonThatStandsByIsWellAndHoldsNoRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tickets := queueOf()
		_, stop := first(t, tickets)
		var log bytes.Buffer
		d, rounds := seated(tickets, "second", &log)
		lines := make(chan string, 1)
		time.AfterFunc(time.Hour, func() {
			line, err := d.health.check(time.Now())
			if err != nil {
				line = err.Error()
			}
			lines <- line
		})
		runFor(t, d, 2*time.Hour)
		stop()
		if len(rounds.began) > 0 || d.failures > 0 {
			t.Errorf("held rounds at %s, %d failures", offsets(rounds.began), d.failures)
		}
		if line := <-lines; !strings.Contains(line, "standing by: first leads by job 1") {
			t.Errorf("health says %s", line)
		}
		if n := strings.Count(log.String(), `"message":"standing by"`); n != 1 {
			t.Errorf("said so %d times: %s", n, &log)
		}
	})
}

func TestARoundIsHeldAtOnceWhenTheLeaderHasDiedOrLeft(t *testing.T) {
	for name, limit := range map[string]time.Duration{"died": 76 * time.Second, "left": 16 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			tickets := queueOf()
			member, stop := first(t, tickets)
			var log bytes.Buffer
			d, rounds := seated(tickets, "second", &log)
			took := 0
			d.elector.takeover = func() { took++ }
			time.AfterFunc(17*time.Minute, func() {
				stop()
				if name == "left" {
					_ = member.Leave(context.Background())
				}
			})
			runFor(t, d, 19*time.Minute)
			if len(rounds.began) == 0 || took != 1 {
				t.Fatalf("%s: no round, %d takeovers: %s", name, took, &log)
			}
			after := rounds.began[0].Sub(time.Date(2000, 1, 1, 0, 17, 0, 0, time.UTC))
			if after > limit || !strings.Contains(log.String(), `"takeover":true,"message":"leading"`) {
				t.Errorf("%s: a round after %s: %s", name, after, &log)
			}
		})
	}
}

func TestADaemonThatStopsGivesItsTicketBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tickets := queueOf()
		var log bytes.Buffer
		d, rounds := seated(tickets, "first", &log)
		runFor(t, d, 7*time.Minute)
		wantOffsets(t, rounds.began, "0s 5m0s")
		all, err := tickets.List(t.Context())
		if err != nil || len(all) != 1 || all[0].Live || !all[0].Words.Left {
			t.Errorf("left behind: %+v %v", all, err)
		}
	})
}

func TestALeadCountsOnceItsNewsIsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, rounds := seated(queueOf(), "first", new(bytes.Buffer))
		if err := d.elector.member.Win(t.Context()); err != nil {
			t.Fatal(err)
		}
		if line, err := d.elector.position(); line == "" || err != nil {
			t.Errorf("it leads before anybody was told: %q %v", line, err)
		}
		d.elector.recordStep(nil)
		if line, err := d.elector.position(); line != "" || err != nil {
			t.Errorf("it does not lead: %q %v", line, err)
		}
		runFor(t, d, 4*time.Minute)
		wantOffsets(t, rounds.began, "0s") // and the news is no reason for a second round
	})
}

func TestOneRoundIsRefusedWhileAnotherDaemonLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tickets := queueOf()
		_, stop := first(t, tickets)
		defer stop()
		var log bytes.Buffer
		d, rounds := seated(tickets, "second", &log)
		if err := d.once(t.Context()); err == nil || len(rounds.began) > 0 {
			t.Errorf("got %v and %d rounds", err, len(rounds.began))
		}
		if !strings.Contains(log.String(), "first leads") {
			t.Errorf("who leads is not said: %s", &log)
		}
	})
}

func TestADaemonWhoseLeadIsNotConfirmedFailsItsRoundsUntilItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wire := &cutting{Tickets: queueOf()}
		var log bytes.Buffer
		d, rounds := seated(wire, "first", &log)
		time.AfterFunc(4*time.Minute, func() { wire.cut.Store(true) })
		time.AfterFunc(21*time.Minute, func() { wire.cut.Store(false) })
		runFor(t, d, 24*time.Minute)
		in := func(from, to int) bool {
			return slices.ContainsFunc(rounds.began, func(at time.Time) bool {
				minute := int(at.Sub(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)) / time.Minute)
				return minute >= from && minute < to
			})
		}
		if in(5, 21) || !in(21, 22) {
			t.Errorf("rounds at %s", offsets(rounds.began))
		}
		if n := strings.Count(log.String(), `"level":"error"`); n != 1 {
			t.Errorf("%d errors in the log: %s", n, &log)
		}
	})
}

// cutting is a queue that cannot be reached at times, which is heard of in two ways.
type cutting struct {
	leader.Tickets
	cut   atomic.Bool
	asked atomic.Int64
}

func (c *cutting) List(ctx context.Context, ids ...int) ([]leader.Ticket, error) {
	if c.cut.Load() {
		return nil, []error{slurm.ErrUnreachable, context.DeadlineExceeded}[c.asked.Add(1)%2]
	}
	return c.Tickets.List(ctx, ids...)
}

func TestAfterATakeoverWhatTheLedgerRemembersIsLeftOutUntilARoundHasSettled(t *testing.T) {
	book, err := ledger.Open(filepath.Join(t.TempDir(), "ledger"), ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	r := &failoverLedger{Book: book}
	remembers := func() int {
		records, _, err := r.Load()
		if err != nil {
			t.Fatal(err)
		}
		return len(records)
	}
	settle := func(round int) {
		if err := r.Settle(bridge.Records{{Job: 17}}, bridge.Report{Round: round}); err != nil {
			t.Fatal(err)
		}
	}
	settle(1)
	if n := remembers(); n != 1 {
		t.Errorf("remembers %d jobs", n)
	}
	r.markStale()
	if n := remembers(); n != 0 {
		t.Errorf("after a takeover it remembers %d jobs", n)
	}
	settle(2)
	if n := remembers(); n != 1 {
		t.Errorf("a round later it remembers %d jobs", n)
	}
}

func TestTheIdentityStaysWithTheLedger(t *testing.T) {
	defer goleak.VerifyNone(t)
	names := map[string]bool{}
	for _, file := range []string{"one", "one", "other"} {
		book, err := ledger.Open(filepath.Join(t.TempDir(), "..", file), ledger.Options{})
		if err != nil {
			t.Fatal(err)
		}
		name, err := book.Identity()
		if err != nil || len(name) != 12 {
			t.Errorf("%q %v", name, err)
		}
		names[name] = true
		book.Close()
	}
	if len(names) != 2 {
		t.Errorf("two ledgers are called %v", names)
	}
}

func TestARoundThatIsOutrankedIsToldAndNothingMoreIsWritten(t *testing.T) {
	if got := failureKindOf(errors.Join(errors.New("start job 17"), slurm.ErrNotLeader)); got != outranked ||
		got.remedy() == "" {
		t.Errorf("diagnosed as %q", got)
	}
}
