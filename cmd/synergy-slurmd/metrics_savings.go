package main

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/synergy-slurmd/synergy-slurmd/savings"
)

// booked are counters of the ledger of savings. What is saved may be negative, and a counter may not fall, so there are
// two, saved and overspent, of which the difference counts.
type booked struct {
	gpus, idle, saved, overspent, ended *prometheus.CounterVec
	checks, ran, off                    prometheus.Counter
	failed                              prometheus.Gauge
}

// bookedSums are the amounts of GPU-seconds that only rise.
var bookedSums = []struct {
	name string
	of   func(savings.Sums) float64
}{
	{"there", func(s savings.Sums) float64 { return s.There }},
	{"held", func(s savings.Sums) float64 { return s.Held + s.Unmatched }},
	{"known", func(s savings.Sums) float64 { return s.Known }},
	{"asked", func(s savings.Sums) float64 { return s.Asked }},
	{"given", func(s savings.Sums) float64 { return s.With }},
	{"filled", func(s savings.Sums) float64 { return s.Filled }},
}

// idleSums are the GPU-seconds that were idle beside waiting jobs, by what the waiting jobs lacked.
var idleSums = []struct {
	lacking string
	of      func(savings.Sums) float64
}{
	{"cores", func(s savings.Sums) float64 { return s.Cores }},
	{"memory", func(s savings.Sums) float64 { return s.Memory }},
	{"order", func(s savings.Sums) float64 { return s.Order }},
	{"split", func(s savings.Sums) float64 { return s.Split }},
}

// savedSums are the GPU-seconds saved, by which jobs are assumed to have a checkpoint.
var savedSums = []struct {
	checkpoints string
	of          func(savings.Sums) float64
}{
	{"declared", func(s savings.Sums) float64 { return s.Saved }},
	{"none", func(s savings.Sums) float64 { return s.SavedWithout }},
	{"all", func(s savings.Sums) float64 { return s.SavedWith }},
}

// ofSavings registers the counters of the ledger of savings.
func (m *metrics) ofSavings(with promauto.Factory) {
	vector := func(name, help, label string) *prometheus.CounterVec {
		return with.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	}
	counter := func(name, help string) prometheus.Counter {
		return with.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m.booked = booked{
		gpus: vector("synergy_savings_gpu_seconds_total", "GPU-seconds that the ledger of savings has booked, by sum; "+
			"asked and given are at the proportional share.", "sum"),
		idle: vector("synergy_savings_idle_gpu_seconds_total",
			"GPU-seconds that idled though somebody waited, by what he lacked.", "lacking"),
		saved: vector("synergy_savings_saved_gpu_seconds_total",
			"GPU-seconds booked as saved, by who is taken to have a checkpoint.", "checkpoints"),
		overspent: vector("synergy_savings_overspent_gpu_seconds_total",
			"GPU-seconds of rounds that saved less than nothing, likewise.", "checkpoints"),
		ended: vector("synergy_savings_runs_ended_total",
			"Runs that ended and would have ended, or did, sooner, later or as soon.", "end"),
		checks: counter("synergy_savings_checks_total", "Windows of progress that were held against a profile."),
		ran: counter("synergy_savings_checks_ran_ratio_total",
			"Sum over them of the real speed over the promised one."),
		off: counter("synergy_savings_checks_off_ratio_total", "Sum over them of how far that is from 1."),
		failed: with.NewGauge(prometheus.GaugeOpts{Name: "synergy_savings_failed",
			Help: "1 while rounds cannot be booked in the ledger of savings."}),
	}
	// Every label begins at 0, so that the first amount shows as a rise.
	m.savings(savings.Sums{})
}

// savings counts what a round added to the ledger of savings.
func (m *metrics) savings(s savings.Sums) {
	for _, sum := range bookedSums {
		m.booked.gpus.WithLabelValues(sum.name).Add(sum.of(s))
	}
	for _, sum := range idleSums {
		m.booked.idle.WithLabelValues(sum.lacking).Add(sum.of(s))
	}
	for _, sum := range savedSums {
		m.booked.saved.WithLabelValues(sum.checkpoints).Add(max(0, sum.of(s)))
		m.booked.overspent.WithLabelValues(sum.checkpoints).Add(max(0, -sum.of(s)))
	}
	for end, runs := range map[string]int{"sooner": s.Sooner, "later": s.Later, "same": s.Ended - s.Sooner - s.Later} {
		m.booked.ended.WithLabelValues(end).Add(float64(runs))
	}
	m.booked.checks.Add(float64(s.Checks))
	m.booked.ran.Add(s.Ran)
	m.booked.off.Add(s.Distance)
}
