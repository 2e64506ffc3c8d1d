// Package slurmtest is a Slurm in memory: it implements the port (bridge/slurm) with a controller that schedules,
// sizes, signals, requeues and refuses as was observed of slurmctld 24.11, under a virtual clock. The suite in
// bridge/conformance verifies that. Tests, the demonstration and the simulator use it.
//
// It is deterministic and does not model the quality of Slurm's scheduling: jobs are taken in the order of priority and
// ID, and whatever fits starts, without QOS limits or backfill reservations. Reservations keep their nodes. It enforces
// nothing on a node and knows one size for all nodes of a job. It makes no faults itself: a Line does.
package slurmtest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// Options describe the site. A zero duration stands for the default, a negative one for zero.
type Options struct {
	// Nodes are the servers: Name, Total, Partitions and other configuration. Rack makes equal ones.
	Nodes []slurm.Node
	// SchedulerDelay is the time from a change to the scheduler pass (batch_sched_delay); default 1 s.
	SchedulerDelay time.Duration
	// Teardown is how long an ended job is COMPLETING on its nodes; default 300 ms.
	Teardown time.Duration
	// KillWait is the time from SIGTERM to SIGKILL; default 30 s.
	KillWait time.Duration
	// Penalty is the wait of a requeued job without a begin time; default 121 s.
	Penalty time.Duration
	// ResumeDelay is the boot time of a powered-down node; default 60 s. SuspendDelay is the time to power one down
	// (SuspendTimeout); default 30 s.
	ResumeDelay, SuspendDelay time.Duration
	// Closed computes from Slurm's state words why a node is closed, as the adapter under test does; nil: as slurmctld.
	Closed func(state []string) string
	// MinJobAge is how long an ended job is known; default 300 s.
	MinJobAge time.Duration
	// MemoryPerCPU is for jobs that ask for no memory (DefMemPerCPU); default 1000 MiB.
	MemoryPerCPU gres.Memory
	// Together is a job's speed on a GPU shared by the jobs in there (including itself, ascending), relative to its
	// speed alone; nil: 1. It must depend only on its arguments.
	Together func(job int, there []int) float64
	// Ended receives the whole history of every finished job, which is then dropped here; nil: it is kept. It must not
	// call back.
	Ended func(History)
}

// withDefaults replaces zero durations by those of slurmctld's usual configuration, and negative ones by zero, so that
// tests name only what they depend on.
func (o Options) withDefaults() Options {
	o.SchedulerDelay = orDefault(o.SchedulerDelay, time.Second)
	o.Teardown = orDefault(o.Teardown, 300*time.Millisecond)
	o.KillWait = orDefault(o.KillWait, 30*time.Second)
	o.Penalty = orDefault(o.Penalty, 121*time.Second)
	o.ResumeDelay = orDefault(o.ResumeDelay, time.Minute)
	o.SuspendDelay = orDefault(o.SuspendDelay, 30*time.Second)
	o.MinJobAge = orDefault(o.MinJobAge, 300*time.Second)
	o.MemoryPerCPU = cmp.Or(o.MemoryPerCPU, gres.Gigabyte)
	return o
}

// orDefault is fallback if d is zero, zero if d is negative (an Options field cannot say "none" otherwise), and else d.
func orDefault(d, fallback time.Duration) time.Duration {
	return max(0, cmp.Or(d, fallback))
}

// Rack makes count equal nodes of the given partitions, named n1 … n9, or n01 … n10: the leading zeros make the order
// by name, in which Slurm lists nodes, the order by number.
func Rack(count int, total gres.Vector, partitions ...string) []slurm.Node {
	width := len(fmt.Sprint(count))
	nodes := make([]slurm.Node, count)
	for i := range nodes {
		nodes[i] = slurm.Node{Name: fmt.Sprintf("n%0*d", width, i+1), Total: total, Partitions: partitions}
	}
	return nodes
}

// Divided returns the nodes as of a site with shared GPUs: each GPU has a type of its own (g0, g1, …) and that many
// shards, and each node has the feature that says that a broker runs there.
func Divided(nodes []slurm.Node, shards int) []slurm.Node {
	divided := slices.Clone(nodes)
	for i := range divided {
		n := &divided[i]
		n.Features = append(slices.Clone(n.Features), bridge.Served)
		n.Devices = make([]slurm.Device, n.Total.GPUs)
		for d := range n.Devices {
			n.Devices[d] = slurm.Device{Type: fmt.Sprintf("g%d", d), Shards: shards}
		}
	}
	return divided
}

