package spelling

import "testing"

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
