package demo

import (
	"fmt"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
	"github.com/synergy-slurmd/synergy-slurmd/etc/profiles"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// The emulated cluster: the paper's servers, on which each GPU has a proportional share of 3 cores and 62.5 GB.
const (
	nodes     = 2
	partition = "gpu"
)

var server = gres.Vector{GPUs: 8, CPUs: 24, Memory: 500 * gres.Gigabyte}

// job is one line of the workload: what a user submits, and when.
type job struct {
	at     time.Duration // since the demonstration began
	model  string
	gpus   int
	length time.Duration // at the proportional share
}

// workload is a cluster that fills up, a burst of six jobs at 0:44, and two jobs that want a whole node. Its gain is
// typical: of workloads with the same sizes and lengths of other models, some gain more and some less.
func workload() []job {
	const m = time.Minute
	return []job{
		{0 * m, "transformer", 2, 58 * m},
		{0 * m, "alexnet", 1, 110 * m},
		{0 * m, "lstm", 2, 93 * m},
		{0 * m, "transformer", 1, 22 * m},
		{0 * m, "gnmt", 4, 73 * m},
		{0 * m, "alexnet", 2, 33 * m},
		{0 * m, "lstm", 1, 102 * m},
		{4 * m, "m5", 1, 92 * m},
		{11 * m, "mobilenet", 2, 78 * m},
		{16 * m, "deepspeech", 1, 180 * m},
		{22 * m, "lstm", 8, 23 * m},
		{31 * m, "alexnet", 4, 43 * m},
		{38 * m, "shufflenet", 4, 57 * m},

		{44 * m, "deepspeech", 4, 68 * m},
		{44 * m, "mobilenet", 1, 170 * m},
		{44 * m, "res18", 1, 120 * m},
		{44 * m, "transformer", 2, 38 * m},
		{44 * m, "m5", 2, 78 * m},
		{44 * m, "res50", 2, 97 * m},

		{57 * m, "gnmt", 1, 52 * m},
		{63 * m, "gnmt", 2, 53 * m},
		{68 * m, "gnmt", 1, 63 * m},
		{74 * m, "res18", 8, 28 * m},
		{82 * m, "shufflenet", 1, 150 * m},
	}
}

// extension is the extension of a profile's file.
const extension = ".json"

// readProfile reads the profile of one of the paper's models.
func readProfile(model string) (*sensitivity.Profile, error) {
	text, err := profiles.FS.ReadFile(model + extension)
	if err != nil {
		return nil, fmt.Errorf("profile of %s: %w", model, err)
	}
	p, err := sensitivity.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("profile of %s: %w", model, err)
	}
	return p, nil
}

// spec is the job as sbatch and the gate (job_submit.lua) submit it: it requests the proportional share, names its
// profile, and saves when asked. It trains at the speed that its profile gives for what Slurm allocated.
func (j job) spec(p *sensitivity.Profile) slurmtest.Spec {
	share := gres.Proportional(server, j.gpus)
	return slurmtest.Spec{
		Name: j.model, Partition: partition, Lease: lease,
		Comment: fmt.Sprintf("synergy-profile=%s synergy-checkpoint=USR1@60 synergy-length=%gm", j.model+extension,
			j.length.Minutes()),
		Request: slurm.Request{Nodes: 1, Tasks: 1, CPUsPerTask: share.CPUs, Memory: share.Memory, GPUs: j.gpus},
		Work: slurmtest.Work{
			Length:   j.length,
			Rate:     func(has slurm.Allocated) float64 { return p.Gain(has.PerNode, share) },
			OnSignal: slurmtest.Saves, OnTerm: slurmtest.Saves,
			Save: seconds(p.CheckpointSeconds), Restart: seconds(p.StartSeconds),
		},
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
