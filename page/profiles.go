package page

import (
	"fmt"
	"math"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/learned"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/profiler"
)

// Shelf is what the daemon knows about how fast models train.
type Shelf struct {
	Names   []string // of profile files, ascending
	Lookup  func(name string) (*sensitivity.Profile, error)
	Learned []*learned.Entry // by user and job name
	Nodes   []policy.Node    // nodes for which gains are computed; none before the first round
	Fault   string           // why a profile folder cannot be read; empty: all can
}

// Wanted selects profiles; the zero value selects all, from the first one on.
type Wanted struct {
	Text string // part of a file name, a user or a job name; empty: any
	From int
}

// The sizes of a page and of a heat map: a profile may have 256 × 64 measured points.
const (
	mostMaps    = 12
	mostRows    = 24
	mostColumns = 12
)

// profileList is the data of the profiles page.
type profileList struct {
	Wanted     Wanted
	Maps       []heatMap
	All, Found int
	Fault      string
	pager
}

// heatMap is one profile: the speed of a GPU by its cores and memory, in percent of the fastest point.
type heatMap struct {
	ID      string // its anchor in the page
	Name    string // of the file, or of the jobs from which it was learned
	Owner   string // of a learned profile
	Model   string
	Task    string
	GPUType string
	Source  string
	Worth   string // its gain for a job with one GPU; empty: no node has such GPUs
	Learnt  string // how certain a learned profile is
	Fault   string // why there is no profile
	Memory  []string
	Rows    []heatRow
	Left    int // rows and columns that are left out
}

type heatRow struct {
	Cores string
	Cells []heatCell
}

// heatCell is one measured point.
type heatCell struct {
	Percent     float64
	Shade       int // 0 to 5
	Share, Knee bool
}

// newProfileList makes the data of the profiles page. Only the maps of the requested part are drawn.
func newProfileList(s Shelf, wanted Wanted) profileList {
	page := profileList{Wanted: wanted, All: len(s.Names) + len(s.Learned), Fault: s.Fault}
	var draw []func() heatMap
	for _, name := range s.Names {
		if wanted.fits(name) {
			draw = append(draw, func() heatMap { return ofFile(s, name) })
		}
	}
	for _, e := range s.Learned {
		if wanted.fits(e.User) || wanted.fits(e.Job) {
			draw = append(draw, func() heatMap { return ofEntry(s, e) })
		}
	}
	page.Found = len(draw)
	draw, from, pages := paged(draw, wanted.From, mostMaps, wanted.pageURL)
	page.pager = pages
	for k, one := range draw {
		m := one()
		m.ID = "p" + strconv.Itoa(from+k)
		page.Maps = append(page.Maps, m)
	}
	return page
}

func (w Wanted) fits(text string) bool {
	return w.Text == "" || strings.Contains(strings.ToLower(text), strings.ToLower(w.Text))
}

// pageURL is the address of the page that begins with this profile.
func (w Wanted) pageURL(from int) string {
	values := url.Values{"from": {strconv.Itoa(from)}}
	if w.Text != "" {
		values.Set("name", w.Text)
	}
	return "/profiles?" + values.Encode()
}

// ofFile draws a profile from a file.
func ofFile(s Shelf, name string) heatMap {
	m := heatMap{Name: name}
	p, err := s.Lookup(name)
	if err != nil {
		m.Fault = err.Error()
		return m
	}
	m.draw(p, s.Nodes)
	return m
}

// ofEntry draws a learned profile.
func ofEntry(s Shelf, e *learned.Entry) heatMap {
	m := heatMap{Name: e.Job, Owner: e.User}
	p := e.Profile()
	if p == nil {
		m.Fault = "all that was learned was forgotten: a job ran otherwise"
		return m
	}
	m.draw(p, s.Nodes)
	m.Learnt = fmt.Sprintf("Learned from %d points until %s, ± %.0f %%.", len(e.Points),
		e.Updated.UTC().Format(time.DateOnly), 100*e.Scatter())
	if e.Climbs() {
		m.Learnt += " It still climbs where measuring ended: the last row is believed, and not measured."
	}
	return m
}

