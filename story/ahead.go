package story

import (
	"cmp"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
)

// Ahead lists the jobs that wait for room and come before a waiting job in the policy's order, the next one first: free
// nodes go to them first. mine is the wait of the job that is asked about. Jobs that wait for something else are not in
// its way, and jobs started in the round no longer wait.
func Ahead(waits []bridge.Wait, mine *bridge.Wait) []int {
	var before []*bridge.Wait
	for i := range waits {
		w := &waits[i]
		if w.Place > 0 && w.Place < mine.Place && (w.Reason == bridge.ForRoom || w.Reason == bridge.ByOrder) {
			before = append(before, w)
		}
	}
	slices.SortFunc(before, func(a, b *bridge.Wait) int {
		return cmp.Or(cmp.Compare(a.Place, b.Place), cmp.Compare(a.Job, b.Job))
	})
	var jobs []int
	for _, w := range before {
		jobs = append(jobs, w.Job)
	}
	return jobs
}

// maxAheadListed is how many of the jobs ahead are listed by ID.
const maxAheadListed = 5

// firstAhead returns the first maxAheadListed of the jobs that Ahead lists.
func firstAhead(ahead []int) []int { return ahead[:min(len(ahead), maxAheadListed)] }
