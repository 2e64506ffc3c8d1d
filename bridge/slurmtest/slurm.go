// Package slurmtest is a Slurm in memory: the port of package bridge, kept by a controller that schedules, sizes,
// signals, requeues and refuses the way slurmctld 24.11 was seen to, under a virtual clock. The suite in
// bridge/conformance holds it to that. Tests, the demonstration and the simulator run on it.
//
// It is deterministic and it is no simulator of Slurm's scheduling quality: jobs are taken in the order of their
// priorities and IDs, and whatever fits starts, without quality of service or a plan for the next one. Reservations
// keep their nodes. It enforces nothing on a node and knows one size on all nodes of a job. Faults are not its own: a
// Line breaks the connection to it.
package slurmtest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// Options is the site. A zero duration is the default that is named; a negative one is none at all.
type Options struct {
	// Nodes are the servers: Name, Total, Partitions and what else is fixed; Rack makes equal ones.
	Nodes []bridge.Node
	// SchedulerDelay is how long after a change the scheduler looks at the queue (batch_sched_delay); default 1 s.
	SchedulerDelay time.Duration
	// Teardown is how long an ended job keeps its nodes COMPLETING; default 300 ms.
	Teardown time.Duration
	// KillWait is how long a job may go on after SIGTERM; default 30 s.
	KillWait time.Duration
	// Penalty is how long Slurm makes a requeued job wait if nobody says otherwise; default 121 s.
	Penalty time.Duration
	// ResumeDelay is how long a node boots that was powered down; default 60 s. SuspendDelay is how long one goes down
	// (SuspendTimeout); default 30 s.
	ResumeDelay, SuspendDelay time.Duration
	// Closed reads a node's state, in Slurm's words, as the adapter under test does; nil: as slurmctld goes by it.
	Closed func(state []string) string
	// MinJobAge is how long an ended job is known; default 300 s.
	MinJobAge time.Duration
	// MemoryPerCPU is given to jobs that ask for no memory (DefMemPerCPU); default 1000 MiB.
	MemoryPerCPU gres.Memory
	// Together is how fast a job runs on a GPU that those share, itself included, ascending, as a part of its speed
	// alone; nil: as if alone. It must be a function of its arguments alone.
	Together func(job int, there []int) float64
	// Ended is told of every job that is over, with its whole history, which is then forgotten here; nil: it is kept.
	// It must not call back.
	Ended func(History)
}

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

func orDefault(d, fallback time.Duration) time.Duration {
	return max(0, cmp.Or(d, fallback))
}

// Rack is count equal nodes of the given partitions: n1 … n9, or n01 … n10 where the numbers need it to sort.
func Rack(count int, total gres.Vector, partitions ...string) []bridge.Node {
	width := len(fmt.Sprint(count))
	nodes := make([]bridge.Node, count)
	for i := range nodes {
		nodes[i] = bridge.Node{Name: fmt.Sprintf("n%0*d", width, i+1), Total: total, Partitions: partitions}
	}
	return nodes
}

// Divided are the nodes with a type for each GPU, g0, g1, …, and so many shards of each, and with a broker.
func Divided(nodes []bridge.Node, shards int) []bridge.Node {
	divided := slices.Clone(nodes)
	for i := range divided {
		n := &divided[i]
		n.Features = append(slices.Clone(n.Features), bridge.Served)
		n.Devices = make([]bridge.Device, n.Total.GPUs)
		for d := range n.Devices {
			n.Devices[d] = bridge.Device{Type: fmt.Sprintf("g%d", d), Shards: shards}
		}
	}
	return divided
}

// Slurm is the controller with its nodes and jobs. Its exported methods may be called from several goroutines.
type Slurm struct {
	clock   *Clock
	options Options

	mu      sync.Mutex
	nodes   []*node        // ascending in name
	byName  map[string]int // index in nodes
	jobs    []entry        // all ever; the job's ID is its index + 1
	alive   []*job         // ascending in ID: waiting, running or completing; may hold ended ones until swept
	ended   int            // how many of alive have ended
	past    []*job         // over, with our directive, and still told of
	queue   []*job         // in the scheduler's order: what it may start
	afters  map[int][]*job // who waits for the end of a job
	awaited bool           // a scheduler pass is planned
	passes  int
	silent  []*job // those that no pass has looked at since they were changed
	gallery gallery

	reservations []bridge.Reservation // active or to come, ascending in name; never changed, only replaced
}

// entry is a job, or what is left of one whose history was handed over.
type entry struct {
	*job  // nil: handed over
	ended time.Time
	end   End
}

func (e *entry) over() bool { return e.job == nil || e.gone() }

var _ bridge.Slurm = (*Slurm)(nil)

// New is an idle cluster.
func New(clock *Clock, options Options) *Slurm {
	s := &Slurm{clock: clock, options: options.withDefaults(), byName: map[string]int{}, afters: map[int][]*job{}}
	for _, fixed := range options.Nodes {
		s.nodes = append(s.nodes, newNode(fixed))
	}
	slices.SortFunc(s.nodes, func(a, b *node) int { return cmp.Compare(a.fixed.Name, b.fixed.Name) })
	for i, n := range s.nodes {
		s.byName[n.fixed.Name] = i
		s.steadyPower(n)
	}
	return s
}

// Observe implements bridge.Slurm. What it returns shares its lists with the controller: read them only.
func (s *Slurm) Observe(ctx context.Context) (bridge.Observed, error) {
	if err := ctx.Err(); err != nil {
		return bridge.Observed{}, fmt.Errorf("observe: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	now := s.clock.Now()
	return bridge.Observed{At: now, Nodes: s.servers(), Jobs: s.pictures(now), Reservations: s.reservations}, nil
}

// sweep takes ended jobs out of alive.
func (s *Slurm) sweep() {
	if s.ended == 0 {
		return
	}
	s.alive = slices.DeleteFunc(s.alive, func(j *job) bool { return j.gone() })
	s.ended = 0
}

// Active is the number of jobs that wait, run or are being torn down.
func (s *Slurm) Active() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.alive) - s.ended
}

// Submitted is the number of jobs ever submitted; their IDs are 1 to that.
func (s *Slurm) Submitted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.jobs)
}

// known finds a job that Slurm still knows, ended or not.
func (s *Slurm) known(id int) (*job, error) {
	if id < 1 || id > len(s.jobs) {
		return nil, bridge.ErrGone
	}
	e := s.jobs[id-1]
	if e.job == nil {
		e.job = &job{id: id, state: bridge.Finished, history: History{Ended: e.ended}}
	}
	if e.gone() && s.clock.Now().Sub(e.history.Ended) >= s.options.MinJobAge {
		return nil, bridge.ErrGone
	}
	return e.job, nil
}
