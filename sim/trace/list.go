package trace

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
)

// maxElement bounds the size of one element of a JSON list, in bytes.
const maxElement = 16 << 20

// jsonList reads a JSON list of objects and holds one of them at a time. It finds the ends of objects itself, because
// the library's decoder does not report line numbers.
type jsonList struct {
	place    // where the current element begins
	text     *bufio.Reader
	nextLine int    // the line of the next byte
	element  []byte // the current one
	hasBegun bool   // the bracket that opens the list has been read
	hasEnded bool   // so has the one that closes it
	err      error  // the first error, after which nothing is read
}

// newList prepares to read a list from a file with this name; nothing is read yet.
func newList(name string, r io.Reader) *jsonList {
	return &jsonList{place: place{name: name}, text: bufio.NewReaderSize(r, 64<<10), nextLine: 1}
}

// next goes to the next element, which decode then parses. It is false at the end of the list, and after an error.
func (l *jsonList) next() bool {
	if l.err == nil && !l.hasEnded {
		l.err = l.advance()
	}
	return l.err == nil && !l.hasEnded
}

// advance goes to the next element or the end of the list. Any other text is an error.
func (l *jsonList) advance() error {
	next := l.skipSpace()
	switch {
	case !l.hasBegun && next == '[':
		l.hasBegun = true
		l.consume(1)
		if l.skipSpace() == ']' {
			return l.endList()
		}
		return l.read()
	case l.hasBegun && next == ',':
		l.consume(1)
		return l.read()
	case l.hasBegun && next == ']':
		return l.endList()
	case l.hasBegun:
		return l.misplaced("a comma or the end of the list")
	}
	return l.misplaced("a list of jobs: [{…}, …]")
}

// read reads an object up to its end into l.element. Each step takes what is in the buffer, which Peek(1) fills if it
// is empty. The size is limited, so that a file that is no list of jobs does not fill the memory.
func (l *jsonList) read() error {
	if l.skipSpace() != '{' {
		return l.misplaced("a job: {…}")
	}
	l.line, l.element = l.nextLine, l.element[:0]
	for n := (nesting{}); ; {
		if _, err := l.text.Peek(1); err != nil {
			return l.broken(err)
		}
		ahead, _ := l.text.Peek(l.text.Buffered())
		length, closed := n.readUntilClosed(ahead)
		l.element = append(l.element, ahead[:length]...)
		l.consume(length)
		switch {
		case len(l.element) > maxElement:
			return l.errorf("a job of more than %d bytes: want a list of jobs", maxElement)
		case closed:
			return nil
		}
	}
}

// nesting is the depth of brackets at a position in an element. It does not tell braces from brackets, and takes a
// mismatch for an end: decode refuses such an element.
type nesting struct {
	depth           int
	quoted, escaped bool // in a string; after a backslash in it
}

// readUntilClosed reads on until all brackets are closed or the text ends, so that an element can be read in several
// pieces. It returns the length read, and whether all are closed.
func (n *nesting) readUntilClosed(text []byte) (length int, closed bool) {
	for i, b := range text {
		if n.nextByte(b); n.depth == 0 {
			return i + 1, true
		}
	}
	return len(text), false
}

// nextByte advances by one byte. Brackets within strings do not count.
func (n *nesting) nextByte(b byte) {
	switch {
	case n.escaped:
		n.escaped = false
	case n.quoted:
		n.escaped, n.quoted = b == '\\', b != '"'
	case b == '"':
		n.quoted = true
	case b == '{' || b == '[':
		n.depth++
	case b == '}' || b == ']':
		n.depth--
	}
}

// decode parses the current element. Errors name the line of the file, which the library does not know, and what is
// expected.
func (l *jsonList) decode(into *phillyJob) error {
	err := json.Unmarshal(l.element, into)
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return l.lineOf(syntax.Offset).errorf("%w: want JSON", err)
	case errors.As(err, &kind):
		return l.lineOf(kind.Offset).wrong(kind.Field, "a JSON "+kind.Value, jsonTypeName(kind.Type.String()))
	}
	return err
}

// jsonTypeName names the JSON type for a type of Go, for errors.
func jsonTypeName(kind string) string {
	switch {
	case kind == "string":
		return "text"
	case strings.HasPrefix(kind, "[]"):
		return "a list"
	}
	return "an object"
}

// lineOf returns the line of the file in which a byte of the current element lies.
func (l *jsonList) lineOf(offset int64) place {
	return place{l.name, l.line + bytes.Count(l.element[:min(offset, int64(len(l.element)))], []byte("\n"))}
}

// skipSpace skips white space and returns the next byte without consuming it. At the end of the file, or if it cannot
// be read, it returns 0, which is no valid text, so that the caller reports the error.
func (l *jsonList) skipSpace() byte {
	for {
		next, err := l.text.Peek(1)
		if err != nil {
			return 0
		}
		if bytes.IndexByte([]byte(" \t\r\n"), next[0]) < 0 {
			return next[0]
		}
		l.consume(1)
	}
}

// consume consumes bytes that were peeked, and counts their lines for later errors.
func (l *jsonList) consume(length int) {
	passed, _ := l.text.Peek(length)
	l.nextLine += bytes.Count(passed, []byte("\n"))
	l.text.Discard(length)
}

// endList consumes the closing bracket, and requires that nothing follows the list.
func (l *jsonList) endList() error {
	l.consume(1)
	l.skipSpace()
	if _, err := l.text.Peek(1); err != io.EOF {
		return l.misplaced("nothing behind the list")
	}
	l.hasEnded = true
	return nil
}

// misplaced is the error of an unexpected next byte, or of the end of the file in its place.
func (l *jsonList) misplaced(want string) error {
	if _, err := l.text.Peek(1); err != nil {
		return l.broken(err)
	}
	rest, _ := l.text.Peek(20)
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	return place{l.name, l.nextLine}.errorf("%s: want %s", legible(string(line)), want)
}

// broken is the error of a file that ends, or becomes unreadable, within the list.
func (l *jsonList) broken(err error) error {
	here := place{l.name, l.nextLine}
	if err == io.EOF {
		return here.errorf("the file ends in the middle of the list: want it whole")
	}
	return here.stopped(err)
}
