package slurmrest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/v0042"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// readJob tells a job in the round's words.
func readJob(job *v0042.JobInfo) listed {
	state := state(job.JobState)
	read := listed{
		words: fold(job.JobState),
		idle:  slices.Contains(job.JobState, "SUSPENDED"),
		ended: ended(state, job.EndTime),
		Job: bridge.Job{
			ID:         int(job.JobId),
			Name:       job.Name,
			User:       job.UserName,
			Partition:  job.Partition,
			Comment:    job.Comment,
			Extra:      job.Extra,
			State:      state,
			Completing: completing(job.JobState),
			Held:       state == bridge.Pending && held(job),
			Reason:     reason(job.StateReason),
			Shape:      shape(job),
			Dependency: job.Dependency != "",
			Submitted:  moment(job.SubmitTime),
			TimeLimit:  time.Duration(counted(job.TimeLimit)) * time.Minute,
			Restarts:   int(job.RestartCnt),
			Requeue:    job.Requeue,
		},
	}
	if state == bridge.Pending {
		read.Begin = begin(job)
	}
	if state == bridge.Running {
		read.Started = moment(job.StartTime)
	}
	read.request(job)
	read.holding(job)
	return read
}

// state is the base state; a word that is not known here is a state that is over.
func state(words []string) bridge.State {
	switch {
	case slices.Contains(words, "PENDING"):
		return bridge.Pending
	case slices.ContainsFunc(words, func(w string) bool { return w == "RUNNING" || w == "CONFIGURING" || w == "SUSPENDED" }):
		return bridge.Running
	}
	return bridge.Finished
}

func completing(words []string) bool { return slices.Contains(words, "COMPLETING") }

// over says that nothing more will come of a job in this state.
func over(words []string) bool { return state(words) == bridge.Finished && !completing(words) }

// fold makes one text of the words of a state, the same for the sweep and for a listing. The sweep names each waiting task of an
// array, the listing all of them once.
func fold(words []string) string {
	sorted := slices.Clone(words)
	slices.Sort(sorted)
	return strings.Join(slices.Compact(sorted), "+")
}

// held says that somebody wants this job to wait. A job that Slurm parked because no node can hold its size has priority 0 too,
// but nobody's word: the next update frees it.
func held(job *v0042.JobInfo) bool {
	if strings.HasPrefix(job.StateReason, "JobHeld") {
		return true
	}
	return job.Priority.Set && job.Priority.Number == 0 && job.StateReason != "BadConstraints"
}

func reason(text string) string {
	if text == "None" {
		return ""
	}
	return text
}

// begin is the begin time, which no answer has under that name. The start time will not do: backfill writes there when it expects
// the job to start. Where nobody set a begin time, the job became eligible when it was submitted.
func begin(job *v0042.JobInfo) time.Time {
	if counted(job.EligibleTime) <= counted(job.SubmitTime) {
		return time.Time{}
	}
	return moment(job.EligibleTime)
}

func moment(n v0042.OptionalNumber) time.Time {
	if counted(n) == 0 {
		return time.Time{}
	}
	return time.Unix(n.Number, 0)
}

// ordinarySpec is what Slurm writes for a job that reserves no cores for the system.
const ordinarySpec = 32766

// shape says why a job is none that a round can size, start and requeue by itself.
func shape(job *v0042.JobInfo) string {
	switch {
	case job.ArrayJobId.Number > 0:
		return "array: an update changes all of its waiting tasks alike"
	case job.HetJobId.Number > 0:
		return "het job: its components start together"
	case slices.Contains(job.Shared, "none"):
		return "exclusive: it gets whole nodes, whatever its size"
	case slices.Contains(job.Shared, "user"), slices.Contains(job.Shared, "mcs"), slices.Contains(job.Shared, "topo"):
		return "exclusive: it keeps others off its nodes"
	case job.Cron != "":
		return "scrontab: Slurm refuses to update it"
	case !job.BatchFlag:
		return "interactive: it cannot be requeued"
	case job.ThreadSpec != ordinarySpec:
		return "core specialization: it gets whole nodes, whatever its size"
	case job.Contiguous:
		return "contiguous: its nodes cannot be chosen one by one"
	case slices.Contains(job.JobState, "SUSPENDED"):
		return "suspended: an operator has stopped it"
	}
	return ""
}

