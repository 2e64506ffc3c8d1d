package trace

// Dropped says how many jobs of a log are not in the trace, and why.
type Dropped struct {
	Why   string `json:"why"`   // a phrase that completes "82 jobs: …": "no GPU", "never started"
	Count int    `json:"count"` // ≥ 1
}

// Adjusted says how many jobs are in the trace otherwise than the log has them, and how.
type Adjusted struct {
	How   string `json:"how"`   // a phrase that completes "82 jobs: …": "a share of a GPU taken for a whole one"
	Count int    `json:"count"` // ≥ 1
}

// tally counts jobs by reasons, in the order in which reasons come up.
type tally struct {
	reasons []string
	counts  map[string]int
}

func (t *tally) add(reason string) {
	if t.counts == nil {
		t.counts = map[string]int{}
	}
	if t.counts[reason] == 0 {
		t.reasons = append(t.reasons, reason)
	}
	t.counts[reason]++
}

func (t *tally) dropped() []Dropped {
	var list []Dropped
	for _, reason := range t.reasons {
		list = append(list, Dropped{reason, t.counts[reason]})
	}
	return list
}

func (t *tally) adjusted() []Adjusted {
	var list []Adjusted
	for _, reason := range t.reasons {
		list = append(list, Adjusted{reason, t.counts[reason]})
	}
	return list
}
