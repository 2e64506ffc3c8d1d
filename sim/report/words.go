package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"

	"github.com/synergy-slurmd/synergy-slurmd/printable"
	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
)

// longestName and longestLine bound the characters shown of a foreign name, and of a sentence that contains such names.
const (
	longestName = 80
	longestLine = 400
)

// plain makes a foreign name safe for pictures and pages: one line of visible characters, of bounded length. Writers
// must still escape it.
func plain(name string) string { return cut(name, longestName) }

// cut makes one line of visible characters of a text, of at most longest characters with the mark. It counts
// characters, because these bound the width in a picture; printable.Cut counts bytes, of which a Chinese name has three
// a character, and puts its mark behind them.
func cut(words string, longest int) string {
	runes := []rune(printable.Line(words, 0))
	if len(runes) > longest {
		return string(runes[:longest-1]) + "…"
	}
	return string(runes)
}

// acronyms are the display names that differ from the capitalised name.
var acronyms = map[string]string{"fifo": "FIFO", "srtf": "SRTF", "las": "LAS", "ftf": "FTF", "drf": "DRF",
	outcome.AsItWas: "As it was", outcome.Backfill: "Slurm's backfill"}

// display is the display name of a policy or allocator. The loop serves to read the first character, and returns in its
// first pass.
func display(name string) string {
	if acronym, known := acronyms[name]; known {
		return acronym
	}
	name = plain(name)
	for i, r := range name {
		return string(unicode.ToUpper(r)) + name[i+len(string(r)):]
	}
	return "unnamed"
}

// hour is an hour in seconds.
const hour = 3600

// hours formats seconds as hours, with four significant digits.
func hours(seconds float64) string {
	return digits(seconds / hour)
}

// digits formats a number with four significant digits, and at most three decimals.
func digits(value float64) string {
	decimals := 3
	for bound := 10.0; math.Abs(value) >= bound && decimals > 0; bound *= 10 {
		decimals--
	}
	return thousands(strconv.FormatFloat(value, 'f', decimals, 64))
}

// ratioText formats a ratio.
func ratioText(ratio float64) string { return strconv.FormatFloat(ratio, 'f', 2, 64) + "×" }

// percent formats a part of 1 in percent.
func percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 1, 64) }

// count formats a whole number.
func count(n int) string { return thousands(strconv.Itoa(n)) }

// shortNumber formats a number with as few digits as possible.
func shortNumber(value float64) string { return strconv.FormatFloat(value, 'f', -1, 64) }

// thousands adds commas to the whole part of a number, which may have a sign and a fraction.
func thousands(number string) string {
	whole, fraction, _ := strings.Cut(number, ".")
	first := len(whole) - 3
	for i := first; i > 0 && whole[i-1] != '-'; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if fraction != "" {
		return whole + "." + fraction
	}
	return whole
}

// countNoun formats a count with a noun in the singular or plural.
func countNoun(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%s %ss", count(n), noun)
}

// appendIf appends a word if it is wanted.
func appendIf(words []string, wanted bool, word string) []string {
	if !wanted {
		return words
	}
	return append(words, word)
}
