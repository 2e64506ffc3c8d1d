package leader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
)

// Fence lets a round write only while its daemon leads. Reads are always allowed.
type Fence struct {
	slurm.Manager
	Member *Member
}

// Update implements slurm.Manager.
func (f Fence) Update(ctx context.Context, update slurm.Update) error {
	return f.guard(ctx, func(ctx context.Context) error { return f.Manager.Update(ctx, update) })
}

// Signal implements slurm.Manager.
func (f Fence) Signal(ctx context.Context, job int, signal slurm.Signal) error {
	return f.guard(ctx, func(ctx context.Context) error { return f.Manager.Signal(ctx, job, signal) })
}

// Requeue implements slurm.Manager.
func (f Fence) Requeue(ctx context.Context, job int) error {
	return f.guard(ctx, func(ctx context.Context) error { return f.Manager.Requeue(ctx, job) })
}

// FencedSplitter fences a workload manager that splits arrays.
type FencedSplitter struct {
	slurm.Splitter
	Fence Fence
}

// Split implements slurm.Splitter.
func (f FencedSplitter) Split(ctx context.Context, array int, tasks []int) error {
	return f.Fence.guard(ctx, func(ctx context.Context) error { return f.Splitter.Split(ctx, array, tasks) })
}

// FencedLeases fences the lease job: a standby daemon does not renew it.
type FencedLeases struct {
	slurm.Leases
	Fence Fence
}

// Renew implements slurm.Leases.
func (f FencedLeases) Renew(ctx context.Context, length time.Duration) (int, error) {
	job := 0
	err := f.Fence.guard(ctx, func(ctx context.Context) (err error) {
		job, err = f.Leases.Renew(ctx, length)
		return err
	})
	return job, err
}

// End implements slurm.Leases.
func (f FencedLeases) End(ctx context.Context) error { return f.Fence.guard(ctx, f.Leases.End) }

// guard runs a write if the daemon leads, with a deadline at the end of its lead: after that another daemon may write,
// so a write of several requests must send none any more. A write that this deadline cuts off counts as ErrNotLeader,
// although a part of it may have been sent.
func (f Fence) guard(ctx context.Context, write func(context.Context) error) error {
	until, leads := f.Member.Until()
	if !leads {
		return slurm.ErrNotLeader
	}
	within, cancel := context.WithTimeout(ctx, until-f.Member.Clock.Elapsed())
	defer cancel()
	err := write(within)
	if err != nil && ctx.Err() == nil && errors.Is(within.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", slurm.ErrNotLeader, err)
	}
	return err
}
