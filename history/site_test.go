package history

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/etc/profiles"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

var midnight = time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)

const period = 5 * time.Minute

// site is a cluster of which every round is planned, and which does what the plan says until the next.
type site struct {
	cluster  policy.Cluster
	planner  policy.Planner
	draw     *rand.Rand
	profiles []*sensitivity.Profile
	ends     map[int]time.Time
	last     int // job
	round    int
	jobs     int // that there are always
}

func newSite(t testing.TB, nodes, jobs int) *site {
	s := &site{draw: rand.New(rand.NewPCG(4, 2)), ends: map[int]time.Time{}, jobs: jobs, last: 100_000}
	files, err := fs.Glob(profiles.FS, "*.json")
	must(t, err)
	for _, file := range files {
		text, err := fs.ReadFile(profiles.FS, file)
		must(t, err)
		p, err := sensitivity.Parse(text)
		must(t, err)
		s.profiles = append(s.profiles, p)
	}
	s.cluster.Now = midnight
	for n := range nodes {
		s.cluster.Nodes = append(s.cluster.Nodes, policy.Node{Name: fmt.Sprintf("gpu%04d", n+1), GPUType: "v100",
			Total: gres.Vector{GPUs: 8, CPUs: 64, Memory: 500_000}})
	}
	s.fill()
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fill submits jobs until there are as many as always.
func (s *site) fill() {
	for len(s.cluster.Jobs) < s.jobs {
		s.last++
		p := s.profiles[s.draw.IntN(len(s.profiles))]
		s.cluster.Jobs = append(s.cluster.Jobs, policy.Job{ID: s.last, Name: fmt.Sprintf("train-%d", s.last%97),
			User:    fmt.Sprintf("user%02d", s.draw.IntN(60)),
			Arrival: s.cluster.Now.Add(-time.Duration(s.draw.IntN(300)) * time.Second),
			GPUs:    []int{1, 1, 1, 1, 2, 4, 8}[s.draw.IntN(7)], Nodes: 1, Tasks: 1, Profile: p,
			ProfileName: p.Model + ".json", Saves: s.draw.IntN(2) == 0, TimeLimit: 48 * time.Hour,
			Restart: 2 * time.Minute})
	}
}

// next is the report of a round, after which the cluster is as it is when the next one begins.
func (s *site) next(mean time.Duration) *bridge.Report {
	s.round++
	now := s.cluster.Now
	r := &bridge.Report{Round: s.round, Began: now, Policy: "las", Allocator: "tune"}
	r.Snapshot = s.cluster
	r.Snapshot.Jobs = append([]policy.Job(nil), s.cluster.Jobs...)
	r.Plan = s.planner.Decide(r.Snapshot, policy.LAS(), policy.Tune())
	var left []policy.Job
	for i := range r.Snapshot.Jobs {
		j, d := r.Snapshot.Jobs[i], r.Plan.Decisions[i]
		switch {
		case !s.ends[j.ID].IsZero() && now.After(s.ends[j.ID]):
			continue // over, as the next round says
		case d.Grant == nil:
			j.Running, j.Started = nil, time.Time{}
		case j.Running == nil || !j.Running.Equal(*d.Grant):
			r.Steps = append(r.Steps, bridge.Step{Job: j.ID, Verb: bridge.Start, Why: d.Why, Grant: d.Grant})
			j.Running, j.Started = d.Grant, now.Add(3*time.Second)
			if s.ends[j.ID].IsZero() {
				s.ends[j.ID] = now.Add(time.Duration(s.draw.ExpFloat64() * float64(mean)))
			}
		}
		if j.Running != nil {
			j.Attained += period.Seconds() * float64(j.GPUs)
			j.Done += time.Duration(float64(period) * d.Gain)
		}
		left = append(left, j)
	}
	for i := range r.Snapshot.Jobs {
		if j := &r.Snapshot.Jobs[i]; !s.ends[j.ID].IsZero() && now.After(s.ends[j.ID]) {
			defer delete(s.ends, j.ID)
		}
	}
	s.cluster.Jobs = left
	s.cluster.Now = now.Add(period)
	s.fill()
	return r
}
