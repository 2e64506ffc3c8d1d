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

// Where jobs share GPUs every GPU has so much memory, and every job that shares says that it needs so much of it: four
// fit.
const (
	gpuMemory = 80 << 10 * gres.Memory(1) // MiB
	jobMemory = 16                        // GiB
)

// gpus is what the site's configuration says of its GPUs.
func (s *site) gpus() bridge.Sharing {
	if s.Users.Sharing == 0 {
		return bridge.Sharing{}
	}
	return bridge.Sharing{GPUMemory: gpuMemory, Mode: s.Mode}
}

// measureGPUs adds to profiles that do not say how busy their model keeps a GPU what follows from their curves: with
// all the cores and memory that it can use it never waits for data, and with its share it trains for that part of the
// time. The profiles that were given stay as they are.
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

// shares says whether a job may share its GPU.
func (s *site) shares(j trace.Job) bool {
	return j.GPUs == 1 && s.Users.Sharing > 0 && s.Users.OptsIn(j.ID) && s.Users.Shares(j.ID)
}

// class is how important a job is on a GPU that it shares.
func (s *site) class(job int) share.Class {
	if s.Users.Important(job) {
		return share.High
	}
	return share.Low
}

// sharing is what a user writes for the daemon who may share; nothing for others.
func (s *site) sharing(j trace.Job) string {
	if !s.shares(j) {
		return ""
	}
	return fmt.Sprintf(" synergy-share=%s,mem=%d", s.class(j.ID), jobMemory)
}

// gres is how a user asks for the GPU of a job that may share it: by node, as Slurm wants it who is to change it into a
// part of one. Others ask for a number of GPUs.
func (s *site) gres(j trace.Job) string {
	if !s.shares(j) {
		return ""
	}
	return gres.Count{Name: "gpu", Count: 1}.String()
}

// together is how fast a job runs beside others on its GPU, by the prediction by which they were paired: a simulation
// has no other truth.
func (s *site) together(job int, there []int) float64 {
	tenants, users, at := make([]predict.Tenant, len(there)), make([]string, len(there)), 0
	for i, id := range there {
		j := &s.jobs[id-1]
		tenants[i] = predict.Tenant{Class: s.class(j.ID), Busy: s.Profiles[j.Model].GPUBusy}
		if users[i] = j.User; id == job {
			at = i
		}
	}
	return max(slowest, predict.Speeds(policy.SharedBy(s.Mode, users...), tenants)[at])
}

// slowest keeps a job that has to wait for others from never ending.
const slowest = 0.001

// gpu is one of those that jobs share.
type gpu struct {
	server string
	device int
}

// tenancy is the time of one job on a GPU.
type tenancy struct{ from, to time.Time }

// seatOf is the GPU on which a run of a job may have had a seat beside others.
func (s *site) seatOf(j *outcome.Job, run slurmtest.Run) (gpu, bool) {
	if s.tenancies == nil || j.GPUs != 1 || len(run.Nodes) != 1 || len(run.Devices[0]) != 1 {
		return gpu{}, false
	}
	return gpu{run.Nodes[0], run.Devices[0][0]}, true
}

// shared is for how many seconds those GPUs were in use, by however many jobs at once.
func (s *site) shared() float64 {
	var busy time.Duration
	for _, all := range s.tenancies {
		slices.SortFunc(all, func(x, y tenancy) int { return cmp.Or(x.from.Compare(y.from), x.to.Compare(y.to)) })
		end := opening()
		for _, t := range all {
			from := t.from
			if from.Before(end) {
				from = end
			}
			if t.to.After(from) {
				busy, end = busy+exact(t.to.Sub(from)), t.to
			}
		}
	}
	return busy.Seconds()
}
