package preflight

import (
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/billing"
)

// charges are the checks of what Slurm charges jobs.
var charges = []check{{"TRESBillingWeights", weights}}

// gpusAlone is the remedy that always charges right: a job has the same GPUs in every run.
const gpusAlone = `TRESBillingWeights="CPU=0,Mem=0,GRES/gpu=1" on the partition in slurm.conf, which charges for GPUs alone`

// weights judges TRESBillingWeights of the managed partitions. Slurm charges every run of a job as its first one, and
// the daemon gives later runs other cores and memory.
func weights(f *Facts) (found []finding) {
	if f.Weights.Why != "" {
		return []finding{skip("%s", f.Weights.Why)}
	}
	for _, name := range f.Wanted.Partitions {
		if text, there := f.Weights.Value[name]; there {
			found = append(found, judgeWeights(name, text, f))
		}
	}
	return found
}

// judgeWeights judges the weights of one partition. Charges for cores or memory give a warning, since their amount
// differs from run to run. Without weights Slurm charges cores, which matters only if fair share counts them.
func judgeWeights(partition, text string, f *Facts) finding {
	w, err := billing.Parse(text)
	sized := strings.Join(w.Sized(), " and ")
	switch {
	case err != nil:
		return skip("of %s: %s", partition, err)
	case sized == "":
		return ok("%s charges nothing that a size changes: %s", partition, text)
	case text != "":
		return warn(gpusAlone, "%s charges %s (%s), and Slurm reckons that for a job's first run alone: one that is "+
			"given another size later pays for its first one", partition, sized, text)
	case f.Scontrol.Why != "":
		return skip(
			"%s has none, so Slurm charges the cores of a job's first run; whether fair share counts them is not "+
				"known",
			partition,
		)
	case fairShareCounts(f):
		return warn(gpusAlone, "%s has none, so Slurm charges cores, and reckons that for a job's first run alone: "+
			"fair share counts a job that is given another size later by its first one", partition)
	}
	return ok("%s has none: Slurm charges the cores of a job's first run, and fair share counts for nothing", partition)
}

// fairShareCounts says whether past charges affect a job's priority.
func fairShareCounts(f *Facts) bool {
	weight, _ := number(f.Scontrol.Value["PriorityWeightFairShare"])
	return strings.HasSuffix(f.Scontrol.Value["PriorityType"], "multifactor") && weight > 0
}
