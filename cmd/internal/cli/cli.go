// Package cli is what the programs add to cobra: an error for a word that is no subcommand, and the hidden command with
// which package builds make man pages.
package cli

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// Execute runs the command that the arguments name. An unknown word behind a command that has subcommands (synergy
// trace inspct), or behind help, is the error that it is behind the root: cobra would print a help and succeed, or not
// say which subcommand is near. A command that takes such a word as its own argument gets it.
func Execute(ctx context.Context, root *cobra.Command, args []string) error {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	command, rest, err := root.Find(args)
	help := err == nil && command.Name() == "help"
	if help {
		if command, rest, err = root.Find(rest); err != nil {
			return err
		}
	}
	if err == nil && command.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") &&
		(help || !command.Runnable() || command.ValidateArgs(rest[:1]) != nil) {
		return Unknown(command, rest[0])
	}
	root.SetArgs(args)
	return root.ExecuteContext(ctx)
}

// Unknown is the error for a word that is no subcommand of c, in the words in which cobra says it of a root's.
func Unknown(c *cobra.Command, word string) error {
	near := ""
	c.SuggestionsMinimumDistance = 2 // cobra's default, which it sets for roots alone
	if names := c.SuggestionsFor(word); len(names) > 0 {
		near = "\n\nDid you mean this?\n\t" + strings.Join(names, "\n\t") + "\n"
	}
	return fmt.Errorf("unknown command %q for %q%s", word, c.CommandPath(), near)
}

// Unwritten is an error in writing the pages. Another command line would not help, unlike with a wrong flag.
type Unwritten struct{ Err error }

// Error says what could not be written.
func (u Unwritten) Error() string { return "write man pages: " + u.Err.Error() }

// Unwrap returns the cause.
func (u Unwritten) Unwrap() error { return u.Err }

// Manual returns the hidden command `manual FOLDER`, which writes the pages of all commands below the root it is added
// to. section is the section of the manual ("1", "8"), source the program with its version. The command's error is an
// Unwritten, or says what is wrong with the command line.
func Manual(section, source string) *cobra.Command {
	var date string
	command := &cobra.Command{
		Use: "manual FOLDER", Short: "write the man pages of all commands", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			day, err := time.Parse(time.DateOnly, date)
			if err != nil {
				return fmt.Errorf("--date %.40q: want a day, as 2026-11-21", date)
			}
			root := command.Root()
			root.DisableAutoGenTag = true // the tag would contain today's date, and pages of one release must be equal
			header := &doc.GenManHeader{Section: section, Date: &day, Source: source, Manual: "Synergy"}
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return Unwritten{err}
			}
			if err := doc.GenManTree(root, header, args[0]); err != nil {
				return Unwritten{err}
			}
			return nil
		},
	}
	command.Flags().StringVar(&date, "date", "", "the `day` that the pages are of: those of one release are the same "+
		"whenever they are made")
	return command
}
