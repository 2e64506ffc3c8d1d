package production

import (
	"context"
	"fmt"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
)

// between two reports of progress.
const roundsPerReport = 64

// play holds rounds until there is nothing left to see.
func (s *site) play(ctx context.Context) error {
	s.expect()
	s.clock.Advance(0) // those who are there from the beginning
	for !s.done() {
		if s.slurm.Active() == 0 {
			s.idle()
		} else if err := s.hold(ctx); err != nil {
			return err
		}
		if err := s.advance(ctx); err != nil {
			return err
		}
	}
	return s.failed
}

// done says that the simulation has come to its end.
func (s *site) done() bool {
	switch {
	case s.failed != nil:
		return true
	case s.Until > 0 && s.clock.Now().Sub(opening()) >= s.Until:
		return true
	case s.Window != outcome.Window{} && s.counted == s.Window.End-s.Window.First:
		return true
	}
	return s.drained && s.slurm.Active() == 0
}

// hold holds one round.
func (s *site) hold(ctx context.Context) error {
	at := s.clock.Now()
	report, err := s.runner.Round(ctx)
	if err != nil {
		return fmt.Errorf("round %d: %w", report.Round, err)
	}
	s.run.Held++
	if s.Detail {
		s.note(since(at), report)
	}
	if s.Progress != nil && s.run.Held%roundsPerReport == 0 {
		s.Progress(s.over, since(at))
	}
	return nil
}

// idle is what rounds without a job do, all up to the next arrival at once.
func (s *site) idle() {
	next, more := s.clock.Next()
	if !more {
		return
	}
	if skipped := int(next.Sub(s.clock.Now()) / s.Round); skipped > 0 {
		s.run.Held += skipped
		s.clock.Advance(time.Duration(skipped) * s.Round)
	}
	s.run.Held++
}

// advance lets time pass until the next round is due.
func (s *site) advance(ctx context.Context) error {
	passed := s.clock.Now().Sub(opening())
	due := (passed/s.Round + 1) * s.Round
	if s.Until > 0 {
		due = min(due, s.Until)
	}
	return s.clock.Sleep(ctx, due-passed)
}

// note records the cluster as the round left it.
func (s *site) note(at float64, report bridge.Report) {
	r := outcome.Round{At: at}
	for i, d := range report.Plan.Decisions {
		r.Demand += float64(report.Snapshot.Jobs[i].GPUs)
		if d.Grant == nil {
			r.Waiting++
			continue
		}
		held := d.Grant.Total()
		r.Running++
		r.GPUs, r.CPUs, r.Memory = r.GPUs+float64(held.GPUs), r.CPUs+float64(held.CPUs), r.Memory+gigabytes(held.Memory)
	}
	for _, step := range report.Steps {
		switch step.Verb {
		case bridge.Start:
			r.Started++
		case bridge.Preempt:
			r.Stopped++
		}
	}
	s.run.Rounds = append(s.run.Rounds, r)
}
