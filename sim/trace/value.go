package trace

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/printable"
)

// Bounds of valid values. They are far beyond any cluster, and keep sums and products over a trace finite.
const (
	maxSeconds    = 7_258_118_400 // 2200-01-01 in Unix time, for times and durations
	maxGPUs       = 1_000_000     // of one job
	maxIterations = 1_000_000_000_000
	maxID         = math.MaxInt32
	maxLabel      = 256 // bytes
)

// place is a position in a file. Line 0 means the file as a whole.
type place struct {
	name string
	line int
}

// wrong is the error of an invalid value.
func wrong(field, value, want string) error {
	return fmt.Errorf("%s = %s: want %s", field, legible(value), want)
}

// wrong is the error of an invalid value at this position.
func (p place) wrong(field, value, want string) error {
	return p.errorf("%w", wrong(field, value, want))
}

// errorf makes an error that names the trace, and the line if the place has one.
func (p place) errorf(format string, args ...any) error {
	where := "trace " + p.name
	if p.line > 0 {
		where += ": line " + strconv.Itoa(p.line)
	}
	return fmt.Errorf("%s: %w", where, fmt.Errorf(format, args...))
}

// stopped is the error of a file that cannot be read beyond this position.
func (p place) stopped(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, bufio.ErrBufferFull):
		return p.errorf("is longer than %d bytes: want one job on each line", maxLine)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return p.errorf("the compressed file ends in the middle: want it whole")
	}
	return p.errorf("%w", cause(err))
}

// wantSeconds, wantWhole and wantLabel describe valid values.
const wantSeconds = "seconds, not negative and before the year 2200"

func wantWhole(least, most int64) string {
	return fmt.Sprintf("a whole number from %d to %d", least, most)
}

func wantLabel() string { return fmt.Sprintf("printable text of at most %d bytes", maxLabel) }

// whole reads a whole number within bounds.
func (p place) whole(field, value string, least, most int64) (int64, error) {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < least || n > most {
		return 0, p.wrong(field, value, wantWhole(least, most))
	}
	return n, nil
}

// seconds reads a non-negative number of seconds, possibly with a fraction.
func (p place) seconds(field, value string) (float64, error) {
	x, ok := decimal(value)
	if !ok || x > maxSeconds {
		return 0, p.wrong(field, value, wantSeconds)
	}
	return x, nil
}

// unique requires that a value has not occurred before, and notes it. seen maps values to their lines, which the error
// names.
func (p place) unique(field, value string, seen map[string]int) error {
	if line, before := seen[value]; before {
		return p.wrong(field, value, fmt.Sprintf("each once, and it is on line %d already", line))
	}
	seen[value] = p.line
	return nil
}

// label reads a name that will be printed again, such as a user, queue or state.
func (p place) label(field, value string) (string, error) {
	value = strings.TrimSpace(value)
	if !isLabel(value) {
		return "", p.wrong(field, value, wantLabel())
	}
	return value, nil
}

// isLabel says whether a text survives being written and read unchanged.
func isLabel(text string) bool {
	return len(text) <= maxLabel && strings.TrimSpace(text) == text && printable.Is(text)
}

// decimal reads a non-negative number of digits and a point. Signs, exponents, infinities and hexadecimal digits, which
// the library would accept, are not valid in a trace.
func decimal(text string) (float64, bool) {
	if text == "" || strings.Trim(text, "0123456789.") != "" {
		return 0, false
	}
	x, err := strconv.ParseFloat(text, 64)
	return x, err == nil
}

// isWhole says whether a text is a whole number, possibly negative.
func isWhole(text string) bool {
	_, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	return err == nil
}

// legible formats a value for an error: shortened, and quoted if it could be misread.
func legible(value string) string {
	value = printable.Cut(value, 60)
	if strings.Contains(value, " ") {
		return strconv.QuoteToASCII(value)
	}
	return printable.Quote(value, 0)
}

// interner stores each text once, so that a log with few users does not hold each name a hundred thousand times.
type interner map[string]string

// intern returns the stored copy of a text. A new text is cloned, since a field is a part of its whole line and would
// keep it in memory.
func (n interner) intern(text string) string {
	if kept, known := n[text]; known {
		return kept
	}
	text = strings.Clone(text)
	n[text] = text
	return text
}
