package guest

import (
	"bytes"
	"strings"
	"sync"

	"github.com/synergy-slurmd/synergy-slurmd/printable"
)

// How much of a guest's output is kept, bytes.
const (
	longLine  = 1000 // of a line; the rest is dropped
	firstKept = 200  // of the beginning, for the error when it ended: Go says there why it panics,
	lastKept  = 400  // of the end, where Python says it
)

// lines splits what a program writes to its standard error into lines, and keeps its beginning and end.
type lines struct {
	tell func(string)

	mu   sync.Mutex
	line []byte
	head []byte
	tail []byte
	more bool // something between head and tail was dropped
}

// Write takes output of the program; it never fails.
func (l *lines) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keep(text)
	for rest := text; len(rest) > 0; {
		part, after, ended := bytes.Cut(rest, []byte{'\n'})
		l.line = append(l.line, part[:min(len(part), longLine-len(l.line))]...)
		if ended {
			l.end()
		}
		rest = after
	}
	return len(text), nil
}

// keep keeps the beginning and the end of all output.
func (l *lines) keep(text []byte) {
	first := min(len(text), firstKept-len(l.head))
	l.head, text = append(l.head, text[:first]...), text[first:]
	l.more = l.more || len(l.tail)+len(text) > lastKept
	l.tail = append(l.tail, text[max(0, len(text)-lastKept):]...)
	l.tail = append(l.tail[:0], l.tail[max(0, len(l.tail)-lastKept):]...)
}

// end reports the complete line.
func (l *lines) end() {
	if l.tell != nil && len(l.line) > 0 {
		l.tell(strings.ToValidUTF8(string(l.line), "?"))
	}
	l.line = l.line[:0]
}

// words returns in one line what was written, its beginning and end if it is long.
func (l *lines) words() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	said := string(l.head)
	if l.more {
		said += " … "
	}
	if said = printable.Line(said+string(l.tail), 0); said == "" {
		return "it wrote nothing to its standard error"
	}
	return "it wrote: " + said
}

// forget drops what an earlier run wrote, so that it is not taken for the next one's.
func (l *lines) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.line, l.head, l.tail, l.more = l.line[:0], l.head[:0], l.tail[:0], false
}
