package leader

import (
	"context"
	"errors"
	"fmt"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
)

// Fence lets a round write only while its daemon leads. It may look whenever it likes.
type Fence struct {
	bridge.Slurm
	Member *Member
}

// Update implements bridge.Slurm.
func (f Fence) Update(ctx context.Context, update bridge.Update) error {
	return f.guard(ctx, func(ctx context.Context) error { return f.Slurm.Update(ctx, update) })
}

// Signal implements bridge.Slurm.
func (f Fence) Signal(ctx context.Context, job int, signal bridge.Signal) error {
	return f.guard(ctx, func(ctx context.Context) error { return f.Slurm.Signal(ctx, job, signal) })
}

// Requeue implements bridge.Slurm.
func (f Fence) Requeue(ctx context.Context, job int) error {
	return f.guard(ctx, func(ctx context.Context) error { return f.Slurm.Requeue(ctx, job) })
}

// FencedSplitter is the same for a workload manager that splits arrays.
type FencedSplitter struct {
	bridge.Splitter
	Fence Fence
}

// Split implements bridge.Splitter.
func (f FencedSplitter) Split(ctx context.Context, array int, tasks []int) error {
	return f.Fence.guard(ctx, func(ctx context.Context) error { return f.Splitter.Split(ctx, array, tasks) })
}

// guard makes a write end with the daemon's belief that it leads: one that takes several requests sends none after
// that.
func (f Fence) guard(ctx context.Context, write func(context.Context) error) error {
	until, leads := f.Member.Until()
	if !leads {
		return bridge.ErrNotLeader
	}
	within, cancel := context.WithTimeout(ctx, until-f.Member.Clock.Elapsed())
	defer cancel()
	err := write(within)
	if err != nil && ctx.Err() == nil && errors.Is(within.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", bridge.ErrNotLeader, err)
	}
	return err
}
