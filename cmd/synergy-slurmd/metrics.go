package main

import (
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/bound"
	"github.com/synergy-slurmd/synergy-slurmd/policy/plugin"
)

// metrics are what Prometheus reads (docs/metrics.md). No label has a word of a user: the values come from the lists
// below, and anything else counts as "other".
type metrics struct {
	registry *prometheus.Registry

	phases    *prometheus.HistogramVec
	took      prometheus.Histogram
	rounds    *prometheus.CounterVec
	lastGood  prometheus.Gauge
	number    prometheus.Gauge
	ahead     prometheus.Gauge
	jobs      *prometheus.GaugeVec
	waiting   *prometheus.GaugeVec
	liars     prometheus.Gauge // jobs that contradict their profiles
	slowed    prometheus.Gauge
	unruly    prometheus.Gauge
	granted   amounts
	fair      amounts // the proportional shares of the granted jobs
	gain      prometheus.Gauge
	certified certified
	gpus      *prometheus.GaugeVec
	steps     *prometheus.CounterVec
	lost      *prometheus.CounterVec
	given     *prometheus.CounterVec // back to Slurm
	smalls    *prometheus.CounterVec
	requests  *prometheus.CounterVec
	answers   *prometheus.HistogramVec // time until Slurm answered
	heard     *prometheus.CounterVec   // bytes of Slurm's answers
	lessons   *prometheus.CounterVec
	ignored   *prometheus.GaugeVec
	reloads   *prometheus.CounterVec
	reloadBad prometheus.Gauge
	leader    prometheus.Gauge
	shadow    prometheus.Gauge
	booked    booked
	plans     *prometheus.CounterVec // nil: the planner is the built-in one

	calls bounded
}

// amounts are gauges for a vector, in Prometheus' base units.
type amounts struct{ gpus, cores, memory prometheus.Gauge }

func (a amounts) set(v gres.Vector) {
	a.gpus.Set(float64(v.GPUs))
	a.cores.Set(float64(v.CPUs))
	a.memory.Set(float64(v.Memory) * (1 << 20))
}

// certified are gauges for how good the last plan is.
type certified struct {
	value, bound, ratio, core, gigabyte prometheus.Gauge
	stranded                            *prometheus.GaugeVec
	lendingCost, lent                   prometheus.Gauge
}

// set leaves the gauges as they are if the round has no certificate. Small rounds have none.
func (c certified) set(cert *bound.Certificate) {
	if cert == nil {
		return
	}
	c.value.Set(cert.Value)
	c.bound.Set(cert.Bound)
	c.ratio.Set(cert.Ratio())
	c.core.Set(cert.Core)
	c.gigabyte.Set(cert.Gigabyte)
	c.stranded.WithLabelValues("cores").Set(float64(cert.Stranded.Cores))
	c.stranded.WithLabelValues("memory").Set(float64(cert.Stranded.Memory))
	c.lendingCost.Set(cert.LendingCost())
	c.lent.Set(float64(cert.Lending.Lent))
}

// other stands for every word that is on no list.
const other = "other"

func phaseNames() []string {
	return []string{"observe", "decide", "check", "certify", "diff", "intend", "lease", "ask", "follow", "arm", "renew",
		"settle"}
}

func verbs() []bridge.Verb {
	return []bridge.Verb{bridge.Preempt, bridge.Restore, bridge.Renew, bridge.Start, bridge.Release, bridge.Arm}
}

// within is the word, or "other" if it is not on the list.
func within[T ~string](list []T, word T) string {
	if slices.Contains(list, word) {
		return string(word)
	}
	return other
}

// newMetrics registers everything, and sets counters with all their labels to zero, so that the first failure shows as
// a rise.
func newMetrics(ledgerSize func() float64, version string) *metrics {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	with := promauto.With(registry)
	m := &metrics{registry: registry}
	m.ofRounds(with)
	m.ofCluster(with)
	m.ofLearning(with)
	m.ofSavings(with)
	m.ofSlurm(with)
	m.ofDaemon(with, ledgerSize, version)
	return m
}

