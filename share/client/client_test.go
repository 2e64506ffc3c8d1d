package client_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/share/client"
	"github.com/synergy-slurmd/synergy-slurmd/share/client/clienttest"
	"github.com/synergy-slurmd/synergy-slurmd/share/wire"
)

func socket(t testing.TB) string { return filepath.Join(t.TempDir(), "turn-0.sock") }

func open(t testing.TB, path string) *client.Client {
	t.Helper()
	c, err := client.Open(t.Context(), path, client.Introduction{Kind: "train"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func step(t testing.TB, c *client.Client, takes time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	done, err := c.Turn(ctx, takes)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(takes)
	done()
}

func within(t testing.TB, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

func nothingWrong(t testing.TB, b *clienttest.Broker) {
	t.Helper()
	if wrong := b.Wrong(); len(wrong) > 0 {
		t.Errorf("the broker was told %q", wrong)
	}
}

func TestAGrantIsGoodForManyStepsWhileNobodyWantsTheGPU(t *testing.T) {
	b := (&clienttest.Broker{}).Start(t, socket(t))
	c := open(t, b.Path())
	began := time.Now()
	for range 100 {
		step(t, c, 0)
	}
	if asked := b.Said(wire.Ask); time.Since(began) < client.Idle && asked != 1 {
		t.Errorf("100 steps behind each other were asked for %d times", asked)
	}
	if n := c.Count(); n.Steps != 100 || n.Grants > 10 || n.Unmanaged != 0 {
		t.Errorf("counted %+v", n)
	}
	nothingWrong(t, b)
}

func TestTheGPUIsGivenBackWhenTheProgramComputesElsewhere(t *testing.T) {
	b := (&clienttest.Broker{}).Start(t, socket(t))
	c := open(t, b.Path())
	step(t, c, 5*time.Millisecond)
	within(t, time.Second, "the GPU is given back", func() bool { return !b.Held() })
	if used := b.Used(); used < 5*time.Millisecond || used > 500*time.Millisecond {
		t.Errorf("a step of 5 ms was said to have used the GPU for %v", used)
	}
	nothingWrong(t, b)
}

func TestTheGPUIsGivenBackAtTheEndOfTheStepInWhichItIsWanted(t *testing.T) {
	b := (&clienttest.Broker{}).Start(t, socket(t))
	c := open(t, b.Path())
	done, err := c.Turn(t.Context(), time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	b.Want()
	time.Sleep(50 * time.Millisecond) // a YIELD is on its way no longer
	if b.Said(wire.Release) != 0 {
		t.Error("it was given back within the step")
	}
	done()
	step(t, c, 0)
	if asked := b.Said(wire.Ask); asked != 2 {
		t.Errorf("asked %d times, want another time after the GPU was wanted", asked)
	}
	nothingWrong(t, b)
}

func TestAStepThatBeginsAfterTheLeaseIsAskedForAnew(t *testing.T) {
	b := (&clienttest.Broker{Lease: 250 * time.Millisecond}).Start(t, socket(t))
	c := open(t, b.Path())
	for range 3 {
		step(t, c, 150*time.Millisecond)
	}
	if asked := b.Said(wire.Ask); asked != 2 {
		t.Errorf("three steps of 150 ms in leases of 250 were asked for %d times", asked)
	}
	nothingWrong(t, b)
}

// TestTwoProgramsNeverUseTheGPUAtOnce: each has a connection of its own, and the broker grants in order.
func TestTwoProgramsNeverUseTheGPUAtOnce(t *testing.T) {
	b := (&clienttest.Broker{}).Start(t, socket(t))
	var users, steps atomic.Int64
	var all sync.WaitGroup
	for range 2 {
		c := open(t, b.Path())
		all.Go(func() {
			for range 100 {
				done, err := c.Turn(t.Context(), time.Millisecond)
				if err != nil {
					t.Error(err)
					return
				}
				if users.Add(1) != 1 {
					t.Error("two programs use the GPU")
				}
				time.Sleep(200 * time.Microsecond)
				users.Add(-1)
				steps.Add(1)
				done()
			}
		})
	}
	all.Wait()
	if steps.Load() != 200 {
		t.Errorf("%d steps of 200", steps.Load())
	}
	nothingWrong(t, b)
}

func TestGoroutinesOfOneProgramTakeTheirTurnsOneAfterTheOther(t *testing.T) {
	b := (&clienttest.Broker{}).Start(t, socket(t))
	c := open(t, b.Path())
	var users atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				done, err := c.Turn(t.Context(), 0)
				if err != nil || users.Add(1) != 1 {
					t.Error("two goroutines use the GPU", err)
				}
				users.Add(-1)
				done()
				done() // is safe to say twice
			}
		})
	}
	all.Wait()
	nothingWrong(t, b)
}

func TestAProgramRunsOnWithoutABrokerAndIsManagedWhenOneComes(t *testing.T) {
	path := socket(t)
	c := open(t, path)
	step(t, c, 0)
	if n := c.Count(); n.Unmanaged != 1 || n.Waited > 500*time.Millisecond {
		t.Errorf("without a broker it counted %+v", n)
	}
	b := (&clienttest.Broker{}).Start(t, path)
	within(t, 5*time.Second, "a step is asked for", func() bool {
		step(t, c, 0)
		return b.Said(wire.Ask) > 0
	})
	b.Stop()
	for range 100 {
		step(t, c, 0)
	}
	again := (&clienttest.Broker{}).Start(t, path)
	within(t, 6*time.Second, "it is managed again", func() bool {
		step(t, c, 0)
		return again.Said(wire.Ask) > 0
	})
	nothingWrong(t, again)
}

func TestWhoWaitsForABrokerThatDiesRunsOn(t *testing.T) {
	b := (&clienttest.Broker{Deaf: true}).Start(t, socket(t))
	c := open(t, b.Path())
	ran := make(chan struct{})
	go func() {
		step(t, c, 0)
		close(ran)
	}()
	within(t, 5*time.Second, "it asks", func() bool { return b.Said(wire.Ask) == 1 })
	select {
	case <-ran:
		t.Fatal("it ran before the broker died")
	case <-time.After(50 * time.Millisecond):
	}
	b.Stop()
	<-ran
}

func TestABrokerThatSaysNothingCostsASecondAtTheStartAndNothingLater(t *testing.T) {
	b := (&clienttest.Broker{Silent: true}).Start(t, socket(t))
	began := time.Now()
	c := open(t, b.Path())
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("it took %v to open", took)
	}
	for range 100 {
		step(t, c, 0)
	}
	if n := c.Count(); n.Unmanaged != 100 || n.Waited > time.Second {
		t.Errorf("counted %+v", n)
	}
}

