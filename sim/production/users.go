package production

import (
	"fmt"
	"math"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
	"github.com/synergy-slurmd/synergy-slurmd/sim/users"
)

// scheduleArrival reads the next job of the source and schedules its arrival; without one it sets sourceEmpty. Each
// arrival schedules the one after it, so that an endless source is read only as far as needed. Errors end the
// simulation (fail).
func (s *site) scheduleArrival() {
	j, more := s.Jobs.Next()
	if !more {
		s.sourceEmpty = true
		return
	}
	at := epoch().Add(seconds(j.Arrival))
	if at.Before(s.clock.Now()) {
		s.fail(fmt.Errorf("job %d arrives at %v s, before the one that it follows: want arrivals in order", j.ID,
			j.Arrival))
		return
	}
	s.clock.At(at, func() {
		if err := s.submit(j); err != nil {
			s.fail(fmt.Errorf("job %d: %w", j.ID, err))
		}
		s.scheduleArrival()
	})
}

// fail ends the simulation with the first error.
func (s *site) fail(err error) {
	if s.failed == nil {
		s.failed = err
	}
}

// submit submits a job as its user would with sbatch, and appends it to the outcome. The length of its work is the time
// that it takes with exactly its request. Its rate of progress is therefore 1 with the request, and otherwise the speed
// relative to that (asked.Owed).
func (s *site) submit(j trace.Job) error {
	asked, err := users.Ask(s.Cluster, s.Profiles, j)
	if err != nil {
		return err
	}
	p, owed := asked.Profile, asked.Owed
	_, err = s.slurm.Submit(slurmtest.Spec{
		Name: j.Model, User: j.User, Partition: partition, Lease: s.lease(j),
		Comment: s.comment(j, asked), TimeLimit: s.timeLimit(j, asked),
		Request: slurm.Request{
			Nodes: asked.Nodes, Tasks: asked.Nodes, CPUsPerTask: asked.PerNode.CPUs, Memory: asked.PerNode.Memory,
			GPUs: j.GPUs, GRES: s.gpuRequest(j),
		},
		Work: slurmtest.Work{
			Length:   seconds(asked.Length),
			Rate:     func(has slurm.Allocated) float64 { return p.Rate(sensitivity.ShareOf(has.PerNode)) / owed },
			OnSignal: s.reaction(j), OnTerm: s.reaction(j),
			Launch: s.Slurm.Launch, Save: seconds(p.CheckpointSeconds), Restart: seconds(p.StartSeconds),
		},
	})
	if err != nil {
		return err
	}
	s.jobs = append(s.jobs, outcome.Job{
		ID: j.ID, Model: j.Model, User: j.User, GPUs: j.GPUs, Arrival: j.Arrival, Length: asked.Length, FirstRun: -1,
		Finish: -1,
	})
	return nil
}

// comment is the directive of the job's user, or empty if the job does not opt in. The length is left out if the user
// does not declare it and the log has a time limit, which the daemon then plans with. A declared length of 0.000s would
// be refused, so it is at least a millisecond. The grace for saving is the daemon's default of 60 s, or longer for a
// profile that takes longer to save: its user would ask for as much, or lose the progress of each run that is
// preempted.
func (s *site) comment(j trace.Job, asked users.Request) string {
	if !s.Users.OptsIn(j.ID) {
		return ""
	}
	grace := min(3600, max(60, math.Ceil(2*asked.Profile.CheckpointSeconds)))
	checkpoint := fmt.Sprintf(" synergy-checkpoint=USR1@%.0f", grace)
	if !s.Users.Saves(j.ID) {
		checkpoint = ""
	}
	checkpoint += s.shareDirective(j)
	if !s.Users.Declares(j.ID) && j.Told.Asked.Limit > 0 {
		return fmt.Sprintf("synergy-profile=%s%s%s", j.Model, extension, checkpoint)
	}
	return fmt.Sprintf("synergy-profile=%s%s%s synergy-length=%.3fs", j.Model, extension, checkpoint,
		math.Max(asked.Length, 0.001))
}

// timeLimit is a job's time limit in whole minutes, as Slurm has it. It is the log's limit if that is enough for the
// job with a restart, and otherwise the shortest that is enough, because no simulated job may be ended by its limit. 1
// % is added to the length, since the share in whole MiB is slightly smaller than the exact share; with AtRounds a
// round is added, too. If jobs share GPUs, the result is 0 and no job has a limit, since the speed on a shared GPU is
// not known in advance.
func (s *site) timeLimit(j trace.Job, asked users.Request) time.Duration {
	if s.Users.Sharing > 0 {
		return 0
	}
	p := asked.Profile
	needs := s.Slurm.Launch + seconds(1.01*asked.Length) + seconds(p.StartSeconds) + seconds(p.CheckpointSeconds)
	if s.AtRounds {
		needs += s.Round
	}
	if limit := seconds(j.Told.Asked.Limit); limit > needs {
		return limit
	}
	return (needs/time.Minute + 1) * time.Minute
}

// lease is the lease from submission that the gate gives a job that opts in, as a begin time. Other jobs get 0, no
// lease, so Slurm alone schedules them.
func (s *site) lease(j trace.Job) time.Duration {
	if !s.Users.OptsIn(j.ID) {
		return 0
	}
	return lease
}

// reaction is what a job does when it is asked to save: without a checkpoint it dies.
func (s *site) reaction(j trace.Job) slurmtest.Reaction {
	if !s.Users.Saves(j.ID) {
		return slurmtest.Dies
	}
	return slurmtest.Saves
}
