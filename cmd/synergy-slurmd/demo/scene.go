package demo

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// scene is a round as it is shown: what changed, which jobs run where with how much, and which wait.
type scene struct {
	number int
	at     time.Duration // when the round began, since the demonstration did
	jobs   int           // that wait or run

	arrived []ticket
	ended   []remark
	started []int // IDs, ascending
	resized []remark
	paused  []remark
	failed  []remark

	racks   []rack
	waiting []remark
	slowest float64 // the lowest speed of all running jobs; 0: none runs
	plan    string  // how good it is, by its certificate
}

// ticket names a job.
type ticket struct {
	id    int
	model string
	gpus  int
}

// remark is a text about a job. took is the time since the job arrived.
type remark struct {
	ticket
	took time.Duration
	text string
}

// rack is a node and the jobs that run on it.
type rack struct {
	name  string
	seats []seat // ascending in ID
	free  gres.Vector
	spare []int // indices of the free GPUs
}

// seat is a running job.
type seat struct {
	ticket
	devices []int
	size    gres.Vector
	speed   float64 // relative to the proportional share
	done    float64 // part of the work, when the round began
}

// quiet reports whether nothing has changed.
func (s *scene) quiet() bool { return len(s.arrived) == 0 && !s.moved() }

// moved reports whether anything changed for a job that runs or ran.
func (s *scene) moved() bool {
	return len(s.ended)+len(s.started)+len(s.resized)+len(s.paused)+len(s.failed) > 0
}

func (s *scene) running() int {
	n := 0
	for _, r := range s.racks {
		n += len(r.seats)
	}
	return n
}

// round holds one round and observes its result.
func (y *play) round(ctx context.Context) (*scene, error) {
	report, err := y.runner.Round(ctx)
	if err != nil {
		return nil, fmt.Errorf("round %d: %w", report.Round, err)
	}
	after, err := y.slurm.Observe(ctx)
	if err != nil {
		return nil, fmt.Errorf("look at round %d: %w", report.Round, err)
	}
	s := &scene{number: report.Round, at: report.Began.Sub(opening()), jobs: len(report.Snapshot.Jobs)}
	y.comeAndGo(s, report.Snapshot.Jobs)
	for k, d := range report.Plan.Decisions {
		s.decided(&report.Snapshot.Jobs[k], d, report)
	}
	for _, n := range after.Nodes {
		s.racks = append(s.racks, y.rack(n, after.Jobs, report.Snapshot.Jobs))
	}
	s.slowest, s.plan = slowest(s.racks), report.Certificate.String()
	return s, nil
}

// comeAndGo notes which jobs are new, and which were there in the last round and have ended.
func (y *play) comeAndGo(s *scene, there []policy.Job) {
	gone := y.present
	y.present = nil
	for i := range there {
		id := there[i].ID
		y.present = append(y.present, id)
		if at := slices.Index(gone, id); at >= 0 {
			gone = slices.Delete(gone, at, at+1)
			continue
		}
		s.arrived = append(s.arrived, y.ticket(id))
	}
	for _, id := range gone {
		h, _ := y.slurm.History(id)
		s.ended = append(s.ended, remark{y.ticket(id), h.Ended.Sub(h.Submitted), howEnded(h.End)})
	}
}

func howEnded(end slurmtest.End) string {
	if end == slurmtest.Completed {
		return "is done"
	}
	return "ended, " + string(end) + ","
}

// ticket finds a job by its ID, which Slurm counts up in the order of arrival.
func (y *play) ticket(id int) ticket {
	j := y.jobs[id-1]
	return ticket{id, j.model, j.gpus}
}

// decided notes the decision for a job if it is a change, and why the job waits.
func (s *scene) decided(j *policy.Job, d policy.Decision, report bridge.Report) {
	said := remark{ticket{j.ID, j.Name, j.GPUs}, report.Began.Sub(j.Arrival), d.Why}
	for _, step := range report.Steps {
		if step.Job == j.ID && step.Error != "" {
			said.text = string(step.Verb) + ": " + step.Error
			s.failed = append(s.failed, said)
			return
		}
	}
	switch {
	case d.Grant == nil && j.Running == nil:
		s.waiting = append(s.waiting, said)
	case d.Grant == nil:
		s.waiting = append(s.waiting, said)
		s.paused = append(s.paused, said)
	case j.Running == nil:
		s.started = append(s.started, j.ID)
	case !d.Grant.Equal(*j.Running):
		said.text = difference(*j.Running, *d.Grant) + ": " + d.Why
		s.resized = append(s.resized, said)
	}
}

// difference says in what two placements of a job differ.
func difference(was, is policy.Placement) string {
	var all []string
	if !slices.Equal(was.Nodes, is.Nodes) {
		all = append(all, strings.Join(was.Nodes, "+")+" → "+strings.Join(is.Nodes, "+"))
	}
	if was.PerNode.CPUs != is.PerNode.CPUs {
		all = append(all, fmt.Sprintf("%d → %d cores", was.PerNode.CPUs, is.PerNode.CPUs))
	}
	if was.PerNode.Memory != is.PerNode.Memory {
		all = append(all, fmt.Sprintf("%s → %sG", gigabytes(was.PerNode.Memory), gigabytes(is.PerNode.Memory)))
	}
	return strings.Join(all, ", ")
}

// rack describes a node after the round. What a job that has just ended still holds counts as free.
func (y *play) rack(n slurm.Node, after []*slurm.Job, before []policy.Job) rack {
	r := rack{name: n.Name, free: n.Total}
	held := map[int]bool{}
	for _, j := range after {
		if j.State != slurm.Running || !slices.Contains(j.Runs.Nodes, n.Name) {
			continue
		}
		s := y.seat(j, before)
		for _, device := range s.devices {
			held[device] = true
		}
		r.seats, r.free = append(r.seats, s), r.free.Minus(s.size)
	}
	for device := range n.Total.GPUs {
		if !held[device] {
			r.spare = append(r.spare, device)
		}
	}
	return r
}

// seat describes a running job. Its progress is that of the snapshot before the round.
func (y *play) seat(j *slurm.Job, before []policy.Job) seat {
	t := y.ticket(j.ID)
	s := seat{ticket: t, size: j.Runs.PerNode, speed: y.speed(t.model, j.Runs.PerNode)}
	for _, printed := range j.Runs.Devices {
		s.devices = append(s.devices, indices(printed)...)
	}
	for i := range before {
		if before[i].ID == j.ID {
			s.done = min(1, part(before[i].Done, y.jobs[j.ID-1].length))
		}
	}
	return s
}

// speed is how fast a model trains with this size, relative to the proportional share.
func (y *play) speed(model string, size gres.Vector) float64 {
	return y.profiles[model].Gain(size, gres.Proportional(server, size.GPUs))
}

// indices reads which GPUs Slurm says a job has on a node: gpu:3(IDX:0-1,3) is 0, 1 and 3.
func indices(printed string) []int {
	counts, err := gres.ParseCounts(printed)
	if err != nil || len(counts) == 0 {
		return nil
	}
	var all []int
	for part := range strings.SplitSeq(counts[0].Index, ",") {
		low, high, ranged := strings.Cut(part, "-")
		first, err := strconv.Atoi(low)
		if err != nil {
			return nil
		}
		last := first
		if ranged {
			last, _ = strconv.Atoi(high)
		}
		for i := first; i <= last; i++ {
			all = append(all, i)
		}
	}
	return all
}

func slowest(racks []rack) float64 {
	least := 0.0
	for _, r := range racks {
		for _, s := range r.seats {
			if least == 0 || s.speed < least {
				least = s.speed
			}
		}
	}
	return least
}
