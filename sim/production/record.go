package production

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
)

func gigabytes(m gres.Memory) float64 { return float64(m) / float64(gres.Gigabyte) }

// recordEnd records a job that has ended; the simulated Slurm calls it. Any end other than completion is a fault of the
// simulation, which ends with it: declared lengths are right, and time limits leave room for a restart.
func (s *site) recordEnd(h slurmtest.History) {
	j := &s.jobs[h.Job-1]
	if h.End != slurmtest.Completed {
		s.fail(fmt.Errorf("job %d ended as %s after %d runs", j.ID, h.End, len(h.Runs)))
		return
	}
	s.addRuns(j, h, h.Ended)
	j.Finish = s.finish(h.Runs[len(h.Runs)-1].Stop)
	s.finishedJobs++
	if s.Window != (outcome.Window{}) && s.Window.Has(j.ID) {
		s.finishedInWindow++
	}
}

// finish is when a job that ended at a time counts as finished, in seconds; with AtRounds, rounded up to a round.
func (s *site) finish(end time.Time) float64 {
	at := roundToMicros(end.Sub(epoch()))
	if s.AtRounds {
		at = s.First + (at-s.First+s.Round-1)/s.Round*s.Round
	}
	return at.Seconds()
}

// roundToMicros rounds away the nanosecond by which an emulated job ends late.
func roundToMicros(d time.Duration) time.Duration { return d.Round(time.Microsecond) }

// addRuns adds the runs of a job to the outcome, up to now if the job has not ended. It is called once for a job. A run
// holds its nodes until they are freed, which is later than its end. GPUs that may have been shared are only noted in
// s.stays, since several jobs can be on one: sharedSeconds counts each of them once.
func (s *site) addRuns(j *outcome.Job, h slurmtest.History, now time.Time) {
	for _, run := range h.Runs {
		stop := run.Freed
		if stop.IsZero() {
			stop = now
		}
		held := roundToMicros(stop.Sub(run.Start)).Seconds()
		nodes := float64(len(run.Nodes))
		if on, shared := s.sharedGPUOf(j, run); shared {
			s.stays[on] = append(s.stays[on], stay{run.Start, stop})
		} else {
			s.run.BusyGPUs += float64(held * nodes * float64(run.PerNode.GPUs))
		}
		s.run.BusyCPUs += float64(held * nodes * float64(run.PerNode.CPUs))
		s.run.BusyMemory += float64(held * nodes * gigabytes(run.PerNode.Memory))
		j.AttainedGPU += float64(held * float64(j.GPUs))
		if s.Detail {
			s.recordSpans(j, run, secondsSinceEpoch(stop))
		}
	}
	j.Starts = len(h.Runs)
	if len(h.Runs) > 0 {
		j.FirstRun = secondsSinceEpoch(h.Runs[0].Start)
	}
}

// recordSpans records a run until a time (seconds since the beginning), one span per server.
func (s *site) recordSpans(j *outcome.Job, run slurmtest.Run, to float64) {
	for k, name := range run.Nodes {
		s.run.Spans = append(s.run.Spans, outcome.Span{
			Job: j.ID, Model: j.Model, Server: s.servers[name], Devices: run.Devices[k],
			GPUs: run.PerNode.GPUs, CPUs: run.PerNode.CPUs, From: secondsSinceEpoch(run.Start), To: to,
		})
	}
}

// outcome returns the results, including jobs that have not finished, whose runs count until now. Jobs that have ended
// were added when they ended.
func (s *site) outcome() outcome.Run {
	now := s.clock.Now()
	s.run.Ended = secondsSinceEpoch(now)
	for i := range s.jobs {
		if h, known := s.slurm.History(i + 1); known && h.Ended.IsZero() {
			s.addRuns(&s.jobs[i], h, now)
		}
	}
	s.run.BusyGPUs += s.sharedSeconds()
	s.run.Jobs = s.jobs
	slices.SortFunc(s.run.Jobs, func(a, b outcome.Job) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(s.run.Spans, func(a, b outcome.Span) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Job, b.Job), cmp.Compare(a.Server, b.Server))
	})
	s.run.BusyGPUs, s.run.BusyCPUs, s.run.BusyMemory = tidy(s.run.BusyGPUs), tidy(s.run.BusyCPUs),
		tidy(s.run.BusyMemory)
	return s.run
}

// tidy rounds away the error of a sum of many floats.
func tidy(x float64) float64 { return math.Round(x*1e6) / 1e6 }
