package wire

// Status is what the broker of a node tells at its admin socket, as JSON.
type Status struct {
	V       int     `json:"v"` // Version
	Release string  `json:"release"`
	Up      float64 `json:"up_s"` // since it started
	Policy  string  `json:"policy"`
	GPUs    []GPU   `json:"gpus"`
	// Refused counts those that wanted to be clients and were not taken, by the code that they were told.
	Refused map[string]int `json:"refused"`
	// StillFrozen are the jobs that are stopped and should not be: to let them go on fails, and is tried again.
	StillFrozen  []Stuck `json:"still_frozen,omitempty"`
	ThawFailures int     `json:"thaw_failures"`
	// StampErrors counts the jobs whose stamp could not be written since the node was started: they take no turns.
	StampErrors    int        `json:"stamp_errors"`
	LastStampError *Unstamped `json:"last_stamp_error,omitempty"`
}

// Unstamped is a job whose stamp could not be written.
type Unstamped struct {
	Job   int     `json:"job"`
	Since float64 `json:"since_s"`
	Error string  `json:"error"`
}

// Stuck is a job that is stopped and should not be.
type Stuck struct {
	Job   int     `json:"job"`
	Since float64 `json:"since_s"`
	Tries int     `json:"tries"`
	Error string  `json:"error"` // of the last
}

// GPU is one of the node's.
type GPU struct {
	GPU  int    `json:"gpu"`
	Mode string `json:"mode"` // turns, fill
	// WhyTurns is why its jobs take turns though they were to fill it; empty: nothing is wrong.
	WhyTurns string   `json:"why_turns,omitempty"`
	Clients  []Client `json:"clients"`
	// Classes says of each class that was there what it had.
	Classes map[string]Had `json:"classes"`
	// MemoryBooked is what the jobs that are there may use together, MiB.
	MemoryBooked int64 `json:"memory_booked_mib"`
	Freezes      int   `json:"freezes"`
	Offences     int   `json:"offences"`
	Dropped      int   `json:"dropped"` // clients whose job had no stamp any more, or another
}

// Silent is how many of its clients are the broker itself.
func (g GPU) Silent() (n int) {
	for _, c := range g.Clients {
		if c.IsSilent() {
			n++
		}
	}
	return n
}

// Client is one connection.
type Client struct {
	ID    uint64 `json:"id"`
	Job   int    `json:"job"`
	UID   int    `json:"uid"`
	PID   int    `json:"pid"`
	Class string `json:"class"`
	// Kind is as it says itself, or Silent. Only the latter has no PID.
	Kind string `json:"kind,omitempty"`
	// State is idle, waiting, holding, yielding (it was told to, and has not yet) or frozen, as one that is silent is
	// while it waits.
	State     string  `json:"state"`
	Since     float64 `json:"since_s"` // how long it has been in that state
	Turns     int     `json:"turns"`
	Used      float64 `json:"held_s"` // of the GPU
	Memory    int64   `json:"mem_mib,omitempty"`
	MemoryCap int64   `json:"mem_cap_mib"`
	Share     float64 `json:"share"`            // of the GPU's time, over the last window
	Step      float64 `json:"step_s,omitempty"` // of the GPU at a time, as expected
	Gap       float64 `json:"gap_s,omitempty"`  // for how long it is expected to leave the GPU alone from now on
}

// Silent is the kind of a Client that is the broker itself, for a job that has none.
const Silent = "silent"

// IsSilent says that it is that.
func (c Client) IsSilent() bool { return c.Kind == Silent && c.PID == 0 }

// The states of a Client.
const (
	Idle     = "idle"
	Waiting  = "waiting"
	Holding  = "holding"
	Yielding = "yielding"
	Frozen   = "frozen"
)

// Had is what a class had of a GPU.
type Had struct {
	Turns   int     `json:"turns"`
	Held    float64 `json:"held_s"`
	Overrun int     `json:"overrun"` // turns whose lease had ended, or that were to be yielded, and that went on
	// Waits are from ACQ to GRANT, of the last thousand turns.
	WaitP50 float64 `json:"wait_p50_s"`
	WaitP95 float64 `json:"wait_p95_s"`
}
