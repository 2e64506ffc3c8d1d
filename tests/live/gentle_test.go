//go:build live && bench

package live

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// meter is a moment of the daemon, of slurmctld and of slurmrestd.
type meter struct {
	at          time.Time
	daemon      figures
	rpcs        figures
	ctld, restd float64 // seconds of CPU
}

func (c *Cluster) read(d *Daemon) meter {
	c.t.Helper()
	m := meter{rpcs: c.RPCs(), ctld: c.CPUTime("slurmctld", "slurmctld"), restd: c.CPUTime("slurmrestd", "slurmrestd"),
		at: time.Now()}
	if d != nil {
		m.daemon = d.Metrics()
	}
	return m
}

// cost is what a round asked of Slurm, on average over some.
type cost struct {
	waiting   int
	rounds    float64
	calls     figures // requests of a round by kind, "… bytes" beside them
	requests  float64
	bytes     float64
	phases    figures // seconds by phase
	rpcTime   float64 // that slurmctld spent on calls of the daemon's user, seconds a round
	ctld      float64 // share of a core
	idle      float64 // the same before the daemon was started
	restd     float64
	period    time.Duration
	listing   float64 // bytes of the full listing at the start
	listed    float64 // seconds that it took
	restarted float64 // jobs started or stopped meanwhile: a steady window has none
}

const requestSample = `synergy_slurm_requests_total{outcome="`

// between works out what a round cost between two readings.
func between(a, b meter) cost {
	since := b.daemon.minus(a.daemon)
	n := since[`synergy_rounds_total{outcome="done"}`]
	k := cost{rounds: n, calls: figures{}, phases: figures{}, period: b.at.Sub(a.at)}
	for name, value := range since {
		if rest, found := strings.CutPrefix(name, requestSample); found && value > 0 {
			_, request, _ := strings.Cut(rest, `request="`)
			k.calls[strings.TrimSuffix(request, `"}`)] += value / n
		}
		if phase, found := strings.CutPrefix(name, `synergy_round_phase_seconds_sum{phase="`); found {
			k.phases[strings.TrimSuffix(phase, `"}`)] = value / n
		}
	}
	k.requests = since.sum("synergy_slurm_requests_total") / n
	k.bytes = since.sum("synergy_slurm_bytes_total") / n
	rpcs := b.rpcs.minus(a.rpcs)
	k.rpcTime = rpcs["synergy seconds"] / n
	k.ctld = (b.ctld - a.ctld) / k.period.Seconds()
	k.restd = (b.restd - a.restd) / k.period.Seconds()
	k.restarted = since[`synergy_steps_total{outcome="done",verb="start"}`] + since[`synergy_steps_total{outcome="done",verb="preempt"}`]
	return k
}

// mostRequests is how many a steady round and the looks until the next one may make: 32 jobs are told anew why they
// wait, and Slurm is looked at every second at most.
const mostRequests = 120

// TestGentle measures what steady rounds ask of Slurm with a backlog of three sizes.
func TestGentle(t *testing.T) {
	var rows []cost
	for _, size := range []struct {
		waiting int
		round   time.Duration
	}{{100, 10 * time.Second}, {1000, 20 * time.Second}, {5000, 40 * time.Second}} {
		t.Run(fmt.Sprint(size.waiting), func(t *testing.T) { rows = append(rows, gentle(t, size.waiting, size.round)) })
	}
	t.Logf(
		"what a round asks of Slurm, with 32 jobs running; lease three rounds; on average over the rounds of a window")
	t.Logf("%7s %6s %6s | %8s %7s %7s %7s | %9s | %7s %7s %7s | %9s | %6s %6s %6s | %10s", "waiting", "round", "rounds",
		"requests", "states",
		"reads", "updates", "bytes", "observe", "decide", "act s", "RPC ms", "ctld %", "before", "restd", "listing")
	for _, k := range rows {
		act := k.phases.total() - k.phases["observe"] - k.phases["decide"] - k.phases["check"] - k.phases["diff"]
		t.Logf(
			"%7d %5.0fs %6.0f | %8.1f %7.1f %7.1f %7.1f | %9.0f | %7.3f %7.3f %7.2f | %9.1f | %6.2f %6.2f %6.2f | "+
				"%4.1f MB %4.1f s",
			k.waiting, k.period.Seconds()/k.rounds, k.rounds, k.requests, k.calls["GET /jobs/state/"],
			k.calls["GET /job/{job_id}"],
			k.calls["POST /job/{job_id}"], k.bytes, k.phases["observe"], k.phases["decide"], act, 1000*k.rpcTime,
			100*k.ctld, 100*k.idle, 100*k.restd, k.listing/1e6, k.listed)
		if k.restarted > 0 {
			t.Errorf("%d waiting: %.0f jobs were started or stopped in a window that should be steady", k.waiting,
				k.restarted)
		}
		if k.requests > mostRequests {
			t.Errorf("%d waiting: %.1f requests a round: want %d at most, however many wait", k.waiting, k.requests,
				mostRequests)
		}
	}
}

