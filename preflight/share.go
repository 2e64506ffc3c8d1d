package preflight

import (
	"fmt"
	"slices"
	"strings"
)

// Sharing is what the configuration says about shared GPUs.
type Sharing struct {
	Said   bool // the configuration has a section share
	Memory bool // it has share.gpu_memory
	// ByFeature and ModeByFeature are the node features in share.by_feature and share.mode_by_feature, ascending.
	ByFeature, ModeByFeature []string
	Most                     int // the most jobs that the planner puts on one GPU
}

// Node is a node with GPUs.
type Node struct {
	Name                 string
	Features, Partitions []string
	GPUs                 int
	Shards               []int // of each GPU, if gres.conf gives every GPU another type and shards; else empty
	Broker               bool  // a broker has announced itself
}

// sharing are the checks for shared GPUs. They report nothing if the configuration has no section share.
var sharing = []check{
	shared("share.gpu_memory", memoryOfGPUs),
	shared("share.by_feature", func(f *Facts) []finding { return features(f, f.Wanted.Sharing.ByFeature) }),
	shared("share.mode_by_feature", func(f *Facts) []finding { return features(f, f.Wanted.Sharing.ModeByFeature) }),
	shared("shards", shards),
	shared("brokers", brokers),
	shared("GresTypes", gresTypes),
	shared("keep_shards", keepShards),
	shared("seats", shardRights),
}

// shared is a check that runs only if the configuration has a section share.
func shared(name string, judge func(f *Facts) []finding) check {
	return check{name, func(f *Facts) []finding {
		if !f.Wanted.Sharing.Said {
			return nil
		}
		return judge(f)
	}}
}

