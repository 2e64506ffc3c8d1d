package plugin

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/leader"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/plugin/slurmpb"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/printable"
)

// A plugin's answers are believed, since it knows the workload manager, but they must not break our arithmetic or what
// people read. The plugin's own mistakes void an answer. What a user could cause only makes that user's job odd
// (slurm.Job.Odd), so that rounds leave it to Slurm; otherwise one strange job would keep all jobs from being served.

const (
	maxAmount = 1 << 40 // limit of any amount, and of a job ID
	maxName   = 255     // limit of names that administrators choose, in bytes
)

// nodesIn decodes and validates nodes, which must ascend in name, since rounds search them by bisection.
func nodesIn(sent []*slurmpb.Node) ([]slurm.Node, error) {
	nodes := make([]slurm.Node, 0, len(sent))
	for i, s := range sent {
		n, err := nodeIn(s)
		if err != nil {
			return nil, fmt.Errorf("node %.80q: %w", s.GetName(), err)
		}
		if i > 0 && nodes[i-1].Name >= n.Name {
			return nil, fmt.Errorf("node %.80q comes after %.80q: want ascending names, each once", n.Name,
				nodes[i-1].Name)
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// nodeIn decodes a node. An error voids the whole answer: a wrong name or amount of a node is the plugin's own mistake,
// and plans would rely on it.
func nodeIn(s *slurmpb.Node) (slurm.Node, error) {
	n := slurm.Node{
		Name: s.GetName(), GPUType: s.GetGpuType(), Features: s.GetFeatures(), Partitions: s.GetPartitions(),
		Total: vectorIn(s.GetTotal()), Completing: s.GetCompleting(), Closed: oneLine(s.GetClosed()),
	}
	if n.Name == "" {
		return n, errors.New("has no name")
	}
	for _, name := range slices.Concat([]string{n.Name, n.GPUType}, n.Features, n.Partitions) {
		if len(name) > maxName || !printable.Is(name) {
			return n, fmt.Errorf("%.80q: want at most %d bytes, all of them printable", name, maxName)
		}
	}
	allocated := vectorIn(s.GetAllocated())
	for _, v := range []gres.Vector{n.Total, allocated} {
		if !isSound(v) {
			return n, fmt.Errorf("amounts of %v: want 0 to 2^40 of each", v)
		}
	}
	// Jobs and nodes may have been read one after the other, and a job may have ended in between.
	n.Allocated = gres.Vector{
		GPUs: min(n.Total.GPUs, allocated.GPUs), CPUs: min(n.Total.CPUs, allocated.CPUs),
		Memory: min(n.Total.Memory, allocated.Memory),
	}
	if err := typesIn(&n, s.GetTypes()); err != nil {
		return n, err
	}
	err := devicesIn(&n, s.GetDevices())
	return n, err
}

// typesIn sets the GPUs of a node by type. An error voids the answer: if any are given, all must be, and each type
// once.
func typesIn(n *slurm.Node, sent []*slurmpb.TypedGPUs) error {
	left := n.Total.GPUs
	for _, s := range sent {
		t := slurm.TypedGPUs{Type: s.GetType(), Total: int(s.GetTotal()), Allocated: int(s.GetAllocated())}
		known := slices.ContainsFunc(n.Types, func(other slurm.TypedGPUs) bool { return other.Type == t.Type })
		switch {
		case len(t.Type) > maxName, !printable.Is(t.Type), known:
			return fmt.Errorf(
				"GPUs of type %.80q: want each type once, printable and of at most %d bytes",
				t.Type,
				maxName,
			)
		case t.Total < 1 || t.Total > left || t.Allocated < 0 || t.Allocated > t.Total:
			return fmt.Errorf(
				"GPUs of type %.80q: %d of %d in use: want those of all types to be the node's %d",
				t.Type,
				t.Allocated,
				t.Total,
				n.Total.GPUs,
			)
		}
		left -= t.Total
		n.Types = append(n.Types, t)
	}
	if len(sent) > 0 && left > 0 {
		return fmt.Errorf("%d GPUs are of no type that is told: want all of them, or none", left)
	}
	return nil
}

// devicesIn sets the GPUs of a node one by one. If any are given, all must be, each with a type of its own.
func devicesIn(n *slurm.Node, sent []*slurmpb.Device) error {
	if len(sent) > 0 && len(sent) != n.Total.GPUs {
		return fmt.Errorf("%d devices of %d GPUs: want all of them, or none", len(sent), n.Total.GPUs)
	}
	for _, s := range sent {
		d := slurm.Device{Type: s.GetType(), Shards: int(s.GetShards())}
		known := slices.ContainsFunc(n.Devices, func(other slurm.Device) bool { return other.Type == d.Type })
		switch {
		case d.Type == "", len(d.Type) > maxName, !printable.Is(d.Type):
			return fmt.Errorf("device %.80q: want a type of 1 to %d bytes, all of them printable", d.Type, maxName)
		case known:
			return fmt.Errorf("device %.80q: want a type of its own for each", d.Type)
		case d.Shards < 1 || d.Shards > maxAmount:
			return fmt.Errorf("device %.80q: %d shards: want 1 to 2^40", d.Type, d.Shards)
		}
		n.Devices = append(n.Devices, d)
	}
	return nil
}

// isSound reports whether all amounts are from 0 to 2^40, so that sums of them cannot overflow.
func isSound(v gres.Vector) bool {
	return min(v.GPUs, v.CPUs, int(v.Memory)) >= 0 && max(v.GPUs, v.CPUs, int(v.Memory)) <= maxAmount
}

// jobsIn decodes and validates jobs, which must ascend in ID.
func jobsIn(sent []*slurmpb.Job) ([]*slurm.Job, error) {
	jobs := make([]*slurm.Job, 0, len(sent))
	for i, s := range sent {
		j, err := jobIn(s)
		if err != nil {
			return nil, fmt.Errorf("job %d: %w", s.GetId(), err)
		}
		if i > 0 && jobs[i-1].ID >= j.ID {
			return nil, fmt.Errorf("job %d comes after %d: want ascending numbers, each once", j.ID, jobs[i-1].ID)
		}
		jobs = append(jobs, j)
	}
	return jobs, nil
}

// jobIn decodes a job. An error voids the whole answer, so only mistakes of the plugin itself are errors. What a user
// could cause, such as impossible amounts, makes the job odd instead, and it alone is left to Slurm.
func jobIn(s *slurmpb.Job) (*slurm.Job, error) {
	j := &slurm.Job{
		ID: int(s.GetId()), Name: s.GetName(), User: s.GetUser(), Partition: s.GetPartition(), Comment: s.GetComment(),
		Extra:      s.GetExtra(),
		Admin:      s.GetAdmin(),
		Completing: s.GetCompleting(), Configuring: s.GetConfiguring(), Held: s.GetHeld(),
		Reason: oneLine(s.GetReason()), Shape: oneLine(s.GetShape()), Whole: s.GetWhole(),
		Dependency: s.GetDependency(), Either: s.GetEither(), Lease: int(s.GetLease()),
		Submitted: timeIn(s.GetSubmittedNs()), Begin: timeIn(s.GetBeginNs()), Started: timeIn(s.GetStartedNs()),
		TimeLimit: time.Duration(s.GetTimeLimitNs()),
		Restarts:  int(s.GetRestarts()), Requeue: s.GetRequeue(), Interactive: s.GetInteractive(),
		Request: requestIn(s.GetRequest()), Runs: allocatedIn(s.GetRuns()), Features: s.GetFeatures(),
		Except: s.GetExcept(), Odd: oneLine(s.GetOdd()),
		Priority: s.GetPriority(), QOS: oneLine(s.GetQos()), Account: oneLine(s.GetAccount()),
		Container:   s.GetContainer(),
		Reservation: oneLine(s.GetReservation()),
		Deadline:    timeIn(s.GetDeadlineNs()), Ends: timeIn(s.GetEndsNs()), End: endIn(s.GetEnd()),
	}
	if err := checkJobID(s.GetId()); err != nil {
		return nil, err
	}
	if lease := s.GetLease(); lease < 0 || lease > maxAmount {
		return nil, fmt.Errorf("job %d: lease %d: want 0 to 2^40", j.ID, lease)
	}
	if err := partIn(j, s.GetPart()); err != nil {
		return nil, err
	}
	switch s.GetState() {
	case slurmpb.State_PENDING:
		j.State = slurm.Pending
	case slurmpb.State_RUNNING:
		j.State = slurm.Running
	case slurmpb.State_FINISHED:
		j.State = slurm.Finished
	default:
		return nil, fmt.Errorf("state %d: want PENDING, RUNNING or FINISHED", s.GetState())
	}
	for _, list := range [][]string{j.Request.Pin, j.Runs.Nodes} {
		if !slices.IsSorted(list) {
			return nil, fmt.Errorf("nodes %.80q: want ascending names", list)
		}
	}
	clampJob(j)
	// The type of a shard is held to the limits of a name, but as a fault of this job alone.
	if shards := j.Request.Shard + j.Runs.Shard; len(shards) > 2*maxName || !printable.Is(shards) {
		j.Odd, j.Request.Shard, j.Runs.Shard = cmp.Or(j.Odd, "has a shard of a GPU without a name"), "", ""
	}
	return j, nil
}

// partIn sets the array fields of a job; a nil s means that it belongs to no array. An error voids the answer. A job
// that stands for several tasks must have the array's ID.
func partIn(j *slurm.Job, s *slurmpb.Part) error {
	if s == nil {
		return nil
	}
	j.Array, j.Task, j.Tasks, j.AtOnce = int(s.GetArray()), int(s.GetTask()), narrow(s.GetTasks()), int(s.GetAtOnce())
	for _, n := range append([]int64{s.GetTask(), s.GetAtOnce()}, s.GetTasks()...) {
		if n < 0 || n > maxAmount {
			return fmt.Errorf("array %d: number %d: want 0 to 2^40", s.GetArray(), n)
		}
	}
	switch {
	case checkJobID(s.GetArray()) != nil:
		return fmt.Errorf("array %d: %w", s.GetArray(), checkJobID(s.GetArray()))
	case !slices.IsSorted(j.Tasks):
		return fmt.Errorf("array %d: want ascending tasks", j.Array)
	case len(j.Tasks) > 0 && j.ID != j.Array:
		return fmt.Errorf("job %d stands for tasks of array %d: want the array's number", j.ID, j.Array)
	}
	return nil
}

// targetIn refuses an unknown target: a signal for the wrong processes may kill the batch script.
func targetIn(sent slurmpb.Target) (slurm.Target, error) {
	switch sent {
	case slurmpb.Target_SCRIPT:
		return slurm.Script, nil
	case slurmpb.Target_STEPS:
		return slurm.Steps, nil
	}
	return "", fmt.Errorf("target %d: want SCRIPT or STEPS: %w", sent, slurm.ErrRefused)
}

// endIn is how a job ended. A user's program chooses the exit code, so numbers are clamped and void no answer.
func endIn(s *slurmpb.End) slurm.End {
	e := slurm.End{State: oneLine(s.GetState()), Code: int(s.GetCode()), Signal: int(s.GetSignal())}
	clamp(&e.Code)
	clamp(&e.Signal)
	return e
}

// reservationsIn decodes and validates reservations, which must ascend in name. An error voids the answer: without a
// reservation jobs would be sent to nodes that are kept for others.
func reservationsIn(sent []*slurmpb.Reservation) ([]slurm.Reservation, error) {
	var reservations []slurm.Reservation
	for i, s := range sent {
		r := slurm.Reservation{Name: s.GetName(), From: timeIn(s.GetFromNs()), To: timeIn(s.GetToNs()),
			Nodes: s.GetNodes()}
		for _, name := range append([]string{r.Name}, r.Nodes...) {
			if name == "" || len(name) > maxName || !printable.Is(name) {
				return nil, fmt.Errorf("reservation %.80q: %.80q: want 1 to %d bytes, all of them printable", r.Name,
					name, maxName)
			}
		}
		switch {
		case i > 0 && reservations[i-1].Name >= r.Name:
			return nil, fmt.Errorf("reservation %.80q comes after %.80q: want ascending names, each once", r.Name,
				reservations[i-1].Name)
		case !slices.IsSorted(r.Nodes):
			return nil, fmt.Errorf("reservation %.80q: nodes %.80q: want ascending names", r.Name, r.Nodes)
		}
		reservations = append(reservations, r)
	}
	return reservations, nil
}

// checkJobID returns an error unless a job ID is from 1 to 2^40.
func checkJobID(id int64) error {
	if id <= 0 || id > maxAmount {
		return errors.New("want a number from 1 to 2^40")
	}
	return nil
}

// clampJob clamps the amounts of a job. A job with an amount beyond the limits is odd, so that no round computes with
// it. A negative time limit only becomes none.
func clampJob(j *slurm.Job) {
	r, has := &j.Request, &j.Runs.PerNode
	within := true
	for _, n := range []*int{&r.Nodes, &r.Tasks, &r.CPUsPerTask, &r.CPUs, &r.CPUsPerNode, &r.CPUsPerGPU, &r.GPUs,
		&has.GPUs, &has.CPUs, &j.Restarts} {
		within = clamp(n) && within
	}
	for _, m := range []*gres.Memory{&r.Memory, &r.MemoryPerCPU, &r.MemoryPerGPU, &has.Memory} {
		n := int(*m)
		within = clamp(&n) && within
		*m = gres.Memory(n)
	}
	j.TimeLimit = max(0, j.TimeLimit)
	if !within {
		j.Odd = cmp.Or(j.Odd, "has amounts that cannot be reckoned with")
	}
}

// clamp limits a number to 0 … maxAmount and reports whether it was within these limits already.
func clamp(n *int) bool {
	was := *n
	*n = min(max(was, 0), maxAmount)
	return *n == was
}

// ticketsIn decodes and validates tickets. A wrong ID voids the answer; words that are not a daemon's count as none.
func ticketsIn(sent []*slurmpb.Ticket) ([]leader.Ticket, error) {
	var tickets []leader.Ticket
	for _, s := range sent {
		if err := checkJobID(s.GetId()); err != nil {
			return nil, fmt.Errorf("ticket %d: %w", s.GetId(), err)
		}
		t := ticketIn(s)
		// Words that are not a daemon's count as none: the others then wait for the longest TTL.
		t.Words = leader.ParseWords(t.Words.String())
		t.Words.Holder, t.Words.Run = oneLine(t.Words.Holder), oneLine(t.Words.Run)
		tickets = append(tickets, t)
	}
	return tickets, nil
}
