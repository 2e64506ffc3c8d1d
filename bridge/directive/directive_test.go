package directive

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/synergy-slurmd/synergy-slurmd/share"
)

func TestACommentSaysWhatTheContractSays(t *testing.T) {
	const profile = "synergy-profile=res18.json"
	plain := Directives{Managed: true, Profile: "res18.json"}
	with := func(change func(*Directives)) Directives {
		d := plain
		change(&d)
		return d
	}
	asks := func(signal string, steps bool, grace time.Duration) Directives {
		return with(func(d *Directives) { d.Saves, d.Signal, d.Steps, d.Grace = true, signal, steps, grace })
	}
	lasts := func(length time.Duration) Directives { return with(func(d *Directives) { d.Length = length }) }
	longest := strings.Repeat("x", maxWord-21) + ".json"
	for comment, want := range map[string]Directives{
		profile:                                       plain,
		"my own words, " + profile:                    plain,
		profile + " synergy-checkpoint":               asks("USR1", false, time.Minute),
		profile + ",synergy-checkpoint=USR2":          asks("USR2", false, time.Minute),
		"synergy-checkpoint=HUP@3600 " + profile:      asks("HUP", false, time.Hour),
		profile + " synergy-checkpoint=USR1@60/steps": asks("USR1", true, time.Minute),
		"synergy-checkpoint=USR2/steps," + profile:    asks("USR2", true, time.Minute),
		profile + " synergy-length=90s":               lasts(90 * time.Second),
		profile + " synergy-length=2.5h":              lasts(150 * time.Minute),
		profile + " synergy-env=off":                  plain,
		profile + " synergy-env=on":                   plain,
		profile + " synergy-cores=keep":               with(func(d *Directives) { d.Cores = Keeps }),
		"synergy-memory=give," + profile + " synergy-cores=give": with(func(d *Directives) {
			d.Cores, d.Memory = Gives, Gives
		}),
		"synergy-profile=a-b_c.1.json synergy-length=3d": {Managed: true, Profile: "a-b_c.1.json",
			Length: 72 * time.Hour},
		"synergy-profile=" + longest:                                         {Managed: true, Profile: longest},
		"nothing of ours synergyprofile=x, not-synergy-profile=res18.json x": {},
	} {
		if got := Parse(comment); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, want %+v", comment, got, want)
		}
	}
}

