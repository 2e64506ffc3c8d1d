package bound

import (
	"strings"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy/columns"
)

// TestACoreIsWorthNoMoreThanTheJobThatItLetsIn: a dual price is any number where its resource cannot be traded.
func TestACoreIsWorthNoMoreThanTheJobThatItLetsIn(t *testing.T) {
	in := &instance{
		shapes:  []shape{{count: 2, most: gres.Vector{GPUs: 1}}},
		options: [][]columns.Option{{{Value: 1.5, Size: gres.Vector{GPUs: 1, CPUs: 1}}}},
	}
	c := &Certificate{Value: 30, Bound: 30, Method: ByConfigurations}
	c.setPrices(in, columns.Bound{Value: 30, Prices: []float64{1, 34000, 0}})
	if got, want := c.Core, 2*1.5/30; got != want {
		t.Errorf("one more core a node is worth %g of the bound, want %g", got, want)
	}
	if said := c.String(); !strings.Contains(said, "one more core a node is worth 10.0 %") {
		t.Error(said)
	}
}
