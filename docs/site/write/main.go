// Command write makes plain pages of HTML from the documentation of the repository that it is called in, in the folder
// that its one argument names.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/synergy-slurmd/synergy-slurmd/docs/site"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "write:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return errors.New("want one folder for the pages")
	}
	pages, err := site.Read(os.DirFS("."))
	if err != nil {
		return err
	}
	return pages.Write(args[0])
}
