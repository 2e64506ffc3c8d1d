// Package limits knows what a site allows: the limits of its associations, QOS and partitions as data, and what follows
// from them for each job at a moment. Slurm does not enforce limits on sizes that an operator writes (it takes them for
// the administrator's word, limit_set in acct_policy.c), so who writes sizes has to know them himself.
//
// It knows counts: cores, memory, GPUs, nodes, jobs. What has been used up over time (GrpTRESMins, GrpWall, fair
// share), billing, licenses and submit limits are Slurm's to refuse; jobs under a limit on minutes of cores or memory
// are merely not given more than they asked for. Pure: no clock, no I/O.
package limits

import "github.com/synergy-slurmd/synergy-slurmd/gres"

// Site is what a site has set.
type Site struct {
	// Enforced says that slurmctld holds jobs to their limits (AccountingStorageEnforce has limits or safe). Nothing
	// binds otherwise, save for the partitions' own bounds.
	Enforced     bool          `json:"enforced"`
	Associations []Association `json:"associations,omitempty"` // of this cluster, in any order
	QOS          []QOS         `json:"qos,omitempty"`
	Partitions   []Partition   `json:"partitions,omitempty"`
}

// Association is an account, or a user in an account, perhaps in one partition alone.
type Association struct {
	Account   string  `json:"account"`
	Parent    string  `json:"parent,omitempty"` // the account above an account; empty for users and the root
	User      string  `json:"user,omitempty"`
	Partition string  `json:"partition,omitempty"`
	Limits    []Limit `json:"limits,omitempty"`
}

// QOS is a quality of service, chosen by a job or that of its partition.
type QOS struct {
	Name string `json:"name"`
	// OverPartition says that this one, as the job's, goes before the partition's. Otherwise the partition's goes
	// first.
	OverPartition bool `json:"over_partition,omitempty"`
	// Relative says that the numbers are percentages of a cluster or a partition, which are not understood here.
	Relative bool `json:"relative,omitempty"`
	// LimitFactor, by which the associations' TRES limits are multiplied; 0: none
	Factor float64 `json:"factor,omitempty"`
	Limits []Limit `json:"limits,omitempty"`
}

// Partition is what a partition allows a job on each node, and the QOS that all its jobs are under. Zero: no bound.
type Partition struct {
	Name string `json:"name"`
	QOS  string `json:"qos,omitempty"`
	// PriorityTier: jobs of a higher one go first, whatever their priorities
	Tier      int         `json:"tier,omitempty"`
	MaxCPUs   int         `json:"max_cpus,omitempty"`       // MaxCPUsPerNode
	MaxMemory gres.Memory `json:"max_memory_mib,omitempty"` // MaxMemPerNode
}

// Kind is a limit in the words of sacctmgr.
type Kind string

// The limits that are known here.
const (
	// all jobs of an association and of those below it, or of a QOS, together
	GrpTRES           Kind = "GrpTRES"
	GrpJobs           Kind = "GrpJobs"           // likewise, in running jobs
	GrpTRESMins       Kind = "GrpTRESMins"       // likewise, in minutes that have been used; Most is not looked at
	MaxTRESPerJob     Kind = "MaxTRESPerJob"     // each job
	MaxTRESPerNode    Kind = "MaxTRESPerNode"    // each job on each node
	MaxTRESMinsPerJob Kind = "MaxTRESMinsPerJob" // each job, times the minutes of its time limit
	MaxJobs           Kind = "MaxJobs"           // running jobs of a user in an account
	MaxTRESPerUser    Kind = "MaxTRESPerUser"    // all jobs of a user in a QOS
	MaxTRESPerAccount Kind = "MaxTRESPerAccount" // all jobs of an account in a QOS
	MaxJobsPerUser    Kind = "MaxJobsPerUser"
	MaxJobsPerAccount Kind = "MaxJobsPerAccount"
)

// Limit is one number of a site. None is no Limit: one with Most 0 allows nothing.
type Limit struct {
	Kind Kind   `json:"kind"`
	TRES string `json:"tres,omitempty"` // cpu, mem (MiB), node, gres/gpu, gres/gpu:TYPE; empty for jobs
	Most int64  `json:"most"`
}

// The TRES that are counted here; gres/gpu:TYPE is one for each type.
const (
	cores   = "cpu"
	memory  = "mem"
	nodes   = "node"
	gpus    = "gres/gpu"
	ofType  = gpus + ":"
	running = "" // jobs
)
