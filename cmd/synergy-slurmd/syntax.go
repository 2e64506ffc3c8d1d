package main

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/synergy-slurmd/synergy-slurmd/printable"
)

// syntaxError says what is wrong with a text that is not YAML, in which line, and what would be right. The parser's own
// error is of less use: it is often in a line behind the mistake, and names what the parser expected.
func syntaxError(text []byte, err error) error {
	lines := strings.Split(string(text), "\n")
	failure := (*yaml.LoadError)(nil)
	if !errors.As(err, &failure) || failure.Mark.Line < 1 {
		return err
	}
	// The parser may be behind the last line.
	at := min(failure.Mark.Line, len(lines))
	for _, say := range diagnoses {
		if line, what := say(lines, at, failure.Message); line > 0 {
			return fmt.Errorf("line %d: %s", line, what)
		}
	}
	return fmt.Errorf(
		"line %d: %s: want lines as policy: las, lists as [a, b], and what stands below a key two spaces "+
			"further in",
		failure.Mark.Line,
		failure.Message,
	)
}

// unreadable finds the first line with a character that YAML does not allow, or an invisible one.
func unreadable(text []byte) error {
	for i, line := range bytes.Split(text, []byte("\n")) {
		if !utf8.Valid(line) {
			return fmt.Errorf("line %d: is not in UTF-8: save the file as that, or write it in ASCII", i+1)
		}
		own, _, _ := strings.Cut(strings.TrimSuffix(string(line), "\r"), "#")
		if i == 0 {
			own = strings.TrimPrefix(own, "\ufeff")
		}
		for _, r := range own {
			switch {
			case r != '\t' && unicode.IsControl(r):
				return fmt.Errorf("line %d: has a control character, %U: take it out", i+1, r)
			case r != ' ' && r != '\t' && unicode.IsSpace(r), unicode.Is(unicode.Cf, r):
				return fmt.Errorf(
					"line %d: has a character that looks like a space or like nothing, %U: write a plain "+
						"space, or take it out",
					i+1,
					r,
				)
			}
		}
	}
	return nil
}

// diagnoses are tried in turn. Each returns the line of the mistake and what it is, or 0 if it is another one. at is
// the parser's line, from 1, and message its error.
var diagnoses = []func(lines []string, at int, message string) (line int, what string){
	tabbed, unclosed, unquoted, withoutColon, twoValues, crooked,
}

// indented is the white space that a line begins with.
func indented(line string) string { return line[:len(line)-len(strings.TrimLeft(line, " \t"))] }

// shownOf quotes a line, cut to 60 bytes.
func shownOf(line string) string {
	return fmt.Sprintf("%q", printable.Line(strings.TrimSpace(line), 60))
}

// tabbed finds a line that is indented by a tab.
func tabbed(lines []string, at int, _ string) (int, string) {
	if strings.Contains(indented(lines[at-1]), "\t") {
		return at, "begins with a tab, and YAML takes only spaces there: write two spaces for each level"
	}
	return 0, ""
}

// bare is a line without its comment and its quoted parts; open is a quote that is not closed. A quote begins only
// where a value can, since an apostrophe within a word is none.
func bare(line string) (rest string, open rune) {
	var kept strings.Builder
	before := ' '
	for _, r := range line {
		switch {
		case open != 0:
			if r == open && before != '\\' {
				open = 0
			}
		case (r == '"' || r == '\'') && strings.ContainsRune(" [{,:-", before):
			open = r
		case r == '#' && (before == ' ' || before == '\t'):
			return kept.String(), 0
		default:
			kept.WriteRune(r)
		}
		before = r
	}
	return kept.String(), open
}

