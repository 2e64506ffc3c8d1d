package slurmtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
)

func TestACallThatFailsAfterItsEffectHasHadIt(t *testing.T) {
	for _, c := range []struct {
		moment Moment
		want   string
	}{{Before, ""}, {After, "mine"}} {
		s := newSite(t, Options{})
		id := s.submit(Spec{Request: gpus(1), Lease: time.Hour, Extra: ""})
		s.SetExtra(id, "")
		line := NewLine(s.Slurm, s.clock, FailAt(1, c.moment, slurm.ErrUnreachable))
		err := line.Update(context.Background(), slurm.Update{Job: id, Request: s.job(id).Request, Extra: "mine"})
		if !errors.Is(err, slurm.ErrUnreachable) {
			t.Errorf("%s: got %v", c.moment, err)
		}
		if got := s.job(id).Extra; got != c.want {
			t.Errorf("%s: extra is %q, want %q", c.moment, got, c.want)
		}
	}
}

func TestADeadProcessHasNoEffectAndSleepsNoMore(t *testing.T) {
	s := newSite(t, Options{})
	id := s.submit(Spec{Request: gpus(1)})
	s.clock.Advance(2 * time.Second)
	line := NewLine(s.Slurm, s.clock, DieAt(2, After))
	ctx := context.Background()
	if _, err := line.Observe(ctx); err != nil {
		t.Fatal(err)
	}
	if err := line.Requeue(ctx, id); !errors.Is(err, ErrDied) {
		t.Errorf("got %v, want death", err)
	}
	before := s.clock.Now()
	if err := line.Sleep(ctx, time.Hour); !errors.Is(err, ErrDied) || s.clock.Now() != before {
		t.Errorf("a dead process slept: %v", err)
	}
	if _, err := line.Observe(ctx); !errors.Is(err, ErrDied) {
		t.Errorf("a dead process sees: %v", err)
	}
	if got := s.job(id).State; got != slurm.Pending {
		t.Errorf("job is %s: its last call had no effect", got)
	}
	if got := line.Count(Requeue); got != 1 {
		t.Errorf("%d requeues counted", got)
	}
}