func TestOnlyTooMuchMemoryEndsAProgram(t *testing.T) {
	b := (&clienttest.Broker{Refuse: wire.MemoryCap}).Start(t, socket(t))
	_, err := client.Open(t.Context(), b.Path(), client.Introduction{Memory: 90000})
	var refused *client.Refused
	if !errors.As(err, &refused) || refused.Code != wire.MemoryCap {
		t.Errorf("too much memory: %v", err)
	}
	for _, code := range []string{wire.UnknownJob, wire.NotSharing, wire.BadVersion, wire.Busy} {
		b := (&clienttest.Broker{Refuse: code}).Start(t, socket(t))
		c := open(t, b.Path())
		step(t, c, 0)
		if n := c.Count(); n.Unmanaged != 1 {
			t.Errorf("%s: counted %+v", code, n)
		}
	}
}

func TestARefusalOfMemoryThatIsHeldAlreadyEndsNothing(t *testing.T) {
	path := socket(t)
	c := open(t, path)
	b := (&clienttest.Broker{Refuse: wire.MemoryCap}).Start(t, path)
	within(t, 5*time.Second, "it introduces itself", func() bool { return b.Said(wire.Hello) > 0 })
	step(t, c, 0)
}

func TestAGrantThatNobodyWaitsForIsGivenBack(t *testing.T) {
	b := (&clienttest.Broker{}).Start(t, socket(t))
	c, other := open(t, b.Path()), open(t, b.Path())
	done, err := other.Turn(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.Turn(ctx, 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while another held the GPU: %v", err)
	}
	done()
	within(t, 5*time.Second, "nobody holds the GPU", func() bool { return !b.Held() })
	step(t, c, 0)
	nothingWrong(t, b)
}

func TestClosingGivesTheGPUBack(t *testing.T) {
	b := (&clienttest.Broker{}).Start(t, socket(t))
	c := open(t, b.Path())
	if _, err := c.Turn(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	c.Close()
	within(t, 5*time.Second, "nobody holds the GPU", func() bool { return !b.Held() })
}

// BenchmarkAStepOfAHolder is what a turn costs a program that has the GPU to itself.
func BenchmarkAStepOfAHolder(b *testing.B) {
	broker := (&clienttest.Broker{}).Start(b, socket(b))
	c := open(b, broker.Path())
	for b.Loop() {
		step(b, c, 0)
	}
}

// BenchmarkAskAndGrant is a round trip to the broker: each step is asked for.
func BenchmarkAskAndGrant(b *testing.B) {
	broker := (&clienttest.Broker{Lease: time.Microsecond}).Start(b, socket(b))
	c := open(b, broker.Path())
	for b.Loop() {
		step(b, c, 0)
	}
}
