package policy

import (
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
	"github.com/synergy-slurmd/synergy-slurmd/share"
	"github.com/synergy-slurmd/synergy-slurmd/share/predict"
)

// tenant is a job on a shared GPU (a device), with what it has of the node's cores and memory, as far as that decides
// how fast the jobs there are.
type tenant struct {
	job    *Job
	size   gres.Vector // on the node
	gain   float64     // its speed alone on the GPU, relative to the proportional share
	busy   float64     // how busy it keeps the GPU then, 0 to 1
	memory gres.Memory // of the GPU, that it needs; 0: unknown
}

// SharedBy is how jobs of these users are assumed to share a GPU of a node in a mode. They fill it (MPS) if the node
// does that and all of them are one user's, since the classic MPS server serves one user at a time. Otherwise they take
// turns with look-ahead, which every node can give. A job of an unknown user may be any user's.
func SharedBy(mode share.Mode, users ...string) predict.Mode {
	stranger := func(user string) bool { return user == "" || user != users[0] }
	if mode != share.Fill || slices.ContainsFunc(users, stranger) {
		return predict.LookAhead
	}
	return predict.Fill
}

// sharedBy is how the jobs of a device are assumed to share it, by which their speeds are predicted.
func sharedBy(d *Device, tenants []tenant) predict.Mode {
	users := make([]string, len(tenants))
	for i := range tenants {
		users[i] = tenants[i].job.User
	}
	return SharedBy(d.Mode, users...)
}

// tenantOf is job j with a size on node n.
func (s *sharing) tenantOf(j *Job, n int, size gres.Vector) tenant {
	t := tenant{job: j, size: size, memory: j.gpuMemory()}
	t.gain, t.busy = UseOf(j.Profile, &s.c.Nodes[n], size)
	return t
}

// UseOf is how fast a job with a profile trains with a size on a node where it has a GPU for itself, relative to the
// proportional share, and how busy it keeps that GPU, from 0 to 1. Both are 1 without a profile of that GPU. If the
// profile has no measurement, the job is assumed to keep the GPU busy all the time. A job with more than its share
// keeps it busier than was measured.
func UseOf(p *sensitivity.Profile, n *Node, size gres.Vector) (gain, busy float64) {
	gain, busy = 1, 1
	if p = ProfileOn(p, n.GPUType); p == nil {
		return gain, busy
	}
	gain = p.Gain(size, gres.Proportional(n.Total, 1))
	if p.GPUBusy > 0 {
		busy = min(1, float64(p.GPUBusy*max(1, gain)))
	}
	return gain, busy
}

// gpuMemory is how much of a GPU's memory a job needs at most: what its user says, else what its profile says; 0:
// unknown, and then it gets no slot.
func (j *Job) gpuMemory() gres.Memory {
	switch {
	case j.Share != nil && j.Share.Memory > 0:
		return j.Share.Memory
	case j.Profile != nil:
		return j.Profile.GPUMemory
	}
	return 0
}

// class is the job's class. A job that did not opt in to sharing, but is on a device, must not be slowed down, so it
// counts as high.
func (t *tenant) class() share.Class {
	if t.job.Share == nil {
		return share.High
	}
	return t.job.Share.Class
}

// speedsOf are the predicted speeds of the jobs on a device, in their order, each as a part of its speed alone there.
func speedsOf(d *Device, tenants []tenant) []float64 {
	all := make([]predict.Tenant, len(tenants))
	for i := range tenants {
		all[i] = predict.Tenant{Class: tenants[i].class(), Busy: tenants[i].busy, Memory: tenants[i].memory}
	}
	return predict.Speeds(sharedBy(d, tenants), all)
}

// aloneSpeed is the speed of a job that has a GPU of a node for itself, as a part of its speed without sharing. It is
// less than 1 if the node fills its GPUs (MPS), where a low-class job has part of the threads even when alone. All
// devices of a node are shared in one way, so any of them tells.
func aloneSpeed(n *Node, u tenant) float64 {
	if at := slices.IndexFunc(n.Devices, func(d Device) bool { return u.job.canUseSlot(&d) }); at >= 0 {
		return speedsOf(&n.Devices[at], []tenant{u})[0]
	}
	return 1
}

// slowsTenant reports that by a change on a device a job that stays becomes slower than before, and slower than it
// accepts. before has all jobs of after. A job that is too slow already but no slower than before is no reason against
// the change.
func slowsTenant(d *Device, before, after []tenant) bool {
	was, is := speedsOf(d, before), speedsOf(d, after)
	for i := range after {
		k := slices.IndexFunc(before, func(u tenant) bool { return u.job == after[i].job })
		least, now := after[i].acceptedSpeed(is[i])
		if _, then := before[k].acceptedSpeed(was[k]); now < least && now < then-speedTolerance {
			return true
		}
	}
	return false
}

// trainedTogether is what the jobs of a device train together, in shares: 1 is one job with its proportional share and
// the GPU to itself. Slots and moves are chosen by how much they add to it.
func trainedTogether(d *Device, tenants []tenant) (sum float64) {
	for i, speed := range speedsOf(d, tenants) {
		sum += float64(speed * tenants[i].gain)
	}
	return sum
}

// neededGPUMemory is how much of the GPU's memory the jobs of a device need together; known is false if it is unknown
// of one.
func neededGPUMemory(tenants []tenant) (sum gres.Memory, known bool) {
	known = true
	for i := range tenants {
		sum += tenants[i].memory
		known = known && tenants[i].memory > 0
	}
	return sum, known
}

