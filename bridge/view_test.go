package bridge

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/directive"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

var fourGPUs = gres.Vector{GPUs: 4, CPUs: 12, Memory: 250000}

// viewer manages the partitions gpu and big, and knows no profile.
func viewer() *Runner {
	return &Runner{
		Profiles: func(string) (*sensitivity.Profile, error) { return nil, errors.New("not found") },
		Settings: Settings{Partitions: []string{"gpu", "big"}, Round: 300 * time.Second, RestartCost: 45 * time.Second},
	}
}

// TestAPartitionThatAJobNoLongerHasIsNoneThatRefusesIt: an administrator took it from c, which refused it, to d.
func TestAPartitionThatAJobNoLongerHasIsNoneThatRefusesIt(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	j := &managedJob{Job: &slurm.Job{ID: 7, State: slurm.Pending, Partition: "a,d"}, record: &Record{
		Own: slurm.Request{Partition: "a,d"}, Avoids: []Avoided{{"c", now.Add(time.Hour)}}}}
	if !j.avoid("a", "AccountNotAllowed", now) {
		t.Error("it was refused in a, and counts as refused in d")
	}
	if j.avoid("d", "AccountNotAllowed", now) {
		t.Error("it was refused in a and d, and may start in a third one")
	}
}

func TestEveryJobIsOursOrLeftToSlurmForAReason(t *testing.T) {
	const ours = "managed"
	known := Records{{Job: 7}}
	for _, c := range []struct {
		name   string
		change func(*slurm.Job)
		want   string // ours, returning, kept on record, nothing, or the reason
	}{
		{"a plain one", func(*slurm.Job) {}, ours},
		{"one that is over, as long as Slurm tells of it", func(j *slurm.Job) { j.State = slurm.Finished }, "kept"},
		{"one that is over and was never ours", func(j *slurm.Job) { j.State, j.ID = slurm.Finished, 8 }, ""},
		{"without our directive", func(j *slurm.Job) { j.Comment, j.ID = "mine", 8 }, ""},
		{"that lost our directive", func(j *slurm.Job) { j.Comment = "mine" }, "returning"},
		{"that lost our directive and runs", func(j *slurm.Job) { j.Comment, j.State = "mine", slurm.Running }, "kept"},
		{"that lost our directive and is held", func(j *slurm.Job) { j.Comment, j.Held = "mine", true }, "kept"},
		{"that lost our directive and is no plain job", func(j *slurm.Job) { j.Comment, j.Shape = "mine", "an array" },
			"kept"},
		{"that was moved out of our partitions", func(j *slurm.Job) { j.Partition = "other" }, "returning"},
		{"of another partition", func(j *slurm.Job) { j.Partition, j.ID = "other", 8 }, ""},
		{"an interactive one", func(j *slurm.Job) { j.Interactive = true }, ours},
		{"an array", func(j *slurm.Job) { j.Shape, j.Held = "an array", true }, "kept: an array"},
		{"an array, where nothing can split it", func(j *slurm.Job) { j.Tasks = []int{1, 2} },
			"returning: is an array, and nothing here gives its tasks jobs of their own"},
		{"a held one", func(j *slurm.Job) { j.Held = true }, "kept: held"},
		{"an odd one", func(j *slurm.Job) { j.Odd = "features joined by |" }, "returning: features joined by |"},
		{"without GPU", func(j *slurm.Job) { j.Request.GPUs = 0 }, "returning: asks for no GPU"},
		{"on no nodes", func(j *slurm.Job) { j.Request.Nodes = 0 },
			"returning: 2 GPUs cannot be divided equally over 0 nodes"},
		{"an uneven gang", func(j *slurm.Job) { j.Request.GPUs, j.Request.Nodes = 3, 2 },
			"returning: 3 GPUs cannot be divided equally over 2 nodes"},
		{"an even gang", func(j *slurm.Job) { j.Request.GPUs, j.Request.Nodes = 4, 2 }, ours},
		{"named more nodes than it needs", func(j *slurm.Job) { j.Request.Pin = []string{"n1", "n2"} },
			"returning: names 2 nodes and asks for 1"},
		{"named its node", func(j *slurm.Job) { j.Request.Pin = []string{"n1"} }, ours},
		{"runs, having named more nodes", func(j *slurm.Job) {
			j.Request.Pin, j.State = []string{"n1", "n2"}, slurm.Running
		},
			ours},
	} {
		j := slurm.Job{ID: 7, Partition: "gpu", Comment: "synergy-profile=res18.json", State: slurm.Pending,
			Request: plainRequest()}
		c.change(&j)
		s := viewer().sort(slurm.Observed{At: noon, Jobs: []*slurm.Job{&j}}, known)
		got := strings.Repeat(ours, len(s.managed))
		for _, tn := range s.debtors {
			if got = "kept"; tn.treatmentAt(noon) == toHandBack {
				got = "returning"
			}
		}
		for _, o := range s.outside {
			got += ": " + o.Why
		}
		if got != c.want {
			t.Errorf("a job %s is %q, want %q", c.name, got, c.want)
		}
	}
}

