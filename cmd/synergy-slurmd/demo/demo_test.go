package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

var ctx = context.Background()

// shownTo is what Run writes.
func shownTo(t *testing.T) string {
	t.Helper()
	var out bytes.Buffer
	if err := Run(ctx, &out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// deal is the workload of a seed. Seed 0 is the workload as written. Any other seed gives the same sizes and lengths to
// other models at other times.
func deal(seed uint64) []job {
	jobs := workload()
	if seed == 0 {
		return jobs
	}
	random := rand.New(rand.NewPCG(seed, 0))
	random.Shuffle(len(jobs), func(i, k int) { jobs[i].model, jobs[k].model = jobs[k].model, jobs[i].model })
	random.Shuffle(len(jobs), func(i, k int) { jobs[i].at, jobs[k].at = jobs[k].at, jobs[i].at })
	slices.SortStableFunc(jobs, func(a, b job) int { return int(a.at - b.at) })
	return jobs
}

// scenes plays a workload and keeps every round.
func scenes(t *testing.T, seed uint64, p policy.Policy, a policy.Allocator) ([]*scene, outcome) {
	t.Helper()
	y, err := newSimulation(deal(seed), p, a)
	if err != nil {
		t.Fatal(err)
	}
	var all []*scene
	o, err := y.run(ctx, func(s *scene) error {
		all = append(all, s)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all, o
}

func unseen(*scene) error { return nil }

// TestThePromisesHoldAfterEveryRound looks at each allocator's plays, of the story and of a workload dealt anew.
func TestThePromisesHoldAfterEveryRound(t *testing.T) {
	promises := []struct {
		name string
		test func(*testing.T, []*scene)
	}{
		{"every job arrives once and is done", everyJobArrivesOnceAndIsDone},
		{"nobody is seen below the proportional speed", nobodyIsBelowTheProportionalSpeed},
		{"no node has more given away than it is", noNodeHasMoreThanItIs},
		{"every job runs or waits until it is done", everyJobRunsOrWaits},
		{"a job that gave way goes on where it was", nothingIsLost},
	}
	for _, a := range policy.Allocators() {
		for _, p := range []policy.Policy{policy.FIFO(), policy.LAS()} {
			for seed := range uint64(2) {
				all, _ := scenes(t, seed, p, a)
				for _, promise := range promises {
					t.Run(fmt.Sprintf("%s %s seed %d %s", a.Name, p.Name, seed, promise.name), func(t *testing.T) {
						promise.test(t, all)
					})
				}
			}
		}
	}
}

func everyJobArrivesOnceAndIsDone(t *testing.T, all []*scene) {
	arrived, done := map[int]int{}, map[int]int{}
	for _, s := range all {
		for _, r := range s.rows {
			if r.arrived {
				arrived[r.id]++
			}
			if r.change == ends {
				done[r.id]++
				if strings.Contains(r.text, ",") {
					t.Errorf("round %d: job %d ends %s", s.number, r.id, r.text)
				}
			}
		}
	}
	for id := 1; id <= len(workload()); id++ {
		if arrived[id] != 1 || done[id] != 1 {
			t.Errorf("job %d arrived %d times and was done %d times", id, arrived[id], done[id])
		}
	}
}

func nobodyIsBelowTheProportionalSpeed(t *testing.T, all []*scene) {
	for _, s := range all {
		for _, r := range s.rows {
			if r.node != "" && r.speed < 1 {
				t.Errorf("round %d: job %d trains at %.3f with %s", s.number, r.id, r.speed, r.size)
			}
		}
	}
}

func noNodeHasMoreThanItIs(t *testing.T, all []*scene) {
	for _, s := range all {
		held := map[string]gres.Vector{}
		for _, r := range s.rows {
			if r.node != "" {
				held[r.node] = held[r.node].Plus(r.size)
				if r.size.GPUs != r.gpus {
					t.Errorf("round %d: job %d holds %d GPUs, want %d", s.number, r.id, r.size.GPUs, r.gpus)
				}
			}
		}
		if len(held) > nodes {
			t.Errorf("round %d: jobs run on %d nodes", s.number, len(held))
		}
		for node, size := range held {
			if size.Max(server) != server {
				t.Errorf("round %d: %s is given away on %s", s.number, size, node)
			}
		}
	}
}

func everyJobRunsOrWaits(t *testing.T, all []*scene) {
	for _, s := range all {
		waiting := 0
		for _, r := range s.rows {
			if r.node == "" && (r.change == saves || strings.HasPrefix(r.text, "waits for ")) {
				waiting++
			}
		}
		running, _ := s.running()
		if shown := running + waiting; shown > s.present || shown < s.present-2 {
			// One may have ended while the round acted.
			t.Errorf("round %d: %d run, %d wait, of %d", s.number, running, waiting, s.present)
		}
	}
}

func TestUnderTuneJobsAreDoneSoonerOnAverage(t *testing.T) {
	for _, p := range []policy.Policy{policy.FIFO(), policy.LAS()} {
		for seed := range uint64(2) {
			_, share := scenes(t, seed, p, policy.Proportional())
			_, tune := scenes(t, seed, p, policy.Tune())
			if tune.mean > share.mean || tune.gpuTime > share.gpuTime {
				t.Errorf("%s seed %d: mean %s with Tune, %s with the share; %s and %s GPU time",
					p.Name, seed, tune.mean, share.mean, tune.gpuTime, share.gpuTime)
			}
		}
	}
}

func TestTheStoryHasAJobThatGivesWayAndGoesOnAndOneThatGivesBack(t *testing.T) {
	all, o := scenes(t, 0, policy.FIFO(), policy.Tune())
	gaveWay, wentOn, gaveBack := map[int]bool{}, 0, 0
	for _, s := range all {
		for _, r := range s.rows {
			switch {
			case r.change == saves:
				gaveWay[r.id] = true
			case r.change == starts && gaveWay[r.id]:
				wentOn++
			case r.change == restarts && strings.Contains(r.text, "gives back"):
				gaveBack++
			}
		}
	}
	if !slices.ContainsFunc(all[0].rows, func(r row) bool { return r.change == starts }) {
		t.Error("nobody starts in the first round")
	}
	if len(gaveWay) == 0 || wentOn < len(gaveWay) || gaveBack == 0 || o.restarts == 0 {
		t.Errorf("%d gave way, %d went on, %d gave back, %d restarts", len(gaveWay), wentOn, gaveBack, o.restarts)
	}
}

func nothingIsLost(t *testing.T, all []*scene) {
	done := map[int]float64{}
	for _, s := range all {
		for _, r := range s.rows {
			if r.node != "" {
				if r.done < done[r.id] {
					t.Errorf("round %d: job %d is %.2f done after %.2f", s.number, r.id, r.done, done[r.id])
				}
				done[r.id] = r.done
			}
		}
	}
}

func TestARestartCostsASaveAndAWarmUp(t *testing.T) {
	y, err := newSimulation(workload(), policy.FIFO(), policy.Proportional())
	if err != nil {
		t.Fatal(err)
	}
	o, err := y.run(ctx, unseen)
	if err != nil || o.restarts == 0 {
		t.Fatalf("%d restarts, %v", o.restarts, err)
	}
	for k, j := range y.jobs {
		h, _ := y.slurm.History(k + 1)
		var held time.Duration
		for _, run := range h.Runs {
			held += run.Freed.Sub(run.Start)
		}
		want := j.length + time.Duration(h.Restarts)*y.profiles[j.model].RestartCost()
		if off := held - want; off < 0 || off > time.Duration(len(h.Runs))*time.Second {
			t.Errorf("job %d held its GPUs for %s, want %s after %d restarts", k+1, held, want, h.Restarts)
		}
	}
}

func TestTheOutcomeIsWhatThreeLonelyJobsDid(t *testing.T) {
	jobs := []job{
		{0, "gnmt", 2, 60 * time.Minute},
		{10 * time.Minute, "lstm", 1, 20 * time.Minute},
		{15 * time.Minute, "transformer", 1, 30 * time.Minute},
	}
	wants := []struct {
		allocator       policy.Allocator
		coreTime, lent  string
		lenders, gained int
	}{
		{policy.Proportional(), "8:30", "0:00", 0, 0},
		{policy.Tune(), "2:50", "5:40", 3, 0},
	}
	for _, want := range wants {
		o, err := simulate(ctx, jobs, policy.FIFO(), want.allocator, unseen)
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprintln(hours(o.mean), hours(o.median), hours(o.makespan), hours(o.gpuTime), hours(o.coreTime),
			hours(o.lent),
			len(o.lenders), len(o.gainers), o.restarts, percent(o.gpus()))
		if wanted := fmt.Sprintln("0:37 0:30 1:00 2:50", want.coreTime, want.lent, want.lenders, want.gained,
			"0 18 %"); got != wanted {
			t.Errorf("%s: %swant %s", want.allocator.Name, got, wanted)
		}
	}
}

func TestTheSlowestOfAllRoundsIsTold(t *testing.T) {
	all, o := scenes(t, 0, policy.FIFO(), policy.Tune())
	slowest := math.Inf(1)
	for _, s := range all {
		for _, r := range s.rows {
			if r.node != "" {
				slowest = min(slowest, r.speed)
			}
		}
	}
	if o.slowest != slowest || !strings.Contains(shownTo(t), fmt.Sprintf(" was %.2f× the speed", slowest)) {
		t.Errorf("slowest %.2f, want %.2f", o.slowest, slowest)
	}
}

func TestTwoDemonstrationsAreEqualAndPlainText(t *testing.T) {
	first, second := shownTo(t), shownTo(t)
	if first != second {
		t.Error("two runs differ")
	}
	if strings.ContainsFunc(first, func(r rune) bool { return r != '\n' && unicode.IsControl(r) }) {
		t.Error("it has control sequences")
	}
}

// TestEachRoundInWhichSomethingChangesIsATable: with a line for each job, and those without a change are left out.
func TestEachRoundInWhichSomethingChangesIsATable(t *testing.T) {
	text := shownTo(t)
	all, _ := scenes(t, 0, policy.FIFO(), policy.Tune())
	shown, left := 0, 0
	for _, s := range all {
		_, after, found := strings.Cut(text, fmt.Sprintf("\nround %d at %s: ", s.number, hours(s.at)))
		if found == s.quiet() {
			t.Errorf("round %d: shown %t, changes nothing %t", s.number, found, s.quiet())
		}
		if !found {
			left++
			continue
		}
		shown++
		table, _, _ := strings.Cut(after, "\n\n")
		if lines := strings.Count(table, "\n"); lines != 2+len(s.rows) {
			t.Errorf("round %d has %d lines, want a title and %d jobs:\n%s", s.number, lines, len(s.rows), table)
		}
	}
	if shown < 20 || left == 0 {
		t.Errorf("%d rounds are shown and %d left out", shown, left)
	}
}

func TestATableSaysWhatBecameOfEachJob(t *testing.T) {
	s := scene{number: 12, at: 55 * time.Minute, present: 4, plan: "value 9.6 of at most 9.7 (98.9 %)", rows: []row{
		{id: 1, model: "gnmt", gpus: 2, node: "n1", size: gres.Vector{GPUs: 2, CPUs: 2, Memory: 41660}, speed: 1,
			done: .994},
		{id: 2, model: "alexnet", gpus: 1, node: "n1", size: gres.Vector{GPUs: 1, CPUs: 6, Memory: 62500}, speed: 1.75,
			done: .5, change: restarts, text: "had 12 cores and 62.5G on n1; gives back"},
		{id: 11, model: "m5", gpus: 4, node: "n2", size: gres.Vector{GPUs: 4, CPUs: 16, Memory: 250000}, speed: 1.2,
			arrived: true, change: starts},
		{id: 9, model: "transformer", gpus: 4, arrived: true, text: "waits for 0:00: no GPU is free"},
		{id: 3, model: "lstm", gpus: 1, change: ends, text: "after 0:38"},
	}}
	want := `round 12 at 0:55: 3 run, 1 wait, 9 GPUs and 24 cores are free
  job        model  GPUs  node  cores  memory  speed  done
    1         gnmt     2    n1      2  41.66G  1.00×  99 %
    2      alexnet     1    n1      6   62.5G  1.75×  50 %  restarts: had 12 cores and 62.5G on n1; gives back
   11           m5     4    n2     16    250G  1.20×   0 %  new, starts
    9  transformer     4     -      -       -      -     -  new: waits for 0:00: no GPU is free
    3         lstm     1     -      -       -      -     -  ends: after 0:38
plan: value 9.6 of at most 9.7 (98.9 %)

`
	if got := s.table(); got != want {
		t.Errorf("it is\n%swant\n%s", got, want)
	}
}

func TestTheComparisonIsByTheProportionalShare(t *testing.T) {
	share := outcome{allocator: "proportional", took: make([]time.Duration, 24), mean: 120 * time.Minute,
		median: 100 * time.Minute, makespan: 4 * time.Hour, gpuTime: 50 * time.Hour, coreTime: 150 * time.Hour}
	tune := outcome{allocator: "tune", took: share.took, mean: 80 * time.Minute, median: 60 * time.Minute,
		makespan: 3 * time.Hour, gpuTime: 40 * time.Hour, coreTime: 130 * time.Hour, restarts: 12,
		lost: 6 * time.Minute, lent: 40 * time.Hour, lenders: []string{"gnmt", "lstm"}, gainers: []string{"alexnet"},
		fastest: 2.94, slowest: 1}
	want := `the same 24 jobs under each allocator; times in hours:minutes, and how many times shorter
     allocator  mean to completion      median  all done after  GPU-hours held  GPUs used  cores used  restarts
  proportional          2:00 1.00×  1:40 1.00×      4:00 1.00×      50.0 1.00×       78 %        78 %         0
          tune          1:20 1.50×  1:00 1.67×      3:00 1.33×      40.0 1.25×       83 %        90 %        12

Under Tune jobs were done 1.50× as fast as under the proportional share, on average and waiting included.
The slowest that any of them was seen to train was 1.00× the speed of its share.
On the way gnmt and lstm did without 40 core-hours of their share,
alexnet trained up to 2.94× as fast,
and 12 restarts cost 6 minutes of training in all.
`
	if got := comparison([]outcome{share, tune}); got != want {
		t.Errorf("it is\n%swant\n%s", got, want)
	}
}

func TestASignalEndsTheDemonstration(t *testing.T) {
	ctx, cancel := context.WithCancel(ctx)
	out := writer(func(text []byte) (int, error) {
		if bytes.Contains(text, []byte("round 1 ")) {
			cancel()
		}
		return len(text), nil
	})
	if err := Run(ctx, out); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
}

func TestAnOutputThatBreaksEndsTheDemonstration(t *testing.T) {
	broken := errors.New("broken pipe")
	tables := 0
	out := writer(func(text []byte) (int, error) {
		if tables++; tables > 10 {
			return 0, broken
		}
		return len(text), nil
	})
	if err := Run(ctx, out); !errors.Is(err, broken) || tables != 11 {
		t.Errorf("%v after %d tables", err, tables)
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(text []byte) (int, error) { return w(text) }

func TestTheWorkloadIsWhatTheDocumentationSays(t *testing.T) {
	jobs := workload()
	models, sizes, together := map[string]bool{}, map[int]bool{}, map[time.Duration]int{}
	for k, j := range jobs {
		models[j.model], sizes[j.gpus] = true, true
		together[j.at]++
		if j.length < 20*time.Minute || j.length > 3*time.Hour || j.at > 2*time.Hour {
			t.Errorf("job %d: %+v", k+1, j)
		}
		if k > 0 && j.at < jobs[k-1].at {
			t.Errorf("job %d arrives before the one above it", k+1)
		}
	}
	if len(jobs) != 24 || len(models) != 10 || len(sizes) != 4 || len(together) > 20 {
		t.Errorf("%d jobs of %d models and %d sizes at %d times", len(jobs), len(models), len(sizes), len(together))
	}
}

func TestASeedDealsTheSameSizesAndLengths(t *testing.T) {
	sum := func(jobs []job) (gpus int, length time.Duration, models []string) {
		for _, j := range jobs {
			gpus, length, models = gpus+j.gpus, length+j.length, append(models, j.model)
		}
		slices.Sort(models)
		return gpus, length, models
	}
	for seed := range uint64(5) {
		if got, want := fmt.Sprint(sum3(sum(deal(seed)))), fmt.Sprint(sum3(sum(workload()))); got != want {
			t.Errorf("seed %d: %s, want %s", seed, got, want)
		}
	}
}

func sum3(gpus int, length time.Duration, models []string) []any { return []any{gpus, length, models} }
