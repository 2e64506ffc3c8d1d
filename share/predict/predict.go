// Package predict says how fast jobs will run together on one GPU, each as a part of its speed alone, from how busy
// each keeps the GPU alone. Predictions are made before jobs are placed together, and shown as the reason. For an
// important job a prediction is a bound: it is at most 0.02 above what was measured. Unknown utilisation counts as 100
// %. Nothing is learned from jobs that share, since that needs a job to be slowed down first. A product is written
// float64(x*y), so that no processor rounds it in one step with a sum: figures are the same on every machine
// (tests/rounding_test.go).
package predict

import (
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// Mode is how a GPU is shared. It is finer than share.Mode, what a node is configured for: the turns of a node are
// LookAhead here, and Slicing and Turns are for comparison.
type Mode string

// The modes.
const (
	Slicing   Mode = "slicing"   // plain time slicing of the driver between processes
	Turns     Mode = "turns"     // turns by class, without look-ahead
	LookAhead Mode = "lookahead" // turns with look-ahead
	Fill      Mode = "fill"      // MPS, low jobs with a lower client priority and a part of the threads
)

// Words returns the mode's name for people.
func (m Mode) Words() string {
	switch m {
	case Slicing:
		return "time slicing"
	case Turns:
		return "turns by class alone"
	case LookAhead:
		return "turns with look-ahead"
	}
	return "MPS"
}

// Tenant is a job on a shared GPU.
type Tenant struct {
	Class share.Class
	// Busy is the part of the time in which the job keeps the GPU busy when it is alone, 0 to 1.
	Busy float64
	// Memory is the most GPU memory that it needs, MiB.
	Memory gres.Memory
}

// How much longer the GPU part of a job's step takes beside others, for each part of the time in which those keep the
// GPU busy. Fitted to pairs of ResNet-50 (with pauses, so that it keeps an H100 busy for 100, 55 and 29 % of the time)
// and ViT-B/16 (always busy); the measurements are in the package's test. Predictions for an important job are
// promises, so its factors are upper bounds: no prediction is faster than what was measured.
const (
	slicingFactor = 0.85 // time slicing: the driver switches every few milliseconds, and copies overlap
	// turnsFactor is for the important job with turns but no look-ahead: each time it comes back, it finds a whole step
	// of the other under way, 35 ms beside its own 25. It loses less where that step happens to end within its pause.
	turnsFactor = 1.4
	// lookAheadFactor is for the important job with look-ahead: it comes back once a step and waits for half a step of
	// the other, 17.5 ms beside its own 25. maxLookAheadWait bounds the wait as a part of its whole step with the
	// pause: the shorter the pause, the fewer slices the other gets.
	lookAheadFactor  = 0.7
	maxLookAheadWait = 0.215
	fillLowFactor    = 0.55 // MPS, low jobs: the average of two that were measured as equals
	fillHighFactor   = 0.66 // MPS, important jobs: the slower of those two
	fillLowerFactor  = 0.25 // MPS, important job: per other job with lower priority and half of the threads
	// maxFillLower bounds the sum of those: two jobs with half of the threads use all, so a third adds nothing.
	maxFillLower = 2
	// halfThreadsSpeed is the speed of an always busy job with half of the threads. halfThreadsLoss is the part of that
	// speed which it loses in the time in which an important job is busy.
	halfThreadsSpeed = 0.68
	halfThreadsLoss  = 0.44
	// stepForStep is what a job loses to a more important one with which it alternates step by step. That is so once
	// the important one is there for a third of the time (1/oftenThere).
	stepForStep = 0.68
	oftenThere  = 3
)

// Speeds returns the speed of each tenant together with the others, as a part of its speed alone, in the tenants'
// order. An unknown Busy (not above 0) counts as 1: no speed is promised on the assumption that a job leaves something.
//
// A step of a job has a part on the GPU, Busy of it, and a rest that other jobs do not touch. If the GPU part takes s
// times as long, the job's speed is 1/(1 − Busy + Busy·s). The mode determines s. More or busier neighbours never make
// s smaller, and a job is never faster for being busier itself.
func Speeds(mode Mode, tenants []Tenant) []float64 {
	speeds := make([]float64, len(tenants))
	for i, t := range tenants {
		var with neighbours
		for k, other := range tenants {
			if k != i {
				with.add(t.Class, other)
			}
		}
		if mode == LookAhead && t.Class == share.High {
			speeds[i] = t.lookAheadSpeed(with)
		} else {
			speeds[i] = t.speedAt(with.slowdown(mode, t.Class))
		}
	}
	return speeds
}

// neighbours sums how busy the other jobs keep the GPU, each 0 to 1: those more important than the job in question
// (higher), its equals (peers), and the less important (lower).
type neighbours struct{ higher, peers, lower float64 }

// add counts another job, as seen by a job of class mine.
func (n *neighbours) add(mine share.Class, other Tenant) {
	switch {
	case other.Class == mine:
		n.peers += other.busy()
	case other.Class == share.High:
		n.higher += other.busy()
	default:
		n.lower += other.busy()
	}
}

// busy returns Busy, or 1 if it is unknown or out of range: nothing is promised on the assumption that the job leaves
// something of the GPU.
func (t Tenant) busy() float64 {
	if !(t.Busy > 0 && t.Busy <= 1) {
		return 1
	}
	return t.Busy
}

// speedAt returns the speed, as a part of that alone, of a job whose GPU part takes slowdown times as long. The rest of
// its step takes as long as ever.
func (t Tenant) speedAt(slowdown float64) float64 {
	return 1 / (1 + float64(t.busy()*(slowdown-1)))
}

// lookAheadSpeed returns the speed, as a part of that alone, of an important job with look-ahead. It waits for its
// equals, and for the end of steps of less important jobs. An always busy job lost less than this when measured, since
// no other job gets a slice without a gap. That is not promised: a job whose use of the GPU is unknown counts as always
// busy, too, and may have gaps.
func (t Tenant) lookAheadSpeed(with neighbours) float64 {
	waits := min(float64(lookAheadFactor*t.busy()), maxLookAheadWait)
	return 1 / (1 + float64(t.busy()*with.peers) + float64(waits*min(1, with.lower)))
}

// slowdown returns how many times as long the GPU part of a job of the class takes beside its neighbours; infinite if
// nothing is left for the job. For time slicing all neighbours count alike; otherwise High is left to highSlowdown, and
// the last line is MPS for Low. The cube for look-ahead fits what was measured of the less important job: 0.40 and 0.05
// of its speed where the important one kept the GPU busy for 29 and 55 % of the time.
func (n neighbours) slowdown(mode Mode, class share.Class) float64 {
	switch {
	case mode == Slicing:
		return 1 + float64(slicingFactor*(n.higher+n.peers+n.lower))
	case class == share.High: // look-ahead for High is not computed here, since more than the GPU part counts there
		return n.highSlowdown(mode)
	case mode == Turns:
		return 1 + n.peers + float64(stepForStep*min(1, oftenThere*n.higher)*max(1, n.higher))
	case mode == LookAhead:
		idle := max(0, 1-n.higher)
		return (1 + n.peers) / float64(idle*float64(idle*idle)) // the shorter a gap, the fewer steps end within it
	}
	return 1/float64(halfThreadsSpeed*max(0, 1-float64(halfThreadsLoss*n.higher))) + float64(fillLowFactor*n.peers)
}

// highSlowdown returns how many times as long the GPU part of a job of class High takes, by turns of class alone or by
// MPS. With look-ahead the wait depends on its whole step, so lookAheadSpeed computes that.
func (n neighbours) highSlowdown(mode Mode) float64 {
	if mode == Turns {
		return 1 + n.peers + float64(turnsFactor*min(1, n.lower))
	}
	return 1 + float64(fillHighFactor*n.peers) + float64(fillLowerFactor*min(maxFillLower, n.lower))
}
