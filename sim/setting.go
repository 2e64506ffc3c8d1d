package sim

import (
	"fmt"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/sim/models"
	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
)

// setting describes in an outcome what was simulated. Baselines share no GPU, so they do not carry the options of
// sharing, and end jobs at once. They keep the parts that opt in and have checkpoints, although these change nothing
// for them: tables put in the caption what is equal in all runs, and would need two more columns if only baselines
// differed.
func (e Experiment) setting(c cell) outcome.Setting {
	sharing, mode := e.Site.Users.Sharing, string(e.Site.Mode)
	if c.schedule.isBaseline() {
		sharing, mode = 0, ""
	}
	return outcome.Setting{
		Engine:         string(e.Engine),
		Policy:         c.schedule.Policy,
		Allocator:      c.schedule.Allocator,
		Placement:      c.schedule.Placement,
		Load:           c.workload.Load,
		Split:          c.workload.Split,
		Static:         c.workload.Static,
		Workload:       c.workload.Name,
		Cluster:        e.Cluster.String(),
		Ratio:          e.Ratio,
		Seed:           c.workload.Seed,
		Window:         e.Window,
		RoundSeconds:   e.Round.Seconds(),
		RestartSeconds: e.restart(),
		Until:          e.Until.Seconds(),
		AtRounds:       e.Engine == Artifact || e.Site.AtRounds && !c.schedule.isBaseline(),
		Outside:        e.Site.Users.Outside,
		Unsaved:        e.Site.Users.Unsaved,
		Sharing:        sharing,
		ShareMode:      mode,
		Strict:         e.Reference.Strict,
		Prioritize:     e.Reference.Prioritize,
	}
}

// restart is the cost of a restart in seconds, the mean over the profiles. It is 0 for the artifact, in which moving a
// job costs nothing. It goes through the names in order, since the last digit of the sum depends on the order.
func (e Experiment) restart() float64 {
	if e.Engine == Artifact {
		return 0
	}
	sum := 0.0
	for _, model := range e.modelNames() {
		sum += e.Site.Profiles[model].RestartCost().Seconds()
	}
	return sum / float64(max(1, len(e.Site.Profiles)))
}

// modelNames lists the models that can be simulated, ascending. The artifact's models have the same names with every
// ratio, so the least serves, and Set cannot fail with it.
func (e Experiment) modelNames() []string {
	var names []string
	if e.Engine == Production {
		for name := range e.Site.Profiles {
			names = append(names, name)
		}
	} else if set, err := models.Set(models.LeastRatio); err == nil {
		for _, m := range set {
			names = append(names, m.Name)
		}
	}
	slices.Sort(names)
	return names
}

// name is a simulation's name in errors, such as fifo × tune at 9 jobs/h.
func (e Experiment) name(c cell) string {
	name := c.schedule.String()
	if load := c.workload.Load; load > 0 {
		name += fmt.Sprintf(" at %g jobs/h", load)
	} else {
		name += " on " + c.workload.Name
	}
	if e.seeds() > 1 {
		name += fmt.Sprintf(", seed %d", c.workload.Seed)
	}
	return name
}

// String formats a schedule: fifo × tune.
func (s Schedule) String() string {
	if s.Placement == "" {
		return s.Policy + " × " + s.Allocator
	}
	return s.Policy + " × " + s.Allocator + " × " + s.Placement
}

// seeds is the number of different seeds; with one, names of simulations leave it out.
func (e Experiment) seeds() int {
	seen := make(map[int64]bool)
	for _, w := range e.Workloads {
		seen[w.Seed] = true
	}
	return len(seen)
}
