// Package limits holds the limits of a site's associations, QOS and partitions as data, and computes ceilings and
// quotas of jobs from them. Slurm does not enforce limits on sizes that an operator writes (limit_set in
// acct_policy.c), so the daemon must keep them itself.
//
// The package knows amounts of cores, memory, GPUs, nodes and jobs. Usage over time (GrpTRESMins, GrpWall, fair share),
// billing, licenses and submit limits are left to Slurm to enforce. A job under a limit on minutes of cores or memory
// is given no more than its user's request. The package is pure: no clock, no I/O.
package limits

import "github.com/synergy-slurmd/synergy-slurmd/gres"

// Site is all limits that a site has configured.
type Site struct {
	// Enforced says that slurmctld enforces limits (AccountingStorageEnforce contains limits or safe). Otherwise only
	// the partitions' own bounds apply.
	Enforced     bool          `json:"enforced"`
	Associations []Association `json:"associations,omitempty"` // of this cluster, in any order
	QOS          []QOS         `json:"qos,omitempty"`
	Partitions   []Partition   `json:"partitions,omitempty"`
}

// Association is an account, or a user in an account, possibly for one partition only.
type Association struct {
	Account   string  `json:"account"`
	Parent    string  `json:"parent,omitempty"` // the account above an account; empty for users and the root
	User      string  `json:"user,omitempty"`
	Partition string  `json:"partition,omitempty"`
	Limits    []Limit `json:"limits,omitempty"`
}

// QOS is a quality of service, requested by a job or attached to its partition.
type QOS struct {
	Name string `json:"name"`
	// OverPartition: if a job requests this QOS, its limits take precedence over those of the partition's QOS. By
	// default those of the partition's QOS do.
	OverPartition bool `json:"over_partition,omitempty"`
	// Relative: the limits are percentages of a cluster or a partition. They are not supported here.
	Relative bool `json:"relative,omitempty"`
	// Factor is LimitFactor, by which the associations' TRES limits are multiplied; 0: none.
	Factor float64 `json:"factor,omitempty"`
	Limits []Limit `json:"limits,omitempty"`
}

// Partition is what a partition allows a job on each node, and the QOS of all its jobs. Zero means no bound.
type Partition struct {
	Name string `json:"name"`
	QOS  string `json:"qos,omitempty"`
	// Tier is PriorityTier: jobs of a higher tier go first, whatever their priorities.
	Tier      int         `json:"tier,omitempty"`
	MaxCPUs   int         `json:"max_cpus,omitempty"`       // MaxCPUsPerNode
	MaxMemory gres.Memory `json:"max_memory_mib,omitempty"` // MaxMemPerNode
}

// Kind is the name of a limit in sacctmgr.
type Kind string

// The limits that are supported.
const (
	// GrpTRES limits all jobs together, of an association and those below it, or of a QOS.
	GrpTRES           Kind = "GrpTRES"
	GrpJobs           Kind = "GrpJobs"           // the same groups, counted in running jobs
	GrpTRESMins       Kind = "GrpTRESMins"       // the same groups, in minutes used; Most is ignored
	MaxTRESPerJob     Kind = "MaxTRESPerJob"     // of each job
	MaxTRESPerNode    Kind = "MaxTRESPerNode"    // of each job on each node
	MaxTRESMinsPerJob Kind = "MaxTRESMinsPerJob" // of each job, multiplied by the minutes of its time limit
	MaxJobs           Kind = "MaxJobs"           // running jobs of a user in an account
	MaxTRESPerUser    Kind = "MaxTRESPerUser"    // all jobs of a user in a QOS together
	MaxTRESPerAccount Kind = "MaxTRESPerAccount" // all jobs of an account in a QOS together
	MaxJobsPerUser    Kind = "MaxJobsPerUser"
	MaxJobsPerAccount Kind = "MaxJobsPerAccount"
)

// Limit is one configured number. A limit with Most 0 allows nothing; an unset limit has no entry at all.
type Limit struct {
	Kind Kind   `json:"kind"`
	TRES string `json:"tres,omitempty"` // cpu, mem (MiB), node, gres/gpu, gres/gpu:TYPE; empty: running jobs
	Most int64  `json:"most"`
}

// The TRES that are counted; gres/gpu:TYPE is a TRES of its own for each type.
const (
	cores   = "cpu"
	memory  = "mem"
	nodes   = "node"
	gpus    = "gres/gpu"
	ofType  = gpus + ":"
	running = "" // the number of running jobs
)
