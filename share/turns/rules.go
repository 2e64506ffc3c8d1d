package turns

import "time"

// Policy is the order in which waiting clients are served.
type Policy string

// The policies.
const (
	Strict   Policy = "strict"   // the higher class first, then the longest wait
	Weighted Policy = "weighted" // the least GPU time relative to the weight of the class first
	SLO      Policy = "slo"      // who must begin first to meet its deadline goes first; clients without one last
)

// Rules configure how slices are given. The zero value orders clients by class, then by waiting time, without
// look-ahead and without a least share.
type Rules struct {
	Policy Policy // "": Strict
	// Quantum is how long a client keeps the GPU while another of its class waits; 0: DefaultQuantum. It is then told
	// to yield and finishes its step.
	Quantum time.Duration
	// LookAhead denies a client a slice that does not fit into the gap which a more important client is expected to
	// leave.
	LookAhead bool
	// Patience is how long a job must be away, and longer than in any remembered gap, until it is no longer expected
	// back; 0: DefaultPatience.
	Patience time.Duration
	// MinShare is the part of the GPU's time, 0 to 0.5, that a class gets if it wants it, whatever the other class
	// wants. The jobs of the class that want the GPU share it equally.
	MinShare float64
	// Concede is the part of its time, 0 to 0.5, that a client may lose, with LookAhead, to slices that do not fit into
	// its gaps, including those of the least share. Only what it really lost is counted.
	Concede float64
	// Window is the time over which MinShare and Concede are kept; 0: DefaultWindow.
	Window time.Duration
	// HighWeight is the weight of class High under Weighted, where Low has 1; 0: DefaultHighWeight.
	HighWeight float64
	// Drain is the least time for which the GPU is granted to no client after its holder was frozen, unless Drained
	// comes earlier; 0: DefaultDrain. The time used is the seen length of the holder's step, up to 2 s, if that is
	// longer. A caller that can see whether kernels are still queued sets Drain longer and sends Drained.
	Drain time.Duration
}

// Default values of Rules, and bounds that cannot be configured.
const (
	DefaultQuantum    = 200 * time.Millisecond
	DefaultPatience   = time.Second
	DefaultWindow     = 10 * time.Second
	DefaultHighWeight = 4.0
	DefaultDrain      = 50 * time.Millisecond

	// The grace of a client that is told to yield is twice its step, within these bounds.
	minGrace = 100 * time.Millisecond
	maxGrace = 2 * time.Second

	// oneStep is the lease of a client that must release after one step, however long the step takes.
	oneStep = time.Millisecond

	// maxKept is how long a client keeps the GPU after a step in case another step follows.
	maxKept = 2 * time.Millisecond

	// promptWindow is the time after the end of a slice in which a least share that is due is granted without further
	// delay, since the gap that began with that end is still whole.
	promptWindow = 2 * time.Millisecond

	// maxMinShareDelay bounds how long a least share that is due waits for an expected client to come, do its step and
	// release.
	maxMinShareDelay = time.Second

	// A job is remembered for this long after its last client has left, and at most this many such jobs.
	departedTTL = 10 * time.Minute
	maxDeparted = 256

	// This many ignored yields within this time are an Offence.
	maxIgnoredYields = 3
	offenceWindow    = 10 * time.Minute
)

// Defaults returns the rules of a node that is not configured otherwise.
func Defaults() Rules {
	return Rules{Policy: Strict, LookAhead: true, MinShare: 0.05}.filled()
}

// filled returns the rules with defaults for unset fields, and with MinShare and Concede bounded to 0 to 0.5: each of
// the two classes is owed MinShare, which together cannot be more than the whole GPU.
func (r Rules) filled() Rules {
	if r.Policy == "" {
		r.Policy = Strict
	}
	setDefault(&r.Quantum, DefaultQuantum)
	setDefault(&r.Patience, DefaultPatience)
	setDefault(&r.Window, DefaultWindow)
	setDefault(&r.Drain, DefaultDrain)
	if r.HighWeight <= 0 {
		r.HighWeight = DefaultHighWeight
	}
	r.MinShare = max(0, min(0.5, r.MinShare))
	r.Concede = max(0, min(0.5, r.Concede))
	return r
}

// setDefault sets a duration that is unset or negative.
func setDefault(d *time.Duration, otherwise time.Duration) {
	if *d <= 0 {
		*d = otherwise
	}
}
