package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
	"github.com/synergy-slurmd/synergy-slurmd/sim/report/figure"
)

// The size of a picture of the cluster, in stays and in GPUs. The stays of all pictures together are bounded as well,
// for the size of the page.
const (
	mostStays    = 6000
	mostStaysAll = 24_000
	mostLanes    = 512
)

// ganttHeight is the height of a picture with this many rows, in points, including 32 for its axis. A row is 9 points
// high as long as the rows fit into 288 points. With more rows each gets lower, down to 3 points. All rows together
// take at least 110 points and at most 560.
func ganttHeight(lanes int) float64 {
	high := max(3*float64(lanes), min(9*float64(lanes), 288))
	return 32 + min(max(high, 110), 560)
}

// stay is a job's time on one GPU; from and to are in seconds.
type stay struct {
	server, device int
	job            int
	model          string
	from, to       float64
}

// gantts are the pictures of which job held which GPU when, one for each run that has recorded spans. family names the
// family of a model, by which jobs are coloured; if it is nil, they are coloured by model.
func (s figures) gantts(runs []*run, family func(string) string) (drawn []illustration) {
	kinds := newPalette(runs, family)
	most := min(mostStays, mostStaysAll/max(1, len(runs)))
	for _, r := range runs {
		if stays := staysOf(r.Spans); len(stays) > 0 {
			drawn = append(drawn, s.gantt(r, stays, most, kinds, len(drawn)+1))
		}
	}
	return drawn
}

// gantt draws one run, with no more than about most stays, since more would be too small and make the page too large.
func (s figures) gantt(r *run, stays []stay, most int, kinds palette, number int) illustration {
	rows := layOut(stays, r.GPUs)
	from, to := windowOf(r, stays, rows, most)
	lanes := float64(rows.lanes)
	return illustration{
		name: fmt.Sprintf("gantt-%02d", number),
		figure: figure.Figure{
			Title: "The cluster over time: " + r.label,
			Note:  rows.note(from, to, r.Ended),
			Keys:  kinds.keys(),
			Rows: [][]*figure.Panel{{{
				X: figure.Axis{Label: "time [h]", Min: from / hour, Max: to / hour, Ticks: 8}, Grid: figure.NoGrid,
				Y: figure.Axis{Label: "server, a row for each GPU", Min: -lanes, Max: 0, Bare: true,
					Marks: rows.names()},
				Marks: append(kinds.boxes(stays, rows, from, to), figure.Lines{At: rows.borders()}),
			}}},
			Height: ganttHeight(rows.lanes),
		},
		caption: "Each row is a GPU, and each bar a job's stay on it; " + kinds.words +
			" A gap is idle time. Jobs of several GPUs have a " +
			"bar on each. " + rows.note(from, to, r.Ended),
	}
}

// staysOf splits spans into stays on single GPUs. If the engine did not record which GPUs a job had, it is shown on the
// lowest free ones. Adjacent spans of a job on one GPU become one stay.
func staysOf(spans []outcome.Span) []stay {
	busy := map[int][]float64{} // by server: until when each GPU is held
	last := map[[2]int]int{}    // by GPU: the index of its last stay
	var stays []stay
	for _, span := range spans {
		for _, device := range devices(span, busy) {
			gpu := [2]int{span.Server, device}
			if i, known := last[gpu]; known && stays[i].job == span.Job && stays[i].to == span.From {
				stays[i].to = span.To
				continue
			}
			last[gpu] = len(stays)
			stays = append(stays, stay{span.Server, device, span.Job, span.Model, span.From, span.To})
		}
	}
	return stays
}

// devices returns the GPUs of a span. If the engine did not record them, it chooses the lowest ones that are free, and
// marks these as held until the end of the span.
func devices(span outcome.Span, busy map[int][]float64) []int {
	if span.Devices != nil {
		return span.Devices
	}
	var chosen []int
	for device := 0; len(chosen) < span.GPUs; device++ {
		if device == len(busy[span.Server]) {
			busy[span.Server] = append(busy[span.Server], 0)
		}
		if busy[span.Server][device] <= span.From {
			busy[span.Server][device] = span.To
			chosen = append(chosen, device)
		}
	}
	return chosen
}

