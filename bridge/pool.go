package bridge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// A node with GPUs of several types is to a round as many nodes as types: a pool of the GPUs of each, with as much of
// the node's cores and memory as its part of the GPUs comes to. So GPUs are counted by type: a job that names one is
// put where those are, and the check of a plan sees to each pool as to a node. Slurm counts a slice of a GPU (MIG) as a
// GPU of a type of its own, and so does the share. On the way to Slurm a pool is the node again, and a job that named
// no type asks for the type of the pool that it was given: Slurm would else choose, and perhaps another.

// poolMark stands between a node and the type in the name of a pool. No node has it in its name: it could not stand in
// Slurm's lists of nodes.
const poolMark = ":"

func poolName(node, gpuType string) string { return node + poolMark + cmp.Or(gpuType, "gpu") }

// hostOf is the node of a pool, or the node itself.
func hostOf(name string) string {
	host, _, _ := strings.Cut(name, poolMark)
	return host
}

// hostsOf are the nodes of these pools and nodes.
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

// narrow has a request that names no type ask for that of the pools on which it is to start.
func (q *Request) narrow(nodes []string) {
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

// narrowed says that a request is another that was narrowed to a type.
func (q *Request) narrowed(own *Request) bool {
	text, err := gres.Retyped(own.GRES, q.GPUType)
	return err == nil && own.GPUType == "" && q.GPUType != "" && text == q.GRES
}

// division is an observation by pools.
type division struct {
	layout string // which nodes have which pools
	pools  map[string][]Node
	jobs   map[*Job]*Job // those on such nodes, as observed and by pools
}

// divide tells an observation by pools. What stays the same in it stays the same.
func (r *reader) divide(seen Observed) Observed {
	now := division{pools: map[string][]Node{}, jobs: map[*Job]*Job{}}
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
		r.divided = division{}
		return seen
	}
	if now.layout = layout.String(); now.layout != r.divided.layout {
		r.divided = division{}
	}
	seen.Jobs = now.share(seen.Jobs, r.divided.jobs)
	seen.Nodes = now.nodes(seen.Nodes)
	seen.Reservations = now.reservations(seen.Reservations)
	r.divided = now
	return seen
}

// poolsOf are the pools of a node, ascending in name. Of what is allocated they have the GPUs.
func poolsOf(n *Node) []Node {
	pools, before := make([]Node, 0, len(n.Types)), gres.Vector{}
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
	slices.SortFunc(pools, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	return pools
}

// share tells jobs by pools, and charges what those hold of which the pool is known.
func (d *division) share(jobs []*Job, known map[*Job]*Job) []*Job {
	all := make([]*Job, len(jobs))
	for i, j := range jobs {
		all[i] = j
		if !slices.ContainsFunc(j.Runs.Nodes, func(name string) bool { return d.pools[name] != nil }) {
			continue
		}
		if all[i] = known[j]; all[i] == nil {
			all[i] = d.onPools(j)
		}
		d.jobs[j] = all[i]
		d.charge(all[i])
	}
	return all
}

// onPools tells where a job runs by pools. One that holds GPUs of several types of a node, or of which nobody says what
// it holds, is on all of them, and no round's to plan.
func (d *division) onPools(j *Job) *Job {
	told := *j
	told.Runs.Nodes = nil
	for i, name := range j.Runs.Nodes {
		pools := d.pools[name]
		if pools == nil {
			told.Runs.Nodes = append(told.Runs.Nodes, name)
			continue
		}
		held := j.Runs.types(i, j.Request.GPUType)
		if len(held) != 1 {
			if j.State == Running && j.Request.GPUs > 0 {
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

// types are those of the GPUs that a job holds on its node with that number, as far as Slurm says it, or else the type
// that it asks for.
func (a *Allocated) types(node int, asked string) (list []string) {
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

// charge adds what a job holds to its pools. Of one that is on several pools of a node nobody knows how much is whose.
func (d *division) charge(j *Job) {
	for _, name := range j.Runs.Nodes {
		host := hostOf(name)
		others := func(other string) bool { return other != name && hostOf(other) == host }
		pools := d.pools[host]
		at := slices.IndexFunc(pools, func(pool Node) bool { return pool.Name == name })
		if at < 0 || slices.ContainsFunc(j.Runs.Nodes, others) {
			continue
		}
		holds := gres.Vector{CPUs: j.Runs.PerNode.CPUs, Memory: j.Runs.PerNode.Memory}
		pools[at].Allocated = pools[at].Allocated.Plus(holds)
	}
}

// nodes puts the pools in place of their nodes. What is allocated of a node beyond what its pools are charged with, as
// much as they cannot have themselves included, is spread over the room that they have left: all together they never
// have more to give than the node.
func (d *division) nodes(nodes []Node) []Node {
	all := make([]Node, 0, len(nodes)+len(d.pools))
	for i := range nodes {
		pools := d.pools[nodes[i].Name]
		if pools == nil {
			all = append(all, nodes[i])
			continue
		}
		rest, rooms := nodes[i].Allocated, make([]gres.Vector, len(pools))
		for k := range pools {
			p := &pools[k]
			p.Allocated = within(p.Allocated, p.Total)
			rest, rooms[k] = rest.Minus(p.Allocated), p.Total.Minus(p.Allocated)
		}
		for k, more := range spread(rest, rooms) {
			pools[k].Allocated = pools[k].Allocated.Plus(more)
		}
		all = append(all, pools...)
	}
	slices.SortFunc(all, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// spread divides cores and memory in the proportion of the rooms for them, and none of them gets more than its room.
func spread(amount gres.Vector, rooms []gres.Vector) []gres.Vector {
	total, before, given := gres.Vector{}, gres.Vector{}, gres.Vector{}
	for _, room := range rooms {
		total = total.Plus(room)
	}
	amount = within(amount, total).Max(gres.Vector{})
	parts := make([]gres.Vector, len(rooms))
	for k, room := range rooms {
		before = before.Plus(room)
		upTo := gres.Vector{CPUs: amount.CPUs * before.CPUs / max(1, total.CPUs),
			Memory: amount.Memory * before.Memory / max(1, total.Memory)}
		parts[k], given = upTo.Minus(given), upTo
	}
	return parts
}

// within is as much of an amount as there is room for.
func within(amount, room gres.Vector) gres.Vector {
	return gres.Vector{GPUs: min(amount.GPUs, room.GPUs), CPUs: min(amount.CPUs, room.CPUs),
		Memory: min(amount.Memory, room.Memory)}
}

// reservations tells which pools are reserved: those of a node that is.
func (d *division) reservations(list []Reservation) []Reservation {
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

// names are those of the pools of a node, or its own where it has none.
func names(pools []Node, node string) []string {
	if pools == nil {
		return []string{node}
	}
	list := make([]string, len(pools))
	for i := range pools {
		list[i] = pools[i].Name
	}
	return list
}

// byPool are the managed pools of each node that has some.
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

// expand puts the pools of nodes in their place.
func (h *topology) expand(nodes []string) []string {
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
