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

// study is the runs of a report, arranged for comparison. Panels are shown side by side, one for each policy; series
// are compared within a panel, one for each allocator; loads are points of an axis; and results are averaged over
// seeds. A baseline is no policy of the planner, so it has no panel. It is shown as one more series in every panel with
// its workload and cluster.
type study struct {
	runs           []*run
	baselineCopies []*run    // baselines once more, for panels after their first
	panels         []string  // titles
	series         []series  // in the order of their first runs
	loads          []float64 // jobs an hour, ascending; 0 for workloads that were not generated
	isTransposed   bool      // panels stand for allocators and series for policies
}

// series is the name and the look of the runs that are compared as one, in every panel.
type series struct {
	label string
	style figure.Style
}

// run is one outcome with its position in the study.
type run struct {
	*outcome.Run
	summary          outcome.Summary
	fault            error // why there is no summary
	panel, series    int
	isSharedBaseline bool          // a baseline in the panel of another policy
	load             int           // index in study.loads
	base             *run          // the same run with proportional shares: itself for such a run, nil if there is none
	completions      []float64     // seconds, ascending, of the finished jobs in the window
	models, gpus     []outcome.Row // statistics by model, and by number of GPUs
	label            string        // distinguishes the run from all others
}

// panelOf is what the runs of a panel have in common: the policy, the workload and the cluster.
func panelOf(s outcome.Setting) outcome.Setting {
	return outcome.Setting{
		Policy: s.Policy, Cluster: s.Cluster, Workload: s.Workload, Split: s.Split, Static: s.Static, Ratio: s.Ratio,
	}
}

// seriesOf is what the runs of a series have in common: everything else except load and seed. A baseline's series has
// the baseline's name: by its allocator it would be one with the planner's proportional runs, or be named after a log.
// Its jobs end at once, whatever its setting says of rounds.
func seriesOf(s outcome.Setting) outcome.Setting {
	if s.IsBaseline() {
		s.Allocator, s.AtRounds = s.Policy, false
	}
	s.Policy, s.Cluster, s.Workload, s.Split, s.Static, s.Ratio = "", "", "", "", false, 0
	s.Load, s.Seed = 0, 0
	return s
}

// newStudy arranges runs for comparison. The outcomes are neither changed nor copied. A baseline that is shown in
// several panels is one run with copies in baselineCopies, so that tables list it once.
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
		r.isSharedBaseline = panels[r.panel] != panelOf(setting)
		s.runs = append(s.runs, r)
		for _, p := range places[1:] {
			again := *r
			again.panel = p
			s.baselineCopies = append(s.baselineCopies, &again)
		}
	}
	s.nameAll(panels, kinds)
	s.findBases()
	return s
}

// panelsOf lists the panels: those of all policies, and those of baselines without a policy that has the same workload
// and cluster.
func (s *study) panelsOf(outcomes []outcome.Run) []outcome.Setting {
	all := distinct(outcomes, panelOf)
	return slices.DeleteFunc(slices.Clone(all), func(p outcome.Setting) bool {
		return p.IsBaseline() && slices.ContainsFunc(all, func(q outcome.Setting) bool { return matchesBaseline(p, q) })
	})
}

// placesOf lists the panels in which a run is shown, at least one: its own, or for a baseline every panel with its
// workload and cluster.
func placesOf(s outcome.Setting, panels []outcome.Setting) (places []int) {
	own := panelOf(s)
	for i, p := range panels {
		if p == own || s.IsBaseline() && matchesBaseline(own, p) {
			places = append(places, i)
		}
	}
	return places
}

// matchesBaseline says whether a panel is of a planner's policy and has the same workload and cluster as the baseline.
func matchesBaseline(baseline, panel outcome.Setting) bool {
	if panel.IsBaseline() {
		return false
	}
	baseline.Policy, panel.Policy = "", ""
	return baseline == panel
}

// newRun computes the statistics of an outcome, and notes its position. If there are none, the run has the fault
// instead.
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

