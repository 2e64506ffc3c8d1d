package spelling

import (
	"strings"
	"testing"
)

// TestAStarStandsForAnyText; the last pattern would take years if each star were tried with each text.
func TestAStarStandsForAnyText(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		fits          bool
	}{
		{"ann", "ann", true}, {"ann", "anna", false}, {"*", "", true}, {"*", "ann", true}, {"a*", "ann", true},
		{"*n", "ann", true}, {"b*", "ann", false}, {"a*a", "a", false}, {"a*a", "aa", true}, {"", "", true},
		{"", "a", false}, {"l*-*x", "ml-vox", false}, {"*l-*x", "ml-vox", true}, {"a*b*c", "acb", false},
		{strings.Repeat("*a", 40) + "*b", strings.Repeat("a", 200), false},
	} {
		if got := Fits(c.pattern, c.text); got != c.fits {
			t.Errorf("%q fits %q: %v, want %v", c.pattern, c.text, got, c.fits)
		}
	}
}

func TestTheNameThatDiffersByAFewLettersWasMeant(t *testing.T) {
	names := []string{"vision", "speech", "visitors", "ml"}
	for typed, want := range map[string]string{"visoin": "vision", "Vision": "vision",
		"spech": "speech", "vis": "vision",
		"mll": "ml", "robots": "", "": "", "visitor": "visitors"} {
		if got := Nearest(typed, names); got != want {
			t.Errorf("%s: %q, want %q", typed, got, want)
		}
	}
	if got := Nearest("a", nil); got != "" {
		t.Errorf("of none %q", got)
	}
}