// layout is the rows of each server in the picture.
type layout struct {
	first   []int // by server: the row of its first GPU, from the top
	lanes   int   // number of rows shown
	servers int   // number of servers shown
	all     int   // number of servers in total
}

// layOut gives each server as many rows as GPUs were ever held on it, but at least one. If the GPUs of the cluster
// divide evenly among the servers, all servers get equally many rows instead, so that idle GPUs are shown too. Servers
// beyond mostLanes rows are left out. There must be at least one stay.
func layOut(stays []stay, gpus int) layout {
	var sizes []int
	for _, s := range stays {
		for len(sizes) <= s.server {
			sizes = append(sizes, 1)
		}
		sizes[s.server] = max(sizes[s.server], s.device+1)
	}
	if equal := gpus / len(sizes); gpus%len(sizes) == 0 && equal >= slices.Max(sizes) {
		for i := range sizes {
			sizes[i] = equal
		}
	}
	rows := layout{all: len(sizes)}
	for _, size := range sizes {
		if rows.servers > 0 && rows.lanes+size > mostLanes {
			break
		}
		rows.first = append(rows.first, rows.lanes)
		rows.lanes += size
		rows.servers++
	}
	return rows
}

// mostServers is how many servers can be labelled.
const mostServers = 16

// names returns a label in the middle of each server's rows, for as many servers as can be labelled.
func (l layout) names() (names []figure.Name) {
	every := (l.servers + mostServers - 1) / mostServers
	for server := 0; server < l.servers; server += every {
		middle := float64(l.first[server]+l.after(server)) / 2
		names = append(names, figure.Name{At: -middle, Label: strconv.Itoa(server)})
	}
	return names
}

// after is the row after a server's last row.
func (l layout) after(server int) int {
	if server+1 < l.servers {
		return l.first[server+1]
	}
	return l.lanes
}

// borders returns the heights of the lines between servers.
func (l layout) borders() (heights []float64) {
	for _, first := range l.first[1:] {
		heights = append(heights, -float64(first))
	}
	return heights
}

// note says which part of the run and of the cluster is shown. Times are in seconds.
func (l layout) note(from, to, ended float64) string {
	words := fmt.Sprintf("Hours %s to %s of %s.", moment(from), moment(to), digits(ended/hour))
	if from <= 0 && to >= ended {
		words = fmt.Sprintf("The whole run of %s h.", digits(ended/hour))
	}
	if l.servers < l.all {
		words += fmt.Sprintf(" The first %d of %d servers.", l.servers, l.all)
	}
	return words
}

// moment formats a time in hours, to the second.
func moment(seconds float64) string { return shortNumber(math.Round(seconds/hour*1e4) / 1e4) }

// windowOf is the time that is shown, in seconds: the whole run, or a period around its middle with about most stays,
// found by bisection. The middle is that of the jobs that statistics count (Setting.Window).
func windowOf(r *run, stays []stay, rows layout, most int) (from, to float64) {
	whole := max(r.Ended, lastStay(stays))
	if staysWithin(stays, rows, 0, whole) <= most {
		return 0, whole
	}
	middle := middleOf(r, whole)
	narrow, broad := 0.0, whole
	for broad-narrow > whole/1e4 {
		half := (narrow + broad) / 2
		if staysWithin(stays, rows, middle-half/2, middle+half/2) <= most {
			narrow = half
		} else {
			broad = half
		}
	}
	return roundPeriod(middle, narrow)
}

// lastStay is when the last of the stays ends, in seconds; 0 if there is none.
func lastStay(stays []stay) (last float64) {
	for _, s := range stays {
		last = max(last, s.to)
	}
	return last
}

