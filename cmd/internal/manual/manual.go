// Package manual is the hidden command by which packages get the man pages of a program: a page for each of its
// commands that help lists.
package manual

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// Unwritten is an error that no other command line would mend.
type Unwritten struct{ Err error }

// Error says what could not be written.
func (u Unwritten) Error() string { return "write man pages: " + u.Err.Error() }

// Unwrap is what was wrong.
func (u Unwritten) Unwrap() error { return u.Err }

// Command writes the pages of all commands beside it, for a section of the manual and from a source, which is the
// program with its version. Its error is an Unwritten, or says what is wrong with the command line.
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
			root.DisableAutoGenTag = true // it would say today
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
