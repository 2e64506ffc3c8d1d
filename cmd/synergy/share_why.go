package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/internal/cli/ask"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/share"
	"github.com/synergy-slurmd/synergy-slurmd/share/predict"
	"github.com/synergy-slurmd/synergy-slurmd/story"
)

// sharingAnswer is the answer as JSON.
type sharingAnswer struct {
	Job    int            `json:"job"`
	Round  int            `json:"round"`
	State  story.JobState `json:"state"`
	Asked  *share.Request `json:"asked,omitempty"` // left out: it did not opt in
	Node   string         `json:"node,omitempty"`
	Device string         `json:"device,omitempty"`
	// Mode is how the jobs on this GPU are assumed to share it; left out: the job has the whole GPU.
	Mode predict.Mode `json:"mode,omitempty"`
	// With are the jobs on the same GPU, this one included; ascending in job.
	With []sharingJob `json:"with,omitempty"`
	Says []string     `json:"says"`
}

// sharingJob is one of the jobs that share a GPU.
type sharingJob struct {
	Job   int         `json:"job"`
	Class share.Class `json:"class"`
	Speed float64     `json:"speed"` // relative to alone, by prediction
}

// showJob says of a job on which GPU it is and beside which jobs, or why it shares none. It goes by the last round.
func (o *shareStatusOptions) showJob(ctx context.Context, out io.Writer, name string, now time.Time) error {
	report, answer, err := o.source.WhyNot(ctx, name)
	if err != nil {
		return err
	}
	told := sharingOf(&report, &answer)
	if o.json {
		return ask.JSON(out, told)
	}
	s := ask.NewText(out)
	s.Say(0, fmt.Sprintf("job %d, %s", told.Job, ask.AsOf(report.Round, report.Began, now, report.Shadow)))
	for _, line := range told.Says {
		s.Say(2, line)
	}
	return asFailed(s.Err())
}

// sharingOf is what a round says of one job and sharing: that it did not opt in, why it waits, that it has a whole GPU,
// or beside which jobs it is on one. For a job that is beside no other it adds what keeps it from that. For a job that
// the round does not plan it has only the reason (why).
func sharingOf(report *bridge.Report, why *story.WhyNot) *sharingAnswer {
	a := &sharingAnswer{Job: why.Job, Round: report.Round, State: why.State}
	job, at := jobIn(report, why.Job), placeIn(report, why.Job)
	switch {
	case job == nil:
		a.Says = []string{why.Says}
		return a
	case job.Share == nil:
		a.Says = []string{errNoShare.Error()}
		return a
	}
	a.Asked = job.Share
	switch {
	case at == nil:
		a.Says = []string{why.Says}
		a.Says = append(a.Says, sharingObstacles(report, job)...)
	case at.Device == "":
		a.Says = []string{fmt.Sprintf("it has a whole GPU of %s to itself: nobody can be sent to that one",
			strings.Join(at.Nodes, ","))}
		a.Says = append(a.Says, sharingObstacles(report, job)...)
	default:
		a.describeDevice(report, at)
	}
	return a
}

// jobIn returns the job as the round saw it, or nil if the round did not see it.
func jobIn(report *bridge.Report, id int) *policy.Job {
	i := slices.IndexFunc(report.Snapshot.Jobs, func(j policy.Job) bool { return j.ID == id })
	if i < 0 {
		return nil
	}
	return &report.Snapshot.Jobs[i]
}

// placeIn returns what a job is granted by the plan, or nil if it waits or is not planned.
func placeIn(report *bridge.Report, id int) *policy.Placement {
	for i := range report.Plan.Decisions {
		if d := &report.Plan.Decisions[i]; d.Job == id {
			return d.Grant
		}
	}
	return nil
}

// describeDevice describes the shared GPU on which the job has a slot (placement at): which jobs are there and how fast
// each is by prediction, or that the job is alone there. It also names jobs that were slower beside others or did not
// give their turns back.
func (a *sharingAnswer) describeDevice(report *bridge.Report, at *policy.Placement) {
	a.Node, a.Device = strings.Join(at.Nodes, ","), at.Device
	var tenants []predict.Tenant
	var users []string
	for _, d := range report.Plan.Decisions {
		other := jobIn(report, d.Job)
		if d.Grant == nil || other == nil || other.Share == nil || d.Grant.Device != at.Device ||
			!slices.Equal(d.Grant.Nodes, at.Nodes) {
			continue
		}
		a.With = append(a.With, sharingJob{Job: d.Job, Class: other.Share.Class})
		tenants, users = append(tenants, tenantOf(report, other, d.Grant)), append(users, other.User)
	}
	mode := policy.SharedBy(modeOf(report, at), users...)
	for i, speed := range predict.Speeds(mode, tenants) {
		a.With[i].Speed = speed
	}
	if len(a.With) < 2 {
		a.describeAlone(jobIn(report, a.Job), mode)
		a.Says = append(a.Says, sharingObstacles(report, jobIn(report, a.Job))...)
		return
	}
	a.Mode = mode
	a.Says = []string{fmt.Sprintf("it shares GPU %s of %s by %s; by prediction, of their speeds alone:", a.Device,
		a.Node, mode.Words())}
	for _, one := range a.With {
		whose := fmt.Sprintf("job %d", one.Job)
		if one.Job == a.Job {
			whose += ", this one"
		}
		a.Says = append(a.Says, fmt.Sprintf("%s, %s: %.2f", whose, one.Class, one.Speed))
		if kept := jobIn(report, one.Job).Kept; kept != nil {
			a.Says = append(a.Says, fmt.Sprintf("job %d %s", one.Job, bridge.Slowed{Job: one.Job, Kept: *kept}))
		}
		for _, found := range report.Unruly {
			if found.Job == one.Job {
				a.Says = append(a.Says, fmt.Sprintf("job %d %s", one.Job, found))
			}
		}
	}
}