// managedNodes returns the nodes with GPUs in the managed partitions.
func managedNodes(f *Facts) (nodes []Node) {
	for _, n := range f.Nodes.Value {
		manages := func(name string) bool { return slices.Contains(f.Wanted.Partitions, name) }
		if n.GPUs > 0 && slices.ContainsFunc(n.Partitions, manages) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// fewNodes is how many nodes are listed.
const fewNodes = 5

// nodeNames lists the first nodes by name and counts the rest.
func nodeNames(nodes []Node) string {
	var text []string
	for _, n := range nodes[:min(len(nodes), fewNodes)] {
		text = append(text, n.Name)
	}
	if more := len(nodes) - fewNodes; more > 0 {
		text = append(text, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(text, ", ")
}

// filterNodes returns the nodes for which holds is true.
func filterNodes(nodes []Node, holds func(n Node) bool) (list []Node) {
	for _, n := range nodes {
		if holds(n) {
			list = append(list, n)
		}
	}
	return list
}

// hasAny says whether a node has one of the features.
func (n Node) hasAny(features []string) bool {
	return slices.ContainsFunc(n.Features, func(own string) bool { return slices.Contains(features, own) })
}

// memoryOfGPUs requires that the memory of each GPU is configured, for all nodes or by a feature of theirs.
func memoryOfGPUs(f *Facts) []finding {
	s := f.Wanted.Sharing
	switch {
	case !s.Memory && len(s.ByFeature) == 0:
		return []finding{warn("say share.gpu_memory, as 80GiB, or share.by_feature, as {h100: 80GiB}",
			"nobody says how much memory a GPU has, so nothing is shared")}
	case s.Memory:
		return []finding{ok("said of all GPUs")}
	case f.Nodes.Why != "":
		return []finding{skip("%s", f.Nodes.Why)}
	}
	if without := filterNodes(managedNodes(f), func(n Node) bool { return !n.hasAny(s.ByFeature) }); len(without) > 0 {
		return []finding{warn("name a feature of theirs in share.by_feature, or say share.gpu_memory",
			"not said of the GPUs of %s, which are shared by nobody", nodeNames(without))}
	}
	return []finding{ok("said of all nodes, by their features")}
}

// features warns of features that no node with GPUs in the managed partitions has.
func features(f *Facts, said []string) []finding {
	switch {
	case len(said) == 0:
		return nil
	case f.Nodes.Why != "":
		return []finding{skip("%s", f.Nodes.Why)}
	}
	var have, absent []string
	for _, n := range managedNodes(f) {
		have = append(have, n.Features...)
	}
	slices.Sort(have)
	have = slices.Compact(have)
	for _, feature := range said {
		if !slices.Contains(have, feature) {
			absent = append(absent, feature)
		}
	}
	if len(absent) > 0 {
		return []finding{
			warn(orNearest(absent[0], have, "", "mend the name, or give the nodes that Feature in slurm.conf"),
				"no node with GPUs in the managed partitions has %s; they have %s", strings.Join(absent, ", "),
				orElse(strings.Join(have[:min(len(have), fewFeatures)], ", "), "no feature")),
		}
	}
	return []finding{ok("%s", strings.Join(said, ", "))}
}

// fewFeatures is how many features are listed.
const fewFeatures = 10

// shardLines is the remedy if gres.conf and slurm.conf declare no shards.
const shardLines = "synergy gres --shards 4 prints them on the node, as in gres.conf Name=gpu Type=g0 " +
	"File=/dev/nvidia0 and Name=shard Count=4 File=/dev/nvidia0 for each GPU, and in slurm.conf " +
	"GresTypes=gpu,shard and, of a node with two, Gres=gpu:g0:1,gpu:g1:1,shard:8"

// fewestShards is the least number of shards of a GPU that two jobs can share.
const fewestShards = 2

// shards requires that each GPU has a type of its own and from fewestShards shards to as many as the planner fills.
func shards(f *Facts) (found []finding) {
	if f.Nodes.Why != "" {
		return []finding{skip("%s", f.Nodes.Why)}
	}
	all, most := managedNodes(f), f.Wanted.Sharing.Most
	whole := filterNodes(all, func(n Node) bool { return len(n.Shards) == 0 })
	few := filterNodes(all, func(n Node) bool { return len(n.Shards) > 0 && slices.Min(n.Shards) < fewestShards })
	many := filterNodes(all, func(n Node) bool { return len(n.Shards) > 0 && slices.Max(n.Shards) > most })
	switch {
	case len(all) == 0:
		return []finding{warn("put nodes with GPUs into them", "no node in the managed partitions has a GPU")}
	case len(whole) > 0:
		found = append(found, warn(shardLines,
			"%d of %d nodes have no type and shards of its own for each GPU, so nobody shares there: %s", len(whole),
			len(all), nodeNames(whole)))
	}
	if len(few) > 0 {
		found = append(found, warn(fmt.Sprintf("%d shards for each GPU, in gres.conf and slurm.conf", most),
			"a GPU of %s has fewer than %d shards, so no two jobs fit on it", nodeNames(few), fewestShards))
	}
	if len(many) > 0 {
		found = append(found, warn(fmt.Sprintf("%d shards for each GPU, in gres.conf and slurm.conf", most),
			"a GPU of %s has more than %d shards, and the planner puts no more jobs on one: Slurm has parts "+
				"to give of one that is full", nodeNames(many), most))
	}
	if len(found) == 0 {
		found = append(found, ok("all %d nodes have a type and %d to %d shards for each GPU", len(all), fewestShards,
			most))
	}
	return found
}

// brokers warns of nodes with shards but without a broker: no job is placed on a shared GPU there.
func brokers(f *Facts) []finding {
	if f.Nodes.Why != "" {
		return nil // reported by the check of shards
	}
	divided := filterNodes(managedNodes(f), func(n Node) bool { return len(n.Shards) > 0 })
	without := filterNodes(divided, func(n Node) bool { return !n.Broker })
	switch {
	case len(divided) == 0:
		return nil
	case len(without) > 0:
		return []finding{warn("start synergy-broker there, which says so in the node's Comment; where it cannot, say "+
			"Feature=synergy-broker of the node in slurm.conf",
			"%d of %d nodes have announced none, so nobody shares there: %s", len(without), len(divided),
			nodeNames(without))}
	}
	return []finding{ok("all %d nodes have announced theirs", len(divided))}
}

// gresTypes warns if slurm.conf does not name shards among GresTypes: nodes cannot have any then.
func gresTypes(f *Facts) []finding {
	types, told := f.Scontrol.Value["GresTypes"]
	switch {
	case f.Scontrol.Why != "":
		return nil // reported once, by the check told
	case !told:
		return []finding{skip("scontrol show config does not tell it")}
	case !has(types, "shard"):
		return []finding{warn("GresTypes=gpu,shard in slurm.conf, on all hosts, and restart slurmctld and slurmd",
			"is %s: Slurm knows no parts of GPUs", orElse(types, "empty"))}
	}
	return []finding{ok("%s", types)}
}

// keepShards goes by the gate's settings file. A trial job would prove nothing, because the gate trusts the daemon's
// user.
func keepShards(f *Facts) []finding {
	switch {
	case f.Settings.Why != "":
		return []finding{skip("%s", f.Settings.Why)}
	case !f.Settings.Value.KeepShards:
		return []finding{warn("keep_shards = true in synergy_settings.lua, and touch job_submit.lua",
			"anybody may ask Slurm for gres/shard, and land beside who shares a GPU")}
	}
	if others := elsewhere(f); len(others) > 0 {
		return []finding{warn("nodes that share GPUs in no partition but those of the daemon, or a rule of the "+
			"site's own job_submit.lua against gres/shard in the others",
			"the gate keeps parts of GPUs in the managed partitions alone, and nodes with shards are also in %s: who "+
				"asks for gres/shard there lands beside who shares a GPU",
			strings.Join(others, ", "))}
	}
	return []finding{ok("parts of GPUs are the daemon's to give")}
}

// elsewhere returns the unmanaged partitions, ascending, that contain nodes with shared GPUs.
func elsewhere(f *Facts) (others []string) {
	for _, n := range managedNodes(f) {
		for _, name := range n.Partitions {
			if len(n.Shards) > 0 && !slices.Contains(f.Wanted.Partitions, name) {
				others = append(others, name)
			}
		}
	}
	slices.Sort(others)
	return slices.Compact(others)
}

// shardRights says whether the daemon's user may turn a job's GPU into a shard and note the grant for the node. Both
// change jobs of other users, which Slurm allows operators and the gate allows trusted users. If one of them refuses,
// another check reports it.
func shardRights(f *Facts) []finding {
	g := annotated(f)
	switch {
	case f.Level.Why == "" && f.Level.Value != "Operator" && f.Level.Value != "Administrator":
		return nil
	case g != nil && g.Untrusted != "":
		return nil
	case f.Level.Why != "" || g == nil:
		return []finding{skip("to give a job a part of a GPU is to change its tres_per_node and its extra: whether "+
			"user %s may was not tried", f.Wanted.User)}
	}
	return []finding{ok("user %s may change what jobs are given of GPUs", f.Wanted.User)}
}
