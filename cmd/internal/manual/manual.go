// Package manual is the hidden command with which package builds make the man pages of a program: one page for each
// command that help lists.
package manual

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// Unwritten is an error in writing the pages. Another command line would not help, unlike with a wrong flag.
type Unwritten struct{ Err error }

// Error says what could not be written.
func (u Unwritten) Error() string { return "write man pages: " + u.Err.Error() }

// Unwrap returns the cause.
func (u Unwritten) Unwrap() error { return u.Err }

// Command returns the hidden command `manual FOLDER`, which writes the pages of all commands below the root it is added
// to. section is the section of the manual ("1", "8"), source the program with its version. The command's error is an
// Unwritten, or says what is wrong with the command line.
func Command(section, source string) *cobra.Command {
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
