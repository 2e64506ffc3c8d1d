package broker

import (
	"slices"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/share/turns"
	"github.com/synergy-slurmd/synergy-slurmd/share/wire"
)

func TestATrainerOfAThousandStepsASecondIsNotSlowedDownAndOneThatNeverStopsIs(t *testing.T) {
	p, now := newPace(DefaultLimits().Messages), time.Unix(0, 0)
	for step := range 10_000 {
		now = now.Add(time.Millisecond)
		for _, what := range []string{"ACQ", "REL"} {
			if wait := p.wait(now); wait > 0 {
				t.Fatalf("%s of step %d waits for %v", what, step, wait)
			}
		}
	}
	begun := now
	const said = 100_000
	for range said {
		now = now.Add(p.wait(now))
	}
	if took, least := now.Sub(begun), said/time.Duration(DefaultLimits().Messages)*time.Second-burst; took < least {
		t.Errorf("%d messages without a pause took %v, want %v", said, took, least)
	}
}

// TestConnectionsOfAJobShareItsPaceInTurn: those that never stop are read equally often, one that says little is heard
// at once, and all together are no more than one would be.
func TestConnectionsOfAJobShareItsPaceInTurn(t *testing.T) {
	const rude, seconds = 63, 10
	messages := DefaultLimits().Messages
	p, now := newPace(messages), time.Unix(0, 0)
	var free [rude + 1]time.Time // from when each is read; the last says something every 20 ms
	var read [rude + 1]int
	polite := now
	for end := now.Add(seconds * time.Second); now.Before(end); now = now.Add(50 * time.Microsecond) {
		for c := range free {
			if free[c].After(now) || c == rude && polite.After(now) {
				continue
			}
			read[c]++
			if free[c] = now.Add(p.wait(now)); c == rude {
				if late := now.Sub(polite); late > 20*time.Millisecond {
					t.Fatalf("one that says little waits for %v", late)
				}
				polite = polite.Add(20 * time.Millisecond)
			}
		}
	}
	total := 0
	for _, n := range read {
		total += n
	}
	if most := (seconds+1)*messages + len(free); total > most || total < seconds*messages {
		t.Errorf("%d messages were read within %d s, want at most %d", total, seconds, most)
	}
	few, many := slices.Min(read[:rude]), slices.Max(read[:rude])
	if many > few+few/10 || read[rude] < 50*seconds-1 {
		t.Errorf("read of those that never stop between %d and %d, of the other %d", few, many, read[rude])
	}
}

func TestAJobThatConnectsAnewIsReadAtThePaceThatItHad(t *testing.T) {
	now := time.Unix(0, 0)
	c := admission{limits: Limits{PerJob: 1, Messages: 100}, jobs: map[int]*connCount{}}
	enter := func() *pace {
		t.Helper()
		p, bad := c.enterJob(7, now)
		if bad != nil {
			t.Fatal(bad)
		}
		return p
	}
	for range 100 { // all that it may say at once
		if wait := enter().wait(now); wait > 0 {
			t.Fatalf("waits for %v", wait)
		}
		c.leaveJob(7)
	}
	if wait := enter().wait(now); wait <= 0 {
		t.Error("a connection that is new begins anew")
	}
	for range 1000 {
		if wait := c.jobs[7].pace.wait(now); wait > burst {
			t.Fatalf("it has fallen %v behind", wait)
		}
	}
	c.leaveJob(7)
	now = now.Add(3 * time.Second)
	if _, bad := c.enterJob(8, now); bad != nil || c.jobs[7] != nil {
		t.Errorf("it is remembered for ever: %v", bad)
	}
}

func TestAUserWhoConnectsAgainAndAgainIsHeardAtHisPaceAndNobodyElseWaits(t *testing.T) {
	now := time.Unix(0, 0)
	c := admission{limits: Limits{Clients: 10, PerUser: 10, Hellos: 50}, users: map[int]*connCount{}}
	knock := func(uid int) time.Duration {
		t.Helper()
		p, bad := c.enter(uid, now)
		if bad != nil {
			t.Fatal(bad)
		}
		defer c.leave(uid)
		return p.wait(now)
	}
	for range 50 {
		if wait := knock(1); wait > 0 {
			t.Fatalf("the first connections wait for %v", wait)
		}
	}
	heard := 0
	for end := now.Add(10 * time.Second); now.Before(end); heard++ {
		now = now.Add(knock(1))
		if wait := knock(2 + heard); wait > 0 {
			t.Fatalf("another user waits for %v", wait)
		}
	}
	if heard < 490 || heard > 501 {
		t.Errorf("he was heard %d times within 10 s, want 50 in a second", heard)
	}
	now = now.Add(3 * time.Second)
	if knock(1); len(c.users) != 1 {
		t.Errorf("%d users are remembered for ever", len(c.users))
	}
}

// TestAYieldOfATurnThatIsOverChangesNothing: in the step in which it was granted others may want the GPU back, and by
// then one that had taken its request back has released.
func TestAYieldOfATurnThatIsOverChangesNothing(t *testing.T) {
	g := newGPU(New(Config{RunDir: t.TempDir()}), 0)
	c := &client{id: 1, gpu: g, state: wire.Idle}
	g.clients[1] = c
	for _, verb := range []turns.Verb{turns.Yield, turns.Freeze} {
		if g.applyEffect(turns.Effect{Verb: verb, Client: 1}); c.state != wire.Idle || len(g.frozen) > 0 {
			t.Errorf("after %s it is %s", verb, c.state)
		}
	}
}
