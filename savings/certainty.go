package savings

// Certainty says how far the sums can be believed.
type Certainty struct {
	Matched float64 // the part of the GPU-hours held by jobs with a known profile, 0 to 1
	Checks  int     // windows of progress that were compared with a profile
	Error   float64 // the mean deviation of measured speeds from the profiles': -0.03 is 3 % slower
	Spread  float64 // the mean absolute deviation of a single window
	// Low and High are Saved if all speeds that differ from those as asked were Spread slower or faster than the
	// profiles say. With too few windows both equal Saved.
	Low, High float64
	Checked   bool // there were enough windows for Low and High
}

// enough is how many windows of progress allow a statement about all jobs.
const enough = 10

// Certainty computes how far these sums can be believed. A Spread of 1 or more gives no bounds: jobs might then run at
// no speed at all.
func (s Sums) Certainty() Certainty {
	c := Certainty{Checks: s.Checks, Low: s.Saved, High: s.Saved, Checked: s.Checks >= enough}
	if all := s.Held + s.Unmatched; all > 0 {
		c.Matched = s.Known / all
	}
	if s.Checks > 0 {
		c.Error, c.Spread = s.Ran/float64(s.Checks)-1, s.Distance/float64(s.Checks)
	}
	if c.Checked && c.Spread < 1 {
		takes := s.Changed - s.Saved // GPU-seconds that the work takes with the granted sizes
		c.Low, c.High = s.Changed-takes/(1-c.Spread), s.Changed-takes/(1+c.Spread)
	}
	return c
}

// Gain is the speed of the jobs with known profiles with their granted sizes, relative to their speed as asked; 1 if
// there are none.
func (s Sums) Gain() float64 {
	if s.Asked <= 0 {
		return 1
	}
	return s.With / s.Asked
}
