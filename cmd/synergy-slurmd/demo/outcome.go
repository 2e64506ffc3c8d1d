package demo

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// outcome sums up one run of the workload, from Slurm's own accounting.
type outcome struct {
	allocator string
	took      []time.Duration // from submission to end, waiting included; by job
	mean      time.Duration
	median    time.Duration
	makespan  time.Duration // from the first submission to the last end
	gpuTime   time.Duration // that jobs held
	coreTime  time.Duration
	restarts  int
	lost      time.Duration // in which restarted jobs held GPUs and did not train

	lent    time.Duration // core-time below the proportional share that jobs did without
	lenders []string      // the models that ran with fewer cores than their share, ascending
	gainers []string      // the models that ever trained faster than with the share
	fastest float64       // the highest speed of any
	slowest float64       // the lowest that was seen behind any round; 0: nothing ran
}

func (o outcome) gpus() float64 { return part(o.gpuTime, o.makespan*time.Duration(nodes*server.GPUs)) }
func (o outcome) cores() float64 {
	return part(o.coreTime, o.makespan*time.Duration(nodes*server.CPUs))
}

// outcome sums up the accounting of all jobs.
func (y *simulation) outcome() outcome {
	o := outcome{allocator: y.runner.Settings.Allocator.Name, slowest: y.slowest}
	for id := 1; id <= y.slurm.Submitted(); id++ {
		// Each submitted job has a history.
		h, _ := y.slurm.History(id)
		o.took = append(o.took, h.Ended.Sub(h.Submitted))
		o.makespan = max(o.makespan, h.Ended.Sub(start()))
		o.restarts += h.Restarts
		o.lost += time.Duration(h.Restarts) * y.profiles[h.Name].RestartCost()
		for _, run := range h.Runs {
			o.count(h.Name, run, y.speed(h.Name, run.PerNode))
		}
	}
	o.mean, o.median = mean(o.took), median(o.took)
	o.lenders, o.gainers = distinct(o.lenders), distinct(o.gainers)
	return o
}

// count adds one run of a job of this model. speed is relative to the proportional share.
func (o *outcome) count(model string, run slurmtest.Run, speed float64) {
	held := run.Freed.Sub(run.Start)
	o.gpuTime += held * time.Duration(run.PerNode.GPUs)
	o.coreTime += held * time.Duration(run.PerNode.CPUs)
	if less := gres.Proportional(server, run.PerNode.GPUs).CPUs - run.PerNode.CPUs; less > 0 {
		o.lent += held * time.Duration(less)
		o.lenders = append(o.lenders, model)
	}
	if speed > 1 {
		o.gainers = append(o.gainers, model)
	}
	o.fastest = max(o.fastest, speed)
}

func distinct(words []string) []string {
	slices.Sort(words)
	return slices.Compact(words)
}

func mean(all []time.Duration) time.Duration {
	var sum time.Duration
	for _, d := range all {
		sum += d
	}
	return sum / time.Duration(max(1, len(all)))
}

// median is the middle value, or the mean of the two middle ones.
func median(all []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	if len(sorted) == 0 {
		return 0
	}
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// part is a part of a whole; 0 of nothing.
func part(of, whole time.Duration) float64 {
	if whole == 0 {
		return 0
	}
	return float64(of) / float64(whole)
}

// comparison is a table of the outcomes and what came of it. The first is under the proportional share, the base of the
// comparison; the last is the one that was shown.
func comparison(all []outcome) string {
	base, last := all[0], all[len(all)-1]
	var text strings.Builder
	fmt.Fprintf(&text, "the same %d jobs under each allocator; times in hours:minutes, and how many times shorter\n",
		len(base.took))
	rows := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(rows, "allocator\tmean to completion\tmedian\tall done after\tGPU-hours held\tGPUs used\tcores used\t"+
		"restarts\t")
	for _, o := range all {
		fmt.Fprintf(rows, "%s\t%s %s\t%s %s\t%s %s\t%.1f %s\t%s\t%s\t%d\t\n", o.allocator,
			hours(o.mean), times(base.mean, o.mean), hours(o.median), times(base.median, o.median),
			hours(o.makespan), times(base.makespan, o.makespan), o.gpuTime.Hours(), times(base.gpuTime, o.gpuTime),
			percent(o.gpus()), percent(o.cores()), o.restarts)
	}
	rows.Flush() // into memory
	return text.String() + "\n" + promise(base, last) + exchange(last)
}

func percent(part float64) string { return fmt.Sprintf("%.0f %%", 100*part) }

// times says how many times shorter the duration is than was.
func times(was, is time.Duration) string { return fmt.Sprintf("%.2f×", part(was, is)) }

// promise says how much sooner the jobs were done, and the lowest speed of any job relative to its share.
func promise(base, last outcome) string {
	return fmt.Sprintf(`Under Tune jobs were done %s as fast as under the proportional share, on average and waiting included.
The slowest that any of them was seen to train was %.2f× the speed of its share.
`, times(base.mean, last.mean), last.slowest)
}

// exchange says where the speed came from and what it cost.
func exchange(o outcome) string {
	return fmt.Sprintf(`On the way %s did without %.0f core-hours of their share,
%s trained up to %.2f× as fast,
and %d restarts cost %d minutes of training in all.
`, list(o.lenders), o.lent.Hours(), list(o.gainers), o.fastest, o.restarts, int(o.lost.Round(time.Minute).Minutes()))
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
