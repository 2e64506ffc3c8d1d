package slurmrest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/wire"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/ledger"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// Whatever plain Slurm starts on an empty cluster starts with our directive within two rounds. The cases are the
// product of the axes below: each state of a node × each notation of its GPUs × each shape of a request. Slurm in
// memory knows what is so; rounds know what this package reads of the words in which Slurm tells it. Whoever adds to an
// axis tries it with all of the others.

// nodeStates are states of a node as Slurm prints them, beside IDLE where no other base state is among them.
var nodeStates = []string{
	"", "CLOUD", "POWERED_DOWN", "CLOUD POWERED_DOWN", "CLOUD POWERED_DOWN NOT_RESPONDING", "POWERED_DOWN POWER_UP",
	"POWER_UP", "CLOUD POWERING_UP NOT_RESPONDING", "POWERING_UP", "POWER_DOWN", "CLOUD POWERING_DOWN",
	"POWERED_DOWN POWER_DOWN", "PLANNED", "RESERVED", "MAINTENANCE", "REBOOT_REQUESTED", "DYNAMIC_NORM",
	"DYNAMIC_NORM POWERED_DOWN", "DRAIN", "DRAIN POWERED_DOWN", "DOWN", "DOWN NOT_RESPONDING", "FAIL", "NOT_RESPONDING",
	"BLOCKED", "DOWN REBOOT_ISSUED", "DRAIN REBOOT_REQUESTED", "FUTURE", "UNKNOWN", "INVALID_REG DRAIN", "OF_NEXT_YEAR",
}

// notation is how a node's eight GPUs are told. What jobs can ask for is a number, or the type where there is one.
type notation struct{ gres, used, gpuType string }

var notations = []notation{
	{"gpu:8", "gpu:0", ""},
	{"gpu:8(S:0-1)", "gpu:0(IDX:N/A)", ""},
	{"gpu:a100:8", "gpu:a100:0(IDX:N/A)", "a100"},
	{"gpu:a100:8(S:0-1)", "gpu:a100:0", "a100"},
	{"gpu:a100:4(S:0),gpu:a100:4(S:1)", "gpu:a100:0(IDX:N/A)", "a100"},
	{"gpu:8(S:0-1),shard:32(S:0-1)", "gpu:(null):0(IDX:N/A),shard:(null):0(0/4,0/4)", ""},
	{"gpu:8,mps:800", "gpu:(null):0(IDX:N/A),mps:(null):0(0/100)", ""},
	{"gpu:tesla:4,gpu:kepler:4", "gpu:tesla:0(IDX:N/A),gpu:kepler:0(IDX:N/A)", ""},
	{"gpu:a100:4,gpu:a100_3g.20gb:4", "gpu:a100:0(IDX:N/A),gpu:a100_3g.20gb:0(IDX:N/A)", ""},
	{"gpu:8,craynetwork:4", "gpu:0,craynetwork:0", ""},
	{"gpu:eight(", "gpu:0", ""}, // of a notation that is not understood
}

// requested is a shape of a request: what it comes to in Slurm, and how Slurm tells it where that is not by node.
type requested struct {
	name string
	asks slurm.Request
	told func(*wire.Job)        // nil: as the request is
	spec func(*slurmtest.Spec)  // what else Slurm knows of it
	of   func(n *notation) bool // whether such a node can serve it; nil: each can
	// left: it is left to Slurm, which has it at once, since a round does not understand it
	left bool
}

func number(n int) wire.Number { return wire.Number{Set: true, Number: int64(n)} }

// otherwise has the GPUs told in other words than by node.
func otherwise(change func(*wire.Job)) func(*wire.Job) {
	return func(j *wire.Job) {
		j.PerNode = ""
		change(j)
	}
}

