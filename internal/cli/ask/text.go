package ask

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
	LongestName     = 24
	longestCell     = 80
	LongestSentence = 400
)

// answer is what a question has found out. As JSON it is its exported fields, and show writes it as text.
type answer interface {
	show(t *Text, now time.Time)
}

// write writes an answer as JSON or as text.
func write(out io.Writer, a answer, asJSON bool, now time.Time) error {
	if asJSON {
		return JSON(out, a)
	}
	t := NewText(out)
	a.show(t, now)
	return t.Err()
}

// JSON writes an answer for programs.
func JSON(out io.Writer, answer any) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return asFailed(encoder.Encode(answer))
}

// Text writes answers for people. Foreign text reaches it only through functions that make it printable.
type Text struct {
	out   io.Writer
	width int // columns; 0: no bound
	rows  int // of the terminal; 0: no bound
	err   error
}

// NewText is a text as wide as the terminal that it is written to. The environment variable COLUMNS goes before the
// terminal's width, and gives an output that is no terminal a width, too. Without either the width is not bounded.
func NewText(out io.Writer) *Text {
	t := &Text{out: out}
	if file, is := out.(interface{ Fd() uintptr }); is {
		if width, rows, err := term.GetSize(int(file.Fd())); err == nil {
			t.width, t.rows = width, rows
		}
	}
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		t.width = n
	}
	return t
}

// Err is the first error in writing.
func (t *Text) Err() error { return asFailed(t.err) }

// Blank writes an empty line.
func (t *Text) Blank() { t.write("\n") }

// write writes a text, unless an earlier one failed. Err returns that error, so that callers need not check each line.
func (t *Text) write(text string) {
	if t.err == nil {
		_, t.err = io.WriteString(t.out, text)
	}
}

// Say writes a text in lines no wider than the terminal, broken between words. The first line is indented by indent
// columns, and the others further, so that one sees where the next text begins.
func (t *Text) Say(indent int, text string) {
	const further = 4
	line := strings.Repeat(" ", indent)
	start := len(line)
	for _, word := range strings.Fields(printable.Line(text, LongestSentence)) {
		switch {
		case len(line) == start:
		case t.width > 0 && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > t.width:
			t.write(t.cutLine(line) + "\n")
			line = strings.Repeat(" ", indent+further)
			start = len(line)
		default:
			line += " "
		}
		line += word
	}
	t.write(t.cutLine(line) + "\n")
}

// cutLine is a line cut to the width of the terminal.
func (t *Text) cutLine(line string) string {
	if t.width <= 0 || utf8.RuneCountInString(line) <= t.width {
		return line
	}
	letters := []rune(line)
	return string(letters[:max(0, t.width-1)]) + "…"
}

// Table writes rows in columns; the first row is the titles. Lines are cut to the width of the terminal, since wrapped
// lines would break the columns. At most most rows below the titles are written, or all if most is 0, and the others
// are counted in a last line.
func (t *Text) Table(rows [][]string, most int) {
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
		t.write(t.cutLine(strings.TrimRight(line, " \n")) + "\n")
	}
	if left > 0 {
		t.Say(0, fmt.Sprintf("and %d more", left))
	}
}

// Cell is foreign text in a table, cut to most bytes, or a dash for none.
func Cell(text string, most int) string {
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

// figureOrDash is a figure in a table; 0 means unknown and is a dash.
func figureOrDash(format string, x float64) string {
	if x == 0 {
		return "-"
	}
	return fmt.Sprintf(format, x)
}

// countText is a number of things.
func countText(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// Ago is a duration in its two largest units; what is negative, from clocks that differ, is 0 s.
func Ago(d time.Duration) string {
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

// agoOrDash is how long ago a moment was, or a dash for none.
func agoOrDash(at, now time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return Ago(now.Sub(at))
}

// clockTime is a moment in the time zone of the reader.
func clockTime(at time.Time) string { return at.Local().Format("2006-01-02 15:04:05") }

// AsOf says of which round an answer is and how old that is, so that a stopped daemon shows.
func AsOf(round int, began, now time.Time, shadow bool) string {
	text := fmt.Sprintf("round %d of %s, %s ago", round, clockTime(began), Ago(now.Sub(began)))
	if shadow {
		text += "; shadow: nothing is done, and this is what would be"
	}
	return text
}
