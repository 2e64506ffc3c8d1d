package bridge

import (
	"math"
)

// mostPreemptions is how many running jobs a round may stop: Rules.MaxPreemptions, or as many as PreemptionShare of the
// managed nodes' GPUs, rounded up, if that is more; 0 is no bound.
func (s Settings) mostPreemptions(on *sortedObservation) int {
	if s.PreemptionShare <= 0 {
		return s.Rules.MaxPreemptions
	}
	gpus := 0
	for _, i := range on.topology.managed {
		gpus += on.nodes[i].Total.GPUs
	}
	return max(1, s.Rules.MaxPreemptions, int(math.Ceil(s.PreemptionShare*float64(gpus))))
}