func TestAJobThatCannotStartYetIsToldWhy(t *testing.T) {
	ago := func(s int) time.Time { return noon.Add(-time.Duration(s) * time.Second) }
	for _, c := range []struct {
		name string
		job  slurm.Job
		rec  Record
		want string
	}{
		{"nothing in its way", slurm.Job{}, Record{}, ""},
		{"another job", slurm.Job{Dependency: true}, Record{}, "waits for another job"},
		{"its own last run", slurm.Job{Completing: true}, Record{}, "its last run is still being cleaned up"},
		{"its user", slurm.Job{}, Record{NotBefore: noon.Add(time.Second)}, "its user wants it to begin later"},
		{"its user, until now", slurm.Job{}, Record{NotBefore: noon}, ""},
		{"one start that failed just now", slurm.Job{}, Record{Failed: 1, FailedAt: noon}, ""},
		{"one that failed, says a clock that is ahead", slurm.Job{}, Record{Failed: 1,
			FailedAt: noon.Add(time.Minute)}, ""},
		{"two that failed less than a round ago", slurm.Job{}, Record{Failed: 2, FailedAt: ago(299)},
			"did not start 2 times in a row, is tried again later"},
		{"two that failed a round ago", slurm.Job{}, Record{Failed: 2, FailedAt: ago(300)}, ""},
		{"four that failed less than three rounds ago", slurm.Job{}, Record{Failed: 4, FailedAt: ago(899)},
			"did not start 4 times in a row, is tried again later"},
		{"four that failed three rounds ago", slurm.Job{}, Record{Failed: 4, FailedAt: ago(900)}, ""},
		{"a hundred that failed less than an hour ago", slurm.Job{}, Record{Failed: 100, FailedAt: ago(3599)},
			"did not start 100 times in a row, is tried again later"},
		{"a hundred that failed an hour ago", slurm.Job{}, Record{Failed: 100, FailedAt: ago(3600)}, ""},
	} {
		got := viewer().startBarOf(&managedJob{Job: &c.job, record: &c.rec}, &sortedObservation{at: noon})
		if got.why != c.want {
			t.Errorf("%s: barred %q, want %q", c.name, got, c.want)
		}
	}
}

