package bridge

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/directive"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

func TestATextIsReadAnewWhenAnythingItRestsOnHasChanged(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*slurm.Job)
		seen   func(*managedJob) bool
	}{
		{"its comment", func(j *slurm.Job) { j.Comment = "synergy-profile=b.json" },
			func(t *managedJob) bool { return t.directives.Profile == "b.json" }},
		{"its comment, which lost our directive", func(j *slurm.Job) { j.Comment = "mine" },
			func(t *managedJob) bool { return reflect.DeepEqual(t.directives, &directive.Directives{}) }},
		{"its comment, which became wrong", func(j *slurm.Job) { j.Comment = "synergy-profile=../b.json" },
			func(t *managedJob) bool { return t.directives.Err() != nil }},
		{"its annotation", func(j *slurm.Job) { j.Extra = `{"v":1,"job":7,"gpu_s":9}` },
			func(t *managedJob) bool { return t.parsedAnnotation().Attained == 9 }},
		{"its GPUs", func(j *slurm.Job) { j.Request.GPUs++ }, func(t *managedJob) bool {
			return t.parsedAnnotation().Own == nil
		}},
	} {
		r, before := viewer(), slurm.Job{ID: 7, Comment: "synergy-profile=a.json", Request: plainRequest()}
		before.Extra = annotationOf(&Record{Job: 7, Own: plainRequest()}, 1, "", "").String()
		first := r.read([]*slurm.Job{&before})[0]
		if first.directives.Profile != "a.json" || first.parsedAnnotation().Own == nil {
			t.Fatalf("read %+v", first)
		}
		after := before
		c.change(&after)
		if got := r.read([]*slurm.Job{&after})[0]; !c.seen(got) {
			t.Errorf("%s changed, and still it reads %+v", c.name, got)
		}
	}
}

func TestAJobThatHasNotChangedIsNotReadAgain(t *testing.T) {
	r, a, b := viewer(), slurm.Job{
		ID:      7,
		Comment: "synergy-profile=a.json",
	}, slurm.Job{
		ID:      9,
		Comment: "synergy-profile=a.json",
	}
	first := r.read([]*slurm.Job{&a, &b})
	if again := r.read([]*slurm.Job{{ID: 6}, &a, {ID: 8}, &b}); again[1] != first[0] || again[3] != first[1] {
		t.Errorf("read %v, want the jobs 7 and 9 as they were in %v", again, first)
	}
}

func TestNamesOfProfilesThatAreGoneDoNotPileUp(t *testing.T) {
	r := viewer()
	for id := range 10 * spare {
		r.read([]*slurm.Job{{ID: id + 1, Comment: fmt.Sprintf("synergy-profile=%d.json", id)}})
	}
	if n := len(r.cache.lookups); n > spare+4 {
		t.Errorf("%d names are kept for one job", n)
	}
}

func TestAProfileIsLookedUpOnceInARoundWhoeverAsks(t *testing.T) {
	r, asked := viewer(), 0
	r.Profiles = func(string) (*sensitivity.Profile, error) { asked++; return nil, nil }
	var jobs []*slurm.Job
	for id := range 5 {
		jobs = append(jobs, &slurm.Job{ID: id + 1, Partition: "gpu", Comment: "synergy-profile=a.json",
			Request: plainRequest()})
	}
	for round := 1; round <= 3; round++ {
		r.sort(slurm.Observed{At: noon, Jobs: jobs}, nil)
		if asked != round {
			t.Errorf("after round %d it was asked for %d times", round, asked)
		}
	}
}

// site changes from round to round as sites do: jobs come, change and go, nodes and settings and profiles change.
type site struct {
	*rapid.T
	nodes    []slurm.Node
	jobs     []*slurm.Job
	profiles []*sensitivity.Profile
	known    string // name of the profile that is there
	profile  *sensitivity.Profile
	settings Settings
}

func (s *site) flip(what string) bool { return rapid.IntRange(0, 3).Draw(s.T, what) == 0 }

func (s *site) one(of ...string) string { return rapid.SampledFrom(of).Draw(s.T, "one") }

// change makes the site another one. What was observed stays as it is.
func (s *site) change() {
	s.comeAndGo()
	s.rebuild()
	if s.flip("other partitions") {
		s.settings.Partitions = [][]string{{"gpu"}, {"gpu", "big"}}[rapid.IntRange(0, 1).Draw(s.T, "partitions")]
	}
	if s.flip("other profiles") {
		s.known, s.profile = s.one("a.json", "b.json"), rapid.SampledFrom(s.profiles).Draw(s.T, "profile")
	}
}