// draw fills the map. Share and knee are those of a job with one GPU on the most frequent kind of node with such GPUs.
// If there is no such node, neither is marked.
func (m *heatMap) draw(p *sensitivity.Profile, nodes []policy.Node) {
	m.Model, m.Task, m.GPUType, m.Source = p.Model, p.Task, p.GPUType, p.Source
	fastest := 0.0
	for _, row := range p.Throughput {
		fastest = max(fastest, slices.Max(row))
	}
	rows, columns := sampleIndexes(len(p.CoresPerGPU), mostRows), sampleIndexes(len(p.MemoryPerGPU), mostColumns)
	m.Left = len(p.CoresPerGPU) - len(rows) + len(p.MemoryPerGPU) - len(columns)
	for _, j := range columns {
		m.Memory = append(m.Memory, gigabytes(int(p.MemoryPerGPU[j])))
	}
	for _, i := range rows {
		row := heatRow{Cores: strconv.FormatFloat(p.CoresPerGPU[i], 'f', -1, 64)}
		for _, j := range columns {
			part := p.Throughput[i][j] / fastest
			row.Cells = append(row.Cells, heatCell{Percent: 100 * part, Shade: shadeOf(part)})
		}
		m.Rows = append(m.Rows, row)
	}
	if total, found := usualNode(p, nodes); found {
		m.mark(p, total, rows, columns)
	}
}

// mark marks the cells of the proportional share and of the knee, the smallest size with the largest gain. In a map
// that leaves rows or columns out the share is the next cell below it and the knee the next above.
func (m *heatMap) mark(p *sensitivity.Profile, total gres.Vector, rows, columns []int) {
	worth := profiler.On(p, total, 1)
	m.Worth = worth.String()
	share, knee := sensitivity.ShareOf(worth.Fair), sensitivity.ShareOf(worth.Best.Size)
	i := lastBelow(len(rows), func(k int) bool { return p.CoresPerGPU[rows[k]] <= share.Cores })
	j := lastBelow(len(columns), func(k int) bool { return float64(p.MemoryPerGPU[columns[k]]) <= share.Memory })
	m.Rows[i].Cells[j].Share = true
	i = sort.Search(len(rows)-1, func(k int) bool { return p.CoresPerGPU[rows[k]] >= knee.Cores })
	j = sort.Search(len(columns)-1, func(k int) bool { return float64(p.MemoryPerGPU[columns[k]]) >= knee.Memory })
	m.Rows[i].Cells[j].Knee = true
}

// lastBelow returns the last of n ascending points for which below holds, or the first point.
func lastBelow(n int, below func(int) bool) int {
	return max(0, sort.Search(n, func(k int) bool { return !below(k) })-1)
}

// usualNode returns the most frequent capacity of the nodes to which the profile applies. Of equally frequent ones it
// is the first that became so.
func usualNode(p *sensitivity.Profile, nodes []policy.Node) (total gres.Vector, found bool) {
	counts, most := map[gres.Vector]int{}, 0
	for _, n := range nodes {
		if n.Total.GPUs < 1 || policy.ProfileOn(p, n.GPUType) == nil {
			continue
		}
		counts[n.Total]++
		if counts[n.Total] > most {
			most, total = counts[n.Total], n.Total
		}
	}
	return total, most > 0
}

// sampleIndexes returns at most most of the numbers below n, evenly spaced, with the first and the last.
func sampleIndexes(n, most int) (all []int) {
	if n <= most {
		most = n
	}
	for k := range most {
		all = append(all, k*(n-1)/max(1, most-1))
	}
	return all
}

// shades are the parts of the fastest speed from which each next shade begins.
var shades = []float64{0.25, 0.5, 0.75, 0.9, 0.98}

// shadeOf returns the shade of a part of the fastest speed, 0 to 5. A part that is below a limit only by rounding
// counts as on it.
func shadeOf(part float64) (shade int) {
	for _, least := range shades {
		if part >= least-1e-9 {
			shade++
		}
	}
	return shade
}

// Says is the cell's speed in whole percent, rounded down so that only the fastest cells show 100.
func (c heatCell) Says() string {
	if c.Percent < 100-1e-9 {
		return strconv.Itoa(int(math.Floor(c.Percent)))
	}
	return "100"
}