func TestWhatOthersHoldOfANodeIsNotOurs(t *testing.T) {
	half := gres.Vector{GPUs: 2, CPUs: 6, Memory: 125000}
	holds := slurm.Job{
		ID:        7,
		Partition: "gpu",
		Comment:   "synergy-profile=x.json",
		State:     slurm.Running,
		Request:   plainRequest(),
		Runs:      slurm.Allocated{Nodes: []string{"n1"}, PerNode: half},
	}
	leaves := holds
	leaves.State, leaves.Completing = slurm.Pending, true
	for _, c := range []struct {
		name      string
		jobs      []*slurm.Job
		allocated gres.Vector
		want      gres.Vector
	}{
		{"nobody", nil, gres.Vector{}, gres.Vector{}},
		{"a job of ours", []*slurm.Job{&holds}, half, gres.Vector{}},
		{"somebody else", nil, half, half},
		{"a job of ours and somebody else", []*slurm.Job{&holds}, fourGPUs, half},
		{"a job of ours that is being torn down", []*slurm.Job{&leaves}, half, half},
		{"a job of ours that started between two readings", []*slurm.Job{&holds}, gres.Vector{CPUs: 7},
			gres.Vector{CPUs: 1}},
	} {
		r := viewer()
		seen := slurm.Observed{At: noon, Jobs: c.jobs,
			Nodes: []slurm.Node{{Name: "n1", Partitions: []string{"gpu"}, Total: fourGPUs, Allocated: c.allocated}}}
		s := r.sort(seen, nil)
		updateRecords(s.managed, noon)
		if got := r.snapshot(&s).Nodes[0].Foreign; got != c.want {
			t.Errorf("held by %s: foreign %s, want %s", c.name, got, c.want)
		}
	}
}

func TestAJobIsOfferedTheNodesOfItsPartition(t *testing.T) {
	nodes := []slurm.Node{
		{Name: "b1", Partitions: []string{"big", "other"}, Total: fourGPUs},
		{Name: "c1", Partitions: []string{"gpu"}, Total: gres.Vector{CPUs: 24, Memory: 500000}},
		{Name: "n1", Partitions: []string{"gpu"}, Total: fourGPUs},
		{Name: "n2", Partitions: []string{"gpu", "big"}, Total: fourGPUs},
		{Name: "o1", Partitions: []string{"other"}, Total: fourGPUs},
	}
	for _, c := range []struct {
		partitions []string
		partition  string
		pin        []string
		want       string
	}{
		{[]string{"gpu", "big"}, "gpu", nil, "[n1 n2] of b1 n1 n2"},
		{[]string{"gpu", "big"}, "big", nil, "[b1 n2] of b1 n1 n2"},
		{[]string{"gpu", "big"}, "gpu", []string{"n1"}, "[n1] of b1 n1 n2"},
		{[]string{"gpu"}, "gpu", nil, "[] of n1 n2"}, // no list: any
		{[]string{"other"}, "other", nil, "[] of b1 o1"},
	} {
		r := viewer()
		r.Settings.Partitions = c.partitions
		j := slurm.Job{ID: 7, Partition: c.partition, Comment: "synergy-profile=x.json", State: slurm.Pending,
			Request: plainRequest()}
		j.Request.Pin = c.pin
		s := r.sort(slurm.Observed{At: noon, Nodes: nodes, Jobs: []*slurm.Job{&j}}, nil)
		updateRecords(s.managed, noon)
		cluster := r.snapshot(&s)
		if got := fmt.Sprintf("%v of %s", cluster.Jobs[0].Only, strings.Join(s.topology.names, " ")); got != c.want {
			t.Errorf("%s of %v, named %v: %s, want %s", c.partition, c.partitions, c.pin, got, c.want)
		}
	}
}