func gentle(t *testing.T, waiting int, round time.Duration) cost {
	c, d := SetUp(t, "fifo", "tune")
	d.Round = round
	d.Set("lease", 3*round)
	job := posting{script: "exec sleep 3600", comment: "synergy-profile=gnmt.json synergy-checkpoint=USR1@20", cpus: 3,
		gpus: 1}
	began := time.Now()
	c.Crowd(waiting+32, func(int) posting { return job })
	t.Logf("%d jobs submitted in %.0f s", waiting+32, time.Since(began).Seconds())
	before := c.read(nil)
	time.Sleep(15 * time.Second)
	after := c.read(nil)
	d.Launch("--log-level", "warn")
	d.waitForRounds(1)
	first := d.Metrics()
	settled := d.waitForRounds(2)
	a := c.read(d)
	d.waitForRounds(settled + 4)
	b := c.read(d)
	k := between(a, b)
	k.waiting = waiting
	k.idle = (after.ctld - before.ctld) / after.at.Sub(before.at).Seconds()
	k.listing = first[`synergy_slurm_bytes_total{request="GET /jobs/"}`]
	k.listed = first[`synergy_slurm_request_seconds_sum{request="GET /jobs/"}`]
	var lines []string
	for name, n := range k.calls {
		lines = append(lines, fmt.Sprintf("%6.1f %s", n, name))
	}
	slices.Sort(lines)
	t.Logf("%d waiting: requests a round:\n%s", waiting, strings.Join(lines, "\n"))
	c.tellRPCs(b.rpcs.minus(a.rpcs))
	return k
}

// tellRPCs logs which message types took most of slurmctld's time.
func (c *Cluster) tellRPCs(rpcs figures) {
	c.t.Helper()
	var kinds []string
	for name, n := range rpcs {
		// users are in small letters
		if kind, found := strings.CutSuffix(name, " count"); found && n > 0 && strings.ToUpper(kind) == kind {
			kinds = append(kinds, kind)
		}
	}
	slices.SortFunc(kinds, func(x, y string) int { return cmp.Compare(rpcs[y+" seconds"], rpcs[x+" seconds"]) })
	for _, kind := range kinds[:min(6, len(kinds))] {
		c.t.Logf("  sdiag, whole window: %-32s %7.0f calls %9.1f ms", kind, rpcs[kind+" count"],
			1000*rpcs[kind+" seconds"])
	}
}

// answers says whether the daemon serves its pages yet.
func (d *Daemon) answers() bool {
	_, err := d.c.Exec("login", "synergy", "curl", "-sf", "-o", "/dev/null", "http://127.0.0.1:9817/")
	return err == nil
}

// waitForRounds waits until so many rounds have ended well, and returns how many have.
func (d *Daemon) waitForRounds(n int) int {
	d.c.t.Helper()
	for deadline := time.Now().Add(time.Duration(n+3) * (d.Round + 20*time.Second)); ; time.Sleep(time.Second) {
		if d.answers() {
			if done := int(d.Metrics()[`synergy_rounds_total{outcome="done"}`]); done >= n {
				return done
			}
		}
		if time.Now().After(deadline) {
			d.c.t.Fatalf("waited in vain for round %d", n)
		}
	}
}