var shapes = []requested{
	{name: "--gres=gpu:1", asks: slurm.Request{GPUs: 1}},
	{name: "--gres=gpu:8 -c4", asks: slurm.Request{GPUs: 8, CPUsPerTask: 4}},
	{name: "--gres=gpu:a100:2", asks: slurm.Request{GPUs: 2},
		told: func(j *wire.Job) { j.PerNode = "gres/gpu:a100:2" },
		of:   func(n *notation) bool { return strings.Contains(n.gres, "a100") }},
	{name: "--gpus=2", asks: slurm.Request{GPUs: 2}, told: otherwise(func(j *wire.Job) { j.PerJob = "gres/gpu:2" })},
	{name: "-n4 --gpus-per-task=1", asks: slurm.Request{GPUs: 4, Tasks: 4},
		told: otherwise(func(j *wire.Job) { j.PerTask = "gres/gpu:1" })},
	{name: "--gpus-per-node=1 --gpus-per-task=1", asks: slurm.Request{GPUs: 1},
		told: func(j *wire.Job) { j.PerTask = "gres/gpu:1" }},
	{name: "--gpus-per-socket=1", left: true, asks: slurm.Request{GPUs: 2},
		told: otherwise(func(j *wire.Job) { j.PerSocket = "gres/gpu:1" })},
	{
		name: "--exclusive",
		left: true,
		asks: slurm.Request{GPUs: 1},
		told: func(j *wire.Job) { j.Exclusive = []string{"node"} },
		spec: func(s *slurmtest.Spec) { s.Exclusive = true },
	},
	{
		name: "--exclusive=user",
		left: true,
		asks: slurm.Request{GPUs: 1},
		told: func(j *wire.Job) { j.Exclusive = []string{"user"} },
	},
	{name: "-N1-2", left: true, asks: slurm.Request{GPUs: 1}, told: func(j *wire.Job) { j.MaxNodes = number(2) }},
	{name: "--mem=0", left: true, asks: slurm.Request{GPUs: 1, Memory: 500000},
		told: func(j *wire.Job) { j.MemoryPerNode = number(0) }},
	{name: "--mem-per-cpu=2G", asks: slurm.Request{GPUs: 1, MemoryPerCPU: 2048}},
	{name: "-C a|b", left: true, asks: slurm.Request{GPUs: 1}, told: func(j *wire.Job) { j.Features = "a|b" }},
	{name: "-C a*2", left: true, asks: slurm.Request{GPUs: 1}, told: func(j *wire.Job) { j.Features = "a*2" }},
	{name: "--gres=gpu:1,craynetwork:1", left: true, asks: slurm.Request{GPUs: 1},
		told: func(j *wire.Job) { j.PerNode = "gres/gpu:1,gres/craynetwork:1" }},
	{name: "--gres=gpu:1 in words of next year", left: true, asks: slurm.Request{GPUs: 1},
		told: func(j *wire.Job) { j.PerNode = "gres/gpu:one" }},
	{name: "--contiguous", left: true, asks: slurm.Request{GPUs: 1}, told: func(j *wire.Job) { j.Contiguous = true }},
	{name: "-S 2", left: true, asks: slurm.Request{GPUs: 1}, told: func(j *wire.Job) { j.ThreadSpec = 2 }},
	{name: "a het job", left: true, asks: slurm.Request{GPUs: 1}, told: func(j *wire.Job) { j.HetJob = j.ID }},
	{name: "srun", asks: slurm.Request{GPUs: 1}, told: func(j *wire.Job) { j.Batch = false },
		spec: func(s *slurmtest.Spec) { s.Interactive = true }},
	{name: "-w n1", asks: slurm.Request{GPUs: 1, Pin: []string{"n1"}}},
	{name: "--begin=now+1minute", asks: slurm.Request{GPUs: 1},
		spec: func(s *slurmtest.Spec) { s.Begin = dawn.Add(time.Minute) }},
}

var dawn = time.Date(2026, 1, 1, 6, 0, 0, 0, time.UTC)

// site is Slurm in memory as this package reads it.
type site struct {
	*slurmtest.Slurm
	notation *notation
	shape    *requested
	own      slurm.Request
}

// Observe tells nodes and waiting jobs in Slurm's words, and reads those.
func (s *site) Observe(ctx context.Context) (slurm.Observed, error) {
	seen, err := s.Slurm.Observe(ctx)
	seen.Nodes, seen.Jobs = slices.Clone(seen.Nodes), slices.Clone(seen.Jobs)
	for i := range seen.Nodes {
		n := &seen.Nodes[i]
		read := readNode(&wire.Node{State: []string{"IDLE"}, GRES: s.notation.gres, GRESUsed: s.notation.used})
		n.Total.GPUs, n.GPUType, n.Devices, n.Types = read.Total.GPUs, read.GPUType, read.Devices, read.Types
		if n.Closed == "" {
			n.Closed = read.Closed
		}
	}
	for i, j := range seen.Jobs {
		if told := *j; told.State == slurm.Pending {
			s.read(&told)
			seen.Jobs[i] = &told
		}
	}
	return seen, err
}

