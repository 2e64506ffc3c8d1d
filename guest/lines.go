package guest

import (
	"bytes"
	"strings"
	"sync"
)

// How much of what a guest writes is looked at.
const (
	longLine = 1000 // bytes; the rest of it is dropped
	lastKept = 500  // bytes, for the error of one that ended
)

// lines cuts what a program writes to its standard error into lines, and keeps the end of it.
type lines struct {
	tell func(string)

	mu   sync.Mutex
	line []byte
	tail []byte
}

func (l *lines) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tail = append(l.tail, text[max(0, len(text)-lastKept):]...)
	l.tail = append(l.tail[:0], l.tail[max(0, len(l.tail)-lastKept):]...)
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

func (l *lines) end() {
	if l.tell != nil && len(l.line) > 0 {
		l.tell(strings.ToValidUTF8(string(l.line), "?"))
	}
	l.line = l.line[:0]
}

// last is the end of what was written, in one line.
func (l *lines) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if said := strings.Join(strings.Fields(strings.ToValidUTF8(string(l.tail), "?")), " "); said != "" {
		return said
	}
	return "it said nothing"
}

func (l *lines) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.line, l.tail = l.line[:0], l.tail[:0]
}
