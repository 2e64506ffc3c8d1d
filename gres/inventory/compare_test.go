package inventory_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/gres/inventory"
)

// believed is slurmctld's belief where scontrol says that the node's Gres is this.
func believed(t testing.TB, n inventory.Node, text string) inventory.Belief {
	t.Helper()
	b, err := inventory.ParseBelief(fmt.Appendf(nil, `{"nodes":[{"name":%q,"gres":%q,"state":["IDLE"]}]}`, n.Name,
		text), n.Name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// told is each difference without its remedy.
func told(all []inventory.Difference) string {
	var lines []string
	for _, d := range all {
		text, _, _ := strings.Cut(d.String(), ". ")
		lines = append(lines, text)
	}
	return strings.Join(lines, "\n")
}

func TestSlurmctldIsToldWhereItIsWrong(t *testing.T) {
	const eight = "gpu:g0:1,gpu:g1:1,gpu:g2:1,gpu:g3:1,gpu:g4:1,gpu:g5:1,gpu:g6:1,gpu:g7:1"
	for _, c := range []struct {
		node, believes string
		layout         inventory.Layout
		want           string
	}{
		{"dgx-a100", "gpu:a100:8", inventory.Layout{}, ""},
		{"dgx-a100", "gpu:8", inventory.Layout{}, ""},
		{"dgx-a100", "gpu:A100:8(S:0-1)", inventory.Layout{}, ""},
		{"dgx-a100", "gpu:nvidia_a100-sxm4-40gb:8", inventory.Layout{}, ""},
		{"dgx-a100", eight + ",shard:32", inventory.Layout{}, ""},
		{"dgx-a100", eight + ",shard:32", inventory.Layout{Shards: 4}, ""},
		{"dgx-a100", "gpu:a100:8,shard:32", inventory.Layout{}, ""},
		{"dgx-a100", "gpu:a100:6", inventory.Layout{},
			"missing: slurmctld has 6 GPUs; want 2 more: GPU 6 a100, GPU 7 a100"},
		{"dgx-a100", "", inventory.Layout{},
			"missing: slurmctld has 0 GPUs; want 8 more: GPU 0 a100, GPU 1 a100, GPU 2 a100, GPU 3 a100, and 4 more"},
		{"dgx-a100", "gpu:a100:9", inventory.Layout{},
			"extra: slurmctld has 9 × gpu:a100; want 8, which is what the node has"},
		{"dgx-a100", "gpu:10", inventory.Layout{}, "extra: slurmctld has 10 × gpu; want 8, which is what the node has"},
		{"dgx-a100", "gpu:h100:8", inventory.Layout{},
			"wrong-type: slurmctld has 8 × gpu:h100; want GPU 0 a100, GPU 1 a100, GPU 2 a100, GPU 3 a100, and 4 more"},
		{"dgx-a100", "gpu:a100:6,gpu:h100:2", inventory.Layout{},
			"wrong-type: slurmctld has 2 × gpu:h100; want GPU 6 a100, GPU 7 a100"},
		{"dgx-a100", "gpu:h100:1,gpu:a100:6", inventory.Layout{},
			"wrong-type: slurmctld has 1 × gpu:h100; want GPU 6 a100\n" +
				"missing: slurmctld has 7 GPUs; want 1 more: GPU 7 a100"},
		{"dgx-b200", "gpu:b200:8(S:0)", inventory.Layout{},
			"wrong-cores: slurmctld has gpu:b200 bound to socket 0; want socket 0-1"},
		{"dgx-b200", "gpu:g0:1(S:0-1),gpu:b200:7(S:0-1)", inventory.Layout{}, ""},
		{"dgx-b200", "gpu:g0:1(S:1),gpu:b200:7(S:0-1)", inventory.Layout{},
			"wrong-cores: slurmctld has gpu:g0 bound to socket 1; want socket 0"},
		{"dgx-a100", strings.Replace(eight, "g7", "g8", 1), inventory.Layout{},
			"wrong-type: slurmctld has 1 × gpu:g8; want GPU 7 a100"},
		{"dgx-a100", eight + ",shard:16", inventory.Layout{Shards: 4},
			"wrong-shards: slurmctld has 16 shards; want 32"},
		{"dgx-a100", "gpu:a100:8,shard:32", inventory.Layout{Shards: 4},
			"wrong-type: slurmctld has one type for 8 × gpu:a100; want one type per device, since shards cannot be " +
				"sent to one GPU otherwise"},
		{"dgx-a100-mig", "gpu:a100:7,gpu:3g.20gb:1,gpu:1g.5gb:1", inventory.Layout{}, ""},
		{"dgx-a100-mig", "gpu:a100:7,gpu:a100_3g.20gb:1,gpu:a100_1g.5gb:1", inventory.Layout{}, ""},
		{"dgx-a100-mig", "gpu:a100:7,gpu:3g.20gb:2", inventory.Layout{},
			"wrong-type: slurmctld has 1 × gpu:3g.20gb; want MIG 1g.5gb of GPU 1 1g.5gb"},
		{"dgx-a100-mig", "gpu:9", inventory.Layout{},
			"wrong-type: slurmctld has 9 GPUs without a type; want a type, since they differ: GPU 0 a100, MIG " +
				"3g.20gb of GPU 1 3g.20gb, MIG 1g.5gb of GPU 1 1g.5gb, GPU 2 a100, and 5 more"},
	} {
		n := recorded(t, c.node)
		if got := told(inventory.Compare(n, c.layout, believed(t, n, c.believes))); got != c.want {
			t.Errorf("%s %+v, %s:\n%s\nwant\n%s", c.node, c.layout, c.believes, got, c.want)
		}
	}
}

func TestATypeThatIsFoundInANameChoosesBeforeNone(t *testing.T) {
	n := recorded(t, "dgx-a100")
	n.GPUs[7].Name, n.GPUs[7].Type = "NVIDIA H100 NVL", "h100"
	if got := told(inventory.Compare(n, inventory.Layout{}, believed(t, n, "gpu:1,gpu:A100:7"))); got != "" {
		t.Error(got)
	}
}

func TestWhereNearCoresAreNotKnownNoneAreWrong(t *testing.T) {
	n := recorded(t, "dgx-a100")
	n.GPUs[7].Near = inventory.Near{}
	if got := told(inventory.Compare(n, inventory.Layout{}, believed(t, n, "gpu:a100:8(S:1)"))); got != "" {
		t.Error(got)
	}
	n.GPUs = n.GPUs[7:]
	bound := inventory.Record{Name: "gpu", Type: "a100", Count: 1, Files: []string{"/dev/nvidia7"},
		Cores: inventory.SetOf(0, 1)}
	if got := told(inventory.CompareRecords(n, []inventory.Record{bound})); got != "" {
		t.Error(got)
	}
}

func TestThePartsOfACutGPUAreLeftToSlurmd(t *testing.T) {
	n := recorded(t, "dgx-a100-mig")
	n.GPUs = n.GPUs[1:2]
	part := inventory.Record{Name: "gpu", Type: "a100_3g.20gb", Count: 1,
		Files: []string{"/dev/nvidia1", "/dev/nvidia-caps/nvidia-cap21", "/dev/nvidia-caps/nvidia-cap22"}}
	for _, records := range [][]inventory.Record{nil, {part}} {
		if got := told(inventory.CompareRecords(n, records)); got != "" {
			t.Error(got)
		}
	}
}

func TestTheRemedyIsTheLineToSet(t *testing.T) {
	n := recorded(t, "dgx-a100")
	got := inventory.Compare(n, inventory.Layout{}, believed(t, n, "gpu:a100:7"))[0].Remedy
	if want := "Set Gres=gpu:a100:8 in slurm.conf's line of NodeName=n1, with the gres.conf that synergy gres " +
		"prints; then scontrol reconfigure"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// To take a broken GPU out of the configuration would be the wrong advice: it is there, and comes back.
func TestAGPUThatCannotBeReadIsNeitherExtraNorMissing(t *testing.T) {
	n := recorded(t, "dgx-a100")
	n.GPUs, n.Unreadable = n.GPUs[:7], []inventory.Unreadable{{Index: 7, Reason: "GPU is lost"}}
	want := "unreadable: the driver has a GPU with index 7 that it cannot read (GPU is lost); want one that answers"
	if got := told(inventory.Compare(n, inventory.Layout{}, believed(t, n, "gpu:a100:8"))); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	records := []inventory.Record{}
	for i := range 8 {
		records = append(records, inventory.Record{Name: "gpu", Type: "a100", Count: 1,
			Files: []string{fmt.Sprintf("/dev/nvidia%d", i)}})
	}
	if got := inventory.CompareRecords(n, records); got != nil {
		t.Errorf("%v", got)
	}
	records = append(records, inventory.Record{Name: "gpu", Type: "a100", Count: 1, Files: []string{"/dev/nvidia9"}})
	if got := inventory.CompareRecords(n, records); len(got) != 1 {
		t.Errorf("one file more than can be meant: %v", got)
	}
}

func TestGresConfIsToldWhereItIsWrong(t *testing.T) {
	gpu := func(typ, file, cores string) inventory.Record {
		set, err := inventory.ParseSet(cores)
		if err != nil {
			t.Fatal(err)
		}
		return inventory.Record{Name: "gpu", Type: typ, Count: 1, Files: []string{file}, Cores: set}
	}
	n := recorded(t, "dgx-b200")
	n.GPUs = n.GPUs[3:5] // near cores 0-55 and 56-111
	for _, c := range []struct {
		records []inventory.Record
		want    string
	}{
		{[]inventory.Record{gpu("b200", "/dev/nvidia3", ""), gpu("", "/dev/nvidia4", "56-111")}, ""},
		{[]inventory.Record{gpu("b200", "/dev/nvidia3", "0-111"), gpu("b200", "/dev/nvidia4", "55-111")}, ""},
		{[]inventory.Record{gpu("g3", "/dev/nvidia3", ""), gpu("g4", "/dev/nvidia4", ""),
			{Name: "shard", Type: "g3", Count: 4, Files: []string{"/dev/nvidia3"}},
			{Name: "nic", Count: 1, Files: []string{"/dev/nvidia9"}}}, ""},
		{[]inventory.Record{gpu("b200", "/dev/nvidia3", "56-111"), gpu("b200", "/dev/nvidia4", "56-111")},
			"wrong-cores: slurmd has Cores=56-111 for /dev/nvidia3; want 0-55, or no Cores= at all"},
		{[]inventory.Record{gpu("b200", "/dev/nvidia3", "1-111"), gpu("b200", "/dev/nvidia4", "")},
			"wrong-cores: slurmd has Cores=1-111 for /dev/nvidia3; want 0-55, or no Cores= at all"},
		{[]inventory.Record{gpu("b200", "/dev/nvidia3", "")},
			"missing: slurmd has no line for /dev/nvidia4; want GPU 4 b200"},
		{[]inventory.Record{gpu("h100", "/dev/nvidia3", ""), gpu("g3", "/dev/nvidia4", "")},
			"wrong-type: slurmd has Type=h100 for /dev/nvidia3; want b200 (NVIDIA B200)\n" +
				"wrong-type: slurmd has Type=g3 for /dev/nvidia4; want b200 (NVIDIA B200)"},
		{[]inventory.Record{gpu("b200", "/dev/nvidia3", ""), gpu("b200", "/dev/nvidia4", ""),
			gpu("b200", "/dev/nvidia5", "")},
			"extra: slurmd has gpu:b200 with File=/dev/nvidia5; want none, since the node has no such GPU"},
		{[]inventory.Record{gpu("b200", "/dev/nvidia3", ""), gpu("b200", "/dev/nvidia4", ""),
			gpu("", "/dev/fakegpu0", "")},
			"extra: slurmd has gpu: with File=/dev/fakegpu0; want none, since the node has no such GPU"},
		{nil,
			"missing: slurmd has no line for /dev/nvidia3; want GPU 3 b200\nmissing: slurmd has no line for " +
				"/dev/nvidia4; want GPU 4 b200"},
	} {
		if got := told(inventory.CompareRecords(n, c.records)); got != c.want {
			t.Errorf("%v:\n%s\nwant\n%s", c.records, got, c.want)
		}
	}
}

// Whoever copies the lines has a Slurm in which nothing is wrong; and whoever then loses or wins a GPU is told.
func TestSlurmIsRightOnceTheLinesAreCopied(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, layout := someNode(t), someLayout(t)
		lines, err := n.Lines(layout)
		if err != nil {
			t.Fatal(err)
		}
		counts, err := gres.ParseCounts(lines.Gres)
		if err != nil {
			t.Fatal(err)
		}
		b := inventory.Belief{Node: n.Name}
		for _, c := range counts {
			if c.Name == "shard" {
				b.Shards = c.Count
				continue
			}
			b.GPUs = append(b.GPUs, inventory.Term{Type: c.Type, Count: c.Count})
		}
		var records []inventory.Record
		for _, line := range lines.GresConf {
			records = append(records, readLine(t, line)...)
		}
		if got := slices.Concat(inventory.Compare(n, layout, b), inventory.CompareRecords(n, records)); len(got) != 0 {
			t.Fatalf("Gres=%s: %s", lines.Gres, told(got))
		}
		if len(n.GPUs) == 0 {
			return
		}
		b.GPUs[0].Count++
		if got := inventory.Compare(n, inventory.Layout{}, b); len(got) != 1 || got[0].Kind != inventory.Extra {
			t.Fatalf("one more than there is: %s", told(got))
		}
		b.GPUs[0].Count -= 2
		if got := inventory.Compare(n, inventory.Layout{}, b); len(got) != 1 || got[0].Kind != inventory.Missing {
			t.Fatalf("one less than there is: %s", told(got))
		}
	})
}