// distinct returns the different values of the settings, in the order of their first occurrence.
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

// findBases finds the base of each run: the one with proportional shares and otherwise the same setting, over which
// gains are computed. A run with proportional shares is its own base, also where another run has the same setting, or
// where it is a baseline in another panel.
func (s *study) findBases() {
	bases := map[outcome.Setting]*run{}
	for _, r := range s.runs {
		if r.Setting.Allocator == outcome.Proportional {
			bases[r.Setting] = r
		}
	}
	for _, r := range slices.Concat(s.runs, s.baselineCopies) {
		setting := r.Setting
		setting.Allocator = outcome.Proportional
		if r.base = bases[setting]; r.Setting == setting {
			r.base = r
		}
	}
}

// nameAll names panels, series and runs by what differs between them, so that what is equal for all need not be
// repeated. It transposes the study if there is one series in several panels.
func (s *study) nameAll(panels, kinds []outcome.Setting) {
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
		s.transpose()
	}
	for _, r := range slices.Concat(s.runs, s.baselineCopies) {
		r.label = s.runLabel(r)
	}
}

// traits describe everything in which settings may differ besides policy and allocator.
var traits = []func(outcome.Setting) string{
	func(s outcome.Setting) string { return plain(s.Engine) },
	func(s outcome.Setting) string { return plain(s.Placement) },
	func(s outcome.Setting) string { return plain(s.Cluster) },
	func(s outcome.Setting) string { return plain(s.Workload) },
	func(s outcome.Setting) string { return splitWords(s.Split) },
	func(s outcome.Setting) string { return textIf(s.Static, "static", "dynamic") },
	func(s outcome.Setting) string { return fmt.Sprintf("%d cores per GPU", s.Ratio) },
	func(s outcome.Setting) string { return "rounds of " + shortNumber(s.RoundSeconds) + " s" },
	func(s outcome.Setting) string { return restartWords(s) },
	func(s outcome.Setting) string { return textIf(s.AtRounds, "ends at rounds", "ends at once") },
	func(s outcome.Setting) string { return textIf(s.Strict, "strict", "not strict") },
	func(s outcome.Setting) string { return textIf(s.Prioritize, "window first", "window not first") },
	func(s outcome.Setting) string { return untilWords(s.Until) },
	func(s outcome.Setting) string { return windowWords(s.Window) },
}

// differences describes the traits of a setting in which some other setting differs, for its title. A trait that this
// setting lacks is a dash. Beyond the engine itself, a setting is only compared with settings of the same engine, since
// other engines have other options.
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

// textIf returns one of two texts.
func textIf(first bool, then, otherwise string) string {
	if first {
		return then
	}
	return otherwise
}

// usualStyles is the style that an allocator has in every report, unless it is taken.
var usualStyles = map[string]int{outcome.Proportional: 0, "greedy": 1, "tune": 2, "opt": 3}

// styleFor returns the allocator's usual style if it is free, and otherwise the first free one, trying the usual ones
// last so that they remain for their own allocators. It marks the style as taken. One must be free.
func styleFor(allocator string, taken []bool) int {
	style, known := usualStyles[allocator]
	for i := 0; !known || taken[style]; i++ {
		style, known = (len(usualStyles)+i)%len(taken), true
	}
	taken[style] = true
	return style
}

// transpose makes policies the series of a single panel, if there is only one allocator, so that they can be compared
// directly. There are no copies of baselines then, since a baseline would be a second series.
func (s *study) transpose() {
	title := s.series[0].label
	s.series = nil
	for i, panel := range s.panels {
		s.series = append(s.series, series{panel, figure.StyleOf(i)})
	}
	s.panels, s.isTransposed = []string{title}, true
	for _, r := range s.runs {
		r.panel, r.series = 0, r.panel
	}
}

