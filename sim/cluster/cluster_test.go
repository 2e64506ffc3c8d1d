package cluster_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sim/cluster"
)

func TestThePapersClusterIsTheWord16x8x24x500(t *testing.T) {
	c, err := cluster.Parse("16x8:24:500")
	if err != nil || c.String() != cluster.Paper().String() ||
		!slices.EqualFunc(c.Groups, cluster.Paper().Groups, same) {
		t.Fatalf("read %v, %v", c, err)
	}
	if c.Servers() != 16 || c.GPUs() != 128 || c.CPUs() != 384 || c.Memory() != 8000 {
		t.Errorf("in all %d servers, %d GPUs, %d cores, %v GB", c.Servers(), c.GPUs(), c.CPUs(), c.Memory())
	}
	if got, want := c.Groups[0].Vector(), (gres.Vector{GPUs: 8, CPUs: 24, Memory: 500_000}); got != want {
		t.Errorf("a server has %v, want %v", got, want)
	}
}

func TestTheRatiosOfThePaperChangeTheCoresAlone(t *testing.T) {
	for ratio, want := range map[int]string{3: "16x8:24:500", 4: "16x8:32:500", 5: "16x8:40:500", 6: "16x8:48:500"} {
		if c, err := cluster.Ratio(ratio); err != nil || c.String() != want {
			t.Errorf("ratio %d: %v, %v, want %s", ratio, c, err, want)
		}
	}
	for _, ratio := range []int{-1, 0, 2, 7} {
		want := fmt.Sprintf("cluster: ratio = %d: want 3 to 6 cores for each GPU", ratio)
		if c, err := cluster.Ratio(ratio); err == nil || err.Error() != want {
			t.Errorf("ratio %d: %v, %v", ratio, c, err)
		}
	}
}

func TestServersAreNamedSoThatTheirOrderIsThatOfTheirNames(t *testing.T) {
	for _, c := range []struct {
		groups            []cluster.Group
		at                int
		name, first, last string
	}{
		{[]cluster.Group{{Servers: 3}}, 1, "n02", "n01", "n03"},
		{[]cluster.Group{{Servers: 128}}, 99, "n100", "n001", "n128"},
		{[]cluster.Group{{Servers: 2}, {Servers: 2}}, 2, "n03", "n01", "n04"},
		{[]cluster.Group{{Name: "volta", Servers: 2}, {Name: "dgx", Servers: 2}}, 2, "volta01", "dgx01", "volta02"},
		{[]cluster.Group{{Name: "a100", Servers: 2}}, 0, "a100-01", "a100-01", "a100-02"},
	} {
		nodes := cluster.Cluster{Groups: c.groups}.Nodes()
		if nodes[c.at].Name != c.name || nodes[0].Name != c.first || nodes[len(nodes)-1].Name != c.last {
			t.Errorf("%v are named %v", c.groups, nodes)
		}
	}
}

func TestEachServerHasANameOfItsOwnAndKnowsItsGroup(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := draw(t)
		nodes, servers := c.Nodes(), make([]int, len(c.Groups))
		for i, n := range nodes {
			if i > 0 && nodes[i-1].Name >= n.Name {
				t.Fatalf("%s stands before %s", nodes[i-1].Name, n.Name)
			}
			servers[n.Group]++
		}
		for i, g := range c.Groups {
			if servers[i] != g.Servers {
				t.Fatalf("group %d has %d servers, %d are named", i, g.Servers, servers[i])
			}
		}
	})
}

