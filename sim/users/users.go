// Package users is what the users of a simulated site request: the proportional share, as on a cluster without the
// daemon. It schedules nothing.
package users

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
	"github.com/synergy-slurmd/synergy-slurmd/sim/cluster"
	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
)

// maxLength is the longest duration of a job that Slurm's times and the comment can express.
const maxLength = 10 * 365 * 24 * time.Hour

// Request is a user's request, and how the job runs with exactly that.
type Request struct {
	Nodes   int
	PerNode gres.Vector // the proportional share of the servers for which the request is made
	Length  float64     // seconds that the job runs with exactly this, > 0
	Profile *sensitivity.Profile
	Owed    float64 // the speed with exactly this, in samples a second
}

// Ask makes the request for a job: on the first group of servers that can hold it, over the fewest of them that can
// hold its GPUs in equal parts.
func Ask(c cluster.Cluster, profiles map[string]*sensitivity.Profile, j trace.Job) (Request, error) {
	p, known := profiles[j.Model]
	if !known {
		return Request{}, fmt.Errorf("model %q has no profile: want one of %s", j.Model,
			strings.Join(models(profiles), ", "))
	}
	home, nodes, err := homeGroup(c, j.GPUs)
	if err != nil {
		return Request{}, err
	}
	fair := gres.Proportional(home, j.GPUs/nodes)
	owed := p.Rate(sensitivity.ShareOf(fair))
	length := float64(j.Iterations) * float64(p.Batch) / owed
	if j.Iterations < 1 || length > maxLength.Seconds() {
		return Request{}, fmt.Errorf("%d iterations of %s take %.0f s: want at least one, and at most %.0f s",
			j.Iterations, j.Model, length, maxLength.Seconds())
	}
	return Request{nodes, fair, length, p, owed}, nil
}

// homeGroup returns the capacity of a server in the group that the job is requested for, and the number of servers. The
// parts must be equal, because a request has one size for all its nodes: on servers of 4, 6 GPUs are two times 3, and 7
// are seven times 1. It is an error if no group can hold the GPUs in this way.
func homeGroup(c cluster.Cluster, gpus int) (gres.Vector, int, error) {
	for _, g := range c.Groups {
		if gpus < 1 || g.GPUs < 1 {
			continue
		}
		for nodes := (gpus + g.GPUs - 1) / g.GPUs; nodes <= min(g.Servers, gpus); nodes++ {
			if gpus%nodes == 0 {
				return g.Vector(), nodes, nil
			}
		}
	}
	return gres.Vector{}, 0,
		fmt.Errorf("gpus = %d: want at least 1, and a number that equal servers of %s hold in equal parts", gpus, c)
}

// models returns the names of the profiles, sorted, for the error about a model without one.
func models(profiles map[string]*sensitivity.Profile) []string {
	names := make([]string, 0, len(profiles))
	for name := range profiles {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
