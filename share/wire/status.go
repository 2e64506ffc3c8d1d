package wire

// Status is what the broker of a node reports at its admin socket, as JSON.
type Status struct {
	V       int     `json:"v"` // Version
	Release string  `json:"release"`
	Up      float64 `json:"up_s"` // seconds since it started
	Policy  string  `json:"policy"`
	GPUs    []GPU   `json:"gpus"`
	// Refused counts refused clients by the code that they were sent.
	Refused map[string]int `json:"refused"`
	// StillFrozen lists the jobs that are stopped by mistake: thawing them fails and is tried again.
	StillFrozen  []Stuck `json:"still_frozen,omitempty"`
	ThawFailures int     `json:"thaw_failures"`
	// StampErrors counts the jobs whose stamp could not be written since the node was started. Such jobs take no turns.
	StampErrors    int        `json:"stamp_errors"`
	LastStampError *Unstamped `json:"last_stamp_error,omitempty"`
}

// Unstamped is a job whose stamp could not be written, Since seconds ago.
type Unstamped struct {
	Job   int     `json:"job"`
	Since float64 `json:"since_s"`
	Error string  `json:"error"`
}

// Stuck is a job that is stopped and should not be: in Since seconds, thawing it has failed in all Tries.
type Stuck struct {
	Job   int     `json:"job"`
	Since float64 `json:"since_s"`
	Tries int     `json:"tries"`
	Error string  `json:"error"` // of the last try
}

// GPU is the state of one of the node's shared GPUs.
type GPU struct {
	GPU  int    `json:"gpu"`
	Mode string `json:"mode"` // turns, fill
	// WhyTurns says why its jobs take turns though the mode is fill; empty: nothing is wrong.
	WhyTurns string   `json:"why_turns,omitempty"`
	Clients  []Client `json:"clients"`
	// Classes has what each class that was there has had of the GPU.
	Classes map[string]Had `json:"classes"`
	// MemoryBooked is the GPU memory that its present jobs may use together, MiB.
	MemoryBooked int64 `json:"memory_booked_mib"`
	Freezes      int   `json:"freezes"`
	Offences     int   `json:"offences"`
	Dropped      int   `json:"dropped"` // clients whose job lost its stamp or got another
}

// Silent returns how many of its clients are the broker itself, on behalf of jobs that never ask. They are no
// connections, and metrics count them separately.
func (g GPU) Silent() (n int) {
	for _, c := range g.Clients {
		if c.IsSilent() {
			n++
		}
	}
	return n
}

// Client is one connection to the broker.
type Client struct {
	ID    uint64 `json:"id"`
	Job   int    `json:"job"`
	UID   int    `json:"uid"`
	PID   int    `json:"pid"`
	Class string `json:"class"`
	// Kind is what the client says it is, or Silent. Only a silent client has no PID.
	Kind string `json:"kind,omitempty"`
	// State is idle, waiting, holding, yielding (it was told to yield and has not yet) or frozen. A silent client is
	// frozen while it waits.
	State     string  `json:"state"`
	Since     float64 `json:"since_s"` // time in that state
	Turns     int     `json:"turns"`
	Used      float64 `json:"held_s"` // time that it held the GPU
	Memory    int64   `json:"mem_mib,omitempty"`
	MemoryCap int64   `json:"mem_cap_mib"`
	Share     float64 `json:"share"`            // of the GPU's time, over the last window
	Step      float64 `json:"step_s,omitempty"` // expected length of one use of the GPU
	Gap       float64 `json:"gap_s,omitempty"`  // how long it is expected to leave the GPU alone from now on
}

// Silent is the kind of a Client that the broker makes for a job that never asks for the GPU itself.
const Silent = "silent"

// IsSilent reports whether the client is the broker's own, for a job that never asks. The kind alone does not tell: a
// client chooses its own in HELLO and may call itself silent. But the broker adds the PID of each connection, and its
// own client has none.
func (c Client) IsSilent() bool { return c.Kind == Silent && c.PID == 0 }

// The states of a Client.
const (
	Idle     = "idle"
	Waiting  = "waiting"
	Holding  = "holding"
	Yielding = "yielding"
	Frozen   = "frozen"
)

// Had is what a class has had of a GPU.
type Had struct {
	Turns   int     `json:"turns"`
	Held    float64 `json:"held_s"`
	Overrun int     `json:"overrun"` // slices that went on after the lease or a yield
	// Times from ACQ to GRANT, over the last thousand slices.
	WaitP50 float64 `json:"wait_p50_s"`
	WaitP95 float64 `json:"wait_p95_s"`
}
