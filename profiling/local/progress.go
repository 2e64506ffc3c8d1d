package local

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Pattern finds iterations in what a trainer prints. Its group "iteration", or else its first group, is the number
// done. If that falls to less than half, a new epoch has begun, and counting goes on from what was done before.
type Pattern struct {
	Name string
	at   *regexp.Regexp
	in   int // the group's index
}

// readyMade are the ready-made patterns. Lightning and Hugging Face's Trainer print tqdm's bar, too, after a
// description.
var readyMade = []struct{ name, pattern string }{
	{"tqdm", `(?:^|[\s|])(?P<iteration>\d+)(?:/(?:\d+|\?)|it) \[\d`},
	{"lightning", `Epoch \d+.*\s(?P<iteration>\d+)/(?:\d+|\?) \[\d`},
	{"huggingface", `(?:^|[\s|])(?P<iteration>\d+)/\d+ \[\d`},
	{"torchvision", `Epoch: \[\d+\]\s*\[\s*(?P<iteration>\d+)/\d+\]`},
	{"json", `"(?:iteration|iterations|step|global_step)"\s*:\s*(?P<iteration>\d+)`},
	{"step", `(?i)\b(?:step|iter|iteration)\b[\s:=#\[]*(?P<iteration>\d+)`},
}

// Patterns returns the names of the ready-made patterns.
func Patterns() (names []string) {
	for _, p := range readyMade {
		names = append(names, p.name)
	}
	return names
}

// maxPattern is longer than any sensible pattern, bytes.
const maxPattern = 1024

// ParsePattern parses the name of a ready-made pattern, or a regular expression with a group.
func ParsePattern(text string) (*Pattern, error) {
	name := text
	for _, p := range readyMade {
		if p.name == text {
			text = p.pattern
		}
	}
	at, err := regexp.Compile(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%.80q: want one of %s, or a regular expression: %w", name,
			strings.Join(Patterns(), ", "), err)
	case len(text) > maxPattern || at.NumSubexp() == 0:
		return nil,
			fmt.Errorf(
				"%.80q: want one of %s, or a regular expression with the iterations in parentheses, as step (\\d+)",
				name,
				strings.Join(Patterns(), ", "))
	}
	return &Pattern{name, at, max(1, at.SubexpIndex("iteration"))}, nil
}

// find returns the last number of iterations in a line.
func (p *Pattern) find(line string) (int64, bool) {
	all := p.at.FindAllStringSubmatch(line, -1)
	for _, match := range slices.Backward(all) {
		if n, err := strconv.ParseInt(match[p.in], 10, 64); err == nil && n >= 0 {
			return n, true
		}
	}
	return 0, false
}

// counter turns the iteration numbers that a trainer prints into a number that never falls.
type counter struct {
	before, last int64 // before: of earlier epochs; last: of this one
	said         bool
}

// say takes a number that the trainer printed. One that fell, but not to less than half, is no new epoch but comes from
// a rank that is a step behind and prints to the same place.
func (c *counter) say(n int64) {
	c.said = true
	switch {
	case n < c.last/2:
		c.before += c.last
	case n < c.last:
		return
	}
	c.last = n
}

func (c *counter) total() int64 { return c.before + c.last }

// reported parses a line of a progress file: {"iterations": 17, …} as python/synergy writes it, or a number, followed
// by anything.
func reported(text string) (int64, bool) {
	var said struct {
		Iterations *int64 `json:"iterations"`
	}
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "{") {
		err := json.Unmarshal([]byte(text), &said)
		return deref(said.Iterations), err == nil && said.Iterations != nil && *said.Iterations >= 0
	}
	digits := text
	if end := strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
		digits = text[:end]
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	return n, err == nil
}

func deref(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}
