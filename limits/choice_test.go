package limits

import (
	"slices"
	"strings"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// between may start in the partition gpu, which has no limits of its own, and in short, which is under the QOS part.
func between(j *Job) { j.Choice = []string{"gpu", "short"} }

func TestAJobOfSeveralPartitionsIsHeldToTheTightestOfThose(t *testing.T) {
	b := site(qos("part", Limit{MaxTRESPerJob, "cpu", 5}), func(s *Site) { s.Partitions[0].MaxMemory = 70_000 })
	if got := ceiling(t, b, waits(1, "alice", between)); got != (gres.Vector{CPUs: 5, Memory: 70_000}) {
		t.Errorf("the ceiling is %v", got)
	}
}

func TestAPartitionInWhichAJobCanNeverStartIsShutToIt(t *testing.T) {
	b := site(qos("part", Limit{MaxTRESPerJob, "gres/gpu", 1}, Limit{MaxTRESPerJob, "cpu", 5},
		Limit{MaxTRESPerUser, "gres/gpu", 4}))
	v := b.Judge([]Job{waits(1, "alice", between, wide(1, 2))})
	if got := v.Terms[0]; got.Never != "" || !slices.Equal(got.Shut, []string{"short"}) ||
		got.Ceiling != (gres.Vector{}) || len(got.Quotas) != 0 {
		t.Errorf("two GPUs, of which short allows one: %+v", got)
	}
	j := waits(1, "alice", wide(1, 2), func(j *Job) { j.Choice = []string{"short", "short2"} })
	b = site(qos("part", Limit{MaxTRESPerJob, "gres/gpu", 1}), func(s *Site) {
		s.Partitions = append(s.Partitions, Partition{Name: "short2", QOS: "part"})
	})
	if got := b.Judge([]Job{j}).Terms[0]; !strings.Contains(got.Never, "allows 1 GPUs, it needs 2 GPUs") ||
		len(got.Shut) != 0 {
		t.Errorf("neither allows two GPUs: %+v", got)
	}
}

func TestAPartitionWhoseLimitIsUsedUpIsShutAsLongAsAnotherIsLeft(t *testing.T) {
	for _, c := range []struct {
		name   string
		limit  Limit
		others []Job
		shut   []string
		quotas int
	}{
		{"two of two GPUs", Limit{MaxTRESPerUser, "gres/gpu", 2},
			[]Job{waits(1, "alice", in("short"), wide(1, 2), runs("n1", 3))}, []string{"short"}, 0},
		{"one of two GPUs", Limit{MaxTRESPerUser, "gres/gpu", 2}, []Job{waits(1, "alice", in("short"), runs("n1", 3))},
			nil, 1},
		{"another user's", Limit{MaxTRESPerUser, "gres/gpu", 2},
			[]Job{waits(1, "bob", in("short"), wide(1, 2), runs("n1", 3))}, nil, 1},
		{"in the other partition", Limit{MaxTRESPerUser, "gres/gpu", 2},
			[]Job{waits(1, "alice", wide(1, 2), runs("n1", 3))}, nil, 1},
		{"others of the QOS, not ours", Limit{GrpTRES, "gres/gpu", 2},
			[]Job{waits(1, "bob", in("short"), wide(1, 2), runs("n1", 3), foreign)}, []string{"short"}, 0},
		{"one of one job", Limit{MaxJobsPerUser, "", 1}, []Job{waits(1, "alice", in("short"), runs("n1", 3))},
			[]string{"short"}, 0},
		{"a node of one", Limit{GrpTRES, "node", 1}, []Job{waits(1, "bob", in("short"), runs("n1", 3))},
			[]string{"short"}, 0},
	} {
		v := site(qos("part", c.limit)).Judge(append(c.others, waits(9, "alice", between)))
		got := v.Terms[len(v.Terms)-1]
		if !slices.Equal(got.Shut, c.shut) || len(got.Quotas) != c.quotas || got.Never != "" {
			t.Errorf("%s: %+v, want shut %v", c.name, got, c.shut)
		}
	}
	both := Limit{GrpTRES, "gres/gpu", 2}
	v := site(account("ml", both)).Judge([]Job{waits(1, "alice", wide(1, 2), runs("n1", 3)),
		waits(2, "alice", between)})
	if got := v.Terms[1]; len(got.Shut) != 0 || !slices.Equal(got.Quotas, []int{0}) {
		t.Errorf("what is used up in all of them keeps it waiting, once: %+v", got)
	}
}

func TestAJobHasTheHighestTierOfItsPartitions(t *testing.T) {
	b := site(func(s *Site) {
		s.Partitions = []Partition{{Name: "gpu", Tier: 2}, {Name: "short", Tier: 7}, {Name: "none"}}
	})
	for _, c := range []struct {
		name string
		job  Job
		tier int
	}{
		{"of one", waits(1, "alice", func(j *Job) { j.Partition = "gpu" }), 2},
		{"of two", waits(1, "alice", func(j *Job) { j.Partition, j.Choice = "gpu", []string{"gpu", "short"} }), 7},
		{"of one that is not known", waits(1, "alice", func(j *Job) { j.Partition = "gone" }), 0},
	} {
		if got := b.Judge([]Job{c.job}).Terms[0].Tier; got != c.tier {
			t.Errorf("%s: tier %d, want %d", c.name, got, c.tier)
		}
	}
}
