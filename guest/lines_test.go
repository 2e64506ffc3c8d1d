package guest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestWhatAProgramWritesIsCutIntoLinesAndBounded(t *testing.T) {
	var told []string
	l := &lines{tell: func(line string) { told = append(told, line) }}
	for _, part := range []string{"one\ntw", "o\n\n", strings.Repeat("x", 5000), strings.Repeat("y", 5000), "\n\xff end"} {
		if n, err := fmt.Fprint(l, part); n != len(part) || err != nil {
			t.Fatalf("wrote %d of %d: %v", n, len(part), err)
		}
	}
	if want := []string{"one", "two", strings.Repeat("x", longLine)}; !slices.Equal(told, want) {
		t.Errorf("told %.200q", told)
	}
	if last := l.last(); len(last) > lastKept || !strings.HasSuffix(last, "y ? end") {
		t.Errorf("the last words are %d bytes: %.20q…", len(last), last)
	}
	if l.forget(); l.last() != "it said nothing" {
		t.Errorf("after forgetting: %q", l.last())
	}
}
