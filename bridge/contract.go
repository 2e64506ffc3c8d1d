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

	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// Word is what a job's comment says to us (docs/job-contract.md). It is untrusted: a profile is a name, never a path.
type Word struct {
	Profile string        // file name of the sensitivity profile; empty with Auto
	Auto    bool          // the profile is what jobs of this owner and name have taught
	Saves   bool          // the job declared a checkpoint
	Signal  Signal        // that asks it to save and leave
	Grace   time.Duration // from the signal until it is stopped by force
	Length  time.Duration // expected length at the proportional share; 0: not said
	Cores   Claim         // on the cores that its user asked for
	Memory  Claim         // on the memory that its user asked for
	// Share is that it may share a GPU with others, and how; nil: it never does.
	Share *share.Request
}

// What a comment may hold, and the defaults of the checkpoint word.
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

// Managed says whether a comment carries our directive at all, well formed or not.
func Managed(comment string) bool {
	for word := range words(comment) {
		if name, _, _ := strings.Cut(word, "="); name == "synergy-profile" {
			return true
		}
	}
	return false
}

// ParseComment reads our directives in a comment; other words belong to the user. On an error the word says what could
// be understood, and the error what could not and what would be right.
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

// maxWrong is how many mistakes are told: a user mends one at a time, and the text goes into a log line and into the
// annotation.
const maxWrong = 3

func listed(wrong []error) error {
	if more := len(wrong) - maxWrong; more > 0 {
		wrong = append(wrong[:maxWrong:maxWrong], fmt.Errorf("and %d more", more))
	}
	return errors.Join(wrong...)
}

// shareWord is the directive whose value has commas: mem= and slo= belong to it where they follow it, and each other,
// behind one comma and nothing else.
const shareWord = "synergy-share"

// strayAmount is what is wrong with an amount behind the directive that is no part of it: its job would share with
// nobody, or with its profile's figure, and its user would think otherwise. The gate's lua has the same sentence.
const strayAmount = "reads like an amount of " + shareWord + "; amounts stand directly behind the class, joined by " +
	"commas: " + shareWord + "=low,mem=6"

// amountNames are what amounts are called, and what one is called who does not know it by heart, as written with dashes
// and small letters. No letter of theirs is the small one of a letter beyond ASCII, of which lua knows none.
var amountNames = []string{"mem", "memory", "gpu-mem", "gpu-memory", "gpumem", "gpumemory", "slo", "level"}

// isAmount says whether a word reads like an amount. All that others may write in a comment besides is their business.
func isAmount(word string) bool {
	name, _, given := strings.Cut(word, "=")
	return given && slices.Contains(amountNames, strings.ReplaceAll(strings.ToLower(name), "_", "-"))
}

// words cuts a comment at commas and the white space that the gate's lua knows. Any other space belongs to a word: one
// at which only we cut would make a job managed that the gate let pass.
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

const betweenWords = ", \t\n\v\f\r"

// lengthOfWord is how long the word is with which a text begins, bytes.
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

// wordEnd is where the word ends that stands at from.
func wordEnd(text string, from int) int {
	if length := strings.IndexAny(text[from:], betweenWords); length >= 0 {
		return from + length
	}
	return len(text)
}

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
		return nil // ParseProgress and ParseCurve read them
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

// checkEnv reads the word by which a job has its tasks told what they were given, or keeps its environment to itself.
// It is for its nodes (docs/node-setup.md); no round goes by it.
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

// setCheckpoint reads SIGNAL, SIGNAL@GRACE, either with /steps behind it, or nothing for USR1@60.
func (w *Word) setCheckpoint(value string, given bool) error {
	timing, to, aimed := strings.Cut(value, "/")
	if aimed && Target(to) != Steps {
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
	w.Saves, w.Signal, w.Grace = true, Signal{signal, Target(to)}, grace
	return nil
}

var units = map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}

var decimal = regexp.MustCompile(`^[0-9]{1,9}(\.[0-9]{1,9})?$`)

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
