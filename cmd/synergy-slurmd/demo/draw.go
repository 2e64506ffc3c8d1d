package demo

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// The marks of changes.
var (
	arrives  = span{"+", bold}
	ends     = span{"✓", bold}
	starts   = span{"▶", green}
	pauses   = span{"⏸", yellow}
	restarts = span{"↻", cyan}
	fails    = span{"✗", red}
)

// draw writes a round. Nodes are drawn only if the round changed what runs.
func (p *paper) draw(s *scene) {
	free := gres.Vector{}
	for _, r := range s.racks {
		free = free.Plus(r.free)
	}
	p.rule(fmt.Sprintf("round %d", s.number), hours(s.at), fmt.Sprintf("%d run, %d wait", s.running(),
		s.jobs-s.running()),
		fmt.Sprintf("free: %s, %s", count(free.GPUs, "GPU"), count(free.CPUs, "core")))
	p.changes(s)
	if s.moved() {
		for _, r := range s.racks {
			p.rack(r, s)
		}
	}
	p.queue(s)
	p.plan(s)
	p.line()
}

// plan writes how good the plan is, for a round that changed something.
func (p *paper) plan(s *scene) {
	if s.moved() && s.plan != "" {
		p.line(span{fit(" plan: "+s.plan, p.columns), faint})
	}
}

// changes writes what the round changed, except for starts, which are marked where the job runs.
func (p *paper) changes(s *scene) {
	if len(s.arrived) > 0 {
		p.listing(arrives, arrivals(s.arrived))
	}
	if len(s.ended) > 0 {
		p.listing(ends, endings(s.ended))
	}
	p.remarks(pauses, s.paused)
	p.remarks(restarts, s.resized)
	p.remarks(fails, s.failed)
}

func arrivals(all []ticket) []string {
	var said []string
	for _, t := range all {
		said = append(said, fmt.Sprintf("%s with %s", t, count(t.gpus, "GPU")))
	}
	return said
}

func endings(all []remark) []string {
	var said []string
	for _, e := range all {
		said = append(said, fmt.Sprintf("%s %s after %s", e.ticket, e.text, hours(e.took)))
	}
	return said
}

func (p *paper) remarks(mark span, all []remark) {
	for _, r := range all {
		p.line(lead(mark), span{fit(fmt.Sprintf("%s: %s", r.ticket, r.text), p.columns-margin), plain})
	}
}

func (t ticket) String() string { return fmt.Sprintf("%d %s", t.id, t.model) }

// rack writes a node: a heading, a line for each job, and what is free.
func (p *paper) rack(r rack, s *scene) {
	p.line(span{fmt.Sprintf(" %-19s%-11s%5s%9s   %-24s%s", r.name, "GPUs", "cores", "memory", "speed", "done"), faint})
	for _, seat := range r.seats {
		p.seat(seat, s)
	}
	if r.free.GPUs > 0 || r.free.CPUs > 0 {
		p.line(span{fmt.Sprintf(" %19s%-11s%5d%8sG", "free  ", places(r.spare), r.free.CPUs, gigabytes(r.free.Memory)),
			faint})
	}
}

// seat writes the line of a running job: its size, its speed as a number and as bars, and its progress.
func (p *paper) seat(seat seat, s *scene) {
	owed, gained := bars(seat.speed)
	mark := markOf(seat.id, s)
	p.line(lead(mark),
		span{fmt.Sprintf("%3d %-13s%-11s%5d%8sG   ", seat.id, seat.model, places(seat.devices), seat.size.CPUs,
			gigabytes(seat.size.Memory)), plain},
		span{fmt.Sprintf("%.2f× ", seat.speed), plain},
		span{owed, faint}, span{fmt.Sprintf("%-*s", barColumns-width(owed), gained), green},
		span{fmt.Sprintf("%3.0f %% ", 100*seat.done), plain}, span{progress(seat.done), faint})
}

// markOf is the mark of what the round did to a job; empty: nothing.
func markOf(id int, s *scene) span {
	switch {
	case slices.Contains(s.started, id):
		return starts
	case slices.ContainsFunc(s.resized, func(r remark) bool { return r.id == id }):
		return restarts
	case slices.ContainsFunc(s.paused, func(r remark) bool { return r.id == id }):
		return pauses
	}
	return span{}
}

// places draws the GPUs of a node: the given ones by their indices, all others as dots.
func places(devices []int) string {
	drawn := []rune(strings.Repeat("·", server.GPUs))
	for _, d := range devices {
		if d >= 0 && d < len(drawn) {
			drawn[d] = '0' + rune(d)
		}
	}
	return string(drawn)
}

// unit is how many columns the proportional speed has. The bar has room for three times that speed, which none of the
// models reaches.
const (
	unit       = 5
	barColumns = 3*unit + 3
)

// bars draws a speed: a thin line up to the proportional speed, and a thick bar for the gain.
func bars(speed float64) (owed, gained string) {
	all := int(float64(speed*unit) + 0.5)
	return strings.Repeat("─", min(all, unit)), strings.Repeat("█", max(0, all-unit))
}

func progress(done float64) string {
	const length = 10
	full := int(float64(done*length) + 0.5)
	return strings.Repeat("▪", full) + strings.Repeat("·", length-full)
}

// shown is how many waiting jobs are listed before the others are only counted.
const shown = 4

// queue writes which jobs wait and why.
func (p *paper) queue(s *scene) {
	if len(s.waiting) == 0 {
		return
	}
	p.line(span{fmt.Sprintf(" %-19s%4s%8s   why", "waiting", "GPUs", "since"), faint})
	for k, w := range s.waiting {
		if k == shown && len(s.waiting) > shown+1 {
			p.line(span{fmt.Sprintf("       … and %d more", len(s.waiting)-shown), faint})
			return
		}
		job := fmt.Sprintf("%3d %-13s%4d%8s   ", w.id, w.model, w.gpus, hours(w.took))
		p.line(lead(markOf(w.id, s)), span{job, plain}, span{fit(w.text, p.columns-margin-width(job)), plain})
	}
}

// fold writes consecutive rounds without changes as one line.
func (p *paper) fold(first, last *scene) {
	rounds, when := fmt.Sprintf("round %d", first.number), hours(first.at)
	if last.number > first.number {
		rounds = fmt.Sprintf("rounds %d–%d", first.number, last.number)
		when += "–" + hours(last.at)
	}
	p.rule(rounds, when, fmt.Sprintf("%d run, %d wait", last.running(), last.jobs-last.running()), "nothing to do")
	p.line()
}

// gigabytes writes memory with at most one decimal, without its unit.
func gigabytes(m gres.Memory) string {
	return strconv.FormatFloat(math.Round(10*float64(m)/float64(gres.Gigabyte))/10, 'f', -1, 64)
}

// hours writes a time as hours and minutes.
func hours(d time.Duration) string {
	minutes := int(d.Round(time.Minute).Minutes())
	return fmt.Sprintf("%d:%02d", minutes/60, minutes%60)
}

func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
