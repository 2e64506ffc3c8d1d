package printable_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/synergy-slurmd/synergy-slurmd/printable"
)

func TestWhatATerminalObeysIsNeverShown(t *testing.T) {
	for _, c := range []struct{ text, blank, line, quote string }{
		{"res18", "res18", "res18", "res18"},
		{"", "", "", `""`},
		{"two  words", "two  words", "two words", "two  words"},
		{"red\x1b[31m", "red [31m", "red [31m", `"red\x1b[31m"`},
		{"two\nlines\r\n", "two lines  ", "two lines", `"two\nlines\r\n"`},
		{"gpj.\u202eexe", "gpj. exe", "gpj. exe", `"gpj.\u202eexe"`},
		{"a\u00a0b", "a b", "a b", `"a\u00a0b"`},
		{"caf\xe9", "caf?", "caf?", `"caf\xe9"`},
		{"Zürich 東京", "Zürich 東京", "Zürich 東京", "Zürich 東京"},
	} {
		if got := printable.Blank(c.text); got != c.blank {
			t.Errorf("Blank(%q) = %q, want %q", c.text, got, c.blank)
		}
		if got := printable.Line(c.text, 0); got != c.line {
			t.Errorf("Line(%q) = %q, want %q", c.text, got, c.line)
		}
		if got := printable.Quote(c.text, 0); got != c.quote {
			t.Errorf("Quote(%q) = %q, want %q", c.text, got, c.quote)
		}
		if got, want := printable.Is(c.text), c.text == "" || c.quote == c.text; got != want {
			t.Errorf("Is(%q) = %v, want %v", c.text, got, want)
		}
	}
}

func TestACutFallsBetweenCharacters(t *testing.T) {
	for most, want := range map[int]string{0: "Zürich", 1: "Z…", 2: "Z…", 3: "Zü…", 6: "Züric…", 7: "Zürich",
		9: "Zürich"} {
		if got := printable.Cut("Zürich", most); got != want {
			t.Errorf("Cut to %d bytes = %q, want %q", most, got, want)
		}
	}
}

func FuzzPrintable(f *testing.F) {
	f.Add("train\x1b]0;x\a \u202e\n\xff", 7)
	f.Fuzz(func(t *testing.T, text string, most int) {
		most %= 1000
		line, quote := printable.Line(text, most), printable.Quote(text, most)
		for _, shown := range []string{line, quote, printable.Blank(text)} {
			if !utf8.ValidString(shown) || strings.ContainsFunc(shown,
				func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Fatalf("%q is shown as %q", text, shown)
			}
		}
		if most > 0 && len(line) > most+len("…") {
			t.Fatalf("%q has %d bytes, want %d", line, len(line), most)
		}
		if again := printable.Line(line, 0); again != line {
			t.Fatalf("Line changes its own: %q to %q", line, again)
		}
	})
}
