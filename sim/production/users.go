package production

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
)

// longest is the longest job that Slurm's clock and the words of a comment can hold.
const longest = 10 * 365 * 24 * time.Hour

// expect has the next job of the source arrive in its time.
func (s *site) expect() {
	j, more := s.Jobs.Next()
	if !more {
		s.drained = true
		return
	}
	at := opening().Add(seconds(j.Arrival))
	if at.Before(s.clock.Now()) {
		s.fail(fmt.Errorf("job %d arrives at %v s, before the one that it follows: want arrivals in order", j.ID,
			j.Arrival))
		return
	}
	s.clock.At(at, func() {
		if err := s.submit(j); err != nil {
			s.fail(fmt.Errorf("job %d: %w", j.ID, err))
		}
		s.expect()
	})
}

// fail ends the simulation with the first error; no more jobs come.
func (s *site) fail(err error) {
	if s.failed == nil {
		s.failed = err
	}
}

// submit is sbatch by the job's user.
func (s *site) submit(j trace.Job) error {
	p, known := s.Profiles[j.Model]
	if !known {
		return fmt.Errorf("model %q has no profile: want one of %s", j.Model, strings.Join(s.models(), ", "))
	}
	home, nodes, err := s.home(j.GPUs)
	if err != nil {
		return err
	}
	fair := gres.Proportional(home, j.GPUs/nodes)
	owed := p.Rate(sensitivity.ShareOf(fair))
	length := float64(j.Iterations) * float64(p.Batch) / owed
	if j.Iterations < 1 || length > longest.Seconds() {
		return fmt.Errorf("%d iterations of %s take %.0f s: want at least one, and at most %.0f s", j.Iterations,
			j.Model, length, longest.Seconds())
	}
	_, err = s.slurm.Submit(slurmtest.Spec{
		Name: j.Model, User: j.User, Partition: partition, Lease: lease, Comment: comment(j.Model, length),
		Request: bridge.Request{Nodes: nodes, Tasks: nodes, CPUsPerTask: fair.CPUs, Memory: fair.Memory, GPUs: j.GPUs},
		Work: slurmtest.Work{
			Length:   seconds(length),
			Rate:     func(has bridge.Allocated) float64 { return p.Rate(sensitivity.ShareOf(has.PerNode)) / owed },
			OnSignal: slurmtest.Saves, OnTerm: slurmtest.Saves,
			Launch: s.Slurm.Launch, Save: seconds(p.CheckpointSeconds), Restart: seconds(p.StartSeconds),
		},
	})
	if err != nil {
		return err
	}
	s.jobs = append(s.jobs, outcome.Job{
		ID: j.ID, Model: j.Model, User: j.User, GPUs: j.GPUs, Arrival: j.Arrival, Length: length, FirstRun: -1,
		Finish: -1,
	})
	return nil
}

// comment is what a user writes for the daemon.
func comment(model string, length float64) string {
	return fmt.Sprintf("synergy-profile=%s%s synergy-checkpoint=USR1@60 synergy-length=%.3fs", model, extension,
		math.Max(length, 0.001))
}

// home is the first shape of servers that can hold a job with so many GPUs, and on how many of them: as few as have it
// evenly.
func (s *site) home(gpus int) (gres.Vector, int, error) {
	for _, shape := range s.shapes {
		if gpus < 1 || shape.total.GPUs < 1 {
			continue
		}
		for nodes := (gpus + shape.total.GPUs - 1) / shape.total.GPUs; nodes <= min(shape.count, gpus); nodes++ {
			if gpus%nodes == 0 {
				return shape.total, nodes, nil
			}
		}
	}
	return gres.Vector{}, 0,
		fmt.Errorf("gpus = %d: want at least 1, and a number that equal servers of %s hold in equal parts", gpus,
			s.Cluster)
}

// models are the names of the profiles, ascending.
func (s *site) models() []string {
	names := make([]string, 0, len(s.Profiles))
	for name := range s.Profiles {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
