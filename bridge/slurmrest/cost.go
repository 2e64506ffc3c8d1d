package slurmrest

import "time"

// costs are the measured costs of reading: of a full listing, which includes finished jobs, and of single reads,
// several of which run at once. They are used by one observation at a time.
type costs struct {
	read time.Duration // per job of single reads, with the allowed number in flight
	list time.Duration // per job of a listing
}

// newCosts are the costs before anything was measured: those of an idle slurmrestd.
func newCosts() costs { return costs{read: 2 * time.Millisecond, list: time.Millisecond} }

// smallBatch is the number of jobs up to which single reads are always used and not measured.
const smallBatch = 16

// listingPays reports whether one full listing is cheaper than single reads of the doubtful jobs.
func (c *costs) listingPays(doubtful, swept int) bool {
	return doubtful > smallBatch && time.Duration(doubtful)*c.read > time.Duration(swept)*c.list
}

// ofReads runs the single reads of so many jobs and learns what one costs. Failed and small batches are not measured,
// since they say little.
func (c *costs) ofReads(jobs int, read func() error) error {
	began := time.Now()
	err := read()
	if err == nil && jobs > smallBatch {
		c.read = averaged(c.read, time.Since(began)/time.Duration(jobs))
	}
	return err
}

// listed learns from a listing of so many jobs what one of them costs.
func (c *costs) listed(jobs int, took time.Duration) {
	if jobs > smallBatch {
		c.list = averaged(c.list, took/time.Duration(jobs))
	}
}

// averaged averages the old and the measured value, so that one slow answer does not decide for long.
func averaged(had, measured time.Duration) time.Duration { return (had + measured) / 2 }
