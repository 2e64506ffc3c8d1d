package slurmtest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// newDivided is a site of one node with two GPUs, of four shards each.
func newDivided(t *testing.T, together func(int, []int) float64) *site {
	t.Helper()
	nodes := Rack(1, gres.Vector{GPUs: 2, CPUs: 24, Memory: 500 * gres.Gigabyte}, "synergy")
	return newSite(t, Options{Nodes: Divided(nodes, 4), Together: together, Teardown: -1})
}

// sits has a job with one GPU that may not begin yet begin on a GPU beside others.
func (s *site) sits(id int, gpu string) error {
	s.Helper()
	return s.begin(id, func(r *slurm.Request) { r.Shard = gpu })
}

func (s *site) waiting(spec Spec) int {
	s.Helper()
	spec.Begin = noon.Add(24 * time.Hour)
	if spec.Request.GPUs == 0 {
		spec.Request = gpus(1)
	}
	return s.submit(spec)
}

func TestJobsWithAShardOfOneGPUHoldOneGPUTogether(t *testing.T) {
	s := newDivided(t, nil)
	a, b := s.waiting(Spec{}), s.waiting(Spec{})
	s.must(s.sits(a, "g1"))
	s.must(s.sits(b, "g1"))
	s.clock.Advance(2 * time.Second)
	observed, err := s.Observe(context.Background())
	s.must(err)
	if gpus := observed.Nodes[0].Allocated.GPUs; gpus != 1 {
		t.Errorf("%d GPUs are in use, want 1", gpus)
	}
	for _, id := range []int{a, b} {
		j := s.job(id)
		want := slurm.Allocated{Nodes: []string{"n1"}, PerNode: gres.Vector{GPUs: 1, CPUs: 1, Memory: gres.Gigabyte},
			Devices: []string{"shard:1(0/4,1/4)"}, Shard: "g1"}
		if !slices.Equal(j.Runs.Devices, want.Devices) || j.Runs.Shard != "g1" || j.Runs.PerNode != want.PerNode {
			t.Errorf("job %d holds %+v, want %+v", id, j.Runs, want)
		}
		if j.Request.GRES != "gres/shard:g1:1" || j.Request.GPUs != 1 {
			t.Errorf("job %d asks for %+v", id, j.Request)
		}
	}
}

func TestAGPUIsGivenAwayWholeOrInShardsAndNeverBoth(t *testing.T) {
	s := newDivided(t, nil)
	seated := s.waiting(Spec{})
	s.must(s.sits(seated, "g0"))
	s.clock.Advance(2 * time.Second)
	whole, second := s.submit(Spec{Request: gpus(1)}), s.submit(Spec{Request: gpus(1)})
	s.clock.Advance(2 * time.Second)
	if devices := s.job(whole).Runs.Devices; !slices.Equal(devices, []string{"gpu:g0:0(IDX:),gpu:g1:1(IDX:1)"}) {
		t.Errorf("the whole GPU is %q, want the one that nobody has a shard of", devices)
	}
	beside := s.waiting(Spec{})
	s.must(s.sits(beside, "g1"))
	s.clock.Advance(2 * time.Second)
	want := []slurm.State{slurm.Pending, slurm.Pending}
	if got := s.states(second, beside); !slices.Equal(got, want) {
		t.Errorf("who wants a GPU in shards whole, and one that is whole in shards: %v", got)
	}
	s.Cancel(seated)
	s.Cancel(whole)
	s.clock.Advance(2 * time.Second)
	want = []slurm.State{slurm.Running, slurm.Running}
	if got := s.states(second, beside); !slices.Equal(got, want) {
		t.Errorf("when both GPUs are free: %v", got)
	}
}

func TestAGPUOfFourShardsTakesFourJobs(t *testing.T) {
	s := newDivided(t, nil)
	var ids []int
	for range 5 {
		ids = append(ids, s.waiting(Spec{}))
	}
	for _, id := range ids {
		s.must(s.sits(id, "g0"))
	}
	s.clock.Advance(2 * time.Second)
	if got := s.states(ids...); got[3] != slurm.Running || got[4] != slurm.Pending {
		t.Errorf("five jobs on one GPU: %v", got)
	}
}

func TestAJobThatIsRequeuedFromAShardCanHaveItsOwnGPUAgain(t *testing.T) {
	s := newDivided(t, nil)
	id := s.waiting(Spec{})
	own := s.job(id).Request
	s.must(s.sits(id, "g0"))
	s.clock.Advance(2 * time.Second)
	s.must(s.Slurm.Requeue(context.Background(), id))
	s.clock.Advance(5 * time.Second)
	s.must(s.begin(id, func(r *slurm.Request) { *r = own }))
	s.clock.Advance(2 * time.Second)
	if j := s.job(id); j.Runs.Shard != "" || !slices.Equal(j.Runs.Devices, []string{"gpu:g0:1(IDX:0),gpu:g1:0(IDX:)"}) {
		t.Errorf("it holds %+v", j.Runs)
	}
	if altered := s.Altered(); len(altered) > 0 {
		t.Errorf("altered: %v", altered)
	}
}

func TestOnlyAJobThatAsksForOneGPUByNodeIsGivenAShard(t *testing.T) {
	s := newDivided(t, nil)
	for name, request := range map[string]slurm.Request{
		"two GPUs":            gpus(2),
		"memory for each GPU": {GPUs: 1, MemoryPerGPU: 1024},
	} {
		id := s.waiting(Spec{Request: request})
		err := s.begin(id, func(r *slurm.Request) { r.Shard, r.GPUs = "g0", 1 })
		if !errors.Is(err, slurm.ErrRefused) {
			t.Errorf("%s: %v, want a refusal", name, err)
		}
	}
}

func TestJobsOnOneGPURunAtTheSpeedThatTheyHaveTogether(t *testing.T) {
	s := newDivided(t, func(_ int, there []int) float64 { return 1 / float64(len(there)) })
	long := s.waiting(Spec{Work: Work{Length: 100 * time.Second}})
	short := s.waiting(Spec{Work: Work{Length: 20 * time.Second}})
	s.must(s.sits(long, "g0"))
	s.must(s.sits(short, "g0"))
	s.clock.Advance(10 * time.Minute)
	// together for 40 s at half speed, then the rest of the long one, 80 s, alone
	for id, want := range map[int]time.Duration{short: 40 * time.Second, long: 120 * time.Second} {
		run := s.history(id).Runs[0]
		if took := run.Stop.Sub(run.Start).Round(time.Millisecond); took != want {
			t.Errorf("job %d took %s, want %s", id, took, want)
		}
	}
}
