package emulate_test

import (
	"math"
	"strings"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/emulate"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/library"
)

// environment is what getenv answers from words like NAME=value.
func environment(words string) func(string) string {
	return func(name string) string {
		for word := range strings.FieldsSeq(words) {
			if value, found := strings.CutPrefix(word, name+"="); found {
				return value
			}
		}
		return ""
	}
}

func TestTheGrantIsWhatSlurmSays(t *testing.T) {
	for _, c := range []struct {
		env  string
		want emulate.Grant
	}{
		{"", emulate.Grant{Nodes: 1}},
		{"SLURM_CPUS_ON_NODE=6 SLURM_MEM_PER_NODE=125000 SLURM_GPUS_ON_NODE=2", grant(1, 2, 6, 125000)},
		{"SLURM_JOB_NUM_NODES=2 SLURM_CPUS_ON_NODE=24 SLURM_MEM_PER_NODE=500000 SLURM_GPUS_ON_NODE=8",
			grant(2, 8, 24, 500000)},
		{"SLURM_CPUS_ON_NODE=6 SLURM_MEM_PER_CPU=1000 SLURM_GPUS_ON_NODE=2", grant(1, 2, 6, 6000)},
		{"SLURM_CPUS_ON_NODE=6 SLURM_MEM_PER_GPU=9000 SLURM_GPUS_ON_NODE=2", grant(1, 2, 6, 18000)},
		{"SLURM_CPUS_ON_NODE=6 SLURM_MEM_PER_NODE=0 SLURM_GPUS_ON_NODE=2", grant(1, 2, 6, 0)},
		{"CUDA_VISIBLE_DEVICES=0,3 SLURM_CPUS_ON_NODE=1", grant(1, 2, 1, 0)},
		{"CUDA_VISIBLE_DEVICES=GPU-3d2a SLURM_CPUS_ON_NODE=1", grant(1, 1, 1, 0)},
		{"CUDA_VISIBLE_DEVICES=NoDevFiles SLURM_CPUS_ON_NODE=1", grant(1, 0, 1, 0)},
		{"CUDA_VISIBLE_DEVICES=-1 SLURM_CPUS_ON_NODE=1", grant(1, 0, 1, 0)},
		{"CUDA_VISIBLE_DEVICES=0,1,2 SLURM_GPUS_ON_NODE=1", grant(1, 1, 0, 0)},
	} {
		if got, err := emulate.FromSlurm(environment(c.env)); err != nil || got != c.want {
			t.Errorf("%s: %v, %v; want %v", c.env, got, err, c.want)
		}
	}
}

func TestAnEnvironmentThatIsNoNumberIsRefused(t *testing.T) {
	for _, word := range []string{"SLURM_CPUS_ON_NODE=many", "SLURM_MEM_PER_NODE=-1", "SLURM_GPUS_ON_NODE=1.5",
		"SLURM_JOB_NUM_NODES=99999999999"} {
		name, _, _ := strings.Cut(word, "=")
		if got, err := emulate.FromSlurm(environment(word)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, error %v", word, got, err)
		}
	}
}

func TestTheRateIsTheProfilesForTheShareOfEachGPU(t *testing.T) {
	res18 := model(t, "res18")
	for _, c := range []struct {
		name  string
		grant emulate.Grant
		gain  float64
	}{
		{"the proportional share", grant(1, 1, 3, 62500), 1},
		{"full speed", grant(1, 1, 9, 62500), 2.4},
		{"two GPUs share the cores", grant(1, 2, 12, 125000), 1.75},
		{"as much on each of two nodes", grant(2, 1, 9, 62500), 2.4},
		{"too little memory", grant(1, 1, 9, 20830), .1},
		{"no known limit of memory", grant(1, 1, 9, 0), 2.4},
	} {
		if got, want := c.grant.Rate(res18), c.gain/0.64; math.Abs(got/want-1) > 1e-9 {
			t.Errorf("%s: %v iterations/s, want %v", c.name, got, want)
		}
	}
}

func TestOneIterationCostsTheCPUTimeThatSlowsTheModelDown(t *testing.T) {
	// res18 prepares most samples per core on its first core: 0.37 of the rate of one iteration in 0.64 s.
	if got, want := grant(1, 2, 6, 125000).CPUSeconds(model(t, "res18")), 2*0.64/0.37; math.Abs(got/want-1) > 1e-9 {
		t.Errorf("res18: %v s, want %v", got, want)
	}
	if got, want := grant(1, 1, 6, 62500).CPUSeconds(model(t, "lstm")), 0.011; math.Abs(got/want-1) > 1e-9 {
		t.Errorf("lstm: %v s, want %v", got, want)
	}
}

func grant(nodes, gpus, cpus int, memory gres.Memory) emulate.Grant {
	return emulate.Grant{Nodes: nodes, PerNode: gres.Vector{GPUs: gpus, CPUs: cpus, Memory: memory}}
}

// model is one of the profiles that are shipped.
func model(t *testing.T, name string) *sensitivity.Profile {
	t.Helper()
	p, err := library.New("../etc/profiles").Lookup(name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	return p
}
