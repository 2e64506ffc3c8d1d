package bound

import (
	"cmp"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// sizer lists the sizes with which a job may be started on nodes of a shape. It follows policy.Check and shares no line
// with the planner, whose plans it measures. A job is owed at least its proportional share, and its pace if that is
// more. Where a shape stands for different nodes it uses the smallest share among them, so that it allows too much
// rather than too little.
type sizer struct {
	job     *policy.Job
	profile *sensitivity.Profile // for the GPUs of the nodes; nil: none
	fair    gres.Vector          // the smallest proportional share of that many GPUs
	most    gres.Vector          // the most that a node has and the ceiling allows
	least   gres.Vector          // the minimum: the floor and, without a profile, all that the job is owed
	rate    float64              // minimum rate in samples per second and GPU; 0: none
}

// newSizer makes a sizer for one part of job j with that many GPUs on nodes of a shape. With a profile the minimum rate
// is that of the share, or of the job's pace if that is higher: policy.Check refuses a start with less. Without a
// profile rates are unknown, and the share and the pace themselves are the minimum.
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

// inWholeMiB lowers an amount of memory by 1 MiB per core of the node where the job's memory is given per core. Plans
// round such memory down to whole MiB per core, so no size that a plan may give is left out.
func (z *sizer) inWholeMiB(v gres.Vector, sh *shape) gres.Vector {
	if z.job.PerCore {
		v.Memory = max(0, v.Memory-gres.Memory(sh.total.CPUs))
	}
	return v
}

// tolerance is slightly more than how far policy.Check lets a rate fall below what a job is owed.
const tolerance = 3e-6

// pace is the size that the job must never be slower than on these nodes (policy.Job.Pace); zero if there is none. With
// a profile, the share stands in for a resource that it does not name, since a profile's rate needs both.
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

// admits reports whether a job may be started with a size: between minimum and maximum, in whole cores for each task,
// and fast enough.
func (z *sizer) admits(size gres.Vector) bool {
	if !z.least.Fits(size) || !size.Fits(z.most) || size.CPUs%max(1, z.job.Tasks) != 0 {
		return false
	}
	return z.rate == 0 || z.profile.Rate(sensitivity.ShareOf(size)) >= z.rate
}

// value is the value of one part of the job with a size: its GPUs times its speed. unit is policy.Unit of the smallest
// share, by which the gain over that share becomes a speed. reference is the rate, in samples a second, with the share
// of the reference server. It is above 0 only where the smallest share may be without cores or memory, so that the gain
// over it says nothing. The speed is then at least the rate relative to reference.
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

// rankOf orders sizes as value does; by it sizes tells the ones worth trying. Without a profile all rank the same,
// since a job's value does not depend on its size then.
func (z *sizer) rankOf(size gres.Vector) float64 {
	if z.profile == nil {
		return 1
	}
	return z.profile.Rate(sensitivity.ShareOf(size))
}

// sizes lists the sizes that a bound needs to try: those that no other dominates (no more of any resource and at least
// the same value). It is empty if the job does not fit. Cores are multiples of the tasks; memory is the share, the
// measured amounts, the requested amount, and all that may be had.
func (z *sizer) sizes() []gres.Vector {
	tasks := max(1, z.job.Tasks)
	low, high := (z.least.CPUs+tasks-1)/tasks*tasks, z.usefulCores(tasks)
	if z.least.Memory > z.most.Memory || low > high {
		return nil
	}
	best := make([]float64, (high-low)/tasks+1) // by cores, over the amounts of memory so far
	var all []gres.Vector
	for _, memory := range z.amounts() {
		above := 0.0 // the best value with fewer cores
		for k := range best {
			size := gres.Vector{GPUs: z.fair.GPUs, CPUs: low + k*tasks, Memory: memory}
			above = max(above, best[k])
			if !z.admits(size) {
				continue
			}
			if v := z.rankOf(size); v > above {
				best[k], above = v, v
				all = append(all, size)
			}
		}
	}
	return all
}

// usefulCores is the largest number of cores worth trying. More than the last measured one gains nothing, and without a
// profile more than the minimum gains nothing.
func (z *sizer) usefulCores(tasks int) int {
	useful := z.least.CPUs
	if p := z.profile; p != nil {
		last := p.CoresPerGPU[len(p.CoresPerGPU)-1] * float64(z.fair.GPUs)
		useful = max(useful, int(min(last, float64(z.most.CPUs)))+1)
	}
	return min((useful+tasks-1)/tasks, z.most.CPUs/tasks) * tasks
}

// amounts lists the amounts of memory worth trying, ascending: the least, and with a profile the share, the pace, the
// measured amounts, and the most.
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

// allowed caps an amount by the job's ceiling, with cores rounded down to a multiple of its tasks.
func allowed(j *policy.Job, v gres.Vector) gres.Vector {
	if most := j.Ceiling.CPUs; most > 0 {
		v.CPUs = min(v.CPUs, most-most%max(1, j.Tasks))
	}
	if most := j.Ceiling.Memory; most > 0 {
		v.Memory = min(v.Memory, most)
	}
	return v
}
