// Command write makes plain HTML pages of the documentation of the repository in the working directory. Its one
// argument is the folder for the pages.
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
