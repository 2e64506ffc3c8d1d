package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestAWrongRuleIsRefusedWithItsPlaceAndARemedy(t *testing.T) {
	for rule, want := range map[string]string{
		`{user: a}`:   `^line 2: match: want a list of 1 to 1000 rules, as `,
		`[a]`:         `^line 2: match: rule 1, line 2: want keys with values, as `,
		`[{user: a}]`: `rule 1, line 2: profile: is missing: name the file`,

		"[{profile: auto}, {profile: x.json, user: a}]": `rule 2, line 2: no job comes to this rule`,

		"[{profile: 'a b', user: ann}, {user: bob, profile: r.json}]": `^line 2: match: rule 1, line 2: [^\n]*$`,

		"[{container: '*', profile: auto}, {profile: x.json}]": `rule 2, line 2: no job comes to this rule`,
		"[{profile: a}]": `profile: "a": want the name of a profile's file, as .*, or auto$`,

		"[{profile: '../a.json'}]":                `profile: "\.\./a\.json": want the name`,
		"[{profile: 'a.json synergy-length=2h'}]": `profile: "a\.json synergy-length=2h": want`,
		"[{name: a, profile: auto}]":              `name: unknown key: want one of user, .*, checkpoint$`,
		"[{user: 'a?', profile: auto}]":           `user: "a\?": only \* stands for any text`,
		"[{user: a, user: b, profile: auto}]":     `user: is there twice: remove one$`,
		"[{checkpoint: 1, profile: auto}]":        `checkpoint: "1": want true or false$`,
		"[{user: [a], profile: auto}]":            `user: want one value`,
	} {
		_, err := parseConfig([]byte("partitions: [a]\nmatch: "+rule), fiveMinutes)
		if err == nil || !regexp.MustCompile(want).MatchString(err.Error()) {
			t.Errorf("%s: %v, want %s", rule, err, want)
		}
	}
}

func TestARuleWhoseProfileNobodyHasIsToldBeforeTheDaemonStarts(t *testing.T) {
	shipped := absolute(t, filepath.Join("..", "..", "etc", "profiles"))
	text := "partitions: [gpu]\nmatch: [{user: a, profile: res50.json}, {user: b, profile: nobodys.json}]"
	config, err := parseConfig([]byte(text+"\nprofile_dirs: ["+shipped+"]"), fiveMinutes)
	if err != nil {
		t.Fatal(err)
	}
	found := unmatched(config)
	if len(found) != 1 || !strings.HasPrefix(found[0].Error(), "match: rule 2: profile: ") {
		t.Errorf("%v, want the second rule's profile", found)
	}
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	full, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(full); err != nil {
		t.Fatal(err)
	}
	return full
}
