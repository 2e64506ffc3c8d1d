// Package printable makes foreign text safe to show: names, reasons and messages from users, files, programs or Slurm
// that go into logs, terminals, pages, metrics and environments. A terminal obeys control characters, a log is read
// line by line, and characters that change the writing direction make one name look like another. The package does not
// interpret text and escapes for no notation: JSON, XML and shells have their own rules.
package printable

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Is reports whether text can be shown as it is: valid UTF-8 in one line, with only visible characters and plain
// blanks.
func Is(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, hidden)
}

// Blank returns text with the same layout and a blank in place of each character that cannot be shown.
func Blank(text string) string {
	return strings.Map(func(r rune) rune {
		if hidden(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
}

// Line returns text as words on one line of at most `most` bytes, and a mark if it was cut; 0 means no bound.
func Line(text string, most int) string {
	if most > 0 { // bounds the work on long text; few of its bytes are blanks that fall away
		text = text[:min(len(text), 4*most)]
	}
	return Cut(strings.Join(strings.Fields(Blank(text)), " "), most)
}

// Quote returns text for an error message: as it is, or as a Go string in ASCII if it is empty or cannot be shown. It
// is cut at `most` bytes.
func Quote(text string, most int) string {
	text = Cut(text, most)
	if text == "" || !Is(text) {
		return strconv.QuoteToASCII(text)
	}
	return text
}

const more = "…"

// Cut returns the first characters of text, at most `most` bytes and a mark if text is longer; 0 means no bound.
func Cut(text string, most int) string {
	if most <= 0 || len(text) <= most {
		return text
	}
	end := most
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + more
}

// hidden reports whether a character is invisible or obeyed by a terminal. Blanks other than the plain one count as
// hidden, since they look like it.
func hidden(r rune) bool { return !unicode.IsPrint(r) }
