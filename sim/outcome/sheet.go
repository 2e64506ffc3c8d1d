package outcome

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

// column is one column of a text table. Every column has as many cells.
type column struct {
	title, unit string
	cells       []string
}

// nothing is what a cell shows where there is no value.
const nothing = "-"

// amount is a number that may be missing.
type amount struct {
	value float64
	known bool
}

// numbers is a column of amounts with so many decimals.
func numbers(title, unit string, decimals int, amounts []amount) column {
	c := column{title: title, unit: unit}
	for _, a := range amounts {
		cell := nothing
		if a.known {
			cell = fmt.Sprintf("%.*f", decimals, a.value)
		}
		c.cells = append(c.cells, cell)
	}
	return c
}

// unit is what times are shown in.
type unit struct {
	name    string
	seconds float64
}

// unitFor is the largest unit of which the longest of the times is 1 or more; seconds where all are 0.
func unitFor(seconds []amount) unit {
	longest := 0.0
	for _, s := range seconds {
		longest = max(longest, s.value)
	}
	switch {
	case longest >= secondsPerHour:
		return unit{"h", secondsPerHour}
	case longest >= secondsPerMinute:
		return unit{"min", secondsPerMinute}
	case longest > 0 && longest < 1:
		return unit{"ms", secondsPerMillisecond}
	}
	return unit{"s", 1}
}

// Units beside the hour, which is where figures are published.
const (
	secondsPerMinute      = 60
	secondsPerMillisecond = 1e-3
)

// in is a column of times in a unit.
func (u unit) in(title string, seconds []amount) column {
	scaled := make([]amount, len(seconds))
	for i, s := range seconds {
		scaled[i] = amount{s.value / u.seconds, s.known}
	}
	return numbers(title, u.name, 2, scaled)
}

// times is a column of times in the unit that suits them.
func times(title string, seconds []amount) column { return unitFor(seconds).in(title, seconds) }

// sheet is a text table: words to the left, numbers to the right, units in a line of their own.
type sheet struct {
	words, numbers []column
}

// widest is how many characters of a name a table shows.
const widest = 48

// gap is how many blanks are between columns.
const gap = 2

func (s sheet) write(w io.Writer) error {
	var all []column
	for _, c := range s.words {
		all = append(all, c.leftAligned())
	}
	all = append(all, s.numbers...)
	var text strings.Builder
	out := tabwriter.NewWriter(&text, 0, 0, gap, ' ', tabwriter.AlignRight)
	writeLine(out, all, func(c column) string { return c.title })
	writeLine(out, all, func(c column) string { return c.unit })
	for row := range all[0].cells {
		writeLine(out, all, func(c column) string { return c.cells[row] })
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return writeTrimmed(w, text.String())
}

// writeTrimmed leaves out the blanks before the first column and behind the last one.
func writeTrimmed(w io.Writer, text string) error {
	for line := range strings.Lines(text) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line[gap:], " \n")); err != nil {
			return err
		}
	}
	return nil
}

// writeLine writes one cell of each column. A tabwriter keeps its error for the flush.
func writeLine(out *tabwriter.Writer, columns []column, cell func(c column) string) {
	for _, c := range columns {
		fmt.Fprint(out, cell(c), "\t")
	}
	fmt.Fprintln(out)
}

// leftAligned fills the cells up, since the tabwriter aligns all columns alike.
func (c column) leftAligned() column {
	width := max(utf8.RuneCountInString(c.title), utf8.RuneCountInString(c.unit))
	for i := range c.cells {
		c.cells[i] = cut(c.cells[i])
		width = max(width, utf8.RuneCountInString(c.cells[i]))
	}
	c.title, c.unit = fill(c.title, width), fill(c.unit, width)
	for i := range c.cells {
		c.cells[i] = fill(c.cells[i], width)
	}
	return c
}

func cut(cell string) string {
	if runes := []rune(cell); len(runes) > widest {
		return string(runes[:widest-1]) + "…"
	}
	return cell
}

func fill(cell string, width int) string {
	return cell + strings.Repeat(" ", width-utf8.RuneCountInString(cell))
}
