package guest

import (
	"bytes"
	"strings"
	"sync"

	"github.com/synergy-slurmd/synergy-slurmd/printable"
)

// How much of what a guest writes is looked at.
const (
	longLine  = 1000 // bytes; the rest of it is dropped
	firstKept = 200  // bytes, for the error of one that ended: Go says at the beginning why it panics,
	lastKept  = 400  // and Python at the end
)

// lines cuts what a program writes to its standard error into lines, and keeps the end of it.
type lines struct {
	tell func(string)

	mu   sync.Mutex
	line []byte
	head []byte
	tail []byte
	more bool // something between head and tail is dropped
}

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

// keep keeps the beginning and the end of everything.
func (l *lines) keep(text []byte) {
	first := min(len(text), firstKept-len(l.head))
	l.head, text = append(l.head, text[:first]...), text[first:]
	l.more = l.more || len(l.tail)+len(text) > lastKept
	l.tail = append(l.tail, text[max(0, len(text)-lastKept):]...)
	l.tail = append(l.tail[:0], l.tail[max(0, len(l.tail)-lastKept):]...)
}

func (l *lines) end() {
	if l.tell != nil && len(l.line) > 0 {
		l.tell(strings.ToValidUTF8(string(l.line), "?"))
	}
	l.line = l.line[:0]
}

// words is what was written, in one line: its beginning and its end where it was much.
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

func (l *lines) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.line, l.head, l.tail, l.more = l.line[:0], l.head[:0], l.tail[:0], false
}
