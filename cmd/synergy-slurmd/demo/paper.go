package demo

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// style is how text looks on a terminal, as the number of an ANSI escape sequence.
type style string

const (
	plain  style = ""
	bold   style = "1"
	faint  style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
	cyan   style = "36"
)

// span is a piece of a line in one style. All its characters are one column wide.
type span struct {
	text  string
	style style
}

// paper writes lines of a fixed width, with colours or without. The first error of writing is kept, and nothing is
// written after it.
type paper struct {
	out     io.Writer
	columns int
	colour  func(text string, s style) string
	err     error
}

func coloured(text string, s style) string {
	if s == plain || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

func uncoloured(text string, _ style) string { return text }

// line writes a line, cut to the width.
func (p *paper) line(spans ...span) {
	var line strings.Builder
	room := p.columns
	for _, s := range spans {
		text := clip(s.text, room)
		room -= width(text)
		line.WriteString(p.colour(text, s.style))
	}
	if p.err == nil {
		_, p.err = fmt.Fprintln(p.out, strings.TrimRight(line.String(), " "))
	}
}

// rule writes a heading across the width.
func (p *paper) rule(parts ...string) {
	text := "── " + strings.Join(parts, " ── ") + " "
	p.line(span{text, bold}, span{strings.Repeat("─", max(0, p.columns-width(text))), faint})
}

// listing writes items one after the other behind a mark, on as many lines as needed.
func (p *paper) listing(mark span, items []string) {
	line := ""
	for k, item := range items {
		if k < len(items)-1 {
			item += ", "
		}
		if line != "" && margin+width(strings.TrimRight(line+item, " ")) > p.columns {
			p.line(lead(mark), span{line, plain})
			line, mark = "", span{}
		}
		line += item
	}
	p.line(lead(mark), span{line, plain})
}

// say writes a text on as many lines as needed.
func (p *paper) say(text string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && margin+width(line)+1+width(word) > p.columns {
			p.line(lead(span{}), span{line, plain})
			line = ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	p.line(lead(span{}), span{line, plain})
}

// margin is the width of the left margin, in which marks stand.
const margin = 3

func lead(mark span) span { return span{fmt.Sprintf(" %-*s", margin-1, mark.text), mark.style} }

func width(text string) int { return utf8.RuneCountInString(text) }

// clip cuts a text to at most room columns.
func clip(text string, room int) string {
	if width(text) <= room {
		return text
	}
	if room <= 0 {
		return ""
	}
	return string([]rune(text)[:room-1]) + "…"
}

// fit cuts a sentence to at most room columns, at the end of a clause if possible.
func fit(sentence string, room int) string {
	for text := sentence; text != ""; {
		if width(text) <= room {
			return text
		}
		text = text[:max(0, strings.LastIndexAny(text, ";,:"))]
	}
	return clip(sentence, room)
}
