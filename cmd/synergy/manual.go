package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// manualCommand writes the man pages, a page for each command. Packages are made with it, so nobody is shown it.
func manualCommand() *cobra.Command {
	var date string
	command := &cobra.Command{
		Use:    "manual FOLDER",
		Short:  "write the man pages of all commands",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			day, err := time.Parse(time.DateOnly, date)
			if err != nil {
				return fmt.Errorf("--date %q: want a day, as 2026-11-21", date)
			}
			return writeManual(command.Root(), args[0], day)
		},
	}
	command.Flags().StringVar(&date, "date", "", "the `day` that the pages are of: those of one release are the same "+
		"whenever they are made")
	return command
}

func writeManual(root *cobra.Command, folder string, day time.Time) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return failed{fmt.Errorf("write man pages: %w", err)}
	}
	header := &doc.GenManHeader{Section: "1", Date: &day, Source: "synergy " + running(), Manual: "Synergy"}
	root.DisableAutoGenTag = true // it would say today
	if err := doc.GenManTree(root, header, folder); err != nil {
		return failed{fmt.Errorf("write man pages: %w", err)}
	}
	return nil
}
