package trace

import "io"

// readOpenb reads pods, whose times are in seconds. A pod's duration is from its scheduling to its deletion. Its phase
// is stored but not interpreted: a pod deleted while it ran has the phase Running. A pod with a share of a GPU gets a
// whole one, since neither the paper nor its planner has shares.
//
// The pod lists that were sampled from the default list have no times and are refused.
func readOpenb(name string, r io.Reader) (*Trace, error) {
	t, c, l := newTable(name, r), openbColumns{}, newLog()
	if err := t.open(
		binding{&c.name, []string{"name"}},
		binding{&c.gpus, []string{"num_gpu"}},
		binding{&c.created, []string{"creation_time"}},
		binding{&c.scheduled, []string{"scheduled_time"}},
		binding{&c.deleted, []string{"deletion_time"}},
	); err != nil {
		return nil, err
	}
	c.milli, c.phase = t.find("gpu_milli"), t.find("pod_phase")
	for seen := map[string]int{}; t.next(); {
		if err := c.read(t, l, seen); err != nil {
			return nil, err
		}
	}
	return l.trace(), t.err
}

type openbColumns struct{ name, gpus, milli, phase, created, scheduled, deleted column }

// read stores the pod of the current line, or counts why it was left out. seen has the names so far, since each may
// occur once.
func (c openbColumns) read(t *table, l *log, seen map[string]int) error {
	e, err := c.entry(t, l, seen)
	if err != nil {
		return err
	}
	milli, err := c.gpuThousandths(t)
	switch {
	case err != nil:
		return err
	case t.text(c.scheduled) == "":
		l.dropped.add(neverStarted)
		return nil
	case t.text(c.deleted) == "":
		l.dropped.add(noEnd)
		return nil
	}
	if e.Duration, err = c.runDuration(t, l); err != nil {
		return err
	}
	if l.store(e) && milli < 1000 {
		l.adjusted.add("a share of a GPU taken for a whole one")
	}
	return nil
}

// entry reads everything of a pod except its duration, which a pod that was never scheduled or deleted does not have.
func (c openbColumns) entry(t *table, l *log, seen map[string]int) (e Entry, err error) {
	if err = t.complete(); err != nil {
		return e, err
	}
	if e.ID, err = t.nameAt(c.name, seen); err != nil {
		return e, err
	}
	if e.GPUs, err = t.gpusAt(c.gpus); err != nil {
		return e, err
	}
	if e.Submitted, err = t.timeAt(&l.clock, c.created); err != nil {
		return e, err
	}
	e.State, err = t.labelAt(c.phase, l.names)
	return e, err
}

// gpuThousandths is the part of each of its GPUs that a pod has, in thousandths; a file without the column has whole
// GPUs only.
func (c openbColumns) gpuThousandths(t *table) (int64, error) {
	if t.text(c.milli) == "" {
		return 1000, nil
	}
	return t.whole(c.milli.name, t.text(c.milli), 0, 1000)
}

// runDuration is the seconds from a pod's scheduling to its deletion, both of which must be there.
func (c openbColumns) runDuration(t *table, l *log) (float64, error) {
	scheduled, err := t.timeAt(&l.clock, c.scheduled)
	if err != nil {
		return 0, err
	}
	deleted, err := t.timeAt(&l.clock, c.deleted)
	if err == nil && deleted < scheduled {
		err = t.wrong(c.deleted.name, t.text(c.deleted), "no time before "+c.scheduled.name+" "+t.text(c.scheduled))
	}
	return deleted - scheduled, err
}