// Slurm is the controller with its nodes and jobs. Its exported methods may be called concurrently.
type Slurm struct {
	clock   *Clock
	options Options

	mu     sync.Mutex
	nodes  []*node        // ascending in name
	byName map[string]int // index in nodes
	jobs   []entry        // all jobs ever; the ID is the index + 1
	// ascending in ID: waiting, running or completing; may contain ended ones until sweep
	alive         []*job
	ended         int              // number of ended jobs in alive
	retained      []*job           // finished jobs with our directive that are still observed
	queue         []*job           // jobs that may start, in the scheduler's order
	dependents    map[int][]*job   // jobs that wait for the end of a job, by its ID
	passPlanned   bool             // a scheduler pass is planned
	passes        int              // number of scheduler passes so far; see job.updatePass
	hiddenReasons []*job           // jobs changed since the last pass
	cached        observationCache // the last observation, while it is valid

	reservations []slurm.Reservation // active or future, ascending in name; replaced, never modified
}

// entry is a job, or what is left of one that was passed to Options.Ended: a simulation of a year would otherwise keep
// millions of finished jobs in memory.
type entry struct {
	*job            // nil: passed to Options.Ended
	ended time.Time // set with end when the job is dropped
	end   End
}

// isOver reports whether the job has ended and its nodes are free; then a dependency on it is fulfilled.
func (e *entry) isOver() bool { return e.job == nil || e.isGone() }

var _ slurm.Manager = (*Slurm)(nil)

// New makes a cluster without jobs. Nodes that the options show in the middle of a power transition continue it.
func New(clock *Clock, options Options) *Slurm {
	s := &Slurm{clock: clock, options: options.withDefaults(), byName: map[string]int{}, dependents: map[int][]*job{}}
	for _, fixed := range options.Nodes {
		s.nodes = append(s.nodes, newNode(fixed))
	}
	slices.SortFunc(s.nodes, func(a, b *node) int { return cmp.Compare(a.fixed.Name, b.fixed.Name) })
	for i, n := range s.nodes {
		s.byName[n.fixed.Name] = i
		s.continuePower(n)
	}
	return s
}

// Observe implements slurm.Manager. The result shares lists with the controller and must not be modified.
func (s *Slurm) Observe(ctx context.Context) (slurm.Observed, error) {
	if err := ctx.Err(); err != nil {
		return slurm.Observed{}, fmt.Errorf("observe: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	now := s.clock.Now()
	return slurm.Observed{
		At:           now,
		Nodes:        s.observedNodes(),
		Jobs:         s.observedJobs(now),
		Reservations: s.reservations,
	}, nil
}

// sweep removes ended jobs from alive. It is called rarely, because removing each job at its end would cost a pass over
// all jobs each time.
func (s *Slurm) sweep() {
	if s.ended == 0 {
		return
	}
	s.alive = slices.DeleteFunc(s.alive, func(j *job) bool { return j.isGone() })
	s.ended = 0
}

// Active is the number of jobs that wait, run or are completing. The lease job is not counted, so 0 means that a
// simulation is over.
func (s *Slurm) Active() int {
	lease := s.leaseJob()
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.alive) - s.ended - oneIf(lease != 0)
}

// Submitted is the number of jobs ever submitted; their IDs are 1 to that.
func (s *Slurm) Submitted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.jobs)
}

// known finds a job that Slurm still knows: a living one, or one that ended less than MinJobAge ago; else ErrGone. In
// place of a job that was passed to Options.Ended it returns a new one that is finished, so that calls for it fail as
// for any ended job.
func (s *Slurm) known(id int) (*job, error) {
	if id < 1 || id > len(s.jobs) {
		return nil, slurm.ErrGone
	}
	e := s.jobs[id-1]
	if e.job == nil {
		e.job = &job{id: id, state: slurm.Finished, history: History{Ended: e.ended}}
	}
	if e.isGone() && s.clock.Now().Sub(e.history.Ended) >= s.options.MinJobAge {
		return nil, slurm.ErrGone
	}
	return e.job, nil
}
