//go:build live && bench

package live

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// side is what became of the jobs of an experiment on one of its clusters.
type side struct {
	span  time.Time // from when on jobs are scheduled
	jobs  []history
	speed float64
}

// history is what became of one job. The seconds are the cluster's.
type history struct {
	demand
	model      string
	iterations int
	best       float64 // seconds of training with all that it can use
	trained    float64 // seconds of training with what it had
	lost       float64 // of them, for iterations that had been done before
}

func (h history) end() time.Time { return h.runs[len(h.runs)-1].end }

// ran is the seconds in which it held GPUs.
func (h history) ran() float64 {
	sum := 0.0
	for _, r := range h.runs {
		sum += r.end.Sub(r.start).Seconds()
	}
	return sum
}

// mean completion in seconds.
func (s side) mean() float64 {
	sum := 0.0
	for _, h := range s.jobs {
		sum += h.end().Sub(h.came).Seconds()
	}
	return sum / float64(len(s.jobs))
}

// makespan in seconds, from the first submission.
func (s side) makespan() float64 {
	last := s.span
	for _, h := range s.jobs {
		last = latest(last, h.end())
	}
	return last.Sub(s.span).Seconds()
}

// histories reads accounting and the jobs' own logs.
func (c *Cluster) histories(jobs []planned, ids []JobID, came []time.Time) []history {
	c.t.Helper()
	names := make([]string, len(ids))
	for k, id := range ids {
		names[k] = id.String()
	}
	const show = `for i in "$@"; do echo "job $i"; cat /shared/out/$i.log; done`
	logs := c.MustExec("login", "root", append([]string{"sh", "-c", show, "sh"}, names...)...)
	said := map[string]string{}
	for part := range strings.SplitSeq("\n"+logs, "\njob ") {
		id, text, _ := strings.Cut(part, "\n")
		said[id] = text
	}
	runs, states := c.account(names)
	all := make([]history, len(jobs))
	for k, j := range jobs {
		h := history{model: j.model, iterations: j.iterations}
		h.demand = demand{came: came[k], gpus: j.gpus, runs: runs[names[k]]}
		if state := states[names[k]]; state != "COMPLETED" {
			c.t.Fatalf("job %s is %s after %d runs:\n%s", names[k], state, len(h.runs), said[names[k]])
		}
		h.read(c.t, names[k], said[names[k]])
		all[k] = h
	}
	return all
}

// account is each run of the jobs, and how the last of it ended, once accounting knows that: slurmdbd may be behind.
func (c *Cluster) account(names []string) (runs map[string][]spell, states map[string]string) {
	c.t.Helper()
	var text string
	c.WaitFor("accounting has the end of each job", func() bool {
		text = c.MustExec("login", "root", "sacct", "-X", "-n", "-P", "--duplicates", "-j", strings.Join(names, ","),
			"--format=JobID,State,Start,End,NodeList")
		return text != "" && !strings.Contains(text, "|Unknown|")
	})
	runs, states = map[string][]spell{}, map[string]string{}
	for line := range strings.Lines(text) {
		f := strings.Split(strings.TrimSpace(line), "|")
		if len(f) != 5 {
			c.t.Fatalf("sacct answers %q", line)
		}
		states[f[0]] = f[1]
		if f[2] != "None" {
			runs[f[0]] = append(runs[f[0]], spell{moment(c, f[2]), moment(c, f[3]), f[4]})
		}
	}
	for _, spells := range runs {
		slices.SortFunc(spells, func(a, b spell) int { return a.start.Compare(b.start) })
	}
	return runs, states
}