// usableGPUMemory is how much of a device's memory jobs may need together.
func usableGPUMemory(d *Device) gres.Memory {
	return gres.Memory(float64(share.MemoryPart * float64(d.Memory)))
}

// countHighs counts the high-class jobs. A device may have one of them at most, since each is promised most of its
// speed alone (share.HighKeeps).
func countHighs(tenants []tenant) (n int) {
	for i := range tenants {
		if tenants[i].class() == share.High {
			n++
		}
	}
	return n
}

// suits reports whether the request of job j allows a node, open or not.
func (j *Job) suits(n *Node) bool {
	return (j.GPUType == "" || j.GPUType == n.GPUType) &&
		!slices.ContainsFunc(j.Features, func(f string) bool { return !n.Has(f) }) &&
		(len(j.Only) == 0 || slices.Contains(j.Only, n.Name)) && !slices.Contains(j.Except, n.Name)
}

// reservationBlocks reports whether a run of job j that begins at start would reach into a reservation of the node that
// is not its own. A job without time limit reaches into every later one.
func (n *Node) reservationBlocks(j *Job, start time.Time) bool {
	return slices.ContainsFunc(n.Reserved, func(r Reservation) bool {
		own := j.Reservation != "" && j.Reservation == r.Name
		over := !r.To.IsZero() && !start.Before(r.To)
		ends := j.TimeLimit > 0 && !start.Add(j.TimeLimit).After(r.From)
		return !own && !over && !ends
	})
}

// slotSizes are the sizes that job j may have on node n beside a shared GPU, ascending in gain and never more than its
// share or its user's request; none: it cannot run there. A high-class job keeps all that it is promised. A low-class
// job accepts less than its share, down to its user's request; the caller judges how fast it is with that. Without a
// profile it is unknown what it could do without, so it has its share of what its user did not name.
func (s *sharing) slotSizes(j *Job, n int) []sensitivity.Option {
	node := &s.c.Nodes[n]
	key := slotKey{menuKey{ProfileOn(j.Profile, node.GPUType), 1, max(1, j.Tasks), node.Total, termsOf(j), node.Total,
		false}, j.Share.Class}
	sizes, known := s.sizes[key]
	if !known {
		sizes = key.slotOptions()
		s.sizes[key] = sizes
	}
	return sizes
}

// slotKey is everything that the sizes of a job with a slot depend on; sizes are cached by it.
type slotKey struct {
	menuKey
	class share.Class
}

// slotOptions computes the sizes of a job with a slot, as slotSizes returns them: for a low-class job the lean ones,
// for any other those of its menu up to what it is owed. nil: its terms contradict each other, so it cannot run.
func (key slotKey) slotOptions() []sensitivity.Option {
	if key.terms.contradictionText(key.tasks) != "" {
		return nil
	}
	m := newMenu(key.menuKey)
	switch {
	case key.class == share.Low && key.profile == nil:
		return []sensitivity.Option{{Size: key.leanestSize(m), Gain: 1}}
	case key.class == share.Low:
		return worthwhile(key.leanSizes(m))
	}
	most := m.owed[0].Size.Max(m.options[0].Size) // so the least option always fits
	more := slices.IndexFunc(m.options, func(o sensitivity.Option) bool { return !o.Size.Fits(most) })
	if more < 0 {
		return m.options
	}
	return m.options[:more]
}

// leanestSize is the one size of a low-class job without profile: the cores and memory that its user named (floor or
// pace), and the share of what the user did not name, since it is unknown what the job could do without.
func (key *slotKey) leanestSize(m *menu) gres.Vector {
	asked, size := key.terms.floor.Max(key.terms.pace), m.fair
	if asked.CPUs > 0 {
		size.CPUs = asked.CPUs
	}
	if asked.Memory > 0 {
		size.Memory = asked.Memory
	}
	return key.evenSize(atMost(wholeTasks(size, key.tasks), key.terms.ceilingSize(key.tasks)))
}

// maxCoreCounts is about how many numbers of cores leanSizes tries at most, so that a large share does not make long
// lists.
const maxCoreCounts = 64

// leanSizes are the sizes tried for a low-class job: from one core for each task, and each measured amount of memory,
// up to the share, or to the user's request if that is more. Such a job may have less than its share as long as it
// keeps share.LowKeeps of its throughput, which the caller judges.
func (key *slotKey) leanSizes(m *menu) (all []sensitivity.Option) {
	least := key.terms.floorSize(key.tasks)
	most := atMost(wholeTasks(m.fair, key.tasks), key.terms.ceilingSize(key.tasks)).Max(least)
	amounts := []gres.Memory{most.Memory}
	for _, memory := range key.profile.MemoryPerGPU {
		if memory < most.Memory {
			amounts = append(amounts, memory)
		}
	}
	step := key.tasks * max(1, most.CPUs/key.tasks/maxCoreCounts)
	for cores := max(key.tasks, least.CPUs); cores <= most.CPUs; cores += step {
		for _, memory := range amounts {
			size := key.evenSize(gres.Vector{GPUs: 1, CPUs: cores, Memory: max(memory, least.Memory)})
			all = append(all, sensitivity.Option{Size: size, Gain: key.profile.Gain(size, m.fair)})
		}
	}
	return all
}