// read is what a listing says of a waiting job.
func (s *site) read(j *slurm.Job) {
	q := &j.Request
	told := wire.Job{
		ID: j.ID, State: []string{"PENDING"}, Batch: true, ThreadSpec: ordinarySpec, PerNode: q.GRES,
		Nodes: number(q.Nodes), Tasks: number(q.Tasks), CPUsPerTask: number(q.CPUsPerTask), CPUs: number(q.CPUs),
		CPUsPerNode: number(q.CPUsPerNode), RequiredNodes: strings.Join(q.Pin, ","),
	}
	switch {
	case q.MemoryPerCPU > 0:
		told.MemoryPerCPU = number(int(q.MemoryPerCPU))
	default:
		told.MemoryPerNode = number(int(q.Memory))
	}
	if s.shape.told != nil {
		s.shape.told(&told)
	}
	read := readJob(&told)
	j.Request, j.Shape, j.Odd, j.Features, j.Interactive = read.Request, read.Shape, read.Odd, read.Features,
		read.Interactive
}

// Update changes what one of the client would, and no GPUs: nobody writes those.
func (s *site) Update(ctx context.Context, u slurm.Update) error {
	q := &u.Request
	q.GPUs, q.GPUType, q.GRES = s.own.GPUs, s.own.GPUType, s.own.GRES
	if q.Memory == 0 && q.MemoryPerCPU == 0 {
		q.Memory, q.MemoryPerCPU = s.own.Memory, s.own.MemoryPerCPU
	}
	return s.Slurm.Update(ctx, u)
}

// trial is one case.
type trial struct {
	states   []string // of each node
	notation *notation
	shape    *requested
}

func (c *trial) String() string {
	return fmt.Sprintf("nodes in %q with %s, a job with %s", c.states, c.notation.gres, c.shape.name)
}

const (
	trialRound = 5 * time.Minute
	trialLast  = trialRound // when plain Slurm must have started it for us to have to
)

// submitted is the cluster with the job, with our directive or without.
func (c *trial) submitted(t *testing.T, comment string) (*slurmtest.Clock, *site, int) {
	clock := slurmtest.NewClock(dawn)
	nodes := slurmtest.Rack(len(c.states), gres.Vector{GPUs: 8, CPUs: 24, Memory: 500000}, "gpu")
	s := &site{Slurm: slurmtest.New(clock, slurmtest.Options{Nodes: nodes, Closed: closed}), notation: c.notation,
		shape: c.shape}
	for i, state := range c.states {
		slurmtest.SetState(s.Slurm, nodes[i].Name, strings.Fields(state)...)
	}
	spec := slurmtest.Spec{Partition: "gpu", Comment: comment, Request: c.shape.asks}
	if spec.Request.Memory == 0 && spec.Request.MemoryPerCPU == 0 {
		spec.Request.Memory = 1000
	}
	if comment != "" {
		spec.Lease = 3 * trialRound
	}
	if c.shape.spec != nil {
		c.shape.spec(&spec)
	}
	id, err := s.Submit(spec)
	if err != nil {
		t.Fatalf("%s: %v", c, err)
	}
	seen, err := s.Slurm.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.own = seen.Jobs[0].Request
	return clock, s, id
}

// started is after how long the job started; false: it waits.
func (c *trial) started(s *site, id int) (after time.Duration, runs bool) {
	history, _ := s.History(id)
	if len(history.Runs) == 0 {
		return 0, false
	}
	return history.Runs[0].Start.Sub(dawn), true
}

