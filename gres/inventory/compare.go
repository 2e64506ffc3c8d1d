package inventory

import (
	"fmt"
	"slices"
	"strings"
)

// Kind is the kind of a difference between Slurm and the node.
type Kind string

// Kinds of differences.
const (
	Missing   Kind = "missing"    // Slurm does not know a GPU that exists
	Extra     Kind = "extra"      // Slurm has a GPU that does not exist
	WrongType Kind = "wrong-type" // Slurm has another type
	WrongCore Kind = "wrong-cores"
	WrongPart Kind = "wrong-shards"
	Broken    Kind = "unreadable" // the driver does not answer for the GPU
)

// Difference is one thing in which Slurm is wrong about a node.
type Difference struct {
	Kind   Kind   `json:"kind"`
	Source string `json:"source"` // whose answer differs from the node: slurmctld's, or slurmd's, which reads gres.conf
	Is     string `json:"is"`
	Want   string `json:"want"`
	Remedy string `json:"remedy"`
}

// String formats the difference in one line.
func (d Difference) String() string {
	return fmt.Sprintf("%s: %s has %s; want %s. %s", d.Kind, d.Source, d.Is, d.Want, d.Remedy)
}

// Compare returns in what slurmctld is wrong about the node. The order matters: units of another type are matched
// first, so that they are not reported as missing and extra as well, and GPUs that the driver cannot read are allowed
// for before GPUs are counted.
func Compare(n Node, l Layout, b Belief) []Difference {
	c := comparison{n: n, layout: l, free: n.units()}
	c.match(b.GPUs)
	all := n.broken()
	all = append(all, c.types()...)
	c.allowUnreadable(len(n.Unreadable))
	all = append(all, c.counts()...)
	all = append(all, c.cores()...)
	return append(all, c.shards(b)...)
}

// broken returns the GPUs for which the driver does not answer. Slurm would still give them to jobs.
func (n Node) broken() []Difference {
	var all []Difference
	for _, u := range n.Unreadable {
		all = append(all, Difference{Broken, "the driver", fmt.Sprintf("a GPU with index %d that it cannot read (%s)",
			u.Index, u.Reason), "one that answers",
			fmt.Sprintf(
				"drain the node (scontrol update nodename=%s state=drain reason=gpu), see dmesg for Xid, and reset "+
					"or replace the GPU", n.Name)})
	}
	return all
}

// claim is a term of Slurm with the units that it may stand for.
type claim struct {
	Term
	units   []unit
	surplus int // the part of its count without units
}

// comparison matches Slurm's terms for a node to the node's units.
type comparison struct {
	n      Node
	layout Layout
	free   []unit // units that no term stands for
	claims []claim
}

// match gives each term units of its type. It tries first the types of single devices, then the exact types of the
// printed lines, then types that Slurm would accept, and last terms without a type. So the term a100 does not take a
// unit of a10, and the parts of a MIG GPU go to their profiles. Each pass is less exact than the one before, and takes
// only what is left.
func (c *comparison) match(terms []Term) {
	for _, t := range terms {
		c.claims = append(c.claims, claim{Term: t, surplus: t.Count})
	}
	for _, fits := range []func(unit, string) bool{unit.isDevice, unit.isCalled, unit.isFound, unit.isAny} {
		for i := range c.claims {
			c.free = c.claims[i].take(c.free, fits)
		}
	}
}

// take gives the claim the units of free that fit, up to what it lacks, and returns the rest. The slice free is changed
// in place.
func (k *claim) take(free []unit, fits func(unit, string) bool) []unit {
	return slices.DeleteFunc(free, func(u unit) bool {
		if k.surplus == 0 || !fits(u, k.Type) {
			return false
		}
		k.units = append(k.units, u)
		k.surplus--
		return true
	})
}

// types reports terms that stand for units of another type, and counts those units as matched.
func (c *comparison) types() []Difference {
	var all []Difference
	for i := range c.claims {
		k := &c.claims[i]
		wrong := min(k.surplus, len(c.free))
		if wrong > 0 { // never for a term without a type, which has taken all units left
			all = append(all, c.differs(WrongType, fmt.Sprintf("%d × gpu:%s", wrong, k.Type), labels(c.free[:wrong])))
			c.free, k.surplus = c.free[wrong:], k.surplus-wrong
		}
	}
	return append(all, c.untypedDifferences()...)
}

// untypedDifferences reports a number of GPUs without a type that are of different models.
func (c *comparison) untypedDifferences() []Difference {
	for _, k := range c.claims {
		other := func(u unit) bool { return u.typ != k.units[0].typ }
		if k.Type == "" && slices.ContainsFunc(k.units, other) {
			return []Difference{c.differs(WrongType, fmt.Sprintf("%d GPUs without a type", k.Count),
				"a type, since they differ: "+labels(k.units))}
		}
	}
	return nil
}

// allowUnreadable subtracts unreadable GPUs from what Slurm has too much: they exist, and are reported as unreadable.
func (c *comparison) allowUnreadable(unreadable int) {
	for i := range c.claims {
		known := min(c.claims[i].surplus, unreadable)
		c.claims[i].surplus -= known
		unreadable -= known
	}
}

