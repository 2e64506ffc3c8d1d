package directive

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/learned"
	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// said is a word of a comment, and what it adds to what the comment says.
type said struct {
	word string
	adds func(*Directives)
}

// rightWords draws one right word for each directive.
func rightWords(t *rapid.T) []said {
	number := func(label string, least, most int) int { return rapid.IntRange(least, most).Draw(t, label) }
	profile := rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9_-]{0,9}\.json`).Draw(t, "profile")
	signal := rapid.SampledFrom([]string{"USR1", "USR2", "HUP", "INT", "TERM"}).Draw(t, "signal")
	grace, steps := number("grace", 1, 3600), rapid.Bool().Draw(t, "steps")
	checkpoint := fmt.Sprintf("synergy-checkpoint=%s@%d", signal, grace)
	if steps {
		checkpoint += "/steps"
	}
	minutes, mebibytes, slo := number("minutes", 1, 1000), number("MiB", 1, 9)*256, number("slo", 1, 600000)
	at, done := time.Unix(int64(number("epoch", 1, maxEpoch)), 0), int64(number("iterations", 0, 1e15-1))
	curve, text := Curve{At: at}, []string(nil)
	for n := range number("points", 1, 5) {
		rate := learned.Rate{Cores: 2*n + number("cores", 1, 2), Rate: float64(number("rate", 1, 1e6))}
		curve.Rates = append(curve.Rates, rate)
		text = append(text, fmt.Sprintf("%d:%.0f", rate.Cores, rate.Rate))
	}
	claim := map[Claim]string{Keeps: "keep", Gives: "give"}
	cores, memory := Claim(number("cores", 1, 2)), Claim(number("memory", 1, 2))
	return []said{
		{"synergy-profile=" + profile, func(d *Directives) { d.Managed, d.Profile = true, profile }},
		{checkpoint, func(d *Directives) {
			d.Saves, d.Signal, d.Steps, d.Grace = true, signal, steps, time.Duration(grace)*time.Second
		}},
		{fmt.Sprintf("synergy-length=%dm", minutes), func(d *Directives) {
			d.Length = time.Duration(minutes) * time.Minute
		}},
		{"synergy-cores=" + claim[cores], func(d *Directives) { d.Cores = cores }},
		{"synergy-memory=" + claim[memory], func(d *Directives) { d.Memory = memory }},
		{fmt.Sprintf("synergy-share=low,slo=%d,mem=%g", slo, float64(mebibytes)/1024), func(d *Directives) {
			d.Share = &share.Request{Class: share.Low, Memory: gres.Memory(mebibytes),
				SLO: time.Duration(slo) * time.Millisecond}
		}},
		{"synergy-env=on", func(*Directives) {}},
		{fmt.Sprintf("synergy-progress=%d@%d", done, at.Unix()), func(d *Directives) {
			d.Reports, d.Progress = true, Progress{done, at}
		}},
		{fmt.Sprintf("synergy-curve=%s@%d", strings.Join(text, "/"), at.Unix()), func(d *Directives) {
			d.Curve = curve
		}},
	}
}

// joined is a comment of these words in any order, with words of the user and anything between them that separates
// words in one line of plain text.
func joined(t *rapid.T, words []string) string {
	for range rapid.IntRange(0, 3).Draw(t, "words of the user") {
		words = append(words, rapid.SampledFrom([]string{"mine", "project=42", "xsynergy-share=low", "=", "a@b/c:1",
			"Synergy-profile=x", "\u00a0", "42"}).Draw(t, "word"))
	}
	var comment strings.Builder
	for _, word := range rapid.Permutation(words).Draw(t, "order") {
		comment.WriteString(rapid.SampledFrom([]string{" ", ",", ", ", " ,, "}).Draw(t, "between"))
		comment.WriteString(word)
	}
	return comment.String()
}

// TestEachDirectiveSaysWhatItSaysWhateverStandsAroundIt: of right words, any and in any order, each adds its own.
func TestEachDirectiveSaysWhatItSaysWhateverStandsAroundIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var want Directives
		var words []string
		for _, s := range rightWords(t) {
			if rapid.Bool().Draw(t, "there") {
				words = append(words, s.word)
				s.adds(&want)
			}
		}
		comment := joined(t, words)
		if got := Parse(comment); !reflect.DeepEqual(got, want) {
			t.Fatalf("%q: %+v, want %+v", comment, got, want)
		}
	})
}

// TestAMistakeCostsNoOtherDirective: it is told with its word, and once.
func TestAMistakeCostsNoOtherDirective(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		right := rightWords(t)
		wrong := rapid.IntRange(0, len(right)-1).Draw(t, "wrong")
		name, _, _ := strings.Cut(right[wrong].word, "=")
		bad := name + "=" + rapid.SampledFrom([]string{"", "x", "auto.", "@", "0", "USR1@0"}).Draw(t, "value")
		want, words := Directives{Managed: true, Reports: true}, []string{bad}
		for k, s := range right {
			if k != wrong {
				words = append(words, s.word)
				s.adds(&want)
			}
		}
		comment := joined(t, words)
		got := Parse(comment)
		found := slices.Clone(got.Mistakes)
		for _, report := range []*Mistake{got.BadProgress, got.BadCurve} {
			if report != nil {
				found = append(found, *report)
			}
		}
		if len(found) != 1 || found[0].Word != bad || got.More > 0 {
			t.Fatalf("%q: mistakes %q, want one, of %q", comment, found, bad)
		}
		if inReport := name == progressName || name == curveName; inReport != (got.Err() == nil) {
			t.Fatalf("%q: %v", comment, got.Err())
		}
		got.Mistakes, got.BadProgress, got.BadCurve = nil, nil, nil
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%q: %+v, want %+v", comment, got, want)
		}
	})
}

// fragments are what words of the grammar are made of, right and wrong.
var fragments = []string{"synergy-", "synergy-profile", "synergy-checkpoint", "synergy-length", "synergy-progress",
	"synergy-curve", "synergy-env", "synergy-cores", "synergy-memory", "synergy-share", "=", "==", "auto", "a.json",
	"..", "USR1", "USR2", "TERM", "@", "60", "3600", "3601", "/steps", "/", "2.5", "h", "d", "0s", "1", "1767268800",
	"8589934593", "1:1", "2:0.5", ":", "keep", "give", "on", "off", "high", "low", ",mem=6", ",slo=50", "mem=6",
	"Mem=", "gpu_mem=1", "level=", ",", " ", "  ", ", ", "\t", "\n", "\x00", "\u00a0", "\u202e", "\u009b", "mine", "é"}

// mutated is a comment of the words of the grammar in which a few bytes are changed; one in some is too long.
func mutated(t *rapid.T) string {
	text := []byte(strings.Join(rapid.SliceOfN(rapid.SampledFrom(fragments), 0, 24).Draw(t, "fragments"), ""))
	for range rapid.IntRange(0, 2).Draw(t, "changes") {
		if len(text) > 0 {
			text[rapid.IntRange(0, len(text)-1).Draw(t, "where")] = rapid.Byte().Draw(t, "byte")
		}
	}
	if rapid.IntRange(0, 19).Draw(t, "too long") == 0 {
		text = append(text, strings.Repeat(" x", maxComment/2)...)
	}
	return string(text)
}

// TestOfAnyCommentTheMistakesAreFewAndPrintableAndAboutItsWords: and it is managed by its words alone.
func TestOfAnyCommentTheMistakesAreFewAndPrintableAndAboutItsWords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		comment := mutated(t)
		d, all := Parse(comment), slices.Collect(words(comment))
		has := func(name string) bool {
			return slices.ContainsFunc(all, func(w string) bool { return w == name || strings.HasPrefix(w, name+"=") })
		}
		named := func(w string) bool { return strings.HasPrefix(w, profileName+"=") }
		if d.Managed != slices.ContainsFunc(all, named) || d.Reports != has(progressName) ||
			d.Teaches != slices.Contains(all, "synergy-profile=auto") {
			t.Fatalf("%q: %+v", comment, d)
		}
		found := slices.Clone(d.Mistakes)
		for _, report := range []*Mistake{d.BadProgress, d.BadCurve} {
			if report != nil {
				found = append(found, *report)
			}
		}
		if len(d.Mistakes) > maxMistakes || d.More > 0 && len(d.Mistakes) < maxMistakes {
			t.Fatalf("%q: %d mistakes and %d more", comment, len(d.Mistakes), d.More)
		}
		whole := len(comment) > maxComment || strings.ContainsFunc(comment, unicode.IsControl)
		for _, m := range found {
			if about := slices.Contains(all, m.Word); about == (m.Word == "") || m.Word == "" && !whole {
				t.Fatalf("%q: %q is no word of it", comment, m.Word)
			}
			if len(m.Text) > 700 || m.Text == "" || strings.ContainsFunc(m.Text,
				func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Fatalf("%q: %q", comment, m.Text)
			}
		}
		bare := Directives{Managed: d.Managed, Reports: d.Reports, Teaches: d.Teaches, Mistakes: d.Mistakes}
		if len(comment) <= maxComment {
			bare.Progress, bare.BadProgress, bare.Curve, bare.BadCurve = d.Progress, d.BadProgress, d.Curve, d.BadCurve
		}
		if whole && (len(d.Mistakes) != 1 || !reflect.DeepEqual(d, bare)) {
			t.Fatalf("%q is refused, and says %+v", comment, d)
		}
	})
}
