package bridge

import (
	"context"
	"slices"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// A place that a victim leaves is empty for some seconds before the next job of the plan can start there, and Slurm
// gives it to whoever waits for it meanwhile. So nobody is stopped for a place that others could take: the victim would
// have been stopped for nothing.

// contender is what jobs that Slurm could start at any moment ask for on a node, and where.
type contender struct {
	partition, gpuType string
	perNode            gres.Vector
}

// contenders are those of an observation, each kind once: the jobs that are not ours to start and wait for nothing but
// room.
func contenders(jobs []*managedJob, s *scene) []contender {
	seen := map[contender]bool{}
	var list []contender
	for _, t := range jobs {
		if !t.contends(s) {
			continue
		}
		if c := t.contender(); !seen[c] {
			seen[c] = true
			list = append(list, c)
		}
	}
	return list
}

// contends says that Slurm may start the job as soon as there is room.
func (t *managedJob) contends(s *scene) bool {
	if t.State != Pending || t.Held || t.Dependency || t.Completing || t.Begin.After(s.at) ||
		t.standing(s.at) == managed {
		return false
	}
	return slices.Contains(roomAlone, t.Reason)
}

// roomAlone are Slurm's words for jobs that wait for nothing but room. It puts them right when it next looks at the
// job, which is when it may start it: one that is not held any more, depends on nobody and may begin has its last one
// until then.
var roomAlone = []string{"", "Resources", "Priority", "BeginTime", "Dependency", "JobHeldUser", "JobHeldAdmin"}

func (t *managedJob) contender() contender {
	return contender{t.Partition, t.Request.GPUType, t.Request.perNode()}
}

// isOf says that a node is in a partition of theirs.
func (c *contender) isOf(n *Node) bool {
	for part := range strings.SplitSeq(c.partition, ",") {
		if slices.Contains(n.Partitions, part) {
			return true
		}
	}
	return false
}

// wants says that a contender could run on a node if so much more of it were free.
func (c *contender) wants(n *Node, freed gres.Vector) bool {
	return c.isOf(n) && (c.gpuType == "" || c.gpuType == n.GPUType) &&
		c.perNode.Fits(n.Total.Minus(n.Allocated).Plus(freed))
}

// contended says that what a running job would leave could be taken by others, or not be given to anybody for a time
// that others decide: jobs of theirs are being torn down on a node of its, and Slurm starts nothing there before they
// are gone.
func (s *scene) contended(t *managedJob) bool {
	for _, place := range t.on {
		if place == elsewhere {
			continue
		}
		n := &s.nodes[s.topology.managed[place]]
		if n.Completing && !s.leaving[hostOf(n.Name)] {
			return true
		}
		if s.wanted(place, t.Runs.PerNode) {
			return true
		}
	}
	return false
}

// replans is how often a plan is made anew because its victims together would leave room that others wait for. Then
// nobody is stopped.
const replans = 3

// uncontended makes the plan anew as long as what its victims leave together could be taken by others, although what
// each of them leaves could not: those stay.
func (t caution) uncontended(ctx context.Context) error {
	for n := 1; len(t.scene.rivals) > 0 && t.keepContended(); n++ {
		if n > replans {
			freeze(&t.report.Snapshot)
		}
		if err := t.planned(ctx); err != nil {
			return err
		}
	}
	return nil
}

// keepContended lets the victims stay whose nodes others could use when all have left. It says whether there are any.
func (t caution) keepContended() (any bool) {
	freed := make([]gres.Vector, len(t.scene.topology.managed))
	victims := t.victims()
	for _, i := range victims {
		for _, place := range t.scene.managed[i].on {
			if place != elsewhere {
				freed[place] = freed[place].Plus(t.scene.managed[i].Runs.PerNode)
			}
		}
	}
	for _, i := range victims {
		if slices.ContainsFunc(t.scene.managed[i].on,
			func(place int) bool { return place != elsewhere && t.scene.wanted(place, freed[place]) }) {
			t.report.Snapshot.Jobs[i].Fixed, any = true, true
		}
	}
	return any
}

// victims are the numbers of the managed jobs that the plan stops.
func (t *turn) victims() (list []int) {
	for i, tn := range t.scene.managed {
		if tn.State == Running && !unchanged(tn, &t.report.Plan.Decisions[i]) {
			list = append(list, i)
		}
	}
	return list
}

// wanted says that others could run on a node if so much more of it were free.
func (s *scene) wanted(place int, freed gres.Vector) bool {
	n := &s.nodes[s.topology.managed[place]]
	return slices.ContainsFunc(s.rivals, func(c contender) bool { return c.wants(n, freed) })
}
