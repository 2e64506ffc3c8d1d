package whatif_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/plugin/exam"
	"github.com/synergy-slurmd/synergy-slurmd/policy/whatif"
	"github.com/synergy-slurmd/synergy-slurmd/share"
)

func search(t *testing.T, c whatif.Case, job int) whatif.Found {
	t.Helper()
	found, err := whatif.Search(c, job, whatif.Options{Begin: searchOnly()})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// searchOnly has no time for looking ahead, which comes first, and all that it takes for trying.
func searchOnly() func() func() bool {
	begun := 0
	return func() func() bool {
		begun++
		ahead := begun == 1
		return func() bool { return ahead }
	}
}

// started are the answers of all that would start the job.
func started(found whatif.Found) (said []string) {
	for _, t := range found.Tries {
		if t.Starts {
			said = append(said, t.Sentence)
		}
	}
	return said
}

// TestEachKindOfChangeIsToldAsItsUserWouldWriteIt has jobs that wait for one thing each, and all that would start them.
func TestEachKindOfChangeIsToldAsItsUserWouldWriteIt(t *testing.T) {
	half := func() []policy.Job { return []policy.Job{runs(1, 8, "n1"), runs(2, 4, "n2")} }
	for _, one := range []struct {
		what string
		c    whatif.Case
		want []string
	}{
		{"on two nodes there is room for as many", site(runs(1, 4, "n1"), runs(2, 4, "n2"), waiting(5, 8, 1)),
			[]string{"if it asked for 2 nodes instead of 1", "if it asked for 4 GPUs on one node instead of 8"}},
		{"on one node, and two are wanted", site(runs(1, 8, "n1"), runs(2, 4, "n2"), waiting(5, 4, 2)),
			[]string{"if it asked for one node instead of 2",
				"if it asked for 2 GPUs on one node instead of 4 on 2 nodes"}},
		{"a third of them is free, and no half", site(runs(1, 8, "n1"), runs(2, 6, "n2"), waiting(5, 6, 1)),
			[]string{"if it asked for 2 GPUs on one node instead of 6"}},
		{"what feeds the GPUs was asked for, too", site(append(half(), with(waiting(5, 8, 1), func(j *policy.Job) {
			j.Floor = gres.Vector{CPUs: 32, Memory: 500 * gres.Gigabyte}
		}))...), []string{"if it asked for 4 GPUs on one node instead of 8, with cores and memory in proportion"}},
		{"maintenance comes before it would end", closing(site(with(waiting(5, 8, 1), func(j *policy.Job) {
			j.TimeLimit = 10 * time.Hour
		}))), []string{"with a time limit of 2h55m instead of 10h0m"}},
		{"maintenance comes, and it has no limit", closing(site(waiting(5, 8, 1))),
			[]string{"with a time limit of 2h55m instead of none"}},
		{"maintenance comes before all that it has to do", closing(site(with(waiting(5, 8, 1), func(j *policy.Job) {
			j.Length = 4 * time.Hour
		}))), nil},
		{"its type of GPU is taken", typed(site(runs(1, 8, "n1"), with(waiting(5, 4, 1), func(j *policy.Job) {
			j.GPUType = "a100"
		}))), []string{"if any type of GPU would do for it and not a100 alone"}},
		{"one of two features is in its way", typed(site(runs(1, 8, "n1"), with(waiting(5, 4, 1), func(j *policy.Job) {
			j.Features = []string{"ib", "nvme"}
		}))), []string{"if its nodes needed no feature ib"}},
		{"its nodes are taken", site(runs(1, 8, "n1"), with(waiting(5, 4, 1), func(j *policy.Job) {
			j.Only = []string{"n1"}
		})), []string{"if it might run on other nodes than n1, by its partition and its node list"}},
		{"it excludes the node that is free", site(runs(1, 8, "n1"), with(waiting(5, 4, 1), func(j *policy.Job) {
			j.Except = []string{"n2"}
		})), []string{"if it did not exclude n2"}},
		{"neither type nor nodes alone are in its way", typed(site(runs(1, 8, "n1"),
			with(waiting(5, 4, 1), func(j *policy.Job) { j.GPUType, j.Only = "a100", []string{"n1"} }))),
			[]string{"if it suited any node"}},
		{"more cores than are free", site(append(half(), with(waiting(5, 4, 1), func(j *policy.Job) {
			j.Floor = gres.Vector{CPUs: 30}
		}))...), []string{"if it asked for 16 cores a node instead of 30",
			"if it asked for 2 GPUs on one node instead of 4, with cores and memory in proportion"}},
		{"more memory than is free", site(append(half(), with(waiting(5, 4, 1), func(j *policy.Job) {
			j.Pace = gres.Vector{Memory: 400 * gres.Gigabyte}
		}))...), []string{"if it asked for 250G of memory a node instead of 400G",
			"if it asked for 2 GPUs on one node instead of 4, with cores and memory in proportion"}},
		{"more of both", site(append(half(), with(waiting(5, 4, 1), func(j *policy.Job) {
			j.Floor = gres.Vector{CPUs: 30, Memory: 400 * gres.Gigabyte}
		}))...), []string{"if it named no cores and no memory",
			"if it asked for 2 GPUs on one node instead of 4, with cores and memory in proportion"}},
		{"what is free is kept for who has waited long", kept(),
			[]string{"if it declared a checkpoint", "if it went first"}},
		{"it has no GPU of its own", seats(), []string{"if it shared a GPU and needed at most 20 GiB of it " +
			"(synergy-share=low,mem=20), at 0.50 of the speed of its share; job 3 would train 50 % less"}},
		{"another goes first", site(runs(1, 8, "n1"), waiting(4, 8, 1), waiting(5, 8, 1)),
			[]string{"if it went first; job 4 would wait for that and not start now"}},
		{"it could be given the place of one who runs", site(runs(1, 8, "n1"), with(runs(2, 8, "n2"),
			func(j *policy.Job) { j.Fixed, j.Saves = false, true }), waiting(5, 8, 1)),
			[]string{"if it went first; job 2 would be stopped or restarted for that"}},
	} {
		found := search(t, one.c, 5)
		var want []string
		for _, how := range one.want {
			want = append(want, "job 5 would start now "+how)
		}
		if got := started(found); !slices.Equal(got, want) {
			t.Errorf("%s: %q,\nwant %q; %s", one.what, got, want, found.Sentence)
		}
		if len(want) > 0 && found.Sentence != want[0] {
			t.Errorf("%s: %q, want %q", one.what, found.Sentence, want[0])
		}
	}
}

func with(j policy.Job, change func(j *policy.Job)) policy.Job {
	change(&j)
	return j
}

// closing has maintenance on all nodes from three hours on.
func closing(c whatif.Case) whatif.Case {
	for i := range c.Cluster.Nodes {
		c.Cluster.Nodes[i].Reserved = []policy.Reservation{{Name: "maint", From: noon.Add(3 * time.Hour)}}
	}
	return c
}

// typed has A100s on n1, with InfiniBand, and V100s on n2; and fast disks on both.
func typed(c whatif.Case) whatif.Case {
	c.Cluster.Nodes[0].GPUType, c.Cluster.Nodes[1].GPUType = "a100", "v100"
	c.Cluster.Nodes[0].Features, c.Cluster.Nodes[1].Features = []string{"ib", "nvme"}, []string{"nvme"}
	return c
}

// kept has half a node free, which is kept for job 4. Job 5 could not be asked to give it back.
func kept() whatif.Case {
	first := with(waiting(4, 8, 1), func(j *policy.Job) { j.Arrival = noon.Add(-20 * time.Hour) })
	last := with(waiting(5, 4, 1), func(j *policy.Job) { j.Saves = false })
	return site(runs(1, 8, "n1"), runs(2, 4, "n2"), first, last)
}

// seats has GPUs of 40 GiB on n2 that jobs can share, of which the last is that of job 3. All are in use.
func seats() whatif.Case {
	c := site(runs(1, 8, "n1"), with(runs(2, 7, "n2"), func(j *policy.Job) {
		j.Running.PerNode.CPUs, j.Running.PerNode.Memory = 24, 375*gres.Gigabyte
	}), sharer(3), waiting(5, 1, 1))
	for k := range 8 {
		d := policy.Device{Name: fmt.Sprintf("g%d", k), Memory: 40 * 1024, Slots: 4}
		if k < 7 {
			d.Job = 2
		}
		c.Cluster.Nodes[1].Devices = append(c.Cluster.Nodes[1].Devices, d)
	}
	return c
}

// lowOf10 is what a job says that may be slowed down and needs ten GiB.
var lowOf10 = share.Request{Class: share.Low, Memory: 10 * 1024}

// sharer is an unimportant job on the last GPU of n2.
func sharer(id int) policy.Job {
	j := runs(id, 1, "n2")
	j.Share = &lowOf10
	j.Running.Device = "g7"
	return j
}

func TestOfAJobThatNothingStartsTheReasonWhatWasTriedAndTheTimeAreSaid(t *testing.T) {
	found, err := whatif.Search(site(runs(1, 8, "n1"), runs(2, 8, "n2"), waiting(5, 8, 1)), 5, whatif.Options{})
	if err != nil {
		t.Fatal(err)
	}
	mustSay(t, found.Sentence, "job 5 waits: no GPU is free, it needs 8; none of the jobs that run has to give way to "+
		"it; nothing that was tried would start it now: another spread over nodes, fewer GPUs (5), going first; it is "+
		"expected to start about 2026-01-0")
	for job, want := range map[int]string{1: "job 1 runs already", 6: "job 6 starts now",
		7: "job 7 may not start yet"} {
		barred := waiting(7, 1, 1)
		barred.Barred = "waits for another job"
		found, err := whatif.Search(site(runs(1, 8, "n1"), waiting(6, 8, 1), barred), job, whatif.Options{})
		if err != nil {
			t.Fatal(err)
		}
		mustSay(t, found.Sentence, want)
	}
	if _, err := whatif.Search(site(), 9, whatif.Options{}); err == nil {
		t.Error("a job that nobody knows was looked into")
	}
}

func TestASearchThatRanOutOfTimeSaysSo(t *testing.T) {
	now := func() func() bool { return func() bool { return true } }
	found, err := whatif.Search(site(runs(1, 8, "n1"), runs(2, 8, "n2"), waiting(5, 8, 1)), 5,
		whatif.Options{Begin: now})
	if err != nil || !found.Cut || len(found.Tries) > 0 {
		t.Errorf("%+v, %v: want that nothing was tried, and that it says so", found, err)
	}
	mustSay(t, found.Sentence, "there was no time for any")
}

// TestWhatIsSaidToStartAJobDoesAndTakesFromOthersNoMoreThanIsSaid makes each change that is said to start a job in the
// snapshot, and has it planned by a planner that knows nothing of the search.
func TestWhatIsSaidToStartAJobDoesAndTakesFromOthersNoMoreThanIsSaid(t *testing.T) {
	kinds := map[string]int{}
	for n, c := range anything() {
		before := policy.Decide(c.Cluster, c.Policy, c.Allocator)
		for _, d := range before.Decisions {
			if d.Grant != nil || d.Job%5 > 0 {
				continue
			}
			for _, try := range search(t, c, d.Job).Tries {
				if !try.Starts {
					continue
				}
				kinds[try.Kind]++
				would, err := c.With(try.Made)
				if err != nil {
					t.Fatal(err)
				}
				after := policy.Decide(would.Cluster, would.Policy, would.Allocator)
				if err := policy.Check(would.Cluster, after); err != nil {
					t.Fatalf("snapshot %d, %s: %v", n, try.Sentence, err)
				}
				holdToItsWord(t, fmt.Sprintf("snapshot %d, %s", n, try.Sentence), &try, d.Job, before, after)
			}
		}
	}
	for _, kind := range []string{"another spread over nodes", "a shorter time limit", "fewer restrictions to nodes",
		"less cores or memory", "a checkpoint", "fewer GPUs", "sharing a GPU", "going first"} {
		if kinds[kind] == 0 {
			t.Errorf("%s has started no job in any snapshot: %v", kind, kinds)
		}
	}
}

// anything is random clusters under every policy, some with jobs that share GPUs, and two that are not met by chance.
func anything() []whatif.Case {
	cases := []whatif.Case{kept(), seats()}
	for n := range 80 {
		c := whatif.Case{Cluster: exam.Snapshot(11, n), Policy: policy.Policies()[n%len(policy.Policies())],
			Allocator: policy.Tune()}
		withDevices(&c.Cluster)
		cases = append(cases, c)
	}
	return cases
}

// withDevices says of a snapshot's first nodes which GPUs they have, so that jobs can share those that nobody uses.
func withDevices(c *policy.Cluster) {
	for i := range c.Nodes[:min(2, len(c.Nodes))] {
		n := &c.Nodes[i]
		taken := 0
		var owners []int
		for _, j := range c.Jobs {
			if j.Running != nil && slices.Contains(j.Running.Nodes, n.Name) {
				for range j.Running.PerNode.GPUs {
					owners = append(owners, j.ID)
				}
			}
		}
		for k := range n.Total.GPUs {
			d := policy.Device{Name: fmt.Sprintf("g%d", k), Memory: 80 * 1024, Slots: 4}
			switch {
			case k < len(owners):
				d.Job = owners[k]
			case taken < n.Foreign.GPUs:
				d.Foreign, taken = true, taken+1
			}
			n.Devices = append(n.Devices, d)
		}
		for k := range c.Jobs { // whoever has a GPU of such a node to himself may let others on it
			j := &c.Jobs[k]
			if j.Running != nil && j.GPUs == 1 && j.Running.Nodes[0] == n.Name && len(owners) <= n.Total.GPUs {
				j.Share, j.Running = &lowOf10, sitting(j.Running, n.Devices[slices.Index(owners, j.ID)].Name)
				n.Devices[slices.Index(owners, j.ID)].Job = 0
			}
		}
	}
}

func sitting(p *policy.Placement, device string) *policy.Placement {
	return &policy.Placement{Nodes: p.Nodes, PerNode: p.PerNode, Device: device}
}

// holdToItsWord compares two plans with what was said of them.
func holdToItsWord(t *testing.T, what string, said *whatif.Try, job int, before, after policy.Plan) {
	t.Helper()
	others := whatif.Others{}
	if said.Others != nil {
		others = *said.Others
	}
	for i, is := range before.Decisions {
		would := after.Decisions[i]
		switch {
		case is.Job == job && would.Grant == nil:
			t.Fatalf("%s: it waits: %s", what, would.Why)
		case is.Job == job || is.Grant == nil:
		case would.Grant == nil && !slices.Contains(others.Wait, is.Job) && !slices.Contains(others.Stop, is.Job):
			t.Fatalf("%s: nothing is said of job %d, which has nothing then", what, is.Job)
		case would.Grant != nil && would.Gain < is.Gain*(1-others.Loss)-1e-9 && would.Gain < is.Gain*0.995:
			t.Fatalf("%s: job %d trains %.3f and not %.3f, which is more than %.3f less", what, is.Job, would.Gain,
				is.Gain, others.Loss)
		}
	}
	for _, id := range slices.Concat(others.Wait, others.Stop) {
		k := slices.IndexFunc(before.Decisions, func(d policy.Decision) bool { return d.Job == id })
		if is, would := before.Decisions[k], after.Decisions[k]; is.Grant == nil ||
			would.Grant != nil && would.Grant.Equal(*is.Grant) {
			t.Fatalf("%s: job %d has what it has either way", what, id)
		}
	}
	if strings.Contains(said.Sentence, "would train") != (len(others.Slow) > 0) {
		t.Fatalf("%s: slower are %v", what, others.Slow)
	}
}

func TestTheOrderOfJobsAndNodesChangesNoAnswer(t *testing.T) {
	for n := range 30 {
		c := whatif.Case{Cluster: exam.Snapshot(12, n), Policy: policy.FIFO(), Allocator: policy.Tune()}
		turned := c
		turned.Cluster.Jobs, turned.Cluster.Nodes = slices.Clone(c.Cluster.Jobs), slices.Clone(c.Cluster.Nodes)
		slices.Reverse(turned.Cluster.Jobs)
		slices.Reverse(turned.Cluster.Nodes)
		for _, j := range c.Cluster.Jobs[:min(3, len(c.Cluster.Jobs))] {
			is, other := search(t, c, j.ID), search(t, turned, j.ID)
			if a, b := strings.Join(started(is), "\n"), strings.Join(started(other), "\n"); a != b ||
				len(is.Tries) != len(other.Tries) {
				t.Fatalf("snapshot %d, job %d: %s\nand\n%s", n, j.ID, a, b)
			}
		}
	}
}
