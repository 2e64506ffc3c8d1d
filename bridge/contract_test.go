package bridge

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/share"
)

func TestACommentSaysWhatTheContractSays(t *testing.T) {
	plain := Word{Profile: "res18.json"}
	asks := func(signal string, grace time.Duration) Word {
		return Word{Profile: "res18.json", Saves: true, Signal: slurm.Signal{Name: signal}, Grace: grace}
	}
	asksSteps := func(signal string, grace time.Duration) Word {
		return Word{
			Profile: "res18.json",
			Saves:   true,
			Signal:  slurm.Signal{Name: signal, To: slurm.Steps},
			Grace:   grace,
		}
	}
	for comment, want := range map[string]Word{
		"synergy-profile=res18.json":                                  plain,
		"my own words, synergy-profile=res18.json":                    plain,
		"synergy-profile=res18.json synergy-checkpoint":               asks("USR1", time.Minute),
		"synergy-profile=res18.json,synergy-checkpoint=USR2":          asks("USR2", time.Minute),
		"synergy-checkpoint=HUP@3600 synergy-profile=res18.json":      asks("HUP", time.Hour),
		"synergy-profile=res18.json synergy-checkpoint=USR1@60/steps": asksSteps("USR1", time.Minute),
		"synergy-checkpoint=USR2/steps,synergy-profile=res18.json":    asksSteps("USR2", time.Minute),
		"synergy-profile=res18.json synergy-length=90s": {Profile: "res18.json",
			Length: 90 * time.Second},
		"synergy-profile=res18.json synergy-length=2.5h": {Profile: "res18.json",
			Length: 150 * time.Minute},
		"synergy-profile=res18.json synergy-env=off":    plain,
		"synergy-profile=res18.json synergy-env=on":     plain,
		"synergy-profile=res18.json synergy-cores=keep": {Profile: "res18.json", Cores: Keeps},
		"synergy-memory=give,synergy-profile=res18.json synergy-cores=give": {Profile: "res18.json", Cores: Gives,
			Memory: Gives},
		"synergy-profile=a-b_c.1.json synergy-length=3d": {Profile: "a-b_c.1.json",
			Length: 72 * time.Hour},
		"synergy-profile=" + strings.Repeat("x", maxWord-21) +
			".json": {Profile: strings.Repeat("x", maxWord-21) + ".json"},
		"nothing of ours synergyprofile=x, not-synergy-profile=res18.json x": {},
	} {
		got, err := ParseComment(comment)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, %v; want %+v", comment, got, err, want)
		}
	}
}

// TestACommaEndsAWordButBeforeAnAmountOfASharedGPU: other words behind a comma stay the user's, as ever.
func TestACommaEndsAWordButBeforeAnAmountOfASharedGPU(t *testing.T) {
	wants := func(class share.Class, mebibytes int, slo time.Duration) *share.Request {
		return &share.Request{Class: class, Memory: gres.Memory(mebibytes), SLO: slo}
	}
	const profile = "synergy-profile=a.json "
	for comment, want := range map[string]*share.Request{
		profile + "mine":                                             nil,
		profile + "mem=6,slo=50":                                     nil,
		profile + "synergy-share=high":                               wants(share.High, 0, 0),
		profile + "synergy-share=low,mem=6":                          wants(share.Low, 6144, 0),
		profile + "synergy-share=high,slo=50,mem=0.5":                wants(share.High, 512, 50*time.Millisecond),
		profile + "synergy-share=low,mem=6,slo=50,mine,=x":           wants(share.Low, 6144, 50*time.Millisecond),
		profile + "synergy-share=low,mem":                            wants(share.Low, 0, 0),
		profile + "synergy-share=low,mem slo, level":                 wants(share.Low, 0, 0),
		profile + "synergy-share=low,mem=6 project=42,memo=mem=6":    wants(share.Low, 6144, 0),
		profile + "synergy-share=low members=3 xmem=6,-mem=6 mem:6":  wants(share.Low, 0, 0),
		profile + "synergy-share=low levels=2 slow=1 =mem=6 'mem=6'": wants(share.Low, 0, 0),
		profile + "synergy-share=low \u017flo=1 mem\u00a0=1":         wants(share.Low, 0, 0),
		"mem=x,synergy-share=low,mem=6,synergy-profile=a.json":       wants(share.Low, 6144, 0),
		"Memory=1 slo=2,synergy-share=low,synergy-profile=a.json":    wants(share.Low, 0, 0),
	} {
		got, err := ParseComment(comment)
		if err != nil || !Managed(comment) || !reflect.DeepEqual(got, Word{Profile: "a.json", Share: want}) {
			t.Errorf("%q: %+v (%+v), %v; want %+v", comment, got, got.Share, err, want)
		}
	}
}