// runLabel distinguishes a run from all others.
func (s *study) runLabel(r *run) string {
	parts := []string{s.panels[r.panel], s.series[r.series].label}
	if r.isSharedBaseline {
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

// seeds is the number of different seeds; with one, titles leave it out.
func (s *study) seeds() int {
	seeds := map[int64]bool{}
	for _, r := range s.runs {
		seeds[r.Setting.Seed] = true
	}
	return len(seeds)
}

// runsAt returns the runs at a position, baselines included, which differ at most in their seeds and are averaged.
func (s *study) runsAt(panel, series, load int) (runs []*run) {
	for _, list := range [][]*run{s.runs, s.baselineCopies} {
		for _, r := range list {
			if r.panel == panel && r.series == series && r.load == load {
				runs = append(runs, r)
			}
		}
	}
	return runs
}

// shownLoads returns the loads with figures of their own: all, or some at even distances that include the highest.
func (s *study) shownLoads() (loads []int) {
	most := min(mostLoads, len(s.loads))
	for i := range most {
		loads = append(loads, len(s.loads)-1-i*(len(s.loads)-1)/max(1, most-1))
	}
	slices.Sort(loads)
	return slices.Compact(loads)
}

// mostLoads is the most loads with figures of their own.
const mostLoads = 4

// generatedLoads is the number of loads at which workloads were generated. The load 0 stands for the others, and comes
// first.
func (s *study) generatedLoads() int {
	n := len(s.loads)
	if s.loads[0] == 0 {
		n--
	}
	return n
}

// mostDetailed is the most runs shown over time.
const mostDetailed = 12

// detailedRuns returns the runs that are shown individually: the first of each panel and series at the highest load, at
// most mostDetailed. Baselines are shown in their first panel only.
func (s *study) detailedRuns() (runs []*run) {
	for p := range s.panels {
		for k := range s.series {
			found := s.runsAt(p, k, len(s.loads)-1)
			if len(found) > 0 && !slices.Contains(s.baselineCopies, found[0]) && len(runs) < mostDetailed {
				runs = append(runs, found[0])
			}
		}
	}
	return runs
}

// windowWords names the jobs that count.
func windowWords(w outcome.Window) string {
	if w == (outcome.Window{}) {
		return "all jobs"
	}
	return fmt.Sprintf("jobs %s to %s", count(w.First), count(w.End-1))
}

// splitWords names the split of the models; empty if there is none.
func splitWords(split string) string {
	if split = plain(split); split != "" {
		return "split " + split
	}
	return ""
}

// restartWords says what a restart costs.
func restartWords(s outcome.Setting) string {
	if s.RestartSeconds == 0 {
		return "restarts cost nothing"
	}
	return "restarts cost " + shortNumber(s.RestartSeconds) + " s"
}

// untilWords says when a simulation ends. 0 seconds stand for no such limit: it ends with its jobs.
func untilWords(seconds float64) string {
	if seconds == 0 {
		return "when its jobs are done"
	}
	return "after " + hours(seconds) + " h at the latest"
}

// loadWords names a load in jobs an hour. The load 0 stands for a workload that was not generated.
func loadWords(load float64) string {
	if load == 0 {
		return "not generated"
	}
	return shortNumber(load) + " jobs/h"
}

// quantity is one of a run's statistics.
type quantity func(outcome.Summary) float64

func meanCompletion(s outcome.Summary) float64 { return s.Completion.Mean }
func p99Completion(s outcome.Summary) float64  { return s.Completion.P99 }
func makespan(s outcome.Summary) float64       { return s.Makespan }

// average is the mean of a quantity over the runs that have statistics, with its standard error, and n, the number of
// these runs. The error is 0 for fewer than two runs, and the mean is 0 if there is none.
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

// gain is how many times smaller a quantity is than with proportional shares, summed over the runs. It counts only runs
// in which, as in their bases, all jobs have finished; Summary.Ratio is called to know that, and its values are not
// used. If no run can be compared, known is false.
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

// figures has the methods of a study that draw.
type figures struct{ *study }
