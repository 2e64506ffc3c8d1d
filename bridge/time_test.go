package bridge_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
	"github.com/synergy-slurmd/synergy-slurmd/ledger"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// slow is a fault that only takes time: each call so long, before its effect.
func slow(w *world, took func(slurmtest.Call) time.Duration) slurmtest.Fault {
	return func(c slurmtest.Call, at slurmtest.Moment) error {
		if at == slurmtest.Before {
			w.sleep(took(c))
		}
		return nil
	}
}

// A user submits 10,000 jobs at once. Each call to Slurm takes 10 ms, and an update is some of them.
func TestAFloodOfJobsHoldsUpNobodysStartAndAllAreTold(t *testing.T) {
	const flood = 10_000
	w := &world{t: t, clock: slurmtest.NewClock(epoch), book: &ledger.Memory{Keep: 1}}
	w.slurm = slurmtest.New(w.clock, slurmtest.Options{Nodes: slurmtest.Rack(2, server, "gpu"),
		SchedulerDelay: time.Millisecond})
	w.runner = &bridge.Runner{Settings: bridge.Settings{
		Partitions: []string{"gpu"}, Policy: policy.FIFO(), Allocator: policy.Tune(), Round: 300 * time.Second,
		Lease:        900 * time.Second,
		StartTimeout: 20 * time.Second, Poll: time.Second, Parallel: 1,
	}}
	for range flood {
		w.submit(1, model("gnmt"), forAges)
	}
	w.start(slow(w, func(c slurmtest.Call) time.Duration {
		if c.Verb == slurmtest.Update {
			return 40 * time.Millisecond
		}
		return 10 * time.Millisecond
	}))
	report := w.round()
	startedBy, putOff := time.Duration(0), 0
	for id := 1; id <= 16; id++ {
		j := w.job(id)
		if j.State != slurm.Running {
			t.Errorf("job %d is %s", id, j.State)
		}
		startedBy = max(startedBy, j.Started.Sub(epoch))
	}
	for _, s := range report.Steps {
		if s.PutOff {
			putOff++
		}
		if s.Error != "" {
			t.Errorf("%s of job %d: %s", s.Verb, s.Job, s.Error)
		}
	}
	took := w.clock.Now().Sub(epoch)
	t.Logf("the sixteen that fit ran after %s; the round took %s and put %d of %d off", startedBy, took, putOff,
		flood-16)
	if startedBy > 5*time.Second || putOff == 0 || took > 301*time.Second {
		t.Errorf("started by %s, %d put off, a round of %s", startedBy, putOff, took)
	}
	for k := 1; k <= 5; k++ {
		w.sleep(max(0, epoch.Add(time.Duration(k)*300*time.Second).Sub(w.clock.Now())))
		w.round()
		w.mustAllBeLeased()
	}
	for _, d := range w.round().Plan.Decisions {
		if extra := w.job(d.Job).Extra; d.Grant == nil && !strings.Contains(extra, `"why":"no GPU is free`) {
			t.Fatalf("job %d was never told why it waits: %s", d.Job, extra)
		}
	}
}

// mustAllBeLeased checks that nothing runs that no round started, and that no lease has lapsed.
func (w *world) mustAllBeLeased() {
	w.t.Helper()
	seen, err := w.slurm.Observe(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	runs := 0
	for _, j := range seen.Jobs {
		switch {
		case j.State == slurm.Running:
			runs++
		case !w.waits(j) && !j.Held:
			w.t.Fatalf("at %s the lease of job %d has lapsed", seen.At.Sub(epoch), j.ID)
		}
	}
	if runs != 16 {
		w.t.Errorf("%d jobs run on 16 GPUs", runs)
	}
}

// tired is a hook that takes its time, or all that it is given.
type tired struct {
	w     *world
	takes time.Duration
	gave  []time.Duration
}

func (h *tired) run(within time.Duration) error {
	h.gave = append(h.gave, within)
	h.w.sleep(max(0, min(h.takes, within)))
	if h.takes > within {
		return errors.New("killed: its time was over")
	}
	return nil
}

func (h *tired) Before(_ context.Context, _ slurm.Job, _ string, within time.Duration) error {
	return h.run(within)
}

func (h *tired) After(_ context.Context, _ slurm.Job, _ string, within time.Duration) error {
	return h.run(within)
}

// Calls to Slurm take any time up to the client's timeout, hooks up to for ever, victims save or not.
func TestARoundEndsWithItsTimeAndOneCallHoweverSlowTheWorldIs(t *testing.T) {
	const timeout = 15 * time.Second
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, 2, small)
		w.runner.Settings.Policy = policy.LAS()
		for range 2 {
			w.submit(3, model("gnmt"), forAges,
				saves(time.Duration(rapid.IntRange(0, 400).Draw(rt, "saves"))*time.Second))
		}
		w.submit(1, model("gnmt"), forAges, hangs)
		w.rounds(2)
		for range rapid.IntRange(1, 12).Draw(rt, "newcomers") {
			w.submit(rapid.IntRange(1, 4).Draw(rt, "GPUs"), model("gnmt"), forAges)
		}
		if rapid.Bool().Draw(rt, "hook") {
			w.runner.Settings.Hook = &tired{w: w,
				takes: rapid.SampledFrom([]time.Duration{time.Second, time.Minute, ages}).Draw(rt, "hook takes")}
		}
		most := rapid.IntRange(0, int(timeout/time.Millisecond)).Draw(rt, "slowest call, ms")
		times := rapid.SliceOfN(rapid.IntRange(0, most), 40, 40).Draw(rt, "calls, ms")
		// Where calls take that long leases lapse, and Slurm starts jobs by itself between a look and a start: places
		// are then not as seen.
		w.line = slurmtest.NewLine(w.slurm, w.clock, slow(w, func(c slurmtest.Call) time.Duration {
			return time.Duration(times[c.N%len(times)]) * time.Millisecond
		}))
		w.runner.Slurm, w.runner.Ledger, w.runner.Clock = w.line, mortal{w.book, w.line}, w.line
		for range 4 {
			began := w.clock.Now()
			if _, err := w.runner.Round(ctx); err != nil {
				rt.Fatal(err)
			}
			took := w.clock.Now().Sub(began)
			if late := took - w.runner.Settings.Round; late > timeout {
				rt.Fatalf("a round of %s, late by %s", took, late)
			}
			w.sleep(max(0, w.runner.Settings.Round-took))
		}
		if t.Failed() {
			rt.Fatal("an invariant of the cluster broke")
		}
	})
}

