package limits

import "slices"

// A job with several partitions is bound by the limits of the one in which it starts, which the planner chooses. So its
// terms are the tightest of the partitions in which it may start now. A partition is shut to it if the job can never
// keep its limits, or if its group has used them up while another partition is open: left alone, Slurm would start the
// job in that other partition.

// choose splits the partitions of a job into those in which it may start now and the rest. If it can never start in any
// of them, never says why, and all count as open. If shared limits leave room in none, all in which it can ever start
// count as open: Slurm would then start the job in no other partition either.
func (p classCache) choose(j *Job) (open, shut []string, never string) {
	var may []string
	for _, part := range j.Choice {
		t := Terms{}
		p.bindAll(&t, j.inPartition(part), func(binding) {})
		if t.Never == "" {
			may = append(may, part)
		} else if never == "" {
			never = t.Never
		}
	}
	if len(may) == 0 {
		return j.Choice, nil, never
	}
	open = slices.DeleteFunc(slices.Clone(may), func(part string) bool { return p.usedUp(j.inPartition(part)) })
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

// inPartition returns a copy of the job with this one partition.
func (j *Job) inPartition(partition string) *Job {
	one := *j
	one.Partition, one.Choice = partition, nil
	return &one
}

// usedUp says whether a limit that the job shares with others leaves less than the job's minimum. Limits on the job
// alone do not matter here, so their Terms are discarded.
func (p classCache) usedUp(j *Job) (full bool) {
	p.bindAll(&Terms{}, j, func(b binding) {
		need := needs(b.TRES, j, int64(max(1, j.Nodes)))
		if b.TRES == running {
			need = 1
		}
		full = full || need > 0 && p.held(b)+need > b.Most
	})
	return full
}

// held sums what the running jobs of a group hold of a TRES.
func (p classCache) held(b binding) int64 {
	key := poolKey{of: b.of, tres: b.TRES}
	if n, known := p.sums[key]; known {
		return n
	}
	var sum usage
	for i := range p.jobs {
		if j := &p.jobs[i]; j.Running && slices.Contains(p.limitsOf(j).groups, b.of) {
			sum.add(b.TRES, j)
		}
	}
	p.sums[key] = sum.n
	return sum.n
}

// tighten adds the terms of another partition.
func (t *Terms) tighten(other Terms) {
	t.lower(other.Ceiling)
	if t.Never == "" {
		t.Never = other.Never
	}
}