// counts reports GPUs that Slurm lacks or has too many of.
func (c *comparison) counts() []Difference {
	var all []Difference
	if len(c.free) > 0 {
		known := 0
		for _, k := range c.claims {
			known += k.Count
		}
		all = append(all, c.differs(Missing, fmt.Sprintf("%d GPUs", known),
			fmt.Sprintf("%d more: %s", len(c.free), labels(c.free))))
	}
	for _, k := range c.claims {
		if k.surplus > 0 {
			all = append(all, c.differs(Extra, fmt.Sprintf("%d × %s", k.Count, k.name()),
				fmt.Sprintf("%d, which is what the node has", k.Count-k.surplus)))
		}
	}
	return all
}

func (t Term) name() string { return strings.TrimSuffix("gpu:"+t.Type, ":") }

// cores compares the sockets to which Slurm binds GPUs. If it binds to none, or to more than the near ones, nothing is
// wrong, since jobs on near cores may use the GPU. When Cores= is removed, slurmctld keeps the cores it had, but it
// does take over new ones (seen on 24.11).
func (c *comparison) cores() []Difference {
	var all []Difference
	for _, k := range c.claims {
		var near []Set
		for _, u := range k.units {
			near = append(near, u.gpu.Near.Sockets)
		}
		want := union(near...)
		if len(k.Sockets) > 0 && !k.Sockets.covers(want) {
			d := c.differs(WrongCore, fmt.Sprintf("%s bound to socket %s", k.name(), k.Sockets),
				"socket "+want.String())
			d.Remedy = "Correct Cores= of its lines in gres.conf, with all cores where nothing should be bound, " +
				"since without Cores= slurmctld keeps what it had; then scontrol reconfigure"
			all = append(all, d)
		}
	}
	return all
}

// shards compares the number of shards, if the site says how many it wants. A type of several devices is wrong then,
// since a job with a slot is sent to one GPU by its type.
func (c *comparison) shards(b Belief) []Difference {
	if c.layout.Shards == 0 {
		return nil
	}
	var all []Difference
	if want := c.layout.Shards * len(c.n.GPUs); b.Shards != want {
		all = append(all, c.differs(WrongPart, fmt.Sprintf("%d shards", b.Shards), fmt.Sprint(want)))
	}
	for _, k := range c.claims {
		if k.Count > 1 {
			all = append(all, c.differs(WrongType, fmt.Sprintf("one type for %d × %s", k.Count, k.name()),
				"one type per device, since shards cannot be sent to one GPU otherwise"))
		}
	}
	return all
}

// differs returns a difference of slurmctld with its remedy.
func (c *comparison) differs(kind Kind, is, want string) Difference {
	return Difference{kind, "slurmctld", is, want,
		fmt.Sprintf(
			"Set Gres=%s in slurm.conf's line of NodeName=%s, with the gres.conf that synergy gres prints; then "+
				"scontrol reconfigure", c.n.Gres(c.layout), c.n.Name)}
}

// CompareRecords returns in what gres.conf, as slurmd reads it, is wrong about the node. MIG devices are left to
// slurmd's own detection. A record for a device file that no readable GPU has may be that of an unreadable one: as many
// such records as there are unreadable GPUs are passed over.
func CompareRecords(n Node, records []Record) []Difference {
	var all []Difference
	seen := map[int]bool{}
	unreadable := len(n.Unreadable) // their device files are unknown
	for _, r := range records {
		minor, is := r.minor()
		if r.Name != "gpu" || !is && len(r.Files) > 1 {
			continue
		}
		i := slices.IndexFunc(n.GPUs, func(g GPU) bool { return is && g.Minor == minor })
		if i < 0 && is && unreadable > 0 {
			unreadable--
			continue
		}
		if i < 0 {
			all = append(all, differsInFile(n, Extra, fmt.Sprintf("gpu:%s with File=%s", r.Type,
				strings.Join(r.Files, ",")), "none, since the node has no such GPU"))
			continue
		}
		seen[minor] = true
		all = append(all, compareRecord(n, n.GPUs[i], r)...)
	}
	for _, g := range n.GPUs {
		if !seen[g.Minor] && !g.Cut() {
			all = append(all, differsInFile(n, Missing, "no line for "+g.File(),
				fmt.Sprintf("GPU %d %s", g.Minor, g.Type)))
		}
	}
	return all
}

// compareRecord returns in what a record of gres.conf is wrong about its GPU: type or cores.
func compareRecord(n Node, g GPU, r Record) []Difference {
	var all []Difference
	if u := (unit{gpu: g, names: []string{underscored(g.Name), g.Type}}); !u.acceptsType(r.Type) {
		all = append(all, differsInFile(n, WrongType, fmt.Sprintf("Type=%s for %s", r.Type, g.File()),
			fmt.Sprintf("%s (%s)", g.Type, g.Name)))
	}
	if len(r.Cores) > 0 && !r.Cores.covers(g.Near.Cores) {
		all = append(all, differsInFile(n, WrongCore, fmt.Sprintf("Cores=%s for %s", r.Cores, g.File()),
			fmt.Sprintf("%s, or no Cores= at all", g.Near.Cores)))
	}
	return all
}

func differsInFile(n Node, kind Kind, is, want string) Difference {
	return Difference{kind, "slurmd", is, want,
		fmt.Sprintf("Correct gres.conf on %s (synergy gres prints it); then scontrol reconfigure", n.Name)}
}
