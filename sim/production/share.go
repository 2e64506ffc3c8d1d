package production

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
	"github.com/synergy-slurmd/synergy-slurmd/share"
	"github.com/synergy-slurmd/synergy-slurmd/share/predict"
	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
)

// If jobs share GPUs, every GPU has gpuMemory, and every sharing job declares that it needs jobMemory, so four jobs fit
// into the part of it that jobs may use (share.MemoryPart): as many as may share a GPU at all (share.MostJobs).
const (
	gpuMemory = 80 << 10 * gres.Memory(1) // MiB
	jobMemory = 16                        // GiB
)

// sharingConfig is the part of the daemon's configuration about shared GPUs; with the zero value it shares none.
func (s *site) sharingConfig() bridge.Sharing {
	if s.Users.Sharing == 0 {
		return bridge.Sharing{}
	}
	return bridge.Sharing{GPUMemory: gpuMemory, Mode: s.Mode}
}

// measureGPUs adds GPUBusy, the part of the time in which a job alone keeps its GPU busy, to copies of the profiles
// without it, because the prediction for shared GPUs needs it. It derives the value from the profile's curves: a job
// with all the cores and memory that it can use is assumed never to wait for data. So with its proportional share, the
// GPU is busy for the speed with the share divided by that highest speed.
func (s *site) measureGPUs() {
	home := s.Cluster.Groups[0].Vector()
	s.Profiles = maps.Clone(s.Profiles)
	for name, p := range s.Profiles {
		if p.GPUBusy > 0 {
			continue
		}
		measured, last := *p, len(p.Throughput)-1
		fastest := slices.Max(p.Throughput[last])
		measured.GPUBusy = min(1, p.Rate(sensitivity.ShareOf(gres.Proportional(home, 1)))/fastest)
		s.Profiles[name] = &measured
	}
}

// mayShare says whether a job may share its GPU. A job that does not opt in has no directive that could allow it.
func (s *site) mayShare(j trace.Job) bool {
	return j.GPUs == 1 && s.Users.Sharing > 0 && s.Users.OptsIn(j.ID) && s.Users.Shares(j.ID)
}

// shareClass is a job's class on a shared GPU, which decides how much of it the job gets beside others.
func (s *site) shareClass(job int) share.Class {
	if s.Users.Important(job) {
		return share.High
	}
	return share.Low
}

// shareDirective is the directive of a job that may share its GPU; empty for other jobs.
func (s *site) shareDirective(j trace.Job) string {
	if !s.mayShare(j) {
		return ""
	}
	return fmt.Sprintf(" synergy-share=%s,mem=%d", s.shareClass(j.ID), jobMemory)
}

// gpuRequest is the GPU request of a job that may share it: by node, which is the form that Slurm requires for changing
// it into a shard. It is empty for other jobs, which ask for a number of GPUs.
func (s *site) gpuRequest(j trace.Job) string {
	if !s.mayShare(j) {
		return ""
	}
	return gres.Count{Name: "gpu", Count: 1}.String()
}

// sharedSpeed is the speed of a job beside the others on its GPU, relative to running alone. there lists the Slurm job
// IDs of all jobs on the GPU, including the job itself. The speed is the prediction by which the planner paired these
// jobs, since a simulation has no other source.
func (s *site) sharedSpeed(job int, there []int) float64 {
	tenants, users, at := make([]predict.Tenant, len(there)), make([]string, len(there)), 0
	for i, id := range there {
		j := &s.jobs[id-1]
		tenants[i] = predict.Tenant{Class: s.shareClass(j.ID), Busy: s.Profiles[j.Model].GPUBusy}
		if users[i] = j.User; id == job {
			at = i
		}
	}
	return max(leastSpeed, predict.Speeds(policy.SharedBy(s.Mode, users...), tenants)[at])
}

// leastSpeed is the least speed, so that a job that waits for others still ends.
const leastSpeed = 0.001

// gpu identifies a shared GPU.
type gpu struct {
	server string
	device int
}

// stay is the time of one run of a job on a GPU that may be shared.
type stay struct{ from, to time.Time }

// sharedGPUOf returns the GPU of a run that may have been shared with other jobs. It returns false if the run certainly
// had whole GPUs, so that these can be counted by the job. A run that had one GPU for itself is returned, too. That
// does no harm, because sharedSeconds counts time and not jobs.
func (s *site) sharedGPUOf(j *outcome.Job, run slurmtest.Run) (gpu, bool) {
	if s.stays == nil || j.GPUs != 1 || len(run.Nodes) != 1 || len(run.Devices[0]) != 1 {
		return gpu{}, false
	}
	return gpu{run.Nodes[0], run.Devices[0][0]}, true
}

// sharedSeconds is for how many seconds, summed over the GPUs of sharedGPUOf, a GPU was in use by one job or more. Such
// a second counts as busy once, however many jobs were on the GPU. It sorts the stays on each GPU by their start, and
// of each adds only the time after the end of the earlier ones.
func (s *site) sharedSeconds() float64 {
	var busy time.Duration
	for _, all := range s.stays {
		slices.SortFunc(all, func(x, y stay) int { return cmp.Or(x.from.Compare(y.from), x.to.Compare(y.to)) })
		end := epoch()
		for _, t := range all {
			from := t.from
			if from.Before(end) {
				from = end
			}
			if t.to.After(from) {
				busy, end = busy+roundToMicros(t.to.Sub(from)), t.to
			}
		}
	}
	return busy.Seconds()
}
