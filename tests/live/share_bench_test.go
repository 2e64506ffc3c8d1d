//go:build live && bench

package live

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// A workload of jobs of one GPU on eight, of which a third leave most of their GPU idle: half of these are important.
// A second of theirs is ten of a real trainer's, and an iteration some sixty milliseconds.
const (
	shareJobs    = 60
	shareSpeedup = 10
	shareSpan    = 180.0 // seconds over which they arrive
)

// sharing is a job of that workload.
type sharing struct {
	planned
	class string // high or low; empty: it keeps its GPU to itself
}

func sharingWorkload(seed uint64) (jobs []sharing) {
	draw, at := rand.New(rand.NewPCG(seed, 0)), 0.0
	for k := range shareJobs {
		j := sharing{class: [6]string{"high", "", "", "low", "", ""}[k%6]}
		j.model, j.gpus, j.arrival = "transformer", 1, time.Duration(at*float64(time.Second))
		if j.class != "" {
			j.model = "light"
		}
		own := iterTime[strings.Replace(j.model, "light", "res18", 1)]
		j.iterations = int(20 * math.Pow(3, draw.Float64()) * shareSpeedup / own)
		jobs = append(jobs, j)
		at += draw.ExpFloat64() * shareSpan / shareJobs
	}
	return jobs
}

// shared is what became of that workload.
type shared struct {
	completion map[string][]float64 // seconds by class
	makespan   float64
	pace       []float64 // iterations of each job a second of its trainer's life
	kept       []float64 // the part of that life in which each did not wait for its GPU
	seated     int       // jobs that took turns
}

func (s shared) mean(classes ...string) float64 {
	sum, n := 0.0, 0.0
	for _, class := range classes {
		for _, seconds := range s.completion[class] {
			sum, n = sum+seconds, n+1
		}
	}
	return sum / n
}

// slowest is the least part of its speed alone, with the cores that it had, which an important job kept; and the least
// by how fast the same job trained in the other run, in which it may have had other cores.
func slowest(jobs []sharing, alone, together shared) (kept, pace float64) {
	kept, pace = math.Inf(1), math.Inf(1)
	for k, j := range jobs {
		if j.class == "high" {
			kept, pace = min(kept, together.kept[k]), min(pace, together.pace[k]/alone.pace[k])
		}
	}
	return kept, pace
}

// What sharing may cost: a part of its speed that the important one keeps, and of the mean completion of all.
const (
	keptAtLeast    = 0.9
	completionMost = 1.03
)

// TestAThirdOfTheJobsShareTheirGPU runs the same jobs twice under the daemon: with synergy-share in the comments of
// a third of them, and without. No important job may be slowed down by more than is promised, nor all be slower.
func TestAThirdOfTheJobsShareTheirGPU(t *testing.T) {
	c, d := SetUpShared(t, "n1", "n2")
	d.Round = benchRound
	c.profilesFor(d)
	d.Start()
	jobs := sharingWorkload(7)
	alone, together := c.runSharing(jobs, d.out(), false), c.runSharing(jobs, d.out(), true)
	t.Logf("%d jobs on 8 GPUs, arriving over %.0f s; the same jobs, the same cluster, one after the other", len(jobs),
		shareSpan)
	t.Logf("%-28s %9s %9s %9s %9s %11s %7s", "mean completion, s", "all", "high", "low", "others", "makespan s",
		"turns")
	for _, row := range []struct {
		name string
		shared
	}{{"each its own GPU", alone}, {"a third with synergy-share", together}} {
		t.Logf("%-28s %9.1f %9.1f %9.1f %9.1f %11.1f %7d", row.name, row.mean("high", "low", ""), row.mean("high"),
			row.mean("low"), row.mean(""), row.makespan, row.seated)
	}
	kept, pace := slowest(jobs, alone, together)
	t.Logf("the slowest important job had %.3f of its speed alone, and %g is promised; against the other run, with "+
		"the cores that it had there, %.3f", kept, keptAtLeast, pace)
	for k, j := range jobs {
		if j.class == "high" {
			t.Logf("important job %d: kept %.3f, iterations a second %.2f alone, %.2f together", k, together.kept[k],
				alone.pace[k], together.pace[k])
		}
	}
	if kept < keptAtLeast {
		t.Errorf("an important job kept %.3f of its speed alone, want %g", kept, keptAtLeast)
	}
	before, now := alone.mean("high", "low", ""), together.mean("high", "low", "")
	if now > completionMost*before {
		t.Errorf("the mean completion is %.1f s where a third share, want at most %g times the %.1f s without", now,
			completionMost, before)
	}
	if together.seated == 0 || alone.seated != 0 {
		t.Errorf("%d jobs took turns with the directive, %d without", together.seated, alone.seated)
	}
}

func (c *Cluster) runSharing(jobs []sharing, profiles string, share bool) shared {
	c.t.Helper()
	began := time.Now()
	ids, submitted := make([]JobID, len(jobs)), make([]time.Time, len(jobs))
	for k, j := range jobs {
		time.Sleep(time.Until(began.Add(j.arrival)))
		comment := word(j.model)
		if share && j.class != "" {
			comment += " synergy-share=" + j.class + ",mem=8"
		}
		script := strings.ReplaceAll(train(j.model, j.iterations, shareSpeedup), "/opt/synergy/etc/profiles", profiles)
		submitted[k] = time.Now()
		ids[k] = c.MustSbatch("alice", script, comment, "--gres=gpu:1", "-c", "2", "--mem=4000", output,
			"--open-mode=append")
	}
	for _, id := range ids {
		c.waitLong(id, "COMPLETED", 20*time.Minute)
	}
	o := shared{completion: map[string][]float64{}}
	for k, id := range ids {
		end, _ := c.ended(id)
		o.completion[jobs[k].class] = append(o.completion[jobs[k].class], end.Sub(submitted[k]).Seconds())
		o.makespan = max(o.makespan, end.Sub(began).Seconds())
		pace, kept, turns := c.paceOf(id)
		if turns > 0 {
			o.seated++
		}
		o.pace, o.kept = append(o.pace, pace), append(o.kept, kept)
	}
	return o
}

// paceOf is how many iterations a second a job did in all its starts, in which part of its time it did not wait for its
// GPU, and how many turns it took.
func (c *Cluster) paceOf(id JobID) (pace, kept float64, turns int64) {
	c.t.Helper()
	done, wall, waited := 0.0, 0.0, 0.0
	for line := range strings.Lines(c.Output(id)) {
		var r struct {
			Event  string  `json:"ev"`
			Turns  int64   `json:"turns"`
			Done   float64 `json:"done"`
			Waited float64 `json:"turn_wait_s"`
			Wall   float64 `json:"wall_s"`
		}
		if json.Unmarshal([]byte(line), &r) == nil && r.Event == "end" {
			done, wall, waited, turns = done+r.Done, wall+r.Wall, waited+r.Waited, turns+r.Turns
		}
	}
	if done == 0 || wall == 0 {
		c.t.Fatal(fmt.Errorf("job %s does not tell how it ended", id))
	}
	return done / wall, 1 - waited/wall, turns
}
