package policy

import (
	"fmt"
	"iter"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

func TestWhoIsAheadIsSizedForAServerOfItsOwn(t *testing.T) {
	image, language := paperModel(t, "res18"), paperModel(t, "gnmt")
	node := Node{Name: "n1", Total: gres.Vector{GPUs: 8, CPUs: 24, Memory: 500000}}
	other := node
	other.Name = "n2"
	busy := &Placement{Nodes: []string{"n1"}, PerNode: gres.Vector{GPUs: 8, CPUs: 24, Memory: 500000}}
	at := func(id int) time.Time { return time.Unix(int64(1000+id), 0) }
	unbound := Quota{Name: "GrpJobs of account b", Jobs: 9, Nodes: Unbounded, GPUs: Unbounded, CPUs: Unbounded,
		Memory: Unbounded}
	cores := unbound
	cores.CPUs = 12
	c := Cluster{Quotas: []Quota{cores, unbound}, Now: time.Unix(5000, 0), Nodes: []Node{node, other}, Jobs: []Job{
		{ID: 1, GPUs: 8, Arrival: at(1), Running: busy, Started: at(2)},
		{ID: 2, GPUs: 1, Arrival: at(9), Profile: image, Saves: true},
		{ID: 3, GPUs: 1, Arrival: at(3), Profile: image},
		{ID: 4, GPUs: 2, Arrival: at(4), Profile: language},
		{ID: 5, GPUs: 1, Arrival: at(5), Barred: "held"},
		{ID: 6, GPUs: 9, Arrival: at(6), Nodes: 1},
		{ID: 7, GPUs: 2, Arrival: at(7), Nodes: 2},
		{ID: 8, GPUs: 4, Arrival: at(8), Quotas: []int{1}},
		{ID: 9, GPUs: 4, Arrival: at(8), Quotas: []int{0, 1}},
	}}
	var got []string
	for _, n := range firstOf(9, new(Planner).Ahead(c, FIFO(), Tune())) {
		got = append(got, fmt.Sprintf("%d: %d × %d cores", n.Job, n.Nodes, n.PerNode.CPUs))
	}
	// 3 may not have more than its share, since nobody could ask it to give back; 4 needs less than its share; 2 came
	// last and may have all that it can use; 5 must not start, 6 never can, 9 could exceed what its account may have; 7
	// has no profile and gets its share on each node.
	want := []string{"3: 1 × 3 cores", "4: 1 × 2 cores", "7: 2 × 3 cores", "8: 1 × 12 cores", "2: 1 × 9 cores"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("ahead are %v, want %v", got, want)
	}
	if two := firstOf(2, new(Planner).Ahead(c, FIFO(), Tune())); len(two) != 2 || two[1].Job != 4 {
		t.Errorf("the first two are %v", two)
	}
}

func TestAPlannerThatHasSeenOtherRoundsNamesTheSameAhead(t *testing.T) {
	profiles := paperModels(t)
	rapid.Check(t, func(rt *rapid.T) {
		warm := new(Planner)
		for range 4 {
			c := wild(rt, profiles)
			p := rapid.SampledFrom(Policies()).Draw(rt, "policy")
			got, want := firstOf(8, warm.Ahead(c, p, Tune())), firstOf(8, new(Planner).Ahead(c, p, Tune()))
			if !reflect.DeepEqual(got, want) {
				rt.Fatalf("%v, want %v", got, want)
			}
		}
	})
}

// queued is two full servers, the second one as given, and jobs that wait.
func queued(second gres.Vector, waiting ...Job) Cluster {
	c := Cluster{Now: epoch.Add(time.Hour), Nodes: []Node{
		{Name: "n1", Total: gres.Vector{GPUs: 8, CPUs: 24, Memory: 100000}}, {Name: "n2", Total: second},
	}}
	for i, n := range c.Nodes {
		c.Jobs = append(c.Jobs, Job{ID: i + 1, GPUs: 8, Arrival: epoch, Started: epoch,
			Running: &Placement{Nodes: []string{n.Name}, PerNode: n.Total}})
	}
	c.Jobs = append(c.Jobs, waiting...)
	return c
}

func TestWhoIsAheadNeedNotFitTheFirstServer(t *testing.T) {
	c := queued(gres.Vector{GPUs: 8, CPUs: 24, Memory: 500000}, Job{ID: 3, GPUs: 1, Floor: gres.Vector{Memory: 200000}})
	got := firstOf(1, new(Planner).Ahead(c, FIFO(), Tune()))
	want := []Next{{3, 1, gres.Vector{GPUs: 1, CPUs: 3, Memory: 200000}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestWhoIsAheadHasItsShareOnTheLargerServerToo(t *testing.T) {
	c := queued(gres.Vector{GPUs: 8, CPUs: 48, Memory: 100000}, Job{ID: 3, GPUs: 1})
	got := firstOf(1, new(Planner).Ahead(c, FIFO(), Tune()))
	want := []Next{{3, 1, gres.Vector{GPUs: 1, CPUs: 6, Memory: 12500}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestWhoWaitsForMoreThanRoomTakesNobodysPlaceAhead(t *testing.T) {
	for name, why := range map[string]struct {
		spoil func(c *Cluster, j *Job)
		want  Reason
	}{
		"a reservation":        {func(_ *Cluster, j *Job) { j.TimeLimit = 0 }, InReservation},
		"a quota":              {func(_ *Cluster, j *Job) { j.Quotas = []int{0} }, InQuota},
		"a third node, a gang": {func(_ *Cluster, j *Job) { j.GPUs, j.Nodes = 3, 3 }, Shape},
	} {
		stuck := Job{ID: 3, GPUs: 1, Arrival: epoch, TimeLimit: time.Hour}
		next := Job{ID: 5, GPUs: 1, Arrival: epoch.Add(time.Minute), TimeLimit: time.Hour}
		c := queued(gres.Vector{GPUs: 8, CPUs: 24, Memory: 100000}, stuck, stuck, next)
		c.Quotas = []Quota{{Name: "GrpTRES of account ml", Jobs: Unbounded, Nodes: Unbounded, CPUs: Unbounded,
			Memory: Unbounded}}
		for i := range c.Nodes {
			c.Nodes[i].Reserved = []Reservation{{Name: "maint", From: epoch.Add(5 * time.Hour)}}
		}
		c.Jobs[3].ID = 4
		why.spoil(&c, &c.Jobs[2])
		why.spoil(&c, &c.Jobs[3])
		if got := Decide(c, FIFO(), Tune()).Decisions[2].Reason; got != why.want {
			t.Errorf("%s: job 3 waits for %s, want %s", name, got, why.want)
		}
		if got := firstOf(2, new(Planner).Ahead(c, FIFO(), Tune())); len(got) != 1 || got[0].Job != 5 {
			t.Errorf("%s: ahead are %v, want job 5", name, got)
		}
	}
}

// Slurm starts who is ahead by itself, on a node of its own choice.
func TestWhereverSlurmStartsWhoIsAheadCheckFindsNothingAmiss(t *testing.T) {
	profiles := append(paperModels(t), liars()...)
	rapid.Check(t, func(rt *rapid.T) {
		c := wild(rt, profiles)
		p := rapid.SampledFrom(Policies()).Draw(rt, "policy")
		for _, next := range firstOf(9, new(Planner).Ahead(c, p,
			rapid.SampledFrom(Allocators()).Draw(rt, "allocator"))) {
			could := false
			for at, n := range c.Nodes {
				j := c.Jobs[next.Job-1]
				if !suits(&j, &n) || !next.PerNode.Fits(n.Total) {
					continue
				}
				could = true
				n.Closed, n.Reserved, n.Foreign = "", nil, gres.Vector{}
				alone, on := Cluster{Now: c.Now, Nodes: []Node{n}}, []string{n.Name}
				if next.Nodes > 1 { // beside one like it, and the smallest that is equal to it
					twin, least := n, n
					twin.Name, least.Name, least.Total = n.Name+"+", n.Name+"-", GangTotals(c.Nodes)[at]
					alone.Nodes, on = append(alone.Nodes, twin, least), append(on, twin.Name)
				}
				j.GPUs, j.Nodes, j.Quotas, j.Only, j.Except = next.PerNode.GPUs*len(on), len(on), nil, nil, nil
				alone.Jobs = []Job{j}
				start := Decision{Job: j.ID, Reason: Starts, Grant: &Placement{Nodes: on, PerNode: next.PerNode}}
				if err := Check(alone, Plan{[]Decision{start}}); err != nil {
					rt.Fatal(err)
				}
			}
			if !could {
				rt.Fatalf("job %d: %s fits nowhere", next.Job, next.PerNode)
			}
		}
	})
}

// firstOf are the first so many.
func firstOf(most int, ahead iter.Seq[Next]) (list []Next) {
	for next := range ahead {
		if len(list) == most {
			break
		}
		list = append(list, next)
	}
	return list
}
