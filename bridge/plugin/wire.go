package plugin

import (
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/leader"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/plugin/slurmpb"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// Functions with names in Out encode for the wire, those with names in In decode. All texts are encoded through
// validUTF8, since protobuf refuses invalid UTF-8. A nil message is decoded as zero values. What must be validated when
// decoded is in check.go.

// nodeOut encodes a node. nodeIn in check.go decodes and validates it.
func nodeOut(n *slurm.Node) *slurmpb.Node {
	return &slurmpb.Node{
		Name: validUTF8(n.Name), GpuType: validUTF8(n.GPUType), Features: allValid(n.Features),
		Partitions: allValid(n.Partitions),
		Total:      vectorOut(n.Total), Allocated: vectorOut(n.Allocated), Completing: n.Completing,
		Closed: validUTF8(n.Closed), Devices: devicesOut(n.Devices), Types: typesOut(n.Types),
	}
}

// typesOut encodes the GPUs of a node by type; nil for none. typesIn in check.go decodes and validates them.
func typesOut(types []slurm.TypedGPUs) []*slurmpb.TypedGPUs {
	var out []*slurmpb.TypedGPUs
	for _, t := range types {
		out = append(
			out,
			&slurmpb.TypedGPUs{Type: validUTF8(t.Type), Total: int64(t.Total), Allocated: int64(t.Allocated)},
		)
	}
	return out
}

// devicesOut encodes the GPUs of a node one by one; nil for none. devicesIn in check.go decodes and validates them.
func devicesOut(devices []slurm.Device) []*slurmpb.Device {
	var out []*slurmpb.Device
	for _, d := range devices {
		out = append(out, &slurmpb.Device{Type: validUTF8(d.Type), Shards: int64(d.Shards)})
	}
	return out
}

// jobOut encodes a job. jobIn in check.go decodes and validates it.
func jobOut(j *slurm.Job) *slurmpb.Job {
	return &slurmpb.Job{
		Id:        int64(j.ID),
		Name:      validUTF8(j.Name),
		User:      validUTF8(j.User),
		Partition: validUTF8(j.Partition),
		Comment:   validUTF8(j.Comment),
		Extra:     validUTF8(j.Extra),
		Admin:     validUTF8(j.Admin),
		State: stateOut(
			j.State,
		),
		Completing:  j.Completing,
		Configuring: j.Configuring,
		Held:        j.Held,
		Reason:      validUTF8(j.Reason),
		Shape:       validUTF8(j.Shape),
		Whole:       j.Whole,
		Dependency:  j.Dependency,
		Either:      j.Either,
		Lease:       int64(j.Lease),
		SubmittedNs: timeOut(j.Submitted),
		BeginNs:     timeOut(j.Begin),
		StartedNs:   timeOut(j.Started),
		TimeLimitNs: int64(j.TimeLimit),
		Restarts:    int64(j.Restarts),
		Requeue:     j.Requeue,
		Interactive: j.Interactive,
		Request:     requestOut(&j.Request),
		Runs:        allocatedOut(&j.Runs),
		Features:    allValid(j.Features),
		Except:      allValid(j.Except),
		Odd:         validUTF8(j.Odd),
		Priority:    j.Priority,
		Qos:         validUTF8(j.QOS),
		Account:     validUTF8(j.Account),
		Reservation: validUTF8(j.Reservation),
		Container:   validUTF8(j.Container),
		DeadlineNs:  timeOut(j.Deadline),
		EndsNs:      timeOut(j.Ends),
		End:         endOut(&j.End),
		Part:        partOut(j),
	}
}

// partOut is nil for a job that belongs to no array.
func partOut(j *slurm.Job) *slurmpb.Part {
	if j.Array == 0 {
		return nil
	}
	return &slurmpb.Part{Array: int64(j.Array), Task: int64(j.Task), Tasks: wide(j.Tasks), AtOnce: int64(j.AtOnce)}
}

// wide converts numbers to the width that they have in the protocol; nil for none.
func wide(numbers []int) []int64 {
	var all []int64
	for _, n := range numbers {
		all = append(all, int64(n))
	}
	return all
}

// narrow converts numbers of the protocol to int; nil for none. It does not check them: see partIn.
func narrow(numbers []int64) []int {
	var all []int
	for _, n := range numbers {
		all = append(all, int(n))
	}
	return all
}

// endOut is nil for a job that has not ended.
func endOut(e *slurm.End) *slurmpb.End {
	if *e == (slurm.End{}) {
		return nil
	}
	return &slurmpb.End{State: validUTF8(e.State), Code: int64(e.Code), Signal: int64(e.Signal)}
}

func reservationOut(r *slurm.Reservation) *slurmpb.Reservation {
	return &slurmpb.Reservation{Name: validUTF8(r.Name), FromNs: timeOut(r.From), ToNs: timeOut(r.To),
		Nodes: allValid(r.Nodes)}
}

// targetOut encodes the target of a signal; there are only two.
func targetOut(t slurm.Target) slurmpb.Target {
	if t == slurm.Steps {
		return slurmpb.Target_STEPS
	}
	return slurmpb.Target_SCRIPT
}

// stateOut is the state on the wire. Jobs that are over in any way are FINISHED.
func stateOut(s slurm.State) slurmpb.State {
	switch s {
	case slurm.Pending:
		return slurmpb.State_PENDING
	case slurm.Running:
		return slurmpb.State_RUNNING
	}
	return slurmpb.State_FINISHED
}

// requestOut encodes a request. requestIn is the inverse.
func requestOut(r *slurm.Request) *slurmpb.Request {
	return &slurmpb.Request{
		Nodes: int64(r.Nodes), Tasks: int64(r.Tasks), CpusPerTask: int64(r.CPUsPerTask), Cpus: int64(r.CPUs),
		CpusPerNode: int64(r.CPUsPerNode),
		MemoryMib:   int64(r.Memory), MemoryPerCpuMib: int64(r.MemoryPerCPU),
		Gres: validUTF8(r.GRES), Gpus: int64(r.GPUs), GpuType: validUTF8(r.GPUType), Pin: allValid(r.Pin),
		CpusPerGpu: int64(r.CPUsPerGPU), MemoryPerGpuMib: int64(r.MemoryPerGPU), Partition: validUTF8(r.Partition),
		Shard: validUTF8(r.Shard),
	}
}

// requestIn decodes a request. The request of a job is validated by clampJob, which makes the job odd if an amount is
// impossible.
func requestIn(r *slurmpb.Request) slurm.Request {
	return slurm.Request{
		Nodes: int(r.GetNodes()), Tasks: int(r.GetTasks()), CPUsPerTask: int(r.GetCpusPerTask()),
		CPUs:        int(r.GetCpus()),
		CPUsPerNode: int(r.GetCpusPerNode()), Memory: gres.Memory(r.GetMemoryMib()),
		MemoryPerCPU: gres.Memory(r.GetMemoryPerCpuMib()),
		GRES:         r.GetGres(), GPUs: int(r.GetGpus()), GPUType: r.GetGpuType(), Pin: r.GetPin(),
		CPUsPerGPU: int(r.GetCpusPerGpu()), MemoryPerGPU: gres.Memory(r.GetMemoryPerGpuMib()),
		Partition: r.GetPartition(), Shard: r.GetShard(),
	}
}

// allocatedOut is nil if nothing is allocated, as for most jobs.
func allocatedOut(a *slurm.Allocated) *slurmpb.Allocated {
	if len(a.Nodes)+len(a.Devices)+len(a.Shard) == 0 && a.PerNode == (gres.Vector{}) {
		return nil
	}
	return &slurmpb.Allocated{Nodes: allValid(a.Nodes), PerNode: vectorOut(a.PerNode), Devices: allValid(a.Devices),
		Shard: validUTF8(a.Shard)}
}

func allocatedIn(a *slurmpb.Allocated) slurm.Allocated {
	return slurm.Allocated{Nodes: a.GetNodes(), PerNode: vectorIn(a.GetPerNode()), Devices: a.GetDevices(),
		Shard: a.GetShard()}
}

func vectorOut(v gres.Vector) *slurmpb.Vector {
	return &slurmpb.Vector{Gpus: int64(v.GPUs), Cpus: int64(v.CPUs), MemoryMib: int64(v.Memory)}
}

func vectorIn(v *slurmpb.Vector) gres.Vector {
	return gres.Vector{GPUs: int(v.GetGpus()), CPUs: int(v.GetCpus()), Memory: gres.Memory(v.GetMemoryMib())}
}

func updateOut(u *slurm.Update) *slurmpb.UpdateRequest {
	return &slurmpb.UpdateRequest{Job: int64(u.Job), BeginNs: timeOut(u.Begin), Request: requestOut(&u.Request),
		Extra: validUTF8(u.Extra), Lease: int64(u.Lease)}
}

func updateIn(u *slurmpb.UpdateRequest) slurm.Update {
	return slurm.Update{Job: int(u.GetJob()), Begin: timeIn(u.GetBeginNs()), Request: requestIn(u.GetRequest()),
		Extra: u.GetExtra(), Lease: int(u.GetLease())}
}

// wordsOut encodes the words of a ticket. wordsIn is the inverse.
func wordsOut(w leader.Words) *slurmpb.Words {
	return &slurmpb.Words{
		Holder: validUTF8(w.Holder), Run: validUTF8(w.Run), Beat: int64(w.Beat), TtlS: int64(w.TTL), Leads: w.Leads,
		Left: w.Left,
	}
}

// wordsIn decodes the words of a ticket; those of a listed one are validated by ticketsIn.
func wordsIn(w *slurmpb.Words) leader.Words {
	return leader.Words{
		Holder: w.GetHolder(), Run: w.GetRun(), Beat: int(w.GetBeat()), TTL: int(w.GetTtlS()), Leads: w.GetLeads(),
		Left: w.GetLeft(),
	}
}

// ticketOut encodes a ticket. One whose words are not a daemon's has none on the wire.
func ticketOut(t *leader.Ticket) *slurmpb.Ticket {
	out := &slurmpb.Ticket{Id: int64(t.ID), Live: t.Live, SubmittedNs: timeOut(t.Submitted), EndedNs: timeOut(t.Ended)}
	if t.Words != (leader.Words{}) {
		out.Words = wordsOut(t.Words)
	}
	return out
}

// ticketIn decodes a ticket; ticketsIn validates it.
func ticketIn(t *slurmpb.Ticket) leader.Ticket {
	return leader.Ticket{
		ID: int(t.GetId()), Words: wordsIn(t.GetWords()), Live: t.GetLive(), Submitted: timeIn(t.GetSubmittedNs()),
		Ended: timeIn(t.GetEndedNs()),
	}
}

// out encodes a configuration. configurationIn is the inverse.
func (c Configuration) out() *slurmpb.ConfigureRequest {
	return &slurmpb.ConfigureRequest{
		Config: c.File, TicketPartition: validUTF8(c.TicketPartition), Concurrent: int64(c.Concurrent), Rate: c.Rate,
		ReportsEveryNs: int64(c.ReportsEvery),
	}
}

// configurationIn decodes a configuration, which a plugin believes: it comes from the daemon.
func configurationIn(r *slurmpb.ConfigureRequest) Configuration {
	return Configuration{
		File: r.GetConfig(), TicketPartition: r.GetTicketPartition(), Concurrent: int(r.GetConcurrent()),
		Rate:         r.GetRate(),
		ReportsEvery: time.Duration(r.GetReportsEveryNs()),
	}
}

// timeOut encodes a time as nanoseconds since the epoch, and the zero time as 0.
func timeOut(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// timeIn decodes nanoseconds since the epoch, and 0 as the zero time.
func timeIn(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}

// allValid makes all texts valid UTF-8, as protobuf demands. It copies the list only if one is not, since the list may
// belong to an observation that was handed out.
func allValid(texts []string) []string {
	for i, text := range texts {
		if good := validUTF8(text); good != text {
			texts = append(append([]string(nil), texts[:i]...), texts[i:]...)
			texts[i] = good
		}
	}
	return texts
}
