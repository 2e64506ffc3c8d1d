package slurmrest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/wire"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// atOnce is the begin time that means now: any moment of the past does, save for 0, which means "unchanged".
const atOnce = 1

// Update sends the whole request in one POST and believes it when a re-read shows it: Slurm applies field by field, and
// what an error leaves behind is not undone. Where the job is known to have that request already, one POST of the rest
// will do.
func (c *Client) Update(ctx context.Context, update bridge.Update) (failure error) {
	defer c.discreet(&failure)
	renewed, err := c.renew(ctx, update)
	if !renewed {
		err = c.update(ctx, update)
		c.touch(update.Job)
	}
	if err != nil {
		return fmt.Errorf("update job %d: %w", update.Job, err)
	}
	return nil
}

func (c *Client) update(ctx context.Context, update bridge.Update) error {
	before, err := c.pending(ctx, update.Job)
	if err != nil {
		return err
	}
	if err := keepsPace(before.Request, update.Request); err != nil {
		return err
	}
	if err := sharable(before.Request, update.Request); err != nil {
		return err
	}
	begin := c.begin(update.Begin)
	err = c.post(ctx, update.Job, change(update, before, begin))
	if bridge.Several(update.Request.Partition) != "" && errors.Is(err, bridge.ErrRefused) {
		// One of the partitions may be gone, and Slurm then takes nothing of the update. The rest is worth more than
		// the list.
		update.Request.Partition = ""
		err = c.post(ctx, update.Job, change(update, before, begin))
	}
	if err != nil {
		return c.explain(ctx, update.Job, err)
	}
	after, err := c.job(ctx, update.Job)
	if err != nil {
		return fmt.Errorf("read it back: %w", err)
	}
	return differs(update, begin, after)
}

// keepsPace refuses to change amounts that follow the GPUs. Slurm 24.11 takes an amount by node beside them, and gives
// that while it shows both.
func keepsPace(has, wants bridge.Request) error {
	switch {
	case wants.CPUsPerGPU != has.CPUsPerGPU:
		return fmt.Errorf("%d CPUs for each GPU where it has %d: %w", wants.CPUsPerGPU, has.CPUsPerGPU,
			bridge.ErrRefused)
	case wants.MemoryPerGPU != has.MemoryPerGPU:
		return fmt.Errorf("%d MiB for each GPU where it has %d: %w", wants.MemoryPerGPU, has.MemoryPerGPU,
			bridge.ErrRefused)
	}
	return nil
}

// sharable refuses a shard to a job of which Slurm would take none: it asks for its GPU in another way than by node, or
// for amounts by GPU.
func sharable(has, wants bridge.Request) error {
	switch {
	case wants.Shard == "":
		return nil
	case has.GRES == "", has.GPUs != 1, has.Nodes != 1:
		return fmt.Errorf("a shard for a job that asks for %d GPUs by %q: %w", has.GPUs, inLine(has.GRES, "no node"),
			bridge.ErrRefused)
	case has.CPUsPerGPU > 0, has.MemoryPerGPU > 0:
		return fmt.Errorf("a shard for a job that asks for amounts by GPU: %w", bridge.ErrRefused)
	}
	return nil
}

// begin is the begin time in Slurm's words, which are whole seconds: the one under way has begun.
func (l *link) begin(begin time.Time) int64 {
	if second := begin.Unix(); second > l.now().Unix() {
		return second
	}
	return atOnce
}

// pending reads a job that waits. It is read anew however well it is known: sending sizes to a job that has started
// would mean something else (a pin: shrink to these nodes), and one that an administrator has just taken hold of is
// left alone.
func (c *Client) pending(ctx context.Context, id int) (listed, error) {
	job, err := c.job(ctx, id)
	switch {
	case err != nil:
		return listed{}, err
	case job.State != bridge.Pending:
		return listed{}, fmt.Errorf("it is %s: %w", job.words, bridge.ErrNotPending)
	case job.Held:
		return listed{}, bridge.ErrHeld
	}
	return job, nil
}

// change says the request, nodes, cores and memory each as a whole or not at all: where the job has them already they
// are left out, since slurmctld holds a job no more to limits on what an operator has written, be it what was there
// before. So is the GRES, since a job that asks for GPUs in another way than by node takes none by node (error 2072),
// and what follows the GPUs. So is the number of tasks, which is the user's: a job that is told it has
// SLURM_NTASKS, be it that its user named none.
func change(wanted bridge.Update, job listed, begin int64) wire.Change {
	request, before := wanted.Request, job.Request
	c := wire.Change{Begin: &begin, Extra: &wanted.Extra}
	if job.tasks > 0 {
		c.Tasks = positive(request.Tasks)
	}
	if !slices.Equal(slices.Sorted(slices.Values(request.Pin)), before.Pin) {
		c.RequiredNodes = &request.Pin
	}
	if request.CPUsPerGPU == 0 && !sameCores(request, before) {
		if request.Tasks != before.Tasks {
			c.Tasks = positive(request.Tasks)
		}
		if request.CPUsPerTask != before.CPUsPerTask {
			c.CPUsPerTask = positive(request.CPUsPerTask)
		}
		c.CPUs, c.CPUsPerNode = positive(request.CPUs), positive(request.CPUsPerNode)
	}
	switch {
	case request.MemoryPerGPU > 0, request.Memory == before.Memory && request.MemoryPerCPU == before.MemoryPerCPU:
	case request.MemoryPerCPU > 0:
		c.MemoryPerCPU = amount64(request.MemoryPerCPU) // and Slurm forgets the memory per node
	default:
		c.MemoryPerNode = amount64(request.Memory)
	}
	if wants := gresOf(&request); wants != before.GRES {
		c.GRES = &wants
	}
	if request.GPUType != before.GPUType {
		c.PerJob, c.PerTask = retyped(job.perJob, request.GPUType), retyped(job.perTask, request.GPUType)
	}
	if !isIn(request.Partition, job) {
		c.Partition = &request.Partition
	}
	return c
}

