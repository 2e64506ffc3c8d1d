package policy

import (
	"cmp"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// The way to say it that needs no stairs: of all fills those than which none that needs no more nets as much.
func plainUndominated(all []fill) []fill {
	slices.SortFunc(all, func(x, y fill) int {
		return cmp.Or(cmp.Compare(x.used.CPUs, y.used.CPUs), cmp.Compare(x.used.Memory, y.used.Memory),
			cmp.Compare(y.net, x.net),
			cmp.Compare(x.from, y.from), cmp.Compare(x.pick, y.pick))
	})
	var kept []fill
	for _, x := range all {
		if !slices.ContainsFunc(kept, func(k fill) bool { return k.used.Memory <= x.used.Memory && k.net >= x.net }) {
			kept = append(kept, x)
		}
	}
	return kept
}

func TestOfTheFillsThoseStayThanWhichNoneNeedsNoMoreAndNetsAsMuch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var f sizeSolver
		room := gres.Vector{CPUs: rapid.IntRange(0, 12).Draw(t, "cores"),
			Memory: gres.Memory(rapid.IntRange(0, 20).Draw(t, "memory"))}
		draw := func(name string, most int) (cpus int, memory gres.Memory, net float64) {
			return rapid.IntRange(0, most).Draw(t, name+" cores"),
				gres.Memory(rapid.IntRange(0, most).Draw(t, name+" memory")),
				float64(rapid.IntRange(-3, 5).Draw(t, name+" net"))
		}
		var from, all []fill
		var choices []choice
		for range rapid.IntRange(0, 8).Draw(t, "fills") {
			cpus, memory, net := draw("fill", 8)
			from = append(from, fill{used: gres.Vector{CPUs: cpus, Memory: memory}, net: net})
		}
		for range rapid.IntRange(0, 6).Draw(t, "choices") {
			cpus, memory, net := draw("choice", 6)
			choices = append(choices, choice{size: gres.Vector{CPUs: cpus, Memory: memory}, net: net})
		}
		for at, x := range from {
			for k, o := range choices {
				used := gres.Vector{CPUs: x.used.CPUs + o.size.CPUs, Memory: x.used.Memory + o.size.Memory}
				if used.CPUs <= room.CPUs && used.Memory <= room.Memory {
					all = append(all, fill{used, x.net + o.net, k, at})
				}
			}
		}
		got, want := f.addJob(nil, from, choices, room), plainUndominated(all)
		if len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
	})
}
