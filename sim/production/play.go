package production

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
)

// roundsPerReport is the number of rounds between two calls of Progress.
const roundsPerReport = 64

// holdRounds holds rounds until the simulation ends, at the times at which the daemon would hold them; the clock
// handles arrivals and ends of jobs between them.
func (s *site) holdRounds(ctx context.Context) error {
	s.scheduleArrival()
	s.clock.Advance(s.First) // jobs that arrive at 0 are submitted by this, too
	for !s.done() {
		quiet, err := s.holdRound(ctx)
		if err != nil {
			return err
		}
		if quiet {
			s.skipRounds()
		}
		if err := s.clock.Sleep(ctx, s.untilRound(1)); err != nil {
			return fmt.Errorf("wait for the next round: %w", err)
		}
	}
	return s.failed
}

// done says whether the simulation has ended: by an error, at Until, when all jobs of the window have finished, or,
// whatever the window, when no job is in Slurm and none is to arrive.
func (s *site) done() bool {
	switch {
	case s.failed != nil:
		return true
	case s.Until > 0 && s.clock.Now().Sub(epoch()) >= s.Until:
		return true
	case s.Window != outcome.Window{} && s.finishedInWindow == cmp.Or(s.WindowJobs, s.Window.End-s.Window.First):
		return true
	}
	return s.sourceEmpty && s.slurm.Active() == 0
}

// holdRound holds one round of the daemon and records it. quiet says that rounds would change nothing until a job
// arrives or ends, and can be skipped: there are no managed jobs, or the passing of time alone cannot change the plan.
// The report's snapshot goes back to the runner, so Watch must not keep it.
func (s *site) holdRound(ctx context.Context) (quiet bool, err error) {
	at := secondsSinceEpoch(s.clock.Now())
	report, err := s.runner.Round(ctx)
	if err != nil {
		return false, fmt.Errorf("round %d: %w", report.Round, err)
	}
	s.run.Held++
	if s.Detail {
		s.run.Rounds = append(s.run.Rounds, roundRecord(at, report))
	}
	if s.Watch != nil {
		s.Watch(&report.Snapshot, report.Plan)
	}
	if s.Progress != nil && s.run.Held%roundsPerReport == 0 {
		s.Progress(s.finishedJobs, at)
	}
	quiet = len(report.Plan.Decisions) == 0 || s.content.Of(&report.Snapshot, report.Plan)
	s.runner.Reuse(report)
	return quiet, nil
}

// skipRounds counts the rounds before the next event of the clock without holding them, since they would change
// nothing. The round at the moment of the event, or after it, must be held: hence the nanosecond that is subtracted.
// Without an event nothing is skipped. With Detail, the last skipped round gets a copy of the latest record, so that
// the state is shown as lasting until then.
func (s *site) skipRounds() {
	next, more := s.clock.Next()
	if !more {
		return
	}
	if s.Until > 0 && next.Sub(epoch()) > s.Until {
		next = epoch().Add(s.Until)
	}
	skipped := (next.Sub(s.clock.Now()) - 1) / s.Round
	if skipped <= 0 {
		return
	}
	s.run.Held += int(skipped)
	s.clock.Advance(s.untilRound(skipped))
	if s.Detail {
		last := s.run.Rounds[len(s.run.Rounds)-1]
		last.At, last.Started, last.Stopped = secondsSinceEpoch(s.clock.Now()), 0, 0
		s.run.Rounds = append(s.run.Rounds, last)
	}
}

// untilRound is the time from now until the n-th next round, or until the end if that is before it. Rounds are at
// multiples of Round after First, also if one took longer.
func (s *site) untilRound(n time.Duration) time.Duration {
	passed := s.clock.Now().Sub(epoch())
	due := s.First + ((passed-s.First)/s.Round+n)*s.Round
	if s.Until > 0 {
		due = min(due, s.Until)
	}
	return due - passed
}

// roundRecord is the record of a round, at seconds since the beginning: what its plan gives to jobs, and how many it
// starts and stops. A GPU that several jobs share counts once; policy.GPUCount remembers which were counted.
func roundRecord(at float64, report bridge.Report) outcome.Round {
	r := outcome.Round{At: at}
	if cert := report.Certificate; cert != nil {
		r.Value, r.Bound = cert.Value, cert.Bound
	}
	var gpus policy.GPUCount
	for i, d := range report.Plan.Decisions {
		r.Demand += float64(report.Snapshot.Jobs[i].GPUs)
		if d.Grant == nil {
			r.Waiting++
			continue
		}
		held := d.Grant.Total()
		held.GPUs = gpus.More(*d.Grant) * len(d.Grant.Nodes)
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
	return r
}
