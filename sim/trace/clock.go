package trace

import (
	"math"
	"time"
)

// reckoning is how a log tells the time.
type reckoning int

const (
	untold  reckoning = iota
	wall              // clock readings without a zone
	zoned             // clock readings with a zone
	counted           // seconds
)

func (r reckoning) String() string {
	return [...]string{"untold", "a time without a zone", "a time with a zone", "a number of seconds"}[r]
}

// clock reads the times of one log, which all must be told in one way, since a clock reading cannot be compared with
// one of a known zone.
//
// A reading without a zone is taken as it stands: nobody knows where the site is. So a log that spans the change from
// or to daylight saving time is one hour off on one side of it, as it is for everybody who reads it.
type clock struct {
	reckoning reckoning
	zone      *time.Location // of the first time with a zone
	unix      bool           // seconds are counted since 1970
}

// layouts are the ways in which times are written. A fraction of a second is read without being named here.
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

// read gives seconds since 1970, or whatever a log counts from that counts seconds.
func (c *clock) read(at place, field, text string) (float64, error) {
	seconds, as, zone := parseTime(text)
	switch {
	case as == untold:
		return 0, at.wrong(field, text, "a time from 1970 on, such as 2026-03-31T23:59:59")
	case c.reckoning == untold:
		c.reckoning, c.zone = as, zone
	case c.reckoning != as:
		return 0, at.wrong(field, text, c.reckoning.String()+", as before")
	}
	return seconds, nil
}

func parseTime(text string) (float64, reckoning, *time.Location) {
	if x, ok := decimal(text); ok && x <= maxSeconds {
		return x, counted, nil
	}
	for _, l := range layouts {
		if t, err := time.Parse(l.layout, text); err == nil && t.Unix() >= 0 && t.Unix() < maxSeconds {
			return float64(t.Unix()) + float64(t.Nanosecond())/1e9, l.reckoning, fixed(t)
		}
	}
	return 0, untold, nil
}

// fixed is the zone of a time without the name that the machine may know for it, so that the same log reads the same
// everywhere.
func fixed(t time.Time) *time.Location {
	if _, offset := t.Zone(); offset != 0 {
		return time.FixedZone("", offset)
	}
	return time.UTC
}

// moment is the time of day and date of what the clock has read.
func (c *clock) moment(seconds float64) time.Time {
	whole, fraction := math.Modf(seconds)
	zone := c.zone
	if zone == nil {
		zone = time.UTC
	}
	return time.Unix(int64(whole), int64(math.Round(fraction*1e3))*int64(time.Millisecond)).In(zone)
}
