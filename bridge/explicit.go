package bridge

import (
	"github.com/synergy-slurmd/synergy-slurmd/bridge/directive"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// Explicit says which amounts a user asked for explicitly; all others come from the partition's defaults. In the job
// both look the same; only the gate can tell, and says so in the job's first annotation.
type Explicit struct {
	Told   bool `json:"told,omitempty"`  // the gate has seen the job, so the other fields are known
	Memory bool `json:"mem,omitempty"`   // --mem and similar
	CPUs   bool `json:"cpus,omitempty"`  // -c and similar
	Time   bool `json:"time,omitempty"`  // --time
	Steps  bool `json:"steps,omitempty"` // the script gives sizes of its steps in numbers
}

// assumedExplicit is assumed for a job that no gate has seen: it needs the memory that it carries, since too little
// would kill it.
var assumedExplicit = Explicit{Memory: true}

// explicit is what is known to be explicit, or else what is assumed (assumedExplicit).
func (r *Record) explicit() Explicit {
	if !r.Explicit.Told {
		return assumedExplicit
	}
	return r.Explicit
}

// allMemoryReason is why a job that asks for all memory of its nodes by --mem=0 is left to Slurm; empty for other jobs.
// It is left to Slurm because no other size than the whole node's memory would be what it asks for. Its request looks
// like one without any memory, so it is known only where a gate has seen the job.
func (t *managedJob) allMemoryReason() string {
	q, said := &t.Request, t.parsedAnnotation().Explicit
	// A job without a record is new to this ledger: only its annotation says what was explicit.
	if t.record != nil {
		q, said = &t.record.Own, t.record.Explicit
	}
	if said.Told && said.Memory && q.Memory == 0 && q.MemoryPerCPU == 0 && q.MemoryPerGPU == 0 {
		return "asks for all the memory of its nodes"
	}
	return ""
}

// countsTasks says whether the number of the job's cores decides how many tasks it runs, so that it must get exactly
// what it asked for: an srun with -c and without -n, typed at a terminal or inside an salloc, starts as many tasks as
// fit into the allocation. If no gate has seen the job, -c is assumed.
func (t *managedJob) countsTasks() bool {
	return t.Interactive && (t.record.Explicit.CPUs || !t.record.Explicit.Told)
}

// setSizeBounds sets in j which part of its user's request the job must have (Floor), must not exceed (Ceiling), or
// needs to end within its time limit (Pace), since its user chose the limit for that size.
//
// Without a profile the floor is all of the request, since the effect of less is unknown. With a profile, explicit
// memory is a floor, since too little kills. Cores may be given away, unless the user, the site (Settings.Keep) or a
// script with sizes says otherwise. Amounts per GPU (--cpus-per-gpu, --mem-per-gpu) are given exactly, since Slurm
// computes them. The steps of an interactive job are typed with its request in mind. So it gets no less of anything,
// and exactly the cores that it asked for if they decide how many tasks run (countsTasks).
func (r *Runner) setSizeBounds(t *managedJob, j *policy.Job) {
	own, said, asks, keep := t.record.Own.PerNode(), t.record.explicit(), t.directives, r.Settings.Keep
	steps := said.Steps && keep.Steps || t.Interactive
	if t.profile == nil || asks.Cores.Or(said.CPUs && keep.Cores || steps) {
		j.Floor.CPUs = own.CPUs
	}
	if t.profile == nil || asks.Memory.Or(said.Memory && keep.Memory || steps) {
		j.Floor.Memory = own.Memory
	}
	if said.Time && said.CPUs && t.TimeLimit > 0 && asks.Cores != directive.Gives {
		j.Pace = gres.Vector{CPUs: own.CPUs, Memory: own.Memory} // its time limit was chosen for these amounts
	}
	if t.record.Own.CPUsPerGPU > 0 || t.countsTasks() {
		j.Floor.CPUs, j.Ceiling.CPUs = own.CPUs, own.CPUs
	}
	if t.record.Own.MemoryPerGPU > 0 {
		j.Floor.Memory, j.Ceiling.Memory = own.Memory, own.Memory
	}
}
