package plugin

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/plugin/slurmpb"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
)

// lastSeen is the last observation that both sides have. Its owner keeps it as the base for differences; the other side
// names it by version. A side that has lost it sends or asks for all again.
type lastSeen struct {
	version int64 // 0: none
	nodes   []slurm.Node
	jobs    []*slurm.Job
}

func nameOf(n slurm.Node) string { return n.Name }
func idOf(j *slurm.Job) int      { return j.ID }

// show stores an observation and makes the answer for a caller that has this version: only the differences if it is the
// last one, since few of ten thousand jobs change, and else all.
func (s *lastSeen) show(seen slurm.Observed, version int64) *slurmpb.ObserveResponse {
	before := *s
	if before.version == 0 { // random start, so that versions of an earlier process do not match
		before.version = rand.Int64N(1 << 60)
	}
	*s = lastSeen{before.version + 1, seen.Nodes, seen.Jobs}
	answer := &slurmpb.ObserveResponse{Version: s.version, AtNs: timeOut(seen.At)}
	nodes, jobs := seen.Nodes, seen.Jobs
	if version != 0 && version == before.version {
		answer.Base = version
		var gone []int
		nodes, answer.NodesGone = differences(before.nodes, seen.Nodes, nameOf, sameNode)
		jobs, gone = differences(before.jobs, seen.Jobs, idOf, sameJob)
		for _, id := range gone {
			answer.JobsGone = append(answer.JobsGone, int64(id))
		}
	}
	for i := range nodes {
		answer.Nodes = append(answer.Nodes, nodeOut(&nodes[i]))
	}
	for _, j := range jobs {
		answer.Jobs = append(answer.Jobs, jobOut(j))
	}
	for i := range seen.Reservations {
		answer.Reservations = append(answer.Reservations, reservationOut(&seen.Reservations[i]))
	}
	return answer
}

// differences compares the new list has with the old list had. It returns the elements that are new or changed, and the
// keys of the elements that are gone. Both lists must ascend in key. merge applies them.
func differences[T any, K cmp.Ordered](had, has []T, key func(T) K, same func(a, b T) bool) (changed []T, gone []K) {
	for len(had) > 0 || len(has) > 0 {
		switch {
		case len(has) == 0 || len(had) > 0 && key(had[0]) < key(has[0]):
			gone, had = append(gone, key(had[0])), had[1:]
		case len(had) == 0 || key(has[0]) < key(had[0]):
			changed, has = append(changed, has[0]), has[1:]
		default:
			if !same(had[0], has[0]) {
				changed = append(changed, has[0])
			}
			had, has = had[1:], has[1:]
		}
	}
	return changed, gone
}

// sameJob compares pointers, which slurm.Observed promises to keep for unchanged jobs.
func sameJob(a, b *slurm.Job) bool { return a == b }

// sameNode compares all fields: a field that is missing here would never be sent when it alone changes.
func sameNode(a, b slurm.Node) bool {
	return a.Name == b.Name && a.GPUType == b.GPUType && a.Total == b.Total && a.Allocated == b.Allocated &&
		a.Completing == b.Completing &&
		a.Closed == b.Closed && slices.Equal(a.Features, b.Features) && slices.Equal(a.Partitions, b.Partitions) &&
		slices.Equal(a.Devices, b.Devices) && slices.Equal(a.Types, b.Types)
}

// take applies an answer to the stored observation, and stores the result. After an error nothing is stored, so the
// next request has version 0 and asks for all.
func (s *lastSeen) take(answer *slurmpb.ObserveResponse) (seen slurm.Observed, err error) {
	had := *s
	*s = lastSeen{}
	seen.At = timeIn(answer.GetAtNs())
	switch base := answer.GetBase(); {
	case seen.At.IsZero():
		return seen, errors.New("at_ns is 0: want the time by the workload manager's clock")
	case base != 0 && base != had.version:
		return seen, fmt.Errorf("base %d: want the version %d that was asked about, or 0", base, had.version)
	case base == 0 && len(answer.GetNodesGone())+len(answer.GetJobsGone()) > 0:
		return seen, errors.New("something is gone from an answer that says all")
	case base == 0:
		had = lastSeen{}
	}
	if seen.Nodes, err = nodesIn(answer.GetNodes()); err != nil {
		return seen, err
	}
	if seen.Jobs, err = jobsIn(answer.GetJobs()); err != nil {
		return seen, err
	}
	if seen.Reservations, err = reservationsIn(answer.GetReservations()); err != nil {
		return seen, err
	}
	var gone []int
	for _, id := range answer.GetJobsGone() {
		gone = append(gone, int(id))
	}
	if seen.Nodes, err = merge(had.nodes, seen.Nodes, answer.GetNodesGone(), nameOf); err != nil {
		return seen, fmt.Errorf("nodes: %w", err)
	}
	if seen.Jobs, err = merge(had.jobs, seen.Jobs, gone, idOf); err != nil {
		return seen, fmt.Errorf("jobs: %w", err)
	}
	*s = lastSeen{answer.GetVersion(), seen.Nodes, seen.Jobs}
	return seen, nil
}

// merge makes a new list from the last one, in which changed elements are replaced or added and gone ones left out. All
// lists must ascend in key. It is an error if something is said to be gone that was not there or is also said to be
// changed. had is not modified, since it was handed out.
func merge[T any, K cmp.Ordered](had, changed []T, gone []K, key func(T) K) ([]T, error) {
	if len(changed)+len(gone) == 0 {
		return had, nil
	}
	merged := make([]T, 0, len(had)+len(changed))
	for len(had) > 0 || len(changed) > 0 {
		switch {
		case len(had) == 0 || len(changed) > 0 && key(changed[0]) < key(had[0]):
			merged, changed = append(merged, changed[0]), changed[1:]
		case len(changed) > 0 && key(changed[0]) == key(had[0]):
			merged, had, changed = append(merged, changed[0]), had[1:], changed[1:]
		case len(gone) > 0 && gone[0] == key(had[0]):
			had, gone = had[1:], gone[1:]
		default:
			merged, had = append(merged, had[0]), had[1:]
		}
	}
	if len(gone) > 0 {
		return nil, fmt.Errorf("%v is said to be gone: want ascending what was there and is not said to be different",
			gone[0])
	}
	return merged, nil
}
