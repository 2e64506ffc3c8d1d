package bridge_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/ledger"
)

const (
	whole = "a100"
	slice = "a100_3g.20gb"
)

// mixed is a node with four GPUs of one type and four of another.
func mixed(name, first, second string) slurm.Node {
	return slurm.Node{Name: name, Total: server, Partitions: []string{"gpu"},
		Types: []slurm.TypedGPUs{{Type: first, Total: 4}, {Type: second, Total: 4}}}
}

func ofType(gpuType string) func(*slurmtest.Spec) {
	return func(s *slurmtest.Spec) { s.Request.GPUType = gpuType }
}

// typesHeld counts the GPUs of each type that a running job has on its nodes.
func (w *world) typesHeld(id int) map[string]int {
	held := map[string]int{}
	for _, printed := range w.job(id).Runs.Devices {
		counts, err := gres.ParseCounts(printed)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, c := range counts {
			if c.Count > 0 {
				held[c.Type] += c.Count
			}
		}
	}
	return held
}

func TestGPUsOfANodeAreCountedByType(t *testing.T) {
	w := newSite(t, []slurm.Node{mixed("n1", whole, slice)})
	var jobs []int
	for range 5 {
		jobs = append(jobs, w.submit(1, model("gnmt"), ofType(whole)))
	}
	for range 4 {
		jobs = append(jobs, w.submit(1, model("gnmt"), ofType(slice)))
	}
	report := w.round()
	for i, id := range jobs {
		j, want := w.job(id), whole
		if i > 4 {
			want = slice
		}
		switch {
		case i == 4 && (j.State != slurm.Pending || !strings.Contains(why(report, id), "GPU")):
			t.Errorf("the fifth job for four GPUs of type %s is %s: %s", whole, j.State, why(report, id))
		case i != 4 && (j.State != slurm.Running || w.typesHeld(id)[want] != 1):
			t.Errorf(
				"job %d is %s with %v, want one of type %s: %s",
				id,
				j.State,
				w.typesHeld(id),
				want,
				why(report, id),
			)
		}
	}
}

func TestAJobOfNoTypeIsGivenTheTypeOfItsPlaceAndItsOwnRequestBack(t *testing.T) {
	for _, forgets := range []bool{false, true} {
		w := newSite(t, []slurm.Node{mixed("n1", whole, slice)})
		for range 4 {
			w.submit(1, model("gnmt"), ofType(whole))
		}
		id := w.submit(1, model("gnmt"))
		w.round()
		if held, asks := w.typesHeld(id), w.job(id).Request; held[slice] != 1 || asks.GRES != "gres/gpu:"+slice+":1" {
			t.Fatalf("beside four jobs on all of %s it has %v and asks for %+v", whole, held, asks)
		}
		if forgets {
			w.book = &ledger.Memory{}
			w.start(nil)
			w.round()
		}
		w.slurm.Drain("n1")
		if err := w.slurm.Requeue(ctx, id); err != nil {
			t.Fatal(err)
		}
		w.rounds(2)
		if j := w.job(id); j.State != slurm.Pending || j.Request.GRES != "gres/gpu:1" || j.Request.GPUType != "" {
			t.Errorf("daemon forgets: %v: it waits with %+v, its user said gres/gpu:1", forgets, j.Request)
		}
	}
}

func TestAGangOfNoTypeIsOnDifferentNodes(t *testing.T) {
	w := newSite(t, []slurm.Node{mixed("n1", whole, slice), mixed("n2", whole, slice)})
	over2 := func(s *slurmtest.Spec) { s.Request.Nodes, s.Request.Tasks = 2, 2 }
	id := w.submit(4, model("gnmt"), over2)
	w.slurm.Drain("n2")
	w.round()
	if j := w.job(id); j.State != slurm.Pending {
		t.Errorf("%s on %v", j.State, j.Runs.Nodes)
	}
	w.slurm.Resume("n2")
	w.round()
	if j := w.job(id); j.State != slurm.Running || !slices.Equal(j.Runs.Nodes, []string{"n1", "n2"}) {
		t.Errorf("%s on %v", j.State, j.Runs.Nodes)
	}
}

func TestAJobThatHoldsGPUsOfSeveralTypesIsLeftAsItIs(t *testing.T) {
	w := newSite(t, []slurm.Node{mixed("n1", whole, slice)})
	w.runner.Settings.PreemptWithoutCheckpoint = true
	both := w.submit(6, model("gnmt"), func(s *slurmtest.Spec) { s.Lease = 0 }) // starts before the first round
	w.sleep(time.Second)
	ours := w.submit(2, model("gnmt"), ofType(slice))
	w.rounds(3)
	if j := w.job(both); j.State != slurm.Running || j.Restarts != 0 {
		t.Errorf("it is %s after %d restarts", j.State, j.Restarts)
	}
	if w.typesHeld(ours)[slice] != 2 {
		t.Errorf("beside it a job has %v", w.typesHeld(ours))
	}
}

// Whatever mix of jobs, with the word and without it, comes to nodes of several types: no plan is refused by the check,
// what Slurm holds is never more than it has of a type (its invariants look at every event), every job has what it
// asked for, and none with the word waits when there is nobody else.
func TestJobsOnNodesOfSeveralTypesRunAsTheyAsked(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		nodes := []slurm.Node{mixed("n1", whole, slice)}
		if rapid.Bool().Draw(rt, "second mixed node") {
			nodes = append(nodes, mixed("n10", "tesla", whole))
		}
		if rapid.Bool().Draw(rt, "plain node") {
			nodes = append(nodes, slurm.Node{Name: "n2", Total: server, Partitions: []string{"gpu"}, GPUType: whole})
		}
		w := newSite(t, nodes)
		var managed []int
		for k := range rapid.IntRange(1, 12).Draw(rt, "jobs") {
			gpus := rapid.IntRange(1, 4).Draw(rt, fmt.Sprint("GPUs of ", k))
			gpuType := rapid.SampledFrom([]string{"", whole, slice}).Draw(rt, fmt.Sprint("type of ", k))
			of := []func(*slurmtest.Spec){ofType(gpuType), length(10 * time.Minute)}
			if rapid.IntRange(0, 3).Draw(rt, fmt.Sprint("without the word ", k)) == 0 {
				cores := rapid.IntRange(1, 20).Draw(rt, fmt.Sprint("cores of ", k))
				w.submit(gpus, "", append(of, func(s *slurmtest.Spec) {
					s.Lease, s.Request.CPUs, s.Request.CPUsPerTask = 0, cores, cores
				})...)
			} else {
				managed = append(managed, w.submit(gpus, model("gnmt"), of...))
			}
			if rapid.Bool().Draw(rt, fmt.Sprint("a round after ", k)) {
				w.rounds(1)
			}
		}
		for range 30 {
			w.rounds(1)
			for _, id := range managed {
				if j := w.job(id); j.State == slurm.Running && j.Request.GPUType != "" &&
					w.typesHeld(id)[j.Request.GPUType] != j.Request.GPUs {
					rt.Fatalf("job %d asks for %d of %s and has %v", id, j.Request.GPUs, j.Request.GPUType,
						w.typesHeld(id))
				}
			}
		}
		for _, id := range managed {
			if h, _ := w.slurm.History(id); h.End != slurmtest.Completed {
				rt.Fatalf("job %d has not run: %+v", id, h)
			}
		}
		if t.Failed() {
			rt.FailNow()
		}
	})
}