// ofRounds registers what is counted of rounds. Counters of outcomes begin at 0 for each label that they can have.
func (m *metrics) ofRounds(with promauto.Factory) {
	buckets := prometheus.ExponentialBucketsRange(0.001, 300, 14)
	m.phases = with.NewHistogramVec(prometheus.HistogramOpts{Name: "synergy_round_phase_seconds",
		Help: "Time that a phase of a round took.", Buckets: buckets}, []string{"phase"})
	m.took = with.NewHistogram(prometheus.HistogramOpts{Name: "synergy_round_seconds",
		Help: "Time that a round took.", Buckets: buckets})
	m.rounds = with.NewCounterVec(prometheus.CounterOpts{Name: "synergy_rounds_total",
		Help: "Rounds by how they ended."}, []string{"outcome"})
	m.lastGood = with.NewGauge(prometheus.GaugeOpts{Name: "synergy_last_round_timestamp_seconds",
		Help: "When the last good round ended, in seconds since the epoch; 0 before the first."})
	m.number = with.NewGauge(prometheus.GaugeOpts{Name: "synergy_last_round_number",
		Help: "Number of the last good round."})
	m.ahead = with.NewGauge(prometheus.GaugeOpts{Name: "synergy_slurm_clock_ahead_seconds",
		Help: "By how much Slurm's clock is ahead of the daemon's."})
	m.steps = with.NewCounterVec(prometheus.CounterOpts{Name: "synergy_steps_total",
		Help: "What rounds did to jobs, by verb and how it ended; planned: shadow mode, put-off: to a later round."},
		[]string{"verb", "outcome"})
	m.smalls = with.NewCounterVec(prometheus.CounterOpts{Name: "synergy_small_rounds_total",
		Help: "Looks between two rounds, by what came of them: done, failed, or idle."}, []string{"outcome"})
	for _, o := range []string{string(done), string(failed), idle} {
		m.smalls.WithLabelValues(o)
	}
	m.lost = with.NewCounterVec(prometheus.CounterOpts{Name: "synergy_jobs_lost_total",
		Help: "Jobs that ended for good when they were asked to save and leave, by the likely cause."},
		[]string{"cause"})
	for _, cause := range bridge.Causes() {
		m.lost.WithLabelValues(string(cause))
	}
	m.given = with.NewCounterVec(prometheus.CounterOpts{
		Name: "synergy_jobs_handed_back_total",
		Help: "Waiting jobs that were handed back to Slurm with their users' own requests, by what for: no node " +
			"could " +
			"hold them, those are closed, Slurm refuses the planned size, no round plans such a job, …",
	},
		[]string{"cause"})
	for _, cause := range bridge.HandBackCauses() {
		m.given.WithLabelValues(string(cause))
	}
	for _, o := range []outcome{done, failed} {
		m.rounds.WithLabelValues(string(o))
	}
	for _, verb := range verbs() {
		for _, o := range []outcome{done, failed, planned, putOff, resized} {
			m.steps.WithLabelValues(string(verb), string(o))
		}
	}
}

