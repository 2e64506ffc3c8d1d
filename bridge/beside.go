package bridge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/directive"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// Beside is what is remembered of the speed of a job of class high on a shared GPU, by its own reports. It is kept
// apart from the audit, which compares a job with its profile: a profile says nothing of other jobs on the GPU.
type Beside struct {
	Window
	Jobs  []int     `json:"jobs,omitempty"`  // the other jobs on its GPU in the window under way, ascending in ID
	Since time.Time `json:"since,omitzero"`  // when exactly these were first seen; earlier reports do not count
	Alone float64   `json:"alone,omitempty"` // iterations a second while the job was alone on its GPU in this run
	// Last is the part of its speed alone that the job had in the last window; 0: there was no window beside the same
	// jobs, or the speed was high enough.
	Last float64 `json:"last,omitempty"`
	// Kept is the worst that was found in this run beside the same jobs; other jobs replace it. The value is never
	// changed.
	Kept *policy.Kept `json:"kept,omitempty"`
}

// Slowed is a job of class high that was measured to run slower beside others than it accepts.
type Slowed struct {
	Job int `json:"job"`
	policy.Kept
}

// String is the note for the job's user.
func (s Slowed) String() string {
	return fmt.Sprintf("was measured to keep %.2f of its speed alone beside others on its GPU, and %g is the least: "+
		"nobody further is put there as long as it runs", s.Part, share.HighKeeps)
}

// measureShared takes the reports of class high jobs on shared GPUs into account. As long as such a job was measured to
// be slower than share.HighKeeps allows, plans put no further job on its GPU. A job without reports is left alone, and
// so are jobs of class low, which are promised no such speed.
func measureShared(r *Runner, s *sortedObservation) {
	if r.Settings.Audit <= 0 || !slices.ContainsFunc(s.managed, (*managedJob).hasSlot) {
		return
	}
	sharers := sharersByGPU(r)
	for _, t := range s.managed {
		if !t.hasSlot() || !t.directives.Reports || t.directives.BadProgress != nil || len(t.Runs.Nodes) != 1 {
			continue
		}
		if request := shareRequestOf(r, t); request == nil || request.Class != share.High {
			continue
		}
		there := sharers[nodeGPU{t.Runs.Nodes[0], t.Runs.Shard}]
		doubt := t.record.Beside.addReport(t, there, claimedSpeed(r, t), s.at, r.Settings.Audit)
		if doubt != "" {
			t.noteIgnored(IgnoredProgress, doubt)
		}
	}
}

// addReport takes a job's latest report into account. there are the jobs that share its GPU, itself included. claim is
// the profile's speed for the job alone on its GPU, in iterations a second, 0 if unknown. A speed that was measured
// alone in this run is used in its place. Without either, nothing can be compared. now is the time of the observation,
// and least the shortest window that is judged. It returns why a report that cannot be true is ignored; empty: it is
// not.
func (b *Beside) addReport(
	t *managedJob,
	there []*managedJob,
	claim float64,
	now time.Time,
	least time.Duration,
) string {
	b.setNeighbours(t, there, now)
	said := t.directives.Progress
	if said.At.Before(b.Since) {
		return ""
	}
	within, doubt := b.accepts(said, now)
	if !within {
		return doubt
	}
	if len(b.Jobs) == 0 {
		return b.addReportAlone(said, least)
	}
	alone := cmp.Or(b.Alone, claim)
	if alone == 0 {
		return ""
	}
	ran, tells, doubt := b.speed(said, alone, least)
	if !tells {
		return doubt
	}
	if b.begin(said); ran > 0 { // at 0 the job did not train
		b.closeWindow(ran/alone, there, t)
	}
	return ""
}

