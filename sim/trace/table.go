package trace

import (
	"bufio"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strings"
)

// maxLine bounds the length of a line, in bytes.
const maxLine = 1 << 20

// table reads a text file with one job on each line. It reads lines instead of CSV records, which may span lines, so
// that errors can name a line and an unclosed quote does not swallow the rest of the file.
type table struct {
	place
	separator string
	remark    func(text string) error // called with lines that begin with #; nil: such lines are ordinary

	lines  *bufio.Reader
	header []string // the fields of the header; nil: not read yet
	fields []string // of the current line
	err    error    // the first error, after which nothing is read
}

// column is one field of all lines. The zero column does not exist in the file.
type column struct {
	name string
	at   int // from 1
}

func (c column) missing() bool { return c.at == 0 }

// newTable prepares to read CSV from a file with this name, and ignores remarks; a reader of another form changes
// separator and remark.
func newTable(name string, r io.Reader) *table {
	ignore := func(string) error { return nil }
	return &table{place: place{name: name}, separator: ",", remark: ignore, lines: bufio.NewReaderSize(r, maxLine)}
}

// next goes to the next line that is neither blank nor a remark. It returns false at the end and after an error.
func (t *table) next() bool {
	for t.err == nil {
		text, more := t.read()
		switch {
		case !more:
			return false
		case strings.TrimSpace(text) == "":
		case t.remark != nil && strings.HasPrefix(text, "#"):
			t.err = t.remark(text)
		default:
			t.err = t.split(text)
			return t.err == nil
		}
	}
	return false
}

// read reads one line, without its end. It returns false at the end of the file, and after an error, which it stores in
// t.err. A line cut off by a read error is dropped.
func (t *table) read() (string, bool) {
	line, err := t.lines.ReadSlice('\n')
	if err != nil && err != io.EOF {
		t.err = place{t.name, t.line + 1}.stopped(err)
	}
	if t.err != nil || len(line) == 0 {
		return "", false
	}
	t.line++
	return strings.TrimSuffix(strings.TrimSuffix(string(line), "\n"), "\r"), true
}

// split splits a line into t.fields. Quotes are interpreted only if the separator is a comma, since sacct does not
// quote.
func (t *table) split(text string) (err error) {
	if t.separator == "," && strings.Contains(text, `"`) {
		t.fields, err = csv.NewReader(strings.NewReader(text)).Read()
		if err != nil {
			return t.errorf("%s: want quotes in pairs, around whole fields", legible(text))
		}
		return nil
	}
	t.fields = slices.AppendSeq(t.fields[:0], strings.SplitSeq(text, t.separator))
	return nil
}

// readHeader stores the header. It requires that no column name occurs twice, since one of the columns would be
// ignored; several columns may have no name.
func (t *table) readHeader(header []string) error {
	t.header = slices.Clone(header)
	seen := map[string]bool{}
	for _, field := range t.header {
		name := columnName(field)
		if name != "" && seen[name] {
			return t.errorf("column %s stands there twice: want it once", legible(name))
		}
		seen[name] = true
	}
	return nil
}

// find returns the column with the first of the names that is in the header, or the missing column if none is. The
// missing one has the first name, for errors.
func (t *table) find(names ...string) column {
	for _, name := range names {
		for i, field := range t.header {
			if columnName(field) == columnName(name) {
				return column{strings.TrimSpace(field), i + 1}
			}
		}
	}
	return column{name: names[0]}
}

// binding is a required column, with its possible names.
type binding struct {
	to    *column
	names []string
}

// open reads the first line as the header and binds the required columns. A file without any line counts as one with an
// empty header, so that the error names the first required column.
func (t *table) open(needed ...binding) error {
	if !t.next() && t.err != nil {
		return t.err
	}
	return t.bind(t.fields, needed...)
}

// bind stores the header and finds the required columns in it. The error names the first one that is missing.
func (t *table) bind(header []string, needed ...binding) error {
	if err := t.readHeader(header); err != nil {
		return err
	}
	for _, n := range needed {
		if *n.to = t.find(n.names...); n.to.missing() {
			return t.errorf("no column %s among %s: want it in the header", n.names[0],
				legible(strings.Join(t.header, t.separator)))
		}
	}
	return nil
}

// text returns the column's field in the current line, without surrounding spaces; empty if there is none.
func (t *table) text(c column) string {
	if c.missing() || c.at > len(t.fields) {
		return ""
	}
	return strings.TrimSpace(t.fields[c.at-1])
}

// complete requires that the line has as many fields as the header.
func (t *table) complete() error {
	if len(t.fields) == len(t.header) {
		return nil
	}
	return t.errorf("has %s: want %d: %s", fields(len(t.fields)), len(t.header),
		legible(strings.Join(t.header, t.separator)))
}

func (t *table) wholeAt(c column, least, most int64) (int64, error) {
	return t.whole(c.name, t.text(c), least, most)
}

// gpusAt reads a number of GPUs from a log, where it may be 0.
func (t *table) gpusAt(c column) (int, error) {
	n, err := t.wholeAt(c, 0, maxGPUs)
	return int(n), err
}

func (t *table) secondsAt(c column) (float64, error) { return t.seconds(c.name, t.text(c)) }

func (t *table) timeAt(clock *clock, c column) (float64, error) {
	return clock.read(t.place, c.name, t.text(c))
}

// labelAt reads a text that many lines share.
func (t *table) labelAt(c column, kept interner) (string, error) {
	text, err := t.label(c.name, t.text(c))
	return kept.intern(text), err
}

// modelAt reads a label that must not be empty.
func (t *table) modelAt(c column, kept interner) (string, error) {
	if t.text(c) == "" {
		return "", t.wrong(c.name, "", "the name of a model")
	}
	return t.labelAt(c, kept)
}

// nameAt reads a text that must not be empty and must differ from line to line, such as the ID of a job. seen has those
// so far, with their lines.
func (t *table) nameAt(c column, seen map[string]int) (string, error) {
	text, err := t.label(c.name, strings.Clone(t.text(c)))
	if err == nil && text == "" {
		err = t.wrong(c.name, text, "a name")
	}
	if err == nil {
		err = t.unique(c.name, text, seen)
	}
	return text, err
}

// fields formats a number of fields, for errors.
func fields(n int) string {
	if n == 1 {
		return "1 field"
	}
	return fmt.Sprintf("%d fields", n)
}

// columnName is the form in which column names are compared: without quotes and spaces, in lower case.
func columnName(field string) string {
	return strings.ToLower(strings.Trim(strings.TrimSpace(field), `"`))
}