// unclosed finds the quote or the bracket that was opened last and never closed. A quote counts if the parser came to
// the end of the text, and a bracket if it wanted a comma or a value.
func unclosed(lines []string, at int, message string) (int, string) {
	var brackets []int
	closers := map[rune]rune{'[': ']', '{': '}'}
	var last rune
	for i := range lines[:at] {
		rest, open := bare(lines[i])
		if open != 0 && strings.Contains(message, "end of stream") {
			return i + 1, fmt.Sprintf("has a quote %c that is not closed: write another one behind the value", open)
		}
		if i == at-1 {
			break // the parser's line may be behind the mistake
		}
		for _, r := range rest {
			switch r {
			case '[', '{':
				brackets, last = append(brackets, i+1), r
			case ']', '}':
				brackets = brackets[:max(0, len(brackets)-1)]
			}
		}
	}
	if rest, _ := bare(lines[at-1]); len(brackets) == 0 && strings.ContainsAny(rest, "[{") {
		for _, r := range rest {
			if closers[r] != 0 {
				last = r
			}
		}
		brackets = append(brackets, at)
	}
	inList := strings.Contains(message, "expected ','") || strings.Contains(message, "node content")
	if inList && len(brackets) > 0 {
		return brackets[len(brackets)-1], fmt.Sprintf("has a %c that is not closed, or not just one comma between two "+
			"values: want [a, b] or {a: 1, b: 2}", last)
	}
	return 0, ""
}

// reserved are the characters that no value may begin with.
const reserved = "@`%*&!|>"

// unquoted finds a value that begins with a character that means something to YAML.
func unquoted(lines []string, at int, message string) (int, string) {
	if !strings.Contains(message, "cannot start any token") && !strings.Contains(message, "alphabetic or numeric") &&
		!strings.Contains(message, "anchor") {
		return 0, ""
	}
	if found := startsOdd.FindStringSubmatch(lines[at-1]); found != nil {
		return at, fmt.Sprintf(
			"has a value that begins with %s, which means something to YAML: put it in quotes, as %q",
			found[1][:1],
			found[1],
		)
	}
	return 0, ""
}

// startsOdd finds a value that begins with one of these: behind a key, in a list, or alone in its line.
var startsOdd = regexp.MustCompile("(?:^|[:\\[{,-])\\s*([" + regexp.QuoteMeta(reserved) + "][^\\s,\\]}]*)")

// withoutColon finds the line that is no key with a value. The parser reports it only at the next line.
func withoutColon(lines []string, at int, message string) (int, string) {
	if !strings.Contains(message, "could not find expected ':'") {
		return 0, ""
	}
	for i := at - 1; i >= 0; i-- {
		rest, _ := bare(lines[i])
		rest = strings.TrimSpace(rest)
		if rest == "" || strings.HasPrefix(rest, "- ") || strings.Contains(rest, ": ") || strings.HasSuffix(rest, ":") {
			continue
		}
		name, value, is := strings.Cut(rest, ":")
		if !is {
			if name, value, is = strings.Cut(rest, "="); !is {
				name, value, is = strings.Cut(rest, " ")
			}
		}
		if is && strings.TrimSpace(value) != "" {
			return i + 1, fmt.Sprintf("%s is no key with a value: want %s: %s", shownOf(rest),
				printable.Line(strings.TrimSpace(name), 60), printable.Line(strings.TrimSpace(value), 60))
		}
		return i + 1, fmt.Sprintf("%s is no key with a value: want a colon and a space between them, as policy: las",
			shownOf(rest))
	}
	return 0, ""
}

// twoValues finds a second value where one is complete.
func twoValues(lines []string, at int, message string) (int, string) {
	if !strings.Contains(message, "mapping values are not allowed") {
		return 0, ""
	}
	if rest, _ := bare(lines[at-1]); strings.Count(rest, ": ") > 1 {
		return at, "has a colon with a space behind it in a value: put the value in quotes"
	}
	return at, "stands further in than the line before, which has its value already: begin it below that line's key, or " +
		"take the value away"
}

// crooked finds a line whose indentation fits no line before it.
func crooked(lines []string, at int, message string) (int, string) {
	switch {
	case strings.Contains(message, "<document start>"): // the first line is further in than the second
		at = 1 + slices.IndexFunc(lines, func(line string) bool {
			rest, _ := bare(line)
			return strings.TrimSpace(rest) != ""
		})
	case !strings.Contains(message, "did not find expected key") && !strings.Contains(message, "expected '-'"):
		return 0, ""
	}
	return at, fmt.Sprintf("%s stands %d spaces in, as no line before it that it could belong to: begin it below its "+
		"neighbours", shownOf(lines[at-1]), len(indented(lines[at-1])))
}
