package demo

import (
	"slices"
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
}

func (o outcome) gpus() float64 { return part(o.gpuTime, o.makespan*time.Duration(nodes*server.GPUs)) }
func (o outcome) cores() float64 {
	return part(o.coreTime, o.makespan*time.Duration(nodes*server.CPUs))
}

// outcome sums up the accounting of all jobs.
func (y *play) outcome() outcome {
	o := outcome{allocator: y.runner.Settings.Allocator.Name}
	for id := 1; id <= y.slurm.Submitted(); id++ {
		h, _ := y.slurm.History(id)
		o.took = append(o.took, h.Ended.Sub(h.Submitted))
		o.makespan = max(o.makespan, h.Ended.Sub(opening()))
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

func part(of, whole time.Duration) float64 {
	if whole == 0 {
		return 0
	}
	return float64(of) / float64(whole)
}
