package usage

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/synergy-slurmd/synergy-slurmd/spelling"
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
	switch near := spelling.Nearest(word, names); {
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
	if near := spelling.Nearest(typed, names); near != "" {
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

// brief is what somebody typed, as a sentence can hold it.
func brief(text string) string {
	return fmt.Sprintf("%.40q", text)
}
