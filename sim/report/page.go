package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"slices"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/printable"
	"github.com/synergy-slurmd/synergy-slurmd/sim/report/figure"
)

//go:embed page.html
var pageSource string

//go:embed page.css
var pageStyle string

var pageTemplate = template.Must(template.New("page").Parse(pageSource))

// page is the data of the template.
type page struct {
	Title, Lead string
	Style       template.CSS
	Facts       []fact
	Results     results
	Plates      []pageFigure
	Omitted     []string // loads and runs without plots of their own
	Models      []kindTable
	GPUs        []kindTable
	Waits       []waitRow
	ShownIn     string // the load and seed of the tables of jobs
	Command     string
	Version     string
	Seeds       string
}

// fact is one line about what was simulated.
type fact struct{ Name, Value string }

// pageFigure is a figure in the page.
type pageFigure struct {
	Name, Title, Caption string
	ViewBox              string
	Drawing              template.HTML // from package figure, which escapes all text
}

// newPageFigure makes the figure of the page from its drawing as SVG.
func newPageFigure(drawn illustration, svg string) pageFigure {
	box, drawing := figure.Inline(svg)
	return pageFigure{drawn.name, drawn.figure.Title, drawn.caption, box, template.HTML(drawing)}
}

// page renders the report's page as HTML with the figures in it.
func (s *study) page(plates []pageFigure, options Options) ([]byte, error) {
	runs := s.detailedRuns()
	models, gpus := s.kindTables(runs)
	shown := page{
		Title: s.title(options), Lead: s.summaryWords(),
		Style: template.CSS(pageStyle + darkStyle()),
		Facts: s.facts(), Results: s.results(), Plates: plates, Omitted: s.omitted(runs),
		Models: models, GPUs: gpus, Waits: s.waits(runs), ShownIn: s.shownInWords(),
		Command: visibleCommand(options.Command), Version: plain(options.Version), Seeds: s.seedList(),
	}
	var out bytes.Buffer
	err := pageTemplate.Execute(&out, shown)
	return out.Bytes(), err
}

// darkStyle is CSS that replaces the figures' colours on a dark page.
func darkStyle() string {
	var css strings.Builder
	css.WriteString("@media screen and (prefers-color-scheme: dark) {\n")
	for _, shade := range figure.Shades() {
		for _, what := range []string{"fill", "stroke"} {
			fmt.Fprintf(&css, "svg [style*=\"%s:%s\"] { %s: %s !important }\n", what, shade.Light, what, shade.Dark)
		}
	}
	css.WriteString("}\n")
	return css.String()
}