// read adds up what the job's log says of its starts: the rate that it was granted and the iterations that it did.
func (h *history) read(t testing.TB, name, text string) {
	t.Helper()
	done, rate := 0, 0.0
	for line := range strings.Lines(text) {
		var said struct {
			Event     string  `json:"ev"`
			Predicted float64 `json:"predicted_iterations_s"`
			Done      int     `json:"done"`
		}
		if !strings.HasPrefix(line, "{") {
			continue
		}
		if err := json.Unmarshal([]byte(line), &said); err != nil {
			t.Fatalf("job %s writes %q: %v", name, line, err)
		}
		switch said.Event {
		case "start":
			rate = said.Predicted
		case "end":
			done += said.Done
			h.trained += float64(said.Done) / rate
		}
	}
	if done < h.iterations {
		t.Errorf("job %s: its log has %d of %d iterations\n%s", name, done, h.iterations, text)
	}
	if done > h.iterations {
		h.lost = h.trained * float64(done-h.iterations) / float64(done)
	}
}

// menu is what a model can do with each share of cores and memory that was measured.
type menu []share

type share struct {
	cores, memory float64 // of one GPU; memory in MB
	iteration     float64 // seconds on the cluster
}

// best is the seconds of an iteration with all that the model can use.
func (m menu) best() float64 {
	return slices.MinFunc(m, func(a, b share) int {
		if a.iteration < b.iteration {
			return -1
		}
		return 1
	}).iteration
}

// menus reads the profiles that are shipped.
func menus(t *testing.T, speed float64) map[string]menu {
	t.Helper()
	all := map[string]menu{}
	for model := range iterTime {
		text, err := os.ReadFile(filepath.Join("../../etc/profiles", model+".json"))
		if err != nil {
			t.Fatal(err)
		}
		var p struct {
			Batch  float64     `json:"batch"`
			Cores  []float64   `json:"cores_per_gpu"`
			Memory []float64   `json:"memory_per_gpu_mib"`
			Rates  [][]float64 `json:"throughput_samples_per_s"`
		}
		if err := json.Unmarshal(text, &p); err != nil {
			t.Fatalf("%s: %v", model, err)
		}
		for i, cores := range p.Cores {
			for k, memory := range p.Memory {
				all[model] = append(all[model], share{cores, memory, p.Batch / p.Rates[i][k] / speed})
			}
		}
	}
	return all
}

// capacity of one cluster, as the paper's: 4 nodes of 8 GPUs, 24 cores and 500 GB.
const (
	paperGPUs   = 32.0
	paperCores  = 96.0
	paperMemory = 2e6
)

// leastMakespan is a bound below which no schedule comes, of jobs that are all there from the beginning: the longest
// job with all that it can use, or all jobs at prices of a GPU, a core and a MB for which the whole cluster costs one a
// second, where each chooses what is cheapest for it. Any prices give a bound; these are the best of a grid.
func leastMakespan(jobs []planned, of map[string]menu) float64 {
	longest := 0.0
	gpuSeconds := map[string]float64{} // iterations times GPUs
	for _, j := range jobs {
		longest = max(longest, float64(j.iterations)*of[j.model].best())
		gpuSeconds[j.model] += float64(j.iterations * j.gpus)
	}
	const steps = 200
	bound := longest
	for a := range steps + 1 {
		for b := range steps + 1 - a {
			gpu, core := float64(a)/steps/paperGPUs, float64(b)/steps/paperCores
			mb := float64(steps-a-b) / steps / paperMemory
			sum := 0.0
			for model, n := range gpuSeconds {
				least := math.Inf(1)
				for _, s := range of[model] {
					least = min(least, s.iteration*(gpu+core*s.cores+mb*s.memory))
				}
				sum += n * least
			}
			bound = max(bound, sum)
		}
	}
	return bound
}

// ledger says where time went, in seconds. Of a makespan it is the time of all GPUs, of a mean that of all jobs.
type ledger struct {
	best     float64 // training, had each had all that it can use
	slower   float64 // more, because it had less: the packing
	restarts float64 // saves, warm-ups, what was done twice, and between two runs beside idle GPUs
	launch   float64 // Slurm's time around a run
	rounds   float64 // a GPU was idle that a job waited for, no longer than a round takes
	stranded float64 // the same, longer
	queue    float64 // all GPUs were in use; of jobs only
	nobody   float64 // GPUs that nobody waited for; of GPUs only
}

