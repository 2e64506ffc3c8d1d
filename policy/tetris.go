package policy

import (
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// Tetris packs (Grandl et al., SIGCOMM'14): a job goes first whose demand is aligned with what is free in the cluster,
// and that has little left to do. The key is the remaining work less the alignment, each in units of its mean over all
// jobs, as in the paper. The remaining work is the remaining time times the demand; the alignment is the inner product
// of demand and what is free, both as fractions of the cluster. The demand is the most that the allocator would give
// the job. A job of unknown length counts as half done.
//
// A running job is aligned with what is free and what it holds, as if it had to be placed now. So it fits its own place
// at least as well as any job that has taken it would, and does not come back for it.
func Tetris() Policy {
	return Policy{"tetris",
		func(i int, v *view) float64 {
			p := v.jobPacking()
			return ratio(p.work(i, remainingOrHalf(v.jobs[i])), p.meanWork) - ratio(p.alignment[i], p.meanAligned)
		},
		func(i int, v *view) float64 {
			return ratio(v.jobPacking().work(i, v.jobs[i].restartLoss(v.c.Now)), v.jobPacking().meanWork)
		},
	}
}

// packing is what the keys of Tetris are computed from: how well each job fits what is free, and what it has to do.
type packing struct {
	demand                []fractions // of each job, as fractions of the cluster
	alignment             []float64   // of each job, the inner product of its demand and what is free
	meanAligned, meanWork float64     // over all jobs; they make the two parts of a key comparable
}

// jobPacking returns the packing of all jobs, computed when the first key asks for it: each key needs the means over
// all jobs.
func (v *view) jobPacking() *packing {
	if v.pack != nil {
		return v.pack
	}
	p := &packing{demand: make([]fractions, len(v.jobs)), alignment: make([]float64, len(v.jobs))}
	demands, free := map[*jobClass]fractions{}, v.free()
	for i, j := range v.jobs {
		k := v.states[i].class
		if _, known := demands[k]; !known {
			demands[k] = v.fractionsOf(v.demand(k))
		}
		p.demand[i] = demands[k]
		room := free
		if j.Running != nil {
			room = room.Plus(j.Running.Total())
		}
		p.alignment[i] = p.demand[i].innerProduct(v.fractionsOf(room))
		p.meanAligned += p.alignment[i] / float64(len(v.jobs))
		p.meanWork += p.work(i, remainingOrHalf(j)) / float64(len(v.jobs))
	}
	v.pack = p
	return p
}

// work is what job i does in a time at its demand: seconds times fractions of the cluster.
func (p *packing) work(i int, d time.Duration) float64 { return d.Seconds() * p.demand[i].sum() }

// free is what the open servers can give away without touching any job, added up.
func (v *view) free() gres.Vector {
	var sum gres.Vector
	for i := range v.servers {
		if sv := &v.servers[i]; sv.Closed == "" {
			sum = sum.Plus(sv.available().Max(gres.Vector{}))
		}
	}
	return sum
}

// demand is the most that the allocator would give a job of class k, over all its nodes, by the first server that suits
// it; zero if it cannot run.
func (v *view) demand(k *jobClass) gres.Vector {
	if len(k.gangShapes) == 0 {
		return gres.Vector{}
	}
	w := k.gangShapes[0]
	for n := range v.servers {
		if k.eligible.servers.has(n) && v.servers[n].Total.GPUs >= w.gpus {
			return v.wishOf(v.menu(k, w.gpus, n)).Times(w.nodes)
		}
	}
	return gres.Vector{}
}
