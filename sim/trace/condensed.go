package trace

import (
	"io"
	"strconv"
)

// readCondensed reads one job per line: its submission time, its duration in seconds, its GPUs and its virtual cluster.
// The column gpu_time is the product of two others and is ignored. Jobs have no ID in this format, so they are numbered
// by their order in the file.
func readCondensed(name string, r io.Reader) (*Trace, error) {
	t, c, l := newTable(name, r), condensedColumns{}, newLog()
	if err := t.open(
		binding{&c.timestamp, []string{"timestamp"}},
		binding{&c.duration, []string{"duration"}},
		binding{&c.gpus, []string{"num_gpus"}},
	); err != nil {
		return nil, err
	}
	c.cluster = t.find("cluster")
	for number := 1; t.next(); number++ {
		e, err := c.entry(t, l)
		if err != nil {
			return nil, err
		}
		e.ID = strconv.Itoa(number)
		l.store(e)
	}
	return l.trace(), t.err
}

type condensedColumns struct{ timestamp, duration, gpus, cluster column }

// entry reads a job from the current line, without its ID, which the format does not have.
func (c condensedColumns) entry(t *table, l *log) (e Entry, err error) {
	if err = t.complete(); err != nil {
		return e, err
	}
	if e.Submitted, err = t.timeAt(&l.clock, c.timestamp); err != nil {
		return e, err
	}
	if e.Duration, err = t.secondsAt(c.duration); err != nil {
		return e, err
	}
	if e.GPUs, err = t.gpusAt(c.gpus); err != nil {
		return e, err
	}
	e.Queue, err = t.labelAt(c.cluster, l.names)
	return e, err
}
