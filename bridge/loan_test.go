package bridge_test

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// plain is a job without the word.
func plain(s *slurmtest.Spec) { s.Lease = 0 }

// inside has a job submitted to a partition.
func inside(partition string) func(*slurmtest.Spec) {
	return func(s *slurmtest.Spec) { s.Partition = partition }
}

// One that saves has all cores of the server beside four idle GPUs; then come jobs that lack nothing but a lent core.
func TestAJobWithoutTheWordHasWhatWasLentWithinSeconds(t *testing.T) {
	for _, partition := range []string{"gpu", "other"} {
		w := newWorld(t, 1, server)
		w.runner.Settings.Rules.MinRun = 10 * time.Minute
		lender := w.submit(4, model("res18"), saves(20*time.Second), forAges)
		w.rounds(1)
		w.mustRun(lender, "n1", 24)
		first := w.submit(1, "", plain, inside(partition), forAges)
		second := w.submit(1, "", plain, inside(partition), forAges)
		for range 10 {
			w.small()
			w.sleep(time.Second)
		}
		for _, id := range []int{first, second} {
			if w.job(id).State != slurm.Running {
				t.Errorf("partition %s: job %d still waits for what was lent", partition, id)
			}
		}
		w.mustRun(lender, "n1", 16) // two cores are taken, and two free GPUs keep their share
		if n := w.line.Count(slurmtest.Signal); n != 1 {
			t.Errorf("partition %s: the lender was asked %d times", partition, n)
		}
	}
}

// Slurm takes a feature of several for any of them.
func TestALoanIsCalledBackForAJobThatNamesAlternativeFeatures(t *testing.T) {
	nodes := slurmtest.Rack(1, server, "gpu")
	nodes[0].Features = []string{"a100"}
	w := newSite(t, nodes)
	lender := w.submit(4, model("res18"), saves(20*time.Second), forAges)
	w.rounds(1)
	w.mustRun(lender, "n1", 24)
	id := w.submit(1, "", plain, forAges, func(s *slurmtest.Spec) { s.Features = []string{"h100|a100"} })
	for range 10 {
		w.small()
		w.sleep(time.Second)
	}
	if w.job(id).State != slurm.Running {
		t.Errorf("it still waits for what was lent")
	}
}

// One that saves has all cores of the server beside four idle GPUs; jobs without the word come one after the other.
func TestWhatAJobWithoutTheWordHadToWaitForIsNotLentAgain(t *testing.T) {
	for _, length := range []time.Duration{20 * time.Second, 10 * time.Minute} {
		w := newWorld(t, 1, server)
		lender := w.submit(4, model("res18"), saves(20*time.Second), forAges)
		w.rounds(1)
		w.mustRun(lender, "n1", 24)
		late := 0
		for second := range 300 {
			if second%40 == 0 && second < 300-40 {
				id := w.submit(
					1,
					"",
					plain,
					func(s *slurmtest.Spec) { s.Request.CPUsPerTask, s.Work.Length = 3, length },
				)
				w.sleep(2 * time.Second)
				if second/40 < 4 && w.job(id).State != slurm.Running {
					late++
				}
			}
			w.small()
			w.sleep(time.Second)
		}
		w.rounds(2)
		if late > 2 || w.line.Count(slurmtest.Signal) > 2 {
			t.Errorf("jobs of %s: %d of 4 waited for what was lent, and the lender was stopped %d times", length, late,
				w.line.Count(slurmtest.Signal))
		}
	}
}

