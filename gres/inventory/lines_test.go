package inventory_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/gres/inventory"
)

// recorded is what package nvml saw of one of go-nvml's DGX servers.
func recorded(t testing.TB, name string) inventory.Node {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	n, err := inventory.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// perDevice is a line for each of eight devices.
func perDevice(format string) string {
	var lines []string
	for i := range 8 {
		lines = append(lines, strings.ReplaceAll(format, "#", fmt.Sprint(i)))
	}
	return strings.Join(lines, "\n")
}

func TestTheLinesThatFitTheDGXServers(t *testing.T) {
	const eight = "gpu:g0:1,gpu:g1:1,gpu:g2:1,gpu:g3:1,gpu:g4:1,gpu:g5:1,gpu:g6:1,gpu:g7:1,shard:32"
	for _, c := range []struct {
		node   string
		layout inventory.Layout
		conf   string
		types  string
		gres   string
	}{
		{"dgx-a100", inventory.Layout{}, "NodeName=n1 AutoDetect=off Name=gpu Type=a100 File=/dev/nvidia[0-7]", "gpu",
			"gpu:a100:8"},
		{"dgx-b200", inventory.Layout{}, "NodeName=n1 AutoDetect=off Name=gpu Type=b200 File=/dev/nvidia[0-7]", "gpu",
			"gpu:b200:8"},
		{"dgx-a100", inventory.Layout{Cores: true}, `NodeName=n1 AutoDetect=off Name=gpu Type=a100 File=/dev/nvidia[0-1] Cores=48-63
NodeName=n1 AutoDetect=off Name=gpu Type=a100 File=/dev/nvidia[2-3] Cores=16-31
NodeName=n1 AutoDetect=off Name=gpu Type=a100 File=/dev/nvidia[4-5] Cores=112-127
NodeName=n1 AutoDetect=off Name=gpu Type=a100 File=/dev/nvidia[6-7] Cores=80-95`, "gpu", "gpu:a100:8"},
		{"dgx-b200", inventory.Layout{Cores: true}, `NodeName=n1 AutoDetect=off Name=gpu Type=b200 File=/dev/nvidia[0-3] Cores=0-55
NodeName=n1 AutoDetect=off Name=gpu Type=b200 File=/dev/nvidia[4-7] Cores=56-111`, "gpu", "gpu:b200:8"},
		{"dgx-a100", inventory.Layout{Shards: 4},
			perDevice("NodeName=n1 AutoDetect=off Name=gpu Type=g# File=/dev/nvidia#") + "\n" +
				perDevice("NodeName=n1 AutoDetect=off Name=shard Count=4 File=/dev/nvidia#"), "gpu,shard", eight},
		{"dgx-b200", inventory.Layout{Shards: 4},
			perDevice("NodeName=n1 AutoDetect=off Name=gpu Type=g# File=/dev/nvidia#") + "\n" +
				perDevice("NodeName=n1 AutoDetect=off Name=shard Count=4 File=/dev/nvidia#"), "gpu,shard", eight},
		{"dgx-a100-mig", inventory.Layout{}, "NodeName=n1 AutoDetect=nvml", "gpu",
			"gpu:a100:7,gpu:3g.20gb:1,gpu:1g.5gb:1"},
	} {
		lines, err := recorded(t, c.node).Lines(c.layout)
		if got := strings.Join(lines.GresConf, "\n"); err != nil || got != c.conf || lines.Types != c.types ||
			lines.Gres != c.gres {
			t.Errorf("%s %+v: %v\n%s\nGresTypes=%s\nGres=%s", c.node, c.layout, err, got, lines.Types, lines.Gres)
		}
	}
}

func TestWhatAReaderShouldKnowOfTheLinesStandsBesideThem(t *testing.T) {
	moved := recorded(t, "dgx-a100")
	moved.GPUs[0].Index, moved.GPUs[7].Index = 7, 0
	lost := recorded(t, "dgx-b200")
	lost.GPUs, lost.Unreadable = lost.GPUs[:7], []inventory.Unreadable{{Index: 7, Reason: "GPU is lost"}}
	for _, c := range []struct {
		node   inventory.Node
		layout inventory.Layout
		note   string
	}{
		{recorded(t, "dgx-b200"), inventory.Layout{}, "/dev/nvidia[4-7]: near cores 56-111"},
		{recorded(t, "dgx-b200"), inventory.Layout{},
			"Cores= is left out: with it Slurm gives a GPU only to jobs on these cores; --cores puts it in"},
		{recorded(t, "dgx-b200"), inventory.Layout{Shards: 2}, "one Type per device"},
		{recorded(t, "dgx-a100-mig"), inventory.Layout{}, "MIG: this wants a slurmd that was built with NVML"},
		{moved, inventory.Layout{}, "device files are not in the order of PCI addresses"},
		{lost, inventory.Layout{}, "GPU with index 7 is left out: it cannot be read: GPU is lost"},
	} {
		lines, err := c.node.Lines(c.layout)
		if text := strings.Join(lines.Notes, "\n"); err != nil || !strings.Contains(text, c.note) {
			t.Errorf("%v\n%s\nwant %q", err, text, c.note)
		}
	}
	bound, err := recorded(t, "dgx-b200").Lines(inventory.Layout{Cores: true})
	if err != nil || len(bound.Notes) != 0 {
		t.Errorf("with Cores= there is nothing to say: %v, %v", bound.Notes, err)
	}
}

func TestShardsOfGPUsThatAreCutAreRefused(t *testing.T) {
	if _, err := recorded(t, "dgx-a100-mig").Lines(inventory.Layout{Shards: 4}); err == nil ||
		!strings.Contains(err.Error(), "turn MIG off") {
		t.Errorf("%v", err)
	}
	if _, err := recorded(t, "dgx-a100").Lines(inventory.Layout{Shards: -1}); err == nil {
		t.Error("a negative number of shards is taken")
	}
}

// someNode draws a node with GPUs of several models, some cut, some near nothing that is known.
func someNode(t *rapid.T) inventory.Node {
	n := inventory.Node{Version: inventory.Version, Name: rapid.StringMatching(`[a-z][a-z0-9-]{0,8}`).Draw(t, "node"),
		GPUs: []inventory.GPU{}}
	minors := rapid.SliceOfNDistinct(rapid.IntRange(0, 15), 0, 8, rapid.ID[int]).Draw(t, "minors")
	slices.Sort(minors)
	for i, minor := range minors {
		g := inventory.GPU{
			Index: i, Minor: minor, NUMA: -1, Memory: 40960, MIG: inventory.MIG{Mode: inventory.MIGOff},
			Name: rapid.SampledFrom([]string{"NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3",
				"NVIDIA A10", "NVIDIA GeForce RTX 3090", "odd  card"}).Draw(t, "model"),
			Near: inventory.Near{
				Cores:   inventory.SetOf(rapid.SliceOf(rapid.IntRange(0, 63)).Draw(t, "cores")...),
				Sockets: inventory.SetOf(rapid.SliceOfN(rapid.IntRange(0, 1), 1, 2).Draw(t, "sockets")...),
			},
		}
		n.GPUs = append(n.GPUs, g)
	}
	inventory.Classify(n.GPUs)
	return n
}

func someLayout(t *rapid.T) inventory.Layout {
	return inventory.Layout{Shards: rapid.IntRange(0, 4).Draw(t, "shards"), Cores: rapid.Bool().Draw(t, "with cores")}
}

func TestEveryDeviceStandsInOneLineAndIsCountedOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, layout := someNode(t), someLayout(t)
		lines, err := n.Lines(layout)
		if err != nil {
			t.Fatal(err)
		}
		files := map[string]int{}
		for _, line := range lines.GresConf {
			if strings.HasSuffix(line, "=") {
				t.Fatalf("%s: with nothing behind it", line)
			}
			for _, r := range readLine(t, line) {
				files[r.Name+r.Files[0]]++
			}
		}
		for _, g := range n.GPUs {
			if files["gpu"+g.File()] != 1 || files["shard"+g.File()] != min(layout.Shards, 1) {
				t.Fatalf("%s: %v\n%s", g.File(), files, strings.Join(lines.GresConf, "\n"))
			}
		}
		counts, err := gres.ParseCounts(lines.Gres)
		if total, _ := gres.GPUs(counts); err != nil || total != len(n.GPUs) {
			t.Fatalf("Gres=%s has %d GPUs, %v; want %d", lines.Gres, total, err, len(n.GPUs))
		}
	})
}

// readLine is what Slurm makes of a line of gres.conf: a record for each device file.
func readLine(t *rapid.T, line string) []inventory.Record {
	values := map[string]string{}
	for word := range strings.FieldsSeq(line) {
		key, value, _ := strings.Cut(word, "=")
		values[key] = value
	}
	cores, err := inventory.ParseSet(values["Cores"])
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	numbers, err := inventory.ParseSet(strings.Trim(strings.TrimPrefix(values["File"], "/dev/nvidia"), "[]"))
	if err != nil || len(numbers) == 0 {
		t.Fatalf("%s: %v", line, err)
	}
	var all []inventory.Record
	for _, number := range numbers {
		all = append(all, inventory.Record{Name: values["Name"], Type: values["Type"], Count: 1,
			Files: []string{fmt.Sprintf("/dev/nvidia%d", number)}, Cores: cores})
	}
	return all
}
