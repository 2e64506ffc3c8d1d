package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/synergy-slurmd/synergy-slurmd/cmd/internal/times"
	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
)

// maxValues is how many loads or seeds one command may name. Each of them is simulated once for every schedule.
const maxValues = 1000

// parseList splits a list as fifo,srtf into its words, in small letters. Empty and repeated words are errors.
func parseList(text string) ([]string, error) {
	var words []string
	seen := make(map[string]bool)
	for _, word := range strings.Split(strings.ToLower(text), ",") {
		word = strings.TrimSpace(word)
		switch {
		case word == "":
			return nil, fmt.Errorf("%q: want one word or several with commas between", text)
		case seen[word]:
			return nil, fmt.Errorf("%q: %s stands there twice: name it once", text, word)
		}
		seen[word] = true
		words = append(words, word)
	}
	return words, nil
}

// parseLoads reads loads in jobs per hour: one number, several, or a range as 1:8:0.5, which is first, last and step.
func parseLoads(text string) ([]float64, error) {
	wrong := fmt.Errorf("%q: want jobs per hour, as 9, or 3,6,9, or first:last:step as 1:8:0.5", text)
	if first, rest, ranged := strings.Cut(text, ":"); ranged {
		last, step, stepped := strings.Cut(rest, ":")
		numbers, err := parsePositive(first, last, step)
		if !stepped || err != nil || numbers[1] < numbers[0] {
			return nil, wrong
		}
		return rangeValues(text, numbers[0], numbers[1], numbers[2])
	}
	words, err := parseList(text)
	if err != nil {
		return nil, err
	}
	loads, err := parsePositive(words...)
	if err != nil {
		return nil, wrong
	}
	return loads, nil
}

// rangeValues lists the numbers of a range, its end included; text is the range as typed, for errors. The numbers are
// rounded to nine decimals, so that 0.1 three times is 0.3.
func rangeValues(text string, first, last, step float64) ([]float64, error) {
	const written = 1e9
	// A step that is missing by a rounding error only still counts.
	count := math.Floor((last-first)/step+1/written) + 1
	if count > maxValues {
		return nil, fmt.Errorf("%q has %g steps: want %d at most", text, count, maxValues)
	}
	var all []float64
	for i := range int(count) {
		// The conversion keeps the compiler from fusing multiplication and addition, which would round otherwise on
		// some machines.
		all = append(all, math.Round((first+float64(float64(i)*step))*written)/written)
	}
	return all, nil
}

// parsePositive reads numbers above 0 and up to a million.
func parsePositive(words ...string) ([]float64, error) {
	const beyond = 1e6
	var numbers []float64
	for _, word := range words {
		x, err := strconv.ParseFloat(word, 64)
		if err != nil || !(x > 0 && x <= beyond) { // written so that NaN fails
			return nil, fmt.Errorf("%q: want a number above 0", word)
		}
		numbers = append(numbers, x)
	}
	return numbers, nil
}

// parseSeeds reads one seed, several with commas, or a range as 1:10, its end included.
func parseSeeds(text string) ([]int64, error) {
	wrong := fmt.Errorf("%q: want a whole number, as 42, or several, as 42,43, or first:last, as 1:10", text)
	if first, last, ranged := strings.Cut(text, ":"); ranged {
		ends, err := parseWholes(first, last)
		if err != nil || ends[1] < ends[0] {
			return nil, wrong
		}
		if ends[1]-ends[0] >= maxValues {
			return nil, fmt.Errorf("%q are more than %d seeds", text, maxValues)
		}
		var all []int64
		for i := range ends[1] - ends[0] + 1 {
			all = append(all, ends[0]+i)
		}
		return all, nil
	}
	words, err := parseList(text)
	if err != nil {
		return nil, err
	}
	seeds, err := parseWholes(words...)
	if err != nil {
		return nil, wrong
	}
	return seeds, nil
}

// parseWholes reads whole numbers from 0.
func parseWholes(words ...string) ([]int64, error) {
	var numbers []int64
	for _, word := range words {
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%q: want a whole number from 0", word)
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}

// parseWindow reads the range of job IDs that count, as 4000-5000: the first ID that counts, and the first after it
// that no longer does.
func parseWindow(text string) (outcome.Window, error) {
	first, end, _ := strings.Cut(text, "-")
	ids, err := parseWholes(first, end)
	switch {
	case err != nil || ids[1] > math.MaxInt32:
		return outcome.Window{}, fmt.Errorf("%q: want two job IDs, as 4000-5000, which counts 4000 to 4999", text)
	case ids[1] <= ids[0]:
		return outcome.Window{},
			fmt.Errorf("%q is empty: want the first ID that counts and, larger, the first that does not, as 4000-5000",
				text)
	}
	return outcome.Window{First: int(ids[0]), End: int(ids[1])}, nil
}

// durationFlag is a time on the command line: 90, 90s or 1h30m.
type durationFlag time.Duration

// Set reads a number of seconds, or a duration as times.Parse does.
func (s *durationFlag) Set(text string) error {
	if number, err := strconv.ParseFloat(text, 64); err == nil {
		text = strconv.FormatFloat(number, 'f', -1, 64) + "s"
	}
	d, err := times.Parse(text)
	if err != nil {
		return err
	}
	if d < 0 {
		return errors.New("want seconds, or a duration like 90s, 5m or 1h30m")
	}
	*s = durationFlag(d)
	return nil
}

// String is "0" for 0. Set reads that, and pflag shows it as no default in the help.
func (s *durationFlag) String() string {
	if *s == 0 {
		return "0"
	}
	return time.Duration(*s).String()
}

func (s *durationFlag) seconds() float64 { return time.Duration(*s).Seconds() }

// Type is the type's name in the help.
func (s *durationFlag) Type() string { return "time" }

// withJSONFile returns the arguments with --json turned into --json=- if no file stands behind it: pflag would take the
// next flag for the file, or demand one at the end. The arguments of a trainer (of synergy run, and all behind --) stay
// as they are.
func withJSONFile(args []string) []string {
	all := slices.Clone(args)
	if len(all) > 0 && all[0] == "run" { // a trainer's arguments are its own
		return all
	}
	for i, arg := range all {
		if arg == "--" {
			break
		}
		if arg == "--json" && (i == len(all)-1 || strings.HasPrefix(all[i+1], "-") && all[i+1] != stdioName) {
			all[i] = "--json=" + stdioName
		}
	}
	return all
}

// normalizeArgs applies withJSONFile for commands whose --json takes a file. For commands whose --json is a switch the
// arguments stay as they are. The error for an unknown command comes from cobra later.
func normalizeArgs(root *cobra.Command, args []string) []string {
	if command, _, err := root.Find(args); err == nil {
		if f := command.Flags().Lookup("json"); f != nil && f.Value.Type() == "bool" {
			return args
		}
	}
	return withJSONFile(args)
}

// stringsOf are the texts of string constants.
func stringsOf[T ~string](terms ...T) []string {
	var names []string
	for _, t := range terms {
		names = append(names, string(t))
	}
	return names
}

// completeList completes the last word of a list in which words have commas between.
func completeList(choices []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		before := typed[:strings.LastIndex(typed, ",")+1]
		var offered []string
		for _, choice := range choices {
			if strings.HasPrefix(before+choice, typed) {
				offered = append(offered, before+choice)
			}
		}
		return offered, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// shellQuoted is a word as a shell reads it, in quotes only where it needs them.
func shellQuoted(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("-_=+,.:/%@", r)
	}
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool { return !plain(r) }) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
