// Package predict says how fast jobs will run on one GPU together, each as a part of its speed alone, from how busy
// each keeps the GPU alone. It is reckoned before jobs are paired, and shown to whoever asks why they were or were not.
package predict

import (
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// Mode is how a GPU is shared.
type Mode string

// The modes.
const (
	Slicing   Mode = "slicing"   // plain time slicing: two processes, nothing else
	Turns     Mode = "turns"     // turns by class, without look-ahead
	LookAhead Mode = "lookahead" // turns with look-ahead
	Fill      Mode = "fill"      // MPS, the unimportant with a lower client priority and part of the threads
)

// Words are what people call a mode.
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
	// Busy is the part of the time in which the job keeps the GPU busy alone, 0 to 1.
	Busy float64
	// Memory is how much of the GPU's memory it needs at most, MiB.
	Memory gres.Memory
}

// How much longer the part of a job's step that is on the GPU takes beside others, for each part of the time in which
// these keep the GPU busy. Fitted to pairs of ResNet-50 (with pauses, so that it keeps an H100 busy for 100, 55 and
// 29 % of the time) and ViT-B/16 (always busy): the rows are in the package's test. An important job is to keep what it
// is promised, so its factors are bounds from above: nobody is predicted to be faster than was measured.
const (
	sliced = 0.85 // time slicing: the driver changes over every few milliseconds, and copies overlap
	// alternate is for the important one by turns: it finds a whole step of the other under way each time that it comes
	// back, 35 ms beside its own 25. Where that step happens to end within the pause it loses less.
	alternate = 1.4
	// anticipated is for the important one by turns with look-ahead: it comes back once a step, and waits for half of a
	// step of the other, 17.5 ms beside its own 25. mostAnticipated bounds that, as a part of its whole step with the
	// pause: the shorter the pause, the fewer turns the other is given.
	anticipated     = 0.7
	mostAnticipated = 0.215
	together        = 0.55 // MPS, unimportant jobs, on the average of two that were measured as equals
	equal           = 0.66 // MPS, important jobs: what the slower of those two had
	beneath         = 0.25 // MPS, for the important, each other of lower priority and with half of the threads
	// mostBeneath bounds the sum of those: the halves of two are all threads, and a third has none to take.
	mostBeneath = 2
	// halved is the speed of a job that is always busy with half of the threads, and yields what of it the important
	// one takes.
	halved = 0.68
	yields = 0.44
	// stepForStep is what a job loses to a more important one with which it alternates; it does so as soon as that one
	// is there for a third of the time.
	stepForStep = 0.68
	oftenThere  = 3
)

// Speeds are the tenants' speeds together, each as a part of its speed alone, in their order. A Busy that is not more
// than 0 is not known, and counts as 1: nothing is promised to anybody on the ground that a job might leave something.
//
// A step of a job is a part on the GPU, Busy of it, and the rest, which others do not touch. So a job's speed is
// 1/(1 − Busy + Busy·s) where the part on the GPU takes s times as long. s is the mode's business. More or busier
// neighbours never make it smaller, and nobody is faster for being busier himself.
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
			speeds[i] = t.anticipated(with)
		} else {
			speeds[i] = t.slowed(with.slowdown(mode, t.Class))
		}
	}
	return speeds
}

// neighbours is how busy the others on a GPU keep it, in sum, by what they are to the one that is looked at.
type neighbours struct{ before, beside, behind float64 }

func (n *neighbours) add(mine share.Class, other Tenant) {
	switch {
	case other.Class == mine:
		n.beside += other.busy()
	case other.Class == share.High:
		n.before += other.busy()
	default:
		n.behind += other.busy()
	}
}

func (t Tenant) busy() float64 {
	if !(t.Busy > 0 && t.Busy <= 1) {
		return 1
	}
	return t.Busy
}

// slowed is the speed of a job whose part on the GPU takes so many times as long.
func (t Tenant) slowed(slowdown float64) float64 {
	return 1 / (1 + float64(t.busy()*(slowdown-1)))
}

// anticipated is the speed of an important job for which the broker looks ahead. Measured without a pause it lost less
// than with one, since nobody else has a turn then. That is promised to nobody: a job that is always busy may be one of
// which nothing is known, and has pauses all the same.
func (t Tenant) anticipated(with neighbours) float64 {
	waits := min(float64(anticipated*t.busy()), mostAnticipated)
	return 1 / (1 + float64(t.busy()*with.beside) + float64(waits*min(1, with.behind)))
}

// slowdown is infinite where nothing is left for the job.
func (n neighbours) slowdown(mode Mode, class share.Class) float64 {
	switch {
	case mode == Slicing:
		return 1 + float64(sliced*(n.before+n.beside+n.behind))
	case class == share.High: // but with look-ahead, where it is not only this part that counts
		return n.important(mode)
	case mode == Turns:
		return 1 + n.beside + float64(stepForStep*min(1, oftenThere*n.before)*max(1, n.before))
	case mode == LookAhead:
		idle := max(0, 1-n.before)
		return (1 + n.beside) / float64(idle*float64(idle*idle)) // the shorter a gap, the fewer steps end within it
	}
	return 1/float64(halved*max(0, 1-float64(yields*n.before))) + float64(together*n.beside)
}

func (n neighbours) important(mode Mode) float64 {
	if mode == Turns {
		return 1 + n.beside + float64(alternate*min(1, n.behind))
	}
	return 1 + float64(equal*n.beside) + float64(beneath*min(mostBeneath, n.behind))
}
