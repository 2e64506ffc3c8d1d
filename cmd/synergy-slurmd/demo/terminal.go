package demo

import (
	"os"
	"time"

	"golang.org/x/term"
)

// Limits of what is shown on a terminal.
const (
	widest   = 120 // columns; longer lines are hard to follow
	readable = time.Second
)

// OptionsFor are the options that suit the output. For a terminal: its width, a pace that can be read, and colours
// unless NO_COLOR forbids them (https://no-color.org). For anything else: none of these.
func OptionsFor(out *os.File) Options {
	fd := int(out.Fd())
	if !term.IsTerminal(fd) {
		return Options{}
	}
	columns, _, err := term.GetSize(fd)
	if err != nil {
		columns = 0
	}
	return onTerminal(columns, os.Getenv)
}

// onTerminal are the options for a terminal of so many columns; 0: unknown.
func onTerminal(columns int, getenv func(string) string) Options {
	return Options{
		Width: min(columns, widest),
		Color: getenv("NO_COLOR") == "" && getenv("TERM") != "dumb",
		Pace:  readable,
	}
}