func TestServersAreEqualWhateverTheirNames(t *testing.T) {
	base := cluster.Paper().Groups[0]
	renamed := base
	renamed.Name, renamed.Servers = "other", 3
	if c := (cluster.Cluster{Groups: []cluster.Group{base, renamed}}); !c.Equal() {
		t.Error("servers of another name are not equal")
	}
	for what, change := range map[string]func(g *cluster.Group){
		"GPUs":     func(g *cluster.Group) { g.GPUs++ },
		"cores":    func(g *cluster.Group) { g.CPUs++ },
		"memory":   func(g *cluster.Group) { g.Memory++ },
		"storage":  func(g *cluster.Group) { g.Storage++ },
		"network":  func(g *cluster.Group) { g.Network++ },
		"type":     func(g *cluster.Group) { g.GPUType = "a100" },
		"features": func(g *cluster.Group) { g.Features = []string{"ib"} },
	} {
		other := base
		change(&other)
		if c := (cluster.Cluster{Groups: []cluster.Group{base, other}}); c.Equal() {
			t.Errorf("servers with other %s are equal", what)
		}
	}
}

func TestAWordIsReadBackAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := draw(t)
		for i := range c.Groups {
			c.Groups[i].Name, c.Groups[i].Features = "", nil // they have no place in a word
		}
		back, err := cluster.Parse(c.String())
		if err != nil || !slices.EqualFunc(c.Groups, back.Groups, same) {
			t.Fatalf("%s reads back as %v, %v", c, back, err)
		}
	})
}

func TestAWrongWordIsAnErrorThatSaysWhatWouldBeRight(t *testing.T) {
	const shape = ": want SERVERSxGPUS:CORES:GB, as 16x8:24:500, and perhaps :MB/s:Gb/s of storage and network behind"
	for text, want := range map[string]string{
		"":                     `cluster "": group 1: ""` + shape,
		"16":                   "cluster 16: group 1: 16" + shape,
		"16x8:24":              "cluster 16x8:24: group 1: 16x8:24" + shape,
		"16x8:24:500:500:40:1": "cluster 16x8:24:500:500:40:1: group 1: 16x8:24:500:500:40:1" + shape,
		"16x8:24:500+":         `cluster 16x8:24:500+: group 2: ""` + shape,
		"0x8:24:500": "cluster 0x8:24:500: group 1: servers = 0: want a whole number from 1 to " +
			"1000000",
		"16x-8:24:500": "cluster 16x-8:24:500: group 1: GPUs = -8: want a whole number from 1 to 1024",
		"16x8:2.5:500": "cluster 16x8:2.5:500: group 1: cores = 2.5: want a whole number from 1 " +
			"to 10000",
		"16x8:24:500000": "cluster 16x8:24:500000: group 1: memory = 500000: want a number from 1 to " +
			"32768 GB, not MiB",
		"16x8:24:NaN": "cluster 16x8:24:NaN: group 1: memory = NaN: want a number from 1 to 32768 " +
			"GB, not MiB",
		"16x8:24:1e3": "cluster 16x8:24:1e3: group 1: memory = 1e3: want a number from 1 to 32768 " +
			"GB, not MiB",
		"16x8:24:500:0": "cluster 16x8:24:500:0: group 1: storage = 0: want a number from 1 to " +
			"10000000 MB/s",
		"16x8:24:500:500:":            `cluster 16x8:24:500:500:: group 1: network = "": want a number from 1 to 100000 Gb/s`,
		"=1x8:24:500":                 `cluster =1x8:24:500: group 1: GPU type = "": want a letter, then letters, digits and . _ -, 40 at most`,
		"\x1b[31mx":                   `cluster "\x1b[31mx": group 1: "\x1b[31mx"` + shape,
		"1000000x8:1:1+1x8:1:1":       "cluster 1000000x8:1:1+1x8:1:1: 1000001 servers in all: want at most 1000000",
		strings.Repeat("1x1:1:1+", 9): "cluster " + strings.Repeat("1x1:1:1+", 5) + `…: group 10: ""` + shape,
	} {
		if c, err := cluster.Parse(text); err == nil || err.Error() != want {
			t.Errorf("%q: %v, %v\nwant %s", text, c, err, want)
		}
	}
}

