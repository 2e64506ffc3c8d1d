package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
	"github.com/synergy-slurmd/synergy-slurmd/sim/report/figure"
)

// study is the runs of a report, sorted by what is compared with what: panels stand side by side and have a policy
// each, series are compared within a panel and have an allocator each, loads lie along an axis, and over seeds is
// averaged. A baseline, which has no policy of a planner's, is a series of its own in every panel with the same to do.
type study struct {
	runs   []*run
	guests []*run    // baselines again, in further panels than their first
	panels []string  // titles
	series []series  // in the order in which they came
	loads  []float64 // jobs an hour, ascending; 0 for workloads that were not generated
	turned bool      // panels have an allocator each, and series a policy
}

type series struct {
	label string
	style figure.Style
}

// run is one outcome with its place in the study.
type run struct {
	*outcome.Run
	summary       outcome.Summary
	fault         error // why there is no summary
	panel, series int
	guest         bool      // it stands in a panel that is not of its own policy
	load          int       // index of the study's loads
	base          *run      // the same with proportional shares: itself for such a run, nil where there is none
	completions   []float64 // seconds, ascending, of the jobs that count and were finished
	models, gpus  []outcome.Row
	label         string // that tells the run from all others
}

// panelOf is what runs of one panel have in common: the policy, and what there was to do and to do it with.
func panelOf(s outcome.Setting) outcome.Setting {
	return outcome.Setting{
		Policy: s.Policy, Cluster: s.Cluster, Workload: s.Workload, Split: s.Split, Static: s.Static, Ratio: s.Ratio,
	}
}

// seriesOf is what runs of one series have in common: all the rest but load and seed.
func seriesOf(s outcome.Setting) outcome.Setting {
	if s.IsBaseline() {
		s.Allocator, s.AtRounds = s.Policy, false
	}
	s.Policy, s.Cluster, s.Workload, s.Split, s.Static, s.Ratio = "", "", "", "", false, 0
	s.Load, s.Seed = 0, 0
	return s
}

// newStudy sorts runs. They are neither changed nor copied.
func newStudy(outcomes []outcome.Run) *study {
	s := &study{}
	s.loads = distinct(outcomes, func(r outcome.Setting) float64 { return r.Load })
	slices.Sort(s.loads)
	panels := s.panelsOf(outcomes)
	kinds := distinct(outcomes, seriesOf)
	for i := range outcomes {
		setting := outcomes[i].Setting
		places := placesOf(setting, panels)
		r := newRun(&outcomes[i], places[0], slices.Index(kinds, seriesOf(setting)),
			slices.Index(s.loads, setting.Load))
		r.guest = panels[r.panel] != panelOf(setting)
		s.runs = append(s.runs, r)
		for _, p := range places[1:] {
			again := *r
			again.panel = p
			s.guests = append(s.guests, &again)
		}
	}
	s.name(panels, kinds)
	s.compare()
	return s
}

// panelsOf are the panels of a study: those of all policies, and of baselines that there is no policy beside.
func (s *study) panelsOf(outcomes []outcome.Run) []outcome.Setting {
	all := distinct(outcomes, panelOf)
	return slices.DeleteFunc(slices.Clone(all), func(p outcome.Setting) bool {
		return p.IsBaseline() && slices.ContainsFunc(all, func(q outcome.Setting) bool { return besides(p, q) })
	})
}

// placesOf are the panels that a run stands in, at least one.
func placesOf(s outcome.Setting, panels []outcome.Setting) (places []int) {
	own := panelOf(s)
	for i, p := range panels {
		if p == own || s.IsBaseline() && besides(own, p) {
			places = append(places, i)
		}
	}
	return places
}

// besides says that a panel is of a planner's policy, and has the same to do as a baseline.
func besides(baseline, panel outcome.Setting) bool {
	if panel.IsBaseline() {
		return false
	}
	baseline.Policy, panel.Policy = "", ""
	return baseline == panel
}

func newRun(of *outcome.Run, panel, series, load int) *run {
	r := &run{Run: of, panel: panel, series: series, load: load}
	r.summary, r.fault = outcome.Summarise(*of)
	if r.fault != nil {
		return r
	}
	for _, job := range of.Jobs {
		if of.Setting.Window.Has(job.ID) && job.Done() {
			r.completions = append(r.completions, job.Completion())
		}
	}
	slices.Sort(r.completions)
	r.models, r.gpus = outcome.ByModel(*of), outcome.ByGPUs(*of)
	return r
}

