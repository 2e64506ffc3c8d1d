package rollout_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/rollout"
)

var vision = bridge.Canary{Accounts: []string{"vision", "text"}, Partitions: []string{"gpu"}}

const visionLine = "canary: {accounts: [vision, text], partitions: [gpu]}\n"

func TestTheCanaryGoesInAndOutAndNothingElseIsTouched(t *testing.T) {
	for before, after := range map[string]string{
		"# a\npartitions: [gpu]\n# b\nlease: 15m\n":   "# a\npartitions: [gpu]\n" + visionLine + "# b\nlease: 15m\n",
		"partitions:\n  - gpu\n  - big\nlease: 15m\n": "partitions:\n  - gpu\n  - big\n" + visionLine + "lease: 15m\n",
		"partitions:\n- gpu\nlease: 15m\n":            "partitions:\n- gpu\n" + visionLine + "lease: 15m\n",
		"partitions: [gpu]":                           "partitions: [gpu]\n" + visionLine,
		"lease: 15m\n":                                visionLine + "lease: 15m\n",
	} {
		in := rollout.WithCanary(before, vision)
		if in != after || !rollout.HasCanary(in) || rollout.HasCanary(before) {
			t.Errorf("%q became %q, want %q", before, in, after)
		}
		if out := rollout.WithCanary(in, bridge.Canary{}); out != strings.TrimSuffix(before, "\n")+"\n" {
			t.Errorf("taken out again it is %q, was %q", out, before)
		}
	}
	for _, old := range []string{"canary: {accounts: [a]}\n", "canary:\n  accounts:\n    - a\n",
		"canary: {accounts: [a,\n  b]}\n"} {
		text := "partitions: [gpu]\n" + old + "#canary: an example\nrate: 5\n"
		if got := rollout.WithCanary(text, vision); got != strings.Replace(text, old, visionLine, 1) {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func TestTheShadowGoesInAndOutOfTheFlags(t *testing.T) {
	file := func(flags string) string { return "# mine\nSYNERGY_FLAGS=\"" + flags + "\"\nOTHER=1\n" }
	for _, c := range []struct{ flags, in, out string }{
		{"--round 5s --shadow", "--round 5s --shadow", "--round 5s"},
		{"--shadow --round 5s", "--round 5s --shadow", "--round 5s"},
		{"--shadow=true --round 5s --shadow", "--round 5s --shadow", "--round 5s"},
		{"", "--shadow", ""},
	} {
		in, err := rollout.WithShadow(file(c.flags))
		out, wrong := rollout.WithoutShadow(file(c.flags))
		if err != nil || wrong != nil || in != file(c.in) || out != file(c.out) {
			t.Errorf("%q: %v %q, %v %q", c.flags, err, in, wrong, out)
		}
	}
	flags, err := rollout.Flags("SYNERGY_FLAGS=--alone")
	if err != nil || !slices.Equal(flags, []string{"--alone"}) {
		t.Errorf("%v %v", flags, err)
	}
	for _, c := range []struct {
		flags []string
		want  bool
	}{{[]string{"--shadow"}, true}, {[]string{"--shadow", "--shadow=false"}, false}, {nil, false},
		{[]string{"--shadow=true"}, true}} {
		if got := rollout.Shadowed(c.flags); got != c.want {
			t.Errorf("%v: %t", c.flags, got)
		}
	}
}

func TestFlagsThatAreNotUnderstoodAreNotEdited(t *testing.T) {
	for text, want := range map[string]string{
		"OTHER=1\n": "has no line",
		"SYNERGY_FLAGS=\"--a\"\nSYNERGY_FLAGS=--b\n": "line 2: SYNERGY_FLAGS= stands there twice",
		"SYNERGY_FLAGS=\"--a\n":                      "line 1: a quote is not closed",
		"SYNERGY_FLAGS=\"--a 'b c'\"\n":              "edit them by hand",
		"SYNERGY_FLAGS=\"--a \\\n":                   "line 1",
	} {
		if _, err := rollout.WithShadow(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func FuzzEdit(f *testing.F) {
	f.Add("partitions: [gpu]\ncanary:\n  accounts: [a]\nlease: 1m\n")
	f.Add("SYNERGY_FLAGS=\"--shadow\"\n")
	f.Fuzz(func(t *testing.T, text string) {
		out := rollout.WithCanary(text, bridge.Canary{})
		if in := rollout.WithCanary(out, vision); !rollout.HasCanary(in) {
			t.Errorf("%q became %q", text, in)
		}
		shadowed, err := rollout.WithShadow(text)
		if err != nil {
			return
		}
		flags, err := rollout.Flags(shadowed)
		if err != nil || !rollout.Shadowed(flags) {
			t.Errorf("%q became %q: %v", text, shadowed, err)
		}
	})
}
