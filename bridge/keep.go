package bridge

// Keep says what of a user's explicit request is the least that his job runs with, where his own words do not say so.
type Keep struct {
	Cores  bool // cores that were asked for
	Memory bool // memory that was asked for
	// cores and memory of a job whose script sizes its steps in numbers: those would fail, or wait for ever, in a
	// smaller one
	Steps bool
}

// Claim is what the user's own word says about his request for cores or memory.
type Claim uint8

// What the words synergy-cores and synergy-memory say.
const (
	Unsaid Claim = iota // as the administrator's key says
	Keeps               // what was asked for is the least
	Gives               // the profile decides
)

// Or is whether the request is kept, where without a word it is as the site says.
func (c Claim) Or(site bool) bool {
	if c == Unsaid {
		return site
	}
	return c == Keeps
}
