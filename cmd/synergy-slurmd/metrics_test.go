package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/bound"
)

func testMetrics() *metrics { return newMetrics(func() float64 { return 4096 }, "1.2.3") }

// wantMetrics compares the named metrics with the text that Prometheus would read.
func wantMetrics(t *testing.T, m *metrics, want string, names ...string) {
	t.Helper()
	if err := testutil.GatherAndCompare(m.registry, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}

func TestARoundShowsInTheMetrics(t *testing.T) {
	m := testMetrics()
	m.round(busyReport(), time.Second, nil)
	wantMetrics(t, m, `
# HELP synergy_jobs Jobs with our directive: granted, waiting, or left to Slurm (outside).
# TYPE synergy_jobs gauge
synergy_jobs{state="granted"} 1
synergy_jobs{state="outside"} 1
synergy_jobs{state="waiting"} 2
# HELP synergy_granted_cores Cores granted by the last plan.
# TYPE synergy_granted_cores gauge
synergy_granted_cores 20
# HELP synergy_proportional_cores Cores that the granted jobs would have by their GPUs alone.
# TYPE synergy_proportional_cores gauge
synergy_proportional_cores 12
# HELP synergy_granted_memory_bytes Memory granted by the last plan.
# TYPE synergy_granted_memory_bytes gauge
synergy_granted_memory_bytes 1.048576e+11
# HELP synergy_gain_ratio Expected throughput of the granted jobs over that of the proportional share, mean over their GPUs.
# TYPE synergy_gain_ratio gauge
synergy_gain_ratio 1.5
# HELP synergy_gpus GPUs of the managed nodes by use: granted, foreign (jobs that are not ours), closed (free on closed nodes), free.
# TYPE synergy_gpus gauge
synergy_gpus{use="closed"} 6
synergy_gpus{use="foreign"} 1
synergy_gpus{use="free"} 5
synergy_gpus{use="granted"} 4
# HELP synergy_last_round_number Number of the last good round.
# TYPE synergy_last_round_number gauge
synergy_last_round_number 17
`, "synergy_jobs", "synergy_granted_cores", "synergy_proportional_cores", "synergy_granted_memory_bytes", "synergy_gain_ratio", "synergy_gpus", "synergy_last_round_number")
}

func TestHowGoodAPlanIsShowsUntilTheNextOneThatSaysSo(t *testing.T) {
	m := testMetrics()
	report := busyReport()
	report.Certificate = &bound.Certificate{
		Value: 9, Bound: 12, Core: 0.5, Gigabyte: 0.25, Stranded: bound.Stranded{Cores: 3, Memory: 2},
		Lending: bound.Lending{Jobs: 2, Kept: 3, Lent: 5},
	}
	m.round(report, time.Second, nil)
	m.smallRound(busyReport(), true, nil)
	for name, pair := range map[string][2]float64{
		"value": {testutil.ToFloat64(m.certified.value), 9}, "bound": {testutil.ToFloat64(m.certified.bound), 12},
		"ratio": {testutil.ToFloat64(m.certified.ratio), 0.75}, "core": {testutil.ToFloat64(m.certified.core), 0.5},
		"GB":                 {testutil.ToFloat64(m.certified.gigabyte), 0.25},
		"stranded by cores":  {testutil.ToFloat64(m.certified.stranded.WithLabelValues("cores")), 3},
		"lending":            {testutil.ToFloat64(m.certified.lendingCost), 0.25},
		"lent":               {testutil.ToFloat64(m.certified.lent), 5},
		"stranded by memory": {testutil.ToFloat64(m.certified.stranded.WithLabelValues("memory")), 2},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: %g, want %g", name, pair[0], pair[1])
		}
	}
}