func TestABadWordIsRefusedByNameWithARemedy(t *testing.T) {
	for comment, want := range map[string]string{
		"synergy-profile":                                           "ending in .json",
		"synergy-profile=":                                          "ending in .json",
		"synergy-profile=res18":                                     "ending in .json",
		"synergy-profile=../res18.json":                             "name of a profile",
		"synergy-profile=a..b.json":                                 "name of a profile",
		"synergy-profile=/etc/res18.json":                           "name of a profile",
		"synergy-profile=.json":                                     "name of a profile",
		"synergy-profile=a.json synergy-profile=b":                  "twice",
		"synergy-profile=a.json synergy-speed=9":                    "no such word",
		"synergy-profile=a.json synergy-env":                        "want on or off",
		"synergy-profile=a.json synergy-env=yes":                    "want on or off",
		"synergy-profile=a.json synergy-cores":                      "want keep",
		"synergy-profile=a.json synergy-cores=Keep":                 "want keep",
		"synergy-profile=a.json synergy-memory=no":                  "want keep",
		"synergy-memory=keep synergy-memory=keep":                   "twice",
		"synergy-profile=a.json synergy-share":                      "want high or low first",
		"synergy-profile=a.json synergy-share=":                     "want high or low first",
		"synergy-profile=a.json synergy-share=middle":               "want high or low first",
		"synergy-profile=a.json synergy-share=,mem=6":               "want high or low first",
		"synergy-profile=a.json synergy-share=mem=6":                "want high or low first",
		"synergy-profile=a.json synergy-share=high,mem=":            "want GiB",
		"synergy-profile=a.json synergy-share=high,mem=-6":          "want GiB",
		"synergy-profile=a.json synergy-share=low,mem=1025":         "want GiB",
		"synergy-profile=a.json synergy-share=low,mem=6,mem=6":      "twice",
		"synergy-profile=a.json synergy-share=low,mem=6,slo=0":      "want whole milliseconds",
		"synergy-profile=a.json synergy-share=low,slo=600001":       "want whole milliseconds",
		"synergy-share=low synergy-share=high":                      "twice",
		"synergy-checkpoint=":                                       "one of USR1",
		"synergy-checkpoint=KILL":                                   "one of USR1",
		"synergy-checkpoint=usr1":                                   "one of USR1",
		"synergy-checkpoint=USR1@":                                  "whole seconds",
		"synergy-checkpoint=USR1@0":                                 "whole seconds",
		"synergy-checkpoint=USR1@060":                               "whole seconds",
		"synergy-checkpoint=USR1@+60":                               "whole seconds",
		"synergy-checkpoint=USR1@3601":                              "whole seconds",
		"synergy-checkpoint=/steps":                                 "one of USR1",
		"synergy-checkpoint=@60/steps":                              "one of USR1",
		"synergy-checkpoint=USR1@/steps":                            "whole seconds",
		"synergy-checkpoint=USR1@0/steps":                           "whole seconds",
		"synergy-checkpoint=USR1@60/":                               "want /steps at its end",
		"synergy-checkpoint=USR1/":                                  "want /steps at its end",
		"synergy-checkpoint=USR1/script":                            "want /steps at its end",
		"synergy-checkpoint=USR1/Steps":                             "want /steps at its end",
		"synergy-checkpoint=USR1/steps@60":                          "want /steps at its end",
		"synergy-checkpoint=USR1@60/steps/steps":                    "want /steps at its end",
		"synergy-length=":                                           "a number and a unit",
		"synergy-length=90":                                         "a number and a unit",
		"synergy-length=-5m":                                        "a number and a unit",
		"synergy-length=0s":                                         "a number and a unit",
		"synergy-length=1e308d":                                     "a number and a unit",
		"synergy-length=.5h":                                        "a number and a unit",
		"synergy-length=999999999d":                                 "a number and a unit",
		"synergy-profile=a.json\nx":                                 "control character",
		"synergy-profile=a.json\x00":                                "control character",
		"synergy-profile=a.json " + string(rune(27)):                "control character",
		"synergy-profile=a.json " + strings.Repeat("x", maxComment): "at most 4096",
	} {
		d := Parse(comment)
		if err := d.Err(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v; want a sentence with %q", comment, err, want)
		}
	}
}

// TestWhatIsWrongWithACommentFitsALogLine: whatever a user writes, what is said about it is short and has nothing that
// a terminal obeys or that turns the direction of writing.
func TestWhatIsWrongWithACommentFitsALogLine(t *testing.T) {
	const override = "\u202e"
	for name, comment := range map[string]string{
		"ten megabytes":                 "synergy-profile=" + strings.Repeat("x", 10<<20),
		"hundreds of words":             strings.Repeat("synergy-a ", 400),
		"one long word":                 "synergy-" + strings.Repeat("x", 4000),
		"one long word twice":           strings.Repeat("synergy-"+strings.Repeat("x", 2000)+" ", 2),
		"a word that turns the writing": "synergy-" + override + "live synergy-" + override + "live",
		"a value that does": "synergy-profile=" + override + " synergy-checkpoint=" + override +
			" synergy-length=" + override,
		"one that does in a class":   "synergy-share=" + override + ",mem=" + override + ",slo=" + override,
		"one that does in an amount": "synergy-share=low,mem=" + override + " synergy-share=low,slo=" + override,
		"many amounts":               "synergy-share=low" + strings.Repeat(",mem=1", 600),
		"many that are none of it":   "synergy-share=low" + strings.Repeat(" mem=1", 600),
		"a hostile one of them":      "synergy-share=low mem=" + override + strings.Repeat("\u009b", 600),
		"an escape sequence":         "synergy-\x1b]0;owned\x07",
		"one in eight bits":          "synergy-\u009b31m",
	} {
		d := Parse(comment)
		err := d.Err()
		if err == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		if said := err.Error(); len(said) > 1000 || strings.ContainsFunc(said,
			func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' }) {
			t.Errorf("%s: %d bytes: %.300q", name, len(said), said)
		}
	}
}

