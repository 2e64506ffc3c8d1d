package policy

import (
	"cmp"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/share"
	"github.com/synergy-slurmd/synergy-slurmd/share/predict"
)

// deviceKey is a device of a node.
type deviceKey struct{ node, device string }

// deviceJob is a job with a slot on a device under the plan.
type deviceJob struct {
	slotHolder *Job
	holding    *Placement // what it holds there under the plan (checkChangedDevice: or before it)
	isNew      bool       // the job was not on the device before
}

// noteSlots notes which jobs a plan sends to devices, before any of them is checked: how small a grant may be depends
// on the other jobs of its device. It does nothing if the plan grants no device.
func (k *checker) noteSlots(p Plan) {
	if !slices.ContainsFunc(p.Decisions, func(d Decision) bool { return d.Grant != nil && d.Grant.Device != "" }) {
		return
	}
	k.granted = make(map[int]*Placement, len(p.Decisions))
	for i := range p.Decisions {
		d := &p.Decisions[i]
		if at, known := k.findJob(d.Job); known {
			k.granted[d.Job] = d.Grant
			k.noteSlot(k.jobAt(at), d.Grant)
		}
	}
}

// noteSlot notes job j on the device of its grant g, and on the device that it leaves if it is granted something else,
// so that the jobs of a device can be checked together.
func (k *checker) noteSlot(j *Job, g *Placement) {
	was := j.Running
	if k.slotJobs == nil {
		k.slotJobs, k.leavers = map[deviceKey][]deviceJob{}, map[deviceKey][]*Job{}
	}
	if g != nil && was != nil && was.Device != "" && (was.Device != g.Device || !slices.Equal(was.Nodes, g.Nodes)) {
		for _, name := range was.Nodes {
			k.leavers[deviceKey{name, was.Device}] = append(k.leavers[deviceKey{name, was.Device}], j)
		}
	}
	if g == nil || g.Device == "" {
		return
	}
	for _, name := range g.Nodes {
		stays := was != nil && was.Device == g.Device && slices.Contains(was.Nodes, name)
		at := deviceKey{name, g.Device}
		k.slotJobs[at] = append(k.slotJobs[at], deviceJob{j, g, !stays})
	}
}

// sharesDevice reports whether a job is granted a slot on a device that has other jobs, too.
func (k *checker) sharesDevice(g *Placement) bool {
	return g.Device != "" && len(g.Nodes) == 1 && len(k.slotJobs[deviceKey{g.Nodes[0], g.Device}]) > 1
}

// checkDevices checks the devices that get a new job, and those whose jobs the plan resizes or moves. Jobs that are
// there already and stay unchanged are not the plan's doing. The devices are checked by name, so that the error is the
// same each time.
func (k *checker) checkDevices() {
	places := make([]deviceKey, 0, len(k.slotJobs))
	for at := range k.slotJobs {
		places = append(places, at)
	}
	slices.SortFunc(places, func(x, y deviceKey) int {
		return cmp.Or(cmp.Compare(x.node, y.node), cmp.Compare(x.device, y.device))
	})
	for _, at := range places {
		list := k.slotJobs[at]
		if slices.ContainsFunc(list, func(s deviceJob) bool { return s.isNew }) {
			k.checkJoinedDevice(at, list)
		} else if len(list) > 1 {
			k.checkChangedDevice(at, list)
		}
	}
}

// checkChangedDevice checks a device that gets no new job: where the plan resizes one of its jobs or moves one
// elsewhere, that must slow no other down below what it accepts. A job that is already slower may stay so, but not
// become slower still. Stopping a job there is not judged, since it is done for the others' sake.
func (k *checker) checkChangedDevice(at deviceKey, list []deviceJob) {
	left := k.leavers[at]
	n, known := k.nodeNumber(at.node)
	resized := func(s deviceJob) bool { return s.holding.PerNode != s.slotHolder.Running.PerNode }
	if !known || len(left) == 0 && !slices.ContainsFunc(list, resized) {
		return
	}
	node := &k.c.Nodes[n]
	on := slices.IndexFunc(node.Devices, func(d Device) bool { return d.Name == at.device })
	if on < 0 {
		return
	}
	before := make([]deviceJob, 0, len(list)+len(left))
	for _, s := range list {
		before = append(before, deviceJob{slotHolder: s.slotHolder, holding: s.slotHolder.Running})
	}
	for _, j := range left {
		before = append(before, deviceJob{slotHolder: j, holding: j.Running})
	}
	was, is := predictedSpeeds(node, &node.Devices[on], before), predictedSpeeds(node, &node.Devices[on], list)
	for i, s := range list {
		least := share.HighKeeps
		if sharingClass(s.slotHolder) == share.Low {
			least = share.LowKeeps
		}
		if is[i] < least-gainTolerance && is[i] < was[i]-gainTolerance {
			k.breach(Fair, "job %d: is slowed down from %.3f to %.3f on %s of %s by what the plan changes there",
				s.slotHolder.ID, was[i], is[i], at.device, at.node)
		}
	}
}