// TestWhatWasLearnedAndIgnoredShowsInTheMetrics: lessons add up over rounds, failed ones too, since they are on the
// disk; what is ignored is of the last one.
func TestWhatWasLearnedAndIgnoredShowsInTheMetrics(t *testing.T) {
	m := testMetrics()
	m.ofShelf(func() float64 { return 3 })
	m.ofHistory(func() float64 { return 1 })
	lessons := bridge.Report{Lessons: []bridge.Lesson{{User: "alice"}, {User: "bob", Forgot: true}, {User: "eve"}},
		LearnFault: "disk full", Ignored: map[bridge.Ignored]int{bridge.IgnoredCurve: 2, bridge.IgnoredName: 1}}
	m.round(lessons, time.Second, nil)
	lessons.Ignored = map[bridge.Ignored]int{bridge.IgnoredCurve: 1}
	m.round(lessons, time.Second, nil)
	m.round(lessons, time.Second, slurm.ErrUnreachable)
	wantMetrics(t, m, `
# HELP synergy_jobs_ignored Jobs of which something that they say is ignored, by what that is.
# TYPE synergy_jobs_ignored gauge
synergy_jobs_ignored{word="curve"} 1
synergy_jobs_ignored{word="directive"} 0
synergy_jobs_ignored{word="name"} 0
synergy_jobs_ignored{word="progress"} 0
# HELP synergy_learned_profiles Owners' job names of which something is known.
# TYPE synergy_learned_profiles gauge
synergy_learned_profiles 3
# HELP synergy_lessons_total What running jobs taught, by what came of it: learned, forgotten after a drift; `+
		`unkept: rounds in which something could not be written down.
# TYPE synergy_lessons_total counter
synergy_lessons_total{outcome="forgotten"} 3
synergy_lessons_total{outcome="learned"} 6
synergy_lessons_total{outcome="unkept"} 3
`, "synergy_jobs_ignored", "synergy_learned_profiles", "synergy_lessons_total")
}

func TestJobsThatWaitCountByReasonAndCause(t *testing.T) {
	m := testMetrics()
	m.round(busyReport(), time.Second, nil)
	for cause, want := range map[bridge.WaitCause]float64{bridge.CauseGang: 1, bridge.CauseTurn: 0,
		bridge.CauseHeld: 1, bridge.CauseOther: 1} {
		if got := testutil.ToFloat64(m.waiting.WithLabelValues(string(cause.Reason()), string(cause))); got != want {
			t.Errorf("%s: %g, want %g", cause, got, want)
		}
	}
}

func TestStepsCountByVerbAndOutcome(t *testing.T) {
	m := testMetrics()
	m.round(busyReport(), time.Second, nil)
	shadow := busyReport()
	shadow.Shadow = true
	m.round(shadow, time.Second, nil)
	for kind, want := range map[stepKind]float64{
		{bridge.Start, done}: 1, {bridge.Start, planned}: 1, {bridge.Preempt, failed}: 2, {bridge.Preempt, done}: 0,
		{bridge.Renew, done}: 1,
	} {
		if got := testutil.ToFloat64(m.steps.WithLabelValues(string(kind.verb), string(kind.outcome))); got != want {
			t.Errorf("%v: %g, want %g", kind, got, want)
		}
	}
}

func TestJobsThatAreHandedBackCountByTheirCause(t *testing.T) {
	m := testMetrics()
	report := bridge.Report{Steps: []bridge.Step{
		{
			Job:   1,
			Verb:  bridge.Release,
			Cause: bridge.CauseClosed,
		},
		{Job: 2, Verb: bridge.Release, Cause: bridge.CauseShape},
		{Job: 3, Verb: bridge.Release, Cause: bridge.CauseClosed, Error: "slurmrestd: 503"},
		{Job: 4, Verb: bridge.Release, Cause: bridge.CauseClosed, PutOff: true},
		{Job: 5, Verb: bridge.Release, Cause: "of next year"},
		{Job: 6, Verb: bridge.Renew, Cause: bridge.CauseClosed},
	}}
	m.round(report, time.Second, nil)
	report.Shadow = true
	m.round(report, time.Second, nil)
	for cause, want := range map[bridge.WaitCause]float64{bridge.CauseClosed: 1, bridge.CauseShape: 1,
		bridge.CauseOther:  1,
		bridge.CauseCanary: 0} {
		if got := testutil.ToFloat64(m.given.WithLabelValues(string(cause))); got != want {
			t.Errorf("%s: %g, want %g", cause, got, want)
		}
	}
}

func TestAFailedRoundLeavesTheClustersGaugesAsTheyWere(t *testing.T) {
	m := testMetrics()
	m.round(busyReport(), time.Second, nil)
	m.round(bridge.Report{Steps: busyReport().Steps}, time.Second, slurm.ErrUnreachable)
	for name, pair := range map[string][2]float64{
		"granted jobs":  {testutil.ToFloat64(m.jobs.WithLabelValues("granted")), 1},
		"good rounds":   {testutil.ToFloat64(m.rounds.WithLabelValues("done")), 1},
		"failed rounds": {testutil.ToFloat64(m.rounds.WithLabelValues("failed")), 1},
		"starts":        {testutil.ToFloat64(m.steps.WithLabelValues("start", "done")), 2},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: %g, want %g", name, pair[0], pair[1])
		}
	}
}

