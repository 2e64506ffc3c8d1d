package inventory

import (
	"fmt"
	"slices"
	"strings"
)

// Kind is in what Slurm and the node differ.
type Kind string

// Kinds of differences.
const (
	Missing   Kind = "missing"    // Slurm does not know a GPU that is there
	Extra     Kind = "extra"      // Slurm has one that is not there
	WrongType Kind = "wrong-type" // Slurm calls it something else
	WrongCore Kind = "wrong-cores"
	WrongPart Kind = "wrong-shards"
	Broken    Kind = "unreadable" // the driver itself does not answer for it
)

// Difference is one thing in which Slurm is wrong about a node.
type Difference struct {
	Kind   Kind   `json:"kind"`
	Source string `json:"source"` // who believes it: slurmctld, or slurmd, which reads gres.conf
	Is     string `json:"is"`
	Want   string `json:"want"`
	Remedy string `json:"remedy"`
}

// String is the difference in one line.
func (d Difference) String() string {
	return fmt.Sprintf("%s: %s has %s; want %s. %s", d.Kind, d.Source, d.Is, d.Want, d.Remedy)
}

// Compare says in what slurmctld is wrong about the node.
func Compare(n Node, l Layout, b Belief) []Difference {
	c := comparison{n: n, layout: l, free: n.units()}
	c.match(b.GPUs)
	all := n.broken()
	all = append(all, c.types()...)
	c.forgive(len(n.Unreadable))
	all = append(all, c.counts()...)
	all = append(all, c.cores()...)
	return append(all, c.shards(b)...)
}

// broken are the GPUs for which the driver does not answer. Slurm would still give them to jobs.
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

// claim is a term with the units that it may stand for.
type claim struct {
	Term
	units   []unit
	surplus int // of its count beyond the units
}

type comparison struct {
	n      Node
	layout Layout
	free   []unit // that no term stands for
	claims []claim
}

// match gives each term units of its type: first the types of single devices, then those that are called as the printed
// lines call them, then those that Slurm would take for right, and what has no type last. So a100 leaves to a10 what is
// a10, and the parts of a cut GPU to their profiles.
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

// take gives the claim of free what fits and what it still lacks. It returns the others.
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

// types says which terms stand for units of another type, and takes those units for known.
func (c *comparison) types() []Difference {
	var all []Difference
	for i := range c.claims {
		k := &c.claims[i]
		wrong := min(k.surplus, len(c.free))
		if wrong > 0 { // those without a type have taken what there is
			all = append(all, c.differs(WrongType, fmt.Sprintf("%d × gpu:%s", wrong, k.Type), labels(c.free[:wrong])))
			c.free, k.surplus = c.free[wrong:], k.surplus-wrong
		}
	}
	return append(all, c.untold()...)
}

// untold says that a number of GPUs without a type hides models that differ.
func (c *comparison) untold() []Difference {
	for _, k := range c.claims {
		other := func(u unit) bool { return u.typ != k.units[0].typ }
		if k.Type == "" && slices.ContainsFunc(k.units, other) {
			return []Difference{c.differs(WrongType, fmt.Sprintf("%d GPUs without a type", k.Count),
				"a type, since they differ: "+labels(k.units))}
		}
	}
	return nil
}

// forgive leaves out of what is too much as many GPUs as cannot be read: they are there, and are told of as that.
func (c *comparison) forgive(unreadable int) {
	for i := range c.claims {
		known := min(c.claims[i].surplus, unreadable)
		c.claims[i].surplus -= known
		unreadable -= known
	}
}

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

// cores compares the sockets that Slurm binds GPUs to. Where it binds none, or to more than the near ones, there is
// nothing to be wrong: the jobs that are near may use them. Once it has known cores, slurmctld keeps them when they are
// left out, and takes others (seen on 24.11).
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

// shards are compared where the site says how many it wants.
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

func (c *comparison) differs(kind Kind, is, want string) Difference {
	return Difference{kind, "slurmctld", is, want,
		fmt.Sprintf(
			"Set Gres=%s in slurm.conf's line of NodeName=%s, with the gres.conf that synergy gres prints; then "+
				"scontrol reconfigure", c.n.Gres(c.layout), c.n.Name)}
}

// CompareRecords says in what gres.conf, as slurmd reads it, is wrong about the node. MIG devices are left to slurmd's
// own detection.
func CompareRecords(n Node, records []Record) []Difference {
	var all []Difference
	seen := map[int]bool{}
	unreadable := len(n.Unreadable) // of which it is not known what files they have
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

func compareRecord(n Node, g GPU, r Record) []Difference {
	var all []Difference
	if u := (unit{gpu: g, names: []string{underscored(g.Name), g.Type}}); !u.may(r.Type) {
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
