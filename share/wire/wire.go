// Package wire is the protocol between a job and the broker of its node: a unix stream socket for each GPU, one JSON
// object a line, at most MaxLine bytes. Times are microseconds of the monotonic clock. What a client says of itself is
// an estimate; its class and memory are what the daemon wrote.
package wire

// Version is the version of the protocol.
const Version = 1

// MaxLine is the longest line, bytes, including its newline.
const MaxLine = 4096

// Type is the type of a message.
type Type string

// The messages.
const (
	Hello   Type = "HELLO"   // client: first line
	Welcome Type = "WELCOME" // broker: its answer
	Ask     Type = "ACQ"     // client: wants the GPU; at most one request is open
	Grant   Type = "GRANT"   // broker: the client has the GPU until the lease ends or YIELD
	Yield   Type = "YIELD"   // broker: finish the step, drain, release
	Release Type = "REL"     // client: released and drained
	Bye     Type = "BYE"     // client: leaves
	Error   Type = "ERR"     // broker: then the connection ends, except after "busy"
)

// Message is a message of any type; fields that a type does not have are left out. Unknown fields are ignored, an
// unknown type is answered with an error.
type Message struct {
	V    int    `json:"v"`
	Type Type   `json:"type"`
	Seq  uint64 `json:"seq,omitempty"`

	// HELLO
	PID  int    `json:"pid,omitempty"`  // for people; the kernel tells the broker which process it is
	Kind string `json:"kind,omitempty"` // train, serve, other
	Step int64  `json:"step_us,omitempty"`
	// Memory is GPU memory, MiB: in HELLO what the client will use, in WELCOME what it may use.
	Memory int64 `json:"mem_mib,omitempty"`

	// WELCOME
	ID      uint64 `json:"id,omitempty"`
	GPU     *int   `json:"gpu,omitempty"` // index on the node
	Class   string `json:"class,omitempty"`
	Quantum int64  `json:"quantum_us,omitempty"`

	Estimate int64 `json:"est_us,omitempty"`      // ACQ
	Deadline int64 `json:"deadline_us,omitempty"` // ACQ: from now; 0: none
	Lease    int64 `json:"lease_us,omitempty"`    // GRANT: from now
	Grace    int64 `json:"grace_us,omitempty"`    // YIELD: from now
	Used     int64 `json:"used_us,omitempty"`     // REL

	Code string `json:"code,omitempty"` // ERR
	Text string `json:"msg,omitempty"`  // ERR: a sentence
}

// The codes of ERR.
const (
	UnknownJob = "unknown-job" // the process belongs to no job that this node knows
	NotSharing = "not-sharing" // its job does not share this GPU
	MemoryCap  = "mem-cap"     // it says that it uses more memory than it may
	BadVersion = "version"
	BadMessage = "message"
	Busy       = "busy" // a request is open already, or there are too many clients
)
