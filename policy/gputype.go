package policy

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// ProfileOn is the profile of a job on servers with GPUs of a type: nil if it was measured on another type, since
// another GPU needs other amounts of cores and memory. The job then gets the proportional share. Servers and profiles
// without a type suit all.
func ProfileOn(p *sensitivity.Profile, gpuType string) *sensitivity.Profile {
	if p == nil || gpuType == "" || p.GPUType == "" || sameGPU(p.GPUType, gpuType) {
		return p
	}
	return nil
}

// sameGPU reports whether two names are of one GPU, as far as names tell: the words of one are among those of the
// other, in upper or lower case. So an administrator's H100 is nvidia_h100_80gb_hbm3, which is what Slurm calls it if
// it detects it by itself.
func sameGPU(a, b string) bool {
	if strings.EqualFold(a, b) {
		return true
	}
	x, y := wordsOf(a), wordsOf(b)
	return allAmong(x, y) || allAmong(y, x)
}

// wordsOf splits a name into its words of letters and digits, in lower case.
func wordsOf(name string) []string {
	return strings.FieldsFunc(strings.ToLower(name),
		func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// allAmong reports whether all of few, which must not be empty, are among many.
func allAmong(few, many []string) bool {
	return len(few) > 0 && !slices.ContainsFunc(few, func(w string) bool { return !slices.Contains(many, w) })
}

// otherGPUText tells job i, which starts, that its profile is for another GPU than that of its servers, so that it gets
// the proportional share; empty if the profile applies or there is none.
func otherGPUText(b *board, i int) string {
	s, p := &b.states[i], b.jobs[i].Profile
	gpu := b.servers[s.servers[0]].GPUType
	if ProfileOn(p, gpu) == p {
		return ""
	}
	return fmt.Sprintf("its profile was measured on %s and says nothing about %s: it has the proportional share",
		p.GPUType, gpu)
}
