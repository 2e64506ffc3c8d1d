package trace

// Dropped counts the jobs of a log that were left out of the trace for one reason.
type Dropped struct {
	Why   string `json:"why"`   // a phrase that completes "82 jobs: …": "no GPU", "never started"
	Count int    `json:"count"` // ≥ 1
}

// Adjusted counts the jobs that differ in the trace from the log in one way.
type Adjusted struct {
	How   string `json:"how"`   // a phrase that completes "82 jobs: …": "a share of a GPU taken for a whole one"
	Count int    `json:"count"` // ≥ 1
}

// tally counts jobs by reason, in the order in which reasons first occur.
type tally struct {
	reasons []string
	counts  map[string]int
}

// add counts one job with this reason.
func (t *tally) add(reason string) {
	if t.counts == nil {
		t.counts = map[string]int{}
	}
	if t.counts[reason] == 0 {
		t.reasons = append(t.reasons, reason)
	}
	t.counts[reason]++
}

// dropped lists the counts as jobs that were left out.
func (t *tally) dropped() []Dropped {
	var list []Dropped
	for _, reason := range t.reasons {
		list = append(list, Dropped{reason, t.counts[reason]})
	}
	return list
}

// adjusted lists the counts as jobs that were changed.
func (t *tally) adjusted() []Adjusted {
	var list []Adjusted
	for _, reason := range t.reasons {
		list = append(list, Adjusted{reason, t.counts[reason]})
	}
	return list
}
