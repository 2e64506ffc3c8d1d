package bridge

import (
	"slices"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// A job of several partitions (-p a,b) may use the nodes of all of them, and starts in one: the update that starts it
// names that one beside the nodes. Slurm would try one after the other, and what a job that names its nodes does not
// get in the first it keeps from the second until backfill looks (tried on 24.11): seconds become half a minute. Its
// user's own list is restored as any part of the request is.

// partitions are the names in a list as Slurm writes one.
func partitions(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}

// Several is the list when it names more than one partition; otherwise empty. It is what Request.Partition says of a
// job that is in these.
func Several(list string) string {
	if strings.Contains(list, ",") {
		return list
	}
	return ""
}

// SamePartitions says that two lists have the same names: Slurm puts them into an order of its own.
func SamePartitions(a, b string) bool {
	return a == b || slices.Equal(sortedPartitions(a), sortedPartitions(b))
}

func sortedPartitions(list string) []string {
	names := partitions(list)
	slices.Sort(names)
	return slices.Compact(names)
}

// manages says that all of a list of partitions are managed. A job that could start in another one is Slurm's.
func (r *Runner) manages(list string) bool {
	for part := range strings.SplitSeq(list, ",") {
		if !slices.Contains(r.Settings.Partitions, part) {
			return false
		}
	}
	return true
}

// follow takes over what the last look shows: that the job gets whole nodes, and that an administrator moved it, where
// it is in a partition that its user did not name.
func (r *Record) follow(j *Job) {
	if r == nil {
		return
	}
	if r.Whole = j.Whole; j.Partition == r.Own.Partition {
		return
	}
	own := partitions(r.Own.Partition)
	if slices.ContainsFunc(partitions(j.Partition), func(part string) bool { return !slices.Contains(own, part) }) {
		r.Own.Partition = j.Request.Partition
	}
}

// Avoided is a partition of several in which Slurm did not start the job although it could have.
type Avoided struct {
	Partition string    `json:"partition"`
	Until     time.Time `json:"until"`
}

// avoid notes that one refused the job, and says whether another is left to it: then the refusal is not the job's.
func (t *managedJob) avoid(partition, reason string, now time.Time) bool {
	if !slices.Contains(t.choice(), partition) || len(t.choice()) < 2 {
		return false
	}
	until := now.Add(forgotten)
	if isLimit(reason) {
		until = now.Add(lastProbe)
	}
	r := t.record
	r.Avoids = slices.DeleteFunc(
		r.Avoids,
		func(a Avoided) bool { return a.Partition == partition || !a.Until.After(now) },
	)
	r.Avoids = append(r.Avoids, Avoided{partition, until})
	return len(t.record.avoided(now)) < len(t.choice())
}

// avoided lists the partitions that are not tried at a moment.
func (r *Record) avoided(now time.Time) []string {
	var list []string
	for _, a := range r.Avoids {
		if a.Until.After(now) {
			list = append(list, a.Partition)
		}
	}
	return list
}

// chooses says that a job may start in several partitions. One that runs stays in its own.
func (t *managedJob) chooses() bool { return t.State != Running && t.record.Own.Partition != "" }

// choice lists the partitions that a job may start in, in the order in which Slurm tries them.
func (t *managedJob) choice() []string {
	if t.chooses() {
		return partitions(t.record.Own.Partition)
	}
	return []string{t.Partition}
}

// open are those of them in which it may start now: where none is, all are.
func (t *managedJob) open() []string {
	all := t.choice()
	if open := slices.DeleteFunc(slices.Clone(all),
		func(part string) bool { return slices.Contains(t.shut, part) }); len(open) > 0 {
		return open
	}
	return all
}

// listed is what an update says of the partitions of a job that Slurm may start in any of these; empty: nothing, it has
// just the one.
func (t *managedJob) listed() string {
	if !t.chooses() {
		return ""
	}
	return strings.Join(t.open(), ",")
}

// startsIn is the partition in which a job starts on these nodes; empty where it has no choice, or where none has them
// all, as when its user named nodes of several.
func (s *scene) startsIn(t *managedJob, nodes []string) string {
	if t.record.Own.Partition == "" {
		return ""
	}
	for _, part := range t.open() {
		in := s.topology.parts[part]
		if in == nil || !slices.ContainsFunc(nodes, func(n string) bool { return !slices.Contains(in, n) }) {
			return part
		}
	}
	return ""
}

// within lists the nodes of the partitions that a job may start in; nil: any managed one. The nodes of a gang are of
// one partition: the first that has enough of them free, or else the one that has the most.
func (s *scene) within(t *managedJob) []string {
	if !t.chooses() {
		return s.topology.parts[t.Partition]
	}
	open := t.open()
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

// union lists the nodes of these partitions; nil: any managed one.
func (s *scene) union(partitions []string) []string {
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

func (s *scene) roomiest(t *managedJob, open []string) string {
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

// roomIn counts the nodes of a partition that have GPUs enough for one of a gang's, and those that have them free.
func (s *scene) roomIn(t *managedJob, part string) (able, free int) {
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
