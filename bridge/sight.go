package bridge

import (
	"sort"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
)

// lastObservation is the last observation while a round acts. Steps are judged by it, and not by the older observation
// from which the plan was made, since Slurm may have started or ended jobs meanwhile.
type lastObservation struct {
	at     time.Time     // by Slurm's clock
	looked time.Duration // when it began, on the host's monotonic clock; 0: it is the one from which the plan was made
	jobs   []*slurm.Job  // ascending in ID
	nodes  []slurm.Node  // ascending in name

	reservations []slurm.Reservation // ascending in name
}

// seenNow is the job as last observed. For a job that is gone it is an empty job, whose state is neither pending nor
// running.
func (s *lastObservation) seenNow(job int) *slurm.Job {
	j, _ := s.find(job)
	return j
}

// find is the job as last observed, and true; an empty job and false if it is gone.
func (s *lastObservation) find(job int) (*slurm.Job, bool) {
	k, found := sort.Find(len(s.jobs), func(k int) int { return job - s.jobs[k].ID })
	if !found {
		return &slurm.Job{}, false
	}
	return s.jobs[k], true
}

// completing says that a job is being cleaned up on a node; Slurm starts nothing there until that is over.
func (s *lastObservation) completing(name string) bool {
	k, found := sort.Find(len(s.nodes), func(k int) int { return strings.Compare(name, s.nodes[k].Name) })
	return found && s.nodes[k].Completing
}
