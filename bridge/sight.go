package bridge

import (
	"sort"
	"strings"
	"time"
)

// sight is what was seen last while a round acts.
type sight struct {
	at     time.Time     // by Slurm's clock
	looked time.Duration // when the look began, by ours; 0: the one that the plan is made of
	jobs   []*Job        // ascending in ID
	nodes  []Node        // ascending in name

	reservations []Reservation // ascending in name
}

// seenNow is the job as last seen; the zero job where it is not there any more.
func (s *sight) seenNow(job int) *Job {
	j, _ := s.find(job)
	return j
}

// find also tells whether the job is there.
func (s *sight) find(job int) (*Job, bool) {
	k, found := sort.Find(len(s.jobs), func(k int) int { return job - s.jobs[k].ID })
	if !found {
		return &Job{}, false
	}
	return s.jobs[k], true
}

// completing says that something is being torn down on a node.
func (s *sight) completing(name string) bool {
	k, found := sort.Find(len(s.nodes), func(k int) int { return strings.Compare(name, s.nodes[k].Name) })
	return found && s.nodes[k].Completing
}
