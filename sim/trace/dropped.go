package trace

// Dropped says how many jobs of a log are not in the trace, and why.
type Dropped struct {
	Why   string // a phrase that completes "82 jobs: …": "no attempt", "fewer than one GPU"
	Count int    // ≥ 1
}