// launchTime is what a run takes beyond its training, on average over the jobs that were not restarted: accounting
// knows whole seconds only.
func (s side) launchTime() float64 {
	sum, n := 0.0, 0
	for _, h := range s.jobs {
		if len(h.runs) == 1 {
			sum += h.ran() - h.trained
			n++
		}
	}
	return sum / float64(max(n, 1))
}

// account is the ledger of the GPUs over the makespan, and that of the jobs over their completion times. late is how
// long an idle GPU may wait for whoever decides.
func (s side) account(of map[string]menu, late time.Duration) (gpus, jobs ledger) {
	launch := s.launchTime()
	for k := range s.jobs {
		h := &s.jobs[k]
		h.best = float64(h.iterations) * of[h.model].best()
		restarts := h.lost
		if len(h.runs) > 1 {
			restarts += h.ran() - h.trained - launch
		}
		own := ledger{best: h.best, slower: h.trained - h.lost - h.best, restarts: restarts}
		own.launch = h.ran() - h.trained + h.lost - restarts
		jobs.add(own, 1)
		gpus.add(own, float64(h.gpus))
	}
	s.wait(&gpus, &jobs, late)
	return gpus, jobs
}

func (l *ledger) add(own ledger, times float64) {
	l.best += times * own.best
	l.slower += times * own.slower
	l.restarts += times * own.restarts
	l.launch += times * own.launch
}

// wait shares out what nobody ran in: the waiting of jobs and the idling of GPUs, second by second. Idle GPUs are for
// those between two runs first, then for who came first.
func (s side) wait(gpus, jobs *ledger, late time.Duration) {
	idleFor := time.Duration(0) // how long GPUs have been idle that somebody wanted
	end := s.span.Add(seconds(s.makespan()))
	for at := s.span.Truncate(time.Second); at.Before(end); at = at.Add(time.Second) {
		idle, returning, newcomers := s.at(at)
		wanted := 0
		for k, h := range append(returning, newcomers...) {
			if h.gpus > idle-wanted {
				jobs.queue++
				continue
			}
			wanted += h.gpus
			g := float64(h.gpus)
			switch {
			case k < len(returning):
				jobs.restarts, gpus.restarts = jobs.restarts+1, gpus.restarts+g
			case idleFor <= late:
				jobs.rounds, gpus.rounds = jobs.rounds+1, gpus.rounds+g
			default:
				jobs.stranded, gpus.stranded = jobs.stranded+1, gpus.stranded+g
			}
		}
		gpus.nobody += float64(idle - wanted)
		idleFor += time.Second
		if wanted == 0 {
			idleFor = 0
		}
	}
}

// at is how many GPUs are idle at a moment, who waits between two runs, and who waits for the first.
func (s side) at(at time.Time) (idle int, returning, newcomers []history) {
	idle = int(paperGPUs)
	for _, h := range s.jobs {
		k := slices.IndexFunc(h.runs, func(r spell) bool { return r.end.After(at) })
		switch {
		case k < 0 || h.came.After(at):
		case !h.runs[k].start.After(at):
			idle -= h.gpus
		case k == 0:
			newcomers = append(newcomers, h)
		default:
			returning = append(returning, h)
		}
	}
	return idle, returning, newcomers
}

func (l ledger) total() float64 {
	return l.best + l.slower + l.restarts + l.launch + l.rounds + l.stranded + l.queue + l.nobody
}

// line is the ledger in a row of a table, each part divided by n.
func (l ledger) line(n float64) string {
	var cells []string
	parts := []float64{l.best, l.slower, l.restarts, l.launch, l.rounds, l.stranded, l.queue, l.nobody, l.total()}
	for _, x := range parts {
		cells = append(cells, fmt.Sprintf("%9.1f", x/n))
	}
	return strings.Join(cells, " ")
}

const ledgerHead = "at best    slower  restarts    launch    rounds  stranded     queue    nobody     total"

// starts of all jobs.
func (s side) starts() (n int) {
	for _, h := range s.jobs {
		n += len(h.runs)
	}
	return n
}