// middleOf is the middle between the first arrival and the last finish of the jobs that statistics count
// (Setting.Window), in seconds. An unfinished job, whose finish is negative, counts with its arrival.
func middleOf(r *run, whole float64) float64 {
	first, last := whole, 0.0
	for _, job := range r.Jobs {
		if r.Setting.Window.Has(job.ID) {
			first, last = min(first, job.Arrival), max(last, job.Arrival, job.Finish)
		}
	}
	return (first + last) / 2
}

// roundPeriod rounds the period, in seconds, to a round number of hours, beginning at a round hour. The width is
// rounded down, so that the picture has no more stays than it may; 1e-9 keeps a width that is round already.
func roundPeriod(middle, width float64) (from, to float64) {
	step := figure.RoundStep(max(width, 1) / hour / 10)
	width = math.Floor(width/hour/step+1e-9) * step
	from = max(0, math.Round((middle/hour-width/2)/step)*step)
	return from * hour, (from + width) * hour
}

// staysWithin counts the stays that overlap a period, on the servers that are shown.
func staysWithin(stays []stay, rows layout, from, to float64) (n int) {
	for _, s := range stays {
		if s.server < rows.servers && s.to > from && s.from < to {
			n++
		}
	}
	return n
}

// palette says how jobs are coloured by kind.
type palette struct {
	family func(string) string
	names  []string // kinds with a tint of their own, ascending
	others bool     // whether there are other kinds
	words  string   // what the colours mean
}

// newPalette gives tints to the kinds of jobs that held GPUs the longest. If there are more kinds than tints, the last
// tint is for all others together.
func newPalette(runs []*run, family func(string) string) palette {
	p := palette{family: family, words: "its colour is the family of its model."}
	if family == nil {
		p.family, p.words = func(model string) string { return model }, "its colour is its model."
	}
	held := map[string]float64{}
	for _, r := range runs {
		for _, span := range r.Spans {
			held[p.family(span.Model)] += float64(span.GPUs) * (span.To - span.From)
		}
	}
	p.names = slices.SortedFunc(maps.Keys(held), func(a, b string) int {
		return cmp.Or(cmp.Compare(held[b], held[a]), cmp.Compare(a, b))
	})
	if len(p.names) > figure.Tints() {
		p.names, p.others = p.names[:figure.Tints()-1], true
	}
	slices.Sort(p.names)
	return p
}

// keys returns the legend of the colours.
func (p palette) keys() (keys []figure.Key) {
	for i, name := range p.names {
		keys = append(keys, figure.Key{Label: cmp.Or(plain(name), "unnamed"), Style: figure.TintOf(i),
			Kind: figure.AreaKey})
	}
	if p.others {
		keys = append(keys, figure.Key{Label: "others", Style: figure.TintOf(len(p.names)), Kind: figure.AreaKey})
	}
	return keys
}

// gap is the space between rows, as a part of a row's height.
const gap = 0.06

// boxes draws the stays in a period, one mark for each kind. Rows go down from 0, and kinds without a tint of their own
// have the next one, that of the others.
func (p palette) boxes(stays []stay, rows layout, from, to float64) []figure.Mark {
	sorted := make([][]figure.Box, figure.Tints())
	for _, s := range stays {
		if s.server >= rows.servers || s.to <= from || s.from >= to {
			continue
		}
		tint := slices.Index(p.names, p.family(s.model))
		if tint < 0 {
			tint = len(p.names)
		}
		top := -float64(rows.first[s.server] + s.device)
		sorted[tint] = append(sorted[tint], figure.Box{
			From:  figure.Point{X: max(s.from, from) / hour, Y: top - 1 + gap},
			To:    figure.Point{X: min(s.to, to) / hour, Y: top - gap},
			Label: strconv.Itoa(s.job),
		})
	}
	var marks []figure.Mark
	for tint, boxes := range sorted {
		marks = append(marks, figure.Boxes{Boxes: boxes, Style: figure.TintOf(tint)})
	}
	return marks
}
