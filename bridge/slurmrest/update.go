package slurmrest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/wire"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// atOnce is the begin time for "now": any time in the past works except 0, which means "unchanged".
const atOnce = 1

// Update sends the whole request in one POST and verifies it by a re-read: Slurm applies it field by field and does not
// undo what it applied before an error. If the job is known to have that request already, one POST of begin time, lease
// and annotation is enough (renew).
func (c *Client) Update(ctx context.Context, update slurm.Update) (failure error) {
	defer c.hideToken(&failure)
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

// update reads the waiting job, sends what differs from the update, and reads the job again: an answer without error
// does not mean that Slurm has applied everything.
func (c *Client) update(ctx context.Context, update slurm.Update) error {
	before, err := c.pending(ctx, update.Job)
	if err != nil {
		return err
	}
	if err := checkPerGPU(before.Request, update.Request); err != nil {
		return err
	}
	if err := checkShard(before.Request, update.Request); err != nil {
		return err
	}
	if before.Either && update.Lease != 0 {
		return fmt.Errorf("lease job %d for one that waits for any of several: %w", update.Lease, slurm.ErrRefused)
	}
	begin := c.begin(update.Begin)
	err = c.post(ctx, update.Job, change(update, before, begin))
	if slurm.Several(update.Request.Partition) != "" && errors.Is(err, slurm.ErrRefused) {
		// One of the partitions may be gone, for which Slurm refuses the whole update. The rest matters more than the
		// list, so the job stays in the partitions where it is. checkWritten accepts any then.
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
	return checkWritten(update, begin, after)
}

// checkPerGPU refuses to change amounts per GPU. Slurm 24.11 accepts an amount per node beside them and applies that,
// while it shows both. So such a job keeps its user's amounts.
func checkPerGPU(has, wants slurm.Request) error {
	switch {
	case wants.CPUsPerGPU != has.CPUsPerGPU:
		return fmt.Errorf("%d CPUs for each GPU where it has %d: %w", wants.CPUsPerGPU, has.CPUsPerGPU,
			slurm.ErrRefused)
	case wants.MemoryPerGPU != has.MemoryPerGPU:
		return fmt.Errorf("%d MiB for each GPU where it has %d: %w", wants.MemoryPerGPU, has.MemoryPerGPU,
			slurm.ErrRefused)
	}
	return nil
}

// checkShard refuses a shard for a job to which Slurm would not give one: its GPU is requested in another way than per
// node, or it has amounts per GPU.
func checkShard(has, wants slurm.Request) error {
	switch {
	case wants.Shard == "":
		return nil
	case has.GRES == "", has.GPUs != 1, has.Nodes != 1:
		return fmt.Errorf("a shard for a job that asks for %d GPUs by %q: %w", has.GPUs, inLine(has.GRES, "no node"),
			slurm.ErrRefused)
	case has.CPUsPerGPU > 0, has.MemoryPerGPU > 0:
		return fmt.Errorf("a shard for a job that asks for amounts by GPU: %w", slurm.ErrRefused)
	}
	return nil
}

// begin is the begin time in seconds as it is sent; one that is not after the present second becomes atOnce.
func (l *link) begin(begin time.Time) int64 {
	if second := begin.Unix(); second > l.now().Unix() {
		return second
	}
	return atOnce
}

// pending reads a waiting job. It is always read again: sizes sent to a job that has started would mean something else
// (a node list: shrink to these nodes), and a job that was held just now must be left alone.
func (c *Client) pending(ctx context.Context, id int) (parsedJob, error) {
	job, err := c.job(ctx, id)
	switch {
	case err != nil:
		return parsedJob{}, err
	case job.State != slurm.Pending:
		return parsedJob{}, fmt.Errorf("it is %s: %w", job.stateText, slurm.ErrNotPending)
	case job.Held:
		return parsedJob{}, slurm.ErrHeld
	}
	return job, nil
}

// change makes the update. Nodes, cores and memory are each sent as a whole or not at all. Values that the job already
// has are left out, since slurmctld no longer enforces limits on values that an operator wrote, even if they do not
// change. Also left out are the GRES per node of a job that asks for GPUs in another way, which Slurm refuses with
// error 2072, and amounts per GPU. The number of tasks is the user's and is left out as well, since a job that is sent
// one gets SLURM_NTASKS even if its user named none. It is sent only if the update changes it, or if Slurm would count
// the tasks anew (tasksToSay).
func change(wanted slurm.Update, job parsedJob, begin int64) wire.Change {
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
		c.MemoryPerCPU = amount64(request.MemoryPerCPU) // and Slurm drops the memory per node
	default:
		c.MemoryPerNode = amount64(request.Memory)
	}
	if wants := gresOf(&request); wants != before.GRES {
		c.GRES = &wants
	}
	if request.GPUType != before.GPUType {
		c.PerJob, c.PerTask = retyped(job.perJob, request.GPUType), retyped(job.perTask, request.GPUType)
	}
	if wanted.Lease != job.Lease {
		c.Dependency = dependencyWith(job, wanted.Lease)
	}
	if !isIn(request.Partition, job) {
		c.Partition = &request.Partition
	}
	return c
}

// dependencyWith is the job's dependency with that lease, or without one if it is 0.
func dependencyWith(job parsedJob, lease int) *string {
	text := job.dependsOn(lease)
	return &text
}

// retyped is one field of a job's request for GPUs (per node, job or task) with another GPU type, as for a GPU that
// jobs share, which has a type of its own. It is nil, which leaves the field as it is in Slurm, if the job does not ask
// for GPUs in this field or the field cannot be read.
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

// isIn reports whether a job is in exactly these partitions; an empty list matches any.
func isIn(partitions string, job parsedJob) bool {
	return partitions == "" || slurm.SamePartitions(partitions, job.Partition)
}

// isAmong reports whether a job's partitions are all in the list. They may be fewer, since Slurm silently drops closed
// partitions from a list of several. A list of one must be the job's partition, and an empty list matches any.
func isAmong(list string, job parsedJob) bool {
	if slurm.Several(list) == "" {
		return isIn(list, job)
	}
	for part := range strings.SplitSeq(job.Partition, ",") {
		if !slices.Contains(strings.Split(list, ","), part) {
			return false
		}
	}
	return true
}

// sameCores compares all fields that determine the number of cores. Slurm interprets them together, so that one of them
// alone would mean another number with other tasks.
func sameCores(a, b slurm.Request) bool {
	return a.Tasks == b.Tasks && a.CPUsPerTask == b.CPUsPerTask && a.CPUs == b.CPUs && a.CPUsPerNode == b.CPUsPerNode
}

// positive is nil, which leaves the field unchanged, for counts that cannot be requested.
func positive(n int) *int {
	if n <= 0 {
		return nil
	}
	return &n
}

// amount64 is an amount of memory in MiB for the API.
func amount64(m gres.Memory) *int64 {
	n := int64(m)
	return &n
}

// post sends an update of one job.
func (l *link) post(ctx context.Context, id int, change wire.Change) error {
	_, err := ask(ctx, l, l.api.Update(id, change))
	return err
}

// explain returns the error for a refused update, after it has found out what an ambiguous message means: a node list
// sent to a job that has just started is an "invalid node name" (ErrNotPending), and a veto by the site's lua has the
// same unspecified error as a controller that does not answer (ErrUnreachable).
func (c *Client) explain(ctx context.Context, id int, refusal error) error {
	if !errors.Is(refusal, slurm.ErrRefused) {
		return refusal
	}
	if failure := (*Failure)(nil); errors.As(refusal, &failure) && failure.Number == errorUnspecified {
		if err := c.ping(ctx); err != nil {
			return fmt.Errorf("%v: %w", refusal, err)
		}
	}
	job, err := c.job(ctx, id)
	if err == nil && job.State != slurm.Pending {
		return fmt.Errorf("%v: it is %s: %w", refusal, job.stateText, slurm.ErrNotPending)
	}
	return refusal
}

// checkWritten returns an error that names the first value of the job, as read back, that is not the update's; nil: all
// are. The job may have started by this update. Then it has no begin time and no lease any more, one partition of
// several, and Slurm shows the CPUs of its allocation in place of those requested, until its teardown is over. A job
// with a shard is read without a GPU type, so that is not compared. The number of tasks is not compared for a finished
// job.
func checkWritten(update slurm.Update, begin int64, after parsedJob) error {
	want, has := update.Request, after.Request
	waits := after.State == slurm.Pending
	for _, value := range []struct {
		name string
		same bool
		has  any
	}{
		{"extra", update.Extra == after.Extra, after.Extra},
		{"begin time", !waits || begin == atOnce || after.Begin.Unix() == begin, after.Begin},
		{"lease", !waits || after.Lease == update.Lease, after.Lease},
		{"tasks", isAsSent(want.Tasks, has.Tasks) || after.State == slurm.Finished, has.Tasks},
		{"CPUs per task", isAsSent(want.CPUsPerTask, has.CPUsPerTask), has.CPUsPerTask},
		{"CPUs", !waits || after.Completing || isAsSent(want.CPUs, has.CPUs), has.CPUs},
		{"CPUs per node", isAsSent(want.CPUsPerNode, has.CPUsPerNode), has.CPUsPerNode},
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
				slurm.ErrRefused)
		}
	}
	return nil
}

// isAsSent reports whether a count was not sent (see positive) or has the value that was sent.
func isAsSent(want, has int) bool { return want <= 0 || want == has }
