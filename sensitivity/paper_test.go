package sensitivity_test

import (
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

var update = flag.Bool("update", false, "write etc/profiles anew from the tables below")

// profilesDir holds the example profiles that are installed with the daemon.
const profilesDir = "../etc/profiles"

// The axes of all ten matrices of the paper's artifact. Its 20.83, 62.5, … GB are written in Slurm's megabytes as
// gres.Gigabyte has it.
var (
	paperCores  = []float64{1, 2, 3, 4, 5, 6, 9, 12, 24}
	paperMemory = []gres.Memory{20830, 62500, 125000, 187500, 250000}
)

// paperModel is one of the ten models that the paper's artifact simulates.
type paperModel struct {
	name, task string
	batch      int
	iteration  float64 // seconds at the proportional share of a server with 3 cores and 62.5 GB per GPU
	// relative[j] is the throughput relative to the proportional share for every number of cores, with paperMemory[j];
	// the last row stands for all larger memories.
	relative [][]float64
	// demand is the best case of one GPU on the paper's server.
	demand  gres.Vector
	speedUp float64
}

// starved is what every image and speech model gets when its data does not fit the memory at all, and enough what the
// language models get everywhere.
var (
	starved = []float64{.1, .1, .1, .1, .1, .1, .1, .1, .1}
	enough  = []float64{1, 1, 1, 1, 1, 1, 1, 1, 1}
)

var paperModels = []paperModel{
	{"alexnet", "image", 512, 0.6, [][]float64{starved,
		{.3, .66, 1, 1.25, 1.53, 1.75, 2, 2, 2},
		{.3, .66, 1, 1.25, 1.53, 1.75, 2, 2.94, 2.94}}, demand(12, 125), 2.94},
	{"res18", "image", 512, 0.64, [][]float64{starved,
		{.37, .72, 1, 1.3, 1.53, 1.75, 2.4, 2.4, 2.4}}, demand(9, 62.5), 2.4},
	{"res50", "image", 512, 0.78, [][]float64{starved,
		{.4, .74, 1, 1.15, 1.15, 1.15, 1.15, 1.15, 1.15}}, demand(4, 62.5), 1.15},
	{"mobilenet", "image", 512, 0.71, [][]float64{starved,
		{.37, .72, 1, 1.3, 1.49, 1.55, 1.55, 1.55, 1.55}}, demand(6, 62.5), 1.55},
	{"shufflenet", "image", 512, 0.615, [][]float64{starved,
		{.3, .66, 1, 1.25, 1.53, 1.75, 2, 2, 2},
		{.3, .66, 1, 1.25, 1.53, 1.75, 2, 2.89, 2.89}}, demand(12, 125), 2.89},
	{"gnmt", "language", 128, 0.12, [][]float64{enough}, demand(1, 20.83), 1},
	{"transformer", "language", 128, 0.67, [][]float64{enough}, demand(1, 20.83), 1},
	{"lstm", "language", 20, 0.011, [][]float64{enough}, demand(1, 20.83), 1},
	{"m5", "speech", 512, 0.6, [][]float64{starved,
		{.3, .66, 1, 1.2, 1.4, 1.5, 1.5, 1.5, 1.5},
		{.3, .66, 1, 1.2, 1.4, 2, 2, 2, 2},
		{.3, .66, 1, 1.2, 1.4, 2.5, 2.5, 2.5, 2.5}}, demand(6, 187.5), 2.5},
	{"deepspeech", "speech", 20, 0.757, [][]float64{starved,
		{.3, .66, 1, 1, 1, 1, 1, 1, 1}}, demand(3, 62.5), 1},
}

func demand(cores int, gigabytes float64) gres.Vector {
	return gres.Vector{GPUs: 1, CPUs: cores, Memory: gres.Memory(math.Round(gigabytes * float64(gres.Gigabyte)))}
}

// profile is m as the document under etc/profiles says it.
func (m paperModel) profile() *sensitivity.Profile {
	p := &sensitivity.Profile{
		Version: sensitivity.Version, Model: m.name, Task: m.task, GPUType: "V100", Batch: m.batch,
		Source: "Synergy (OSDI'22) artifact: seconds per iteration and sensitivity matrix on V100 servers with 3 " +
			"cores and " +
			"62.5 GB per GPU; checkpoint_s and start_s are assumptions, not measured",
		CoresPerGPU: paperCores, MemoryPerGPU: paperMemory,
		CheckpointSeconds: 10, StartSeconds: 20,
	}
	for i := range paperCores {
		var rates []float64
		for j := range paperMemory {
			relative := m.relative[min(j, len(m.relative)-1)][i]
			rates = append(rates, math.Round(float64(m.batch)/m.iteration*relative*1e9)/1e9)
		}
		p.Throughput = append(p.Throughput, rates)
	}
	return p
}

func TestTheProfilesShippedAreThePapersFigures(t *testing.T) {
	for _, m := range paperModels {
		want, err := m.profile().Print()
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(profilesDir, m.name+".json")
		if *update {
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Errorf("%s differs from the paper's table; go test ./sensitivity -update writes it", path)
		}
	}
}

// paperServer has 3 cores and 62.5 GB per GPU, as each server of the paper.
var paperServer = gres.Vector{GPUs: 8, CPUs: 24, Memory: 500 * gres.Gigabyte}

func TestTheBestCaseDemandsAndSpeedUpsAreThePapers(t *testing.T) {
	for _, m := range paperModels {
		p := shipped(t, m.name)
		fair := gres.Proportional(paperServer, 1)
		if got := p.Demand(fair, paperServer); got != (sensitivity.Option{Size: m.demand, Gain: m.speedUp}) {
			t.Errorf("%s: %v ×%v, want %v ×%v", m.name, got.Size, got.Gain, m.demand, m.speedUp)
		}
		if got := p.Gain(fair, fair); got != 1 {
			t.Errorf("%s: the proportional share gains %v, want 1", m.name, got)
		}
		rate := float64(m.batch) / m.iteration
		if got := p.Rate(sensitivity.ShareOf(fair)); math.Abs(got/rate-1) > 1e-9 {
			t.Errorf("%s: %v samples/s at the proportional share, want %v", m.name, got, rate)
		}
	}
}

// The paper's artifact clips the demand of a larger job with a straight line and keeps the memory of the best case. The
// matrix itself says more: with 6 cores per GPU alexnet is as fast with 62.5 GB as with 125, and m5 gains 2, not 2.5,
// from 125 GB.
func TestTheDemandOfALargerJobIsWhatTheMatrixGivesOnOneServer(t *testing.T) {
	for _, c := range []struct {
		models []string
		gpus   int
		want   gres.Vector
		gain   float64
	}{
		{[]string{"alexnet"}, 2, gres.Vector{GPUs: 2, CPUs: 24, Memory: 250000}, 2.94},
		{[]string{"res18"}, 2, gres.Vector{GPUs: 2, CPUs: 18, Memory: 125000}, 2.4},
		{[]string{"res50"}, 2, gres.Vector{GPUs: 2, CPUs: 8, Memory: 125000}, 1.15},
		{[]string{"mobilenet"}, 2, gres.Vector{GPUs: 2, CPUs: 12, Memory: 125000}, 1.55},
		{[]string{"shufflenet"}, 2, gres.Vector{GPUs: 2, CPUs: 24, Memory: 250000}, 2.89},
		{[]string{"gnmt", "transformer", "lstm"}, 2, gres.Vector{GPUs: 2, CPUs: 2, Memory: 41660}, 1},
		{[]string{"m5"}, 2, gres.Vector{GPUs: 2, CPUs: 12, Memory: 375000}, 2.5},
		{[]string{"deepspeech"}, 2, gres.Vector{GPUs: 2, CPUs: 6, Memory: 125000}, 1},

		{[]string{"alexnet", "shufflenet", "res18"}, 4, gres.Vector{GPUs: 4, CPUs: 24, Memory: 250000}, 1.75},
		{[]string{"res50"}, 4, gres.Vector{GPUs: 4, CPUs: 16, Memory: 250000}, 1.15},
		{[]string{"mobilenet"}, 4, gres.Vector{GPUs: 4, CPUs: 24, Memory: 250000}, 1.55},
		{[]string{"gnmt", "transformer", "lstm"}, 4, gres.Vector{GPUs: 4, CPUs: 4, Memory: 83320}, 1},
		{[]string{"m5"}, 4, gres.Vector{GPUs: 4, CPUs: 24, Memory: 500000}, 2},
		{[]string{"deepspeech"}, 4, gres.Vector{GPUs: 4, CPUs: 12, Memory: 250000}, 1},

		{[]string{"alexnet", "res18", "res50", "mobilenet", "shufflenet", "m5", "deepspeech"}, 8, paperServer, 1},
		{[]string{"gnmt", "transformer", "lstm"}, 8, gres.Vector{GPUs: 8, CPUs: 8, Memory: 166640}, 1},
	} {
		for _, model := range c.models {
			got := shipped(t, model).Demand(gres.Proportional(paperServer, c.gpus), paperServer)
			if got != (sensitivity.Option{Size: c.want, Gain: c.gain}) {
				t.Errorf("%s on %d GPUs: %v ×%v, want %v ×%v", model, c.gpus, got.Size, got.Gain, c.want, c.gain)
			}
		}
	}
}

func TestTheExampleInTheManualIsAProfile(t *testing.T) {
	manual, err := os.ReadFile("../docs/profile-format.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(manual), "```json\n")
	example, _, _ := strings.Cut(after, "```")
	p, err := sensitivity.Parse([]byte(example))
	if err != nil {
		t.Fatal(err)
	}
	want := sensitivity.Option{Size: gres.Vector{GPUs: 4, CPUs: 24, Memory: 250000}, Gain: 1.75}
	if got := p.Demand(gres.Proportional(paperServer, 4), paperServer); got != want {
		t.Errorf("the demand of four GPUs is %v, the manual says %v", got, want)
	}
	if got := p.Rate(sensitivity.Share{Cores: 4.5, Memory: 62500}); got != 1100 {
		t.Errorf("%v samples/s halfway between 3 and 6 cores, the manual says 1100", got)
	}
}

// shipped reads one of the profiles that are installed with the daemon.
func shipped(t testing.TB, model string) *sensitivity.Profile {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(profilesDir, model+".json"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := sensitivity.Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", model, err)
	}
	return p
}