// Two lenders on two servers, and twelve jobs of one GPU without the word that come 20 s apart and stay: over all
// shapes of both, two lenders are stopped at most three times together, and not for each job.
func TestALenderIsNotStoppedForEachOfTwelveJobsWithoutTheWord(t *testing.T) {
	stops, lenders := 0, 0
	for _, byTheCore := range []bool{false, true} {
		for shape := range 18 {
			gpus, cores := 1+shape/3, 1+shape%3
			w := newWorld(t, 2, server)
			for range 2 {
				lenders++
				w.submit(gpus, model("res18"), saves(2*time.Second), forAges, func(s *slurmtest.Spec) {
					if byTheCore {
						s.Request.Memory, s.Request.MemoryPerCPU = 0, 1000
					}
				})
			}
			w.rounds(1)
			for second := range 300 {
				if second%20 == 0 && second < 240 {
					w.submit(1, "", plain, forAges, func(s *slurmtest.Spec) { s.Request.CPUsPerTask = cores })
				}
				w.small()
				w.sleep(time.Second)
			}
			stops += w.line.Count(slurmtest.Signal)
		}
	}
	if stops > 3*lenders/2 {
		t.Errorf("%d lenders were stopped %d times", lenders, stops)
	}
}

// Two that save hold all cores of the server beside six idle GPUs; a job without the word of the lowest priority waits
// for more cores than were lent, or for just as many.
func TestAWaitingJobOfTheLowestPriorityKeepsNobodyFromItsShare(t *testing.T) {
	for _, c := range []struct{ lenders, gpus, cores int }{
		{1, 1, 22}, {1, 1, 21}, {2, 1, 12}, {2, 1, 1}, {1, 5, 5}, {2, 6, 6}, {1, 1, 24}, {2, 8, 8},
	} {
		for _, partition := range []string{"gpu", "other"} {
			w := newWorld(t, 1, server)
			w.runner.Settings.Policy, w.runner.Settings.Ahead = policy.Slurm(), 32
			w.runner.Profiles = w.lies
			for range c.lenders {
				w.submit(1, model("liar"), saves(20*time.Second), forAges)
			}
			w.rounds(2)
			w.submit(c.gpus, "", plain, inside(partition), forAges, func(s *slurmtest.Spec) {
				s.Priority, s.Request.CPUsPerTask = -1000, c.cores
			})
			var honest []int
			for range 4 {
				honest = append(honest, w.submit(1, model("res18"), saves(20*time.Second), forAges))
			}
			w.rounds(3)
			if n := running(w, honest); n < 4 {
				t.Errorf("%+v in %s: %d of 4 have their share", c, partition, n)
			}
		}
	}
}

// Newcomers lack nothing but cores that were lent a moment ago.
func TestANewcomerDoesNotWaitForTheRunOfALenderToBeOldEnough(t *testing.T) {
	w := newWorld(t, 1, server)
	w.runner.Settings.Rules.MinRun = 10 * time.Minute
	lender := w.submit(4, model("res18"), saves(20*time.Second), forAges)
	w.rounds(1)
	w.mustRun(lender, "n1", 24)
	mine := []int{w.submit(2, model("res18"), saves(20*time.Second), forAges),
		w.submit(2, model("res18"), saves(20*time.Second), forAges)}
	for range 15 {
		w.small()
		w.sleep(time.Second)
	}
	if n := running(w, mine); n != 2 || w.job(lender).State != slurm.Running {
		t.Errorf("%d of 2 newcomers run, the lender is %s", n, w.job(lender).State)
	}
}

// patient is how long a job without the word may wait for what was lent: until a look sees it, the lender has saved,
// and Slurm has cleaned up and looked.
const patient = 15 * time.Second

// TestNoGPUIdlesBesideALoanForWhichAJobWithoutTheWordWaits: random mixes of jobs with and without the word, in managed
// and other partitions, of those with a checkpoint and without, on two nodes.
func TestNoGPUIdlesBesideALoanForWhichAJobWithoutTheWordWaits(t *testing.T) {
	for seed := range uint64(12) {
		w := newWorld(t, 2, server)
		chance := rand.New(rand.NewPCG(seed, 1))
		w.runner.Settings.Rules.MinRun = 10 * time.Minute
		w.runner.Settings.Policy = []policy.Policy{policy.FIFO(), policy.LAS(), policy.Slurm()}[chance.IntN(3)]
		w.runner.Settings.Ahead, w.runner.Settings.Watched = []int{0, 32}[chance.IntN(2)], true
		var without []int
		since := map[int]time.Time{}
		for second := range 600 {
			if chance.IntN(20) == 0 && second < 450 {
				if id := w.draw(chance); id > 0 {
					without = append(without, id)
				}
			}
			if second%300 == 0 {
				w.round()
			} else {
				w.small()
			}
			w.sleep(time.Second)
			w.mustHaveTheLoans(seed, without, since)
		}
	}
}

