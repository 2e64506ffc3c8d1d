package inventory_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/gres/inventory"
)

func TestListsOfCPUsAreReadAndWrittenAsLinuxDoes(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "\n": "", "0": "0", "0-3,8": "0-3,8", "8,0-3": "0-3,8", "0,1,2": "0-2", "3-3": "3", "0-1,1-2": "0-2",
		"48-63,176-191\n": "48-63,176-191", "7,5": "5,7",
	} {
		if got, err := inventory.ParseSet(text); err != nil || got.String() != want {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{",", "0-", "-1", "3-1", "x", "0-3:1/2", "0x1", "16384", "0-99999999",
		strings.Repeat("0-16000,", 2) + "0"} {
		if got, err := inventory.ParseSet(text); err == nil {
			t.Errorf("%q is read as %.80s", text, got)
		}
	}
}

func TestASetReadsBackAsItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := inventory.SetOf(rapid.SliceOf(rapid.IntRange(0, 300)).Draw(t, "numbers")...)
		if got, err := inventory.ParseSet(set.String()); err != nil || got.String() != set.String() ||
			len(got) != len(set) {
			t.Fatalf("%v, written as %s, is read as %v, %v", []int(set), set, []int(got), err)
		}
	})
}

func FuzzParseSet(f *testing.F) {
	for _, seed := range []string{"0-3,8", "48-63,176-191", "", "1,", "9-1", "0-16383"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		set, err := inventory.ParseSet(text)
		if err != nil {
			return
		}
		if again, err := inventory.ParseSet(set.String()); err != nil || again.String() != set.String() ||
			len(set) > 1<<14 {
			t.Fatalf("%q: %d numbers, %q reads back as %q, %v", text, len(set), set, again, err)
		}
	})
}
