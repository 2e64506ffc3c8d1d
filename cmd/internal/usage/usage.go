// Package usage says what is wrong with a command line: in one sentence that begins with the command that was meant,
// and says what would be right. It makes the sentences of what commands say of themselves anyway, which is their line
// of use, their first example and how many arguments they take; so a new command need say nothing more.
package usage

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Wrong is an error that another command line would not have.
type Wrong struct{ Command, What string }

// Error begins with the command.
func (w Wrong) Error() string { return w.Command + ": " + w.What }

func wrong(c *cobra.Command, format string, args ...any) error {
	return Wrong{c.CommandPath(), fmt.Sprintf(format, args...)}
}

// Execute runs the command of a tree that the arguments name. The error is a Wrong where it is about how many
// arguments there are, or about a name that no command or flag has.
func Execute(ctx context.Context, root *cobra.Command, args []string) error {
	hold(root, args)
	if err := known(root, args); err != nil {
		return err
	}
	root.SetArgs(args)
	return root.ExecuteContext(ctx)
}

// known says whether the commands that the arguments begin with are there.
func known(root *cobra.Command, args []string) error {
	command, rest, err := root.Find(args)
	for err != nil && len(rest) > 0 && strings.HasPrefix(rest[0], "-") {
		rest = rest[1:]
	}
	shells := []string{cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd} // made when they are asked for
	if !command.HasSubCommands() || len(rest) == 0 || strings.HasPrefix(rest[0], "-") ||
		slices.Contains(shells, rest[0]) {
		return nil
	}
	if f := before(command, rest[0], args); f != nil {
		return joined(command, f, rest[0])
	}
	return Unknown(command, rest[0])
}

// before is the flag that is on or off and was typed before a word that says which; such a flag takes no word of its
// own. nil: there is none.
func before(c *cobra.Command, word string, typed []string) *pflag.Flag {
	if _, err := strconv.ParseBool(word); err != nil {
		return nil
	}
	for i := 1; i < len(typed); i++ {
		name, is := strings.CutPrefix(typed[i-1], "--")
		if f := c.Flags().Lookup(name); is && typed[i] == word && f != nil && f.Value.Type() == "bool" {
			return f
		}
	}
	return nil
}

func joined(c *cobra.Command, f *pflag.Flag, word string) error {
	return wrong(c, "--%s and %s are two words: want --%s=%s", f.Name, word, f.Name, word)
}

// Hold has all commands of a tree say by the rule of this package what is wrong.
func Hold(root *cobra.Command) { hold(root, nil) }

// hold knows also what was typed.
func hold(root *cobra.Command, typed []string) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return Flag(c.CommandPath(), c.Flags(), err) })
	count(root, typed)
	if help, _, err := root.Find([]string{"help"}); err == nil {
		topics(help)
	}
}

// count has a command and those below it say how many arguments they want.
func count(c *cobra.Command, typed []string) {
	if takes := c.Args; takes != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			if takes(c, args) == nil {
				return nil
			}
			return counted(c, takes, args, typed)
		}
	}
	for _, child := range c.Commands() {
		count(child, typed)
	}
}

// topics has help refuse what there is no help about.
func topics(help *cobra.Command) {
	help.Run = nil
	help.RunE = func(c *cobra.Command, args []string) error {
		about, rest, err := c.Root().Find(args)
		if err != nil || len(rest) > 0 && about.HasSubCommands() {
			return Unknown(about, rest[0])
		}
		about.InitDefaultHelpFlag()
		return about.Help()
	}
}

// mostProbed is beyond what any command takes that takes a number of arguments.
const mostProbed = 9

// bounds are how few and how many arguments are taken; most is mostProbed where there is no bound.
func bounds(c *cobra.Command, takes cobra.PositionalArgs) (least, most int) {
	least, most = mostProbed, 0
	for n := range mostProbed + 1 {
		if takes(c, make([]string, n)) == nil {
			least, most = min(least, n), n
		}
	}
	return least, most
}

// counted says what is missing, or too much.
func counted(c *cobra.Command, takes cobra.PositionalArgs, args, typed []string) error {
	least, most := bounds(c, takes)
	n := named(c)
	if len(args) > most {
		if err := misplaced(c, args[most], typed); err != nil {
			return err
		}
	}
	switch {
	case len(args) < least && least == 1:
		return wrong(c, "which %s? Want %s, as: %s", n.name, n.by, sample(c))
	case len(args) < least:
		return wrong(c, "which %ss? Want %d at least, as: %s", n.name, least, sample(c))
	case most == 0 && c.HasSubCommands():
		return Unknown(c, args[0])
	case most == 0:
		return wrong(c, "%.40q is too much: want nothing but flags; see %s --help", args[0], c.CommandPath())
	case most == 1:
		return wrong(c, "%.40q is too much: want one %s, as: %s", args[most], n.name, sample(c))
	}
	return wrong(c, "%.40q is too much: want %d %ss at most, as: %s", args[most], most, n.name, sample(c))
}

// wantedFlag is one that a line of use has outside of brackets.
var wantedFlag = regexp.MustCompile(`^\S+ -(\w) [A-Z]`)

// misplaced says of a word that is too much where it was meant to stand; nil: nobody knows.
func misplaced(c *cobra.Command, word string, typed []string) error {
	if f := before(c, word, typed); f != nil {
		return joined(c, f, word)
	}
	if match := wantedFlag.FindStringSubmatch(c.Use); match != nil {
		if f := c.Flags().ShorthandLookup(match[1]); f != nil && !f.Changed {
			return wrong(c, "%.40q: want it behind -%s, as: %s", word, match[1], sample(c))
		}
	}
	return nil
}

// noun is what an argument is: its name, and by what it is told.
type noun struct{ name, by string }

// nouns are the arguments of all commands, as their lines of use write them.
var nouns = map[string]noun{
	"JOB":     {"job", "its number"},
	"ROUND":   {"round", "its number"},
	"FILE":    {"file", "its name"},
	"FOLDER":  {"folder", "its name"},
	"PROGRAM": {"program", "its path"},
	"PROFILE": {"profile", "its file, or figures"},
	"TASK":    {"task", "its file"},
}

// argument is a word of a line of use that is neither a flag's value nor a flag.
var argument = regexp.MustCompile(`(?:^| )(-\S+ )?\[?([A-Z]+)`)

// named is what the first argument of a command is.
func named(c *cobra.Command) noun {
	for _, found := range argument.FindAllStringSubmatch(c.Use, -1) {
		if n, known := nouns[found[2]]; known && found[1] == "" {
			return n
		}
	}
	return noun{"argument", "one"}
}

// sample is the first example of a command that is a line of its own, or else how it is used.
func sample(c *cobra.Command) string {
	for _, line := range strings.Split(c.Example, "\n") {
		line, _, _ = strings.Cut(strings.TrimSpace(line), "   ")
		if strings.HasPrefix(line, c.CommandPath()+" ") && !strings.ContainsAny(line, "|&;#*") {
			return line
		}
	}
	return strings.ReplaceAll(c.UseLine(), " [flags]", "")
}
