package slurmtest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
)

// Update implements slurm.Manager. Like slurmctld it is not transactional: it may have applied what it refuses.
func (s *Slurm) Update(ctx context.Context, update slurm.Update) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.update(ctx, update); err != nil {
		return fmt.Errorf("update job %d: %w", update.Job, err)
	}
	return nil
}

// update sets the whole request of a pending job. As in slurmctld some refusals come after the change, so a caller must
// not take a refused update for one that changed nothing.
func (s *Slurm) update(ctx context.Context, update slurm.Update) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	j, err := s.known(update.Job)
	if err != nil {
		return err
	}
	switch {
	case j.state != slurm.Pending:
		return slurm.ErrNotPending
	case j.held:
		return slurm.ErrHeld
	}
	if err := checkPerGPU(j.request, update.Request); err != nil {
		return err
	}
	if err := checkShard(j, update.Request); err != nil {
		return err
	}
	defer s.noteUpdate(j) // also after a refusal
	for _, name := range update.Request.Pin {
		if _, found := s.byName[name]; !found {
			return fmt.Errorf("%w: node %q: invalid node name", slurm.ErrRefused, name)
		}
	}
	j.request, j.begin, j.extra = update.Request, update.Begin, update.Extra
	j.leaseBegin, j.lease = update.Begin, 0
	if s.isLease(update.Lease) { // as in Slurm, a dependency on a finished job is fulfilled
		j.lease = update.Lease
	}
	j.request.Pin = slices.Sorted(slices.Values(update.Request.Pin))
	if j.request.Shard != "" {
		setShardFields(&j.request)
	}
	if update.Request.Partition != "" {
		j.startPartitions = strings.Split(update.Request.Partition, ",")
	}
	return s.checkCPUs(j)
}

// checkPerGPU refuses, as slurmctld does, to change amounts per GPU, and to set another size per task or node for a job
// that asks for amounts per GPU. has is the present request, wants that of the update.
func checkPerGPU(has, wants slurm.Request) error {
	sized := wants.Tasks != has.Tasks || wants.CPUsPerTask != has.CPUsPerTask || wants.CPUs != has.CPUs ||
		wants.CPUsPerNode != has.CPUsPerNode
	switch {
	case wants.CPUsPerGPU != has.CPUsPerGPU, has.CPUsPerGPU > 0 && sized:
		return fmt.Errorf("%w: %d CPUs for each GPU: they cannot be changed", slurm.ErrRefused, has.CPUsPerGPU)
	case wants.MemoryPerGPU != has.MemoryPerGPU, has.MemoryPerGPU > 0 && wants.Memory+wants.MemoryPerCPU > 0:
		return fmt.Errorf("%w: %d MiB for each GPU: they cannot be changed", slurm.ErrRefused, has.MemoryPerGPU)
	}
	return nil
}

// checkCPUs returns an error if no node has as many CPUs as the job now asks for on each; the job has that request all
// the same, as in slurmctld. Memory and GPUs are not checked here: the scheduler does when the job may begin.
func (s *Slurm) checkCPUs(j *job) error {
	cpus := s.perNode(j.request).CPUs
	for _, n := range s.nodes {
		if cpus <= n.fixed.Total.CPUs {
			return nil
		}
	}
	return fmt.Errorf("%w: %d CPUs on a node: requested node configuration is not available", slurm.ErrRefused, cpus)
}

// errInteractive is for interactive jobs, which cannot be requeued.
var errInteractive = fmt.Errorf("%w: only batch jobs are accepted or processed", slurm.ErrRefused)

// Signal implements slurm.Manager.
func (s *Slurm) Signal(ctx context.Context, id int, signal slurm.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.signal(ctx, id, signal); err != nil {
		return fmt.Errorf("signal job %d %s: %w", id, signal, err)
	}
	return nil
}

// signal sets the requeue flag of a running batch job and then delivers the signal: the exit code with which the job
// answers requeues it only with that flag.
func (s *Slurm) signal(ctx context.Context, id int, signal slurm.Signal) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	j, err := s.known(id)
	if err != nil {
		return err
	}
	switch {
	case j.state != slurm.Running:
		return slurm.ErrNotRunning
	case j.spec.Interactive:
		return errInteractive
	}
	j.requeue = true
	s.changed(j)
	s.deliver(j, signal)
	return nil
}

// Requeue implements slurm.Manager.
func (s *Slurm) Requeue(ctx context.Context, id int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.requeueRunning(ctx, id); err != nil {
		return fmt.Errorf("requeue job %d: %w", id, err)
	}
	return nil
}

// requeueRunning sets the requeue flag of a running job, without which Slurm would refuse, and terminates it. A pending
// job is left alone, so that a repeated call does no harm.
func (s *Slurm) requeueRunning(ctx context.Context, id int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	j, err := s.known(id)
	switch {
	case err != nil:
		return err
	case j.state == slurm.Pending:
		return nil
	case j.state == slurm.Finished:
		return slurm.ErrNotRunning
	case j.spec.Interactive:
		return errInteractive
	}
	j.requeue = true
	s.terminate(j, Requeued)
	return nil
}
