package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
)

// group is a set of options under one title in the help.
type group struct {
	title string
	flags *pflag.FlagSet
	keys  *pflag.FlagSet // options that only a file can have; most commands have none
}

func newGroup(title string) group { return group{title, newSet(title), newSet(title)} }

// newSet is a set of options that the help shows in the order in which they are defined.
func newSet(title string) *pflag.FlagSet {
	set := pflag.NewFlagSet(title, pflag.ContinueOnError)
	set.SortFlags = false
	return set
}

// names are the names of all its options.
func (g group) names() []string {
	var all []string
	for _, set := range []*pflag.FlagSet{g.flags, g.keys} {
		set.VisitAll(func(f *pflag.Flag) { all = append(all, f.Name) })
	}
	return all
}

// usages describes the options, the keys of a file without dashes.
func (g group) usages(width int) string {
	keys := strings.ReplaceAll(g.keys.FlagUsagesWrapped(width), "      --", "        ")
	return strings.TrimRight(g.flags.FlagUsagesWrapped(width)+keys, "\n") + "\n"
}

// setGroups gives a command the flags of its groups, and shows flags and keys by groups in its help.
func setGroups(command *cobra.Command, groups ...group) {
	command.Flags().SortFlags = false
	for _, g := range groups {
		command.Flags().AddFlagSet(g.flags)
	}
	command.SetUsageFunc(func(c *cobra.Command) error {
		out := c.OutOrStderr()
		fmt.Fprintf(out, "Usage:\n  %s\n\nExamples:\n%s\n", c.UseLine(), c.Example)
		for _, g := range groups {
			fmt.Fprintf(out, "\n%s:\n%s", g.title, g.usages(helpWidth(out)))
		}
		return nil
	})
}

// helpWidth is the width of a help text: the terminal's, from 60 to 110 columns.
func helpWidth(out io.Writer) int {
	const readable = 110
	file, is := out.(interface{ Fd() uintptr })
	if !is {
		return readable
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil || width > readable {
		return readable
	}
	return max(width, 60)
}

// isTerminal reports whether the output goes to a terminal.
func isTerminal(out io.Writer) bool {
	file, is := out.(interface{ Fd() uintptr })
	return is && term.IsTerminal(int(file.Fd()))
}
