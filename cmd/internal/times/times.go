// Package times reads durations in configurations and flags: Go's notation, and days and weeks.
package times

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// Day is 24 hours, regardless of daylight saving.
const Day = 24 * time.Hour

var (
	days   = regexp.MustCompile(`([0-9]+\.?[0-9]*|\.[0-9]+)[dw]`)
	number = regexp.MustCompile(`^[+-]?[0-9]+(?:\.[0-9]+)?$`)
)

// Parse reads durations such as 90s, 15m, 1h30m, 30d and 2w. The error says what is wanted.
func Parse(text string) (time.Duration, error) {
	d, err := time.ParseDuration(days.ReplaceAllStringFunc(text, inHours))
	switch {
	case err == nil:
		return d, nil
	case number.MatchString(text):
		n := strings.TrimPrefix(text, "+")
		return 0, fmt.Errorf("%.60q has no unit: want %ss for seconds, %[2]sm for minutes or %[2]sh for hours", text, n)
	}
	return 0, fmt.Errorf("%.60q is no time: want a number with a unit, as 90s, 15m, 2h or 30d", text)
}

// inHours writes days or weeks, as 1.5d, in hours.
func inHours(text string) string {
	last := len(text) - 1
	n, _ := strconv.ParseFloat(text[:last], 64) // infinite if it is too large, which is no duration
	if text[last] == 'w' {
		n *= 7
	}
	return strconv.FormatFloat(24*n, 'f', -1, 64) + "h"
}

// Text writes a duration so that Parse reads it, in short form: 5m and not 5m0s, 30d and not 720h0m0s. Below two days
// it is in hours, as 24h and 36h.
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
