package ask

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Between reads --since and --until, which bound what a history or a ledger is asked for. If --until is empty, the end
// is now, and a begin in the future is an error. An end in the future is replaced by now, since nothing is recorded
// later. It is not replaced if the begin is in the future, too: so the begin stays before the end, and the answer is
// empty.
func Between(from, to string, now time.Time) (since, until time.Time, err error) {
	if since, err = parseMoment(from, now); err != nil {
		return since, until, fmt.Errorf("--since: %w", err)
	}
	if to == "" {
		if !since.Before(now) {
			err = fmt.Errorf("--since %s: is yet to come: want an earlier time", from)
		}
		return since, now, err
	}
	if until, err = parseMoment(to, now); err != nil {
		return since, until, fmt.Errorf("--until: %w", err)
	}
	if !since.Before(until) {
		return since, until, fmt.Errorf("--since %s is not before --until %s: want the earlier of them first", from, to)
	}
	if until.After(now) && since.Before(now) {
		until = now
	}
	return since, until, nil
}

// maxDaysAgo is the most days that --since may go back. It keeps the duration, in nanoseconds, from overflowing.
const maxDaysAgo = 10_000

// dayPattern recognises a text that is meant as a day, so that 2026-13-40 has an error of its own.
var dayPattern = regexp.MustCompile(`^\d{4}-\d\d?-\d\d?$`)

// parseMoment reads a time: so long before now, as 7d or 12h, or a day, which begins at 0:00 UTC.
func parseMoment(text string, now time.Time) (time.Time, error) {
	const usual = "want so long ago, as 7d or 12h, or a day, as 2026-11-01"
	if day, err := time.Parse(time.DateOnly, text); err == nil {
		return day, nil
	}
	if dayPattern.MatchString(text) {
		return now, fmt.Errorf("%q: is no day of the calendar: %s", text, usual)
	}
	// A bare number has no unit. The error repeats it with each of the two.
	if n, err := strconv.ParseFloat(text, 64); err == nil && n > 0 && n <= maxDaysAgo {
		return now, fmt.Errorf("%q: of what? Want its unit, as %[1]sd or %[1]sh, or a day, as 2026-11-01", text)
	}
	ago, err := time.ParseDuration(text)
	if number, days := strings.CutSuffix(text, "d"); days {
		var n float64
		if n, err = strconv.ParseFloat(number, 64); n > maxDaysAgo {
			return now, fmt.Errorf("%.40q: is too long ago: want %dd at most", text, maxDaysAgo)
		}
		ago = time.Duration(n * 24 * float64(time.Hour))
	}
	if err != nil || ago <= 0 {
		return now, fmt.Errorf("%.40q: %s", text, usual)
	}
	return now.Add(-ago), nil
}
