// Package turns decides which client may use one GPU. An Arbiter is a pure state machine: it is told what happened and
// when, and returns what is to be done. It knows no sockets, processes or clock, so every schedule of events can be
// tested in virtual time.
//
// At most one client has the GPU. A grant (a slice) is sticky: the client keeps the GPU from step to step until it is
// told to yield, does not use it, or its lease ends, and then releases at the end of a step (one use of the GPU, such
// as an iteration of a trainer). The holder is told to yield at once for a client that outranks it, and after a quantum
// for an equal. A client that does not yield within its grace is frozen, and goes on when no other wants the GPU or it
// is first again.
//
// A gap is the time for which a job leaves the GPU alone between two requests. Priority alone would give the
// unimportant job a whole step in each short gap of the important one. So no client gets a slice that does not fit into
// the gap which a more important client is expected to leave (Rules.LookAhead), except for the least share of its class
// (Rules.MinShare) and what the important one concedes (Rules.Concede).
//
// Steps, gaps and GPU time are remembered by job, so many connections gain nothing. A client's statements are believed
// only where they cost itself: an estimate counts as no less than what was seen, and deadlines count seen steps only.
// Clients of one job never displace each other, since they are frozen together. A product is written float64(x*y), so
// that no processor rounds it in one step with a sum: figures are the same on every machine (tests/rounding_test.go). A
// lease in this package is the length of a grant; that of waiting jobs in Slurm is something else.
package turns

import (
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// Client is the ID of one client of the GPU while it is connected; no ID is used twice.
type Client uint64

// Kind is the kind of an event.
type Kind string

// The events of an Arbiter.
const (
	Join    Kind = "join"    // a client connects: Class
	Ask     Kind = "ask"     // it wants the GPU: Seq, Estimate, Deadline
	Release Kind = "release" // it has released the GPU, drained: Seq, Used
	Leave   Kind = "leave"   // it is gone, whatever it held
	Tick    Kind = "tick"    // time has passed, as Arbiter.Wake asked for
	Drained Kind = "drained" // the frozen client has no kernel left on the GPU; only sent where that can be seen
	// Revise says that the step for which a client waits takes another time, and that what was seen of its job no
	// longer holds: Estimate. Only a caller that knows better sends it; it is nothing that a client may say.
	Revise Kind = "revise"
)

// Event is one thing that happened.
type Event struct {
	Kind   Kind
	Client Client
	Class  share.Class
	// Job is the job of the client. All clients of a job have its class.
	Job int
	Seq uint64 // number of the client's request
	// Estimate is how long it will use the GPU; 0: not said.
	Estimate time.Duration
	// Deadline is when the step should have ended, on the clock of Step's now; 0: none.
	Deadline time.Duration
	// Used is how long it used the GPU.
	Used time.Duration
}

// Verb is the kind of an effect.
type Verb string

// The effects of an Arbiter.
const (
	Grant   Verb = "grant"   // tell the client that it has the GPU: Seq, Lease
	Yield   Verb = "yield"   // tell the holder to finish its step and release: Seq, Grace
	Freeze  Verb = "freeze"  // stop the client's processes: it did not yield when told to
	Thaw    Verb = "thaw"    // let its processes go on
	Offence Verb = "offence" // tell the daemon that the job ignored too many yields to share a GPU
)

// Effect is one thing to be done. Effects are carried out in their order.
type Effect struct {
	Verb   Verb
	Client Client
	Seq    uint64
	Lease  time.Duration // from now
	Grace  time.Duration // from now
}
