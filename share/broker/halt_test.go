package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/share/wire"
)

// slow is a stopper that does what it is told when it is let.
type slow struct {
	does chan string // what it is about to do
	let  chan error  // what becomes of it
}

func (s slow) freeze(_ context.Context, job, _ int) error { return s.do("freeze", job) }
func (s slow) thaw(job int) error                         { return s.do("thaw", job) }

func (s slow) gone(int) bool { return false }

func (s slow) do(what string, job int) error {
	s.does <- fmt.Sprint(what, " ", job)
	return <-s.let
}

// haltsOf are of a broker that ends with the test.
func haltsOf(t *testing.T, with stopper) *freezeController {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() { stop(); running.Wait() })
	return &freezeController{freezer: with, log: slog.New(slog.DiscardHandler),
		spawn: func(do func(context.Context)) { running.Go(func() { do(ctx) }) }}
}

func TestAThawThatIsWantedDuringAFreezeComesAfterIt(t *testing.T) {
	s := slow{make(chan string, 9), make(chan error)}
	h := haltsOf(t, s)
	wrong := errors.New("wrong")
	told := make(chan error, 9)
	tell := func(err error) { told <- err }
	want := func(what string) {
		t.Helper()
		if did := <-s.does; did != what {
			t.Fatalf("it does %q, want %q", did, what)
		}
	}
	h.requestFreeze(7, 1, tell)
	want("freeze 7")
	h.requestThaw(7)
	h.requestFreeze(8, 1, tell) // another is in nobody's way
	want("freeze 8")
	h.requestFreeze(7, 1, tell)
	h.requestThaw(7)
	select {
	case did := <-s.does:
		t.Fatalf("%q is done beside a freeze", did)
	case <-told:
		t.Fatal("a freeze is said to be over that is not")
	case <-time.After(20 * time.Millisecond):
	}
	s.let <- wrong // of either
	s.let <- wrong
	want("thaw 7")
	s.let <- nil
	heard := []error{<-told, <-told, <-told}
	if n := len(slices.DeleteFunc(heard, func(err error) bool { return err == nil })); n != 2 {
		t.Errorf("%d were told of a mistake, want those two whose freeze was tried", n)
	}
}

func TestWhatIsNotWantedAnyMoreIsForgotten(t *testing.T) {
	s := slow{make(chan string, 9), make(chan error, 9)}
	h := haltsOf(t, s)
	for range 6 {
		s.let <- nil
	}
	for job := range 3 {
		h.requestFreeze(job, 1, func(error) { h.requestThaw(job) }) // by the goroutine that stopped it
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		h.mu.Lock()
		left := len(h.jobs)
		h.mu.Unlock()
		if left == 0 && len(s.does) == 6 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d jobs are kept, %d things were done", left, len(s.does))
		}
	}
}

// failing is a stopper whose thaws fail until it is mended, or the job is gone.
type failing struct {
	mu    sync.Mutex
	why   error
	away  bool
	tries []time.Time
}

func (f *failing) freeze(context.Context, int, int) error { return nil }

func (f *failing) thaw(int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tries = append(f.tries, time.Now())
	return f.why
}

func (f *failing) gone(int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.away
}

func (f *failing) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// tried waits until thaws were tried so often.
func (f *failing) tried(t *testing.T, times int) []time.Time {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		f.mu.Lock()
		tries := slices.Clone(f.tries)
		f.mu.Unlock()
		if len(tries) >= times {
			return tries
		}
		if time.Now().After(end) {
			t.Fatalf("%d tries, want %d", len(tries), times)
		}
	}
}

func stillFrozen(t *testing.T, h *freezeController, want int) []wire.Stuck {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		still, _ := h.status()
		if len(still) == want {
			return still
		}
		if time.Now().After(end) {
			t.Fatalf("stuck are %+v, want %d", still, want)
		}
	}
}

func TestAThawThatFailsIsTriedAgainMoreAndMoreRarelyAndSaidOnce(t *testing.T) {
	for what, mend := range map[string]func(*failing){
		"it succeeds":     func(f *failing) { f.why = nil },
		"the job is gone": func(f *failing) { f.away = true },
	} {
		f, said := &failing{why: errors.New("no room")}, new(strings.Builder)
		h := haltsOf(t, f)
		h.minRetry, h.maxRetry = 10*time.Millisecond, 40*time.Millisecond
		h.log = slog.New(slog.NewTextHandler(said, nil))
		h.requestFreeze(7, 1, func(error) { h.requestThaw(7) })
		at := f.tried(t, 5)
		for n, least := range []time.Duration{10, 20, 40, 40} {
			if waited := at[n+1].Sub(at[n]); waited < least*time.Millisecond {
				t.Errorf("%s: try %d came after %v, want %d ms", what, n+2, waited, least)
			}
		}
		if still := stillFrozen(t, h, 1); still[0].Job != 7 || still[0].Tries < 4 || still[0].Error != "no room" {
			t.Errorf("%s: shown as %+v", what, still)
		}
		f.set(func() { f.why = errors.New("no file") })
		f.tried(t, len(f.tried(t, 5))+2)
		f.set(func() { mend(f) })
		stillFrozen(t, h, 0)
		if _, failed := h.status(); failed < 6 {
			t.Errorf("%s: %d tries are counted", what, failed)
		}
		h.mu.Lock()
		if lines := strings.Count(said.String(), "\n"); lines != 3 || !strings.Contains(said.String(), "level=INFO") {
			t.Errorf("%s: said %d times, want twice what is wrong and that it is mended:\n%s", what, lines, said)
		}
		h.mu.Unlock()
	}
}

func TestAJobThatIsToStandAgainIsNotLetGoOnByATryFromBefore(t *testing.T) {
	f := &failing{why: errors.New("no room")}
	h := haltsOf(t, f)
	h.minRetry = 20 * time.Millisecond
	h.requestThaw(7)
	f.tried(t, 2)
	stopped := make(chan error)
	h.requestFreeze(7, 1, func(err error) { stopped <- err })
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	stillFrozen(t, h, 0)
	tries := len(f.tried(t, 0))
	time.Sleep(100 * time.Millisecond)
	if more := len(f.tried(t, 0)); more > tries {
		t.Errorf("it was tried %d times since it was stopped again", more-tries)
	}
}
