package policy

import (
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// A job that waits for a slot is compared with all devices. What depends on the device alone is found once for all
// jobs, and how fast a job would be there once for all jobs with the same demand, as long as the device has the same
// jobs. What is left of its node, and of its memory, is looked at each time.

// occupancy is what can be said of a device whichever job asks for a slot there.
type occupancy struct {
	known    bool
	unsuited bool // no job is put there, whatever it asks for
	// slowed is a job that goes on there and was measured to be slower than it accepts; nil: none was.
	slowed *Job
	full   bool        // it has no slot left
	memory gres.Memory // that the jobs on it need
	highs  int
}

// occupied returns the occupancy of a device, found anew if its jobs have changed.
func (on *shared) occupied(node *Node) *occupancy {
	if s := &on.occupancy; !s.known {
		cannot := func(u tenant) bool { return u.job.Share == nil || u.job.Unruly || u.memory == 0 }
		s.known, s.slowed, s.highs = true, on.slowed(node), highs(on.tenants)
		s.memory, _ = needed(on.tenants)
		s.full = len(on.tenants) >= min(share.MostJobs, on.device.Seats)
		// There are no slots where no broker is. Two high-class jobs were put there by something other than a plan, and
		// any other job would make it worse.
		s.unsuited = on.device.Seats == 0 || on.device.Foreign || s.highs > 1 || slices.ContainsFunc(on.tenants, cannot)
	}
	return &on.occupancy
}

// hold replaces the jobs on a device.
func (on *shared) hold(tenants []tenant) {
	on.tenants, on.occupancy.known = tenants, false
	on.changes++
}

// demand is everything about a job that decides how fast it is beside others.
type demand struct {
	profile *sensitivity.Profile
	class   share.Class
	tasks   int
	terms   terms
	user    string // if that matters, see slotPlanner.fills
}

// prospect is how a job with a demand would do on a device with its largest size. With a smaller one only the job
// itself would be slower.
type prospect struct {
	changes int // changes of the device when it was found, plus 1; 0: not found yet
	sizes   []sensitivity.Option
	slow    bool    // a job would be slower than it accepts
	own     float64 // the job's speed, relative to alone
	others  float64 // what the others would train, in shares
	before  float64 // what they train without it
}

// mostProspects bounds how many are kept, which is some 80 MB. For demands beyond that they are found for each job
// anew.
const mostProspects = 1 << 20

// prospects are kept for each demand, in the order of devices.
type prospects struct {
	of     map[demand][]prospect
	unkept []prospect // of a demand beyond the bound
}

// rowOf returns the prospects of a demand on so many devices, not all found yet. It is valid until the next call.
func (p *prospects) rowOf(d demand, devices int) []prospect {
	row, known := p.of[d]
	switch {
	case known:
	case (len(p.of)+1)*devices <= mostProspects:
		row = make([]prospect, devices)
		p.of[d] = row
	case p.unkept == nil:
		p.unkept = make([]prospect, devices)
		row = p.unkept
	default:
		clear(p.unkept)
		row = p.unkept
	}
	return row
}

// prospectOn returns the prospect of job j on device k.
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
	p.slow, p.own = tooSlowOf(together, speeds) >= 0, speeds[len(speeds)-1]
	for i := range on.tenants {
		p.others += float64(speeds[i] * on.tenants[i].gain)
	}
	p.before = worthOf(on.device, on.tenants)
	return p
}