// retyped are the GPUs that a job asks for in one way, of another type; nil: it asks for none in this way.
func retyped(text, gpuType string) *string {
	counts, err := gres.ParseCounts(text)
	if n, _ := gres.GPUs(counts); err != nil || n == 0 {
		return nil
	}
	if text, err = gres.Retyped(text, gpuType); err != nil {
		return nil
	}
	return &text
}

// isIn says that a job is in these partitions; in none that are named it is wherever it is.
func isIn(partitions string, job listed) bool {
	return partitions == "" || bridge.SamePartitions(partitions, job.Partition)
}

// isAmong says that a job is in some of these partitions: of a list Slurm drops silently those that are closed.
func isAmong(list string, job listed) bool {
	if bridge.Several(list) == "" {
		return isIn(list, job)
	}
	for part := range strings.SplitSeq(job.Partition, ",") {
		if !slices.Contains(strings.Split(list, ","), part) {
			return false
		}
	}
	return true
}

// sameCores compares what says how many cores a job has: in Slurm these hang together, and one of them alone means
// another number with other tasks.
func sameCores(a, b bridge.Request) bool {
	return a.Tasks == b.Tasks && a.CPUsPerTask == b.CPUsPerTask && a.CPUs == b.CPUs && a.CPUsPerNode == b.CPUsPerNode
}

// positive leaves out what nobody can ask for: no CPUs, no tasks.
func positive(n int) *int {
	if n <= 0 {
		return nil
	}
	return &n
}

// amount64 is an amount of memory as the API takes it, in MiB.
func amount64(m gres.Memory) *int64 {
	n := int64(m)
	return &n
}

// post sends an update of one job.
func (l *link) post(ctx context.Context, id int, change wire.Change) error {
	_, err := ask(ctx, l, l.api.Update(id, change))
	return err
}

// explain finds out what lies behind a refusal that Slurm words as it words others: a pin sent to a job that has just
// started is an "invalid node name", a veto by the site's lua is as unspecified as a controller that does not answer.
func (c *Client) explain(ctx context.Context, id int, refusal error) error {
	if !errors.Is(refusal, bridge.ErrRefused) {
		return refusal
	}
	if failure := (*Failure)(nil); errors.As(refusal, &failure) && failure.Number == errorUnspecified {
		if err := c.ping(ctx); err != nil {
			return fmt.Errorf("%v: %w", refusal, err)
		}
	}
	job, err := c.job(ctx, id)
	if err == nil && job.State != bridge.Pending {
		return fmt.Errorf("%v: it is %s: %w", refusal, job.words, bridge.ErrNotPending)
	}
	return refusal
}

// differs names the first value that Slurm shows otherwise than it was asked for. As long as a job has an allocation
// Slurm shows the CPUs of that in place of those asked for.
func differs(update bridge.Update, begin int64, after listed) error {
	want, has := update.Request, after.Request
	waits := after.State == bridge.Pending
	for _, value := range []struct {
		name string
		same bool
		has  any
	}{
		{"extra", update.Extra == after.Extra, after.Extra},
		{"begin time", !waits || begin == atOnce || after.Begin.Unix() == begin, after.Begin},
		{"tasks", unsaid(want.Tasks, has.Tasks) || after.State == bridge.Finished, has.Tasks},
		{"CPUs per task", unsaid(want.CPUsPerTask, has.CPUsPerTask), has.CPUsPerTask},
		{"CPUs", !waits || after.Completing || unsaid(want.CPUs, has.CPUs), has.CPUs},
		{"CPUs per node", unsaid(want.CPUsPerNode, has.CPUsPerNode), has.CPUsPerNode},
		{"CPUs per GPU", want.CPUsPerGPU == has.CPUsPerGPU, has.CPUsPerGPU},
		{"memory per GPU", want.MemoryPerGPU == has.MemoryPerGPU, has.MemoryPerGPU},
		{"memory per CPU", want.MemoryPerCPU == has.MemoryPerCPU, has.MemoryPerCPU},
		{"memory", want.MemoryPerCPU > 0 || want.Memory == has.Memory, has.Memory},
		{"GRES", gresOf(&want) == has.GRES, has.GRES},
		{"GPU type", want.Shard != "" || want.GPUType == has.GPUType, has.GPUType},
		{"partition", !waits || isAmong(want.Partition, after), after.Partition},
		{"nodes", slices.Equal(slices.Sorted(slices.Values(want.Pin)), has.Pin), has.Pin},
	} {
		if !value.same {
			return fmt.Errorf("%s reads %q afterwards: %w", value.name, inLine(fmt.Sprint(value.has), ""),
				bridge.ErrRefused)
		}
	}
	return nil
}

// unsaid is a count that was not sent, or came back as it was sent.
func unsaid(want, has int) bool { return want <= 0 || want == has }
