//go:build live

package live

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The workload under which the daemon is killed: a job does so many iterations that it runs for some seconds, saves by
// itself every so often, and whenever it is asked to.
const (
	killSpeedup  = 40
	killInterval = 3 * time.Second // between checkpoints, by the wall clock
)

// killable is one job of the workload.
type killable struct {
	id         JobID
	iterations int
}

func TestKilledAtRandomMomentsTheDaemonLosesNothing(t *testing.T) {
	killAtRandom(t, 8, 60, func(*Daemon, *rand.Rand) string { return "left as it was" })
}

// killAtRandom kills the daemon at random moments of a workload in which many give way to others, and does something to
// its ledger each time.
func killAtRandom(t *testing.T, kills, jobs int, damage func(*Daemon, *rand.Rand) string, flags ...string) {
	c, d := SetUp(t, "las", "tune")
	d.Round = 4 * time.Second // a job that gives way and is started again takes three
	watched := c.Watch()
	seed := uint64(time.Now().UnixNano())
	draw := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	began := time.Now()
	workload := c.submitKillables(draw, jobs/3, nil)
	damages := map[string]int{}
	for kill := range kills {
		d.Launch(flags...)
		time.Sleep(200*time.Millisecond + time.Duration(draw.Float64()*float64(4*time.Second)))
		d.Signal("KILL")
		damages[damage(d, draw)]++
		workload = c.submitKillables(draw, jobs/3+(jobs-jobs/3)*(kill+1)/kills-len(workload), workload)
	}
	left := c.unfinished()
	d.Start(flags...)
	t.Logf("%d kills of the daemon in %s, ledger: %v; then %d of %d jobs were left", kills,
		time.Since(began).Round(time.Second), damages, left, jobs)
	if left == 0 {
		t.Error("the jobs had ended before the last kill")
	}
	c.waitEmpty(6 * time.Minute)
	t.Logf("all have ended after %s", time.Since(began).Round(time.Second))
	if checkKillables(t, c, workload, began) == 0 {
		t.Error("nobody gave way to anybody")
	}
	samples, breaches := watched()
	t.Logf("%d samples of the nodes", samples)
	if samples == 0 || len(breaches) > 0 {
		t.Errorf("%d samples, breaches %v", samples, breaches)
	}
}

// submitKillables adds so many jobs of several shapes.
func (c *Cluster) submitKillables(draw *rand.Rand, count int, to []killable) []killable {
	c.t.Helper()
	models := []string{"res18", "gnmt", "alexnet", "lstm"}
	// at the proportional share
	perSecond := map[string]float64{"res18": 1 / 0.64, "gnmt": 1 / 0.12, "alexnet": 1 / 0.6, "lstm": 1 / 0.011}
	for range count {
		model, gpus, nodes := models[draw.IntN(4)], 1+draw.IntN(4), 1
		if draw.IntN(8) == 0 {
			gpus, nodes = 2, 2
		}
		iterations := int((3 + 7*draw.Float64()) * killSpeedup * perSecond[model])
		script := train(model, iterations, killSpeedup) + fmt.Sprintf(" --checkpoint-every %g --interval 1s",
			killInterval.Seconds()*killSpeedup)
		id := c.MustSbatch([]string{"alice", "bob"}[draw.IntN(2)], script, word(model),
			fmt.Sprintf("--gres=gpu:%d", gpus),
			"-N", strconv.Itoa(nodes), "--ntasks-per-node=1", "-c", "2", "--mem=1000", output, "--open-mode=append")
		to = append(to, killable{id, iterations})
	}
	return to
}

// unfinished is the number of jobs that wait or run.
func (c *Cluster) unfinished() int {
	c.t.Helper()
	return len(strings.Fields(c.MustExec("login", "root", "squeue", "--noheader", "--user=alice,bob", "--format=%i")))
}

func (c *Cluster) waitEmpty(most time.Duration) {
	c.t.Helper()
	for end := time.Now().Add(most); c.unfinished() > 0; time.Sleep(time.Second) {
		if time.Now().After(end) {
			c.t.Fatalf("after %s these have not ended:\n%s", most,
				c.MustExec("login", "root", "squeue", "--user=alice,bob", "--format=%i %T %r %p %n %S"))
		}
	}
}

// fate is what became of one job, as accounting and its own log have it.
type fate struct {
	completed, requeued int
	others              []string // states in which runs ended that are neither
	runs                []span
	starts, ends, total int
	lost, worst         int // iterations done twice; and of these at one start, less what an interval allows
}

