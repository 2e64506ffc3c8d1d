//go:build live && bench

package live

import (
	"slices"
	"strings"
	"time"
)

// demand is a job as the count of idle GPUs sees it: when it came, how many GPUs it wanted on one node, and when and
// where it had them.
type demand struct {
	came time.Time
	gpus int
	runs []spell
}

// spell is one run on a node.
type spell struct {
	start, end time.Time
	node       string
}

// spells are the runs of a job on one node, as accounting has them.
func (c *Cluster) spells(id JobID) (all []spell) {
	c.t.Helper()
	text := c.MustExec("login", "root", "sacct", "-X", "-n", "-P", "--duplicates", "-j", id.String(),
		"--format=Start,End,NodeList")
	for line := range strings.Lines(text) {
		if f := strings.Split(strings.TrimSpace(line), "|"); len(f) == 3 && f[0] != "None" && f[0] != "Unknown" {
			all = append(all, spell{moment(c, f[0]), moment(c, f[1]), f[2]})
		}
	}
	return all
}

// idleGPUSeconds counts, second by second, the GPUs that idle on nodes where a job that waits at that moment would have
// room, no more than the waiting jobs want. Slurm's accounting knows whole seconds only, so each start and end may be
// off by one.
func idleGPUSeconds(jobs []demand, nodes []string, gpus int) (idle int) {
	if len(jobs) == 0 {
		return 0
	}
	from, to := jobs[0].came, jobs[0].came
	for _, j := range jobs {
		from = earliest(from, j.came)
		for _, r := range j.runs {
			to = latest(to, r.end)
		}
	}
	for at := from; at.Before(to); at = at.Add(time.Second) {
		idle += idleAt(jobs, nodes, gpus, at)
	}
	return idle
}

func idleAt(jobs []demand, nodes []string, gpus int, at time.Time) int {
	free := map[string]int{}
	for _, n := range nodes {
		free[n] = gpus
	}
	least, wanted := 0, 0
	for _, j := range jobs {
		k := slices.IndexFunc(j.runs, func(r spell) bool { return !r.start.After(at) && r.end.After(at) })
		switch {
		case k >= 0:
			free[j.runs[k].node] -= j.gpus
		case !j.came.After(at) && (len(j.runs) == 0 || j.runs[len(j.runs)-1].end.After(at)):
			wanted += j.gpus
			if least == 0 || j.gpus < least {
				least = j.gpus
			}
		}
	}
	usable := 0
	for _, n := range nodes {
		if least > 0 && free[n] >= least {
			usable += free[n]
		}
	}
	return min(usable, wanted)
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
