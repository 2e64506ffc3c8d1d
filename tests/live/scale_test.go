//go:build live && bench

package live

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"
)

const (
	scaleRunning = 512
	scaleWaiting = 5000
	scaleRound   = 60 * time.Second
	scaleRounds  = 6
)

// held is a round as the daemon's own page tells it.
type held struct {
	Round  int
	Began  time.Time
	Phases []struct {
		Name string
		Took time.Duration `json:"took_ns"`
	}
	Granted, Waiting                      int
	Renewed, Put, Started, Stopped, Wrong int
}

// took is the seconds of these phases.
func (h held) took(names ...string) float64 {
	sum := 0.0
	for _, phase := range h.Phases {
		if slices.Contains(names, phase.Name) {
			sum += phase.Took.Seconds()
		}
	}
	return sum
}

// acted is the seconds after the decision: what was written down, asked of Slurm and waited for.
func (h held) acted() float64 { return h.total() - h.took("observe") - h.took(deciding...) }

func (h held) total() float64 {
	sum := 0.0
	for _, phase := range h.Phases {
		sum += phase.Took.Seconds()
	}
	return sum
}

// deciding are the phases of a round that ask nobody.
var deciding = []string{"decide", "check", "diff"}

// Held is one round, or the last one for 0. What is large in it stays in the container.
func (d *Daemon) Held(round int) held {
	d.c.t.Helper()
	const page = `set -o pipefail; curl -sf http://127.0.0.1:9817/round"$1" | jq -c '{Round: .round, Began: .began, Phases: .phases,
		Granted: ([.plan.decisions[] | select(.grant)] | length), Waiting: ([.plan.decisions[] | select(.grant | not)] | length),
		Renewed: ([.steps[]? | select(.verb == "renew" and .error == null and (.put_off | not))] | length), Put: ([.steps[]? | select(.put_off)] | length),
		Started: ([.steps[]? | select(.verb == "start" and .error == null and (.put_off | not))] | length),
		Stopped: ([.steps[]? | select(.verb == "preempt" and .error == null and (.put_off | not))] | length),
		Wrong: ([.steps[]? | select(.error != null)] | length)}'`
	path := ""
	if round > 0 {
		path = fmt.Sprintf("/%d", round)
	}
	var h held
	if err := json.Unmarshal([]byte(d.c.MustExec("login", "synergy", "bash", "-c", page, "sh", path)), &h); err != nil {
		d.c.t.Fatalf("round %d: %v", round, err)
	}
	return h
}

// TestSixtyFourNodes runs 512 emulated jobs with 5,000 waiting behind them, of which some end and others are preempted
// in each round, and says what a round takes and how long a daemon needs from its start to its first decision.
func TestSixtyFourNodes(t *testing.T) {
	c, d := SetUp(t, "las", "tune", "rate: 200")
	d.Round = scaleRound
	d.Set("lease", 3*scaleRound)
	d.Set("start_timeout", time.Minute) // as shipped
	models := []string{"res18", "gnmt", "transformer", "lstm", "gnmt", "m5", "transformer", "gnmt"}
	began := time.Now()
	c.Crowd(scaleRunning+scaleWaiting, func(k int) posting {
		model := models[k%len(models)]
		seconds := 60 + 37*(k%16) // one to eleven minutes
		iterations := int(float64(seconds*scaleSpeedup) / iterTime[model])
		return posting{script: train(model, iterations, scaleSpeedup), comment: wordOf(model), cpus: 3, gpus: 1}
	})
	t.Logf("%d jobs submitted in %.0f s", scaleRunning+scaleWaiting, time.Since(began).Seconds())
	before, asked := c.CPUTime("slurmrestd", "slurmrestd"), time.Now()
	c.Get(c.Token(), "/jobs/")
	t.Logf("a listing of all of them, asked for by itself: %.1f s, for which slurmrestd used %.1f s of CPU",
		time.Since(asked).Seconds(), c.CPUTime("slurmrestd", "slurmrestd")-before)
	stop := c.Watch()
	d.Launch("--log-level", "warn")
	d.waitForRounds(1)
	var numbers []int
	if err := json.Unmarshal([]byte(d.Get("/rounds")), &numbers); err != nil || len(numbers) == 0 {
		t.Fatalf("rounds %v: %v", numbers, err)
	}
	first, started := d.Held(slices.Min(numbers)), d.Metrics()["process_start_time_seconds"]
	sight := first.Began.Sub(time.UnixMilli(int64(started * 1000))).Seconds()
	decided := sight + first.took("observe") + first.took(deciding...)
	listing := d.Metrics()
	t.Logf(
		"from the daemon's start to its first decision: %.1f s, of which slurmrestd's listing %.1f s (%.1f MB), "+
			"beginning to look %.1f s, decide %.3f s",
		decided, listing[`synergy_slurm_request_seconds_sum{request="GET /jobs/"}`],
		listing[`synergy_slurm_bytes_total{request="GET /jobs/"}`]/1e6,
		sight, first.took(deciding...))
	d.waitForRounds(scaleRounds)
	last := d.Held(0).Round
	t.Logf("%5s | %7s %7s | %8s %8s %8s %8s | %7s %7s %7s %7s %6s", "round", "runs", "waits", "observe", "decide",
		"act", "total", "renewed", "put off", "started", "stopped", "failed")
	stopped, full := 0, 0
	for n := first.Round; n <= last; n++ {
		h := d.Held(n)
		t.Logf("%5d | %7d %7d | %7.2fs %7.3fs %7.2fs %7.2fs | %7d %7d %7d %7d %6d", h.Round, h.Granted, h.Waiting,
			h.took("observe"),
			h.took(deciding...), h.acted(), h.total(), h.Renewed, h.Put, h.Started, h.Stopped, h.Wrong)
		if h.total() > scaleRound.Seconds()+15 {
			t.Errorf("round %d took %.0f s, and the next is due every %v", n, h.total(), scaleRound)
		}
		stopped, full = stopped+h.Stopped, max(full, h.Granted)
	}
	runs := c.Count("running")
	t.Logf("%d jobs run, slurmctld has %.0f MB, slurmrestd %.0f MB, the daemon %.0f MB", runs,
		c.Memory("slurmctld", "slurmctld"),
		c.Memory("slurmrestd", "slurmrestd"), d.Metrics()[residentMemory]/1e6)
	seen, breaches := stop()
	if len(breaches) > 0 || seen < 64 {
		t.Errorf("%d looks at nodes, breaches: %v", seen, breaches)
	}
	if full != scaleRunning || stopped == 0 || decided > 60 {
		t.Errorf("%d jobs ran at once and %d were preempted: want %d and some; first decision after %.0f s", full,
			stopped, scaleRunning, decided)
	}
}

// scaleSpeedup is how much faster than in reality the emulated jobs train.
const scaleSpeedup = 40

// wordOf is the comment of a job that saves, as REST takes it.
func wordOf(model string) string { return word(model)[len("--comment="):] }
