package limits

import "slices"

// A job of several partitions is under the limits of the one in which it starts, and that is the planner's to choose.
// So it is held to the tightest of those in which it may start now. One whose limits it can never keep is shut to it,
// and so is one in which its group holds all that it may, as long as another is left: Slurm alone would start it there.

// choose splits the partitions that a job may start in: those that are open to it, and the rest. never is why all of
// them are shut for good.
func (p places) choose(j *Job) (open, shut []string, never string) {
	var may []string
	for _, part := range j.Choice {
		t := Terms{}
		p.bindAll(&t, j.in(part), func(binding) {})
		if t.Never == "" {
			may = append(may, part)
		} else if never == "" {
			never = t.Never
		}
	}
	if len(may) == 0 {
		return j.Choice, nil, never
	}
	open = slices.DeleteFunc(slices.Clone(may), func(part string) bool { return p.usedUp(j.in(part)) })
	if len(open) == 0 {
		open = may
	}
	for _, part := range j.Choice {
		if !slices.Contains(open, part) {
			shut = append(shut, part)
		}
	}
	return open, shut, ""
}

// in is the job as one of this partition.
func (j *Job) in(partition string) *Job {
	one := *j
	one.Partition, one.Choice = partition, nil
	return &one
}

// usedUp says that a limit which the job shares with others leaves it less than it needs at least.
func (p places) usedUp(j *Job) (full bool) {
	p.bindAll(&Terms{}, j, func(b binding) {
		need := needs(b.TRES, j, int64(max(1, j.Nodes)))
		if b.TRES == running {
			need = 1
		}
		full = full || need > 0 && p.held(b)+need > b.Most
	})
	return full
}

// held is what the running jobs of a group hold of a TRES.
func (p places) held(b binding) int64 {
	key := poolKey{of: b.of, tres: b.TRES}
	if n, known := p.sums[key]; known {
		return n
	}
	var sum usage
	for i := range p.jobs {
		if j := &p.jobs[i]; j.Running && slices.Contains(p.of(j).groups, b.of) {
			sum.add(b.TRES, j)
		}
	}
	p.sums[key] = sum.n
	return sum.n
}

// tighten holds a job to the terms of a further partition.
func (t *Terms) tighten(other Terms) {
	t.lower(other.Ceiling)
	if t.Never == "" {
		t.Never = other.Never
	}
}
