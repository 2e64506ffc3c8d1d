package conformance_test

import (
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/conformance"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/leader"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

func TestSlurmtestKeepsThePromises(t *testing.T) {
	conformance.Run(t, func(t *testing.T) conformance.Lab { return newMemory(t, whole) })
}

func TestSlurmtestKeepsTheLeaseJob(t *testing.T) {
	conformance.RunLeaseJob(t, func(t *testing.T) conformance.LeaseLab { return newMemory(t, whole) })
}

// memory is a lab on slurmtest: each test has a cluster of its own.
type memory struct {
	clock *slurmtest.Clock
	slurm *slurmtest.Slurm
}

func newMemory(t *testing.T, nodes arrangement) memory {
	clock, manager := rack(nodes)
	clock.AfterEach(func() {
		if err := manager.Invariants(); err != nil {
			t.Error(err)
		}
	})
	return memory{clock, manager}
}

func TestSlurmtestKeepsThePromisesOfDevices(t *testing.T) {
	conformance.RunDivided(t, func(t *testing.T) conformance.Lab { return newMemory(t, divided) })
}

// arrangement is how the GPUs of nodes are described to Slurm.
type arrangement func([]slurm.Node) []slurm.Node

func whole(nodes []slurm.Node) []slurm.Node   { return nodes }
func divided(nodes []slurm.Node) []slurm.Node { return slurmtest.Divided(nodes, 4) }

// rack is four servers in both partitions.
func rack(nodes arrangement) (*slurmtest.Clock, *slurmtest.Slurm) {
	clock := slurmtest.NewClock(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC))
	server := gres.Vector{GPUs: 8, CPUs: 24, Memory: 500 * gres.Gigabyte}
	return clock, slurmtest.New(clock, slurmtest.Options{
		Nodes:    nodes(slurmtest.Rack(4, server, conformance.Managed, conformance.Plain)),
		KillWait: 10 * time.Second,
	})
}

func (m memory) Slurm() slurm.Manager          { return m.slurm }
func (m memory) Tickets() leader.Tickets       { return m.slurm.Tickets() }
func (m memory) Leases() slurm.Leases          { return m.slurm.Leases() }
func (m memory) Sleep(d time.Duration)         { m.clock.Advance(d) }
func (m memory) Release(_ testing.TB, job int) { m.slurm.Release(job) }

func (m memory) Submit(t testing.TB, job conformance.Job) int {
	t.Helper()
	id, err := m.slurm.Submit(spec(job, m.clock.Now()))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// spec is a submission in the words of slurmtest.
func spec(job conformance.Job, now time.Time) slurmtest.Spec {
	spec := slurmtest.Spec{
		Name: job.Name, User: "alice", Partition: conformance.Plain, Comment: job.Comment, Request: job.Asks,
		TimeLimit: job.Limit, Priority: job.Priority, QOS: job.QOS, Account: job.Account, Reservation: job.Reservation,
		Held: job.Held, NoRequeue: job.NoRequeue, After: job.After, Except: job.Except,
		Exclusive: job.Form == conformance.Exclusive, Interactive: job.Form == conformance.Interactive,
		Work: slurmtest.Work{Length: job.Lasts, Save: time.Second},
	}
	switch job.Form {
	case conformance.Interactive, conformance.Exclusive:
	case conformance.Array:
		spec.Tasks = []int{1, 2}
	default:
		spec.Shape = string(job.Form)
	}
	if job.Partition != "" {
		spec.Partition = job.Partition
	}
	if job.Begin > 0 {
		spec.Begin = now.Add(job.Begin)
	}
	if job.Deadline > 0 {
		spec.Deadline = now.Add(job.Deadline)
	}
	if spec.Partition == conformance.Managed && job.Comment == conformance.Directive {
		spec.Lease = 900 * time.Second
	}
	switch spec.Work.OnSteps = slurmtest.Hangs; job.Does {
	case conformance.Steps:
		spec.Work.OnSteps = slurmtest.Requeues
	case conformance.Saves:
		spec.Work.OnSignal, spec.Work.OnTerm = slurmtest.Saves, slurmtest.Saves
	case conformance.Hangs:
		spec.Work.OnSignal, spec.Work.OnTerm = slurmtest.Hangs, slurmtest.Hangs
	}
	return spec
}

func (m memory) Reserve(t testing.TB, r conformance.Reservation) {
	m.slurm.Reserve(reservation(r, m.clock.Now()))
	t.Cleanup(func() { m.slurm.Unreserve(r.Name) })
}

// reservation is one in the words of slurmtest.
func reservation(r conformance.Reservation, now time.Time) slurm.Reservation {
	return slurm.Reservation{Name: r.Name, From: now.Add(r.In), To: now.Add(r.In + r.Lasts), Nodes: []string{r.Node}}
}

func (m memory) Administer(_ testing.TB, job int, says string) {
	m.slurm.Modify(job, func(s *slurmtest.Spec) { s.Admin = says })
}

func (m memory) Drain(t testing.TB, node string) {
	m.slurm.Drain(node)
	t.Cleanup(func() { m.slurm.Resume(node) })
}
