package demo

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// scene is a round as it is shown.
type scene struct {
	number  int
	at      time.Duration // when the round began, since the demonstration did
	present int           // jobs that wait or run
	rows    []row
	plan    string // how good it is, by its certificate
}

// row is a job in a round.
type row struct {
	id    int
	model string
	gpus  int

	node  string // where it runs behind the round; empty: nowhere
	size  gres.Vector
	speed float64 // relative to the proportional share
	done  float64 // part of the work, when the round began

	arrived bool   // since the last round
	change  change // of one that runs, or ran
	text    string // why, or how
}

// change is what a round does to a job.
type change string

const (
	starts   change = "starts"
	restarts change = "restarts"
	saves    change = "saves"
	fails    change = "fails"
	ends     change = "ends"
)

// quiet reports whether nothing has changed.
func (s *scene) quiet() bool {
	return !slices.ContainsFunc(s.rows, func(r row) bool { return r.arrived || r.change != "" })
}

// running is how many jobs run, and what they leave free. What a job that has just ended still holds counts as free.
func (s *scene) running() (jobs int, free gres.Vector) {
	free = server.Times(nodes)
	for _, r := range s.rows {
		if r.node != "" {
			jobs, free = jobs+1, free.Minus(r.size)
		}
	}
	return jobs, free
}

// round holds one round and observes its result.
func (y *simulation) round(ctx context.Context) (*scene, error) {
	report, err := y.runner.Round(ctx)
	if err != nil {
		return nil, fmt.Errorf("round %d: %w", report.Round, err)
	}
	after, err := y.slurm.Observe(ctx)
	if err != nil {
		return nil, fmt.Errorf("look at round %d: %w", report.Round, err)
	}
	s := &scene{number: report.Round, at: report.Began.Sub(start()), present: len(report.Snapshot.Jobs),
		plan: report.Certificate.String()}
	gone := y.present
	y.present = nil
	for k, d := range report.Plan.Decisions {
		r := y.decided(&report.Snapshot.Jobs[k], d, report)
		r.arrived = !slices.Contains(gone, r.id)
		gone = slices.DeleteFunc(gone, func(id int) bool { return id == r.id })
		y.present = append(y.present, r.id)
		y.place(&r, after)
		s.rows = append(s.rows, r)
	}
	// By node; jobs that run nowhere come last, since ~ sorts behind all names.
	slices.SortStableFunc(s.rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(cmp.Or(a.node, "~"), cmp.Or(b.node, "~")), cmp.Compare(a.id, b.id))
	})
	for _, id := range gone {
		s.rows = append(s.rows, y.ended(id))
	}
	return s, nil
}

// decided is a job with what the round decided for it. Jobs have the numbers 1, 2, … in the order of the workload,
// which is that of submission.
func (y *simulation) decided(j *policy.Job, d policy.Decision, report bridge.Report) row {
	r := row{id: j.ID, model: j.Name, gpus: j.GPUs, done: min(1, part(j.Done, y.jobs[j.ID-1].length)), text: d.Why}
	for _, step := range report.Steps {
		if step.Job == j.ID && step.Error != "" {
			r.change, r.text = fails, string(step.Verb)+": "+step.Error
			return r
		}
	}
	switch {
	case d.Grant == nil && j.Running == nil:
		r.text = "waits for " + hours(report.Began.Sub(j.Arrival)) + ": " + d.Why
	case d.Grant == nil:
		r.change = saves
	case j.Running == nil:
		r.change, r.text = starts, ""
	case !d.Grant.Equal(*j.Running):
		r.change = restarts
		r.text = fmt.Sprintf("had %d cores and %s on %s; %s", j.Running.PerNode.CPUs, j.Running.PerNode.Memory,
			strings.Join(j.Running.Nodes, "+"), d.Why)
	default:
		r.text = ""
	}
	return r
}

// place notes where a job runs behind the round, with what, and how fast. The lowest speed of all rounds is noted, too.
func (y *simulation) place(r *row, after slurm.Observed) {
	for _, j := range after.Jobs {
		if j.ID == r.id && j.State == slurm.Running {
			r.node, r.size, r.speed = strings.Join(j.Runs.Nodes, "+"), j.Runs.PerNode, y.speed(r.model, j.Runs.PerNode)
			y.slowest = min(cmp.Or(y.slowest, r.speed), r.speed)
		}
	}
}

// ended is a job that was there in the last round and has ended.
func (y *simulation) ended(id int) row {
	h, _ := y.slurm.History(id)
	text := "after " + hours(h.Ended.Sub(h.Submitted))
	if h.End != slurmtest.Completed {
		text += ", " + string(h.End)
	}
	return row{id: id, model: h.Name, gpus: y.jobs[id-1].gpus, change: ends, text: text}
}

// speed is how fast a model trains with this size, relative to the proportional share.
func (y *simulation) speed(model string, size gres.Vector) float64 {
	return y.profiles[model].Gain(size, gres.Proportional(server, size.GPUs))
}

// hours writes a time as hours and minutes.
func hours(d time.Duration) string {
	minutes := int(d.Round(time.Minute).Minutes())
	return fmt.Sprintf("%d:%02d", minutes/60, minutes%60)
}