// visibleCommand removes invisible characters from a command line and keeps its line breaks, so that it can be copied.
func visibleCommand(command string) string {
	lines := strings.Split(command, "\n")
	for i, line := range lines {
		lines[i] = printable.Blank(line)
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

// title is the given title, or else what was compared.
func (s *study) title(options Options) string {
	if title := plain(options.Title); title != "" {
		return title
	}
	policies := s.list(", ", func(r *run) string { return display(r.Setting.Policy) })
	allocators := s.list(", ", func(r *run) string { return display(r.Setting.Allocator) })
	return policies + " × " + allocators + " on " + s.list(
		", ",
		func(r *run) string { return countNoun(r.GPUs, "GPU") },
	)
}

// summaryWords summarises how much was run, and which run improves the mean completion time most over proportional
// shares.
func (s *study) summaryWords() string {
	words := fmt.Sprintf("%s on %s.", countNoun(len(s.runs), "run"), s.list("; ", clusterWords))
	var most *run
	highest := 0.0
	for _, r := range s.runs {
		if ratio, known := gain([]*run{r}, meanCompletion); known && r.base != r && ratio > highest {
			most, highest = r, ratio
		}
	}
	words += s.baselineWords()
	if most == nil {
		return words
	}
	return words + fmt.Sprintf(" At best, a job takes %s h on average with %s, and %s h with proportional shares: %s.",
		hours(most.summary.Completion.Mean), most.label, hours(most.base.summary.Completion.Mean), ratioText(highest))
}

// baselineWords gives the mean completion times of baselines, at the highest load and the first seed, for the summary;
// empty if there are none.
func (s *study) baselineWords() (words string) {
	for _, r := range s.runs {
		first := r.load == len(s.loads)-1 && r.Setting.Seed == s.runs[0].Setting.Seed
		if r.Setting.IsBaseline() && r.fault == nil && first {
			words += fmt.Sprintf(" %s: %s h for a job on average.", display(r.Setting.Policy),
				hours(r.summary.Completion.Mean))
		}
	}
	return words
}

// facts lists what was simulated.
func (s *study) facts() []fact {
	facts := []fact{
		{"Policies", s.list("; ", func(r *run) string { return display(r.Setting.Policy) })},
		{"Allocators", s.list("; ", func(r *run) string { return display(r.Setting.Allocator) })},
		{"Engine", s.list("; ", engineWords)},
		{"Workload", s.list("; ", workloadWords)},
	}
	if s.generatedLoads() > 0 {
		facts = append(facts, fact{"Load", s.list("; ", func(r *run) string { return loadWords(r.Setting.Load) })})
	}
	return append(facts,
		fact{"Seed", s.seedList()},
		fact{"Cluster", s.list("; ", clusterWords)},
		fact{"Jobs", s.jobWords()},
		fact{"Jobs that count", s.list("; ", windowOfSetting)},
		fact{"Rounds", s.list("; ", roundWords)},
		fact{"Restarts", s.list("; ", func(r *run) string { return restartWords(r.Setting) })},
		fact{"End", s.list("; ", func(r *run) string { return untilWords(r.Setting.Until) })},
	)
}

// mostListed is the most values in a fact.
const mostListed = 12

// list joins the different values of the runs with between, and counts those beyond mostListed. An empty value says
// nothing and is left out. If no value is left, the text is "not said".
func (s *study) list(between string, value func(*run) string) string {
	var values []string
	for _, r := range s.runs {
		if v := value(r); v != "" && !slices.Contains(values, v) {
			values = append(values, v)
		}
	}
	if n := len(values); n > mostListed {
		values = append(values[:mostListed], fmt.Sprintf("and %d more", n-mostListed))
	}
	if len(values) == 0 {
		return "not said"
	}
	return strings.Join(values, between)
}

// engineWords names the engine of a run, with its placement if it has a choice.
func engineWords(r *run) string {
	words := plain(r.Setting.Engine)
	if placement := plain(r.Setting.Placement); placement != "" {
		words += ", placement " + placement
	}
	return words
}

// workloadWords describes the workload of a run. If nothing is known of it, the text is empty, and list leaves it out.
func workloadWords(r *run) string {
	words := appendIf(nil, r.Setting.Workload != "", plain(r.Setting.Workload))
	words = appendIf(words, r.Setting.Split != "", splitWords(r.Setting.Split))
	words = appendIf(words, r.Setting.Static, "all jobs there from the beginning")
	words = appendIf(words, r.Setting.Ratio > 0, fmt.Sprintf("models for %d cores per GPU", r.Setting.Ratio))
	return strings.Join(words, ", ")
}

func windowOfSetting(r *run) string {
	return windowWords(r.Setting.Window) + textIf(r.Setting.Prioritize, ", which went first", "")
}

// roundWords says when rounds are held and what they decide besides.
func roundWords(r *run) string {
	words := []string{"every " + shortNumber(r.Setting.RoundSeconds) + " s"}
	words = appendIf(words, r.Setting.AtRounds, "ended jobs count as finished when their round is over")
	return strings.Join(appendIf(words, r.Setting.Strict, "the first one without a job is the last"), ", ")
}

// clusterWords describes the cluster of a run: its name, if it has one, and its size.
func clusterWords(r *run) string {
	size := fmt.Sprintf(
		"%s, %s and %s GB of memory",
		countNoun(r.GPUs, "GPU"),
		countNoun(r.CPUs, "core"),
		digits(r.Memory),
	)
	if name := plain(r.Setting.Cluster); name != "" {
		return name + " (" + size + ")"
	}
	return size
}

func (s *study) seedList() string {
	return s.list("; ", func(r *run) string { return fmt.Sprint(r.Setting.Seed) })
}

// jobWords says how many jobs arrived, which may differ between runs.
func (s *study) jobWords() string {
	least, most := len(s.runs[0].Jobs), 0
	for _, r := range s.runs {
		least, most = min(least, len(r.Jobs)), max(most, len(r.Jobs))
	}
	if least == most {
		return countNoun(most, "job") + " arrived"
	}
	return fmt.Sprintf("%s to %s arrived, as long as the run went on", count(least), countNoun(most, "job"))
}

// omitted says which loads and runs have no plots of their own.
func (s *study) omitted(detailed []*run) (words []string) {
	if shown := s.shownLoads(); len(shown) < len(s.loads) {
		var loads []string
		for _, load := range shown {
			loads = append(loads, shortNumber(s.loads[load]))
		}
		words = append(words, fmt.Sprintf("Of %d loads, %s jobs/h have plots of their own.", len(s.loads),
			strings.Join(loads, ", ")))
	}
	recorded := slices.ContainsFunc(detailed, func(r *run) bool { return len(r.Rounds)+len(r.Spans) > 0 })
	if recorded && len(detailed) < len(s.runs) {
		words = append(words, fmt.Sprintf("Of %d runs, %d are shown over time%s.", len(s.runs), len(detailed),
			s.shownInWords()))
	}
	if !recorded {
		words = append(words, "No run recorded its rounds, so that there is no plot over time.")
	}
	return words
}
