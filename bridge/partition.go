package bridge

import (
	"slices"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// A job of several partitions (-p a,b) may use the nodes of all of them, and starts in one: the update that starts it
// names this one along with the nodes. Otherwise Slurm would try the partitions in turn, and a job with required nodes
// that fails in the first is tried in the second only by backfill (seen on 24.11), half a minute later instead of
// seconds. The user's own list is restored like any other part of the request.

// manages says that all partitions of a comma-separated list are managed. A job that could start in another one is
// Slurm's, since a round could not keep it from starting there.
func (r *Runner) manages(list string) bool {
	for part := range strings.SplitSeq(list, ",") {
		if !slices.Contains(r.Settings.Partitions, part) {
			return false
		}
	}
	return true
}

// syncWithJob brings the record in line with the last observation: whether the job gets whole nodes, and whether an
// administrator moved it to a partition that its user did not name. The new partition is then the one that is restored.
// A list that a round narrowed names only partitions that the user named, and changes nothing. Without a record (nil)
// nothing is done.
func (r *Record) syncWithJob(j *slurm.Job) {
	if r == nil {
		return
	}
	if r.Whole = j.Whole; j.Partition == r.Own.Partition {
		return
	}
	own := slurm.Partitions(r.Own.Partition)
	if slices.ContainsFunc(
		slurm.Partitions(j.Partition),
		func(part string) bool { return !slices.Contains(own, part) },
	) {
		r.Own.Partition = j.Request.Partition
	}
}

// Avoided is one of a job's partitions in which Slurm did not start the job although there was room.
type Avoided struct {
	Partition string    `json:"partition"`
	Until     time.Time `json:"until"`
}

// avoid notes that a partition refused the job for now, with Slurm's reason; an empty reason: it refused the update. It
// returns true if the job may start in another of its partitions: the refusal then does not count against the job. A
// partition that refused because of a limit is avoided for maxRetryDelay, since the limit has room when other jobs end.
// After any other reason it is avoided for refusalLifetime. It returns false, and notes nothing, if the job has only
// one partition or the partition is none of its own. Older notes that no longer hold are dropped.
func (t *managedJob) avoid(partition, reason string, now time.Time) bool {
	if !slices.Contains(t.candidatePartitions(), partition) || len(t.candidatePartitions()) < 2 {
		return false
	}
	until := now.Add(refusalLifetime)
	if isLimit(reason) {
		until = now.Add(maxRetryDelay)
	}
	r := t.record
	r.Avoids = slices.DeleteFunc(
		r.Avoids,
		func(a Avoided) bool { return a.Partition == partition || !a.Until.After(now) },
	)
	r.Avoids = append(r.Avoids, Avoided{partition, until})
	// It may avoid partitions that are no longer its own.
	avoided := t.record.avoided(now)
	return slices.ContainsFunc(
		t.candidatePartitions(),
		func(part string) bool { return !slices.Contains(avoided, part) },
	)
}

// avoided lists the partitions in which no start of the job is tried at now, because they refused one; nil: there are
// none.
func (r *Record) avoided(now time.Time) []string {
	var list []string
	for _, a := range r.Avoids {
		if a.Until.After(now) {
			list = append(list, a.Partition)
		}
	}
	return list
}

// hasPartitionChoice says that a job does not run and may start in several partitions, so an update must name the
// partitions.
func (t *managedJob) hasPartitionChoice() bool {
	return t.State != slurm.Running && t.record.Own.Partition != ""
}

// candidatePartitions lists the partitions in which a job may start, in the order in which Slurm tries them; for a
// running job only the one in which it runs. Those that refused it are included.
func (t *managedJob) candidatePartitions() []string {
	if t.hasPartitionChoice() {
		return slurm.Partitions(t.record.Own.Partition)
	}
	return []string{t.Partition}
}

// openPartitions are those of the job's partitions in which this round may start it: without those that refused it
// lately. If all did, they are all, since an empty list would mean all managed nodes.
func (t *managedJob) openPartitions() []string {
	all := t.candidatePartitions()
	if open := slices.DeleteFunc(slices.Clone(all),
		func(part string) bool { return slices.Contains(t.closedPartitions, part) }); len(open) > 0 {
		return open
	}
	return all
}

// partitionList is the list of partitions that an update names if Slurm may choose among them; empty: the job has only
// one.
func (t *managedJob) partitionList() string {
	if !t.hasPartitionChoice() {
		return ""
	}
	return strings.Join(t.openPartitions(), ",")
}

// startsIn is the partition that is named in the update that starts a job on these nodes: the first that has all of
// them. Empty, so that the update names none: the job has only one partition, or none of them has all nodes.
func (s *sortedObservation) startsIn(t *managedJob, nodes []string) string {
	if t.record.Own.Partition == "" {
		return ""
	}
	for _, part := range t.openPartitions() {
		// A partition without an entry has all managed nodes.
		in := s.topology.parts[part]
		if in == nil || !slices.ContainsFunc(nodes, func(n string) bool { return !slices.Contains(in, n) }) {
			return part
		}
	}
	return ""
}

// partitionNodes lists the nodes of the partitions in which a job may start, ascending; nil: all managed nodes. A job
// on several nodes must get all of them in one partition, so for it one is chosen before planning: the first with
// enough free nodes, or else the one with most nodes.
func (s *sortedObservation) partitionNodes(t *managedJob) []string {
	if !t.hasPartitionChoice() {
		return s.topology.parts[t.Partition]
	}
	open := t.openPartitions()
	if len(open) > 1 && t.record.Own.Nodes > 1 {
		open = []string{s.partitionFor(t, open)}
	}
	if len(open) == 1 {
		return s.topology.parts[open[0]]
	}
	list := strings.Join(open, ",")
	if s.unions == nil {
		s.unions = map[string][]string{}
	}
	if _, known := s.unions[list]; !known {
		s.unions[list] = s.union(open)
	}
	return s.unions[list]
}

// union lists the nodes of these partitions, ascending; nil: all managed nodes, because one of them has all.
func (s *sortedObservation) union(partitions []string) []string {
	var union []string
	for _, part := range partitions {
		in := s.topology.parts[part]
		if in == nil {
			return nil
		}
		union = append(union, in...)
	}
	slices.Sort(union)
	return slices.Compact(union)
}

// partitionFor is the partition in which a job on several nodes is planned: the first that has enough free nodes for
// it, or else the one that has most nodes with enough GPUs.
func (s *sortedObservation) partitionFor(t *managedJob, open []string) string {
	best, most := open[0], -1
	for _, part := range open {
		able, free := s.countNodesFor(t, part)
		if free >= t.record.Own.Nodes {
			return part
		}
		if able > most {
			best, most = part, able
		}
	}
	return best
}

// countNodesFor is for how many nodes of a partition one node's part of the job fits by its GPUs: able counts those
// that have enough, free those that are open and have them unused. Cores and memory are left to the planner.
func (s *sortedObservation) countNodesFor(t *managedJob, part string) (able, free int) {
	own := &t.record.Own
	need := gres.Vector{GPUs: own.GPUs / max(1, own.Nodes)}
	for _, i := range s.topology.managed {
		n := &s.nodes[i]
		if !slices.Contains(n.Partitions, part) || own.GPUType != "" && own.GPUType != n.GPUType ||
			need.GPUs > n.Total.GPUs {
			continue
		}
		able++
		if n.Closed == "" && need.GPUs <= n.Total.GPUs-n.Allocated.GPUs {
			free++
		}
	}
	return able, free
}
