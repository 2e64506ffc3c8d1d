package bridge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// For a round, a node with GPUs of several types is several nodes, one for each type: a pool of the GPUs of that type,
// with the part of the node's cores and memory that equals its part of the GPUs. So GPUs are counted by type: a job
// that names one is placed where these are, and Check treats each pool like a node. Slurm counts a slice of a GPU (MIG)
// as a GPU of its own type, and so does the share. In updates a pool is replaced by its node, and a job that named no
// type asks for the type of its pool, since otherwise Slurm might choose another.

// poolMark separates node and type in the name of a pool. No node name contains it, since Slurm's lists of nodes could
// not.
const poolMark = ":"

// poolName is the name of a pool; GPUs without a type are named "gpu".
func poolName(node, gpuType string) string { return node + poolMark + cmp.Or(gpuType, "gpu") }

// hostOf is the node of a pool; the name itself if it is that of a node.
func hostOf(name string) string {
	host, _, _ := strings.Cut(name, poolMark)
	return host
}

// hostsOf are the nodes of these pools and nodes, ascending and each once, for updates: Slurm knows no pools.
func hostsOf(names []string) []string {
	if !slices.ContainsFunc(names, func(name string) bool { return strings.Contains(name, poolMark) }) {
		return names
	}
	hosts := make([]string, len(names))
	for i, name := range names {
		hosts[i] = hostOf(name)
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// narrowToType makes a request without a GPU type ask for the type of the pools on which the job is to start, since
// Slurm might otherwise give it GPUs of another type on that node. A request stays as it is if it names a type, or if
// the job starts on whole nodes, on pools of several types, or on GPUs without a type ("gpu").
func narrowToType(q *slurm.Request, nodes []string) {
	if len(nodes) == 0 {
		return
	}
	_, gpuType, pool := strings.Cut(nodes[0], poolMark)
	other := func(name string) bool { return !strings.HasSuffix(name, poolMark+gpuType) }
	if !pool || q.GPUType != "" || gpuType == "gpu" || slices.ContainsFunc(nodes, other) {
		return
	}
	if text, err := gres.Retyped(q.GRES, gpuType); err == nil {
		q.GRES, q.GPUType = text, gpuType
	}
}

// isNarrowed says that the GPUs of q are those of own, the user's own request, with a type that narrowToType has added.
// No round changes them in any other way, so any other difference is a change by the user or an administrator.
func isNarrowed(q, own *slurm.Request) bool {
	text, err := gres.Retyped(own.GRES, q.GPUType)
	return err == nil && own.GPUType == "" && q.GPUType != "" && text == q.GRES
}

// pooledView is an observation in which nodes with several GPU types are replaced by pools.
type pooledView struct {
	layout string // which nodes have which pools
	pools  map[string][]slurm.Node
	jobs   map[*slurm.Job]*slurm.Job // jobs on such nodes: as observed, and on pools
}

// dividePools returns the observation with pools in place of nodes that have several GPU types, also in jobs and
// reservations. Without such nodes it is returned as it is. A job that has not changed gets the same copy as in the
// last observation, since caches compare pointers to find changed jobs. If the pools have changed, all jobs on pools
// are copied anew.
func (r *observationCache) dividePools(seen slurm.Observed) slurm.Observed {
	now := pooledView{pools: map[string][]slurm.Node{}, jobs: map[*slurm.Job]*slurm.Job{}}
	var layout strings.Builder
	for i := range seen.Nodes {
		if n := &seen.Nodes[i]; len(n.Types) > 1 {
			now.pools[n.Name] = poolsOf(n)
			for _, t := range n.Types {
				fmt.Fprintf(&layout, "%s %d ", poolName(n.Name, t.Type), t.Total)
			}
		}
	}
	if len(now.pools) == 0 {
		r.divided = pooledView{}
		return seen
	}
	if now.layout = layout.String(); now.layout != r.divided.layout {
		r.divided = pooledView{}
	}
	seen.Jobs = now.onPoolJobs(seen.Jobs, r.divided.jobs)
	seen.Nodes = now.nodes(seen.Nodes)
	seen.Reservations = now.reservations(seen.Reservations)
	r.divided = now
	return seen
}

// poolsOf are the pools of a node, ascending in name, with their parts of the node's cores and memory. Of what is
// allocated they have only the GPUs, since Slurm does not say which cores go with them. Each part is the difference of
// two rounded running totals, so that the pools together have exactly what the node has.
func poolsOf(n *slurm.Node) []slurm.Node {
	pools, before := make([]slurm.Node, 0, len(n.Types)), gres.Vector{}
	gpus := 0
	for _, t := range n.Types {
		gpus += t.Total
		upTo := gres.Vector{GPUs: gpus}
		if n.Total.GPUs > 0 {
			upTo.CPUs = n.Total.CPUs * gpus / n.Total.GPUs
			upTo.Memory = n.Total.Memory * gres.Memory(gpus) / gres.Memory(n.Total.GPUs)
		}
		pool := *n
		pool.Name, pool.GPUType, pool.Types = poolName(n.Name, t.Type), t.Type, nil
		pool.Total, before = upTo.Minus(before), upTo
		pool.Allocated = gres.Vector{GPUs: min(t.Total, t.Allocated)}
		pools = append(pools, pool)
	}
	slices.SortFunc(pools, func(a, b slurm.Node) int { return strings.Compare(a.Name, b.Name) })
	return pools
}

// onPoolJobs returns the jobs with those on divided nodes replaced by copies that run on pools, and adds what these
// hold to the pools. known are the copies of the last observation, by the job as observed.
func (d *pooledView) onPoolJobs(jobs []*slurm.Job, known map[*slurm.Job]*slurm.Job) []*slurm.Job {
	all := make([]*slurm.Job, len(jobs))
	for i, j := range jobs {
		all[i] = j
		if !slices.ContainsFunc(j.Runs.Nodes, func(name string) bool { return d.pools[name] != nil }) {
			continue
		}
		if all[i] = known[j]; all[i] == nil {
			all[i] = d.onPools(j)
		}
		d.jobs[j] = all[i]
		d.chargePools(all[i])
	}
	return all
}

// onPools is a copy of a job that runs on pools in place of nodes. A job that holds GPUs of several types of a node, or
// of an unknown type, is placed on all pools of the node. If it runs, it also gets a Shape, the reason for which rounds
// leave it alone: how much it holds of each pool is unknown.
func (d *pooledView) onPools(j *slurm.Job) *slurm.Job {
	told := *j
	told.Runs.Nodes = nil
	for i, name := range j.Runs.Nodes {
		pools := d.pools[name]
		if pools == nil {
			told.Runs.Nodes = append(told.Runs.Nodes, name)
			continue
		}
		held := typesHeld(&j.Runs, i, j.Request.GPUType)
		if len(held) != 1 {
			if j.State == slurm.Running && j.Request.GPUs > 0 {
				told.Shape = cmp.Or(j.Shape, "holds GPUs of several types of a node: it ends as it began")
			}
			held = nil
		}
		for _, pool := range pools {
			if held == nil || held[0] == pool.GPUType {
				told.Runs.Nodes = append(told.Runs.Nodes, pool.Name)
			}
		}
	}
	slices.Sort(told.Runs.Nodes)
	return &told
}

// typesHeld are the types of the GPUs that a job holds on the node with index node in a.Nodes, by Slurm's list of
// devices. Where Slurm lists no devices it is asked, the type for which the job asked. Nil: the type is unknown, or the
// job holds no GPU there.
func typesHeld(a *slurm.Allocated, node int, asked string) (list []string) {
	if len(a.Devices) != len(a.Nodes) {
		if asked != "" {
			list = []string{asked}
		}
		return list
	}
	counts, err := gres.ParseCounts(a.Devices[node])
	if err != nil {
		return nil
	}
	for _, c := range counts {
		if c.Name == "gpu" && c.Count > 0 && !slices.Contains(list, c.Type) {
			list = append(list, c.Type)
		}
	}
	return list
}

// chargePools adds a job's cores and memory to the allocation of its pool. A job on several pools of a node is left
// out, since it is unknown how much it holds of each: the method nodes spreads that over all of them.
func (d *pooledView) chargePools(j *slurm.Job) {
	for _, name := range j.Runs.Nodes {
		host := hostOf(name)
		others := func(other string) bool { return other != name && hostOf(other) == host }
		pools := d.pools[host]
		at := slices.IndexFunc(pools, func(pool slurm.Node) bool { return pool.Name == name })
		if at < 0 || slices.ContainsFunc(j.Runs.Nodes, others) {
			continue
		}
		holds := gres.Vector{CPUs: j.Runs.PerNode.CPUs, Memory: j.Runs.PerNode.Memory}
		pools[at].Allocated = pools[at].Allocated.Plus(holds)
	}
}

// nodes replaces nodes by their pools. What is allocated on a node and not charged to a pool, or does not fit into the
// pool that is charged, is spread over the room that the pools have left. So the pools together never have more free
// than the node.
func (d *pooledView) nodes(nodes []slurm.Node) []slurm.Node {
	all := make([]slurm.Node, 0, len(nodes)+len(d.pools))
	for i := range nodes {
		pools := d.pools[nodes[i].Name]
		if pools == nil {
			all = append(all, nodes[i])
			continue
		}
		rest, rooms := nodes[i].Allocated, make([]gres.Vector, len(pools))
		for k := range pools {
			p := &pools[k]
			p.Allocated = capTo(p.Allocated, p.Total)
			rest, rooms[k] = rest.Minus(p.Allocated), p.Total.Minus(p.Allocated)
		}
		for k, more := range spread(rest, rooms) {
			pools[k].Allocated = pools[k].Allocated.Plus(more)
		}
		all = append(all, pools...)
	}
	slices.SortFunc(all, func(a, b slurm.Node) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// spread divides cores and memory over rooms, what the pools of a node have free, in proportion to their sizes. GPUs
// are not divided, since each pool's own are known. No part exceeds its room, and what exceeds all rooms together is
// dropped. The parts are differences of rounded running totals, so that together they are the whole amount.
func spread(amount gres.Vector, rooms []gres.Vector) []gres.Vector {
	total, before, given := gres.Vector{}, gres.Vector{}, gres.Vector{}
	for _, room := range rooms {
		total = total.Plus(room)
	}
	amount = capTo(amount, total).Max(gres.Vector{})
	parts := make([]gres.Vector, len(rooms))
	for k, room := range rooms {
		before = before.Plus(room)
		upTo := gres.Vector{CPUs: amount.CPUs * before.CPUs / max(1, total.CPUs),
			Memory: amount.Memory * before.Memory / max(1, total.Memory)}
		parts[k], given = upTo.Minus(given), upTo
	}
	return parts
}

// capTo is the part of an amount for which there is room: of each resource the smaller number.
func capTo(amount, room gres.Vector) gres.Vector {
	return gres.Vector{GPUs: min(amount.GPUs, room.GPUs), CPUs: min(amount.CPUs, room.CPUs),
		Memory: min(amount.Memory, room.Memory)}
}

// reservations is the list with the pools of each reserved node in place of the node.
func (d *pooledView) reservations(list []slurm.Reservation) []slurm.Reservation {
	all := slices.Clone(list)
	for i := range all {
		var nodes []string
		for _, name := range all[i].Nodes {
			nodes = append(nodes, names(d.pools[name], name)...)
		}
		slices.Sort(nodes)
		all[i].Nodes = nodes
	}
	return all
}

// names are the names of a node's pools, or its own if it has none.
func names(pools []slurm.Node, node string) []string {
	if pools == nil {
		return []string{node}
	}
	list := make([]string, len(pools))
	for i := range pools {
		list[i] = pools[i].Name
	}
	return list
}

// byPool maps each node that is divided to the names of its managed pools; nil if there is none.
func byPool(managed []string) (of map[string][]string) {
	for _, name := range managed {
		if host := hostOf(name); host != name {
			if of == nil {
				of = map[string][]string{}
			}
			of[host] = append(of[host], name)
		}
	}
	return of
}

// withPools returns a user's list of nodes with pools in place of divided nodes, ascending, so that it can be compared
// with the planner's nodes.
func (h *topology) withPools(nodes []string) []string {
	if !slices.ContainsFunc(nodes, func(name string) bool { return h.pools[name] != nil }) {
		return nodes
	}
	var all []string
	for _, name := range nodes {
		if pools := h.pools[name]; pools != nil {
			all = append(all, pools...)
		} else {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}
