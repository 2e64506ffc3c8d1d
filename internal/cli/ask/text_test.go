package ask

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestNoLineIsWiderThanTheTerminalAndNoTextOfAUserIsObeyed for sentences, which go on in the next line, and for tables,
// which are cut.
func TestNoLineIsWiderThanTheTerminalAndNoTextOfAUserIsObeyed(t *testing.T) {
	const evil = "\x1b[2J\u202eevil\nname"
	for _, width := range []string{"1", "12", "40", ""} {
		t.Setenv("COLUMNS", width)
		var out strings.Builder
		text := NewText(&out)
		text.Say(2, "it waits: 3 GPUs are free, it needs 8; job of "+evil)
		rows := [][]string{{"JOB", "NAME"}, {"3", Cell(evil, LongestName)}, {"4", Cell("", LongestName)}, {"5", "x"}}
		text.Table(rows, 2)
		if err := text.Err(); err != nil {
			t.Fatal(err)
		}
		said := out.String()
		for line := range strings.Lines(said) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); text.width > 0 && n > text.width {
				t.Errorf("%s columns: %q has %d", width, line, n)
			}
		}
		if strings.ContainsAny(said, "\x1b\u202e") {
			t.Errorf("%q", said)
		}
		if want := "  it waits: 3 GPUs are free, it needs 8; job of [2J evil name\n" +
			"JOB  NAME\n3    [2J evil name\n4    -\nand 1 more\n"; width == "" && said != want {
			t.Errorf("%q, want %q", said, want)
		}
	}
}

// full is a writer for which there is no room.
type full struct{ error }

func (f full) Write([]byte) (int, error) { return 0, f }

func TestAnAnswerThatCannotBeWrittenIsNoFaultOfTheCommandLine(t *testing.T) {
	text := NewText(full{ErrGone})
	text.Say(0, "well")
	if _, is := text.Err().(Failed); !is {
		t.Errorf("%v", text.Err())
	}
	if _, is := JSON(full{ErrGone}, 1).(Failed); !is {
		t.Error("as JSON")
	}
}