// draw submits a job. It returns the number of one without the word.
func (w *world) draw(chance *rand.Rand) int {
	gpus := []int{1, 1, 1, 2, 2, 4, 6, 8}[chance.IntN(8)]
	byTheCore := chance.IntN(2) == 0
	length := func(s *slurmtest.Spec) {
		s.Work.Length = time.Duration(20+chance.IntN(400)) * time.Second
		s.Priority = int64(chance.IntN(3))
		if byTheCore {
			s.Request.Memory, s.Request.MemoryPerCPU = 0, 1000
		}
	}
	name := []string{"res18", "gnmt", "alexnet", "res50"}[chance.IntN(4)]
	switch chance.IntN(4) {
	case 0:
		w.submit(gpus, "synergy-profile="+name+".json", length)
	case 1:
		w.submit(gpus, model(name), length)
	default:
		return w.submit(gpus, "", plain, inside([]string{"gpu", "other"}[chance.IntN(2)]), length,
			func(s *slurmtest.Spec) { s.Request.CPUsPerTask = 1 + chance.IntN(min(24, 4*gpus)) })
	}
	return 0
}

// mustHaveTheLoans says by itself what it means that a job lacks only what was lent: it would fit beside the others if
// those with the word held no more than their shares, and nobody whom Slurm considers first would have the place of a
// lender while that saves.
func (w *world) mustHaveTheLoans(seed uint64, without []int, since map[int]time.Time) {
	w.t.Helper()
	seen, err := w.slurm.Observe(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	room, vacated := map[string]gres.Vector{}, map[string]gres.Vector{}
	for _, n := range seen.Nodes {
		room[n.Name] = n.Total.Minus(n.Allocated)
		vacated[n.Name] = room[n.Name]
	}
	for _, j := range seen.Jobs {
		if j.State != slurm.Running || j.Comment == "" {
			continue
		}
		for _, n := range j.Runs.Nodes {
			share := gres.Proportional(server, j.Runs.PerNode.GPUs)
			room[n] = room[n].Plus(j.Runs.PerNode.Minus(share).Max(gres.Vector{}))
			vacated[n] = vacated[n].Plus(j.Runs.PerNode)
		}
	}
	var first []*slurm.Job
	waiting := slices.DeleteFunc(slices.Clone(seen.Jobs),
		func(j *slurm.Job) bool { return !slices.Contains(without, j.ID) || j.State != slurm.Pending })
	slices.SortFunc(waiting, func(x, y *slurm.Job) int {
		return cmp.Or(cmp.Compare(y.Priority, x.Priority), cmp.Compare(x.ID, y.ID))
	})
	late := map[int]time.Time{}
	for _, j := range waiting {
		if slices.ContainsFunc(seen.Nodes, func(n slurm.Node) bool {
			return needOf(j).Fits(room[n.Name]) && !slices.ContainsFunc(first,
				func(other *slurm.Job) bool { return needOf(other).Fits(vacated[n.Name]) })
		}) {
			late[j.ID] = since[j.ID]
			if late[j.ID].IsZero() {
				late[j.ID] = seen.At
			}
			if waited := seen.At.Sub(late[j.ID]); waited > patient {
				w.t.Fatalf(
					"seed %d: job %d with %s waits %s for what was lent: %+v",
					seed,
					j.ID,
					needOf(j),
					waited,
					room,
				)
			}
		}
		first = append(first, j)
	}
	clear(since)
	maps.Copy(since, late)
}

// needOf is what a job on one node asks for.
func needOf(j *slurm.Job) gres.Vector {
	cores := j.Request.CPUsPerTask
	return gres.Vector{GPUs: j.Request.GPUs, CPUs: cores,
		Memory: j.Request.Memory + j.Request.MemoryPerCPU*gres.Memory(cores)}
}

// A holder has 6 GB beyond its share by its user's own word, and is lent all other cores beside six idle GPUs.
func TestWhoeverAskedForNoMoreThanIsLeftBesideAFloorRunsWithThat(t *testing.T) {
	for _, c := range []struct {
		memory gres.Memory // of the newcomer's user; 1000 is the partition's default
		runs   bool
		says   string
	}{{1000, true, ""}, {368928, true, ""}, {368929, false, "memory short"}} {
		w := newWorld(t, 1, server)
		w.runner.Settings.Keep.Memory = true
		holder := w.submit(2, model("res18"), saves(20*time.Second), forAges, func(s *slurmtest.Spec) {
			s.Request.CPUsPerTask, s.Request.Memory = 10, 131072
		})
		w.slurm.SetExtra(holder, `{"v":1,"lua":1,"begin":0,"cpus":1,"mem":1}`)
		w.rounds(1)
		w.mustRun(holder, "n1", 18)
		extra := `{"v":1,"lua":1,"begin":0}`
		if c.memory > 1000 {
			extra = `{"v":1,"lua":1,"begin":0,"mem":1}`
		}
		other := w.submit(6, "synergy-profile=res18.json", forAges,
			func(s *slurmtest.Spec) { s.Request.Memory = c.memory })
		w.slurm.SetExtra(other, extra)
		w.rounds(2)
		if got := w.job(other).State == slurm.Running; got != c.runs || !strings.Contains(w.job(other).Extra, c.says) {
			t.Errorf(
				"asked for %s: it runs: %v, with %s, told %s",
				c.memory,
				got,
				w.job(other).Runs.PerNode,
				w.job(other).Extra,
			)
		}
	}
}

// Slurm has room for a job and does not start it, for a reason that nobody tells: the loan is called back for it once,
// and what it leaves unused is not kept from others for long.
func TestRoomIsNotKeptForAJobThatSlurmDoesNotStart(t *testing.T) {
	w := newWorld(t, 1, server)
	lender := w.submit(4, model("res18"), saves(20*time.Second), forAges)
	w.submit(1, "synergy-profile=gnmt.json", forAges)
	w.rounds(1)
	w.submit(1, "", plain, forAges,
		func(s *slurmtest.Spec) { s.Exclusive, s.Untold, s.Request.CPUsPerTask = true, true, 8 })
	w.rounds(1)
	w.mustRun(lender, "n1", 12)
	newcomer := w.submit(2, "synergy-profile=res18.json", forAges)
	w.rounds(4)
	w.mustRun(lender, "n1", 12)
	w.mustRun(newcomer, "n1", 6)
}

// Memory that is given in whole MiB for each core is a little less than the share, more so with more cores: 12 cores
// come to some MiB more than 18. Whoever comes, one after the other, has what he lacks all the same.
func TestALoanIsCalledBackWhereMemoryIsGivenByTheCore(t *testing.T) {
	byTheCore := func(s *slurmtest.Spec) { s.Request.Memory, s.Request.MemoryPerCPU = 0, 1000 }
	for first := 1; first <= 7; first++ {
		for next := 1; next <= 8-first; next++ {
			w := newWorld(t, 1, server)
			w.quick()
			w.runner.Settings.Ahead = 0
			all := []int{w.submit(first, model("res18"), forAges, saves(time.Second), byTheCore)}
			w.pass(12 * time.Second)
			for left := 8 - first; left >= next; left -= next {
				all = append(all, w.submit(next, model("res18"), forAges, saves(time.Second), byTheCore))
				w.pass(3 * time.Second)
			}
			w.pass(40 * time.Second)
			for k, id := range all {
				if j := w.job(id); j.State != slurm.Running {
					t.Errorf(
						"%d GPUs, and then %d at a time: job %d of %d is %s: %s",
						first,
						next,
						k+1,
						len(all),
						j.State,
						j.Extra,
					)
				}
			}
		}
	}
}