// distinct are the different values of the settings, in the order in which they come.
func distinct[T comparable](outcomes []outcome.Run, value func(outcome.Setting) T) (values []T) {
	known := map[T]bool{}
	for i := range outcomes {
		v := value(outcomes[i].Setting)
		if !known[v] {
			known[v] = true
			values = append(values, v)
		}
	}
	return values
}

// compare finds for each run the one with proportional shares under the same setting.
func (s *study) compare() {
	bases := map[outcome.Setting]*run{}
	for _, r := range s.runs {
		if r.Setting.Allocator == outcome.Proportional {
			bases[r.Setting] = r
		}
	}
	for _, r := range slices.Concat(s.runs, s.guests) {
		setting := r.Setting
		setting.Allocator = outcome.Proportional
		if r.base = bases[setting]; r.Setting == setting {
			r.base = r
		}
	}
}

// name says how panels, series and runs are called: by what differs between them, so that what is the same everywhere
// is said once.
func (s *study) name(panels, kinds []outcome.Setting) {
	for _, p := range panels {
		s.panels = append(s.panels, strings.Join(append([]string{display(p.Policy)}, differences(p, panels)...), ", "))
	}
	taken := make([]bool, max(figure.Styles(), len(kinds)))
	for _, k := range kinds {
		label := display(k.Allocator)
		if more := differences(k, kinds); len(more) > 0 {
			label += " (" + strings.Join(more, ", ") + ")"
		}
		s.series = append(s.series, series{label, figure.StyleOf(styleFor(k.Allocator, taken))})
	}
	if len(s.series) == 1 && len(s.panels) > 1 {
		s.turn()
	}
	for _, r := range slices.Concat(s.runs, s.guests) {
		r.label = s.runLabel(r)
	}
}

// traits are what settings may differ in beside policy and allocator, in words.
var traits = []func(outcome.Setting) string{
	func(s outcome.Setting) string { return plain(s.Engine) },
	func(s outcome.Setting) string { return plain(s.Placement) },
	func(s outcome.Setting) string { return plain(s.Cluster) },
	func(s outcome.Setting) string { return plain(s.Workload) },
	func(s outcome.Setting) string { return splitWords(s.Split) },
	func(s outcome.Setting) string { return choose(s.Static, "static", "dynamic") },
	func(s outcome.Setting) string { return fmt.Sprintf("%d cores per GPU", s.Ratio) },
	func(s outcome.Setting) string { return "rounds of " + short(s.RoundSeconds) + " s" },
	func(s outcome.Setting) string { return restartWords(s) },
	func(s outcome.Setting) string { return choose(s.AtRounds, "ends at rounds", "ends at once") },
	func(s outcome.Setting) string { return choose(s.Strict, "strict", "not strict") },
	func(s outcome.Setting) string { return choose(s.Prioritize, "window first", "window not first") },
	func(s outcome.Setting) string { return untilWords(s.Until) },
	func(s outcome.Setting) string { return windowWords(s.Window) },
}

// differences names the traits of a setting that are not the same for all others. What comes with the engine needs no
// words beside it.
func differences(of outcome.Setting, all []outcome.Setting) (words []string) {
	for i, trait := range traits {
		for _, other := range all {
			if trait(other) != trait(of) && (i == 0 || other.Engine == of.Engine) {
				words = append(words, cmp.Or(trait(of), "–"))
				break
			}
		}
	}
	return words
}

// choose is one of two wordings.
func choose(first bool, then, otherwise string) string {
	if first {
		return then
	}
	return otherwise
}

// usual is the style that an allocator has in every report where it is not taken.
var usual = map[string]int{outcome.Proportional: 0, "greedy": 1, "tune": 2, "opt": 3}

// styleFor takes the allocator's usual style where it is free, or else the first free one behind the usual ones, which
// come last. There must be a free one.
func styleFor(allocator string, taken []bool) int {
	style, known := usual[allocator]
	for i := 0; !known || taken[style]; i++ {
		style, known = (len(usual)+i)%len(taken), true
	}
	taken[style] = true
	return style
}

// turn puts policies into one panel as its series, where there is but one allocator.
func (s *study) turn() {
	title := s.series[0].label
	s.series = nil
	for i, panel := range s.panels {
		s.series = append(s.series, series{panel, figure.StyleOf(i)})
	}
	s.panels, s.turned = []string{title}, true
	for _, r := range s.runs {
		r.panel, r.series = 0, r.panel
	}
}

