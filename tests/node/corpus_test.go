package node

import (
	"strings"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/directive/corpus"
)

const comments = "../../bridge/directive/testdata/comments.json"

// aloneIn is the directive of a comment that has no other, but for a profile in front of it. That of an option has a
// name that the plugin knows, and no empty value.
func aloneIn(comment string) (name, value string, option bool) {
	word, behind := strings.CutPrefix(comment, "synergy-profile=a.json ")
	name, value, given := strings.Cut(word, "=")
	if strings.ContainsAny(word, " \t\n\v\f\r") || strings.Contains(word, ",synergy-") ||
		behind && name == "synergy-profile" || !given && name != "synergy-checkpoint" && name != "synergy-progress" {
		return "", "", false
	}
	for _, known := range append([]string{"synergy-progress"}, optionNames...) {
		option = option || name == known
	}
	return name, value, option && given == (value != "")
}

func TestThePluginTakesTheOptionsThatAreRightInTheCorpus(t *testing.T) {
	plugin := startChecker(t)
	asked := 0
	for _, c := range corpus.Read(t, comments) {
		name, value, option := aloneIn(c.Comment)
		if !option {
			continue
		}
		asked++
		// A report's value is none of a submission.
		right := len(c.Wrong) == 0 && c.Whole == "" && (name != "synergy-progress" || value == "")
		if complaint := plugin.complaint(t, name, value); right != (complaint == "") {
			t.Errorf("--%s=%q: right: %t, the plugin says %q", name, value, right, complaint)
		}
	}
	if asked < 100 {
		t.Errorf("%d options in the corpus", asked)
	}
}

func TestANodeKeepsANoteOfTheJobsThatAreManagedInTheCorpus(t *testing.T) {
	for _, w := range bothWays(t) {
		for _, c := range corpus.Read(t, comments) {
			if name, _, alone := aloneIn(c.Comment); alone && name != "synergy-env" {
				continue // is as good as any other to a node
			}
			want := "restarts=0\nround=42\n"
			if strings.Contains(c.Means, "env=on") {
				want += "env=1\n"
			}
			if c.Unmanaged || strings.Contains(c.Means, "env=off") {
				want = ""
			}
			if got := w.note(t, id, "SLURM_JOB_COMMENT="+c.Comment, annotation); got != want {
				t.Errorf("%s: %.200q: keeps %q, want %q", w.name, c.Comment, got, want)
			}
		}
	}
}