// predictedSpeeds predicts the speeds of the jobs on a device together, in the order of the list: of a high-class job
// relative to its speed alone, of a low-class one relative to the proportional throughput. A job without a profile of
// the node's GPU is taken to keep the GPU busy all the time.
func predictedSpeeds(node *Node, d *Device, list []deviceJob) []float64 {
	tenants, gains := make([]predict.Tenant, len(list)), make([]float64, len(list))
	for i, s := range list {
		busy, gain := 1.0, 1.0
		if p := s.slotHolder.Profile; p != nil && !isOtherGPU(p.GPUType, node.GPUType) {
			gain = p.Gain(s.holding.PerNode, gres.Proportional(node.Total, 1))
			if p.GPUBusy > 0 {
				busy = min(1, float64(p.GPUBusy*max(1, gain)))
			}
		}
		tenants[i], gains[i] = predict.Tenant{Class: sharingClass(s.slotHolder), Busy: busy}, gain
	}
	all := predict.Speeds(modeFor(d, list), tenants)
	for i := range all {
		if tenants[i].Class == share.Low {
			all[i] = float64(all[i] * gains[i])
		}
	}
	return all
}

// sharingClass is a job's class on a shared GPU. A job that did not opt in to sharing must not be slowed down, so it
// counts as high.
func sharingClass(j *Job) share.Class {
	if j.Share == nil {
		return share.High
	}
	return j.Share.Class
}

// checkJoinedDevice checks all jobs on a device that gets a new one. Each must have said that it may share and must
// give its slices back; the new one needs one GPU and no more; and no job may come to one that was measured to be
// slowed down. Then the device must have room for all, and none may become too slow.
func (k *checker) checkJoinedDevice(at deviceKey, list []deviceJob) {
	for _, s := range list {
		if s.slotHolder.Kept != nil && !s.isNew {
			k.breach(Fair, "job %d: was measured to keep %.3f of its speed alone on %s of %s, and somebody comes",
				s.slotHolder.ID,
				s.slotHolder.Kept.Part, at.device, at.node)
		}
		if s.slotHolder.Share == nil {
			k.breach(
				Suited,
				"job %d: on %s of %s, and it did not say that it may share a GPU",
				s.slotHolder.ID,
				at.device,
				at.node,
			)
			return
		}
		if s.slotHolder.Unruly {
			k.breach(
				Suited,
				"job %d: on %s of %s, to which somebody comes, and it does not give turns back",
				s.slotHolder.ID,
				at.device,
				at.node,
			)
			return
		}
		if s.isNew && (s.slotHolder.GPUs != 1 || len(s.holding.Nodes) != 1 || s.holding.PerNode.GPUs != 1) {
			k.breach(
				Suited,
				"job %d: on %s of %s, and it needs %d GPUs",
				s.slotHolder.ID,
				at.device,
				at.node,
				s.slotHolder.GPUs,
			)
			return
		}
	}
	n, known := k.nodeNumber(at.node)
	if !known {
		return // reported already
	}
	node := &k.c.Nodes[n]
	on := slices.IndexFunc(node.Devices, func(d Device) bool { return d.Name == at.device })
	if on < 0 {
		k.breach(Suited, "node %s: has no device %s", at.node, at.device)
		return
	}
	k.checkDeviceRoom(at, &node.Devices[on], list)
	k.checkSpeeds(at, node, &node.Devices[on], list)
}

