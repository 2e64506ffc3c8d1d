package bound_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// row is a cluster of the ablation, and what else happens there before each round.
type row struct {
	name string
	lasting
	each func(p *played, round int)
}

// ablated are the clusters of allLasting, and some of them with quotas, drained nodes and jobs without a checkpoint.
func ablated(t testing.TB) (rows []row) {
	all := allLasting(t)
	for _, l := range all {
		rows = append(rows, row{l.name, l, nil})
	}
	gangs, unlike := all[1], all[11]
	return append(rows,
		row{"gangs, quotas", gangs, capped},
		row{"one GPU, a third idle", all[0], twoThirds}, row{"gangs, a third idle", gangs, twoThirds},
		row{"gangs, drains", gangs, drained},
		row{"gangs, half without checkpoint", gangs, halfUnable},
		row{"unlike nodes, quotas, drains", unlike, func(p *played, round int) { capped(p, round); drained(p, round) }})
}

// capped bounds the cores of every second job together.
func capped(p *played, _ int) {
	const no = policy.Unbounded
	p.cluster.Quotas = []policy.Quota{{Name: "cores", Jobs: no, Nodes: no, GPUs: no, CPUs: 160, Memory: no}}
	for i := range p.cluster.Jobs {
		if j := &p.cluster.Jobs[i]; j.ID%2 == 0 {
			j.Quotas = []int{0}
		}
	}
}

// twoThirds takes waiting jobs away, so that a third of the GPUs idles.
func twoThirds(p *played, _ int) {
	room := 0
	for _, n := range p.cluster.Nodes {
		room += n.Total.GPUs
	}
	room = room * 2 / 3
	for i := range p.cluster.Jobs {
		if j := &p.cluster.Jobs[i]; j.Running != nil {
			room -= j.GPUs
		}
	}
	p.cluster.Jobs = slices.DeleteFunc(p.cluster.Jobs, func(j policy.Job) bool {
		if j.Running != nil {
			return false
		}
		room -= j.GPUs
		return room < 0
	})
}

// drained closes another eighth of the nodes each hour.
func drained(p *played, round int) {
	for n := range p.cluster.Nodes {
		p.cluster.Nodes[n].Closed = ""
		if (n+round/12)%8 == 0 {
			p.cluster.Nodes[n].Closed = "drained"
		}
	}
}

// halfUnable takes the checkpoints from every second job, and has unmanaged jobs come.
func halfUnable(p *played, _ int) {
	p.cluster.UnmanagedGPUs = 4
	for i := range p.cluster.Jobs {
		p.cluster.Jobs[i].Saves = p.cluster.Jobs[i].ID%2 == 0
	}
}

// BenchmarkAblation says what each pass of Tune is worth: how much less, in %, jobs train without it, restarts
// subtracted; mean and range over seeds, and over all rows. Run it with -benchtime 1x.
func BenchmarkAblation(b *testing.B) {
	const rounds, seeds = 96, 3
	passes := policy.Tune().Passes()
	lost := make([][]float64, len(passes)) // by pass: of each row and seed
	rows := ablated(b)
	for b.Loop() {
		for _, row := range rows {
			var whole [seeds]float64
			for seed := range seeds {
				whole[seed] = row.trains(b, policy.Tune(), rounds, seed)
			}
			line := fmt.Sprintf("%-32s", row.name)
			for k, pass := range passes {
				var sum float64
				for seed := range seeds {
					less := 100 * (1 - row.trains(b, policy.Tune().Without(pass), rounds, seed)/whole[seed])
					lost[k], sum = append(lost[k], less), sum+less
				}
				line += fmt.Sprintf(" %11.2f", sum/seeds)
			}
			fmt.Println(line) // a benchmark's own log is cut after ten lines
		}
	}
	fmt.Printf("%32s %s\n", "", strings.Join(passes, ", "))
	for k, pass := range passes {
		mean, least, most := 0.0, math.Inf(1), math.Inf(-1)
		for _, less := range lost[k] {
			mean, least, most = mean+less/float64(len(lost[k])), min(least, less), max(most, less)
		}
		fmt.Printf("%-12s %6.2f %% (%.2f to %.2f)\n", pass, mean, least, most)
	}
}

// trains is what the jobs of a cluster in use train with an allocator, in GPU-seconds of the reference share.
func (r row) trains(t testing.TB, a policy.Allocator, rounds, seed int) float64 {
	return r.playAs(t, a, rounds, variant{int64(seed), r.each, true}).trained
}