// span is one run.
type span struct{ from, to time.Time }

// checkKillables: every job completed once, no two of its runs overlap, and it did what it was told to, less at most an
// interval for each time that it was stopped. It answers how often one was.
func checkKillables(t *testing.T, c *Cluster, workload []killable, began time.Time) (preempted int) {
	t.Helper()
	fates := c.accounts(began, workload)
	c.trained(fates)
	var lost, restarts int
	for _, job := range workload {
		o := fates[job.id]
		switch {
		case o.completed != 1 || len(o.others) > 0:
			t.Errorf("job %s: completed %d times, was requeued %d times, other ends: %v", job.id, o.completed,
				o.requeued, o.others)
		case o.ends != 1 || o.total != job.iterations:
			t.Errorf("job %s: reached its goal %d times, with %d of %d iterations", job.id, o.ends, o.total,
				job.iterations)
		case o.starts != o.completed+o.requeued:
			t.Errorf("job %s: started %d times, accounting knows %d runs", job.id, o.starts, o.completed+o.requeued)
		case o.worst > 0:
			t.Errorf("job %s: did %d iterations twice after one stop, more than an interval has", job.id, o.worst)
		}
		slices.SortFunc(o.runs, func(a, b span) int { return a.from.Compare(b.from) })
		for k := 1; k < len(o.runs); k++ {
			if o.runs[k].from.Before(o.runs[k-1].to) {
				t.Errorf("job %s: runs overlap: %v", job.id, o.runs)
			}
		}
		preempted, lost, restarts = preempted+o.requeued, lost+o.lost, restarts+o.starts-1
	}
	t.Logf("%d jobs completed; %d preemptions, %d restarts, %d iterations done twice", len(workload), preempted,
		restarts, lost)
	return preempted
}

// accounts reads from accounting how each run of each job ended. It is asked until no run is open: the daemon of
// accounting is told late.
func (c *Cluster) accounts(began time.Time, workload []killable) map[JobID]*fate {
	c.t.Helper()
	var ids []string
	for _, job := range workload {
		ids = append(ids, job.id.String())
	}
	var rows string
	c.WaitFor("accounting knows the end of every run", func() bool {
		rows = c.MustExec("login", "root", "sacct", "-X", "-n", "-P", "--duplicates", "-j", strings.Join(ids, ","),
			"--format=JobID,State,Start,End")
		return !strings.Contains(rows, "RUNNING") && strings.Count(rows, "COMPLETED") >= len(ids)
	})
	fates := map[JobID]*fate{}
	for _, job := range workload {
		fates[job.id] = &fate{}
	}
	for row := range strings.Lines(rows) {
		cells := strings.Split(strings.TrimSpace(row), "|")
		id, err := strconv.Atoi(cells[0])
		o := fates[JobID(id)]
		if err != nil || o == nil {
			c.t.Fatalf("accounting says %q", row)
		}
		if cells[1] == "REQUEUED" && cells[2] == "None" {
			continue // requeued before its nodes had begun it: no run, to its own log either
		}
		switch cells[1] {
		case "COMPLETED":
			o.completed++
		case "REQUEUED":
			o.requeued++
		case "RESIZING":
			continue // no run of its own: a start was said to a job that had just started, on the same node
		default:
			o.others = append(o.others, cells[1])
		}
		o.runs = append(o.runs, span{moment(c, cells[2]), moment(c, cells[3])})
	}
	return fates
}

// trained reads the jobs' own logs: each start and where it began, each save, each end.
func (c *Cluster) trained(fates map[JobID]*fate) {
	c.t.Helper()
	type line struct {
		Event     string  `json:"ev"`
		Iteration int     `json:"iteration"`
		Reason    string  `json:"reason"`
		Pace      float64 `json:"predicted_iterations_s"`
	}
	for id, o := range fates {
		reached, pace := 0, 0.0
		for text := range strings.Lines(c.Output(id)) {
			var l line
			if json.Unmarshal([]byte(text), &l) != nil {
				continue
			}
			switch {
			case l.Event == "start":
				o.starts++
				again := max(0, reached-l.Iteration)
				o.lost += again
				o.worst = max(o.worst, again-int(pace*(killInterval+time.Second).Seconds()))
				reached, pace = l.Iteration, l.Pace
			case l.Event == "end" && l.Reason == "finished":
				o.ends, o.total = o.ends+1, l.Iteration
			}
			reached = max(reached, l.Iteration)
		}
	}
}
