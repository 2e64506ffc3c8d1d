package policy

import (
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// A job that waits for a slot is compared with all devices. To keep that fast, what depends on the device alone is
// found once for all jobs (occupancy), and how fast a job would be there once for all jobs with the same demand
// (prospect), as long as the device has the same jobs. What is left of its node, and of the GPU's memory, is looked at
// each time.

// occupancy is what holds of a device whichever job asks for a slot there; it is cached until the device's jobs change.
type occupancy struct {
	known    bool // the rest has been found
	unsuited bool // no job is put there, whatever it asks for
	// measuredSlow is a job that goes on there and was measured to be slower than it accepts; nil: none was.
	measuredSlow *Job
	full         bool        // it has no slot left
	memory       gres.Memory // that the jobs on it need
	highCount    int         // how many of the jobs on it are of class high
}

// currentOccupancy returns the occupancy of a device, computed anew if its jobs have changed since the last call.
func (on *sharedDevice) currentOccupancy(node *Node) *occupancy {
	if s := &on.occupancy; !s.known {
		cannot := func(u tenant) bool { return u.job.Share == nil || u.job.Unruly || u.memory == 0 }
		s.known, s.measuredSlow, s.highCount = true, on.slowedJob(node), countHighs(on.tenants)
		s.memory, _ = neededGPUMemory(on.tenants)
		s.full = len(on.tenants) >= min(share.MostJobs, on.device.Slots)
		// A device without slots has no broker to share it. Two high-class jobs were put there by no plan, and
		// any other job would make it worse.
		s.unsuited = on.device.Slots == 0 || on.device.Foreign || s.highCount > 1 ||
			slices.ContainsFunc(on.tenants, cannot)
	}
	return &on.occupancy
}

// setTenants replaces the jobs on a device. All changes go through it, since it invalidates what was cached for the
// former jobs: the occupancy, and by the count of changes the prospects.
func (on *sharedDevice) setTenants(tenants []tenant) {
	on.tenants, on.occupancy.known = tenants, false
	on.changes++
}

// speedKey is everything about a job that decides how fast it is beside others. Jobs with equal demands have the same
// prospects.
type speedKey struct {
	profile *sensitivity.Profile
	class   share.Class
	tasks   int
	terms   terms
	user    string // if slotPlanner.usersMatter, else empty
}

// prospect is how a job with a demand would do on a device with its largest size there. That size decides about the
// others on the device: with a smaller one only the job itself would be slower.
type prospect struct {
	changes       int                  // changes of the device when it was found, plus 1; 0: not found yet
	sizes         []sensitivity.Option // that the job may have there, ascending in gain; none: it cannot run there
	isTooSlow     bool                 // some job on the device would be slower than it accepts
	ownSpeed      float64              // the job's speed, relative to alone
	othersTrain   float64              // what the others would train, in shares
	trainedBefore float64              // what they train without it
}

// maxProspects bounds how many prospects are kept, which is some 80 MB. For demands beyond that they are computed for
// each job anew.
const maxProspects = 1 << 20

// prospects caches one list for each demand, with the prospect on each device, in the order of devices.
type prospects struct {
	byDemand map[speedKey][]prospect
	uncached []prospect // of a demand beyond the bound
}

// listFor returns the list of a demand's prospects on so many devices; prospectOn computes those that it needs. If the
// demand is beyond maxProspects, the list is empty again at each call, and valid only until the next one.
func (p *prospects) listFor(d speedKey, devices int) []prospect {
	row, known := p.byDemand[d]
	switch {
	case known:
	case (len(p.byDemand)+1)*devices <= maxProspects:
		row = make([]prospect, devices)
		p.byDemand[d] = row
	case p.uncached == nil:
		p.uncached = make([]prospect, devices)
		row = p.uncached
	default:
		clear(p.uncached)
		row = p.uncached
	}
	return row
}

// prospectOn returns the prospect of job j on the device with index k, from the list of its demand (row), computed
// first if the device's jobs have changed since. It answers whether a slot there is possible and what it would be
// worth.
func (t *slotPlanner) prospectOn(j *Job, k int, row []prospect) *prospect {
	p, on := &row[k], t.devices[k]
	if p.changes == on.changes+1 {
		return p
	}
	*p = prospect{changes: on.changes + 1, sizes: t.slotSizes(j, on.node)}
	if len(p.sizes) == 0 {
		return p
	}
	largest := p.sizes[len(p.sizes)-1].Size
	together := append(on.tenants[:len(on.tenants):len(on.tenants)], t.tenantOf(j, on.node, largest))
	speeds := speedsOf(on.device, together)
	p.isTooSlow, p.ownSpeed = tooSlowIndex(together, speeds) >= 0, speeds[len(speeds)-1]
	for i := range on.tenants {
		p.othersTrain += float64(speeds[i] * on.tenants[i].gain)
	}
	p.trainedBefore = trainedTogether(on.device, on.tenants)
	return p
}
