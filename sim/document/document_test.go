package document

import (
	"reflect"
	"strings"
	"testing"
)

func TestAFileIsItsKeysListsAndTextsWithTheirLines(t *testing.T) {
	got, err := Read([]byte(
		"# remark\nload: 1:8\nlist: [a, 'b c']\nkeys:\n  x: 0.50\nagain: &a yes\nother: *a\n"), "keys")
	if err != nil {
		t.Fatal(err)
	}
	text := func(line int, text string) Value { return Value{Line: line, Kind: Text, Text: text} }
	want := Value{Line: 2, Kind: Keys, Keys: []Key{
		{2, "load", text(2, "1:8")},
		{3, "list", Value{Line: 3, Kind: List, List: []Value{text(3, "a"), text(3, "b c")}}},
		{4, "keys", Value{Line: 5, Kind: Keys, Keys: []Key{{5, "x", text(5, "0.50")}}}},
		{6, "again", text(6, "yes")},
		{7, "other", Value{Line: 7, Kind: Other}},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("it is\n%+v, want\n%+v", got, want)
	}
}

func TestWhatIsNoDocumentIsRefusedWithItsLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                 "is empty: want keys",
		"# remark\n":       "is empty: want keys",
		"a: 1\n---\nb: 2":  "a second document begins: keep everything in one",
		"a: 1\nb: [1, 2":   "line ",
		"a: 1\n\tb: 2\n":   "line 2: ",
		"a: \x1b[31mred\n": "",
	} {
		_, err := Read([]byte(text), "keys")
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.ContainsAny(err.Error(), "\n\x1b") {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
