package demo

import (
	"fmt"
	"strings"
	"time"
)

// figure is a row of the comparison.
type figure struct {
	name string
	show func(outcome) string
	// time is what the runs are compared by; nil: they are not compared in this row.
	time func(outcome) time.Duration
}

func figures() []figure {
	return []figure{
		{"mean time to completion", func(o outcome) string { return hours(o.mean) },
			func(o outcome) time.Duration { return o.mean }},
		{"median", func(o outcome) string { return hours(o.median) },
			func(o outcome) time.Duration { return o.median }},
		{"all jobs done after", func(o outcome) string { return hours(o.makespan) },
			func(o outcome) time.Duration { return o.makespan }},
		{"GPU-hours held", func(o outcome) string { return fmt.Sprintf("%.1f", o.gpuTime.Hours()) },
			func(o outcome) time.Duration { return o.gpuTime }},
		{"GPUs in use", func(o outcome) string { return percent(o.gpus()) }, nil},
		{"cores in use", func(o outcome) string { return percent(o.cores()) }, nil},
		{"restarts", func(o outcome) string { return fmt.Sprint(o.restarts) }, nil},
	}
}

func percent(part float64) string { return fmt.Sprintf("%.0f %%", 100*part) }

// conclude compares the outcomes. The first is under the proportional share, the base of the comparison; the last is
// the one that was shown.
func (g *stage) conclude(all []outcome) {
	g.unfold()
	base, last := all[0], all[len(all)-1]
	g.rule(fmt.Sprintf("the same %d jobs under each allocator", len(base.took)))
	heading := fmt.Sprintf(" %-26s", "hours:minutes, × shorter")
	for _, o := range all {
		heading += fmt.Sprintf("%12s%9s", o.allocator, "")
	}
	g.line(span{heading, faint})
	for _, f := range figures() {
		g.compare(f, all)
	}
	g.line()
	g.say(promise(base, last, g.slowest) + " " + exchange(last))
}

// compare writes a row of the comparison.
func (g *stage) compare(f figure, all []outcome) {
	line := []span{{fmt.Sprintf(" %-26s", f.name), plain}}
	for k, o := range all {
		ratio := ""
		if k > 0 && f.time != nil {
			ratio = times(f.time(all[0]), f.time(o))
		}
		line = append(line, span{fmt.Sprintf("%12s", f.show(o)), plain}, span{fmt.Sprintf("  %-7s", ratio), green})
	}
	g.line(line...)
}

// times says how many times shorter the duration is than was.
func times(was, is time.Duration) string { return fmt.Sprintf("%.2f×", part(was, is)) }

// promise says how much sooner the jobs were done, and the lowest speed of any job relative to its share.
func promise(base, last outcome, slowest float64) string {
	return fmt.Sprintf(
		"Under Tune jobs were done %s as fast as under the proportional share, on average and waiting included, and "+
			"the slowest that any of them was seen to train was %.2f× the speed of its share.",
		times(base.mean, last.mean),
		slowest)
}

// exchange says where the speed came from and what it cost.
func exchange(o outcome) string {
	return fmt.Sprintf(
		"On the way %s did without %.0f core-hours of their share, %s trained up to %.2f× as fast, and %d restarts "+
			"cost %d minutes of training in all.",
		list(o.lenders), o.lent.Hours(), list(o.gainers), o.fastest, o.restarts,
		int(o.lost.Round(time.Minute).Minutes()))
}

// list joins words as "a, b and c".
func list(words []string) string {
	switch n := len(words); n {
	case 0:
		return "nobody"
	case 1:
		return words[0]
	default:
		return strings.Join(words[:n-1], ", ") + " and " + words[n-1]
	}
}
