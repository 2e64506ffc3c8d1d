package bound

import (
	"fmt"
	"math"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy/columns"
)

// Certificate says how good a plan is. It can be kept as JSON.
type Certificate struct {
	Value float64 `json:"value"` // of the plan; see the package's comment
	Bound float64 `json:"bound"` // no plan for the same jobs, and any of those that wait, is worth more
	// Same is the bound for the same jobs alone: what lies between it and Bound idles although somebody waits for it.
	Same float64 `json:"same"`
	// Pooled is the bound by prices alone, which is never below Bound.
	Pooled float64 `json:"pooled"`
	// Method is how the bound was proven.
	Method Method `json:"method"`
	// Classes and Shapes are how many kinds of jobs and of nodes it was computed for.
	Classes int `json:"classes"`
	Shapes  int `json:"shapes"`
	// Core and Gigabyte are what one more core, and one more GB, on every node would be worth, relative to the bound,
	// by the prices at which resources are all used.
	Core     float64 `json:"core"`
	Gigabyte float64 `json:"gigabyte"`
	// Prices are those by shape.
	Prices   []Price  `json:"prices,omitempty"`
	Stranded Stranded `json:"stranded,omitzero"`
	// StrandedOn says on which nodes these are, in the order of the snapshot.
	StrandedOn []StrandedNode `json:"stranded_on,omitempty"`
	// Idle is how many GPUs of open nodes the plan leaves, and Waiting who waits, by reason.
	Idle    int       `json:"idle,omitempty"`
	Waiting []Waiting `json:"waiting,omitempty"`
	// Lending is what it costs that some jobs cannot be asked to give back.
	Lending Lending `json:"lending,omitzero"`
}

// Method is how a bound was proven.
type Method string

// The methods.
const (
	Exact            Method = "exact"          // nothing could be placed anew: the bound is the value
	ByConfigurations Method = "configurations" // of a node
	ByPrices         Method = "prices"         // of GPUs, cores and memory of each shape; too many classes for more
)

// Price is what more on each node of a shape would be worth.
type Price struct {
	Nodes    int         `json:"nodes"`
	Node     gres.Vector `json:"node"`     // capacity for the jobs that may be placed anew
	Core     float64     `json:"core"`     // of one more core on each of them, in units of value
	Gigabyte float64     `json:"gigabyte"` // of one more GB
}

// Stranded are GPUs that are free and that jobs which wait could use but for want of something else.
type Stranded struct {
	Cores  int `json:"cores,omitempty"`  // GPUs for want of cores
	Memory int `json:"memory,omitempty"` // GPUs for want of memory
}

// StrandedNode is a node with free GPUs of Stranded, and what they lack: cores or memory.
type StrandedNode struct {
	Node  string `json:"node"`
	GPUs  int    `json:"gpus"`
	Lacks string `json:"lacks"`
}

// Ratio is how much of the bound the plan reaches, at most 1; 1 where there is nothing to reach.
func (c *Certificate) Ratio() float64 {
	if c.Bound <= 0 {
		return 1
	}
	return min(1, c.Value/c.Bound)
}

// String is the certificate in one sentence.
func (c *Certificate) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "value %.1f of at most %.1f (%s)", c.Value, c.Bound, percent(c.Ratio()))
	c.describeWaiting(&s)
	if c.Method != Exact {
		fmt.Fprintf(&s, "; one more core a node is worth %s, one more GB %s", gain(c.Core), gain(c.Gigabyte))
	}
	if n := c.Stranded.Cores; n > 0 {
		fmt.Fprintf(&s, "; %s stranded for want of cores", gpus(n))
	}
	if n := c.Stranded.Memory; n > 0 {
		fmt.Fprintf(&s, "; %s stranded for want of memory", gpus(n))
	}
	c.Lending.describe(&s, c.Bound)
	return s.String()
}

// percent never says 100.0 of what is less.
func percent(ratio float64) string {
	const fine = 1000
	return fmt.Sprintf("%.1f %%", math.Floor(float64(ratio*fine)+1e-6)/fine*100)
}

func gain(part float64) string {
	switch {
	case part < 0.00001:
		return "nothing"
	case part < 0.0005:
		return fmt.Sprintf("%.3f %%", 100*part)
	}
	return fmt.Sprintf("%.1f %%", 100*part)
}

func gpus(n int) string {
	if n == 1 {
		return "1 GPU"
	}
	return fmt.Sprintf("%d GPUs", n)
}

// priced takes over what binds.
func (c *Certificate) priced(in *instance, found columns.Bound) {
	whole := found.Value + in.settled
	for s := range in.shapes {
		sh := &in.shapes[s]
		n := float64(sh.count)
		most := dearest(in.options, s)
		core, gigabyte := found.Prices[columns.Resources*s+1], found.Prices[columns.Resources*s+2]
		p := Price{sh.count, sh.most, n * min(core, most), n * min(gigabyte, most)}
		c.Prices = append(c.Prices, p)
		if whole > 0 {
			c.Core += p.Core / whole
			c.Gigabyte += p.Gigabyte / whole
		}
	}
}

// dearest is the most that any part of a job is worth on a shape. Where nothing of a resource is left to be traded, its
// price proves the bound however high it is; but what one more unit lets in is no more than that.
func dearest(options [][]columns.Option, shape int) (most float64) {
	if shape < len(options) {
		for i := range options[shape] {
			most = max(most, options[shape][i].Value)
		}
	}
	return most
}
