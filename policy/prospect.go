package policy

import (
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// Whoever waits for a seat is held against all devices. What depends on the device alone is found once for everybody,
// and how fast somebody would be there once for all who are alike in that, as long as the same jobs are on the device.
// What is left of its node, and of its memory, is looked at each time.

// occupancy is what of a device depends on nobody who asks for a seat there.
type occupancy struct {
	known    bool
	unsuited bool        // nobody is put there whatever he asks for
	slowed   *Job        // goes on there, and was measured to be slower than it accepts; nil: none was
	full     bool        // it has no seat left
	memory   gres.Memory // that the jobs on it need
	highs    int
}

// occupied looks at a device of a node anew where the jobs on it have changed.
func (on *shared) occupied(node *Node) *occupancy {
	if s := &on.occupancy; !s.known {
		cannot := func(u tenant) bool { return u.job.Share == nil || u.job.Unruly || u.memory == 0 }
		s.known, s.slowed, s.highs = true, on.slowed(node), highs(on.tenants)
		s.memory, _ = needed(on.tenants)
		s.full = len(on.tenants) >= min(share.MostJobs, on.device.Seats)
		// no seats are where no broker is; two important ones somebody other than a plan has put there, and whoever
		// comes makes it worse
		s.unsuited = on.device.Seats == 0 || on.device.Foreign || s.highs > 1 || slices.ContainsFunc(on.tenants, cannot)
	}
	return &on.occupancy
}

// hold puts these jobs on a device.
func (on *shared) hold(tenants []tenant) {
	on.tenants, on.occupancy.known = tenants, false
	on.changes++
}

// demand is all of a job by which it is fast or slow beside others.
type demand struct {
	profile *sensitivity.Profile
	class   share.Class
	tasks   int
	terms   terms
	user    string // where that matters, see seating.fills
}

// prospect is how a job of a demand would do on a device with the largest of its sizes: with a smaller one nobody is
// slower but the job itself.
type prospect struct {
	changes int // of the device when it was found, and one; 0: it was not
	sizes   []sensitivity.Option
	slow    bool    // somebody would be slower than he accepts
	own     float64 // the job's speed, of alone
	others  float64 // what the others would train, in terms of their shares
	before  float64 // what they train without it
}

// mostProspects bounds how many are kept, which is some 80 MB; of more demands they are found for each job anew.
const mostProspects = 1 << 20

// prospects are what was found of devices, for each demand in their order.
type prospects struct {
	of     map[demand][]prospect
	unkept []prospect // of a demand for which there was no room
}

// rowOf has the prospects of a job on so many devices; not all are found yet. It is good until the next is asked for.
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

// prospectOn is that of job j on device k.
func (t *seating) prospectOn(j *Job, k int, row []prospect) *prospect {
	p, on := &row[k], t.devices[k]
	if p.changes == on.changes+1 {
		return p
	}
	*p = prospect{changes: on.changes + 1, sizes: t.seatSizes(j, on.node)}
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