func TestARunningJobIsFixedWhereStoppingItWouldLoseIt(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*managedJob, *Settings)
		want   bool
	}{
		{"declared a checkpoint", func(*managedJob, *Settings) {}, false},
		{"declared none", func(t *managedJob, _ *Settings) { t.directives.Saves = false }, true},
		{"declared none, and that is allowed", func(t *managedJob, s *Settings) { t.directives.Saves, s.PreemptWithoutCheckpoint = false, true }, false},
		{"is interactive", func(t *managedJob, s *Settings) { t.Job.Interactive, s.PreemptWithoutCheckpoint = true, true }, true},
		{"is being torn down", func(t *managedJob, _ *Settings) { t.Completing = true }, true},
		{"cannot hear yet", func(t *managedJob, _ *Settings) { t.since = noon.Add(-4999 * time.Millisecond) }, true},
		{"can hear since now", func(t *managedJob, _ *Settings) { t.since = noon.Add(-5 * time.Second) }, false},
		{"was given its GPUs unevenly", func(t *managedJob, _ *Settings) { t.Runs.Nodes, t.Runs.PerNode.GPUs = []string{"n1", "n2"}, 2 }, true},
		{"holds nothing that we can see", func(t *managedJob, _ *Settings) { t.Runs = slurm.Allocated{} }, true},
	} {
		r := viewer()
		tn := read(slurm.Job{
			ID: 7, State: slurm.Running, Started: noon.Add(-time.Hour), Dependency: true, Request: plainRequest(),
			Runs: slurm.Allocated{Nodes: []string{"n1"}, PerNode: gres.Vector{GPUs: 2, CPUs: 6, Memory: 125000}},
		})
		tn.directives.Saves = true
		c.change(tn, &r.Settings)
		got := described(r, tn)
		if got.Fixed != c.want || got.Barred != "" || got.Running == nil || !got.Started.Equal(tn.since) {
			t.Errorf("a job that %s: fixed %v, want %v; %+v", c.name, got.Fixed, c.want, got)
		}
	}
}

func TestThePlannerIsToldWhatTheUserSaid(t *testing.T) {
	tn := read(slurm.Job{
		ID: 7, Name: "train", User: "ann", State: slurm.Pending, TimeLimit: 3 * time.Hour, Priority: 71,
		Features: []string{"ib"}, Except: []string{"n3"}, Request: plainRequest(),
	})
	tn.directives = &directive.Directives{Profile: "x.json", Length: time.Hour, Saves: true}
	tn.record = &Record{First: noon.Add(-time.Hour), Attained: 9, Done: time.Minute,
		Own: slurm.Request{Nodes: 2, Tasks: 5, GPUType: "a100"}}
	got := described(viewer(), tn)
	want := policy.Job{
		ID: 7, Name: "train", User: "ann", Arrival: noon.Add(-time.Hour), GPUs: 2, Nodes: 2, Tasks: 3, GPUType: "a100",
		Features: []string{"ib"}, Except: []string{"n3"},
		ProfileName: "x.json", Saves: true, Attained: 9, Done: time.Minute, Length: time.Hour,
		Restart:   45 * time.Second,
		TimeLimit: 3 * time.Hour, Priority: 71, PerCore: true,
	}
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		t.Errorf("told\n%+v, want\n%+v", got, want)
	}
	tn.directives.Length = 0
	if got := described(viewer(), tn).Length; got != 3*time.Hour+time.Minute {
		t.Errorf("length %s, want what is done and the time limit where nothing was declared", got)
	}
	tn.State, tn.Started, tn.gain = slurm.Running, noon.Add(-time.Hour), 2
	if got := tn.length(noon); got != 4*time.Hour+time.Minute {
		t.Errorf("length %s, want what is done and what two hours at twice the speed bring", got)
	}
	tn.State = slurm.Pending
	tn.profile = steep(t)
	if got := described(viewer(), tn).Restart; got != 30*time.Second {
		t.Errorf("a restart costs %s, its profile says 10 s to save and 20 s to start", got)
	}
}

// described is what the planner is told of a job at noon.
func described(r *Runner, t *managedJob) (j policy.Job) {
	r.describe(t, &sortedObservation{at: noon, topology: &topology{}}, &j)
	return j
}

func TestTasksAreCountedOnTheFullestNode(t *testing.T) {
	for own, want := range map[[2]int]int{{1, 1}: 1, {1, 4}: 4, {2, 2}: 1, {2, 3}: 2, {2, 4}: 2, {0, 3}: 3, {0, 0}: 1,
		{4, 1}: 1} {
		if got := (&slurm.Request{Nodes: own[0], Tasks: own[1]}).TasksPerNode(); got != want {
			t.Errorf("%d tasks on %d nodes: %d on one, want %d", own[1], own[0], got, want)
		}
	}
}

