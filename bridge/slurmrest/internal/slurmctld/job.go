package slurmctld

import "github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/wire"

// job maps the generated type to the one that belongs to no version. It interprets nothing but shared, see exclusive.
func job(j *JobInfo) wire.Job {
	return wire.Job{
		ID: int(j.JobId), ArrayJob: number(j.ArrayJobId).Count(), HetJob: number(j.HetJobId).Count(),
		ArrayTask: number(j.ArrayTaskId), ArrayMost: number(j.ArrayMaxTasks), ArrayTasks: j.ArrayTaskString,
		Name: j.Name, User: j.UserName, Partition: j.Partition, Comment: j.Comment, Extra: j.Extra,
		AdminComment: j.AdminComment,
		QOS:          j.Qos, Account: j.Account, Reservation: j.ResvName, Container: j.Container,
		State: j.JobState, Reason: j.StateReason, Dependency: j.Dependency,
		Batch: j.BatchFlag, Requeue: j.Requeue, Contiguous: j.Contiguous, Cron: j.Cron,
		ThreadSpec: int(j.ThreadSpec), Restarts: int(j.RestartCnt), Exclusive: exclusive(j.Shared),
		Priority: number(j.Priority), Submitted: number(j.SubmitTime), Eligible: number(j.EligibleTime),
		Started: number(j.StartTime), Ended: number(j.EndTime), Deadline: number(j.Deadline),
		TimeLimit: number(j.TimeLimit),
		Nodes:     number(j.NodeCount), MaxNodes: number(j.MaxNodes),
		Tasks: number(j.Tasks), CPUsPerTask: number(j.CpusPerTask), CPUs: number(j.Cpus),
		CPUsPerNode:  number(j.MinimumCpusPerNode),
		TasksPerNode: number(j.TasksPerNode), TasksPerGPU: number(j.TasksPerTres), Requested: j.TresReqStr,
		MemoryPerNode: number(j.MemoryPerNode), MemoryPerCPU: number(j.MemoryPerCpu),
		PerJob: j.TresPerJob, PerNode: j.TresPerNode, PerTask: j.TresPerTask, PerSocket: j.TresPerSocket,
		CPUsPerGRES: j.CpusPerTres, MemoryPerGRES: j.MemoryPerTres,
		RequiredNodes: j.RequiredNodes, ExcludedNodes: j.ExcludedNodes, Features: j.Features,
		ExitCode: number(j.ExitCode.ReturnCode), ExitSignal: number(j.ExitCode.Signal.Id),
		Holds: convertAll(j.JobResources.Nodes.Allocation, func(n *JobResNode) wire.Held {
			return wire.Held{Node: n.Name, CPUs: int(n.Cpus.Count), Memory: n.Memory.Allocated}
		}),
		Devices: j.GresDetail,
	}
}

// exclusive lists the kinds of exclusiveness, in wire.Job's words. v0.0.42 to v0.0.44 have them in the field shared,
// where "none" means --exclusive.
func exclusive(shared []string) []string {
	var off []string
	for _, word := range shared {
		switch word {
		case "none":
			off = append(off, "node")
		case "user", "mcs", "topo":
			off = append(off, word)
		}
	}
	return off
}

// node maps a node. Its CPUs are the effective ones, without those that Slurm reserves for the system.
func node(n *Node) wire.Node {
	return wire.Node{
		Name: n.Name, Features: n.ActiveFeatures, Partitions: n.Partitions, State: n.State,
		CPUs: int(n.EffectiveCpus), AllocatedCPUs: int(n.AllocCpus),
		Memory: n.RealMemory, Specialized: n.SpecializedMemory, AllocatedMB: n.AllocMemory,
		Comment: n.Comment, GRES: n.Gres, GRESUsed: n.GresUsed,
	}
}

// description is an update; what is nil in the change is not sent and stays as it is. Slurm ignores an empty node list,
// so the job would keep its nodes. So an empty list is sent as one empty name, which removes them.
func description(c wire.Change) JobDescMsg {
	if c.RequiredNodes != nil && len(*c.RequiredNodes) == 0 {
		c.RequiredNodes = &[]string{""}
	}
	return JobDescMsg{
		BeginTime: setNumber(c.Begin), Tasks: asInt32(c.Tasks), CpusPerTask: asInt32(c.CPUsPerTask),
		MinimumCpus: asInt32(c.CPUs), MinimumCpusPerNode: asInt32(c.CPUsPerNode),
		MemoryPerNode: setNumber(c.MemoryPerNode), MemoryPerCpu: setNumber(c.MemoryPerCPU),
		RequiredNodes: c.RequiredNodes, TresPerNode: c.GRES, TresPerJob: c.PerJob, TresPerTask: c.PerTask,
		Extra: c.Extra, Requeue: c.Requeue, Partition: c.Partition,
		Dependency: c.Dependency, Deadline: c.Deadline,
	}
}

// submission is a new job of one task. Partition, comment, GRES, deadline and time limit are left out if they have no
// value, so that Slurm's defaults apply.
func submission(s wire.Submission) JobSubmitReq {
	one := int32(1)
	described := JobDescMsg{
		Name: &s.Name, Hold: &s.Held, Requeue: &s.Requeue, Extra: &s.Extra, Tasks: &one,
		CurrentWorkingDirectory: &s.Folder, StandardOutput: &s.Output, Environment: &s.Environment, Script: &s.Script,
	}
	for field, value := range map[**string]*string{&described.Partition: &s.Partition, &described.Comment: &s.Comment,
		&described.TresPerNode: &s.GRES} {
		if *value != "" {
			*field = value
		}
	}
	if s.Deadline > 0 {
		described.Deadline = &s.Deadline
	}
	if s.Limit > 0 {
		described.TimeLimit = &OptionalNumber{Set: true, Number: int64(s.Limit)}
	}
	return JobSubmitReq{Job: &described}
}

// setNumber is a number that is set; nil, which is not sent and changes nothing, for nil.
func setNumber(n *int64) *OptionalNumber {
	if n == nil {
		return nil
	}
	return &OptionalNumber{Set: true, Number: *n}
}

// asInt32 converts a number to the API's width; nil, which is not sent and changes nothing, for nil.
func asInt32(n *int) *int32 {
	if n == nil {
		return nil
	}
	n32 := int32(*n)
	return &n32
}