// ofCluster registers gauges of the cluster as the last good round planned it. They keep their values while rounds
// fail.
func (m *metrics) ofCluster(with promauto.Factory) {
	gauge := func(name, help string) prometheus.Gauge {
		return with.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	m.jobs = with.NewGaugeVec(prometheus.GaugeOpts{Name: "synergy_jobs",
		Help: "Jobs with our directive: granted, waiting, or left to Slurm (outside)."}, []string{"state"})
	m.waiting = with.NewGaugeVec(prometheus.GaugeOpts{Name: "synergy_jobs_waiting",
		Help: "Waiting jobs by the reason why, the first that binds, and what it comes from."},
		[]string{"reason", "cause"})
	m.liars = gauge("synergy_jobs_contradicting",
		"Jobs that go without their profile because they ran far below what it claims.")
	m.slowed = gauge("synergy_jobs_slowed",
		"Important jobs that were measured to be slower beside others on their GPU than they accept.")
	m.unruly = gauge("synergy_jobs_unruly",
		"Jobs that would not give their turns back on a GPU that they shared, and are put beside nobody any more.")
	m.granted = amounts{
		gauge("synergy_granted_gpus", "GPUs granted by the last plan."),
		gauge("synergy_granted_cores", "Cores granted by the last plan."),
		gauge("synergy_granted_memory_bytes", "Memory granted by the last plan."),
	}
	m.fair = amounts{
		gauge("synergy_proportional_gpus", "GPUs in the proportional shares of the granted jobs."),
		gauge("synergy_proportional_cores", "Cores that the granted jobs would have by their GPUs alone."),
		gauge("synergy_proportional_memory_bytes", "Memory that the granted jobs would have by their GPUs alone."),
	}
	m.gain = gauge("synergy_gain_ratio",
		"Expected throughput of the granted jobs over that of the proportional share, mean over their GPUs.")
	m.certified = certified{
		gauge("synergy_plan_value", "Worth of the last plan: GPUs of the granted jobs times their expected throughput "+
			"over that with a GPU's share of the cluster."),
		gauge(
			"synergy_plan_bound",
			"Proven upper bound on what any plan could be worth that runs the same jobs and any that wait.",
		),
		gauge("synergy_plan_ratio", "Value of the last plan over its bound, 0 to 1."),
		gauge("synergy_plan_core_worth_ratio", "What one more core on every node would be worth, over the bound."),
		gauge("synergy_plan_gigabyte_worth_ratio",
			"What one more GB of memory on every node would be worth, over the bound."),
		with.NewGaugeVec(prometheus.GaugeOpts{Name: "synergy_gpus_stranded",
			Help: "GPUs that are free and that waiting jobs could use but for want of cores, or of memory."},
			[]string{"lacking"}),
		gauge("synergy_lending_cost_ratio",
			"What jobs that cannot be asked to give back would gain by the cores and memory that are idle "+
				"beside them, "+
				"over the bound."),
		gauge("synergy_gpus_lent",
			"GPUs that are free without their share, which jobs hold that cannot be asked to give it back."),
	}
	m.gpus = with.NewGaugeVec(prometheus.GaugeOpts{Name: "synergy_gpus",
		Help: "GPUs of the managed nodes by use: granted, foreign (jobs that are not ours), closed (free on closed " +
			"nodes), free."}, []string{"use"})
}

// What happens to what jobs teach.
const (
	learnt  outcome = "learned"
	forgot  outcome = "forgotten"
	notKept outcome = "unkept"
)

// ofLearning registers what running jobs teach, and which of their words are ignored.
func (m *metrics) ofLearning(with promauto.Factory) {
	m.lessons = with.NewCounterVec(prometheus.CounterOpts{Name: "synergy_lessons_total",
		Help: "What running jobs taught, by what came of it: learned, forgotten after a drift; unkept: rounds in " +
			"which something could not be written down."}, []string{"outcome"})
	for _, o := range []outcome{learnt, forgot, notKept} {
		m.lessons.WithLabelValues(string(o))
	}
	m.ignored = with.NewGaugeVec(prometheus.GaugeOpts{Name: "synergy_jobs_ignored",
		Help: "Jobs of which something that they say is ignored, by what that is."}, []string{"word"})
}

// ofShelf registers the number of learned profiles.
func (m *metrics) ofShelf(profiles func() float64) {
	promauto.With(m.registry).NewGaugeFunc(prometheus.GaugeOpts{Name: "synergy_learned_profiles",
		Help: "Owners' job names of which something is known."}, profiles)
}

// ofHistory registers whether reports can be written to the history.
func (m *metrics) ofHistory(failing func() float64) {
	promauto.With(m.registry).NewGaugeFunc(prometheus.GaugeOpts{Name: "synergy_history_failed",
		Help: "1 while rounds cannot be booked in the history: the log says why."}, failing)
}

// taught counts what a round has learned.
func (m *metrics) taught(report bridge.Report) {
	for _, l := range report.Lessons {
		if l.Forgot {
			m.lessons.WithLabelValues(string(forgot)).Inc()
		} else {
			m.lessons.WithLabelValues(string(learnt)).Inc()
		}
	}
	if report.LearnFault != "" {
		m.lessons.WithLabelValues(string(notKept)).Inc()
	}
}

// ofSlurm registers the requests to Slurm. Their labels come from the adapter (request).
func (m *metrics) ofSlurm(with promauto.Factory) {
	m.requests = with.NewCounterVec(prometheus.CounterOpts{Name: "synergy_slurm_requests_total",
		Help: "Requests to Slurm by kind and what came of them."}, []string{"request", "outcome"})
	m.answers = with.NewHistogramVec(prometheus.HistogramOpts{Name: "synergy_slurm_request_seconds",
		Help: "Time until Slurm answered a request.", Buckets: prometheus.ExponentialBucketsRange(0.0005, 15, 12)},
		[]string{"request"})
	m.heard = with.NewCounterVec(prometheus.CounterOpts{Name: "synergy_slurm_bytes_total",
		Help: "Bytes that were read of Slurm's answers."}, []string{"request"})
}

// ofDaemon registers what is the daemon's own. ledgerSize is asked whenever Prometheus reads.
func (m *metrics) ofDaemon(with promauto.Factory, ledgerSize func() float64, version string) {
	m.reloads = with.NewCounterVec(prometheus.CounterOpts{Name: "synergy_reloads_total",
		Help: "Times that the configuration was read again, by how that ended."}, []string{"outcome"})
	for _, o := range []outcome{done, failed} {
		m.reloads.WithLabelValues(string(o))
	}
	m.reloadBad = with.NewGauge(prometheus.GaugeOpts{Name: "synergy_reload_failed",
		Help: "1 while the configuration file could not be read the last time."})
	m.leader = with.NewGauge(prometheus.GaugeOpts{Name: "synergy_leader",
		Help: "1 while this daemon is the one that acts; 0 while it stands by, or in shadow mode."})
	m.shadow = with.NewGauge(prometheus.GaugeOpts{Name: "synergy_shadow",
		Help: "1 for a daemon that only plans."})
	with.NewGaugeFunc(prometheus.GaugeOpts{Name: "synergy_ledger_bytes", Help: "Size of the ledger's file."},
		ledgerSize)
	with.NewGaugeFunc(prometheus.GaugeOpts{Name: "synergy_build_info", Help: "Always 1; what runs is in the labels.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()}},
		func() float64 { return 1 })
}

// ofPlanner registers the counter of a planner plugin.
func (m *metrics) ofPlanner(faults []plugin.Fault) {
	m.plans = promauto.With(m.registry).NewCounterVec(
		prometheus.CounterOpts{Name: "synergy_planner_plugin_rounds_total",
			Help: "Rounds by what became of the question to the planner plugin: done, or why the built-in planner " +
				"stood in for it."}, []string{"outcome"})
	m.plans.WithLabelValues(string(done))
	for _, fault := range faults {
		m.plans.WithLabelValues(string(fault))
	}
}

// smallRound counts a look between two rounds by what it did. The gauges of the cluster follow a small round that was
// held; a look without one has no plan to show.
func (m *metrics) smallRound(report bridge.Report, held bool, err error) {
	switch {
	case err != nil:
		m.smalls.WithLabelValues(string(failed)).Inc()
	case held:
		m.smalls.WithLabelValues(string(done)).Inc()
	default:
		m.smalls.WithLabelValues(idle).Inc()
	}
	m.countSteps(report)
	if held && err == nil {
		m.cluster(report, count(report))
	}
}

// idle is a small round that had nothing to do.
const idle = "idle"

// countSteps counts the steps of a round, the jobs that it lost, and what it learned.
func (m *metrics) countSteps(report bridge.Report) {
	for kind, n := range count(report).steps {
		m.steps.WithLabelValues(within(verbs(), kind.verb), string(kind.outcome)).Add(float64(n))
	}
	for _, loss := range report.Lost {
		m.lost.WithLabelValues(within(bridge.Causes(), loss.Cause)).Inc()
	}
	// In the shadow no job is handed back, though there are steps that say so.
	if !report.Shadow {
		m.handedBack(report.Steps)
	}
	m.taught(report)
}

// handedBack counts the jobs that were handed back to Slurm.
func (m *metrics) handedBack(steps []bridge.Step) {
	for _, s := range steps {
		if s.Verb == bridge.Release && s.Error == "" && !s.PutOff {
			m.given.WithLabelValues(within(bridge.HandBackCauses(), s.Cause)).Inc()
		}
	}
}

// plan counts a request to the plugin.
func (m *metrics) plan(outcome string) { m.plans.WithLabelValues(outcome).Inc() }

// round counts one round. A failed round says nothing reliable about the cluster, but its steps count.
func (m *metrics) round(report bridge.Report, took time.Duration, err error) {
	m.countSteps(report)
	for _, phase := range report.Phases {
		m.phases.WithLabelValues(within(phaseNames(), phase.Name)).Observe(phase.Took.Seconds())
	}
	m.took.Observe(took.Seconds())
	if err != nil {
		m.rounds.WithLabelValues(string(failed)).Inc()
		return
	}
	m.rounds.WithLabelValues(string(done)).Inc()
	m.lastGood.SetToCurrentTime()
	m.number.Set(float64(report.Round))
	m.ahead.Set(report.ClockAhead.Seconds())
	m.cluster(report, count(report))
}

// cluster sets the gauges that describe the cluster after a good round.
func (m *metrics) cluster(report bridge.Report, c tally) {
	m.jobs.WithLabelValues("granted").Set(float64(c.granted))
	m.jobs.WithLabelValues("waiting").Set(float64(c.waiting))
	m.jobs.WithLabelValues("outside").Set(float64(c.outside))
	for _, cause := range bridge.WaitCauses() {
		m.waiting.WithLabelValues(string(cause.Reason()), string(cause)).Set(float64(c.causes[cause]))
	}
	m.liars.Set(float64(len(report.Contradicting)))
	m.slowed.Set(float64(len(report.Slowed)))
	m.unruly.Set(float64(len(report.Unruly)))
	for _, word := range bridge.AllIgnored() {
		m.ignored.WithLabelValues(string(word)).Set(float64(report.Ignored[word]))
	}
	m.granted.set(c.given)
	m.fair.set(c.fair)
	m.gain.Set(c.gain)
	m.certified.set(report.Certificate)
	for use, gpus := range usesOf(report.Snapshot, c.given.GPUs) {
		m.gpus.WithLabelValues(use).Set(float64(gpus))
	}
}

// usesOf divides the GPUs of the managed nodes by their use under the plan. Grants on nodes that were closed since
// count as granted, so closed counts only unused GPUs.
func usesOf(snapshot policy.Cluster, granted int) map[string]int {
	total, foreign, onClosed := 0, 0, 0
	for _, node := range snapshot.Nodes {
		total += node.Total.GPUs
		foreign += node.Foreign.GPUs
		if node.Closed != "" {
			onClosed += node.Total.GPUs - node.Foreign.GPUs
		}
	}
	closed := max(0, onClosed-runningOnClosed(snapshot))
	return map[string]int{"granted": granted, "foreign": foreign, "closed": closed,
		"free": total - foreign - closed - granted}
}

// runningOnClosed is how many GPUs of closed nodes the managed running jobs hold. A shared GPU counts once.
func runningOnClosed(snapshot policy.Cluster) int {
	closed := make(map[string]bool)
	for _, node := range snapshot.Nodes {
		closed[node.Name] = node.Closed != ""
	}
	var held policy.GPUCount
	gpus := 0
	for _, job := range snapshot.Jobs {
		if job.Running == nil {
			continue
		}
		more := held.More(*job.Running)
		for _, node := range job.Running.Nodes {
			if closed[node] {
				gpus += more
			}
		}
	}
	return gpus
}

// reload counts a reload of the configuration.
func (m *metrics) reload(err error) {
	if err != nil {
		m.reloads.WithLabelValues(string(failed)).Inc()
		m.reloadBad.Set(1)
		return
	}
	m.reloads.WithLabelValues(string(done)).Inc()
	m.reloadBad.Set(0)
}

// leads sets whether this daemon is the one that acts.
func (m *metrics) leads(now bool) { m.leader.Set(zeroOrOne(now)) }

// onlyPlans sets whether this daemon runs in shadow mode.
func (m *metrics) onlyPlans(shadow bool) { m.shadow.Set(zeroOrOne(shadow)) }

func zeroOrOne(holds bool) float64 {
	if holds {
		return 1
	}
	return 0
}

// request counts one request to Slurm. outcome is empty if it was answered without an error. It may be called from
// several goroutines.
func (m *metrics) request(name, outcome string, took time.Duration, bytes int64) {
	if outcome == "" {
		outcome = string(done)
	}
	name = m.calls.admit(name)
	m.requests.WithLabelValues(name, outcome).Inc()
	m.answers.WithLabelValues(name).Observe(took.Seconds())
	m.heard.WithLabelValues(name).Add(float64(bytes))
}

// maxCalls is several times the number of requests that an API version needs.
const maxCalls = 32

// bounded admits the first maxCalls different words as labels. The words come from the adapter, a few for each API
// version. The bound is there in case one of them should ever contain a job's number.
type bounded struct {
	mu    sync.Mutex
	words map[string]bool
}

// admit returns the word, or "other" if there are too many.
func (b *bounded) admit(word string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.words[word] {
		return word
	}
	if len(b.words) >= maxCalls {
		return other
	}
	if b.words == nil {
		b.words = make(map[string]bool)
	}
	b.words[word] = true
	return word
}