// checkDeviceRoom checks that a device has slots and, up to share.MemoryPart, GPU memory for its jobs, belongs to no
// other job, and has at most one high-class job.
func (k *checker) checkDeviceRoom(at deviceKey, d *Device, list []deviceJob) {
	if d.Foreign {
		k.breach(Capacity, "node %s: %s is used by others", at.node, at.device)
	}
	if owner := k.soleOwner(at.node, d); owner != 0 {
		k.breach(Capacity, "node %s: %s is the GPU of job %d alone", at.node, at.device, owner)
	}
	if most := min(share.MostJobs, d.Slots); len(list) > most {
		k.breach(Capacity, "node %s: %d jobs on %s, which has slots for %d", at.node, len(list), at.device, most)
	}
	var sum gres.Memory
	high := 0
	for _, s := range list {
		need := s.slotHolder.Share.Memory
		if need == 0 && s.slotHolder.Profile != nil {
			need = s.slotHolder.Profile.GPUMemory
		}
		if need == 0 {
			k.breach(Capacity, "job %d: on %s of %s, and nobody knows how much of its memory it needs", s.slotHolder.ID,
				at.device, at.node)
		}
		if sum += need; s.slotHolder.Share.Class == share.High {
			high++
		}
	}
	if float64(sum) > float64(share.MemoryPart*float64(d.Memory)) {
		k.breach(Capacity, "node %s: the jobs on %s need %s of its memory, and it has %s", at.node, at.device, sum,
			d.Memory)
	}
	if high > 1 {
		k.breach(Fair, "node %s: %d important jobs on %s", at.node, high, at.device)
	}
}

// soleOwner is the ID of the job that has a device to itself and stays on its node under the plan, so that the device
// cannot be shared; 0: there is none.
func (k *checker) soleOwner(node string, d *Device) int {
	if d.Job == 0 {
		return 0
	}
	// A job that leaves the node, or shares a device now, leaves the GPU to others. A job outside the snapshot is taken
	// to stay.
	if at, known := k.findJob(d.Job); known {
		if g := k.granted[k.jobAt(at).ID]; g == nil || g.Device != "" || !slices.Contains(g.Nodes, node) {
			return 0
		}
	}
	return d.Job
}

// checkSpeeds checks that by prediction no job on a device is slower than its class accepts (share.HighKeeps,
// share.LowKeeps). A job that is alone there is not slowed down.
func (k *checker) checkSpeeds(at deviceKey, node *Node, d *Device, list []deviceJob) {
	if len(list) == 1 {
		return
	}
	for i, is := range predictedSpeeds(node, d, list) {
		switch important := list[i].slotHolder.Share.Class == share.High; {
		case important && is < share.HighKeeps-gainTolerance:
			k.breach(
				Fair,
				"job %d: would run at %.3f of its speed alone on %s of %s",
				list[i].slotHolder.ID,
				is,
				at.device,
				at.node,
			)
		case !important && is < share.LowKeeps-gainTolerance:
			k.breach(
				Fair,
				"job %d: would run at %.3f of the proportional throughput on %s of %s",
				list[i].slotHolder.ID,
				is,
				at.device,
				at.node,
			)
		}
	}
}

// modeFor is how the jobs of a device will share it, which decides how fast they are: a node fills a GPU (MPS) only for
// jobs of one user; otherwise they take turns with look-ahead.
func modeFor(d *Device, list []deviceJob) predict.Mode {
	if d.Mode != share.Fill {
		return predict.LookAhead
	}
	whose := map[string]bool{}
	for _, s := range list {
		whose[s.slotHolder.User] = true
	}
	if len(whose) == 1 && !whose[""] {
		return predict.Fill
	}
	return predict.LookAhead
}

// acceptsLess reports whether a grant is a slot of a low-class job beside others; such a job accepts less than its
// share.
func (k *checker) acceptsLess(j *Job, g *Placement) bool {
	return j.Share != nil && j.Share.Class == share.Low && k.sharesDevice(g)
}

// checkNamed checks a low-class job that has a slot beside others, which accepts less than its share. It must have
// its floor. Without a profile of the node's GPU it must also have the pace, and its share of what its user did not
// name, since it is unknown what it could do without.
func (k *checker) checkNamed(j *Job, size, fair gres.Vector, n *Node) {
	if size.CPUs < j.Floor.CPUs || size.Memory < j.Floor.Memory {
		k.breach(Asked, "job %d: %s on %s, and its user asked for %d cores and %s", j.ID, size, n.Name, j.Floor.CPUs,
			j.Floor.Memory)
	}
	if j.Profile != nil && !isOtherGPU(j.Profile.GPUType, n.GPUType) {
		return
	}
	due := cutToCeiling(j, gres.Vector{CPUs: cmp.Or(max(j.Floor.CPUs, j.Pace.CPUs), fair.CPUs),
		Memory: cmp.Or(max(j.Floor.Memory, j.Pace.Memory), fair.Memory)})
	due = wholeMiBPerCore(j, due, size.CPUs)
	if !due.Fits(size) {
		k.breach(Fair, "job %d: %s on %s is less than %s, and nobody knows what it can do without", j.ID, size,
			n.Name, due)
	}
}
