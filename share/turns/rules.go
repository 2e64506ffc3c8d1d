package turns

import "time"

// Policy is in which order those who wait are served.
type Policy string

// The policies.
const (
	Strict   Policy = "strict"   // the higher class first, then whoever has waited longest
	Weighted Policy = "weighted" // whoever has had least GPU time for the weight of its class
	SLO      Policy = "slo"      // the least slack first; those without a deadline last
)

// Rules are how the turns are given. The zero value gives them by class, each to whoever has waited longest, without
// look-ahead and without a least share.
type Rules struct {
	Policy Policy // "": Strict
	// Quantum is how long a client keeps the GPU while another of its class waits; 0: DefaultQuantum. It is told to
	// yield then, and ends the step that it is in.
	Quantum time.Duration
	// LookAhead keeps a client from a turn that does not fit into the gap which a more important one is expected to
	// leave.
	LookAhead bool
	// Patience is after how long beyond every gap that it has left a client is expected back no more; 0:
	// DefaultPatience.
	Patience time.Duration
	// MinShare is the part of the GPU's time that a class has if it wants it, whoever else wants it: 0 to 0.5. Its jobs
	// that want it have equal parts of that.
	MinShare float64
	// Concede is the part of its time that a client may lose, with LookAhead, to turns which do not fit into its gap,
	// the least share's included: 0 to 0.5. What it really lost is counted.
	Concede float64
	// Window is over which MinShare and Concede are held; 0: DefaultWindow.
	Window time.Duration
	// HighWeight is what the time of High counts under Weighted, where that of Low counts 1; 0: DefaultHighWeight.
	HighWeight float64
	// Drain is for how long at least nobody is granted the GPU after its holder was frozen, unless Drained is heard
	// earlier: as long as a step of it was seen to be, up to 2 s; 0: DefaultDrain. Whoever can see that kernels are
	// still queued sets it longer and says Drained.
	Drain time.Duration
}

// What Rules mean where they say nothing, and the bounds that nobody sets.
const (
	DefaultQuantum    = 200 * time.Millisecond
	DefaultPatience   = time.Second
	DefaultWindow     = 10 * time.Second
	DefaultHighWeight = 4.0
	DefaultDrain      = 50 * time.Millisecond

	// The grace of who is told to yield is twice its step, within these.
	leastGrace = 100 * time.Millisecond
	mostGrace  = 2 * time.Second

	// oneStep is the lease of a client that shall end after one step, however long that is.
	oneStep = time.Millisecond

	// mostKept is for how long a client keeps the GPU after a step in case that another follows.
	mostKept = 2 * time.Millisecond

	// promptly is within what time of the end of a turn a least share that is due has still all of the gap before it.
	promptly = 2 * time.Millisecond

	// A least share that is due waits for so long at most for an expected client to come, do its step and let go.
	mostLate = time.Second

	// What is known of a job is remembered for so long after its last client has left, of so many jobs at most.
	remembered = 10 * time.Minute
	mostGone   = 256

	// So many yields ignored in so long are an Offence.
	mostIgnored   = 3
	offenceWindow = 10 * time.Minute
)

// Defaults are the rules that a node has unless it is told otherwise.
func Defaults() Rules {
	return Rules{Policy: Strict, LookAhead: true, MinShare: 0.05}.filled()
}

func (r Rules) filled() Rules {
	if r.Policy == "" {
		r.Policy = Strict
	}
	or(&r.Quantum, DefaultQuantum)
	or(&r.Patience, DefaultPatience)
	or(&r.Window, DefaultWindow)
	or(&r.Drain, DefaultDrain)
	if r.HighWeight <= 0 {
		r.HighWeight = DefaultHighWeight
	}
	r.MinShare = max(0, min(0.5, r.MinShare))
	r.Concede = max(0, min(0.5, r.Concede))
	return r
}

func or(d *time.Duration, otherwise time.Duration) {
	if *d <= 0 {
		*d = otherwise
	}
}
