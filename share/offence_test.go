package share

import (
	"strings"
	"testing"
	"time"
)

func TestTheLastOffenceOfAnAdminCommentCounts(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "",
		"JS1:H4sIAAAA":                     "",
		"synergy-offence=3@1764000000":     "synergy-offence=3@1764000000",
		"a synergy-offence=3@1764000000 b": "synergy-offence=3@1764000000",
		"synergy-offence=3@5\tsynergy-offence=1@9": "synergy-offence=1@9",
		"synergy-offence=3@5 synergy-offence=x@9":  "synergy-offence=3@5",
		"my-synergy-offence=3@5":                   "",
		"synergy-offence=3@5,":                     "",
		"synergy-offence=-1@5":                     "",
		"synergy-offence=12345@5":                  "",
		"synergy-offence=1@999999999999":           "",
		"synergy-offence=1":                        "",
		"synergy-offence=١@5":                      "",
	} {
		got, accused := ParseOffence(text)
		if accused != (want != "") || accused && got.String() != want {
			t.Errorf("%q: %v, %t, want %q", text, got, accused, want)
		}
	}
}

func TestAnOffenceLeavesWhatOthersSayInTheAdminComment(t *testing.T) {
	o := Offence{GPU: 2, At: time.Unix(1764000000, 0)}
	for before, after := range map[string]string{
		"":                          "",
		"JS1:H4sI== seen by  ops":   "JS1:H4sI== seen by  ops ",
		"synergy-offence=0@5":       "",
		"a synergy-offence=0@5 b":   "a b ",
		"synergy-offence=0@5 x":     " x ",
		"synergy-offence=rubbish y": " y ",
	} {
		if got := o.AddedTo(before); got != after+o.String() {
			t.Errorf("%q becomes %q", before, got)
		}
	}
}

func FuzzAnOffenceIsReadBackAndNothingElseIsLost(f *testing.F) {
	f.Add("a synergy-offence=1@2 b", uint16(3), int64(5))
	f.Add("\t\n  ", uint16(0), int64(0))
	f.Fuzz(func(t *testing.T, before string, gpu uint16, at int64) {
		o := Offence{GPU: int(gpu % 1024), At: time.Unix(max(0, at%99999999999), 0).UTC()}
		after := o.AddedTo(before)
		if got, accused := ParseOffence(after); !accused || got != o {
			t.Fatalf("%q becomes %q, read as %v", before, after, got)
		}
		if again := o.AddedTo(after); strings.Count(again, offencePrefix) > strings.Count(before, offencePrefix)+1 {
			t.Fatalf("%q grows to %q", after, again)
		}
		others := func(text string) (all []string) {
			blank := func(r rune) bool { return strings.ContainsRune(" \t\n", r) }
			for word := range strings.FieldsFuncSeq(text, blank) {
				if !strings.HasPrefix(word, offencePrefix) {
					all = append(all, word)
				}
			}
			return all
		}
		if strings.Join(others(before), "|") != strings.Join(others(after), "|") {
			t.Fatalf("%q becomes %q", before, after)
		}
	})
}
