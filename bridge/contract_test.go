package bridge

import (
	"strings"
	"testing"
	"time"
)

func TestACommentSaysWhatTheContractSays(t *testing.T) {
	plain := Word{Profile: "res18.json"}
	asks := func(signal string, grace time.Duration) Word {
		return Word{Profile: "res18.json", Saves: true, Signal: signal, Grace: grace}
	}
	for comment, want := range map[string]Word{
		"synergy-profile=res18.json":                                         plain,
		"my own words, synergy-profile=res18.json":                           plain,
		"synergy-profile=res18.json synergy-checkpoint":                      asks("USR1", time.Minute),
		"synergy-profile=res18.json,synergy-checkpoint=USR2":                 asks("USR2", time.Minute),
		"synergy-checkpoint=HUP@3600 synergy-profile=res18.json":             asks("HUP", time.Hour),
		"synergy-profile=res18.json synergy-length=90s":                      {Profile: "res18.json", Length: 90 * time.Second},
		"synergy-profile=res18.json synergy-length=2.5h":                     {Profile: "res18.json", Length: 150 * time.Minute},
		"synergy-profile=a-b_c.1.json synergy-length=3d":                     {Profile: "a-b_c.1.json", Length: 72 * time.Hour},
		"synergy-profile=" + strings.Repeat("x", maxWord-21) + ".json":       {Profile: strings.Repeat("x", maxWord-21) + ".json"},
		"nothing of ours synergyprofile=x, not-synergy-profile=res18.json x": {},
	} {
		got, err := ParseComment(comment)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v; want %+v", comment, got, err, want)
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
		"synergy-checkpoint=":                                       "one of USR1",
		"synergy-checkpoint=KILL":                                   "one of USR1",
		"synergy-checkpoint=usr1":                                   "one of USR1",
		"synergy-checkpoint=USR1@":                                  "whole seconds",
		"synergy-checkpoint=USR1@0":                                 "whole seconds",
		"synergy-checkpoint=USR1@060":                               "whole seconds",
		"synergy-checkpoint=USR1@+60":                               "whole seconds",
		"synergy-checkpoint=USR1@3601":                              "whole seconds",
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

func FuzzParseComment(f *testing.F) {
	f.Add("synergy-profile=res18.json synergy-checkpoint=USR1@60 synergy-length=2h")
	f.Add("synergy-profile=../../x.json,\x00")
	f.Fuzz(func(t *testing.T, comment string) {
		w, err := ParseComment(comment)
		if strings.Contains(w.Profile, "..") || strings.ContainsAny(w.Profile, "/\\\x00\n") || len(w.Profile) > maxWord {
			t.Errorf("%q yields the profile name %q", comment, w.Profile)
		}
		if w.Saves && (!signals[w.Signal] || w.Grace < time.Second || w.Grace > time.Hour) {
			t.Errorf("%q yields the checkpoint %s@%s", comment, w.Signal, w.Grace)
		}
		if err == nil && w.Length < 0 {
			t.Errorf("%q yields the length %s", comment, w.Length)
		}
	})
}

func FuzzReadStamp(f *testing.F) {
	f.Add(`{"v":1,"lua":1,"begin":17}`)
	f.Add(`{"v":1,"job":7,"own":{"nodes":1,"tasks":1,"gpus":2}}`)
	f.Fuzz(func(t *testing.T, extra string) {
		j := Job{ID: 7, Extra: extra, Request: Request{GPUs: 2, Nodes: 1, Tasks: 1}}
		if s := readStamp(&j); s.Own != nil && s.Own.GPUs != 2 {
			t.Errorf("%q gives the job %d GPUs", extra, s.Own.GPUs)
		}
	})
}
