package outcome

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// axis is one property in which the runs of an experiment may differ.
type axis struct {
	column string // name in files
	title  string // name in tables
	unit   string
	value  func(s Setting) string // empty: the property does not apply
}

// fixedAxes are the axes that are shown even if all runs agree in them.
var fixedAxes = []string{"policy", "allocator"}

// axes returns all axes in the order in which files and tables show them.
func axes() []axis {
	return []axis{
		{"engine", "engine", "", func(s Setting) string { return named(s.Engine) }},
		{"policy", "policy", "", func(s Setting) string { return named(s.Policy) }},
		{"allocator", "allocator", "", func(s Setting) string { return named(s.Allocator) }},
		{"placement", "placement", "", func(s Setting) string { return named(s.Placement) }},
		{"cluster", "cluster", "", func(s Setting) string { return named(s.Cluster) }},
		{"ratio", "ratio", "cores/GPU", func(s Setting) string { return whenPositive(float64(s.Ratio)) }},
		{"workload", "workload", "", func(s Setting) string { return named(s.Workload) }},
		{"static", "arrivals", "", func(s Setting) string { return whenTrue(s.Static, "static") }},
		{"load", "load", "jobs/h", func(s Setting) string { return whenPositive(s.Load) }},
		{"split", "split", "", func(s Setting) string { return named(s.Split) }},
		{"seed", "seed", "", func(s Setting) string { return strconv.FormatInt(s.Seed, 10) }},
		{"window", "figures of", "", func(s Setting) string { return s.Window.String() }},
		{"round_s", "round", "s", func(s Setting) string { return decimal(s.RoundSeconds) }},
		{"restart_s", "restart", "s", func(s Setting) string { return decimal(s.RestartSeconds) }},
		{"until_s", "until", "s", func(s Setting) string { return whenPositive(s.Until) }},
		{"at_rounds", "ends", "", func(s Setting) string { return whenTrue(s.AtRounds, "at rounds") }},
		{"outside", "opting in", "%", func(s Setting) string { return percentWithout(s.Outside) }},
		{"unsaved", "with checkpoints", "%", func(s Setting) string { return percentWithout(s.Unsaved) }},
		{"sharing", "sharing", "%", func(s Setting) string { return whenPositive(100 * s.Sharing) }},
		{"share_mode", "shared by", "", func(s Setting) string { return named(s.ShareMode) }},
		{"strict", "replay", "", func(s Setting) string { return whenTrue(s.Strict, "strict") }},
		{"prioritize", "priority", "", func(s Setting) string { return whenTrue(s.Prioritize, "window") }},
	}
}

// differing returns the axes in which runs differ, and the fixed axes, which are shown in any case.
func differing(runs []Run) (found []axis) {
	for _, a := range axes() {
		if slices.Contains(fixedAxes, a.column) || a.differs(runs) {
			found = append(found, a)
		}
	}
	return found
}

// differs says whether the runs have different values on this axis.
func (a axis) differs(runs []Run) bool {
	return slices.ContainsFunc(runs, func(r Run) bool { return a.value(r.Setting) != a.value(runs[0].Setting) })
}

// commonWords describes in one line what all runs have in common, without the fixed axes, which have columns of their
// own. There must be at least one run.
func commonWords(runs []Run) string {
	var words []string
	for _, a := range axes() {
		if value := a.value(runs[0].Setting); value != "" && !slices.Contains(fixedAxes, a.column) && !a.differs(runs) {
			words = append(words, a.say(value))
		}
	}
	return strings.Join(words, ", ")
}

// say is a value with the title and unit of the axis.
func (a axis) say(value string) string {
	if a.unit == "" {
		return a.title + " " + value
	}
	return a.title + " " + value + " " + a.unit
}

// name is a short name of a run, for errors.
func (s Setting) name() string {
	name := named(s.Policy) + " × " + named(s.Allocator)
	if s.Placement != "" {
		name += " × " + named(s.Placement)
	}
	if s.Load > 0 {
		name += fmt.Sprintf(" at %s jobs/h", decimal(s.Load))
	}
	return name
}

// whenPositive formats a number above 0. Any other number stands for a property that does not apply, and the text is
// empty.
func whenPositive(x float64) string {
	if x <= 0 {
		return ""
	}
	return decimal(x)
}

// percentWithout is the percentage of the jobs that are not in this part, such as those that opt in for the part that
// does not. It is empty if the part is 0, which is the usual case. It has six digits, which hide the error of 1-part.
func percentWithout(part float64) string {
	if part <= 0 {
		return ""
	}
	return strconv.FormatFloat(100*(1-part), 'g', 6, 64)
}

// whenTrue is the word if the property applies; otherwise empty.
func whenTrue(said bool, word string) string {
	if !said {
		return ""
	}
	return word
}

// decimal is the shortest text that parses to x again.
func decimal(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
