package story

import (
	"cmp"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
)

// Ahead are the jobs that go before one that waits and wait for room as well, the next one first. Who waits for
// something else is in nobody's way, and who was started in the round is gone.
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

// namedAhead is how many of these are told by their numbers.
const namedAhead = 5

// next are the first of them.
func next(ahead []int) []int { return ahead[:min(len(ahead), namedAhead)] }
