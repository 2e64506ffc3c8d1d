package bridge

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// noon is the moment of every observation in the tables of this package.
var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// plainRequest is what sbatch --gres=gpu:2 -c 2 --mem=1000M asks for.
func plainRequest() slurm.Request {
	return slurm.Request{Nodes: 1, Tasks: 1, CPUsPerTask: 2, CPUs: 2, CPUsPerNode: 2, Memory: 1000, GRES: "gres/gpu:2",
		GPUs: 2}
}

func TestAWaitingJobCostsAnUpdateOnlyWhenSomethingIsWrongWithIt(t *testing.T) {
	r := &Runner{Settings: Settings{Lease: 900 * time.Second}}
	grant := policy.Placement{Nodes: []string{"n1"}, PerNode: gres.Vector{GPUs: 2, CPUs: 6, Memory: 125000}}
	for _, c := range []struct {
		name   string
		change func(*slurm.Job)
		want   Verb
	}{
		{"nothing", func(*slurm.Job) {}, ""},
		{"half of its lease left", func(j *slurm.Job) { j.Begin = noon.Add(450 * time.Second) }, ""},
		{"less than half of its lease left", func(j *slurm.Job) { j.Begin = noon.Add(449 * time.Second) }, Renew},
		{"nobody told it why it waits", func(j *slurm.Job) { j.Extra = `{"v":1,"lua":1}` }, Renew},
		{"nobody told it anything", func(j *slurm.Job) { j.Extra = "" }, Renew},
		{"it carries the annotation of another job", func(j *slurm.Job) { j.Extra = `{"v":1,"job":8}` }, Renew},
		{"a granted size", func(j *slurm.Job) {
			j.Request.CPUs, j.Request.CPUsPerTask, j.Request.CPUsPerNode = 6, 6, 6
		},
			Restore},
		{"granted memory", func(j *slurm.Job) { j.Request.Memory = 125000 }, Restore},
		{"a pin", func(j *slurm.Job) { j.Request.Pin = []string{"n1"} }, Restore},
		{"all of a grant, and hardly any lease", func(j *slurm.Job) {
			j.Request, j.Begin = grantedRequest(&Record{Own: j.Request}, grant), noon
		}, Restore},
	} {
		j := slurm.Job{ID: 7, State: slurm.Pending, Begin: noon.Add(900 * time.Second), Extra: `{"v":1,"job":7}`,
			Request: plainRequest()}
		c.change(&j)
		tn := read(j)
		if tn.record = (&Record{Job: 7, Own: plainRequest()}); j.Extra != "" {
			tn.written = `{"v":1,"job":7}`
		}
		if got := r.waitingVerb(tn, noon); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestAGrantIsWrittenAsSlurmCountsIt(t *testing.T) {
	on := func(cpus int, memory gres.Memory, nodes ...string) policy.Placement {
		return policy.Placement{Nodes: nodes, PerNode: gres.Vector{GPUs: 2, CPUs: cpus, Memory: memory}}
	}
	plain := plainRequest()
	gang, perCPU, tasks, uneven := plain, plain, plain, plain
	gang.Nodes, gang.Tasks, gang.GPUs = 2, 2, 4
	perCPU.Memory, perCPU.MemoryPerCPU = 0, 4000
	tasks.Tasks, tasks.GRES = 4, "gres/gpu:a100:2"
	uneven.Nodes, uneven.Tasks = 2, 3
	for _, c := range []struct {
		name  string
		own   slurm.Request
		grant policy.Placement
		want  slurm.Request
	}{
		{"one task gets all cores", plain, on(9, 62500, "n3"), slurm.Request{
			Nodes: 1, Tasks: 1, CPUsPerTask: 9, CPUs: 9, CPUsPerNode: 9, Memory: 62500, GRES: "gres/gpu:2", GPUs: 2,
			Pin: []string{"n3"}}},
		{"a gang's cores are those of all its nodes", gang, on(9, 62500, "n1", "n2"), slurm.Request{
			Nodes: 2, Tasks: 2, CPUsPerTask: 9, CPUs: 18, CPUsPerNode: 9, Memory: 62500, GRES: "gres/gpu:2", GPUs: 4,
			Pin: []string{"n1", "n2"}}},
		{"memory by the core stays that", perCPU, on(3, 62499, "n1"), slurm.Request{
			Nodes: 1, Tasks: 1, CPUsPerTask: 3, CPUs: 3, CPUsPerNode: 3, MemoryPerCPU: 20833,
			GRES: "gres/gpu:2", GPUs: 2,
			Pin: []string{"n1"}}},
		{"tasks get equal parts", tasks, on(12, 62500, "n1"), slurm.Request{
			Nodes: 1, Tasks: 4, CPUsPerTask: 3, CPUs: 12, CPUsPerNode: 3, Memory: 62500, GRES: "gres/gpu:a100:2",
			GPUs: 2, Pin: []string{"n1"}}},
		{"three tasks on two nodes are two on one", uneven, on(12, 62500, "n1", "n2"), slurm.Request{
			Nodes: 2, Tasks: 3, CPUsPerTask: 6, CPUs: 24, CPUsPerNode: 6, Memory: 62500, GRES: "gres/gpu:2", GPUs: 2,
			Pin: []string{"n1", "n2"}}},
	} {
		if got := grantedRequest(&Record{Own: c.own}, c.grant); fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", c.want) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestTheAuditNamesEveryFieldInTheUsersWords(t *testing.T) {
	own := plainRequest()
	byCore, byDefault, pinned := own, own, own
	byCore.Memory, byCore.MemoryPerCPU = 0, 4000
	byDefault.Memory = 0
	pinned.Nodes, pinned.Pin = 2, []string{"n1", "n2"}
	for _, c := range []struct {
		old, to slurm.Request
		want    string
	}{
		{own, own, "[]"},
		{byCore, own, "[{memory_per_node 4000M a core 1000M}]"},
		{byDefault, own, "[{memory_per_node the partition's default 1000M}]"},
		{own, pinned, "[{nodes 1 2} {required_nodes  n1,n2}]"},
		{own, slurm.Request{Nodes: 1, CPUsPerTask: 3, CPUs: 4, CPUsPerNode: 5, Memory: 1000},
			"[{cpus_per_task 2 3} {cpus 2 4} {cpus_per_node 2 5}]"},
	} {
		if got := fmt.Sprint(requestChanges(nil, &c.old, &c.to)); got != c.want {
			t.Errorf("audit %s, want %s", got, c.want)
		}
	}
}

func TestLeasesOfABacklogAreSpread(t *testing.T) {
	r := &Runner{Settings: Settings{Lease: 960 * time.Second}}
	lengths := map[time.Duration]bool{}
	for job := range 16 {
		lease := r.leaseOf(1000 + job)
		if lease < 960*time.Second || lease >= 1080*time.Second {
			t.Errorf("lease of %s, want 960 s and less than an eighth more", lease)
		}
		lengths[lease] = true
	}
	if len(lengths) != 16 {
		t.Errorf("%d different lengths for 16 jobs in a row", len(lengths))
	}
}

func TestNoUpdateBeginsAJobBeforeItsUserSaid(t *testing.T) {
	r := &Runner{Settings: Settings{Lease: 960 * time.Second}}
	soon, late := noon.Add(time.Minute), noon.Add(5*time.Hour)
	for _, c := range []struct {
		name      string
		notBefore time.Time
		wait, let time.Time // the begin time while it waits, and once it is handed back
	}{
		{"said nothing", time.Time{}, noon.Add(960 * time.Second), noon},
		{"said a time within the lease", soon, noon.Add(960 * time.Second), soon},
		{"said a time after it", late, late, late},
	} {
		rec := &Record{Job: 16, NotBefore: c.notBefore, Own: plainRequest()}
		if got := r.waitUpdate(&managedJob{Job: &slurm.Job{ID: 16}, record: rec}, 1, "", noon).Begin; !got.Equal(
			c.wait,
		) {
			t.Errorf("%s: waits until %s, want %s", c.name, got, c.wait)
		}
		if got := releaseUpdate(rec, 1, "", noon).Begin; !got.Equal(c.let) {
			t.Errorf("%s: handed back to begin at %s, want %s", c.name, got, c.let)
		}
	}
}

func TestARoundTakesBackBeforeItGives(t *testing.T) {
	r := &Runner{Settings: Settings{Lease: 900 * time.Second}}
	size := gres.Vector{GPUs: 1, CPUs: 3, Memory: 62500}
	grant := &policy.Placement{Nodes: []string{"n1"}, PerNode: size}
	running := func(id int) *managedJob {
		return read(slurm.Job{ID: id, State: slurm.Running, Runs: slurm.Allocated{Nodes: []string{"n1"},
			PerNode: gres.Vector{GPUs: 1, CPUs: 1, Memory: 62500}}})
	}
	waiting := func(id int) *managedJob { return read(slurm.Job{ID: id, State: slurm.Pending}) }
	s := sortedObservation{at: noon, managed: []*managedJob{waiting(1), running(2), running(3), waiting(4), waiting(6)},
		debtors: []*managedJob{waiting(5), running(7)}}
	plan := policy.Plan{Decisions: []policy.Decision{
		{Job: 1, Grant: grant, Gain: 1.2}, {Job: 2, Grant: grant, Why: "grows"}, {Job: 3, Why: "gives way"},
		{Job: 4, Why: "no GPU is free"},
		{Job: 6, Grant: grant},
	}}
	var got []string
	for _, s := range r.diff(&s, plan) {
		got = append(got, fmt.Sprintf("%s %d: %s", s.Verb, s.Job, s.Why))
	}
	want := []string{
		"release 5: handed back to Slurm", "renew 4: no GPU is free", "preempt 2: grows", "preempt 3: gives way",
		"start 1: its turn, at 1.20× the proportional speed", "start 2: grows", "start 6: its turn",
	}
	if !slices.Equal(got, want) {
		t.Errorf("steps\n%q, want\n%q", got, want)
	}
}

func TestRequestsAreTheSameExactlyWhenNothingWouldBeWritten(t *testing.T) {
	changes := map[string]func(*slurm.Request){
		"nothing":         func(*slurm.Request) {},
		"cores of a task": func(q *slurm.Request) { q.CPUsPerTask++ },
		"cores":           func(q *slurm.Request) { q.CPUs++ },
		"cores of a node": func(q *slurm.Request) { q.CPUsPerNode++ },
		"memory":          func(q *slurm.Request) { q.Memory++ },
		"memory per core": func(q *slurm.Request) { q.MemoryPerCPU = 1 },
		"nodes":           func(q *slurm.Request) { q.Nodes++ },
		"a pin":           func(q *slurm.Request) { q.Pin = []string{"n1"} },
		"another pin":     func(q *slurm.Request) { q.Pin = []string{"n2"} },
		"partitions":      func(q *slurm.Request) { q.Partition = "gpu,big" },
		"the same ones":   func(q *slurm.Request) { q.Partition = "big,gpu" },
		"one of them":     func(q *slurm.Request) { q.Partition = "gpu" },
	}
	for name, change := range changes {
		for other, also := range changes {
			a, b := plainRequest(), plainRequest()
			change(&a)
			also(&b)
			if same := len(requestChanges(nil, &a, &b)) == 0; a.Equal(&b) != same {
				t.Errorf("%s and %s: the same %t, and %d fields would be written", name, other, !same,
					len(requestChanges(nil, &a, &b)))
			}
		}
	}
}

// What a job has stands first, and what it is to have second: without a partition it stays where it is.
func TestAListOfPartitionsIsTheSameInAnyOrder(t *testing.T) {
	for _, c := range []struct {
		has, wants string
		same       bool
	}{
		{"", "", true}, {"a,b", "a,b", true}, {"b,a", "a,b", true}, {"", "a,b", false}, {"a", "a,b", false},
		{"a,b", "a", false}, {"a,b", "", true}, {"a,b", "a,c", false},
	} {
		has, wants := plainRequest(), plainRequest()
		has.Partition, wants.Partition = c.has, c.wants
		if has.Equal(&wants) != c.same {
			t.Errorf("in %q, to be in %q: the same is %t", c.has, c.wants, !c.same)
		}
	}
}

func TestAJobWithoutACheckpointIsToldWhatThatCostsIt(t *testing.T) {
	d := &policy.Decision{Job: 7, Gain: 1}
	for _, c := range []struct {
		saves, profile, lost bool
		told                 bool
	}{{profile: true, told: true}, {profile: true, saves: true}, {profile: true, saves: true, lost: true, told: true},
		{}} {
		tn := read(slurm.Job{ID: 7, State: slurm.Pending})
		tn.directives.Saves = c.saves
		if c.profile {
			tn.profile = steep(t)
		}
		if c.lost {
			tn.record.Lost = NoTrap
		}
		if why := tn.startReason(d); strings.Contains(why, "without synergy-checkpoint") != c.told {
			t.Errorf("%+v: %q", c, why)
		}
	}
}
