package slurm

import (
	"fmt"
	"strings"
)

// reservedOptions are options of sbatch that would make the job another measurement, and what to use instead.
var reservedOptions = []struct{ names, instead string }{
	{"--gres --gpus -G --gpus-per-node --gpus-per-task --gpus-per-socket --tres-per-task",
		"--gpus and --gpu-type say how many GPUs of which type"},
	{"--cpus-per-task -c --cpus-per-gpu --mincpus --cores-per-socket --core-spec -S --thread-spec",
		"--cores says how many"},
	{"--mem --mem-per-cpu --mem-per-gpu", "--memory says how much"},
	{"--ntasks -n --ntasks-per-node --ntasks-per-gpu --ntasks-per-core --ntasks-per-socket --nodes -N --spread-job",
		"one task on one node is measured"},
	{"--array -a", "one job measures all sizes"},
	{"--wrap", "the trainer stands behind --"},
	{"--output -o --error -e --input -i --chdir -D --open-mode --parsable --job-name -J",
		"synergy profile needs them as it sets them"},
	{"--wait -W --test-only --help -h --usage --version -V --quiet -Q --verbose -v",
		"synergy profile follows the job by itself"},
	{"--requeue --no-requeue --time -t", "the job is measured once, for --budget"},
	{"--clusters -M", "say SLURM_CLUSTERS in the environment"},
	{"--partition -p", "--partition says which"},
}

// Options splits the users' options for sbatch into words, as a shell would: at spaces outside of quotes. It refuses
// options that would change what is measured. Unknown options are left for Slurm to refuse.
func Options(texts []string) (all []string, err error) {
	for _, text := range texts {
		words, err := split(text)
		if err != nil {
			return nil, fmt.Errorf("%.80q: %w", text, err)
		}
		for i, word := range words {
			if err := check(word, i > 0 && takesNext(words[i-1])); err != nil {
				return nil, err
			}
			if isDirectiveOption(word) {
				return nil,
					fmt.Errorf(
						"%.80q: this job is not one for synergy-slurmd, which would size it: leave its directives out",
						word)
			}
		}
		all = append(all, words...)
	}
	return all, nil
}

// isDirectiveOption reports whether an option is a directive. sbatch takes --comment shortened, too, and --synergy-…
// are options of the SPANK plugin that turn into one.
func isDirectiveOption(word string) bool {
	return hasDirectives(word) && (strings.HasPrefix(word, "--c") || strings.HasPrefix(word, "--synergy-"))
}

// valuelessOptions are the short options without a value.
const valuelessOptions = "HIkOs"

// takesNext reports whether the next word is the option's value, as in -A ml. After a long option that cannot be known,
// and sbatch would take a word that is no value for the batch script; so long options must be written with =.
func takesNext(word string) bool {
	return len(word) == 2 && word[0] == '-' && !strings.Contains(valuelessOptions, word[1:])
}

// check refuses a word that is not an option of sbatch or would change what is measured. value says that the word is
// the value of the option before it.
func check(word string, value bool) error {
	if value {
		return nil
	}
	if len(word) < 2 || word[0] != '-' || word == "--" {
		return fmt.Errorf("%.80q: want options of sbatch, as --account=ml or -A ml", word)
	}
	for _, t := range reservedOptions {
		for name := range strings.FieldsSeq(t.names) {
			if isOption(word, name) {
				return fmt.Errorf("%.80q: not here: %s", word, t.instead)
			}
		}
	}
	return nil
}

// isOption reports whether a word is this option: in full, with a value appended, or shortened as sbatch allows, down
// to a length that is still unique.
func isOption(word, name string) bool {
	if !strings.HasPrefix(name, "--") {
		return !strings.HasPrefix(word, "--") && strings.HasPrefix(word, name)
	}
	const least = len("--arr")
	given, _, _ := strings.Cut(word, "=")
	return given == name || len(given) >= least && strings.HasPrefix(name, given)
}

// split splits at spaces outside of quotes; a backslash outside of single quotes takes the next byte literally. A pair
// of quotes with nothing in it is an empty word, which begun remembers.
func split(text string) (words []string, err error) {
	var word strings.Builder
	var quote byte
	begun := false
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == 0 || c == '\n' || c == '\r':
			return nil, fmt.Errorf("character %d: want one line", i)
		case c == '\\' && quote != '\'':
			if i++; i == len(text) {
				return nil, fmt.Errorf("ends in a backslash: want a character behind it")
			}
			word.WriteByte(text[i])
			begun = true
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote, begun = c, true
		case quote == 0 && (c == ' ' || c == '\t'):
			if begun {
				words = append(words, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteByte(c)
			begun = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a quote %c is not closed", quote)
	}
	if begun {
		words = append(words, word.String())
	}
	return words, nil
}