// TestAnAmountThatIsNoPartOfTheDirectiveIsRefused: its job would share with nobody, or with its profile's figure, and
// nobody would tell its user.
func TestAnAmountThatIsNoPartOfTheDirectiveIsRefused(t *testing.T) {
	const profile = "synergy-profile=a.json synergy-share=low"
	for behind, word := range map[string]string{
		" mem=6": "mem=6", ", mem=6": "mem=6", " ,mem=6": "mem=6", ",,mem=6": "mem=6", ", ,mem=6": "mem=6",
		",slo=5, mem=6": "mem=6", ",mem=6 mem=6": "mem=6", ",mem=6, slo=50": "slo=50", ",mem=6,Slo=50": "Slo=50",
		",Mem=6": "Mem=6", ",MEM=6": "MEM=6", " SLO=50": "SLO=50", " mem=": "mem=", " mem==": "mem==",
		" mem=6;slo=5": "mem=6;slo=5", ",memory=6": "memory=6", ",gpu_mem=6": "gpu_mem=6", ",gpu-mem=6": "gpu-mem=6",
		",gpu_memory=6": "gpu_memory=6", " GPU-Memory=6": "GPU-Memory=6", ",gpumem=6": "gpumem=6",
		" GpuMemory=6": "GpuMemory=6", ",level=1": "level=1", " Level=": "Level=", ",mine,mem=6": "mem=6",
		",mine and more,slo=x": "slo=x", " synergy-length=2h mem=6": "mem=6", ",synergy-env=off,mem=6": "mem=6",
	} {
		want := fmt.Sprintf("%q %s", word, strayAmount)
		if w, err := ParseComment(profile + behind); err == nil || err.Error() != want {
			t.Errorf("%q: %+v, %v; want %s", behind, w, err, want)
		}
		if w, err := ParseComment("synergy-profile=a.json mine" + behind); err != nil || w.Share != nil {
			t.Errorf("%q in a job that shares nothing: %+v, %v", behind, w, err)
		}
	}
}

// TestTheGateKnowsStrayAmountsAsTheDaemonDoes: what it makes of them is tried where there is a Lua, in the live suite.
func TestTheGateKnowsStrayAmountsAsTheDaemonDoes(t *testing.T) {
	gate, err := os.ReadFile("../etc/job_submit.lua")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		fmt.Sprintf("local STRAY_AMOUNT = %q\n", strayAmount),
		fmt.Sprintf("local AMOUNT_NAMES = set_of({ %q })\n", amountNames),
	} {
		line = strings.NewReplacer(`" "`, `", "`, "[", "", "]", "").Replace(line)
		if !strings.Contains(string(gate), line) {
			t.Errorf("job_submit.lua has no line %s", line)
		}
	}
}

