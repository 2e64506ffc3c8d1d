package bridge

import (
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// Explicit is what a user asked for in so many words. Only the gate can tell that from the defaults of a partition,
// which look alike in the job; it says so in the annotation that it gives the job.
type Explicit struct {
	Told   bool `json:"told,omitempty"`  // a gate has seen the job: what is not said was not asked for
	Memory bool `json:"mem,omitempty"`   // --mem and its like
	CPUs   bool `json:"cpus,omitempty"`  // -c and its like
	Time   bool `json:"time,omitempty"`  // --time
	Steps  bool `json:"steps,omitempty"` // the script names sizes of its steps in numbers
}

// unknownExplicit is what is taken for said of a job that no gate has seen: that it needs the memory that it carries.
// Too little of that would kill it.
var unknownExplicit = Explicit{Memory: true}

func (r *Record) explicit() Explicit {
	if !r.Explicit.Told {
		return unknownExplicit
	}
	return r.Explicit
}

// allMemory says that a job asks for all the memory of its nodes, by --mem=0. That looks like the default of a site
// that has none; the gate can tell.
func (t *managedJob) allMemory() string {
	q, said := &t.Request, t.annotated().Explicit
	if t.record != nil {
		q, said = &t.record.Own, t.record.Explicit
	}
	if said.Told && said.Memory && q.Memory == 0 && q.MemoryPerCPU == 0 && q.MemoryPerGPU == 0 {
		return "asks for all the memory of its nodes"
	}
	return ""
}

// perNode is what a request comes to on each node; an amount that it leaves to the partition is 0.
func (q *Request) perNode() gres.Vector {
	nodes := max(1, q.Nodes)
	v := gres.Vector{GPUs: (q.GPUs + nodes - 1) / nodes, Memory: q.Memory}
	v.CPUs = max((q.CPUs+nodes-1)/nodes, q.CPUsPerNode, q.CPUsPerGPU*v.GPUs, tasksPerNode(q)*q.CPUsPerTask)
	switch {
	case q.MemoryPerGPU > 0:
		v.Memory = q.MemoryPerGPU * gres.Memory(v.GPUs)
	case q.MemoryPerCPU > 0:
		v.Memory = q.MemoryPerCPU * gres.Memory(v.CPUs)
	}
	return v
}

// countsTasks says that its cores decide how many tasks run: an srun with -c and without -n starts as many as fit into
// what the job was given, typed at the terminal or in the session of an salloc. Nobody knows whether -c was typed where
// no gate has seen the job.
func (t *managedJob) countsTasks() bool {
	return t.Interactive && (t.record.Explicit.CPUs || !t.record.Explicit.Told)
}

// claim tells the planner what of its user's request a job must have. Without a profile that is all of it: nobody knows
// what less would do. With one, explicit memory is a floor, since too little kills; cores may be given away, unless the
// user, the site or a script that names them says otherwise. What follows the GPUs (--cpus-per-gpu, --mem-per-gpu) is
// given exactly. The steps of an interactive job are typed with what was asked for in mind: it has no less of anything,
// and exactly the cores that were named.
func (r *Runner) claim(t *managedJob, j *policy.Job) {
	own, said, word, keep := t.record.Own.perNode(), t.record.explicit(), &t.said.word, r.Settings.Keep
	steps := said.Steps && keep.Steps || t.Interactive
	if t.profile == nil || word.Cores.Or(said.CPUs && keep.Cores || steps) {
		j.Floor.CPUs = own.CPUs
	}
	if t.profile == nil || word.Memory.Or(said.Memory && keep.Memory || steps) {
		j.Floor.Memory = own.Memory
	}
	if said.Time && said.CPUs && t.TimeLimit > 0 && word.Cores != Gives {
		j.Pace = gres.Vector{CPUs: own.CPUs, Memory: own.Memory} // its time limit was reckoned with these
	}
	if t.record.Own.CPUsPerGPU > 0 || t.countsTasks() {
		j.Floor.CPUs, j.Ceiling.CPUs = own.CPUs, own.CPUs
	}
	if t.record.Own.MemoryPerGPU > 0 {
		j.Floor.Memory, j.Ceiling.Memory = own.Memory, own.Memory
	}
}
