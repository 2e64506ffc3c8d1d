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

// Unknown is the error for a word that is no subcommand of c. It suggests the subcommand with the nearest name, or
// lists all if there are few.
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

// fewCommands is how many subcommands an error lists at most.
const fewCommands = 10

// either joins words as "a, b or c".
func either(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// Flag turns an error of pflag into a Wrong that says what the command's flag expects. set is the set of flags that
// returned the error.
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

// unknownFlag is the sentence for a flag that the command does not have. A negative number is read by pflag as a flag,
// so that case has its own sentence.
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

// dashed is a flag's name with its two dashes, shortened if it is very long.
func dashed(name string) string { return "--" + strings.Trim(brief(name), `"`) }

// plain says what values of pflag's own types expect. Flags with types of ours say it in their own errors.
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

// typed gives readable names of value types, for flags whose description names no placeholder.
var typed = map[string]string{"string": "word", "strings": "words", "int": "number", "uint": "number",
	"float": "number", "duration": "time"}

// wanted says what the flag expects instead of the value that it got.
func wanted(odd *pflag.InvalidValueError) string {
	if text, known := plain[odd.GetFlag().Value.Type()]; known {
		return text
	}
	return errors.Unwrap(odd).Error()
}

// brief quotes what was typed, cut to 40 characters.
func brief(text string) string {
	return fmt.Sprintf("%.40q", text)
}
