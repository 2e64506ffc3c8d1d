package outcome

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

// column is one column of a text table. All columns have the same number of cells.
type column struct {
	title, unit string
	cells       []string
}

// noValue is a cell without a value.
const noValue = "-"

// amount is a number that may be missing.
type amount struct {
	value float64
	known bool
}

// numbers makes a column of amounts with this number of decimals; a missing one is a dash.
func numbers(title, unit string, decimals int, amounts []amount) column {
	c := column{title: title, unit: unit}
	for _, a := range amounts {
		cell := noValue
		if a.known {
			cell = fmt.Sprintf("%.*f", decimals, a.value)
		}
		c.cells = append(c.cells, cell)
	}
	return c
}

// unit is a unit of time.
type unit struct {
	name    string
	seconds float64
}

// unitFor is the largest unit in which the longest of the times is 1 or more. It is milliseconds for a shorter time,
// and seconds if all times are 0 or missing.
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

// The units besides the hour, which is defined with the statistics because published values are in hours.
const (
	secondsPerMinute      = 60
	secondsPerMillisecond = 1e-3
)

// in makes a column of times, given in seconds, in this unit.
func (u unit) in(title string, seconds []amount) column {
	scaled := make([]amount, len(seconds))
	for i, s := range seconds {
		scaled[i] = amount{s.value / u.seconds, s.known}
	}
	return numbers(title, u.name, 2, scaled)
}

// times makes a column of times in the unit that unitFor chooses.
func times(title string, seconds []amount) column { return unitFor(seconds).in(title, seconds) }

// sheet is a text table: words on the left, numbers on the right, and units on a line of their own.
type sheet struct {
	words, numbers []column
}

// maxNameWidth is how many characters of a name a table shows.
const maxNameWidth = 48

// gap is the number of blanks between columns.
const gap = 2

// write writes the table: titles, units, and a line for each row. There must be a column of words.
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

// writeTrimmed writes the text without the blanks before the first column and after the last one.
func writeTrimmed(w io.Writer, text string) error {
	for line := range strings.Lines(text) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line[gap:], " \n")); err != nil {
			return err
		}
	}
	return nil
}

// writeLine writes one cell of each column. A tabwriter reports errors only in Flush.
func writeLine(out *tabwriter.Writer, columns []column, cell func(c column) string) {
	for _, c := range columns {
		fmt.Fprint(out, cell(c), "\t")
	}
	fmt.Fprintln(out)
}

// leftAligned shortens cells that are too wide and pads the others to equal width, since the tabwriter aligns all
// columns to the right. It changes the cells in place.
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

// cut shortens a cell to maxNameWidth characters, the mark … included. It counts characters, by which columns are
// aligned; printable.Cut counts bytes and puts its mark behind them.
func cut(cell string) string {
	if runes := []rune(cell); len(runes) > maxNameWidth {
		return string(runes[:maxNameWidth-1]) + "…"
	}
	return cell
}

func fill(cell string, width int) string {
	return cell + strings.Repeat(" ", width-utf8.RuneCountInString(cell))
}