// comeAndGo changes the jobs.
func (s *site) comeAndGo() {
	var jobs []*slurm.Job
	for id := 1; id <= 6; id++ {
		var was *slurm.Job
		for _, j := range s.jobs {
			if j.ID == id {
				was = j
			}
		}
		switch {
		case s.flip("goes"):
		case was == nil || s.flip("changes"):
			jobs = append(jobs, s.job(id))
		default:
			jobs = append(jobs, was)
		}
	}
	s.jobs = jobs
}

// rebuild changes the nodes.
func (s *site) rebuild() {
	if s.flip("other nodes") {
		s.nodes = nil
		for n := range rapid.IntRange(0, 3).Draw(s.T, "nodes") {
			total := fourGPUs.Times(rapid.IntRange(0, 2).Draw(s.T, "size"))
			s.nodes = append(s.nodes, slurm.Node{Name: fmt.Sprint("n", n+1), Total: total,
				Partitions: []string{s.one("gpu", "big", "other")}})
		}
	}
	if s.flip("other names") {
		s.nodes = slices.Clone(s.nodes)
		for n := range s.nodes {
			s.nodes[n].Name = "n" + string(s.nodes[n].Name[1]+1)
		}
	}
}

func (s *site) job(id int) *slurm.Job {
	j := &slurm.Job{
		ID: id, Partition: s.one("gpu", "gpu", "big", "other"), Held: s.flip("held"),
		State: slurm.State(s.one(string(slurm.Pending), string(slurm.Running))),
		Comment: s.one("mine", "synergy-profile=a.json", "synergy-profile=b.json synergy-checkpoint",
			"synergy-profile=../c.json"),
		Extra: s.one("", fmt.Sprintf(`{"v":1,"job":%d,"gpu_s":5}`, id)), Submitted: noon.Add(-time.Hour),
		Request: plainRequest(),
	}
	if j.State == slurm.Running {
		j.Started = noon.Add(-time.Minute)
		j.Runs = slurm.Allocated{Nodes: []string{s.one("n1", "n2", "n9")},
			PerNode: gres.Vector{GPUs: 2, CPUs: 6, Memory: 125000}}
	}
	return j
}

func (s *site) find(name string) (*sensitivity.Profile, error) {
	if name != s.known {
		return nil, errors.New("not found")
	}
	return s.profile, nil
}

// told is all that a round works out before the plan.
type told struct {
	snapshot policy.Cluster
	outside  []Outside
	debtors  []int
	notes    []string
	gains    []float64
	steps    []Step
}

// look has a runner look at the site.
func (s *site) look(r *Runner) (t told) {
	r.Settings = s.settings
	records := Records{{Job: 2}, {Job: 3, Gain: 1}}
	sc := r.sort(slurm.Observed{At: noon, Nodes: s.nodes, Jobs: s.jobs}, records)
	updateRecords(sc.managed, sc.at)
	t.snapshot, t.outside = r.snapshot(&sc), sc.outside
	for _, tn := range sc.debtors {
		t.debtors = append(t.debtors, tn.ID)
	}
	plan := policy.Plan{}
	for _, tn := range sc.managed {
		t.notes, t.gains = append(t.notes, tn.note), append(t.gains, tn.gain)
		plan.Decisions = append(plan.Decisions, policy.Decision{Job: tn.ID})
	}
	t.steps = r.diff(&sc, plan)
	return t
}

// TestWhatARunnerRemembersChangesNothingThatItSees holds one that has seen all rounds against one that sees its first.
func TestWhatARunnerRemembersChangesNothingThatItSees(t *testing.T) {
	flat := *steep(t)
	flat.Throughput = [][]float64{{100}, {120}}
	rapid.Check(t, func(rt *rapid.T) {
		s := &site{T: rt, profiles: []*sensitivity.Profile{steep(t), &flat},
			settings: Settings{Partitions: []string{"gpu"}, Lease: time.Hour}}
		old := &Runner{Profiles: s.find}
		var last, lastWanted policy.Cluster
		for round := range 8 {
			s.change()
			got, want := s.look(old), s.look(&Runner{Profiles: s.find})
			if !reflect.DeepEqual(got, want) {
				rt.Fatalf("round %d:\n%+v, want\n%+v", round, got, want)
			}
			if !reflect.DeepEqual(last, lastWanted) {
				rt.Fatalf("after round %d the snapshot before is\n%+v, it was\n%+v", round, last, lastWanted)
			}
			if last, lastWanted = got.snapshot, want.snapshot; s.flip("reuse") {
				old.Reuse(Report{Snapshot: last})
				last, lastWanted = policy.Cluster{}, policy.Cluster{}
			}
		}
	})
}
