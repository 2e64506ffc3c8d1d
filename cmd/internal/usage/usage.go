// Package usage says what is wrong with a command line, in one sentence that begins with the command that was meant and
// says what would be right. It makes the sentences from what cobra's commands declare anyway (line of use, first
// example, number of arguments), so a new command needs nothing more.
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

// Wrong is an error in the command line itself: Command is the command's path, What the sentence.
type Wrong struct{ Command, What string }

// Error begins with the command.
func (w Wrong) Error() string { return w.Command + ": " + w.What }

func wrong(c *cobra.Command, format string, args ...any) error {
	return Wrong{c.CommandPath(), fmt.Sprintf(format, args...)}
}

// Execute runs the command that the arguments name. The error is a Wrong if the number of arguments is wrong, or if no
// command or flag has a name that was typed.
func Execute(ctx context.Context, root *cobra.Command, args []string) error {
	hold(root, args)
	if err := known(root, args); err != nil {
		return err
	}
	root.SetArgs(args)
	return root.ExecuteContext(ctx)
}

// known checks that the subcommands named by the arguments exist.
func known(root *cobra.Command, args []string) error {
	command, rest, err := root.Find(args)
	for err != nil && len(rest) > 0 && strings.HasPrefix(rest[0], "-") {
		rest = rest[1:]
	}
	// cobra adds these two commands only when a shell asks for completions.
	shells := []string{cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd}
	if !command.HasSubCommands() || len(rest) == 0 || strings.HasPrefix(rest[0], "-") ||
		slices.Contains(shells, rest[0]) {
		return nil
	}
	if f := before(command, rest[0], args); f != nil {
		return joined(command, f, rest[0])
	}
	return Unknown(command, rest[0])
}

// before returns the boolean flag that was typed directly before word, if word is true or false: such a flag takes its
// value only as --flag=value. It returns nil if there is none.
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

// joined is the error for a boolean flag whose value was typed as a separate word.
func joined(c *cobra.Command, f *pflag.Flag, word string) error {
	return wrong(c, "--%s and %s are two words: want --%s=%s", f.Name, word, f.Name, word)
}

// Hold makes all commands of a tree report errors in the form of this package.
func Hold(root *cobra.Command) { hold(root, nil) }

// hold does the same as Hold, and gets the typed words, from which it tells misplaced values of flags.
func hold(root *cobra.Command, typed []string) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return Flag(c.CommandPath(), c.Flags(), err) })
	count(root, typed)
	if help, _, err := root.Find([]string{"help"}); err == nil {
		topics(help)
	}
}

// count makes a command and its subcommands say how many arguments they want.
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

// topics makes `help` an error for a command that does not exist.
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

// mostProbed is more than the most arguments that a command with an upper limit takes.
const mostProbed = 9

// bounds finds how few and how many arguments a command takes, by trying numbers up to mostProbed. most is mostProbed
// if there is no upper limit.
func bounds(c *cobra.Command, takes cobra.PositionalArgs) (least, most int) {
	least, most = mostProbed, 0
	for n := range mostProbed + 1 {
		if takes(c, make([]string, n)) == nil {
			least, most = min(least, n), n
		}
	}
	return least, most
}

// counted is the error for too few or too many arguments.
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

// wantedFlag finds a required flag in a line of use: one outside of brackets, as -o FILE.
var wantedFlag = regexp.MustCompile(`^\S+ -(\w) [A-Z]`)

// misplaced says for an argument that is too much which flag it was probably meant for; nil: unknown.
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

// noun describes an argument: what it is, and by what it is given ("its number").
type noun struct{ name, by string }

// nouns are the arguments of all commands, by their names in the lines of use.
var nouns = map[string]noun{
	"JOB":     {"job", "its number"},
	"ROUND":   {"round", "its number"},
	"FILE":    {"file", "its name"},
	"FOLDER":  {"folder", "its name"},
	"PROGRAM": {"program", "its path"},
	"PROFILE": {"profile", "its file, or figures"},
	"TASK":    {"task", "its file"},
}

// argument finds the words in capitals of a line of use. The first group is the flag before the word, if the word is
// its value.
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

// sample is the command's first example that is a plain command line, without pipes and globs, or else its line of use.
func sample(c *cobra.Command) string {
	for _, line := range strings.Split(c.Example, "\n") {
		line, _, _ = strings.Cut(strings.TrimSpace(line), "   ")
		if strings.HasPrefix(line, c.CommandPath()+" ") && !strings.ContainsAny(line, "|&;#*") {
			return line
		}
	}
	return strings.ReplaceAll(c.UseLine(), " [flags]", "")
}
