package bridge

// Keep says which explicit requests are lower bounds where the job's own directives do not say so.
type Keep struct {
	Cores  bool // requested cores
	Memory bool // requested memory
	// Steps: cores and memory of a job whose script gives sizes of its steps in numbers. In a smaller job these steps
	// would fail or wait for ever.
	Steps bool
}

// Claim is what the user's directive says about the request for cores or memory.
type Claim uint8

// The values of synergy-cores and synergy-memory.
const (
	Unsaid Claim = iota // no directive: the site's setting counts
	Keeps               // the request is a lower bound
	Gives               // the profile decides
)

// Or says whether the request is kept; without a directive the site's setting decides.
func (c Claim) Or(site bool) bool {
	if c == Unsaid {
		return site
	}
	return c == Keeps
}
