package rollout

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
)

// What a stage takes is in two files: the section canary of the configuration, and --shadow among the flags. They are
// edited as text, so that comments and order stay; whoever writes them has the daemon read them first.

const section = "canary:"

// CanaryLine is the line of the configuration that says it.
func CanaryLine(c bridge.Canary) string {
	var keys []string
	if len(c.Accounts) > 0 {
		keys = append(keys, "accounts: ["+strings.Join(c.Accounts, ", ")+"]")
	}
	if len(c.Partitions) > 0 {
		keys = append(keys, "partitions: ["+strings.Join(c.Partitions, ", ")+"]")
	}
	return section + " {" + strings.Join(keys, ", ") + "}"
}

// HasCanary says that a configuration has the section.
func HasCanary(text string) bool {
	from, _ := canaryIn(strings.SplitAfter(text, "\n"))
	return from >= 0
}

// canaryIn is the section among lines: from, and behind its end; -1 where there is none.
func canaryIn(lines []string) (from, end int) {
	from = slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, section) })
	if from < 0 {
		return -1, -1
	}
	end = from + 1
	for end < len(lines) && (strings.HasPrefix(lines[end], " ") || strings.HasPrefix(lines[end], "\t")) {
		end++
	}
	return from, end
}

// WithCanary is a configuration with this section in place of what it has; the zero one takes it away. It goes behind
// partitions, where it is new.
func WithCanary(text string, c bridge.Canary) string {
	lines := strings.SplitAfter(text, "\n")
	if last := len(lines) - 1; lines[last] == "" {
		lines = lines[:last]
	} else {
		lines[last] += "\n"
	}
	at, end := canaryIn(lines)
	if at < 0 {
		at = 1 + slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "partitions:") })
		for at > 0 && at < len(lines) && strings.ContainsAny(lines[at][:1], " \t-") { // a list over several lines
			at++
		}
		end = at
	}
	var own []string
	if !c.IsZero() {
		own = []string{CanaryLine(c) + "\n"}
	}
	return strings.Join(slices.Replace(lines, at, end, own...), "")
}

// The flags in the file that the unit reads.
const (
	flagsKey   = "SYNERGY_FLAGS="
	shadowFlag = "--shadow"
)

// Flags are those of the daemon in the file that its unit reads.
func Flags(text string) ([]string, error) {
	_, flags, err := flagsIn(text)
	return flags, err
}

func flagsIn(text string) (line int, flags []string, err error) {
	line = -1
	for i, l := range strings.Split(text, "\n") {
		value, found := strings.CutPrefix(l, flagsKey)
		switch {
		case !found:
			continue
		case line >= 0:
			return -1, nil, fmt.Errorf("line %d: %s stands there twice: remove one", i+1, flagsKey)
		}
		line = i
		value = strings.TrimSpace(value)
		if inner, quoted := strings.CutPrefix(value, `"`); quoted {
			value, quoted = strings.CutSuffix(inner, `"`)
			if !quoted {
				return -1, nil, fmt.Errorf("line %d: a quote is not closed", i+1)
			}
		}
		if strings.ContainsAny(value, "'\"\\$`") {
			return -1, nil, fmt.Errorf("line %d: flags with quotes, backslashes or variables in them are not "+
				"understood here: edit them by hand", i+1)
		}
		flags = strings.Fields(value)
	}
	if line < 0 {
		return -1, nil, errors.New("has no line " + flagsKey)
	}
	return line, flags, nil
}

// Shadowed says that these flags keep the daemon in the shadow.
func Shadowed(flags []string) bool {
	on := false
	for _, flag := range flags { // said again, it counts as said last
		switch flag {
		case shadowFlag, shadowFlag + "=true":
			on = true
		case shadowFlag + "=false":
			on = false
		}
	}
	return on
}

// WithShadow is the file of the flags with the daemon in the shadow.
func WithShadow(text string) (string, error) {
	return reflagged(text, func(flags []string) []string { return append(flags, shadowFlag) })
}

// WithoutShadow is the file of the flags with the daemon out of the shadow.
func WithoutShadow(text string) (string, error) {
	return reflagged(text, func(flags []string) []string { return flags })
}

// reflagged writes the flags anew, without what they say of the shadow and with what more adds.
func reflagged(text string, more func([]string) []string) (string, error) {
	at, flags, err := flagsIn(text)
	if err != nil {
		return "", err
	}
	flags = slices.DeleteFunc(flags, func(flag string) bool {
		return flag == shadowFlag || strings.HasPrefix(flag, shadowFlag+"=")
	})
	lines := strings.Split(text, "\n")
	lines[at] = flagsKey + `"` + strings.Join(more(flags), " ") + `"`
	return strings.Join(lines, "\n"), nil
}
