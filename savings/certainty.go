package savings

// Certainty is what is known of how far the sums can be believed.
type Certainty struct {
	Matched float64 // the share of the GPU-hours held for which a profile is known, 0 to 1
	Checks  int     // windows of progress that were held against a profile
	Error   float64 // how far the speeds were from what was said, in the mean: -0.03 is 3 % slower
	Spread  float64 // how far a single one is from what was said, in the mean, either way
	// Low and High are Saved if every speed with what jobs are given, where that is another than they asked for, is
	// Spread slower, or faster, than the profile says; where too few were checked both are Saved.
	Low, High float64
	Checked   bool // enough windows for these
}

// enough is how many windows of progress say something about all.
const enough = 10

// Certainty is that of the sums.
func (s Sums) Certainty() Certainty {
	c := Certainty{Checks: s.Checks, Low: s.Saved, High: s.Saved, Checked: s.Checks >= enough}
	if all := s.Held + s.Unmatched; all > 0 {
		c.Matched = s.Known / all
	}
	if s.Checks > 0 {
		c.Error, c.Spread = s.Ran/float64(s.Checks)-1, s.Distance/float64(s.Checks)
	}
	if c.Checked && c.Spread < 1 {
		takes := s.Changed - s.Saved // GPU-seconds that the work takes with what jobs are given
		c.Low, c.High = s.Changed-takes/(1-c.Spread), s.Changed-takes/(1+c.Spread)
	}
	return c
}

// Gain is the speed of the known jobs with what they are given over that with what they asked for; 1 where there are
// none.
func (s Sums) Gain() float64 {
	if s.Asked <= 0 {
		return 1
	}
	return s.With / s.Asked
}
