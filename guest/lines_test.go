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
	for _, part := range []string{"one\ntw", "o\n\n", strings.Repeat("x", 5000), strings.Repeat("y", 5000),
		"\n\xff end"} {
		if n, err := fmt.Fprint(l, part); n != len(part) || err != nil {
			t.Fatalf("wrote %d of %d: %v", n, len(part), err)
		}
	}
	if want := []string{"one", "two", strings.Repeat("x", longLine)}; !slices.Equal(told, want) {
		t.Errorf("told %.200q", told)
	}
	words := l.words()
	if len(words) > firstKept+lastKept+30 || !strings.HasPrefix(words, "it wrote: one two xxx") ||
		!strings.HasSuffix(words, "y ? end") {
		t.Errorf("kept %d bytes: %.40q … %.20q", len(words), words, words[len(words)-20:])
	}
	if l.forget(); l.words() != "it wrote nothing to its standard error" {
		t.Errorf("after forgetting: %q", l.words())
	}
	fmt.Fprint(l, "panic: \x1b[2Jno\n")
	if got := l.words(); got != "it wrote: panic: [2Jno" {
		t.Errorf("not fit for a log: %q", got)
	}
}
