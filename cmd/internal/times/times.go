// Package times reads durations as people write them in configurations and flags: Go's notation, and days and weeks.
// Its errors suggest how the duration should be written.
package times

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// Day is 24 hours, regardless of daylight saving.
const Day = 24 * time.Hour

const week = 7 * Day

var (
	// part is a number and its unit.
	part  = regexp.MustCompile(`([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h|d|w)`)
	whole = regexp.MustCompile(`^[+-]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h|d|w))+$`)
	// slurms is a time limit in Slurm's notation: 90:00, 1:30:00, 1-12, 1-12:30, 1-12:30:00.
	slurms = regexp.MustCompile(`^(?:(\d+)-)?(\d+)(?::(\d\d))?(?::(\d\d))?$`)
	number = regexp.MustCompile(`^[+-]?[0-9]+(?:\.[0-9]+)?$`)
	word   = regexp.MustCompile(`[a-zµμ]+`)
)

var units = map[string]time.Duration{"ns": 1, "us": time.Microsecond, "µs": time.Microsecond, "μs": time.Microsecond,
	"ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": Day, "w": week}

// Parse reads durations such as 90s, 15m, 1h30m, 30d and 2w. The error suggests the right form.
func Parse(text string) (time.Duration, error) {
	if text == "0" {
		return 0, nil
	}
	d, err := parse(text)
	if errors.Is(err, errForm) {
		return 0, fmt.Errorf("%.60q %s", text, remedy(text))
	}
	if err != nil {
		return 0, fmt.Errorf("%.60q %w", text, err)
	}
	return d, nil
}

var (
	errForm = errors.New("is no time")
	errLong = errors.New("is longer than 292 years")
)

func parse(text string) (time.Duration, error) {
	if !whole.MatchString(text) {
		return 0, errForm
	}
	sum := 0.0
	for _, found := range part.FindAllStringSubmatch(text, -1) {
		n, err := strconv.ParseFloat(found[1], 64)
		if err != nil {
			return 0, errLong
		}
		sum += float64(n * float64(units[found[2]]))
	}
	if sum >= math.MaxInt64 {
		return 0, errLong
	}
	if strings.HasPrefix(text, "-") {
		sum = -sum
	}
	return time.Duration(math.Round(sum)), nil
}

// remedy says what is wrong with a text that is not a duration, and gives the right form where it can be guessed.
func remedy(text string) string {
	const form = "want a number with a unit, as 90s, 15m, 2h or 30d"
	switch plain := strings.TrimSpace(text); {
	case text == "":
		return "is empty: " + form
	case number.MatchString(plain):
		n := strings.TrimPrefix(plain, "+")
		return fmt.Sprintf("has no unit: want %ss for seconds, %[1]sm for minutes or %[1]sh for hours", n)
	case calendar(plain):
		return "is of years or months, which differ in length: want days, as 365d"
	}
	if other, is := fromSlurm(strings.TrimSpace(text)); is {
		return "is written as Slurm does: want " + other
	}
	other := rewritten(text)
	if _, err := parse(other); err == nil {
		return "is not how it is written: want " + other
	}
	return "is no time: " + form
}

// calendar reports whether the text has a unit of years or months.
func calendar(text string) bool {
	for _, w := range word.FindAllString(strings.ToLower(text), -1) {
		switch strings.TrimSuffix(w, "s") {
		case "y", "yr", "year", "mo", "mon", "month":
			return true
		}
	}
	return false
}

// words maps units as people write them to the units that Parse knows.
var words = map[string]string{
	"sec": "s", "secs": "s", "second": "s", "seconds": "s", "min": "m", "mins": "m", "minute": "m", "minutes": "m",
	"hr": "h", "hrs": "h", "hour": "h", "hours": "h", "day": "d", "days": "d", "week": "w", "weeks": "w", "wk": "w",
	"wks": "w", "msec": "ms", "millis": "ms",
}

// rewritten is the text in the notation of Parse as far as possible: lower case, short units, a comma as the decimal
// point, without spaces and other characters.
func rewritten(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case r == ',':
			return '.'
		case '0' <= r && r <= '9', 'a' <= r && r <= 'z', strings.ContainsRune(".-:µμ", r):
			return r
		}
		return -1
	}, strings.ReplaceAll(strings.ToLower(text), " and ", " "))
	return word.ReplaceAllStringFunc(text, func(w string) string {
		if unit, is := words[w]; is {
			return unit
		}
		return w
	})
}

// fromSlurm rewrites a time limit in Slurm's notation, as sbatch takes it. A text without a colon or a day is not
// accepted: it is a bare number.
func fromSlurm(text string) (string, bool) {
	found := slurms.FindStringSubmatch(text)
	if found == nil || !strings.ContainsAny(text, "-:") {
		return "", false
	}
	var n [5]time.Duration
	for i := 1; i < len(found); i++ {
		value, err := strconv.Atoi(found[i])
		if err != nil && found[i] != "" || value > 1_000_000 {
			return "", false
		}
		n[i] = time.Duration(value)
	}
	switch days, first, second, third := n[1]*Day, n[2], n[3], n[4]; {
	case found[1] != "":
		return Text(days + first*time.Hour + second*time.Minute + third*time.Second), true
	case found[4] != "":
		return Text(first*time.Hour + second*time.Minute + third*time.Second), true
	default:
		return Text(first*time.Minute + second*time.Second), true
	}
}

// Text writes a duration so that Parse reads it, in short form: 5m and not 5m0s, 30d and not 720h0m0s.
func Text(d time.Duration) string {
	if d == 0 {
		return "0"
	}
	sign := ""
	if d < 0 {
		sign = "-"
	}
	days, rest := "", d.Abs()
	if rest >= 2*Day {
		days, rest = fmt.Sprintf("%dd", rest/Day), rest%Day
	}
	if rest == 0 {
		return sign + days
	}
	text := rest.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return sign + days + text
}

// value makes a duration a pflag.Value.
type value time.Duration

// Var defines a flag of a set whose value is read by Parse.
func Var(set *pflag.FlagSet, field *time.Duration, name string, standard time.Duration, usage string) {
	*field = standard
	set.Var((*value)(field), name, usage)
}

// Set parses the flag's value.
func (v *value) Set(text string) error {
	d, err := Parse(text)
	if err == nil {
		*v = value(d)
	}
	return err
}

// Type is the type's name in a usage text.
func (v *value) Type() string { return "duration" }

// String returns the value as Parse reads it.
func (v *value) String() string { return Text(time.Duration(*v)) }