func TestOnlyAProfileOnAKnownNodeTellsHowFastAJobRuns(t *testing.T) {
	h := &topology{nodes: []slurm.Node{{Name: "n1", Total: fourGPUs}}, managed: []int{0}, names: []string{"n1"}}
	profile := steep(t)
	for _, c := range []struct {
		name    string
		profile *sensitivity.Profile
		runs    slurm.Allocated
		want    float64
	}{
		{"its profile knows", profile, slurm.Allocated{Nodes: []string{"n1"},
			PerNode: gres.Vector{GPUs: 1, CPUs: 6, Memory: 62500}}, 2},
		{"no profile", nil, slurm.Allocated{Nodes: []string{"n1"}, PerNode: gres.Vector{GPUs: 1, CPUs: 6,
			Memory: 62500}}, 1},
		{"a node that is not managed", profile, slurm.Allocated{Nodes: []string{"x1"},
			PerNode: gres.Vector{GPUs: 1, CPUs: 6, Memory: 62500}}, 1},
		{"no node", profile, slurm.Allocated{PerNode: gres.Vector{GPUs: 1, CPUs: 6, Memory: 62500}}, 1},
		{"no GPU", profile, slurm.Allocated{Nodes: []string{"n1"}, PerNode: gres.Vector{CPUs: 6}}, 1},
	} {
		tn := managedJob{
			Job:        &slurm.Job{Runs: c.runs},
			profile:    c.profile,
			topology:   h,
			nodePlaces: h.placesOf(c.runs.Nodes),
		}
		if got := tn.gainNow(); got != c.want {
			t.Errorf("%s: runs at %v, want %v", c.name, got, c.want)
		}
	}
}

// steep is a model that trains twice as fast with twice its share of cores.
func steep(t *testing.T) *sensitivity.Profile {
	t.Helper()
	p, err := sensitivity.Parse(
		[]byte(`{"version":1,"model":"steep","task":"test","gpu_type":"any","batch":1,"cores_per_gpu":[3,6],
		"memory_per_gpu_mib":[62500],"throughput_samples_per_s":[[100],[200]],"checkpoint_s":10,"start_s":20}`),
	)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestTheNotesOfAJobNameWhatIsWrongWithItsProfile(t *testing.T) {
	j := slurm.Job{
		ID:        7,
		Partition: "gpu",
		Comment:   "synergy-profile=x.json",
		State:     slurm.Pending,
		Request:   plainRequest(),
	}
	jobs := viewer().sort(slurm.Observed{At: noon, Jobs: []*slurm.Job{&j}}, nil).managed
	if want := "gets the proportional share: not found"; !slices.ContainsFunc(jobs,
		func(t *managedJob) bool { return t.note == want }) {
		t.Errorf("note %q, want %q", jobs[0].note, want)
	}
}

func TestWhatAUserAskedForIsCountedOnEachNode(t *testing.T) {
	for name, c := range map[string]struct {
		own  slurm.Request
		want gres.Vector
	}{
		"cores and memory": {slurm.Request{Nodes: 1, Tasks: 1, CPUsPerTask: 4, CPUs: 4, Memory: 9000, GPUs: 1},
			gres.Vector{GPUs: 1, CPUs: 4, Memory: 9000}},
		"two nodes": {slurm.Request{Nodes: 2, Tasks: 4, CPUsPerTask: 3, CPUs: 12, Memory: 9000, GPUs: 4},
			gres.Vector{GPUs: 2, CPUs: 6, Memory: 9000}},
		"memory by the core": {slurm.Request{Nodes: 1, Tasks: 2, CPUsPerTask: 4, CPUs: 8, MemoryPerCPU: 1000, GPUs: 1},
			gres.Vector{GPUs: 1, CPUs: 8, Memory: 8000}},
		"both by the GPU": {slurm.Request{Nodes: 2, Tasks: 2, CPUs: 2, CPUsPerGPU: 3, MemoryPerGPU: 10_000, GPUs: 8},
			gres.Vector{GPUs: 4, CPUs: 12, Memory: 40_000}},
		"nothing": {slurm.Request{GPUs: 1}, gres.Vector{GPUs: 1}},
	} {
		if got := c.own.PerNode(); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
