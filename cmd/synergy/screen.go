package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/synergy-slurmd/synergy-slurmd/printable"
)

// Words of users and of Slurm may have any length, so they are cut to these lengths, in bytes.
const (
	longestName     = 24
	longestSentence = 400
)

// screen is where answers are written. Foreign text reaches it only through functions that make it printable.
type screen struct {
	out   io.Writer
	width int // columns; 0: no bound
	rows  int // of a terminal; 0: no bound
	err   error
}

// screenOf is a screen as wide as the terminal, or as COLUMNS says.
func screenOf(out io.Writer) *screen {
	s := &screen{out: out}
	if file, is := out.(interface{ Fd() uintptr }); is {
		if width, rows, err := term.GetSize(int(file.Fd())); err == nil {
			s.width, s.rows = width, rows
		}
	}
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		s.width = n
	}
	return s
}

// write keeps the first error.
func (s *screen) write(text string) {
	if s.err == nil {
		_, s.err = io.WriteString(s.out, text)
	}
}

// say writes a text in lines no wider than the screen. Lines after the first are indented further.
func (s *screen) say(indent int, text string) {
	const further = 4
	line := strings.Repeat(" ", indent)
	start := len(line)
	for _, word := range strings.Fields(printable.Line(text, longestSentence)) {
		switch {
		case len(line) == start:
		case s.width > 0 && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > s.width:
			s.write(s.cut(line) + "\n")
			line = strings.Repeat(" ", indent+further)
			start = len(line)
		default:
			line += " "
		}
		line += word
	}
	s.write(s.cut(line) + "\n")
}

// cut is a line cut to the width of the screen.
func (s *screen) cut(line string) string {
	if s.width <= 0 || utf8.RuneCountInString(line) <= s.width {
		return line
	}
	letters := []rune(line)
	return string(letters[:max(0, s.width-1)]) + "…"
}

// table writes rows in columns, the first row being the titles. Lines are cut to the screen. At most most rows are
// written (0: all), and the others counted.
func (s *screen) table(rows [][]string, most int) {
	left := 0
	if most > 0 && len(rows)-1 > most {
		left = len(rows) - 1 - most
		rows = rows[:most+1]
	}
	var text strings.Builder
	columns := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(columns, strings.Join(row, "\t"))
	}
	columns.Flush() // into memory
	for line := range strings.Lines(text.String()) {
		s.write(s.cut(strings.TrimRight(line, " \n")) + "\n")
	}
	if left > 0 {
		s.say(0, fmt.Sprintf("and %d more", left))
	}
}

// cell is foreign text in a table, cut to most bytes.
func cell(text string, most int) string {
	if text = printable.Line(text, most); text == "" {
		return "-"
	}
	return text
}

// orDash is a count in a table, or a dash for 0.
func orDash(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}

// asJSON writes an answer as JSON.
func asJSON(out io.Writer, answer any) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return done(encoder.Encode(answer))
}

// ago is a duration in its two largest units.
func ago(d time.Duration) string {
	switch {
	case d < 0:
		return "0 s"
	case d < time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 24*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d d %d h", int(d.Hours())/24, int(d.Hours())%24)
}

// since is how long ago a moment was, or a dash for none.
func since(at, now time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return ago(now.Sub(at))
}

// asOf says of which round an answer is.
func asOf(round int, began, now time.Time, shadow bool) string {
	text := fmt.Sprintf("round %d of %s, %s ago", round, clockTime(began), ago(now.Sub(began)))
	if shadow {
		text += "; shadow: nothing is done, and this is what would be"
	}
	return text
}