func TestACheckFindsWhatAProgramPutTogetherWrongly(t *testing.T) {
	const word = "want a letter, then letters, digits and . _ -, 40 at most"
	for _, c := range []struct {
		want   string
		change func(c *cluster.Cluster)
	}{
		{"no group of servers: want one at least", func(c *cluster.Cluster) { c.Groups = nil }},
		{"1001 groups of servers: want at most 1000",
			func(c *cluster.Cluster) { c.Groups = make([]cluster.Group, 1001) }},
		{"group 1: gpus = 0: want a whole number from 1 to 1024", func(c *cluster.Cluster) { c.Groups[0].GPUs = 0 }},
		{"group 1: memory_gb = NaN: want a number from 1 to 32768 GB, not MiB",
			func(c *cluster.Cluster) { c.Groups[0].Memory = math.NaN() }},
		{"group 1: network_gb_s = 0: want a number from 1 to 100000 Gb/s",
			func(c *cluster.Cluster) { c.Groups[0].Network = 0 }},
		{"group 1: name 1st: " + word, func(c *cluster.Cluster) { c.Groups[0].Name = "1st" }},
		{`group 1: name "\x1b": ` + word, func(c *cluster.Cluster) { c.Groups[0].Features = []string{"\x1b"} }},
	} {
		wrong := cluster.Paper()
		c.change(&wrong)
		if err := wrong.Check(); err == nil || err.Error() != "cluster: "+c.want {
			t.Errorf("%v\nwant %s", err, c.want)
		}
	}
	if err := cluster.Paper().Check(); err != nil {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"16x8:24:500", "a100=8x8:64:1000:2000:200+16x8:24:62.5", "1x1:1:1++", "=x::"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := cluster.Parse(text); err == nil {
			believable(t, c)
			wordStays(t, c)
		}
	})
}

// believable holds what every reader promises.
func believable(t *testing.T, c cluster.Cluster) {
	t.Helper()
	if err := c.Check(); err != nil {
		t.Fatalf("read %v, which is wrong: %v", c, err)
	}
	if c.Servers() > 5000 {
		return
	}
	if nodes := c.Nodes(); len(nodes) != c.Servers() {
		t.Fatalf("%v has %d servers, %d are named", c, c.Servers(), len(nodes))
	}
}

func wordStays(t *testing.T, c cluster.Cluster) {
	t.Helper()
	if back, err := cluster.Parse(c.String()); err != nil || back.String() != c.String() {
		t.Fatalf("%v reads back as %v, %v", c, back, err)
	}
}

// draw is any cluster that passes the check.
func draw(t *rapid.T) cluster.Cluster {
	word := rapid.OneOf(rapid.Just(""), rapid.StringMatching(`[a-z][a-z0-9-]{0,3}`))
	amount := rapid.Map(rapid.IntRange(1000, 20_000_000),
		func(thousandths int) float64 { return float64(thousandths) / 1000 })
	return cluster.Cluster{Groups: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) cluster.Group {
		return cluster.Group{
			Name:     word.Draw(t, "name"),
			Servers:  rapid.IntRange(1, 150).Draw(t, "servers"),
			GPUs:     rapid.IntRange(1, 16).Draw(t, "gpus"),
			CPUs:     rapid.IntRange(1, 256).Draw(t, "cpus"),
			Memory:   amount.Draw(t, "memory"),
			Storage:  rapid.OneOf(rapid.Just(500.0), amount).Draw(t, "storage"),
			Network:  rapid.OneOf(rapid.Just(40.0), amount).Draw(t, "network"),
			GPUType:  word.Draw(t, "type"),
			Features: rapid.SliceOfN(rapid.StringMatching(`[a-z]{1,3}`), 0, 2).Draw(t, "features"),
		}
	}), 1, 5).Draw(t, "groups")}
}

func same(a, b cluster.Group) bool {
	features := slices.Equal(a.Features, b.Features)
	a.Features, b.Features = nil, nil
	return features && a.String() == b.String() && a.Name == b.Name && a.Storage == b.Storage && a.Network == b.Network
}
