package trace

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
)

// maxElement bounds what one element of a JSON list may take up in memory.
const maxElement = 16 << 20

// jsonList reads a JSON list of objects, of which it holds one at a time. It finds their ends by itself, because the
// library's decoder does not tell on which line it is.
type jsonList struct {
	place   // where the current element begins
	text    *bufio.Reader
	reading int    // the line of what is read next
	element []byte // the current one
	begun   bool
	ended   bool
	err     error
}

func newList(name string, r io.Reader) *jsonList {
	return &jsonList{place: place{name: name}, text: bufio.NewReaderSize(r, 64<<10), reading: 1}
}

// next goes to the next element. It is false at the end of the list, and after an error.
func (l *jsonList) next() bool {
	if l.err == nil && !l.ended {
		l.err = l.advance()
	}
	return l.err == nil && !l.ended
}

func (l *jsonList) advance() error {
	next := l.skip()
	switch {
	case !l.begun && next == '[':
		l.begun = true
		l.pass(1)
		if l.skip() == ']' {
			return l.end()
		}
		return l.read()
	case l.begun && next == ',':
		l.pass(1)
		return l.read()
	case l.begun && next == ']':
		return l.end()
	case l.begun:
		return l.misplaced("a comma or the end of the list")
	}
	return l.misplaced("a list of jobs: [{…}, …]")
}

// read reads an object to its end.
func (l *jsonList) read() error {
	if l.skip() != '{' {
		return l.misplaced("a job: {…}")
	}
	l.line, l.element = l.reading, l.element[:0]
	for n := (nesting{}); ; {
		if _, err := l.text.Peek(1); err != nil {
			return l.broken(err)
		}
		ahead, _ := l.text.Peek(l.text.Buffered())
		length, closed := n.follow(ahead)
		l.element = append(l.element, ahead[:length]...)
		l.pass(length)
		switch {
		case len(l.element) > maxElement:
			return l.errorf("a job of more than %d bytes: want a list of jobs", maxElement)
		case closed:
			return nil
		}
	}
}

// nesting is how deep in an element one is.
type nesting struct {
	depth           int
	quoted, escaped bool // in a text; behind a backslash in it
}

// follow goes on to where all that was opened is closed, or to the end of the text. It says how far that is, and which
// of both.
func (n *nesting) follow(text []byte) (length int, closed bool) {
	for i, b := range text {
		if n.take(b); n.depth == 0 {
			return i + 1, true
		}
	}
	return len(text), false
}

func (n *nesting) take(b byte) {
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

// decode takes the current element apart.
func (l *jsonList) decode(into *phillyJob) error {
	err := json.Unmarshal(l.element, into)
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return l.lineOf(syntax.Offset).errorf("%w: want JSON", err)
	case errors.As(err, &kind):
		return l.lineOf(kind.Offset).wrong(kind.Field, "a JSON "+kind.Value, wanted(kind.Type.String()))
	}
	return err
}

// wanted says what JSON a type of Go is read from.
func wanted(kind string) string {
	switch {
	case kind == "string":
		return "text"
	case strings.HasPrefix(kind, "[]"):
		return "a list"
	}
	return "an object"
}

// lineOf is the line of the byte in the current element.
func (l *jsonList) lineOf(offset int64) place {
	return place{l.name, l.line + bytes.Count(l.element[:min(offset, int64(len(l.element)))], []byte("\n"))}
}

// skip passes over space, and returns what comes then without taking it; 0 at the end of the file.
func (l *jsonList) skip() byte {
	for {
		next, err := l.text.Peek(1)
		if err != nil {
			return 0
		}
		if bytes.IndexByte([]byte(" \t\r\n"), next[0]) < 0 {
			return next[0]
		}
		l.pass(1)
	}
}

// pass goes on by so many bytes that were looked at.
func (l *jsonList) pass(length int) {
	passed, _ := l.text.Peek(length)
	l.reading += bytes.Count(passed, []byte("\n"))
	l.text.Discard(length)
}

// end makes sure that nothing comes behind the list.
func (l *jsonList) end() error {
	l.pass(1)
	l.skip()
	if _, err := l.text.Peek(1); err != io.EOF {
		return l.misplaced("nothing behind the list")
	}
	l.ended = true
	return nil
}

// misplaced is the error of what comes next.
func (l *jsonList) misplaced(want string) error {
	if _, err := l.text.Peek(1); err != nil {
		return l.broken(err)
	}
	rest, _ := l.text.Peek(20)
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	return place{l.name, l.reading}.errorf("%s: want %s", legible(string(line)), want)
}

// broken is the error of a file that ends, or cannot be read, in the middle.
func (l *jsonList) broken(err error) error {
	here := place{l.name, l.reading}
	if err == io.EOF {
		return here.errorf("the file ends in the middle of the list: want it whole")
	}
	return here.stopped(err)
}