func TestOnlyTheProfileWordOptsIn(t *testing.T) {
	for comment, want := range map[string]bool{
		"synergy-profile=res18.json": true, "x,synergy-profile=": true, "synergy-profile=../x": true,
		"x,synergy-profile": false,
		"":                  false, "synergy-checkpoint": false, "mysynergy-profile=res18.json": false,
	} {
		if got := Parse(comment).Managed; got != want {
			t.Errorf("%q: managed %v, want %v", comment, got, want)
		}
	}
}

func TestOfManyMistakesThreeAreToldAndTheOthersCounted(t *testing.T) {
	for words, more := range map[int]int{3: 0, 4: 1, 26: 23} {
		var comment strings.Builder
		for letter := range words {
			fmt.Fprintf(&comment, "synergy-%c ", 'a'+letter)
		}
		d := Parse(comment.String())
		if len(d.Mistakes) != 3 || d.Mistakes[0].Word != "synergy-a" || d.Mistakes[2].Word != "synergy-c" ||
			d.More != more {
			t.Errorf("of %d: %+v", words, d)
		}
		lines, want := strings.Split(d.Err().Error(), "\n"), fmt.Sprintf("and %d more", more)
		if told := more > 0; (lines[len(lines)-1] == want) != told || len(lines) > 4 || len(lines) > 3 != told {
			t.Errorf("of %d: %q", words, lines)
		}
	}
}

func TestAUsersWordGoesBeforeTheSites(t *testing.T) {
	for _, site := range []bool{false, true} {
		if Unsaid.Or(site) != site || !Keeps.Or(site) || Gives.Or(site) {
			t.Errorf("where the site says %t: %t, %t, %t", site, Unsaid.Or(site), Keeps.Or(site), Gives.Or(site))
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("synergy-profile=res18.json synergy-checkpoint=USR1@60 synergy-length=2h")
	f.Add("synergy-profile=res18.json synergy-checkpoint=USR2/steps")
	f.Add("synergy-profile=../../x.json,\x00")
	f.Add("synergy-profile=a.json,synergy-share=high,mem=6.5,slo=50,mine")
	f.Add("synergy-share=low,,mem=1 ,slo=9,synergy-share=high,mem=1e9")
	f.Add("synergy-profile=a.json synergy-share=low, GPU_Mem=6,level=\u009b,memo=1 slo=")
	f.Fuzz(func(t *testing.T, comment string) {
		d := Parse(comment)
		err := d.Err()
		if strings.Contains(d.Profile, "..") || strings.ContainsAny(d.Profile, "/\\\x00\n") ||
			len(d.Profile) > maxWord {
			t.Errorf("%q yields the profile name %q", comment, d.Profile)
		}
		if d.Saves && (!signals[d.Signal] || d.Grace < time.Second || d.Grace > time.Hour) {
			t.Errorf("%q yields the checkpoint %s@%s", comment, d.Signal, d.Grace)
		}
		if err == nil && d.Length < 0 {
			t.Errorf("%q yields the length %s", comment, d.Length)
		}
		if r := d.Share; r != nil && (r.Class != share.High && r.Class != share.Low || r.Memory < 0 ||
			r.Memory > 1<<20 || r.SLO < 0 || r.SLO > 10*time.Minute) {
			t.Errorf("%q yields %+v", comment, r)
		}
		if _, behind, shares := strings.Cut(comment, "synergy-share=low"); shares && err == nil &&
			strings.HasPrefix(comment, "synergy-share=low") && strings.HasPrefix(behind, " ") &&
			strings.Contains(strings.ReplaceAll(behind, ",", " "), " mem=") {
			t.Errorf("%q has an amount that nobody hears", comment)
		}
	})
}