func TestNoRoundAddsALabelThatIsNotOnAList(t *testing.T) {
	m := testMetrics()
	m.round(busyReport(), time.Second, nil)
	for i := range 100 {
		m.request(fmt.Sprintf("GET /job/%d", i), "", time.Millisecond, 100)
	}
	before := series(t, m)
	for i := range 100 {
		word := fmt.Sprintf("word of user %d", i)
		m.round(bridge.Report{
			Phases: []bridge.Phase{{Name: word}, {Name: "observe"}},
			Plan:   policy.Plan{Decisions: []policy.Decision{{Job: i, Reason: policy.Reason(word)}}},
			Steps:  []bridge.Step{{Verb: bridge.Verb(word)}, {Verb: bridge.Verb(word), Error: word}},
		}, time.Second, nil)
		m.request(word, "", time.Millisecond, 100)
	}
	// One more phase and verb than the lists have, and each of both outcomes.
	if after := series(t, m); after > before+3 {
		t.Errorf("%d series became %d", before, after)
	}
}

func series(t *testing.T, m *metrics) int {
	t.Helper()
	n, err := testutil.GatherAndCount(m.registry)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestTheMetricsAreNamedAsPrometheusWants(t *testing.T) {
	problems, err := testutil.GatherAndLint(fullMetrics().registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// fullMetrics has at least one series of every metric.
func fullMetrics() *metrics {
	m := testMetrics()
	m.ofShelf(func() float64 { return 3 })
	m.ofHistory(func() float64 { return 1 })
	m.round(busyReport(), time.Second, nil)
	m.certified.set(&bound.Certificate{})
	m.request("GET /jobs/state/", "", time.Millisecond, 100)
	m.request("POST /job/{job_id}", "refused", time.Millisecond, 100)
	m.reload(errors.New("line 2"))
	m.reload(nil)
	return m
}

func TestTheManualExplainsEveryMetric(t *testing.T) {
	manual := read(t, "metrics.md")
	families, err := fullMetrics().registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if name := family.GetName(); strings.HasPrefix(name, "synergy_") && !strings.Contains(manual, "`"+name+"`") {
			t.Errorf("docs/metrics.md does not explain %s", name)
		}
	}
}

// TestDashboardAndAlertsReadOnlyMetricsThatThereAre; that their queries find data is shown by a Prometheus, live.
func TestDashboardAndAlertsReadOnlyMetricsThatThereAre(t *testing.T) {
	families, err := fullMetrics().registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, family := range families {
		known[family.GetName()] = true
		for _, part := range []string{"_sum", "_count", "_bucket"} {
			known[family.GetName()+part] = family.GetType().String() == "HISTOGRAM"
		}
	}
	for _, file := range []string{"../etc/grafana/synergy.json", "../etc/prometheus/synergy.rules.yaml"} {
		names := regexp.MustCompile(`\bsynergy_[a-z_]+`).FindAllString(read(t, file), -1)
		if len(names) < 10 {
			t.Errorf("%s reads %v only", file, names)
		}
		for _, name := range names {
			if !known[name] {
				t.Errorf("%s reads %s, which there is not", file, name)
			}
		}
	}
}

// TestTheDashboardDrawsWhatNoPageShowsOverTime: pages show the last round alone.
func TestTheDashboardDrawsWhatNoPageShowsOverTime(t *testing.T) {
	var dashboard struct {
		Panels []struct {
			Type    string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, "../etc/grafana/synergy.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	series := ""
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			if panel.Type == "timeseries" {
				series += target.Expr + "\n"
			}
		}
	}
	for _, want := range []string{"gpus{", "gpus_stranded{", "granted_cores{", "proportional_cores{",
		"granted_memory_bytes{", "proportional_memory_bytes{", "jobs_waiting{", "gain_ratio{", "plan_ratio{",
		"round_phase_seconds_sum{", "steps_total{", "savings_saved_gpu_seconds_total{",
		"savings_overspent_gpu_seconds_total{", "savings_idle_gpu_seconds_total{", "savings_runs_ended_total{",
		`savings_gpu_seconds_total{instance=~"$instance", sum!="filled"`,
		`savings_gpu_seconds_total{instance=~"$instance", sum="filled"`} {
		if !strings.Contains(series, "synergy_"+want) {
			t.Errorf("no panel draws synergy_%s over time", want)
		}
	}
}

func TestAReloadThatFailedShowsUntilOneSucceeds(t *testing.T) {
	m := testMetrics()
	for _, err := range []error{errors.New("line 2"), nil} {
		m.reload(err)
		want := 0.0
		if err != nil {
			want = 1
		}
		if got := testutil.ToFloat64(m.reloadBad); got != want {
			t.Errorf("after %v: %g", err, got)
		}
	}
}