// Nothing that a hook does can keep a start from its place that needs nobody to leave.
func TestAHookThatNeverEndsCostsOnlyTheJobsThatItIsAskedFor(t *testing.T) {
	w := newWorld(t, 2, oneGPU)
	w.runner.Settings.Policy = policy.LAS()
	stays := w.submit(1, model("gnmt"), forAges, pinned("n1"))
	w.rounds(2)
	h := &tired{w: w, takes: ages}
	w.runner.Settings.Hook = h
	waits, free := w.submit(1, model("gnmt"), forAges, pinned("n1")), w.submit(1, model("gnmt"), forAges, pinned("n2"))
	report := w.rounds(1)
	if s := step(t, report, stays, bridge.Preempt); s.Error != "checkpoint hook: killed: its time was over" ||
		w.line.Count(slurmtest.Signal) != 0 {
		t.Errorf("preempt: %+v after %d signals", s, w.line.Count(slurmtest.Signal))
	}
	if !slices.Equal(h.gave, []time.Duration{150 * time.Second}) {
		t.Errorf("it was given %v of a round of 300 s", h.gave)
	}
	w.mustRun(stays, "n1", 1)
	w.mustRun(free, "n2", 1)
	if w.job(waits).State != slurm.Pending {
		t.Errorf("job %d is %s", waits, w.job(waits).State)
	}
}

// Its grace is longer than a round, and it never leaves by itself.
func TestACheckpointThatNeverEndsIsEndedByForceAfterItsGraceOverSeveralRounds(t *testing.T) {
	w := newWorld(t, 1, oneGPU)
	first, second := challenge(w, "synergy-profile=gnmt.json synergy-checkpoint=USR1@700", hangs, forAges)
	asked := w.clock.Now()
	h := &tired{w: w, takes: time.Second}
	w.runner.Settings.Hook = h
	rounds := 0
	for ; w.job(first).State == slurm.Running; rounds++ {
		began := w.clock.Now()
		w.round()
		if took := w.clock.Now().Sub(began); took > w.runner.Settings.Round {
			t.Errorf("a round of %s", took)
		}
	}
	past, _ := w.slurm.History(first)
	if stopped := past.Runs[0].Stop.Sub(asked); stopped < 700*time.Second || stopped > 705*time.Second || rounds != 3 {
		t.Errorf("stopped %s after it was asked, in round %d", stopped, rounds)
	}
	if w.line.Count(slurmtest.Signal) != 1 || w.line.Count(slurmtest.Requeue) != 1 || len(h.gave) != 2 {
		t.Errorf("%d signals, %d requeues, %d hooks", w.line.Count(slurmtest.Signal), w.line.Count(slurmtest.Requeue),
			len(h.gave))
	}
	w.rounds(1)
	w.mustRun(second, "n1", 1)
}

func TestAStartThatMightNotBeTakenBackInTimeIsLeftToTheNextRound(t *testing.T) {
	w := newWorld(t, 1, oneGPU)
	first, second := challenge(w, "synergy-profile=gnmt.json synergy-checkpoint=USR1@600", saves(280*time.Second))
	w.start(slow(w, func(c slurmtest.Call) time.Duration {
		if c.Verb == slurmtest.Update {
			return 14 * time.Second
		}
		return 0
	}))
	report := w.rounds(1)
	if s := step(t, report, second, bridge.Start); !s.PutOff || s.Error != "" || len(s.Changes) != 0 {
		t.Errorf("a start with six seconds left, of which an update takes fourteen: %+v", s)
	}
	w.mustBeAsSubmitted()
	w.rounds(1)
	w.mustRun(second, "n1", 1)
	w.mustKeepAll(first)
}
