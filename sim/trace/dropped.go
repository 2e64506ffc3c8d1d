package trace

// Dropped says how many jobs of a log were left out, and why.
type Dropped struct {
	Why   string // ends the sentence "left out: …", in small letters: more than 16 GPUs
	Count int
}
