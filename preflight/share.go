package preflight

import (
	"fmt"
	"slices"
	"strings"
)

// Sharing is what the configuration says of GPUs that several jobs may use.
type Sharing struct {
	Said   bool // there is something under share
	Memory bool // of each GPU, share.gpu_memory
	// features of nodes of which share.by_feature and share.mode_by_feature speak, ascending
	ByFeature, ModeByFeature []string
	Most                     int // jobs on one GPU, by the planner
}

// Node is one with GPUs.
type Node struct {
	Name                 string
	Features, Partitions []string
	GPUs                 int
	Shards               []int // of each GPU, where each has a type of its own and shards; empty: they have not
	Broker               bool  // it says that it has one
}

// sharing are the checks of what it takes that several jobs use one GPU. Where the configuration says nothing of that
// there is nothing to check.
var sharing = []check{
	shared("share.gpu_memory", memoryOfGPUs),
	shared("share.by_feature", func(f *Facts) []finding { return features(f, f.Wanted.Sharing.ByFeature) }),
	shared("share.mode_by_feature", func(f *Facts) []finding { return features(f, f.Wanted.Sharing.ModeByFeature) }),
	shared("shards", shards),
	shared("brokers", brokers),
	shared("GresTypes", gresTypes),
	shared("keep_shards", keepShards),
	shared("seats", seats),
}

func shared(name string, judge func(f *Facts) []finding) check {
	return check{name, func(f *Facts) []finding {
		if !f.Wanted.Sharing.Said {
			return nil
		}
		return judge(f)
	}}
}

// ours are the nodes with GPUs in the managed partitions.
func ours(f *Facts) (nodes []Node) {
	for _, n := range f.Nodes.Value {
		manages := func(name string) bool { return slices.Contains(f.Wanted.Partitions, name) }
		if n.GPUs > 0 && slices.ContainsFunc(n.Partitions, manages) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// fewNodes is how many are named.
const fewNodes = 5

// named are nodes, the first of them by their names.
func named(nodes []Node) string {
	var text []string
	for _, n := range nodes[:min(len(nodes), fewNodes)] {
		text = append(text, n.Name)
	}
	if more := len(nodes) - fewNodes; more > 0 {
		text = append(text, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(text, ", ")
}

// those are the nodes for which it holds.
func those(nodes []Node, holds func(n Node) bool) (list []Node) {
	for _, n := range nodes {
		if holds(n) {
			list = append(list, n)
		}
	}
	return list
}

// hasAny says that a node has one of the features.
func (n Node) hasAny(features []string) bool {
	return slices.ContainsFunc(n.Features, func(own string) bool { return slices.Contains(features, own) })
}

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
	if without := those(ours(f), func(n Node) bool { return !n.hasAny(s.ByFeature) }); len(without) > 0 {
		return []finding{warn("name a feature of theirs in share.by_feature, or say share.gpu_memory",
			"not said of the GPUs of %s, which are shared by nobody", named(without))}
	}
	return []finding{ok("said of all nodes, by their features")}
}

// features says of which features no node in the managed partitions has any.
func features(f *Facts, said []string) []finding {
	switch {
	case len(said) == 0:
		return nil
	case f.Nodes.Why != "":
		return []finding{skip("%s", f.Nodes.Why)}
	}
	var have, absent []string
	for _, n := range ours(f) {
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

// fewFeatures is how many are named.
const fewFeatures = 10

// shardLines are what gres.conf and slurm.conf lack.
const shardLines = "synergy gres --shards 4 prints them on the node, as in gres.conf Name=gpu Type=g0 " +
	"File=/dev/nvidia0 and Name=shard Count=4 File=/dev/nvidia0 for each GPU, and in slurm.conf " +
	"GresTypes=gpu,shard and, of a node with two, Gres=gpu:g0:1,gpu:g1:1,shard:8"

// fewestShards is how many a GPU has that two jobs use.
const fewestShards = 2

func shards(f *Facts) (found []finding) {
	if f.Nodes.Why != "" {
		return []finding{skip("%s", f.Nodes.Why)}
	}
	all, most := ours(f), f.Wanted.Sharing.Most
	whole := those(all, func(n Node) bool { return len(n.Shards) == 0 })
	few := those(all, func(n Node) bool { return len(n.Shards) > 0 && slices.Min(n.Shards) < fewestShards })
	many := those(all, func(n Node) bool { return len(n.Shards) > 0 && slices.Max(n.Shards) > most })
	switch {
	case len(all) == 0:
		return []finding{warn("put nodes with GPUs into them", "no node in the managed partitions has a GPU")}
	case len(whole) > 0:
		found = append(found, warn(shardLines,
			"%d of %d nodes have no type and shards of its own for each GPU, so nobody shares there: %s", len(whole),
			len(all), named(whole)))
	}
	if len(few) > 0 {
		found = append(found, warn(fmt.Sprintf("%d shards for each GPU, in gres.conf and slurm.conf", most),
			"a GPU of %s has fewer than %d shards, so no two jobs fit on it", named(few), fewestShards))
	}
	if len(many) > 0 {
		found = append(found, warn(fmt.Sprintf("%d shards for each GPU, in gres.conf and slurm.conf", most),
			"a GPU of %s has more than %d shards, and the planner puts no more jobs on one: Slurm has parts "+
				"to give of one that is full", named(many), most))
	}
	if len(found) == 0 {
		found = append(found, ok("all %d nodes have a type and %d to %d shards for each GPU", len(all), fewestShards,
			most))
	}
	return found
}

// brokers says which nodes with shards have no broker: nobody is put on a GPU there that another job uses.
func brokers(f *Facts) []finding {
	if f.Nodes.Why != "" {
		return nil // which is told already
	}
	divided := those(ours(f), func(n Node) bool { return len(n.Shards) > 0 })
	without := those(divided, func(n Node) bool { return !n.Broker })
	switch {
	case len(divided) == 0:
		return nil
	case len(without) > 0:
		return []finding{warn("start synergy-broker there, which says so in the node's Comment; where it cannot, say "+
			"Feature=synergy-broker of the node in slurm.conf",
			"%d of %d nodes have announced none, so nobody shares there: %s", len(without), len(divided),
			named(without))}
	}
	return []finding{ok("all %d nodes have announced theirs", len(divided))}
}

func gresTypes(f *Facts) []finding {
	types, told := f.Scontrol.Value["GresTypes"]
	switch {
	case f.Scontrol.Why != "":
		return nil // which is told once for all
	case !told:
		return []finding{skip("scontrol show config does not tell it")}
	case !has(types, "shard"):
		return []finding{warn("GresTypes=gpu,shard in slurm.conf, on all hosts, and restart slurmctld and slurmd",
			"is %s: Slurm knows no parts of GPUs", orElse(types, "empty"))}
	}
	return []finding{ok("%s", types)}
}

// keepShards goes by the file of the gate: nobody can tell by a trial of our own user, who is trusted.
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

// elsewhere are the other partitions, ascending, in which nodes are whose GPUs are shared.
func elsewhere(f *Facts) (others []string) {
	for _, n := range ours(f) {
		for _, name := range n.Partitions {
			if len(n.Shards) > 0 && !slices.Contains(f.Wanted.Partitions, name) {
				others = append(others, name)
			}
		}
	}
	slices.Sort(others)
	return slices.Compact(others)
}

// seats says whether the daemon's user may turn a job's GPU into a shard, and write down for its node what it was
// given: both are changes of other people's jobs, which Slurm lets operators make, and the gate those whom it trusts.
// Where one of them does not, that is told by its own check.
func seats(f *Facts) []finding {
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
