// Package printable makes text of others fit to be shown: names, reasons and messages that came from users, files,
// programs or Slurm and go into logs, terminals, pages, metrics and environments. A terminal obeys control characters,
// a log is read line by line, and characters that turn the direction of writing make one name look like another. It
// decides nothing about what a text means, and escapes for no notation: JSON, XML and shells have their own rules.
package printable

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Is says whether text can be shown as it is: valid UTF-8 in one line, in which every character is seen or a plain
// blank.
func Is(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, hidden)
}

// Blank is text of the same layout, with a blank for each character that cannot be shown.
func Blank(text string) string {
	return strings.Map(func(r rune) rune {
		if hidden(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
}

// Line is text as words on one line, of at most so many bytes; 0 is no bound.
func Line(text string, most int) string {
	if most > 0 { // a flood is not read to its end: blanks that fall away are few
		text = text[:min(len(text), 4*most)]
	}
	return Cut(strings.Join(strings.Fields(Blank(text)), " "), most)
}

// Quote is text as an error repeats it: as it is, or as a Go string in ASCII where it is empty or cannot be shown. What
// goes beyond so many bytes of it is left out.
func Quote(text string, most int) string {
	text = Cut(text, most)
	if text == "" || !Is(text) {
		return strconv.QuoteToASCII(text)
	}
	return text
}

const more = "…"

// Cut is the beginning of text, whole characters of at most so many bytes and a mark, where it is longer; 0 is no
// bound.
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

// hidden is a character that is not seen, or that a terminal obeys. Blanks other than the plain one are hidden: they
// look like it.
func hidden(r rune) bool { return !unicode.IsPrint(r) }
