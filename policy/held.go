package policy

// GPUCount counts the GPUs that placements hold: jobs with slots on one device hold one GPU together. The zero value
// has counted nothing.
type GPUCount struct{ countedSlots map[countedSlot]bool }

// countedSlot is a device of a node that has been counted.
type countedSlot struct{ node, device string }

// More counts a placement, and returns how many GPUs it holds on each of its nodes beyond those counted before: 0 for a
// slot on a device that an earlier placement has a slot on.
func (c *GPUCount) More(p Placement) int {
	if p.Device == "" || len(p.Nodes) != 1 {
		return p.PerNode.GPUs
	}
	at := countedSlot{p.Nodes[0], p.Device}
	if c.countedSlots[at] {
		return 0
	}
	if c.countedSlots == nil {
		c.countedSlots = map[countedSlot]bool{}
	}
	c.countedSlots[at] = true
	return p.PerNode.GPUs
}

// GPUsHeld is how many GPUs placements hold together, each shared device counted once; a nil placement holds none.
func GPUsHeld(placements ...*Placement) (gpus int) {
	var c GPUCount
	for _, p := range placements {
		if p != nil {
			gpus += c.More(*p) * len(p.Nodes)
		}
	}
	return gpus
}
