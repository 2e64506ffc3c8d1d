package trace

import (
	"math"
	"time"
)

// reckoning is the way in which a log gives times; noReckoning: no time was read yet, or a text is none.
type reckoning int

const (
	noReckoning reckoning = iota
	wall                  // clock times without a zone
	zoned                 // clock times with a zone
	counted               // seconds
)

func (r reckoning) String() string {
	return [...]string{"untold", "a time without a zone", "a time with a zone", "a number of seconds"}[r]
}

// clock reads the times of one log. All must be given in the same way, since a clock time without a zone cannot be
// compared with one that has a zone.
//
// A time without a zone is read as UTC, because the site's zone is unknown. So in a log that spans a change to or from
// daylight saving time, times on one side of the change are one hour off.
type clock struct {
	reckoning reckoning
	zone      *time.Location // of the first time with a zone
	unix      bool           // numbers are seconds since 1970
}

// layouts are the accepted layouts of times. time.Parse also accepts a fraction of a second.
var layouts = []struct {
	layout    string
	reckoning reckoning
}{
	{"2006-01-02 15:04:05", wall},
	{"2006-01-02T15:04:05", wall},
	{"2006-01-02T15:04:05Z07:00", zoned},
	{"2006-01-02T15:04:05Z0700", zoned},
	{"2006-01-02 15:04:05Z07:00", zoned},
	{"2006-01-02 15:04:05 -0700", zoned},
}

// read returns seconds since 1970, or, in a log that counts seconds, since the log's own origin. The first time that is
// read decides how all are given; another way is an error.
func (c *clock) read(at place, field, text string) (float64, error) {
	seconds, as, zone := parseTime(text)
	switch {
	case as == noReckoning:
		return 0, at.wrong(field, text, "a time from 1970 on, such as 2026-03-31T23:59:59")
	case c.reckoning == noReckoning:
		c.reckoning, c.zone = as, zone
	case c.reckoning != as:
		return 0, at.wrong(field, text, c.reckoning.String()+", as before")
	}
	return seconds, nil
}

// parseTime reads a time and says in which way it is given, and in which zone if it has one. If the text is no valid
// time, it returns noReckoning.
func parseTime(text string) (float64, reckoning, *time.Location) {
	if x, ok := decimal(text); ok && x <= maxSeconds {
		return x, counted, nil
	}
	for _, l := range layouts {
		if t, err := time.Parse(l.layout, text); err == nil && t.Unix() >= 0 && t.Unix() < maxSeconds {
			return float64(t.Unix()) + float64(t.Nanosecond())/1e9, l.reckoning, unnamedZone(t)
		}
	}
	return 0, noReckoning, nil
}

// unnamedZone returns a time's zone without the name that the local machine may have for it, so that a log reads the
// same on every machine.
func unnamedZone(t time.Time) *time.Location {
	if _, offset := t.Zone(); offset != 0 {
		return time.FixedZone("", offset)
	}
	return time.UTC
}

// moment converts seconds that the clock has read to a time, in the zone of the log, or in UTC if that is unknown. It
// is rounded to milliseconds.
func (c *clock) moment(seconds float64) time.Time {
	whole, fraction := math.Modf(seconds)
	zone := c.zone
	if zone == nil {
		zone = time.UTC
	}
	return time.Unix(int64(whole), int64(math.Round(fraction*1e3))*int64(time.Millisecond)).In(zone)
}
