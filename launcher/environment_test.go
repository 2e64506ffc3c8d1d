package launcher

import (
	"slices"
	"strings"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

func TestACommandIsToldItsSizeWhereNobodyElseHas(t *testing.T) {
	for _, c := range []struct{ env, want string }{
		{"SLURM_JOB_ID=1",
			"OMP_NUM_THREADS=6 MKL_NUM_THREADS=6 SYNERGY_CPUS=12 SYNERGY_GPUS=2 SYNERGY_MEMORY_MB=125000"},
		{"", ""},
		{"SLURM_JOB_ID=1 OMP_NUM_THREADS=1 SYNERGY_CPUS=5",
			"MKL_NUM_THREADS=6 SYNERGY_GPUS=2 SYNERGY_MEMORY_MB=125000"},
		{"SLURM_JOB_ID=1 OMP_NUM_THREADS=",
			"MKL_NUM_THREADS=6 SYNERGY_CPUS=12 SYNERGY_GPUS=2 SYNERGY_MEMORY_MB=125000"},
		{"SLURM_JOB_ID=1 SLURM_TASKS_PER_NODE=2(x3)",
			"OMP_NUM_THREADS=6 MKL_NUM_THREADS=6 SYNERGY_CPUS=12 SYNERGY_GPUS=2 SYNERGY_MEMORY_MB=125000"},
		{"SLURM_JOB_ID=1 SLURM_CPUS_PER_TASK=4",
			"OMP_NUM_THREADS=2 MKL_NUM_THREADS=2 SYNERGY_CPUS=12 SYNERGY_GPUS=2 SYNERGY_MEMORY_MB=125000"},
		{"SLURM_JOB_ID=1 SLURM_CPUS_PER_TASK=40",
			"OMP_NUM_THREADS=6 MKL_NUM_THREADS=6 SYNERGY_CPUS=12 SYNERGY_GPUS=2 SYNERGY_MEMORY_MB=125000"},
		{"SLURM_JOB_ID=1 SLURM_STEP_TASKS_PER_NODE=4 SLURM_TASKS_PER_NODE=2",
			"OMP_NUM_THREADS=3 MKL_NUM_THREADS=3 SYNERGY_CPUS=12 SYNERGY_GPUS=2 SYNERGY_MEMORY_MB=125000"},
		{"SLURM_JOB_ID=1 SLURM_TASKS_PER_NODE=many",
			"OMP_NUM_THREADS=6 MKL_NUM_THREADS=6 SYNERGY_CPUS=12 SYNERGY_GPUS=2 SYNERGY_MEMORY_MB=125000"},
	} {
		var env []string
		if c.env != "" {
			env = strings.Split(c.env, " ")
		}
		got := Environment(env, gres.Vector{GPUs: 2, CPUs: 12, Memory: 125000})
		if want := strings.Fields(c.want); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", c.env, got, want)
		}
	}
	if got := Environment([]string{"SLURM_JOB_ID=1"}, gres.Vector{}); len(got) > 0 {
		t.Errorf("where Slurm says nothing it is told %v", got)
	}
}

func TestAProcessIsReadWhateverItsName(t *testing.T) {
	for text, want := range map[string]process{
		"7 (sleep) S 4 7 7 0": {7, 4, false}, "7 (a) Z 9 (b) Z 4 7": {7, 4, true}, "7 (x y) Z) R 12 1": {7, 12, false},
	} {
		if got, ok := parseStat(7, []byte(text)); !ok || got != want {
			t.Errorf("%s: %+v, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "7", "7 (", "7 (sleep) S", "7 (sleep) S x", "\x00\xff)"} {
		if got, ok := parseStat(7, []byte(text)); ok {
			t.Errorf("%q is taken for %+v", text, got)
		}
	}
}

func TestASignalIsNamedInOneOfItsUsualWays(t *testing.T) {
	for _, text := range []string{"USR1", "usr1", "SIGUSR1", "sigusr1"} {
		if s, err := ParseSignal(text, Asking); err != nil || name(s) != "USR1" {
			t.Errorf("%s: %v, %v", text, s, err)
		}
	}
	for _, text := range []string{"", "SIG", "9", "KILL", "STOP", "USR3", "QUIT", "USR1 ", "USR1@60"} {
		if s, err := ParseSignal(text, Asking); err == nil || !strings.Contains(err.Error(), "want one of USR1") {
			t.Errorf("%q: %v, %v", text, s, err)
		}
	}
}
