package directive

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/directive/corpus"
)

const comments = "testdata/comments.json"

// The live suite has the gate read the same comments in the Lua of its Slurm, tests/node the plugin and the prolog.
func TestTheDaemonUnderstandsEachCommentOfTheCorpus(t *testing.T) {
	for _, c := range corpus.Read(t, comments) {
		d := Parse(c.Comment)
		if d.Managed == c.Unmanaged {
			t.Errorf("%.200q: managed: %t", c.Comment, !c.Unmanaged)
		}
		if got, want := meaningOf(&d), withoutEnv(c); c.Whole == "" && got != want {
			t.Errorf("%.200q: means %q, want %q", c.Comment, got, want)
		}
		wrong := slices.Clone(d.Mistakes)
		for _, report := range []*Mistake{d.BadProgress, d.BadCurve} {
			if report != nil {
				wrong = append(wrong, *report)
			}
		}
		if c.Whole != "" {
			if len(wrong) != 1 || wrong[0].Word != "" || !strings.Contains(wrong[0].Text, c.Whole) {
				t.Errorf("%.200q: %q, want it refused for %q", c.Comment, wrong, c.Whole)
			}
			continue
		}
		var words []string
		for _, m := range wrong {
			words = append(words, m.Word)
		}
		if !slices.Equal(words, c.Wrong) || d.More > 0 {
			t.Errorf("%.200q: wrong are %q, want %q", c.Comment, words, c.Wrong)
		}
	}
}

// withoutEnv is what a case means to the daemon: synergy-env is the node's.
func withoutEnv(c corpus.Case) string {
	means := strings.ReplaceAll(strings.ReplaceAll(" "+c.Means, " env=on", ""), " env=off", "")
	return strings.TrimPrefix(means, " ")
}

// meaningOf is what a comment was read as, in the words of the corpus.
func meaningOf(d *Directives) string {
	var all []string
	say := func(is bool, format string, args ...any) {
		if is {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	claims := map[Claim]string{Keeps: "keep", Gives: "give"}
	say(d.Auto, "profile=auto")
	say(d.Profile != "", "profile=%s", d.Profile)
	say(d.Saves, "checkpoint=%s@%.0f", d.Signal, d.Grace.Seconds())
	if d.Steps {
		all[len(all)-1] += "/steps"
	}
	seconds := strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.9f", d.Length.Seconds()), "0"), ".")
	say(d.Length > 0, "length=%ss", seconds)
	say(d.Cores != Unsaid, "cores=%s", claims[d.Cores])
	say(d.Memory != Unsaid, "memory=%s", claims[d.Memory])
	if d.Share != nil {
		share := "share=" + string(d.Share.Class)
		if d.Share.Memory > 0 {
			share += fmt.Sprintf(",mem=%d", d.Share.Memory)
		}
		if d.Share.SLO > 0 {
			share += fmt.Sprintf(",slo=%d", d.Share.SLO.Milliseconds())
		}
		all = append(all, share)
	}
	say(!d.Progress.At.IsZero(), "progress=%d@%d", d.Progress.Iterations, d.Progress.At.Unix())
	say(d.Reports && d.Progress.At.IsZero() && d.BadProgress == nil, "progress")
	var rates []string
	for _, rate := range d.Curve.Rates {
		rates = append(rates, fmt.Sprintf("%d:%g", rate.Cores, rate.Rate))
	}
	say(rates != nil, "curve=%s@%d", strings.Join(rates, "/"), d.Curve.At.Unix())
	return strings.Join(all, " ")
}
