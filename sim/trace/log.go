package trace

import (
	"cmp"
	"math"
	"slices"
)

// Reasons why a job of a site's log cannot be simulated.
const (
	noGPU        = "no GPU"
	neverStarted = "never started"
	noEnd        = "no end"
	noTime       = "ran for no time at all"
	tooLong      = "ran for centuries"
	tooLarge     = "more GPUs than there are"
)

// BrokenRecord is the reason for leaving out a record with a wrong number of fields.
const BrokenRecord = "a record with more or fewer fields than the header: is there a | or a line break in the name " +
	"of a job?"

// log gathers the entries of a site's log. Their times are relative to the clock's origin until trace is called.
type log struct {
	clock    clock
	names    interner
	entries  []Entry
	dropped  tally
	adjusted tally
}

func newLog() *log { return &log{names: interner{}} }

// store stores an entry, or counts why it was left out. It returns whether the entry was stored. The entries that it
// leaves out can be read but not simulated; an entry that cannot be read is an error of the reader.
func (l *log) store(e Entry) bool {
	switch {
	case e.GPUs == 0:
		l.dropped.add(noGPU)
	case e.Duration == 0:
		l.dropped.add(noTime)
	case e.Duration > maxSeconds:
		l.dropped.add(tooLong)
	case e.GPUs > maxGPUs:
		l.dropped.add(tooLarge)
	default:
		e.Place = len(l.entries)
		l.entries = append(l.entries, e)
		return true
	}
	return false
}

// trace returns the entries with times since the first submission. It is called once, when all are stored.
func (l *log) trace() *Trace {
	first := math.Inf(1)
	for _, e := range l.entries {
		first = min(first, e.Submitted)
	}
	return l.traceSince(first)
}

// traceSince returns the entries in order of submission, with times since beginning, which must not be after the first
// submission. Begin stays zero if the log counts seconds from an origin of its own, which is no date.
func (l *log) traceSince(beginning float64) *Trace {
	t := &Trace{Entries: l.entries, Dropped: l.dropped.dropped(), Adjusted: l.adjusted.adjusted()}
	if len(l.entries) == 0 {
		return t
	}
	slices.SortStableFunc(t.Entries, func(a, b Entry) int { return cmp.Compare(a.Submitted, b.Submitted) })
	for i := range t.Entries {
		e := &t.Entries[i]
		e.Submitted = roundToMillis(e.Submitted - beginning)
		if e.Told != nil {
			e.Told.Past = e.Told.Past.Since(beginning)
		}
	}
	if l.clock.reckoning != counted || l.clock.unix {
		t.Begin = l.clock.moment(beginning)
	}
	return t
}

// roundToMillis rounds to milliseconds, which removes rounding errors of sums.
func roundToMillis(seconds float64) float64 { return math.Round(seconds*1000) / 1000 }
