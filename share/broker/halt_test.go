package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"
)

// slow is a stopper that does what it is told when it is let.
type slow struct {
	does chan string // what it is about to do
	let  chan error  // what becomes of it
}

func (s slow) freeze(_ context.Context, job, _ int) error { return s.do("freeze", job) }
func (s slow) thaw(job int) error                         { return s.do("thaw", job) }

func (s slow) do(what string, job int) error {
	s.does <- fmt.Sprint(what, " ", job)
	return <-s.let
}

// haltsOf are of a broker that ends with the test.
func haltsOf(t *testing.T, with stopper) *halts {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() { stop(); running.Wait() })
	return &halts{freezer: with, log: slog.New(slog.DiscardHandler),
		begin: func(do func(context.Context)) { running.Go(func() { do(ctx) }) }}
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
	h.stop(7, 1, tell)
	want("freeze 7")
	h.goOn(7)
	h.stop(8, 1, tell) // another is in nobody's way
	want("freeze 8")
	h.stop(7, 1, tell)
	h.goOn(7)
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
		h.stop(job, 1, func(error) { h.goOn(job) }) // by the goroutine that stopped it
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
