package report

import (
	"fmt"

	"github.com/synergy-slurmd/synergy-slurmd/sim/report/figure"
)

// illustration is a figure with its place in the report.
type illustration struct {
	name    string // of its files, without extension
	caption string // what it shows and how to read it
	figure  figure.Figure
}

// keys returns a legend of all series.
func (s figures) keys(kind figure.KeyKind) (keys []figure.Key) {
	for _, series := range s.series {
		keys = append(keys, figure.Key{Label: series.label, Style: series.style, Kind: kind})
	}
	return keys
}

// suffix distinguishes the file names of different loads.
func (s figures) suffix(load int) string {
	if len(s.loads) == 1 {
		return ""
	}
	return "-load-" + shortNumber(s.loads[load])
}

// atLoad is the load in words, for titles.
func (s figures) atLoad(load int) string {
	if s.loads[load] == 0 {
		return ""
	}
	return " at " + loadWords(s.loads[load])
}

// seedWords says how several seeds are combined. With one seed there is nothing to say, and the text is empty.
func (s figures) seedWords(what string) string {
	if n := s.seeds(); n > 1 {
		return fmt.Sprintf(" The %d seeds are %s.", n, what)
	}
	return ""
}

// mostPanels is the most panels of a figure.
const mostPanels = 12

// Heights of figures with panels side by side, in points.
const (
	singleHeight = 225
	rowHeight    = 165
)

// inGrid arranges panels in rows, and returns the height of the figure in points. The last row is filled up with nil.
// Horizontal axes are labelled only where no panel is below.
func inGrid(panels []*figure.Panel) (rows [][]*figure.Panel, height float64) {
	columns := columnsFor(len(panels))
	for first := 0; first < len(panels); first += columns {
		row := make([]*figure.Panel, columns)
		copy(row, panels[first:min(first+columns, len(panels))])
		rows = append(rows, row)
	}
	for i, row := range rows {
		for j, panel := range row {
			if panel != nil && i+1 < len(rows) && rows[i+1][j] != nil {
				panel.X.Label = ""
			}
		}
	}
	if len(panels) == 1 {
		return rows, singleHeight
	}
	return rows, rowHeight * float64(len(rows))
}

// columnsFor is the number of columns for so many panels, chosen to leave few empty places.
func columnsFor(panels int) int {
	switch panels {
	case 1, 2, 3:
		return panels
	case 4:
		return 2
	}
	return 3
}

// noteIfEmpty writes into an empty panel why it is empty.
func noteIfEmpty(panel *figure.Panel, why string) *figure.Panel {
	if len(panel.Marks) == 0 {
		panel.Marks = append(panel.Marks, figure.Text{Text: why})
	}
	return panel
}

// panelTitles returns the titles of the panels for which a figure has room.
func (s figures) panelTitles() []string { return s.panels[:min(len(s.panels), mostPanels)] }

// leftOut says how many panels are left out.
func (s figures) leftOut() string {
	if n := len(s.panels) - mostPanels; n > 0 {
		return fmt.Sprintf("The first %d of %d panels; the table has all.", mostPanels, len(s.panels))
	}
	return ""
}
