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

// manages says that all partitions of a list are managed. A job that could start in another one is Slurm's.
func (r *Runner) manages(list string) bool {
	for part := range strings.SplitSeq(list, ",") {
		if !slices.Contains(r.Settings.Partitions, part) {
			return false
		}
	}
	return true
}

// syncWithJob brings the record in line with the last observation: whether the job gets whole nodes, and whether an
// administrator moved it to a partition that its user did not name. That partition is then the one that is restored. A
// list that a round narrowed names only the user's own, and changes nothing.
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

// avoid notes that a partition refused the job for now. It reports whether the job may start in another partition; then
// the refusal does not count against the job. The partition is avoided for maxRetryDelay if a limit was the reason,
// which passes when other jobs end, and otherwise for refusalLifetime. Notes that no longer hold are dropped.
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

// avoided lists the partitions that are not tried at now.
func (r *Record) avoided(now time.Time) []string {
	var list []string
	for _, a := range r.Avoids {
		if a.Until.After(now) {
			list = append(list, a.Partition)
		}
	}
	return list
}

// hasPartitionChoice says that a job may start in several partitions. A running job stays in its own.
func (t *managedJob) hasPartitionChoice() bool {
	return t.State != slurm.Running && t.record.Own.Partition != ""
}

// candidatePartitions lists the partitions in which a job may start, in the order in which Slurm tries them.
func (t *managedJob) candidatePartitions() []string {
	if t.hasPartitionChoice() {
		return slurm.Partitions(t.record.Own.Partition)
	}
	return []string{t.Partition}
}

// openPartitions are those of the job's partitions in which it may start in this round. If it may start in none, they
// are all, since an empty list would mean all managed nodes.
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

// startsIn is the partition in which a job starts on these nodes. It is empty if the job has one partition only, or if
// none of its partitions has all of these nodes.
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

// partitionNodes lists the nodes of the partitions in which a job may start; nil: all managed nodes. The nodes of a
// gang must be in one partition: the first with enough free nodes, or else the one with most nodes.
func (s *sortedObservation) partitionNodes(t *managedJob) []string {
	if !t.hasPartitionChoice() {
		return s.topology.parts[t.Partition]
	}
	open := t.openPartitions()
	if len(open) > 1 && t.record.Own.Nodes > 1 {
		open = []string{s.roomiest(t, open)}
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

// union lists the nodes of these partitions; nil: all managed nodes.
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

// roomiest is the first partition that has enough free nodes for a gang, or else the one with most nodes for it.
func (s *sortedObservation) roomiest(t *managedJob, open []string) string {
	best, most := open[0], -1
	for _, part := range open {
		able, free := s.roomIn(t, part)
		if free >= t.record.Own.Nodes {
			return part
		}
		if able > most {
			best, most = part, able
		}
	}
	return best
}

// roomIn counts the nodes of a partition with enough GPUs for one part of a gang, and those on which they are free.
func (s *sortedObservation) roomIn(t *managedJob, part string) (able, free int) {
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
