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

// longestName and longestLine are how many characters are shown of a name from outside, and of a sentence with such
// names.
const (
	longestName = 80
	longestLine = 400
)

// plain makes a name from outside harmless for pictures and pages: one line, only characters that are seen, and not too
// many. Escaping is left to those who write.
func plain(name string) string { return cut(name, longestName) }

func cut(words string, longest int) string {
	runes := []rune(printable.Line(words, 0))
	if len(runes) > longest {
		return string(runes[:longest-1]) + "…"
	}
	return string(runes)
}

// acronyms are the policies that are written otherwise than their names.
var acronyms = map[string]string{"fifo": "FIFO", "srtf": "SRTF", "las": "LAS", "ftf": "FTF", "drf": "DRF",
	outcome.AsItWas: "As it was", outcome.Backfill: "Slurm's backfill"}

// display is a policy's or an allocator's name as people write it.
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

// hour is in seconds.
const hour = 3600

// hours writes seconds as hours, with four digits that count.
func hours(seconds float64) string {
	return digits(seconds / hour)
}

// digits writes a number with four digits that count, and at most three behind the point.
func digits(value float64) string {
	decimals := 3
	for bound := 10.0; math.Abs(value) >= bound && decimals > 0; bound *= 10 {
		decimals--
	}
	return thousands(strconv.FormatFloat(value, 'f', decimals, 64))
}

// times writes a ratio.
func times(ratio float64) string { return strconv.FormatFloat(ratio, 'f', 2, 64) + "×" }

// percent writes a share of 1.
func percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 1, 64) }

// count writes a whole number.
func count(n int) string { return thousands(strconv.Itoa(n)) }

// short writes a number as briefly as it can be.
func short(value float64) string { return strconv.FormatFloat(value, 'f', -1, 64) }

// thousands puts commas into the whole part of a number.
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

// several writes a number with its noun, which is put into the plural.
func several(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%s %ss", count(n), noun)
}

// appendIf adds a word to a list where it is wanted.
func appendIf(words []string, wanted bool, word string) []string {
	if !wanted {
		return words
	}
	return append(words, word)
}
