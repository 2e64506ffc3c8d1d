package usage

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Unknown says that a command has none below it of that name, and what comes nearest.
func Unknown(c *cobra.Command, word string) error {
	var names []string
	for _, child := range c.Commands() {
		if child.IsAvailableCommand() {
			names = append(names, child.Name())
		}
	}
	behind := ""
	if strings.Contains(c.Use, " -- COMMAND") {
		behind = ", or -- COMMAND"
	}
	switch near := nearest(word, names); {
	case near != "":
		return wrong(c, "there is no command %.40q: did you mean %s %s?", word, c.CommandPath(), near)
	case len(names) == 0 || len(names) > fewCommands:
		return wrong(c, "there is no command %.40q: %s --help has all that there are", word, c.CommandPath())
	}
	return wrong(c, "there is no command %.40q: want %s%s", word, either(names), behind)
}

// fewCommands is how many are named in a sentence.
const fewCommands = 10

// either lists words of which one is wanted.
func either(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// Flag says what was wrong with a flag of a command, by the error of the set that read it.
func Flag(command string, set *pflag.FlagSet, err error) error {
	if absent, is := errors.AsType[*pflag.NotExistError](err); is {
		return Wrong{command, unknownFlag(command, set, absent)}
	}
	if bare, is := errors.AsType[*pflag.ValueRequiredError](err); is {
		value, _ := pflag.UnquoteUsage(bare.GetFlag())
		value = cmp.Or(typed[value], value)
		return Wrong{command, dashed(bare.GetFlag().Name) + ": wants its " + value + " behind it"}
	}
	if odd, is := errors.AsType[*pflag.InvalidValueError](err); is {
		text := wanted(odd)
		if own := fmt.Sprintf("%q", odd.GetValue()); !strings.HasPrefix(text, own) {
			text = brief(odd.GetValue()) + ": " + text
		}
		return Wrong{command, dashed(odd.GetFlag().Name) + " " + text}
	}
	if odd, is := errors.AsType[*pflag.InvalidSyntaxError](err); is {
		return Wrong{command, brief(odd.GetSpecifiedFlag()) + ": is no flag; " + command + " --help has all"}
	}
	return err
}

func unknownFlag(command string, set *pflag.FlagSet, absent *pflag.NotExistError) string {
	typed := absent.GetSpecifiedName()
	if strings.Trim(typed, "0123456789.") == "" {
		return "-" + typed + " is taken for a flag, and there is none: numbers are from 0"
	}
	if absent.GetSpecifiedShortnames() != "" {
		return "there is no flag -" + typed + ": " + command + " --help has all that there are"
	}
	var names []string
	set.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if near := nearest(typed, names); near != "" {
		return "there is no flag " + dashed(typed) + ": did you mean --" + near + "?"
	}
	return "there is no flag " + dashed(typed) + ": " + command + " --help has all that there are"
}

func dashed(name string) string { return "--" + strings.Trim(brief(name), `"`) }

// plain says what values of Go's own types want; flags of our own types say it themselves.
var plain = map[string]string{
	"bool":        "want true or false, or nothing behind it",
	"int":         "want a whole number, as 3",
	"int64":       "want a whole number, as 3",
	"uint64":      "want a whole number from 0, as 3",
	"uint":        "want a whole number from 0, as 3",
	"float64":     "want a number, as 0.5",
	"duration":    "want a time with its unit, as 90s, 5m or 1h30m",
	"intSlice":    "want whole numbers with commas between, as 1,3",
	"stringSlice": "want words with commas between",
}

// typed are names of Go's types, by which the value of a flag goes whose description names none.
var typed = map[string]string{"string": "word", "strings": "words", "int": "number", "uint": "number",
	"float": "number", "duration": "time"}

func wanted(odd *pflag.InvalidValueError) string {
	if text, known := plain[odd.GetFlag().Value.Type()]; known {
		return text
	}
	return errors.Unwrap(odd).Error()
}

// nearest is the name that was probably meant; empty: none.
func nearest(typed string, names []string) string {
	names = slices.Sorted(slices.Values(names))
	best, at := "", max(1, len(typed)/3)+1
	for _, name := range names {
		if d := distance(typed, name); d < at {
			best, at = name, d
		}
	}
	if k := slices.IndexFunc(names, func(n string) bool { return strings.HasPrefix(n, typed) }); best == "" &&
		len(typed) > 1 && k >= 0 {
		return names[k]
	}
	return best
}

// longestName is beyond what a person mistypes.
const longestName = 40

// distance counts letters that are to be put in, left out, replaced or changed with the next.
func distance(a, b string) int {
	if len(a) > longestName || len(b) > longestName {
		return longestName
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			other := 1
			if a[i-1] == b[j-1] {
				other = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+other)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}

// brief is what somebody typed, as a sentence can hold it.
func brief(text string) string {
	return fmt.Sprintf("%.40q", text)
}