// runLabel tells a run from all others.
func (s *study) runLabel(r *run) string {
	parts := []string{s.panels[r.panel], s.series[r.series].label}
	if r.guest {
		parts = parts[1:]
	}
	if len(s.loads) > 1 {
		parts = append(parts, loadWords(r.Setting.Load))
	}
	if s.seeds() > 1 {
		parts = append(parts, fmt.Sprintf("seed %d", r.Setting.Seed))
	}
	return strings.Join(parts, " · ")
}

func (s *study) seeds() int {
	seeds := map[int64]bool{}
	for _, r := range s.runs {
		seeds[r.Setting.Seed] = true
	}
	return len(seeds)
}

// at are the runs of a place, which differ in their seeds at most.
func (s *study) at(panel, series, load int) (runs []*run) {
	for _, list := range [][]*run{s.runs, s.guests} {
		for _, r := range list {
			if r.panel == panel && r.series == series && r.load == load {
				runs = append(runs, r)
			}
		}
	}
	return runs
}

// shown are the loads that have figures of their own: all, or some of them at even distances, the highest always among
// them.
func (s *study) shown() (loads []int) {
	most := min(mostLoads, len(s.loads))
	for i := range most {
		loads = append(loads, len(s.loads)-1-i*(len(s.loads)-1)/max(1, most-1))
	}
	slices.Sort(loads)
	return slices.Compact(loads)
}

// mostLoads is for how many loads there are figures.
const mostLoads = 4

// generatedLoads is at how many loads workloads were generated.
func (s *study) generatedLoads() int {
	n := len(s.loads)
	if s.loads[0] == 0 {
		n--
	}
	return n
}

// mostDetailed is how many runs are shown over time.
const mostDetailed = 12

// detailed are the runs that are shown one by one: the first of each policy and allocator at the highest load.
func (s *study) detailed() (runs []*run) {
	for p := range s.panels {
		for k := range s.series {
			found := s.at(p, k, len(s.loads)-1)
			if len(found) > 0 && !slices.Contains(s.guests, found[0]) && len(runs) < mostDetailed {
				runs = append(runs, found[0])
			}
		}
	}
	return runs
}

func windowWords(w outcome.Window) string {
	if w == (outcome.Window{}) {
		return "all jobs"
	}
	return fmt.Sprintf("jobs %s to %s", count(w.First), count(w.End-1))
}

func splitWords(split string) string {
	if split = plain(split); split != "" {
		return "split " + split
	}
	return ""
}

func restartWords(s outcome.Setting) string {
	if s.RestartSeconds == 0 {
		return "restarts cost nothing"
	}
	return "restarts cost " + short(s.RestartSeconds) + " s"
}

func untilWords(seconds float64) string {
	if seconds == 0 {
		return "when its jobs are done"
	}
	return "after " + hours(seconds) + " h at the latest"
}

func loadWords(load float64) string {
	if load == 0 {
		return "not generated"
	}
	return short(load) + " jobs/h"
}

// quantity is one of a run's figures.
type quantity func(outcome.Summary) float64

func meanCompletion(s outcome.Summary) float64 { return s.Completion.Mean }
func p99Completion(s outcome.Summary) float64  { return s.Completion.P99 }
func makespan(s outcome.Summary) float64       { return s.Makespan }

// average is the mean of a figure over runs that have it, and its standard error, which is 0 for less than two.
func average(runs []*run, of quantity) (mean, deviation float64, n int) {
	var values []float64
	for _, r := range runs {
		if r.fault == nil {
			values = append(values, of(r.summary))
			mean += of(r.summary)
		}
	}
	if n = len(values); n < 2 {
		return mean, 0, n
	}
	mean /= float64(n)
	squares := 0.0
	for _, v := range values {
		squares += float64((v - mean) * (v - mean))
	}
	return mean, math.Sqrt(squares / float64(n-1) / float64(n)), n
}

// gain is how many times smaller a figure is than with proportional shares, summed over the runs. It is known where all
// jobs were finished in both.
func gain(runs []*run, of quantity) (ratio float64, known bool) {
	var with, without float64
	for _, r := range runs {
		if r.base == nil || r.fault != nil || r.base.fault != nil {
			continue
		}
		if _, err := r.summary.Ratio(r.base.summary); err == nil {
			with += of(r.summary)
			without += of(r.base.summary)
		}
	}
	if with == 0 {
		return 0, false
	}
	return without / with, true
}

// figures is the part of a study that draws.
type figures struct{ *study }
