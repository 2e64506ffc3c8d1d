package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
	"github.com/synergy-slurmd/synergy-slurmd/sim/report/figure"
)

// mostModels is the most models in a figure.
const mostModels = 12

// Sizes of this figure in points: the height of a bar, the gap between groups, and the height of a row without its
// bars.
const (
	modelBar = 8.5
	modelGap = 6
	modelRow = 52
)

// benefit is the values of one series in one panel, by model: speed-ups or slowdowns.
type benefit struct {
	panel, series int
	values        map[string]float64
}

// byModel shows how many times shorter each model's completion time is than with proportional shares; or, if no run can
// be compared with such a run, how many times longer it is than running alone.
func (s figures) byModel(load int) illustration {
	compared := s.compared(load)
	benefits, label := s.slowdowns(load), "slowdown [×]"
	if compared {
		benefits, label = s.speedups(load), "speed-up [×]"
	}
	models := s.byBenefit(benefits)
	note := s.leftOut()
	if len(models) > mostModels {
		note = fmt.Sprintf("The %d models with the largest values of %d; the table has all. ", mostModels,
			len(models)) + note
		models = models[:mostModels]
	}
	rows, height := s.modelPanels(benefits, models, label)
	drawn := illustration{
		name: "slowdown-by-model" + s.suffix(load),
		figure: figure.Figure{
			Title: "Slowdown by model" + s.atLoad(load), Note: note,
			Keys: s.keysOf(benefits), Rows: rows, Height: height,
		},
		caption: "How many times longer than alone at its proportional share a job takes, on average over each " +
			"model's jobs. A job that " +
			"never waits has 1, or less where it gets more than its share." + s.seedWords("pooled"),
	}
	if compared {
		drawn.name = "speedup-by-model" + s.suffix(load)
		drawn.figure.Title = "Speed-up over proportional shares, by model" + s.atLoad(load)
		drawn.caption = "How many times shorter the mean completion time of each model's jobs is than with " +
			"proportional shares under the same " +
			"policy. Models with bars to the right of 1 gain, those with bars to the left pay for the others, and " +
			"those whose jobs were not all " +
			"finished have none." + s.seedWords("pooled")
	}
	return drawn
}

// compared says whether some run at this load can be compared with another one with proportional shares.
func (s figures) compared(load int) bool {
	return slices.ContainsFunc(s.runs, func(r *run) bool { return r.load == load && r.base != nil && r.base != r })
}

// speedups returns the speed-ups of all series but the proportional one, for models whose jobs have all finished in
// both runs; otherwise the means would be of different jobs. A series is left out if one of its runs has no base
// (run.base) to be compared with.
func (s figures) speedups(load int) (all []benefit) {
	for p := range s.panelTitles() {
		for k := range s.series {
			runs := s.runsAt(p, k, load)
			with := bases(runs)
			if len(with) == 0 || with[0] == runs[0] {
				continue
			}
			found, of := perModel(runs, completionOf), perModel(with, completionOf)
			values := map[string]float64{}
			for model, m := range found {
				if m.left == 0 && of[model].finished == m.finished && of[model].left == 0 {
					values[model] = of[model].mean() / m.mean()
				}
			}
			all = append(all, benefit{p, k, values})
		}
	}
	return all
}

// slowdowns returns the slowdowns of all series, for models with finished jobs.
func (s figures) slowdowns(load int) (all []benefit) {
	for p := range s.panelTitles() {
		for k := range s.series {
			values := map[string]float64{}
			for model, m := range perModel(s.runsAt(p, k, load), slowdownOf) {
				if m.finished > 0 {
					values[model] = m.mean()
				}
			}
			if len(values) > 0 {
				all = append(all, benefit{p, k, values})
			}
		}
	}
	return all
}

func completionOf(f outcome.Figures) float64 { return f.Completion.Mean }
func slowdownOf(f outcome.Figures) float64   { return f.Slowdown.Mean }

// modelSum is the sum of a quantity over a model's finished jobs, with the numbers of finished and unfinished jobs.
type modelSum struct {
	sum            float64
	finished, left int
}

func (m modelSum) mean() float64 { return m.sum / float64(m.finished) }

// perModel sums a quantity over the jobs of each model, over all runs.
func perModel(runs []*run, of func(outcome.Figures) float64) map[string]modelSum {
	sums := map[string]modelSum{}
	for _, r := range runs {
		for _, row := range r.models {
			m := sums[row.Model]
			m.finished += row.Finished
			m.left += row.Jobs - row.Finished
			if row.Figures != nil {
				m.sum += float64(of(*row.Figures) * float64(row.Finished))
			}
			sums[row.Model] = m
		}
	}
	return sums
}

// bases returns the runs with proportional shares with which the given ones are compared. If one of these has none, the
// result is nil, since the sums would be of different seeds.
func bases(runs []*run) (with []*run) {
	for _, r := range runs {
		if r.base == nil {
			return nil
		}
		with = append(with, r.base)
	}
	return with
}

