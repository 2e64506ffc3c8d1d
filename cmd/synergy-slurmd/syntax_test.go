package main

import (
	"math/rand"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"
)

// TestATextThatIsNoYAMLIsAnsweredWithTheLineTheMistakeAndWhatWouldBeRight: each begins with a good first line.
func TestATextThatIsNoYAMLIsAnsweredWithTheLineTheMistakeAndWhatWouldBeRight(t *testing.T) {
	for text, want := range map[string]string{
		"rules:\n\tmin_run: 5m\n":                 "line 3: begins with a tab.*two spaces",
		"rules:\n  \tmin_run: 5m\n":               "line 3: begins with a tab",
		"\tlease: 15m\n":                          "line 2: begins with a tab",
		"profile_dirs:\n\t- /a\n":                 "line 3: begins with a tab",
		"lease: >\n\t15m\n":                       "line 3: begins with a tab",
		"profile_dirs: [/a\nlease: 15m\n":         `line 2: has a \[ that is not closed`,
		"rules: {min_run: 5m\nlease: 15m\n":       `line 2: has a \{ that is not closed`,
		"canary: {accounts: [a}\n":                `line 2: has a .* that is not closed`,
		"learned: \"/a\nlease: 15m\n":             `line 2: has a quote " that is not closed`,
		"learned: '/a\nlease: 15m\n":              `line 2: has a quote ' that is not closed`,
		"lease: 15m: x\n":                         "line 2: has a colon with a space",
		"lease 15m\n":                             `line 2: "lease 15m" is no key with a value: want lease: 15m`,
		"lease:15m\n":                             `line 2: "lease:15m" is no key with a value: want lease: 15m`,
		"lease = 15m\n":                           `line 2: "lease = 15m" is no key with a value: want lease: 15m`,
		"lease:15m # a\n\npolicy: las\n":          `line 2: "lease:15m" is no key with a value: want lease: 15m`,
		"lease\npolicy: las\n":                    `line 2: "lease" is no key with a value: want a colon`,
		" lease: 15m\n":                           `line 2: "lease: 15m" stands 1 spaces in.*below its neighbours`,
		"rules:\n  min_run: 5m\n horizon: 1h\n":   `line 4: "horizon: 1h" stands 1 spaces in`,
		"rules:\n  min_run: 5m\n   horizon: 1h\n": "line 4: stands further in than the line before",
		"match:\n  - user: ann\n  profile: a\n":   `line 4: "profile: a" stands 2 spaces in`,
		"match:\n  - user: a\n     profile: b\n":  "line 4: stands further in",
		"match:\n  - user: *\n    profile: b\n":   `line 3: has a value that begins with \*.*quotes, as "\*"`,
		"lease: @x\n":                             `line 2: has a value that begins with @.*as "@x"`,
		"lease: %x\n":                             "line 2: has a value that begins with %",
		"lease: `x`\n":                            "line 2: has a value that begins with `",
		"lease: *x\n":                             `line 2: has a value that begins with \*.*as "\*x"`,
		"learned: /\xff\n":                        "line 2: is not in UTF-8",
		"learned: /\x00\n":                        `line 2: has a control character, U\+0000`,
		"learned: /a\x1b\n":                       `line 2: has a control character, U\+001B`,
		"\u00a0lease: 15m\n":                      `line 2: has a character that looks like a space.*U\+00A0`,
		"le\u200base: [\n":                        `line 2: has a character that looks like a space or like nothing, U\+200B`,
		"rules:\nmin_run: 5m\n":                   "line 2: rules: has no keys below it: want some of min_run",
		"rules: 5\n":                              "line 2: rules: has no keys below it",
		"rules: [a]\n":                            "line 2: rules: has no keys below it",
		"min_run: 5m\n":                           "line 2: min_run: unknown key: it stands under rules",
		"Lease: 15m\n":                            "line 2: Lease: unknown key: did you mean lease?",
		"polcy: las\n":                            "line 2: polcy: unknown key: did you mean policy?",
		"rules: {minrun: 5m}\n":                   `line 2: rules.minrun: unknown key: did you mean rules.min_run\?`,
		"colour: red\n":                           "line 2: colour: unknown key: want one of partitions",
		"lease: 1 mo\n":                           `line 2: lease: "1 mo" is no time: want a number with a unit`,
		"lease: 900\n":                            `line 2: lease: "900" has no unit: want 900s for seconds`,
		"rules: {patience: 400d}\n":               "line 2: rules.patience: 400d is out of range: want 1m to 365d",
	} {
		_, err := parseConfig([]byte("partitions: [gpu]\n"+text), time.Minute)
		if err == nil || !regexp.MustCompile("^"+want).MatchString(err.Error()) {
			t.Errorf("%q:\n  is  %v\nwant %s", text, err, want)
		}
	}
	for text, want := range map[string]string{
		"lease:15m\n": `line 1: "lease:15m" is no key with a value: want lease: 15m`,
		"lease=15m\n": `line 1: "lease=15m" is no key with a value: want lease: 15m`,
		"- gpu\n":     "line 1: want keys with values, as policy: las",
	} {
		if _, err := parseConfig([]byte(text), time.Minute); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// slips are what fingers do to a line.
var slips = []func(r *rand.Rand, line string) string{
	func(_ *rand.Rand, line string) string { return "\t" + strings.TrimLeft(line, " ") },
	func(_ *rand.Rand, line string) string { return strings.Replace(line, ": ", ":", 1) },
	func(_ *rand.Rand, line string) string { return strings.Replace(line, ": ", " = ", 1) },
	func(_ *rand.Rand, line string) string { return strings.Replace(line, ": ", " ", 1) },
	func(_ *rand.Rand, line string) string { return strings.Replace(line, "]", "", 1) },
	func(_ *rand.Rand, line string) string { return strings.Replace(line, ": ", ": \"", 1) },
	func(_ *rand.Rand, line string) string { return strings.Replace(line, ": ", ": @", 1) },
	func(r *rand.Rand, line string) string { return strings.Repeat(" ", 1+r.Intn(3)) + line },
	func(r *rand.Rand, line string) string { return line[:r.Intn(len(line)+1)] },
	func(r *rand.Rand, line string) string {
		at := r.Intn(len(line) + 1)
		return line[:at] + "\u00a0" + line[at:]
	},
}

// TestASlipInALineIsFoundThereOrInTheNext: whatever is wrong with one line of a configuration, what is said names that
// line or one beside it, and never in the parser's own words.
func TestASlipInALineIsFoundThereOrInTheNext(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(`
partitions: [gpu, big]
policy: las
profile_dirs:
  - /etc/synergy/profiles
  - /srv/profiles
rules:
  min_run: 5m
  max_restarts: 50
canary:
  accounts: [vision, speech]
lease: 15m
match:
  - user: ann
    profile: res50.json
  - job_name: train
    profile: auto
checkpoint_hook:
  before: [/usr/local/sbin/save, --all]
  timeout: 30s
keep: {memory: true, steps: false}
rate: 100
`), "\n")
	r, told, far := rand.New(rand.NewSource(3)), 0, 0
	own := regexp.MustCompile(
		`token|did not find|could not find|not allowed in this context|go-yaml|anchor|unexpected end`,
	)
	for range 1500 {
		at := r.Intn(len(lines))
		slipped := append([]string{}, lines...)
		slipped[at] = slips[r.Intn(len(slips))](r, lines[at])
		text := []byte(strings.Join(slipped, "\n") + "\n")
		_, err := parseConfig(text, time.Minute)
		if err == nil {
			continue
		}
		if yaml.Unmarshal(text, new(yaml.Node)) == nil {
			continue // what is wrong is no matter of YAML
		}
		told++
		found := regexp.MustCompile(`^line (\d+): `).FindStringSubmatch(err.Error())
		if found == nil || own.MatchString(err.Error()) {
			t.Fatalf("line %d: %q: %v", at+1, slipped[at], err)
		}
		if line := atoi(found[1]); line < at || line > at+2 {
			far++
			t.Logf("line %d: %q: %v", at+1, slipped[at], err)
		}
	}
	if t.Logf("%d slips, %d found elsewhere", told, far); told < 200 || far > told/20 {
		t.Errorf("%d slips, %d found elsewhere", told, far)
	}
}

func atoi(text string) (n int) {
	for _, r := range text {
		n = 10*n + int(r-'0')
	}
	return n
}
