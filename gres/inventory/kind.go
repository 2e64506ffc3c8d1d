package inventory

import (
	"regexp"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// longest is how many characters of a device's name are used.
const longest = 64

// model matches the word of a device's name that is its model: A100, L40S, GB200. A memory size begins with a digit;
// formFactors excludes words for the form of the board.
var model = regexp.MustCompile(`^[a-z]{1,3}[0-9]{1,4}[a-z]{0,2}$`)

var formFactors = regexp.MustCompile(`^(sxm|hbm|nvl|gen|ddr|gddr|rev)[0-9]+[a-z]?$`)

// series matches cards whose model is only a number, where Slurm would read gpu:3090 as a count: RTX 3090 Ti, RTX PRO
// 6000.
var series = regexp.MustCompile(`(?:^|_)((?:rtx|gtx)(?:_pro)?_[0-9]{3,5}(?:_ti|_super)*)(?:_|$)`)

// underscored returns a device's name as Slurm's AutoDetect writes it: lower case, with underscores for blanks. Slurm
// accepts a Type in a configuration file if it is a part of that. Characters that no Type can have become underscores
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

// Type returns the sites' name for a device: a100 for NVIDIA A100-SXM4-40GB, rtx_3090 for NVIDIA GeForce RTX 3090. It
// is a part of the underscored name, so Slurm's AutoDetect accepts it, and Slurm never reads it as a count.
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

// isType reports whether Slurm reads gpu:text as a type, not as a count or nothing at all.
func isType(text string) bool {
	if text == "" || len(text) > longest {
		return false
	}
	counts, err := gres.ParseCounts("gpu:" + text)
	return err == nil && len(counts) == 1 && counts[0].Type == text
}

// Classify gives each GPU its Type. Two models that would get the same one, as the A100 with 40 and with 80 GB, get
// their full names.
func Classify(gpus []GPU) {
	names := map[string]map[string]bool{} // the models, by type
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
