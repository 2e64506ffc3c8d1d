package bound

import (
	"cmp"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// sizer lists the sizes that a job may be started with on nodes of a shape. It goes by what policy.Check asks for and
// shares no line with the planner, whose plans are measured by it. Where a shape stands for several kinds of nodes it
// goes by the smallest share among them, so that it rather allows too much.
type sizer struct {
	job     *policy.Job
	profile *sensitivity.Profile // of the GPUs of the nodes; nil: none
	fair    gres.Vector          // the smallest proportional share of so many GPUs
	most    gres.Vector          // what a node has at most, the ceiling included
	least   gres.Vector          // what must be had: floor and, without a profile, all that is owed
	rate    float64              // samples per second and GPU that must be had; 0: none
}

func newSizer(j *policy.Job, p *sensitivity.Profile, gpus int, sh *shape) sizer {
	z := sizer{job: j, profile: p, fair: sh.share(gpus), most: allowed(j, sh.total)}
	z.most.GPUs = gpus
	due, pace := z.inWholeMiB(allowed(j, z.fair), sh), z.inWholeMiB(z.pace(), sh)
	z.least = gres.Vector{GPUs: gpus, CPUs: max(1, j.Floor.CPUs), Memory: max(0, j.Floor.Memory)}
	if z.profile == nil {
		z.least = z.least.Max(due).Max(pace)
		return z
	}
	z.rate = z.profile.Rate(sensitivity.ShareOf(due))
	if pace != (gres.Vector{}) {
		z.rate = max(z.rate, z.profile.Rate(sensitivity.ShareOf(pace)))
	}
	z.rate *= 1 - tolerance
	return z
}

// inWholeMiB is the least that an amount may come to where memory is given by the core: less by not quite a MiB for
// each core that a server has. So no size that a plan may give is left out.
func (z *sizer) inWholeMiB(v gres.Vector, sh *shape) gres.Vector {
	if z.job.PerCore {
		v.Memory = max(0, v.Memory-gres.Memory(sh.total.CPUs))
	}
	return v
}

// tolerance is how far below what it is owed policy.Check lets a rate fall, and a little more.
const tolerance = 3e-6

// pace is what the user of the job reckoned with, beside a profile with the share in place of what he did not name;
// zero: nobody did.
func (z *sizer) pace() gres.Vector {
	pace := gres.Vector{CPUs: z.job.Pace.CPUs, Memory: z.job.Pace.Memory}
	if pace == (gres.Vector{}) {
		return pace
	}
	pace.GPUs = z.fair.GPUs
	if z.profile != nil {
		pace.CPUs, pace.Memory = cmp.Or(pace.CPUs, z.fair.CPUs), cmp.Or(pace.Memory, z.fair.Memory)
	}
	return allowed(z.job, pace)
}

// admits says whether a size may be started with.
func (z *sizer) admits(size gres.Vector) bool {
	if !z.least.Fits(size) || !size.Fits(z.most) || size.CPUs%max(1, z.job.Tasks) != 0 {
		return false
	}
	return z.rate == 0 || z.profile.Rate(sensitivity.ShareOf(size)) >= z.rate
}

// value is what a part of the job with such a size is worth, in a unit. Where the smallest share is nothing it is at
// least by the rate of the reference server's share, if that is not 0.
func (z *sizer) value(size gres.Vector, unit, reference float64) float64 {
	if z.profile == nil {
		return float64(size.GPUs)
	}
	speed := z.profile.Gain(size, z.fair) * unit
	if reference > 0 {
		speed = max(speed, z.profile.Rate(sensitivity.ShareOf(size))/reference)
	}
	return float64(size.GPUs) * speed
}

// speed orders sizes as value does.
func (z *sizer) speed(size gres.Vector) float64 {
	if z.profile == nil {
		return 1
	}
	return z.profile.Rate(sensitivity.ShareOf(size))
}

// sizes lists those than which no other is worth as much with no more of anything; none where the job does not fit.
// Cores are whole ones for each task; memory is the share, what was measured, what is asked for, and all that may be
// had.
func (z *sizer) sizes() []gres.Vector {
	tasks := max(1, z.job.Tasks)
	low, high := (z.least.CPUs+tasks-1)/tasks*tasks, z.usefulCores(tasks)
	if z.least.Memory > z.most.Memory || low > high {
		return nil
	}
	best := make([]float64, (high-low)/tasks+1) // by cores, over the amounts of memory so far
	var all []gres.Vector
	for _, memory := range z.amounts() {
		above := 0.0 // the best with fewer cores
		for k := range best {
			size := gres.Vector{GPUs: z.fair.GPUs, CPUs: low + k*tasks, Memory: memory}
			above = max(above, best[k])
			if !z.admits(size) {
				continue
			}
			if v := z.speed(size); v > above {
				best[k], above = v, v
				all = append(all, size)
			}
		}
	}
	return all
}

// usefulCores is the most cores worth trying: more than the last measured ones gain nothing, and more than the least
// that is admitted nothing without a profile.
func (z *sizer) usefulCores(tasks int) int {
	useful := z.least.CPUs
	if p := z.profile; p != nil {
		last := p.CoresPerGPU[len(p.CoresPerGPU)-1] * float64(z.fair.GPUs)
		useful = max(useful, int(min(last, float64(z.most.CPUs)))+1)
	}
	return min((useful+tasks-1)/tasks, z.most.CPUs/tasks) * tasks
}

func (z *sizer) amounts() []gres.Memory {
	amounts := []gres.Memory{z.least.Memory}
	if p := z.profile; p != nil {
		amounts = append(amounts, z.fair.Memory, z.job.Pace.Memory, z.most.Memory)
		for _, perGPU := range p.MemoryPerGPU {
			amounts = append(amounts, perGPU*gres.Memory(z.fair.GPUs))
		}
	}
	for i := range amounts {
		amounts[i] = min(max(amounts[i], z.least.Memory), z.most.Memory)
	}
	slices.Sort(amounts)
	return slices.Compact(amounts)
}

// allowed is as much of an amount as the site allows the job on a node, in cores that its tasks can share.
func allowed(j *policy.Job, v gres.Vector) gres.Vector {
	if most := j.Ceiling.CPUs; most > 0 {
		v.CPUs = min(v.CPUs, most-most%max(1, j.Tasks))
	}
	if most := j.Ceiling.Memory; most > 0 {
		v.Memory = min(v.Memory, most)
	}
	return v
}
