package policy

import "fmt"

// explain finds the one reason why job i has no place: what would have to be different for it to run.
func (b *board) explain(i int) (Reason, string) {
	j := &b.c.Jobs[i]
	ways := b.ways(j)
	if len(ways) == 0 {
		return Shape, b.noWay(j)
	}
	w := ways[0]
	able, open := b.countAble(j, w)
	switch {
	case able < w.nodes:
		return Shape, fmt.Sprintf("needs %s, and the cluster has %s", nodesWith(w), count(able, "such node"))
	case open < w.nodes:
		return Closed, fmt.Sprintf("needs %s, and only %d of %d that could hold it are open", nodesWith(w), open, able)
	}
	return b.shortage(j, w)
}

func (b *board) noWay(j *Job) string {
	if j.Nodes > 0 {
		return fmt.Sprintf("%d GPUs cannot be divided equally over %d nodes", j.GPUs, j.Nodes)
	}
	return fmt.Sprintf("%d GPUs cannot be divided equally over nodes with at most %d", j.GPUs, b.largest)
}

// countAble counts the nodes that could hold a part of j if they were empty, and those of them that are open.
func (b *board) countAble(j *Job, w way) (able, open int) {
	for n := range b.servers {
		sv := &b.servers[n]
		if !suits(j, sv.Node) || !b.alloc.least(b.menus.of(j, w.gpus, sv.Total)).Size.Fits(sv.Total) || w.gpus > sv.Total.GPUs {
			continue
		}
		able++
		if sv.Closed == "" {
			open++
		}
	}
	return able, open
}

// shortage says what is missing on the nodes that could hold j.
func (b *board) shortage(j *Job, w way) (Reason, string) {
	var free, most, enough, cores, memory int
	for n := range b.servers {
		sv := &b.servers[n]
		if sv.Closed != "" || !suits(j, sv.Node) {
			continue
		}
		left := sv.open()
		free += max(left.GPUs, 0)
		most = max(most, left.GPUs)
		if left.GPUs < w.gpus {
			continue
		}
		enough++
		need := b.alloc.least(b.menus.of(j, w.gpus, sv.Total)).Size
		cores += asInt(need.CPUs > left.CPUs)
		memory += asInt(need.Memory > left.Memory)
	}
	switch {
	case b.costly:
		return Limit, "it could run only if more jobs were stopped than the rules allow, or than it would gain"
	case free < j.GPUs:
		return Turn, fmt.Sprintf("%s free, it needs %d; jobs that go first hold the others", are(free, "GPU"), j.GPUs)
	case enough < w.nodes:
		return Gang, fmt.Sprintf("no %s: of %d free GPUs at most %d are on one node", has(w), free, most)
	case b.reserved != nil && !j.Saves:
		return HeldBack, fmt.Sprintf("what is free is kept for job %d, which has waited longest", b.reserved.job)
	case cores > 0:
		return Cores, fmt.Sprintf("%s free, but not the cores that go with it", are(w.gpus, "GPU"))
	case memory > 0:
		return RAM, fmt.Sprintf("%s free, but not the memory that goes with it", are(w.gpus, "GPU"))
	}
	return Gang, fmt.Sprintf("no %s, cores and memory included", has(w))
}

func asInt(is bool) int {
	if is {
		return 1
	}
	return 0
}

func nodesWith(w way) string {
	return fmt.Sprintf("%s with %s", count(w.nodes, "node"), count(w.gpus, "GPU"))
}

func has(w way) string {
	if w.nodes == 1 {
		return fmt.Sprintf("node has %d free GPUs", w.gpus)
	}
	return fmt.Sprintf("%d nodes have %d free GPUs each", w.nodes, w.gpus)
}

func are(n int, thing string) string {
	if n == 0 {
		return "no " + thing + " is"
	}
	if n == 1 {
		return "1 " + thing + " is"
	}
	return fmt.Sprintf("%d %ss are", n, thing)
}

func count(n int, thing string) string {
	switch n {
	case 0:
		return "no " + thing
	case 1:
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
