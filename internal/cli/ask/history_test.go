package ask

import "testing"

// TestNoJobNameIsAFormulaToASpreadsheet, whatever stands before its first character that shows.
func TestNoJobNameIsAFormulaToASpreadsheet(t *testing.T) {
	for _, name := range []string{"=1+1", "+1", "-1", "@SUM(A1)", "\x01=1", "\t=1", " =1", "\u202e=1", "\r\n@x",
		"\ufeff=1"} {
		if got := formulaSafe(name); got[0] != '\'' {
			t.Errorf("%q is written as %q", name, got)
		}
	}
	if got := formulaSafe("vision=1"); got != "vision=1" {
		t.Errorf("a plain name is written as %q", got)
	}
}
