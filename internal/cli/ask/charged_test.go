package ask

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/billing"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/story"
)

// runsOf are the runs of a job one after the other, each for an hour, with so many cores.
func runsOf(job int, user string, submitted time.Time, cores ...int) (runs []story.Run) {
	for k, n := range cores {
		began := submitted.Add(time.Duration(k) * time.Hour)
		runs = append(runs, story.Run{Job: job, User: user, Submitted: submitted, Began: began,
			Ended: began.Add(time.Hour), Held: policy.Placement{Nodes: []string{"n1"},
				PerNode: gres.Vector{GPUs: 1, CPUs: n, Memory: 1024}}})
	}
	return runs
}

var long = 1000 * time.Hour

// Seen live on 24.11.5 and 26.05.5: a job that grew from 3 to 6 cores pays for 3, one that shrank from 18 to 6 for 18.
func TestAResizedJobIsChargedItsFirstRunAndOwesTheDifference(t *testing.T) {
	noon := time.Date(2026, 10, 23, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		cores         []int
		charged, owes float64
	}{{[]int{3, 6}, 6, 3}, {[]int{18, 6}, 36, -12}, {[]int{3, 6, 9, 3}, 12, 9}, {[]int{4}, 4, 0}} {
		runs := runsOf(1, "alice", noon, c.cores...)
		got := billsOf(runs, firstRuns(runs), billing.Cores(), noon, noon.Add(long))
		if len(got) != 1 || got[0].Charged != c.charged || got[0].owes() != c.owes {
			t.Errorf("%v cores: %+v, want charged %g and %+g", c.cores, got, c.charged, c.owes)
		}
		late := noon.Add(90 * time.Minute) // the first run stands for the others, though it is over before
		if of := billsOf(
			runs[len(runs)-1:],
			firstRuns(runs),
			billing.Cores(),
			late,
			noon.Add(long),
		); len(
			c.cores,
		) == 2 &&
			of[0].Charged != float64(c.cores[0])/2 {
			t.Errorf("%v cores, half an hour of the second run: %+v", c.cores, of)
		}
	}
}

// By GPUs alone nobody ever owes anything, whatever sizes jobs had; and by cores what all owe is what they were given
// beyond their first runs.
func TestByGPUsAloneNobodyOwesAnything(t *testing.T) {
	noon := time.Date(2026, 10, 23, 12, 0, 0, 0, time.UTC)
	gpus, err := billing.Parse("CPU=0,Mem=0,GRES/gpu=1")
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		var runs []story.Run
		want := 0.
		for job := range rapid.IntRange(1, 5).Draw(t, "jobs") {
			cores := rapid.SliceOfN(rapid.IntRange(1, 24), 1, 5).Draw(t, "cores")
			for _, n := range cores {
				want += float64(n - cores[0])
			}
			runs = append(runs, runsOf(job, rapid.SampledFrom([]string{"a", "b"}).Draw(t, "user"), noon, cores...)...)
		}
		runs = rapid.Permutation(runs).Draw(t, "order")
		first, owed := firstRuns(runs), 0.
		for _, b := range billsOf(runs, first, gpus, noon, noon.Add(long)) {
			if b.owes() != 0 || b.Given != float64(b.Runs) {
				t.Fatalf("by GPUs alone: %+v", b)
			}
		}
		for _, b := range billsOf(runs, first, billing.Cores(), noon, noon.Add(long)) {
			owed += b.owes()
		}
		if math.Abs(owed-want) > 1e-6 {
			t.Fatalf("%g core-hours are owed, want %g", owed, want)
		}
	})
}