// try says what is wrong with a case; empty: nothing.
func (c *trial) try(t *testing.T) string {
	clock, plain, id := c.submitted(t, "")
	clock.Advance(trialLast)
	alone, plainly := c.started(plain, id)

	clock, ours, id := c.submitted(t, "synergy-profile=none.json")
	runner := &bridge.Runner{Slurm: ours, Clock: clock, Ledger: &ledger.Memory{},
		Profiles: func(string) (*sensitivity.Profile, error) { return nil, fmt.Errorf("not found") },
		Settings: bridge.Settings{Partitions: []string{"gpu"}, Policy: policy.FIFO(), Allocator: policy.Tune(),
			Round: trialRound, Lease: 3 * trialRound, StartTimeout: 20 * time.Second, Poll: time.Second, Parallel: 1,
			Watched: true}}
	for clock.Now().Before(dawn.Add(alone + 2*trialRound + 10*time.Second)) {
		if err := c.live(t, runner, clock); err != nil {
			return err.Error()
		}
	}
	with, runs := c.started(ours, id)
	seen, err := ours.Slurm.Observe(t.Context())
	if err != nil {
		return err.Error()
	}
	switch {
	case plainly && !runs:
		return fmt.Sprintf("Slurm alone starts it after %s, with us it waits: %s", alone, seen.Jobs[0].Extra)
	case plainly && with > alone+2*trialRound:
		return fmt.Sprintf("Slurm alone starts it after %s, with us it starts after %s", alone, with)
	case plainly && c.understood() && strings.Contains(seen.Jobs[0].Extra, "handed back"):
		return "it is understood, and handed back: " + seen.Jobs[0].Extra
	case !plainly && runs:
		return fmt.Sprintf("it starts after %s, and Slurm alone does not start it", with)
	}
	return ""
}

// understood says that nothing about the case is a reason not to plan the job. No plan gives a job GPUs of two types.
func (c *trial) understood() bool {
	_, err := gres.ParseCounts(c.notation.gres)
	halves := strings.Contains(c.notation.gres, ",gpu:") && c.notation.gpuType == ""
	return err == nil && !c.shape.left && !(halves && c.shape.asks.GPUs > 4)
}

// live holds a round, small ones after it, and waits until the next is due. What nodes do by themselves is over by
// then.
func (c *trial) live(t *testing.T, r *bridge.Runner, clock *slurmtest.Clock) error {
	due := clock.Now().Add(trialRound)
	if _, err := r.Round(t.Context()); err != nil {
		return fmt.Errorf("round: %w", err)
	}
	for range 9 {
		if _, _, err := r.SmallRound(t.Context()); err != nil {
			return fmt.Errorf("small round: %w", err)
		}
		clock.Advance(10 * time.Second)
	}
	clock.Advance(due.Sub(clock.Now()))
	return nil
}

// mustStart tries cases and tells the first few that went wrong.
func mustStart(t *testing.T, cases []trial) {
	wrong := 0
	for i := range cases {
		if what := cases[i].try(t); what != "" {
			if wrong++; wrong <= 10 {
				t.Errorf("%s: %s", &cases[i], what)
			}
		}
	}
	t.Logf("%d cases, %d wrong", len(cases), wrong)
}

// serves says that a node with GPUs in that notation can serve the shape.
func (q *requested) serves(n *notation) bool { return q.of == nil || q.of(n) }

func TestWhateverPlainSlurmStartsOnAnEmptyNodeStartsWithOurDirectiveWithinTwoRounds(t *testing.T) {
	t.Parallel()
	var cases []trial
	for _, state := range nodeStates {
		for n := range notations {
			for q := range shapes {
				if shapes[q].serves(&notations[n]) {
					cases = append(cases, trial{[]string{state}, &notations[n], &shapes[q]})
				}
			}
		}
	}
	mustStart(t, cases)
}

func TestWhateverPlainSlurmStartsOnOneOfSeveralNodesStartsWithOurDirectiveWithinTwoRounds(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	cases := make([]trial, 0, 400)
	for len(cases) < cap(cases) {
		n, q := &notations[random.IntN(len(notations))], &shapes[random.IntN(len(shapes))]
		if !q.serves(n) {
			continue
		}
		states := make([]string, 1+random.IntN(4))
		for i := range states {
			states[i] = nodeStates[random.IntN(len(nodeStates))]
		}
		cases = append(cases, trial{states, n, q})
	}
	mustStart(t, cases)
}
