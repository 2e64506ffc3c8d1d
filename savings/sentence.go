package savings

import (
	"fmt"
	"math"
	"strings"
)

// Sentence summarises the sums in one or two sentences. In the shadow it says what would have been. over names the
// period, such as "from Monday to Friday".
func (s Sums) Sentence(shadow bool, over string) string {
	if s.Seconds <= 0 {
		return fmt.Sprintf("Nothing was booked %s.", over)
	}
	if s.Known <= 0 {
		return fmt.Sprintf("Nothing is claimed %s: no job that ran had a profile.", over)
	}
	if !shadow {
		return fmt.Sprintf("In the %s GPU-hours that jobs with known profiles held %s they trained %s %s than with "+
			"what their users had asked for; %s GPU-hours count as saved.", grouped(s.Known/hour), over,
			percent(math.Abs(s.Gain()-1)), moreOr(s.Gain() >= 1, "less"), grouped(s.Saved/hour))
	}
	return fmt.Sprintf("What jobs with known profiles did in %s GPU-hours %s would have taken %s, sized by their "+
		"profiles: %s GPU-hours (%s) %s.", grouped(s.Known/hour), over, grouped((s.Known-s.Saved)/hour),
		grouped(math.Abs(s.Saved)/hour), percent(math.Abs(s.Saved)/s.Known), moreOr(s.Saved < 0, "less")) +
		s.supposing()
}

// supposing says what resizing running jobs would add, if that was booked. It names for how much of Known, unless only
// rounding, less than a GPU-second, is missing.
func (s Sums) supposing() string {
	if s.Supposed <= 0 {
		return ""
	}
	part := ""
	if s.Supposed < s.Known-1 {
		part = fmt.Sprintf(" (booked for %s of them)", grouped(s.Supposed/hour))
	}
	return fmt.Sprintf(" If no job could be sized again after its start it would be %s GPU-hours less, and if every "+
		"job could, %s%s.", grouped(s.SavedWithout/hour), grouped(s.SavedWith/hour), part)
}

// moreOr returns "more" if more holds, or else the other word.
func moreOr(more bool, other string) string {
	if more {
		return "more"
	}
	return other
}

const hour = 3600

// Words says how certain the sums are. looked is the part of the period that was observed.
func (c Certainty) Words(looked float64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Profiles are known for %s of the GPU-hours that jobs held; %s of the time was looked at. ",
		percent(c.Matched), percent(min(1, looked)))
	if !c.Checked {
		fmt.Fprintf(&b, "By progress it is not checked: of %d windows that jobs reported, at least %d would say "+
			"something.", c.Checks, enough)
		return b.String()
	}
	direction := "above"
	if c.Error < 0 {
		direction = "below"
	}
	fmt.Fprintf(&b, "In %d windows of progress jobs ran %s %s what their profiles say in the mean, each %s off: so it "+
		"is ", c.Checks, percent(math.Abs(c.Error)), direction, percent(c.Spread))
	if c.Spread >= 1 {
		return b.String() + "not known how much of it is true."
	}
	fmt.Fprintf(&b, "between %s and %s GPU-hours.", grouped(c.Low/hour), grouped(c.High/hour))
	return b.String()
}

func percent(part float64) string { return fmt.Sprintf("%.1f %%", 100*part) }

// grouped formats a number with commas (12,345), and with one decimal below 100.
func grouped(x float64) string {
	if math.Abs(x) < 100 {
		return fmt.Sprintf("%.1f", x)
	}
	digits := fmt.Sprintf("%.0f", math.Abs(x))
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	if x < 0 {
		return "-" + digits
	}
	return digits
}
