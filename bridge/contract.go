package bridge

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// Word is the directives in a job's comment (docs/job-contract.md). They are untrusted: a profile is a name, never a
// path.
type Word struct {
	Profile string        // file name of the sensitivity profile; empty with Auto
	Auto    bool          // the profile is learned from the jobs of this owner and name
	Saves   bool          // the job declared a checkpoint
	Signal  slurm.Signal  // asks the job to save and leave
	Grace   time.Duration // from the signal until the job is stopped by force
	Length  time.Duration // expected length at the proportional share; 0: not given
	Cores   Claim         // on the cores that the user asked for
	Memory  Claim         // on the memory that the user asked for
	// Share says that the job may share a GPU, and how; nil: it never does.
	Share *share.Request
}

// Bounds of a comment, and the defaults of synergy-checkpoint.
const (
	autoProfile  = "auto"
	maxComment   = 4096 // bytes
	maxWord      = 128  // bytes, "synergy-profile=" included
	maxGrace     = 3600
	defaultGrace = 60 * time.Second
	maxLength    = 10 * 365 * 24 * time.Hour
)

var (
	profileName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*\.json$`)
	whole       = regexp.MustCompile(`^[1-9][0-9]*$`)
	signals     = map[string]bool{"USR1": true, "USR2": true, "HUP": true, "INT": true, "TERM": true}
)

// Managed says whether a comment carries our directive, well formed or not.
func Managed(comment string) bool {
	for word := range words(comment) {
		if name, _, _ := strings.Cut(word, "="); name == "synergy-profile" {
			return true
		}
	}
	return false
}

// ParseComment reads our directives in a comment; other words belong to the user. With an error, the Word holds what
// could be understood; the error says what could not, and what would be right.
func ParseComment(comment string) (Word, error) {
	if len(comment) > maxComment {
		return Word{}, fmt.Errorf("comment of %d bytes: want at most %d", len(comment), maxComment)
	}
	if strings.ContainsFunc(comment, unicode.IsControl) {
		return Word{}, errors.New("comment with a control character: want one line of plain text")
	}
	var w Word
	var wrong []error
	var seen []string
	for word := range words(comment) {
		name, value, given := strings.Cut(word, "=")
		if !strings.HasPrefix(name, "synergy-") {
			if slices.Contains(seen, shareWord) && isAmount(word) {
				wrong = append(wrong, fmt.Errorf("%.40q %s", word, strayAmount))
			}
			continue
		}
		if slices.Contains(seen, name) {
			wrong = append(wrong, fmt.Errorf("%.40q: said twice: say it once", name))
			continue
		}
		seen = append(seen, name)
		if err := w.set(name, value, given); err != nil {
			wrong = append(wrong, err)
		}
	}
	return w, listed(wrong)
}

// maxWrong is how many mistakes are listed: a user corrects one at a time, and the text goes into log lines and
// annotations.
const maxWrong = 3

// listed joins the first maxWrong errors.
func listed(wrong []error) error {
	if more := len(wrong) - maxWrong; more > 0 {
		wrong = append(wrong[:maxWrong:maxWrong], fmt.Errorf("and %d more", more))
	}
	return errors.Join(wrong...)
}

// shareWord is the directive whose value may contain commas: mem= and slo= are part of it if they follow it, or each
// other, after one comma and nothing else.
const shareWord = "synergy-share"

// strayAmount is the error for an amount that stands apart from the directive. Without it, the job would share with no
// other job, or with its profile's figure, against its user's intention. The gate uses the same sentence.
const strayAmount = "reads like an amount of " + shareWord + "; amounts stand directly behind the class, joined by " +
	"commas: " + shareWord + "=low,mem=6"

// amountNames are the names of amounts and likely misspellings, in lower case and with dashes. None has a letter that
// is the lower case of a letter beyond ASCII, since Lua cannot convert these.
var amountNames = []string{"mem", "memory", "gpu-mem", "gpu-memory", "gpumem", "gpumemory", "slo", "level"}

// isAmount says whether a word looks like an amount. Other words in a comment belong to the user.
func isAmount(word string) bool {
	name, _, given := strings.Cut(word, "=")
	return given && slices.Contains(amountNames, strings.ReplaceAll(strings.ToLower(name), "_", "-"))
}

// words splits a comment at commas and at the white space that the gate's Lua knows. Other space is part of a word: if
// only the daemon split there, it would manage jobs that the gate has not checked.
func words(comment string) iter.Seq[string] {
	return func(yield func(string) bool) {
		next := func(text string) string { return strings.TrimLeft(text, betweenWords) }
		for rest := next(comment); rest != ""; rest = next(rest) {
			word := rest[:lengthOfWord(rest)]
			rest = rest[len(word):]
			if !yield(word) {
				return
			}
		}
	}
}

// betweenWords are the characters that separate words.
const betweenWords = ", \t\n\v\f\r"

// lengthOfWord is the length in bytes of the word at the beginning of text.
func lengthOfWord(text string) int {
	end := wordEnd(text, 0)
	if !strings.HasPrefix(text, shareWord+"=") {
		return end
	}
	for strings.HasPrefix(text[end:], ",mem=") || strings.HasPrefix(text[end:], ",slo=") {
		end = wordEnd(text, end+1)
	}
	return end
}

// wordEnd is the index at which the word that begins at from ends.
func wordEnd(text string, from int) int {
	if length := strings.IndexAny(text[from:], betweenWords); length >= 0 {
		return from + length
	}
	return len(text)
}

// set reads one directive into w. given is false if the word has no "=".
func (w *Word) set(name, value string, given bool) (err error) {
	switch name {
	case "synergy-profile":
		return w.setProfile(value)
	case "synergy-checkpoint":
		return w.setCheckpoint(value, given)
	case "synergy-length":
		w.Length, err = parseLength(value)
		return err
	case progressWord, curveWord:
		return nil // read by ParseProgress and ParseCurve
	case "synergy-env":
		return checkEnv(value)
	case "synergy-cores":
		w.Cores, err = parseClaim(name, value)
		return err
	case "synergy-memory":
		w.Memory, err = parseClaim(name, value)
		return err
	case shareWord:
		return w.setShare(value)
	}
	return fmt.Errorf(
		"%.40q: no such word: want synergy-profile, -checkpoint, -length, -progress, -curve, -env, -cores, -memory "+
			"or -share", name)
}

// checkEnv checks synergy-env, which says whether the job's tasks are told their sizes in the environment. Only nodes
// use it (docs/node-setup.md).
func checkEnv(value string) error {
	if value != "on" && value != "off" {
		return fmt.Errorf("synergy-env=%.40q: want on or off, or no such word", value)
	}
	return nil
}

func (w *Word) setShare(value string) error {
	request, err := share.ParseRequest(value)
	if err == nil {
		w.Share = &request
	}
	return err
}

func parseClaim(name, value string) (Claim, error) {
	switch value {
	case "keep":
		return Keeps, nil
	case "give":
		return Gives, nil
	}
	return Unsaid,
		fmt.Errorf(
			"%s=%.40q: want keep, not to run with less than was asked for, or give, to leave that to the profile", name,
			value)
}

func (w *Word) setProfile(value string) error {
	if value == autoProfile {
		w.Auto = true
		return nil
	}
	if len("synergy-profile=")+len(value) > maxWord || strings.Contains(value, "..") ||
		!profileName.MatchString(value) {
		return fmt.Errorf(
			"synergy-profile=%.40q: want the name of a profile, letters, digits, dot, dash and underscore, ending in "+
				".json, or auto", value)
	}
	w.Profile = value
	return nil
}

// setCheckpoint reads SIGNAL or SIGNAL@GRACE, either with /steps appended; without a value it is USR1@60.
func (w *Word) setCheckpoint(value string, given bool) error {
	timing, to, aimed := strings.Cut(value, "/")
	if aimed && slurm.Target(to) != slurm.Steps {
		return fmt.Errorf(
			"synergy-checkpoint=%.40q: want /steps at its end, for a signal to the tasks of srun, or nothing, for "+
				"one to the batch script",
			value)
	}
	signal, seconds, timed := strings.Cut(timing, "@")
	if !given {
		signal = "USR1"
	}
	if !signals[signal] {
		return fmt.Errorf(
			"synergy-checkpoint=%.40q: want one of USR1, USR2, HUP, INT, TERM, and @ seconds if 60 are not right",
			value)
	}
	grace := defaultGrace
	if timed {
		n, err := strconv.Atoi(seconds)
		if err != nil || n > maxGrace || !whole.MatchString(seconds) {
			return fmt.Errorf("synergy-checkpoint=%.40q: want 1 to %d whole seconds after the @", value, maxGrace)
		}
		grace = time.Duration(n) * time.Second
	}
	w.Saves, w.Signal, w.Grace = true, slurm.Signal{Name: signal, To: slurm.Target(to)}, grace
	return nil
}

var units = map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}

var decimal = regexp.MustCompile(`^[0-9]{1,9}(\.[0-9]{1,9})?$`)

// parseLength reads a duration such as 2.5h.
func parseLength(value string) (time.Duration, error) {
	number := value[:max(0, len(value)-1)]
	unit, known := units[value[len(number):]]
	if known && decimal.MatchString(number) {
		n, err := strconv.ParseFloat(number, 64)
		if length := n * float64(unit); err == nil && length > 0 && length <= float64(maxLength) {
			return time.Duration(math.Round(length)), nil
		}
	}
	return 0, fmt.Errorf("synergy-length=%.40q: want a number and a unit, s, m, h or d, such as 2.5h", value)
}
