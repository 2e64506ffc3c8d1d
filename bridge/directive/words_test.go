package directive

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/share"
)

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
		got := Parse(comment)
		if !reflect.DeepEqual(got, Directives{Managed: true, Profile: "a.json", Share: want}) {
			t.Errorf("%q: %+v (%+v), want %+v", comment, got, got.Share, want)
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
		d := Parse(profile + behind)
		if err := d.Err(); err == nil || err.Error() != want || d.Mistakes[0].Word != word {
			t.Errorf("%q: %+v, %v; want %s", behind, d, err, want)
		}
		if d := Parse("synergy-profile=a.json mine" + behind); d.Err() != nil || d.Share != nil {
			t.Errorf("%q in a job that shares nothing: %+v", behind, d)
		}
	}
}

// TestTheGateKnowsStrayAmountsAsTheDaemonDoes: what it makes of them is tried where there is a Lua, in the live suite.
func TestTheGateKnowsStrayAmountsAsTheDaemonDoes(t *testing.T) {
	gate, err := os.ReadFile("../../etc/job_submit.lua")
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

// TestOnlySpacesThatTheGateKnowsPartWords: a word that the gate's lua does not see, since it knows the spaces of ASCII
// alone, must not make a job managed: it would have no lease, and its owner could forge its annotation.
func TestOnlySpacesThatTheGateKnowsPartWords(t *testing.T) {
	for _, space := range []string{"\u00a0", "\u0085", "\u1680", "\u2003", "\u2028", "\u3000", "\ufeff"} {
		if Parse("mine" + space + "synergy-profile=res18.json").Managed {
			t.Errorf("after %+q a job is managed, and the gate let it pass", space)
		}
		if d := Parse("synergy-profile=res18.json" + space + "x"); d.Err() == nil {
			t.Errorf("%+q ends a word: %+v", space, d)
		}
	}
	for _, space := range []string{" ", ",", "\t", "\n", "\v", "\f", "\r"} {
		if !Parse("mine" + space + "synergy-profile=res18.json").Managed {
			t.Errorf("after %+q a job is not managed, and the gate gave it a lease", space)
		}
	}
}
