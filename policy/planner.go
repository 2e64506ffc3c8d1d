package policy

import (
	"cmp"
	"slices"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// Planner decides one round after the other. It makes the plans of Decide, but faster, since it keeps what it has
// worked out: menus, which servers suit which jobs, where jobs were and in which order. It uses none of it before
// comparing it with the snapshot. Profiles must not change under their pointers. The zero value works; it is not safe
// for several goroutines at once.
type Planner struct {
	board board
	// ranking orders all jobs if some share GPUs, see policyRights. It is a planner of its own since board has a
	// snapshot without those that share a GPU with a leader, and what a planner keeps is for one snapshot after the
	// other.
	ranking *Planner
}

// Decide plans one round, as the function Decide does. If jobs share GPUs, decide sees only one job of each shared GPU
// (leaderSnapshot), and what becomes of the others is decided around its plan (newSlotPlanner).
func (pl *Planner) Decide(c Cluster, p Policy, a Allocator) Plan {
	if !c.hasSharing() {
		return pl.decide(c, p, a)
	}
	if pl.ranking == nil {
		pl.ranking = new(Planner)
	}
	s := newSharing(c, pl.ranking.policyRights(c, p, a))
	pl.board.hiddenJobs = s.unseenJobs()
	defer func() { pl.board.hiddenJobs = nil }() // a next round may have no jobs that share
	plan, _ := s.planRound(func(c Cluster) (Plan, map[string]int, error) {
		return pl.decide(c, p, a), pl.board.keptJobByNode(), nil // never an error, so plan has none
	})
	return plan
}

// decide plans a round in which every job has its GPUs to itself: first which jobs run and where, in the policy's
// order, then their sizes. Room for an unmanaged job is kept before the waiting jobs that come after it, so that they
// do not take it.
func (pl *Planner) decide(c Cluster, p Policy, a Allocator) Plan {
	b, next := pl.boardFor(&c, p, a), 0
	for _, i := range b.order {
		next = serveUnmanagedBefore(b, i, next)
		scheduleJob(b, i)
	}
	serveUnmanagedRest(b, next)
	reuseFreed(b)
	explainWaits(b)
	a.runPasses(b)
	return readPlan(b)
}

// boardFor puts the snapshot on the board, with its jobs in the order of the policy.
func (pl *Planner) boardFor(c *Cluster, p Policy, a Allocator) *board {
	b := &pl.board
	layOut(b, c, a)
	orderJobs(b, p)
	return b
}

// topology is what stays the same as long as the nodes and the allocator do: which jobs may use which servers, and with
// what sizes.
type topology struct {
	nodes         []Node // copies of those that it was built from, ascending in name
	alloc         string
	index         map[string]int // server by name
	singleServers []int          // every server, so that a slice of it is a list of one
	largest       int            // GPUs of the largest server
	total         gres.Vector    // of all servers
	reference     gres.Vector    // see Reference
	shapes        int            // number of different shapes of servers
	equals        []int          // number of servers of each model, by the model's number
	classCache
}

// maxCached is how many classes of jobs are kept beyond the number of jobs, and how many menus, before they are
// dropped.
const maxCached = 4096

// isFor reports whether the topology, built in an earlier round, is also that of these nodes; if not it has to be
// built anew. Only what decides eligibility and sizes is compared: whether nodes are open and what is held on them does
// not matter.
func (h *topology) isFor(nodes []*Node, a Allocator) bool {
	return h.alloc == a.Name && slices.EqualFunc(h.nodes, nodes, func(was Node, is *Node) bool {
		return was.Name == is.Name && was.Total == is.Total && was.GPUType == is.GPUType &&
			slices.Equal(was.Features, is.Features)
	})
}

// buildTopology makes the topology and its servers anew. All that was kept from earlier rounds is dropped, since it
// refers to servers by number. The nodes come in the order of their names.
func buildTopology(b *board, nodes []*Node) {
	b.topology = topology{alloc: b.alloc.Name, index: make(map[string]int, len(nodes)), classCache: newClassCache()}
	for i, n := range nodes {
		was := *n
		was.Features = slices.Clone(n.Features)
		b.topology.nodes = append(b.topology.nodes, was)
		b.index[n.Name] = i
		b.largest = max(b.largest, n.Total.GPUs)
		b.total = b.total.Plus(n.Total)
	}
	b.servers, b.singleServers = make([]server, len(nodes)), make([]int, len(nodes))
	for i, n := range nodes {
		b.servers[i].share, b.singleServers[i] = gres.Proportional(n.Total, 1), i
	}
	numberShapes(b)
	b.byFreeGPUs, b.byReclaimableGPUs = newLevelIndex(len(nodes), b.largest), newLevelIndex(len(nodes), b.largest)
	for _, s := range []*serverSet{&b.roomyServers, &b.uncontested, &b.closed, &b.visitedServers, &b.stirredServers,
		&b.grown, &b.noTradeGains,
		&b.changedServers} {
		*s = newServerSet(len(nodes))
	}
	b.market = newMarket(len(nodes))
	b.states, b.ids, b.order = nil, nil, nil // their classes belong to the old topology
}

// numberShapes gives servers with equal totals and GPU types the same number (server.shape), since jobs have the same
// menu on all of them. It also finds the reference server and the models.
func numberShapes(b *board) {
	type shape struct {
		total   gres.Vector
		gpuType string
	}
	numbers := map[shape]int{}
	for i := range b.topology.nodes {
		n := &b.topology.nodes[i]
		s := shape{n.Total, n.GPUType}
		if _, known := numbers[s]; !known {
			numbers[s] = len(numbers)
		}
		b.servers[i].shape = numbers[s]
	}
	b.shapes = len(numbers)
	b.reference = Reference(b.topology.nodes)
	findModels(b)
}

// findModels finds which servers are equal for a gang: those with as many GPUs of one type and as many cores whose
// memory differs by no more than Slack. The smallest of them is their model. A gang has one size on all its nodes, so
// its share and its menu are those of the model, which each of them can give; to ask for the last MiB of the largest
// would keep the gang from running at all.
func findModels(b *board) {
	sorted := slices.Clone(b.singleServers)
	key := func(n int) (gpus, cpus int, gpuType string) {
		node := &b.topology.nodes[n]
		return node.Total.GPUs, node.Total.CPUs, node.GPUType
	}
	alike := func(x, y int) int {
		g, c, t := key(x)
		h, d, u := key(y)
		return cmp.Or(cmp.Compare(g, h), cmp.Compare(c, d), cmp.Compare(t, u))
	}
	memory := func(n int) gres.Memory { return b.topology.nodes[n].Total.Memory }
	slices.SortFunc(sorted, func(x, y int) int {
		return cmp.Or(alike(x, y), cmp.Compare(memory(x), memory(y)), cmp.Compare(x, y))
	})
	b.equals = make([]int, len(sorted))
	model := -1
	for _, n := range sorted {
		if model < 0 || alike(model, n) != 0 || !NearlyEqual(memory(model), memory(n)) {
			model = n
		}
		b.servers[n].model = model
		b.equals[model]++
	}
}

// jobsByID lists jobs in ascending ID, reusing the memory of an old list. The board numbers jobs in this order, so that
// the order of the snapshot does not matter.
func jobsByID(list []*Job, jobs []Job) []*Job {
	list = resized(list, len(jobs))
	clear(list[len(list):cap(list)]) // the rest of a longer list would keep its snapshot alive
	for i := range jobs {
		list[i] = &jobs[i]
	}
	if !idsAscend(jobs) {
		slices.SortStableFunc(list, func(x, y *Job) int { return cmp.Compare(x.ID, y.ID) })
	}
	return list
}

// idsAscend reports whether jobs ascend in ID, as those of most snapshots do, so that they need not be sorted.
func idsAscend(jobs []Job) bool {
	for i := 1; i < len(jobs); i++ {
		if jobs[i].ID < jobs[i-1].ID {
			return false
		}
	}
	return true
}

// nodesInOrder lists nodes in ascending name, reusing the memory of an old list. The board numbers servers in this
// order, so that the order of the snapshot does not matter.
func nodesInOrder(list []*Node, nodes []Node) []*Node {
	list = resized(list, len(nodes))
	clear(list[len(list):cap(list)])
	for i := range nodes {
		list[i] = &nodes[i]
	}
	compare := func(x, y *Node) int { return strings.Compare(x.Name, y.Name) }
	if !slices.IsSortedFunc(list, compare) {
		slices.SortFunc(list, compare)
	}
	return list
}
