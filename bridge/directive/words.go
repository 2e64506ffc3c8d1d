package directive

import (
	"iter"
	"slices"
	"strings"
)

// strayAmount is the text about an amount that stands apart from synergy-share. Without it, the job would share with no
// other job, or with its profile's figure, against its user's intention. The gate uses the same sentence.
const strayAmount = "reads like an amount of " + shareName + "; amounts stand directly behind the class, joined by " +
	"commas: " + shareName + "=low,mem=6"

// amountNames are the names of amounts and likely misspellings, in lower case and with dashes. None contains k or i,
// which are also the lower case of letters beyond ASCII, such as the Kelvin sign: Go's ToLower converts these, and the
// gate's Lua cannot.
var amountNames = []string{"mem", "memory", "gpu-mem", "gpu-memory", "gpumem", "gpumemory", "slo", "level"}

// isAmount says whether a word looks like an amount of synergy-share that stands in the wrong place. Other words in a
// comment belong to the user.
func isAmount(word string) bool {
	name, _, given := strings.Cut(word, "=")
	return given && slices.Contains(amountNames, strings.ReplaceAll(strings.ToLower(name), "_", "-"))
}

// words splits a comment at commas and at the white space that the gate's Lua knows. Other space is part of a word: if
// only the daemon split there, it would manage jobs that the gate has not checked.
func words(comment string) iter.Seq[string] {
	return func(yield func(string) bool) {
		next := func(text string) string { return strings.TrimLeft(text, betweenWords) }
		for rest := next(comment); rest != ""; rest = next(rest) {
			word := rest[:lengthOfWord(rest)]
			rest = rest[len(word):]
			if !yield(word) {
				return
			}
		}
	}
}

// betweenWords are the characters that separate words.
const betweenWords = ", \t\n\v\f\r"

// lengthOfWord is the length in bytes of the word at the beginning of text. Amounts belong to synergy-share if they
// follow it, or each other, after one comma and nothing else.
func lengthOfWord(text string) int {
	end := wordEnd(text, 0)
	if !strings.HasPrefix(text, shareName+"=") {
		return end
	}
	for strings.HasPrefix(text[end:], ",mem=") || strings.HasPrefix(text[end:], ",slo=") {
		end = wordEnd(text, end+1)
	}
	return end
}

// wordEnd is the index at which the word that begins at from ends.
func wordEnd(text string, from int) int {
	if length := strings.IndexAny(text[from:], betweenWords); length >= 0 {
		return from + length
	}
	return len(text)
}
