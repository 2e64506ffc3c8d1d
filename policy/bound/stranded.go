package bound

import (
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/columns"
)

// maxExamined limits the pairs of class and node with free GPUs that are examined, so that the cost stays bounded;
// later nodes are left out.
const maxExamined = 20000

// stranded counts the GPUs that are free under the plan on nodes where a waiting job has enough GPUs but no waiting job
// has enough cores, or memory. It also lists the nodes, in the order of the snapshot. With more cores or memory there,
// jobs could use these GPUs.
func (in *instance) stranded(p policy.Plan) (s Stranded, on []StrandedNode) {
	waiting := in.waitingExamples(p)
	if len(waiting) == 0 {
		return s, nil
	}
	looked := 0
	for n := range in.nodes {
		node := &in.nodes[n]
		free := node.open.Minus(node.used)
		if free.GPUs <= 0 || looked > maxExamined {
			continue
		}
		looked += len(waiting)
		lacks := in.lackedResource(waiting, n, free)
		switch lacks {
		case "cores":
			s.Cores += free.GPUs
		case "memory":
			s.Memory += free.GPUs
		default:
			continue
		}
		on = append(on, StrandedNode{Node: in.cluster.Nodes[n].Name, GPUs: free.GPUs, Lacks: lacks})
	}
	return s, on
}

// waitingExamples returns one job of each class of jobs that wait and are not barred; at most columns.MostClasses of
// them.
func (in *instance) waitingExamples(p policy.Plan) (jobs []*policy.Job) {
	granted := grantedBy(p)
	seen := map[classKey]bool{}
	for i := range in.cluster.Jobs {
		j := &in.cluster.Jobs[i]
		if granted[j.ID] || j.Barred != "" || len(seen) == columns.MostClasses {
			continue
		}
		if key := in.keyOf(j); !seen[key] {
			seen[key] = true
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// lackedResource says what keeps the waiting jobs off the free GPUs of node n: "cores" if for one of them each size has
// more cores than are free, else "memory". It is empty if one of them fits, or if none of them may start there and has
// enough GPUs there.
func (in *instance) lackedResource(waiting []*policy.Job, n int, free gres.Vector) (what string) {
	total := in.cluster.Nodes[n].Total
	gpuType := in.cluster.Nodes[n].GPUType
	sh := shape{total: total, leanCores: total, leanMemory: total}
	for _, j := range waiting {
		parts := max(1, j.Nodes)
		if j.GPUs%parts != 0 || j.GPUs/parts > free.GPUs || !in.eligible.mayStart(in.eligible.setOfJob(j), n) {
			continue
		}
		z := newSizer(j, policy.ProfileOn(j.Profile, gpuType), j.GPUs/parts, &sh)
		cores, memory := false, false
		for _, size := range z.sizes() {
			cores, memory = cores || size.CPUs <= free.CPUs, memory || size.Memory <= free.Memory
			if size.Fits(free) {
				return ""
			}
		}
		switch {
		case !cores:
			what = "cores"
		case what == "":
			what = "memory"
		}
	}
	return what
}
