package bound

import (
	"fmt"
	"math"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy/columns"
)

// Certificate says how good a plan is. It marshals to JSON.
type Certificate struct {
	Value float64 `json:"value"` // of the plan; see the package comment
	Bound float64 `json:"bound"` // no plan for the same jobs and any of the waiting ones has a higher value
	// Same is the bound for the same jobs alone. The difference to Bound idles although jobs wait for it.
	Same float64 `json:"same"`
	// Pooled is the bound by prices alone, which is never below Bound.
	Pooled float64 `json:"pooled"`
	// Method is how the bound was proven.
	Method Method `json:"method"`
	// Classes and Shapes are how many classes of jobs and shapes of nodes the bound was computed for.
	Classes int `json:"classes"`
	Shapes  int `json:"shapes"`
	// Core and Gigabyte are what one more core, or one more GB, on every node would be worth relative to the bound.
	// They come from the prices at which all resources are used.
	Core     float64 `json:"core"`
	Gigabyte float64 `json:"gigabyte"`
	// Prices has one entry per shape.
	Prices   []Price  `json:"prices,omitempty"`
	Stranded Stranded `json:"stranded,omitzero"`
	// StrandedOn lists the nodes of the Stranded GPUs, in the order of the snapshot.
	StrandedOn []StrandedNode `json:"stranded_on,omitempty"`
	// Idle is how many GPUs of open nodes the plan leaves free, and Waiting the waiting jobs by reason.
	Idle    int       `json:"idle,omitempty"`
	Waiting []Waiting `json:"waiting,omitempty"`
	// Lending is the cost of jobs that cannot be asked to give back.
	Lending Lending `json:"lending,omitzero"`
}

// Method is how a bound was proven.
type Method string

// The methods by which a bound is proven.
const (
	Exact            Method = "exact"          // no job could be placed anew: the bound is the value
	ByConfigurations Method = "configurations" // by configurations of a node
	ByPrices         Method = "prices"         // by prices of resources, where there are too many classes
)

// Price is what more resources on each node of a shape would be worth.
type Price struct {
	Nodes    int         `json:"nodes"`
	Node     gres.Vector `json:"node"`     // capacity for the jobs that may be placed anew
	Core     float64     `json:"core"`     // of one more core on each of them, in units of value
	Gigabyte float64     `json:"gigabyte"` // of one more GB on each of them
}

// Stranded counts free GPUs that waiting jobs could use if the node had more of another resource.
type Stranded struct {
	Cores  int `json:"cores,omitempty"`  // GPUs that lack cores
	Memory int `json:"memory,omitempty"` // GPUs that lack memory
}

// StrandedNode is a node with stranded GPUs and what they lack: "cores" or "memory".
type StrandedNode struct {
	Node  string `json:"node"`
	GPUs  int    `json:"gpus"`
	Lacks string `json:"lacks"`
}

// Ratio is the part of the bound that the plan reaches, at most 1. It is 1 if the bound is 0.
func (c *Certificate) Ratio() float64 {
	if c.Bound <= 0 {
		return 1
	}
	return min(1, c.Value/c.Bound)
}

// String is the certificate in one sentence.
func (c *Certificate) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "value %.1f of at most %.1f (%s)", c.Value, c.Bound, percentText(c.Ratio()))
	c.describeWaiting(&s)
	if c.Method != Exact {
		fmt.Fprintf(&s, "; one more core a node is worth %s, one more GB %s", gainText(c.Core), gainText(c.Gigabyte))
	}
	if n := c.Stranded.Cores; n > 0 {
		fmt.Fprintf(&s, "; %s stranded for want of cores", gpusText(n))
	}
	if n := c.Stranded.Memory; n > 0 {
		fmt.Fprintf(&s, "; %s stranded for want of memory", gpusText(n))
	}
	c.Lending.describe(&s, c.Bound)
	return s.String()
}

// percentText formats a ratio as a percentage, rounded down, so that a plan below the bound is never shown at 100.0 %.
func percentText(ratio float64) string {
	const fine = 1000
	return fmt.Sprintf("%.1f %%", math.Floor(float64(ratio*fine)+1e-6)/fine*100)
}

// gainText formats a part of the bound as a percentage; parts below 0.001 % are "nothing".
func gainText(part float64) string {
	switch {
	case part < 0.00001:
		return "nothing"
	case part < 0.0005:
		return fmt.Sprintf("%.3f %%", 100*part)
	}
	return fmt.Sprintf("%.1f %%", 100*part)
}

// gpusText is a number of GPUs with its noun.
func gpusText(n int) string {
	if n == 1 {
		return "1 GPU"
	}
	return fmt.Sprintf("%d GPUs", n)
}

// setPrices takes the prices of resources over from the bound by prices: they tell an administrator whether more cores
// or more memory on the nodes would let the cluster train more.
func (c *Certificate) setPrices(in *instance, found columns.Bound) {
	whole := found.Value + in.settled
	for s := range in.shapes {
		sh := &in.shapes[s]
		n := float64(sh.count)
		most := highestValue(in.options, s)
		core, gigabyte := found.Prices[columns.Resources*s+1], found.Prices[columns.Resources*s+2]
		p := Price{sh.count, sh.most, n * min(core, most), n * min(gigabyte, most)}
		c.Prices = append(c.Prices, p)
		if whole > 0 {
			c.Core += p.Core / whole
			c.Gigabyte += p.Gigabyte / whole
		}
	}
}

// highestValue is the highest value of any part of a job on a shape; 0 if no job can be there. It caps prices: where
// nothing of a resource is left to trade, its price proves the bound however high it is, but one more unit cannot let
// in more than that value.
func highestValue(options [][]columns.Option, shape int) (most float64) {
	if shape < len(options) {
		for i := range options[shape] {
			most = max(most, options[shape][i].Value)
		}
	}
	return most
}
