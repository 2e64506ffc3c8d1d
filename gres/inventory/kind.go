package inventory

import (
	"regexp"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// longest is how many characters of a device's name count.
const longest = 64

// model matches the word of a device's name that is its model: A100, L40S, GB200. A memory size begins with a digit;
// what a board is built like is in formFactors.
var model = regexp.MustCompile(`^[a-z]{1,3}[0-9]{1,4}[a-z]{0,2}$`)

var formFactors = regexp.MustCompile(`^(sxm|hbm|nvl|gen|ddr|gddr|rev)[0-9]+[a-z]?$`)

// series matches cards whose model is a number alone, of which Slurm would read gpu:3090 as so many GPUs: RTX 3090 Ti,
// RTX PRO 6000.
var series = regexp.MustCompile(`(?:^|_)((?:rtx|gtx)(?:_pro)?_[0-9]{3,5}(?:_ti|_super)*)(?:_|$)`)

// underscored is a device's name as Slurm's AutoDetect writes it: lower case, with underscores for blanks. Slurm takes
// a Type of a configuration file for right when it is found in that. Characters that no Type can have are underscores
// here, too.
func underscored(name string) string {
	text := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || strings.ContainsRune("._-+", r) {
			return r
		}
		return '_'
	}, strings.ToLower(strings.TrimSpace(name)))
	return strings.TrimRight(text[:min(len(text), longest)], "_")
}

// Type is what sites call a device of this name: a100 for NVIDIA A100-SXM4-40GB, rtx_3090 for NVIDIA GeForce RTX 3090.
// It stands in the underscored name, so Slurm's AutoDetect agrees with it; and it is never such that Slurm would take
// it for a count.
func Type(name string) string {
	whole := underscored(name)
	for _, word := range strings.FieldsFunc(whole, func(r rune) bool { return r == '_' || r == '-' }) {
		if model.MatchString(word) && !formFactors.MatchString(word) {
			return word
		}
	}
	if found := series.FindStringSubmatch(whole); found != nil {
		return found[1]
	}
	if !isType(whole) {
		return "gpu"
	}
	return whole
}

// isType says whether Slurm reads gpu:text as a type and not as a count, or as nothing at all.
func isType(text string) bool {
	if text == "" || len(text) > longest {
		return false
	}
	counts, err := gres.ParseCounts("gpu:" + text)
	return err == nil && len(counts) == 1 && counts[0].Type == text
}

// Classify gives each GPU its Type. Two models that would be called alike, as the A100 of 40 and of 80 GB, get their
// whole names.
func Classify(gpus []GPU) {
	names := map[string]map[string]bool{} // by type, the models
	for _, g := range gpus {
		short := Type(g.Name)
		if names[short] == nil {
			names[short] = map[string]bool{}
		}
		names[short][underscored(g.Name)] = true
	}
	for i, g := range gpus {
		gpus[i].Type = Type(g.Name)
		if whole := underscored(g.Name); len(names[gpus[i].Type]) > 1 && isType(whole) {
			gpus[i].Type = whole
		}
	}
}