// byBenefit sorts the models by the product of their values over all series, the largest first: a product, since values
// are ratios.
func (s figures) byBenefit(benefits []benefit) []string {
	sums := map[string]float64{}
	for _, b := range benefits {
		for model, value := range b.values {
			sums[model] += math.Log(value)
		}
	}
	models := make([]string, 0, len(sums))
	for model := range sums {
		models = append(models, model)
	}
	slices.SortFunc(models, func(a, b string) int { return cmp.Or(cmp.Compare(sums[b], sums[a]), cmp.Compare(a, b)) })
	return models
}

// keysOf returns a legend of the series that have bars.
func (s figures) keysOf(benefits []benefit) (keys []figure.Key) {
	for k, series := range s.series {
		if slices.ContainsFunc(benefits, func(b benefit) bool { return b.series == k }) {
			keys = append(keys, figure.Key{Label: series.label, Style: series.style, Kind: figure.AreaKey})
		}
	}
	return keys
}

// modelPanels draws a group of bars for each model. Models are labelled at the left of each row.
func (s figures) modelPanels(benefits []benefit, models []string, label string) (rows [][]*figure.Panel,
	height float64) {
	group := float64(mostInPanel(benefits))*modelBar + modelGap
	axis := benefitAxis(benefits, models)
	axis.Label = label
	var panels []*figure.Panel
	for p, title := range s.panelTitles() {
		panel := &figure.Panel{
			Title: title, X: axis, Grid: figure.UprightGrid,
			Y: figure.Axis{Min: -group * float64(max(1, len(models))), Max: 0, Bare: true},
		}
		for m, model := range models {
			top := -group * float64(m)
			panel.Y.Marks = append(panel.Y.Marks, figure.Name{At: top - group/2,
				Label: nameAt(p, len(s.panelTitles()), model)})
			s.addBars(panel, p, benefits, model, top-modelGap/2)
		}
		panels = append(panels, noteIfEmpty(panel, "no job that counts was finished"))
		panel.Marks = append(panel.Marks, figure.Rule{At: 1, Direction: figure.Upright})
	}
	rows, _ = inGrid(panels)
	return rows, float64(len(rows)) * (modelRow + group*float64(max(1, len(models))))
}

// mostInPanel is the largest number of series in a panel.
func mostInPanel(benefits []benefit) (most int) {
	inPanel := map[int]int{}
	for _, b := range benefits {
		inPanel[b.panel]++
		most = max(most, inPanel[b.panel])
	}
	return max(1, most)
}

// nameAt is the model's label in the leftmost panels. In the others it is empty, since the label at the left holds for
// the whole row.
func nameAt(panel, panels int, model string) string {
	if panel%columnsFor(panels) > 0 {
		return ""
	}
	return plain(model)
}

// benefitAxis makes an axis for all bars, which begin at 1, with room for the labels to their right: 0.4 of the axis'
// length, also on a logarithmic one.
func benefitAxis(benefits []benefit, models []string) figure.Axis {
	lowest, highest := 1.0, 1.1
	for _, b := range benefits {
		for _, model := range models {
			if value, known := b.values[model]; known {
				lowest, highest = min(lowest, value), max(highest, value)
			}
		}
	}
	if highest > logBenefitRatio*lowest {
		return figure.Axis{Min: lowest / 1.05, Max: highest * math.Pow(highest/lowest, 0.4), Log: true}
	}
	axis := figure.Axis{Min: lowest - 0.04*(highest-lowest), Max: highest + 0.4*(highest-lowest)}
	axis.Marks = marksAround1(axis)
	return axis
}

// logBenefitRatio is the ratio between the largest and the smallest value above which the axis is logarithmic.
const logBenefitRatio = 5

// marksAround1 returns round numbers along an axis, with 1 instead of those close to it.
func marksAround1(axis figure.Axis) []figure.Name {
	const most = 5
	marks := []figure.Name{{At: 1, Label: "1"}}
	step := figure.RoundStep((axis.Max - axis.Min) / most)
	for k := math.Ceil(axis.Min / step); k*step <= axis.Max; k++ {
		if value := math.Round(k*step*1e6) / 1e6; math.Abs(value-1) > step/2 {
			marks = append(marks, figure.Name{At: value, Label: shortNumber(value)})
		}
	}
	return marks
}

// addBars adds the bars of a model to panel p from the top down. A series without a value keeps its place empty, so
// that each series has the same place in all groups.
func (s figures) addBars(panel *figure.Panel, p int, benefits []benefit, model string, top float64) {
	for _, b := range benefits {
		if b.panel != p {
			continue
		}
		if value, known := b.values[model]; known {
			panel.Marks = append(panel.Marks, figure.Bar{
				From: 1, To: value, Y: top - modelBar/2, Thick: modelBar - 1, Label: ratioText(value),
				Style: s.series[b.series].style,
			})
		}
		top -= modelBar
	}
}