// modeOf returns how the node of this placement shares its GPUs. The mode is empty if the snapshot does not have the
// device of the placement.
func modeOf(report *bridge.Report, at *policy.Placement) share.Mode {
	for i := range report.Snapshot.Nodes {
		n := &report.Snapshot.Nodes[i]
		on := slices.IndexFunc(n.Devices, func(d policy.Device) bool { return d.Name == at.Device })
		if slices.Contains(at.Nodes, n.Name) && on >= 0 {
			return n.Devices[on].Mode
		}
	}
	return ""
}

// describeAlone says that the job is alone on its GPU, and whether others may be put beside it. None are put beside a
// job that was slower beside others (Kept) or that did not give its turns back (Unruly). It also adds how much of the
// GPU the job has there (addReducedSpeed).
func (a *sharingAnswer) describeAlone(j *policy.Job, mode predict.Mode) {
	defer a.addReducedSpeed(mode)
	if j.Kept != nil {
		a.Says = []string{fmt.Sprintf("it is alone on GPU %s of %s", a.Device, a.Node),
			"it " + bridge.Slowed{Job: j.ID, Kept: *j.Kept}.String()}
		return
	}
	if j.Unruly {
		a.Says = []string{fmt.Sprintf("it is alone on GPU %s of %s", a.Device, a.Node)}
		return
	}
	a.Says = []string{fmt.Sprintf("it is alone on GPU %s of %s; others may be put beside it", a.Device, a.Node)}
}

// addReducedSpeed adds that a job alone on a GPU does not have all of it, if its predicted speed says so: MPS limits a
// client also while it is alone. a.With has the one job.
func (a *sharingAnswer) addReducedSpeed(mode predict.Mode) {
	if speed := a.With[0].Speed; speed < 1 {
		a.Mode = mode
		a.Says = append(a.Says, fmt.Sprintf("by %s, which gives class %s part of the GPU's threads also while nobody "+
			"else is there, it runs at %.2f of its speed by prediction", mode.Words(), a.With[0].Class, speed))
	}
}

// tenantOf returns a job in the form that the prediction takes. at is its placement; if it is nil the job has none, and
// is assumed to have its share. A report that a daemon sends has the profiles in a list beside the jobs, so the job's
// is looked up there. Without a profile it is not known how busy the job is.
func tenantOf(report *bridge.Report, j *policy.Job, at *policy.Placement) predict.Tenant {
	t := predict.Tenant{Class: j.Share.Class, Memory: j.Share.Memory}
	p := j.Profile
	for _, one := range report.Profiles {
		if p == nil && slices.Contains(one.Jobs, j.ID) {
			p = one.Profile
		}
	}
	if p == nil {
		return t
	}
	t.Busy, t.Memory = p.GPUBusy, cmp.Or(t.Memory, p.GPUMemory)
	for i := range report.Snapshot.Nodes {
		if n := &report.Snapshot.Nodes[i]; at != nil && len(at.Nodes) == 1 && n.Name == at.Nodes[0] {
			// With more than its share it keeps the GPU busier than its profile says.
			_, t.Busy = policy.UseOf(p, n, at.PerNode)
		}
	}
	return t
}

// sharingObstacles lists what keeps a job from sharing whichever other jobs there are, as sentences. If the list is
// empty, it depends on the other jobs.
func sharingObstacles(report *bridge.Report, j *policy.Job) (all []string) {
	t := tenantOf(report, j, placeIn(report, j.ID))
	for _, found := range report.Unruly {
		if found.Job == j.ID {
			all = append(all, "it "+found.String())
		}
	}
	if t.Memory == 0 {
		all = append(all, "how much of the GPU's memory it needs is not known, so it is put beside nobody: say "+
			"mem=GIB in its synergy-share, or name a profile with gpu_memory_mib")
	}
	if t.Class == share.High {
		all = append(all, tooBusyReasons(report, t)...)
	}
	if !slices.ContainsFunc(report.Snapshot.Nodes, func(n policy.Node) bool { return len(n.Devices) > 0 }) {
		all = append(all,
			"no node has GPUs that jobs can be sent to one by one: docs/sharing.md says how a node is set up")
	}
	return all
}

// tooBusyReasons says beside which jobs a job of class high would lose more than it may, for each mode of sharing in
// use on the nodes. It tries the worst neighbour, one that is always busy. The list is empty if the job can be beside
// any job.
func tooBusyReasons(report *bridge.Report, t predict.Tenant) (all []string) {
	fills := slices.ContainsFunc(report.Snapshot.Nodes, func(n policy.Node) bool {
		return slices.ContainsFunc(n.Devices, func(d policy.Device) bool { return d.Mode == share.Fill })
	})
	modes, beside := []predict.Mode{predict.LookAhead}, map[predict.Mode]string{predict.LookAhead: "a job"}
	if fills {
		modes, beside[predict.LookAhead] = append(modes, predict.Fill), "a job of another user"
		beside[predict.Fill] = "a job of its own user"
	}
	for _, mode := range modes {
		// The neighbour that takes most: of class low, and always busy.
		keeps := predict.Speeds(mode, []predict.Tenant{t, {Class: share.Low, Busy: 1}})[0]
		if keeps < share.HighKeeps {
			all = append(all, fmt.Sprintf("beside %s that is always busy it would, by %s, keep %.2f of its speed, and "+
				"%.2f is promised to it: only less busy ones can join it", beside[mode], mode.Words(),
				hundredths(keeps), share.HighKeeps))
		}
	}
	return all
}