// request fills in what the job asks for. What a round could not give it, or not give it back, makes it odd.
func (l *listed) request(job *v0042.JobInfo) {
	l.Request = bridge.Request{
		Nodes:        counted(job.NodeCount),
		Tasks:        counted(job.Tasks),
		CPUsPerTask:  counted(job.CpusPerTask),
		CPUs:         counted(job.Cpus),
		CPUsPerNode:  counted(job.MinimumCpusPerNode),
		Memory:       memory(job.MemoryPerNode),
		MemoryPerCPU: memory(job.MemoryPerCpu),
		GRES:         job.TresPerNode,
	}
	l.note(oddity(job))
	l.note(l.gpus(job))
	l.Request.Pin, l.Except = l.hosts(job.RequiredNodes), l.hosts(job.ExcludedNodes)
	l.Features = l.features(job.Features)
}

// note keeps the first oddity.
func (l *listed) note(odd string) { l.Odd = cmp.Or(l.Odd, odd) }

func oddity(job *v0042.JobInfo) string {
	switch most := counted(job.MaxNodes); {
	case most > counted(job.NodeCount) && state(job.JobState) == bridge.Pending:
		return fmt.Sprintf("asks for %d to %d nodes", counted(job.NodeCount), most)
	case job.MemoryPerTres != "":
		return "asks for memory per GPU"
	case job.TresPerSocket != "":
		return "asks for GPUs per socket"
	case job.ResvName != "":
		return "runs in reservation " + job.ResvName
	}
	return ""
}

// gpus counts the GPUs in whichever way the user asked for them.
func (l *listed) gpus(job *v0042.JobInfo) (odd string) {
	ways := []struct {
		text  string
		times int
	}{
		{job.TresPerJob, 1},
		{job.TresPerNode, l.Request.Nodes},
		{job.TresPerTask, l.Request.Tasks},
	}
	for _, way := range ways {
		counts, err := gres.ParseCounts(way.text)
		if err != nil {
			return err.Error()
		}
		if other := otherGRES(counts); other != "" {
			odd = "asks for " + other
		}
		n, gpuType := gres.GPUs(counts)
		if n == 0 || l.Request.GPUs > 0 {
			continue
		}
		l.Request.GPUs, l.Request.GPUType = n*way.times, gpuType
		if gpuType == "" && hasType(counts) {
			odd = "asks for GPUs of several types"
		}
	}
	return odd
}

// otherGRES names the first thing asked for that a round does not count. The CPUs of a task stand among its resources and are
// counted elsewhere.
func otherGRES(counts []gres.Count) string {
	for _, c := range counts {
		switch c.Name {
		case "gpu", "cpu", "mem", "node", "billing":
		default:
			return c.Name
		}
	}
	return ""
}

func hasType(counts []gres.Count) bool {
	return slices.ContainsFunc(counts, func(c gres.Count) bool { return c.Name == "gpu" && c.Type != "" })
}

func (l *listed) hosts(text string) []string {
	hosts, err := gres.ParseHosts(text)
	if err != nil {
		l.note(err.Error())
	}
	slices.Sort(hosts)
	return hosts
}

// features are those that the job wants all of; any other way to join them is odd.
func (l *listed) features(text string) []string {
	if text == "" {
		return nil
	}
	if strings.ContainsAny(text, "|[]()*!") {
		l.note(fmt.Sprintf("asks for features %q", text))
		return nil
	}
	return strings.FieldsFunc(text, func(r rune) bool { return r == '&' || r == ',' })
}

// holding fills in what the job has, as long as it runs or is being torn down.
func (l *listed) holding(job *v0042.JobInfo) {
	if l.State != bridge.Running && !l.Completing {
		return
	}
	gpusOn := gpusHeld(job.GresDetail, l.Request)
	l.holds = make(map[string]gres.Vector, len(job.JobResources.Nodes.Allocation))
	for i, node := range job.JobResources.Nodes.Allocation {
		l.holds[node.Name] = gres.Vector{
			CPUs:   int(node.Cpus.Count),
			Memory: gres.Memory(node.Memory.Allocated),
			GPUs:   gpusOn(i),
		}
	}
	for _, has := range l.holds {
		l.Runs.PerNode = l.Runs.PerNode.Max(has)
	}
	l.Runs.Nodes = slices.Sorted(maps.Keys(l.holds))
	l.Runs.Devices = job.GresDetail
}

// gpusHeld tells the GPUs on each node of an allocation. Slurm no longer says which once the job is being torn down; then each
// node is taken to have had its share of the request.
func gpusHeld(detail []string, asked bridge.Request) func(node int) int {
	share := 0
	if asked.Nodes > 0 {
		share = (asked.GPUs + asked.Nodes - 1) / asked.Nodes
	}
	return func(node int) int {
		if node >= len(detail) {
			return share
		}
		counts, err := gres.ParseCounts(detail[node])
		if err != nil {
			return share
		}
		n, _ := gres.GPUs(counts)
		return n
	}
}