// setNeighbours notes which other jobs are on the GPU. It forgets everything when the job has begun a new run, and
// starts a new window when other jobs come or leave: a window in which the neighbours changed would say nothing of any
// of them.
func (b *Beside) setNeighbours(t *managedJob, there []*managedJob, now time.Time) {
	var others []int
	for _, other := range there {
		if other.ID != t.ID {
			others = append(others, other.ID)
		}
	}
	if !b.Run.Equal(t.Started) {
		*b = Beside{}
	} else if slices.Equal(b.Jobs, others) {
		return
	}
	b.Window, b.Jobs, b.Since, b.Last = Window{Run: t.Started}, others, now, 0
}

// addReportAlone measures the job's speed while it is alone on its GPU (Alone), with which later windows are compared.
// Its window begins with the first report and is never closed: the mean over a long time contains validations as often
// as the run itself. doubt says why a report is ignored; empty: it is not.
func (b *Beside) addReportAlone(said directive.Progress, least time.Duration) (doubt string) {
	ran, tells, doubt := b.speed(said, 0, least)
	if tells {
		b.Alone = ran
	}
	return doubt
}

// closeWindow ends a window in which the job had this part of its speed alone (1: all of it). After two windows in a
// row below share.HighKeeps the job counts as slowed down; one may be an accident. The better of the two is then noted
// in Kept, with the managed jobs beside the job, and plans put no further job on the GPU. A later finding replaces it
// only if it is worse or the jobs beside have changed. Unmanaged jobs are left out, since no plan can separate the job
// from them.
func (b *Beside) closeWindow(part float64, there []*managedJob, t *managedJob) {
	before := b.Last
	if b.Last = part; part >= share.HighKeeps {
		b.Last = 0
	}
	if before == 0 || b.Last == 0 {
		return
	}
	found := policy.Kept{Part: max(part, before)}
	for _, other := range there {
		if other.ID != t.ID && other.isOurs && other.untouchedBecause == "" {
			found.Beside = append(found.Beside, other.ID)
		}
	}
	if b.Kept == nil || found.Part < b.Kept.Part || !slices.Equal(found.Beside, b.Kept.Beside) {
		b.Kept = &found
	}
}

// keptSpeed is which part of its speed alone a job was found to keep in its present run, and beside which jobs. It is
// nil if it was not found to be slowed, or if the site does not audit.
func keptSpeed(r *Runner, t *managedJob) *policy.Kept {
	if r.Settings.Audit <= 0 || !t.hasSlot() || !t.record.Beside.Run.Equal(t.Started) {
		return nil
	}
	return t.record.Beside.Kept
}

// sharersByGPU are, for each GPU of which any job has a part, the jobs that have one, ascending in ID: those that may
// slow each other down. Completing jobs still count.
func sharersByGPU(r *Runner) map[nodeGPU][]*managedJob {
	all := map[nodeGPU][]*managedJob{}
	for _, t := range r.cache.jobs {
		if t.State != slurm.Running && !t.Completing {
			continue
		}
		for _, name := range t.Runs.Nodes {
			for _, device := range sharedDevicesOn(r, t, name) {
				at := nodeGPU{name, device}
				all[at] = append(all[at], t)
			}
		}
	}
	return all
}

// sharedDevicesOn are the GPUs of a node of which a job has a part, by device type, which is a name of its own for each
// shared GPU. Nil: the job has no GPU there, or whole GPUs. Slurm's device lists for all of the job's nodes are taken
// together, so for a job on several nodes the result may name too many.
func sharedDevicesOn(r *Runner, t *managedJob, name string) (devices []string) {
	if t.Runs.Shard != "" {
		return []string{t.Runs.Shard}
	}
	isPart := func(printed string) bool { return strings.Contains(printed, "shard") }
	if !slices.ContainsFunc(t.Runs.Devices, isPart) {
		return nil
	}
	i, known := slices.BinarySearchFunc(r.cache.nodes, name,
		func(n slurm.Node, name string) int { return strings.Compare(n.Name, name) })
	for _, d := range devicesIn(t.Runs) {
		switch {
		case d.gpuType != "":
			devices = append(devices, d.gpuType)
		case known && d.index < len(r.cache.nodes[i].Devices):
			devices = append(devices, r.cache.nodes[i].Devices[d.index].Type)
		}
	}
	return devices
}
