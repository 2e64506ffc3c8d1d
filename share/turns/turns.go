// Package turns decides whose turn it is on one GPU. An Arbiter is a pure state machine: it is told what happened and
// at what time, and returns what is to be done. It knows no sockets, no processes and no clock, so that every schedule
// of events can be tried in virtual time.
//
// At most one client has the GPU. A grant is sticky: the client keeps the GPU from step to step until it is told to
// yield, does not use it, or its lease is over, and then releases at the end of a step. Who outranks the holder has it
// told at once, an equal after a quantum. Who does not yield within its grace is frozen, and goes on when nobody else
// wants the GPU or it is its turn again.
//
// Priority alone would give the unimportant a whole step each time the important one lets go for a moment. So nobody
// has a turn that does not fit into the gap which a more important client is expected to leave (Rules.LookAhead),
// except for the least share of its class (Rules.MinShare) and for what the important one concedes (Rules.Concede).
package turns

import (
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// Client is a number that names one client of the GPU for as long as it is connected; none is used twice.
type Client uint64

// Kind is what happened.
type Kind string

// What may happen to an Arbiter.
const (
	Join    Kind = "join"    // a client is there: Class
	Ask     Kind = "ask"     // it wants the GPU: Seq, Estimate, Deadline
	Release Kind = "release" // it has given the GPU back, drained: Seq, Used
	Leave   Kind = "leave"   // it is gone, whatever it held
	Tick    Kind = "tick"    // time has passed: Arbiter.Wake said when
	Drained Kind = "drained" // the frozen client has no kernel left on the GPU; to be said only where it can be seen
)

// Event is one thing that happened.
type Event struct {
	Kind   Kind
	Client Client
	Class  share.Class
	// Job is the job that the client belongs to. Clients of one job share its class.
	Job int
	Seq uint64 // of the client's own requests
	// Estimate is for how long it will use the GPU; 0: not said.
	Estimate time.Duration
	// Deadline is by when the step shall have ended, on the clock of Step's now; 0: none.
	Deadline time.Duration
	// Used is for how long it had used the GPU.
	Used time.Duration
}

// Verb is what is to be done.
type Verb string

// What an Arbiter may want done.
const (
	Grant   Verb = "grant"   // tell the client that the GPU is its own: Seq, Lease
	Yield   Verb = "yield"   // tell the holder to finish its step and release: Seq, Grace
	Freeze  Verb = "freeze"  // stop the client's processes: it was told to yield and did not
	Thaw    Verb = "thaw"    // let them go on
	Offence Verb = "offence" // tell the daemon: it would not yield so often that it should not share
)

// Effect is one thing to be done. Effects are to be done in their order.
type Effect struct {
	Verb   Verb
	Client Client
	Seq    uint64
	Lease  time.Duration // from now
	Grace  time.Duration // from now
}
