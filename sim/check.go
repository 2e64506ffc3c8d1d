package sim

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
)

// Check returns an error for the first mistake in an experiment, before anything is simulated, or nil if there is none.
func (e Experiment) Check() error {
	checks := []func() error{e.checkEngine, e.checkSchedules, e.checkWorkloads, e.checkWindow,
		e.checkBaselines}
	for _, check := range checks {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// checkEngine requires values that the engine can simulate, and refuses options of the other engine. Of Site it looks
// at sharing only, which would change the jobs; the artifact engine ignores the other fields.
func (e Experiment) checkEngine() error {
	switch {
	case e.Engine != Production && e.Engine != Artifact:
		return fmt.Errorf("engine %q: want %s or %s", e.Engine, Production, Artifact)
	case e.Cluster.GPUs() <= 0:
		return errors.New("the cluster has no GPUs: give it servers that have some")
	case e.Round <= 0:
		return fmt.Errorf("rounds of %s: want more than 0, 5m is usual", e.Round)
	case e.Until < 0:
		return fmt.Errorf("an end after %s: want more than 0, or 0 for none", e.Until)
	case e.Parallel < 0:
		return fmt.Errorf("%d simulations at a time: want 1 or more, or 0 for as many as there are processors",
			e.Parallel)
	case e.Engine == Artifact && !e.Cluster.Equal():
		return fmt.Errorf(
			"cluster %s: the artifact engine knows equal servers only: make them so, or take the production engine",
			e.Cluster)
	case e.Engine == Artifact && e.Site.Users.Sharing > 0:
		return errors.New(
			"the artifact engine knows no jobs that share a GPU: take the production engine, or leave that out")
	case e.Engine == Production && e.Reference != (Reference{}):
		return errors.New(
			"to be strict and to prioritize the window are things of the artifact engine: take that, or leave them out")
	}
	return nil
}

// checkSchedules requires at least one schedule, each only once.
func (e Experiment) checkSchedules() error {
	if len(e.Schedules) == 0 {
		return errors.New("no schedule: want at least one policy and one allocator")
	}
	for i, s := range e.Schedules {
		if slices.Contains(e.Schedules[:i], s) {
			return fmt.Errorf("%s is there twice: name each once", s)
		}
		if err := e.Engine.checkSchedule(s); err != nil {
			return err
		}
	}
	return nil
}

// checkSchedule requires names that the engine knows, and a placement only for the artifact engine. Baselines belong to
// the production engine; for the other one their names are unknown.
func (e Engine) checkSchedule(s Schedule) error {
	if s.isBaseline() && e == Production {
		return nil
	}
	if err := checkName("policy", s.Policy, e, Engine.Policies); err != nil {
		return err
	}
	if err := checkName("allocator", s.Allocator, e, Engine.Allocators); err != nil {
		return err
	}
	if e == Production && s.Placement != "" {
		return fmt.Errorf(
			"placement %q: the production engine places jobs as the daemon does: leave it out, or take the "+
				"artifact engine", s.Placement)
	}
	if e == Production {
		return nil
	}
	return checkName("placement", s.Placement, e, Engine.Placements)
}

// checkName requires that the engine knows a name. The error lists the names that it knows, and says if the other
// engine has this one.
func checkName(what, name string, engine Engine, names func(Engine) []string) error {
	if slices.Contains(names(engine), name) {
		return nil
	}
	hint := ""
	if other := engine.other(); slices.Contains(names(other), name) {
		hint = fmt.Sprintf(", or the %s engine, which has it", other)
	}
	return fmt.Errorf("%s %q: the %s engine has no such: want one of %s%s", what, name, engine,
		strings.Join(names(engine), ", "), hint)
}

// checkWorkloads requires at least one workload, and that each can be simulated.
func (e Experiment) checkWorkloads() error {
	if len(e.Workloads) == 0 {
		return errors.New("no workload: want jobs, or how they are drawn")
	}
	for _, w := range e.Workloads {
		if err := e.checkWorkload(w); err != nil {
			return fmt.Errorf("workload %s: %w", w.Name, err)
		}
	}
	return nil
}

// checkWorkload requires an end for an endless workload, and a valid drawing configuration or valid jobs.
func (e Experiment) checkWorkload(w Workload) error {
	if w.Endless() && e.Until == 0 && e.Window == (outcome.Window{}) {
		return errors.New(
			"it has no end: say how many jobs it has, which of them count (a window), or until when it is simulated")
	}
	if w.isDrawn() {
		_, err := w.Source()
		return err
	}
	return e.checkJobs(w)
}

// checkJobs returns an error for a job that cannot be simulated, because its model is unknown or it has more GPUs than
// the cluster. A caller that has read the jobs from a file can call trace.Trace.CheckModels and CheckGPUs first, whose
// errors also name the line.
func (e Experiment) checkJobs(w Workload) error {
	models := e.modelNames()
	for _, job := range w.Jobs {
		if !slices.Contains(models, job.Model) {
			return fmt.Errorf("job %d: model %q: there is no such: want one of %s", job.ID, job.Model,
				strings.Join(models, ", "))
		}
		if most := e.Cluster.GPUs(); job.GPUs > most {
			return fmt.Errorf("job %d: gpus = %d: the cluster has %d: leave the job out, or take a larger cluster",
				job.ID, job.GPUs, most)
		}
	}
	return nil
}

// checkWindow requires that every workload contains the window, since statistics over missing jobs would be NaN. An
// endless workload (end 0) contains every window.
func (e Experiment) checkWindow() error {
	if e.Window == (outcome.Window{}) {
		return nil
	}
	if e.Window.First < 0 || e.Window.End <= e.Window.First {
		return fmt.Errorf("window %d-%d is empty: want the first ID that counts and, larger, the first that does not",
			e.Window.First, e.Window.End)
	}
	for _, w := range e.Workloads {
		if first, end := w.ids(); end > 0 && (e.Window.First < first || e.Window.End > end) {
			return fmt.Errorf("window %d-%d is not within workload %s, whose jobs are %d to %d: want %d-%d at most",
				e.Window.First, e.Window.End, w.Name, first, end-1, first, end)
		}
	}
	return nil
}

// ids returns the range of the workload's job IDs, with end one beyond the last. For an endless workload both are 0,
// which checkWindow takes as a range that contains every window.
func (w Workload) ids() (first, end int) {
	if w.isDrawn() {
		return 0, w.Draw.Jobs
	}
	first, end = w.Jobs[0].ID, w.Jobs[0].ID+1
	for _, job := range w.Jobs {
		first, end = min(first, job.ID), max(end, job.ID+1)
	}
	return first, end
}
