package bridge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// Beside is what is remembered of how fast an important job runs on a GPU that it shares, by its own reports. It has
// windows of its own: those of the audit compare a job with its profile, which says nothing of others on the GPU.
type Beside struct {
	Window
	Jobs  []int     `json:"jobs,omitempty"`  // who else is on its GPU in the window under way, ascending
	Since time.Time `json:"since,omitzero"`  // when they were first seen to be all: reports from before are of others
	Alone float64   `json:"alone,omitempty"` // iterations a second, as long as nobody else was there in this run
	// Last is what part of its speed alone it had in the last window; 0: there was none beside the same jobs, or it had
	// enough.
	Last float64      `json:"last,omitempty"`
	Kept *policy.Kept `json:"kept,omitempty"` // the worst that was found in this run; never changed
}

// Slowed is an important job that was measured to be slower beside others than it accepts.
type Slowed struct {
	Job int `json:"job"`
	policy.Kept
}

func (s Slowed) String() string {
	return fmt.Sprintf("was measured to keep %.2f of its speed alone beside others on its GPU, and %g is the least: "+
		"nobody further is put there as long as it runs", s.Part, share.HighKeeps)
}

// measure takes up what important jobs report that have a seat. A job without reports is neither slow nor fast.
func (r seating) measure(s *scene) {
	if r.Settings.Audit <= 0 || !slices.ContainsFunc(s.managed, (*managedJob).seated) {
		return
	}
	sharers := r.sharers()
	for _, t := range s.managed {
		if !t.seated() || !t.said.reports || t.said.unclear != nil || len(t.Runs.Nodes) != 1 {
			continue
		}
		if request := r.shares(t); request == nil || request.Class != share.High {
			continue
		}
		there := sharers[seat{t.Runs.Nodes[0], t.Runs.Shard}]
		if doubt := t.record.Beside.hear(t, there, promised(r.Runner, t), s.at, r.Settings.Audit); doubt != "" {
			t.ignore(IgnoredProgress, doubt)
		}
	}
}

// hear takes a report up, of a job that is on its GPU with these, itself among them. By its profile it would have such
// a speed alone; 0: nobody knows. What it had alone in this run counts before that.
func (b *Beside) hear(t *managedJob, there []*managedJob, claim float64, now time.Time, least time.Duration) string {
	b.meet(t, there, now)
	said := t.said.progress
	if said.At.Before(b.Since) {
		return ""
	}
	within, doubt := b.holds(said, now)
	if !within {
		return doubt
	}
	if len(b.Jobs) == 0 {
		return b.hearAlone(said, least)
	}
	alone := cmp.Or(b.Alone, claim)
	if alone == 0 {
		return ""
	}
	ran, tells, doubt := b.speed(said, alone, least)
	if !tells {
		return doubt
	}
	if b.begin(said); ran > 0 { // else it did something else than train
		b.weigh(ran/alone, there, t)
	}
	return ""
}

// meet begins anew with each run, and a window with each change of who else is there.
func (b *Beside) meet(t *managedJob, there []*managedJob, now time.Time) {
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

// hearAlone says how fast the job is as long as it is alone, in one window that is never ended: validations slow all of
// it down alike.
func (b *Beside) hearAlone(said Progress, least time.Duration) (doubt string) {
	ran, tells, doubt := b.speed(said, 0, least)
	if tells {
		b.Alone = ran
	}
	return doubt
}

// weigh ends a window. Two in a row below what the job accepts are no accident, and the better of both is what is said.
func (b *Beside) weigh(part float64, there []*managedJob, t *managedJob) {
	before := b.Last
	if b.Last = part; part >= share.HighKeeps {
		b.Last = 0
	}
	if before == 0 || b.Last == 0 {
		return
	}
	found := policy.Kept{Part: max(part, before)}
	for _, other := range there {
		if other.ID != t.ID && other.ours && other.alone == "" {
			found.Beside = append(found.Beside, other.ID)
		}
	}
	if b.Kept == nil || found.Part < b.Kept.Part || !slices.Equal(found.Beside, b.Kept.Beside) {
		b.Kept = &found
	}
}

// kept is what was found of a job in its present run; nil: nothing.
func (r seating) kept(t *managedJob) *policy.Kept {
	if r.Settings.Audit <= 0 || !t.seated() || !t.record.Beside.Run.Equal(t.Started) {
		return nil
	}
	return t.record.Beside.Kept
}

// sharers are the jobs that have a part of each GPU of which anybody has, ascending in ID. Those that are being torn
// down have theirs still.
func (r seating) sharers() map[seat][]*managedJob {
	all := map[seat][]*managedJob{}
	for _, t := range r.reader.jobs {
		if t.State != Running && !t.Completing {
			continue
		}
		for _, name := range t.Runs.Nodes {
			for _, device := range r.partsOn(t, name) {
				at := seat{name, device}
				all[at] = append(all[at], t)
			}
		}
	}
	return all
}

// partsOn are the GPUs of a node of which a job has a part.
func (r seating) partsOn(t *managedJob, name string) (devices []string) {
	if t.Runs.Shard != "" {
		return []string{t.Runs.Shard}
	}
	isPart := func(printed string) bool { return strings.Contains(printed, "shard") }
	if !slices.ContainsFunc(t.Runs.Devices, isPart) {
		return nil
	}
	i, known := slices.BinarySearchFunc(r.reader.nodes, name,
		func(n Node, name string) int { return strings.Compare(n.Name, name) })
	for _, d := range devicesIn(t.Runs) {
		switch {
		case d.gpuType != "":
			devices = append(devices, d.gpuType)
		case known && d.index < len(r.reader.nodes[i].Devices):
			devices = append(devices, r.reader.nodes[i].Devices[d.index].Type)
		}
	}
	return devices
}