func TestWordsOfACommentAreAllOfItButWhatParts(t *testing.T) {
	for comment, want := range map[string][]string{
		"": nil, " ,\t,": nil,
		"a,b c\td":                          {"a", "b", "c", "d"},
		",synergy-share=low,mem=1,slo=2,b,": {"synergy-share=low,mem=1,slo=2", "b"},
		"synergy-share=,mem=,mem= mem=1":    {"synergy-share=,mem=,mem=", "mem=1"},
		"synergy-share,mem=1":               {"synergy-share", "mem=1"},
		"xsynergy-share=low,mem=1":          {"xsynergy-share=low", "mem=1"},
	} {
		if got := slices.Collect(words(comment)); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", comment, got, want)
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
		if _, err := ParseComment(comment); err == nil || !strings.Contains(err.Error(), want) {
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
		_, err := ParseComment(comment)
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

// TestOnlySpacesThatTheGateKnowsPartWords: a word that the gate's lua does not see, since it knows the spaces of ASCII
// alone, must not make a job managed: it would have no lease, and its owner could forge its annotation.
func TestOnlySpacesThatTheGateKnowsPartWords(t *testing.T) {
	for _, space := range []string{"\u00a0", "\u0085", "\u1680", "\u2003", "\u2028", "\u3000", "\ufeff"} {
		if Managed("mine" + space + "synergy-profile=res18.json") {
			t.Errorf("after %+q a job is managed, and the gate let it pass", space)
		}
		if w, err := ParseComment("synergy-profile=res18.json" + space + "x"); err == nil {
			t.Errorf("%+q ends a word: %+v", space, w)
		}
	}
	for _, space := range []string{" ", ",", "\t", "\n", "\v", "\f", "\r"} {
		if !Managed("mine" + space + "synergy-profile=res18.json") {
			t.Errorf("after %+q a job is not managed, and the gate gave it a lease", space)
		}
	}
}

func TestOnlyTheProfileWordOptsIn(t *testing.T) {
	for comment, want := range map[string]bool{
		"synergy-profile=res18.json": true, "x,synergy-profile": true, "synergy-profile=../x": true,
		"": false, "synergy-checkpoint": false, "mysynergy-profile=res18.json": false,
	} {
		if got := Managed(comment); got != want {
			t.Errorf("%q: managed %v, want %v", comment, got, want)
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

func FuzzParseComment(f *testing.F) {
	f.Add("synergy-profile=res18.json synergy-checkpoint=USR1@60 synergy-length=2h")
	f.Add("synergy-profile=res18.json synergy-checkpoint=USR2/steps")
	f.Add("synergy-profile=../../x.json,\x00")
	f.Add("synergy-profile=a.json,synergy-share=high,mem=6.5,slo=50,mine")
	f.Add("synergy-share=low,,mem=1 ,slo=9,synergy-share=high,mem=1e9")
	f.Add("synergy-profile=a.json synergy-share=low, GPU_Mem=6,level=\u009b,memo=1 slo=")
	f.Fuzz(func(t *testing.T, comment string) {
		w, err := ParseComment(comment)
		if strings.Contains(w.Profile, "..") || strings.ContainsAny(w.Profile, "/\\\x00\n") ||
			len(w.Profile) > maxWord {
			t.Errorf("%q yields the profile name %q", comment, w.Profile)
		}
		if w.Saves && (!signals[w.Signal.Name] || w.Signal.To != slurm.Script && w.Signal.To != slurm.Steps ||
			w.Grace < time.Second || w.Grace > time.Hour) {
			t.Errorf("%q yields the checkpoint %s@%s", comment, w.Signal, w.Grace)
		}
		if err == nil && w.Length < 0 {
			t.Errorf("%q yields the length %s", comment, w.Length)
		}
		if r := w.Share; r != nil && (r.Class != share.High && r.Class != share.Low || r.Memory < 0 ||
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

func FuzzReadAnnotation(f *testing.F) {
	f.Add(`{"v":1,"lua":1,"begin":17}`)
	f.Add(`{"v":1,"job":7,"own":{"nodes":1,"tasks":1,"gpus":2}}`)
	f.Fuzz(func(t *testing.T, extra string) {
		j := slurm.Job{ID: 7, Extra: extra, Request: slurm.Request{GPUs: 2, Nodes: 1, Tasks: 1}}
		if s := readAnnotation(&j); s.Own != nil && s.Own.GPUs != 2 {
			t.Errorf("%q gives the job %d GPUs", extra, s.Own.GPUs)
		}
	})
}

// FuzzParseCurve: what is taken is bounded, ascending and positive, and nothing that is refused reaches a terminal.
func FuzzParseCurve(f *testing.F) {
	for _, value := range []string{"1:0.58/2:1.13/3:1.56@1767268800", "1:1@1", "", "@", "1:@1",
		"9999:1000000@8589934592", "1:1/1:1@1", "1:1//2:2@1", "1:\u202e@1"} {
		f.Add("synergy-profile=auto synergy-curve=" + value)
	}
	f.Fuzz(func(t *testing.T, comment string) {
		c, err := ParseCurve(comment)
		if err != nil {
			if len(c.Rates) > 0 || len(err.Error()) > 1024 || strings.ContainsFunc(err.Error(), unicode.IsControl) {
				t.Errorf("%+v, %v", c, err)
			}
			return
		}
		if len(c.Rates) > maxRates || len(c.Rates) > 0 && (c.At.IsZero() || c.At.Unix() > maxEpoch) {
			t.Errorf("%+v of %q", c, comment)
		}
		for k, r := range c.Rates {
			if !(r.Rate > 0 && r.Rate <= maxSpeed) || r.Cores < 1 || k > 0 && r.Cores <= c.Rates[k-1].Cores {
				t.Errorf("%+v of %q", c, comment)
			}
		}
	})
}

func TestAutoIsAProfileAndACurveIsReadApart(t *testing.T) {
	w, err := ParseComment("synergy-profile=auto synergy-curve=nonsense synergy-checkpoint")
	if err != nil || !w.Auto || w.Profile != "" || !w.Saves {
		t.Errorf("%+v, %v", w, err)
	}
	if w, err := ParseComment("synergy-profile=auto.json"); err != nil || w.Auto || w.Profile != "auto.json" {
		t.Errorf("%+v, %v", w, err)
	}
	c, err := ParseCurve("mine synergy-profile=auto,synergy-curve=1:0.58/2:1.13@1767268800")
	if err != nil || len(c.Rates) != 2 || c.Rates[1].Cores != 2 || c.Rates[1].Rate != 1.13 || !c.At.Equal(noon) {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := ParseComment("synergy-profile=auto synergy-curve=1:1@1 synergy-curve=1:1@1"); err == nil {
		t.Error("a curve that is said twice is taken")
	}
}
