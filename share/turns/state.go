package turns

import (
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// State is a snapshot of an Arbiter for people and metrics.
type State struct {
	Policy    Policy        `json:"policy"`
	LookAhead bool          `json:"lookahead"`
	MinShare  float64       `json:"min_share"` // 0: a class may starve
	Now       time.Duration `json:"now_ns"`
	Holder    Client        `json:"holder,omitempty"` // 0: none
	Clients   []ClientState `json:"clients"`          // by ID
}

// ClientState is one client of a State.
type ClientState struct {
	Client Client      `json:"client"`
	Job    int         `json:"job"`
	Class  share.Class `json:"class"`
	// Phase is idle, waiting, holding, yielding or frozen.
	Phase   string        `json:"phase"`
	Since   time.Duration `json:"since_ns"`
	Share   float64       `json:"share"` // of the GPU's time, over the last window
	Used    time.Duration `json:"used_ns"`
	Turns   int           `json:"turns"`
	WaitP50 time.Duration `json:"wait_p50_ns"` // of its last slices
	WaitP95 time.Duration `json:"wait_p95_ns"`
	Step    time.Duration `json:"step_ns"` // expected; 0: unknown
	// Gap is how long its job is expected to leave the GPU alone from now on; 0: no estimate.
	Gap      time.Duration `json:"gap_ns,omitempty"`
	Freezes  int           `json:"freezes"`
	Offences int           `json:"offences"`
}

// State returns a snapshot of the arbiter after its last step.
func (a *Arbiter) State() State {
	s := State{Policy: a.rules.Policy, LookAhead: a.rules.LookAhead, MinShare: a.rules.MinShare, Now: a.now,
		Clients: make([]ClientState, 0, len(a.clients))}
	if a.holder != nil {
		s.Holder = a.holder.id
	}
	for _, c := range a.clients {
		s.Clients = append(s.Clients, a.clientState(c))
	}
	return s
}

// clientState returns a client's part of the State. Since counts from the yield or the grant for a client that holds
// the GPU. Gap is set only if the client's job does not want the GPU and is expected back.
func (a *Arbiter) clientState(c *client) ClientState {
	waits := c.waits.sorted
	s := ClientState{Client: c.id, Job: c.job.owner.job, Class: c.class, Phase: string(c.phase), Since: c.since,
		Used: c.used, Share: float64(c.window.within(a.now, a.rules.Window)) / float64(a.rules.Window), Turns: c.turns,
		WaitP50: quantile(waits, 0.5), WaitP95: quantile(waits, 0.95), Step: c.expectedStep(), Freezes: c.freezes,
		Offences: c.offenceReports}
	switch {
	case c.phase == holding && c.turn.yielding:
		s.Phase = "yielding"
		s.Since = c.turn.yieldedAt
	case c.phase == holding:
		s.Since = c.turn.began
	case c.job.active == 0 && c.job.hasReleased:
		if gap := remainingGap(c.job.gaps.sorted, a.now-c.job.idleSince, a.rules.Patience); gap < forever {
			s.Gap = gap
		}
	}
	return s
}

// windowPieces is the number of pieces of a window, which bounds its error to one of them.
const windowPieces = 10

// window sums GPU time over a sliding window, in pieces of equal length: the oldest is cleared as time moves on.
type window struct {
	piece  [windowPieces]time.Duration // GPU time used in each
	newest int64                       // the number of the newest piece, counted from time 0
}

// add counts GPU time that was used up to now, in a window of the given length. It is divided over the pieces of the
// window in which it was used; each pass takes at least a nanosecond, so that it ends.
func (w *window) add(now, used, length time.Duration) {
	size := length / windowPieces
	for used = min(used, length); used > 0; {
		w.roll(now-used, size)
		end := (time.Duration(w.newest) + 1) * size
		piece := min(used, max(1, end-(now-used)))
		w.piece[w.newest%windowPieces] += piece
		used -= piece
	}
}

// roll moves the window on to the piece of now and clears the pieces that it enters, each of them once however much
// time has passed. size is the length of a piece.
func (w *window) roll(now, size time.Duration) {
	newest := int64(now / size)
	for ; w.newest < newest; w.newest++ {
		if newest-w.newest > windowPieces {
			w.newest = newest - windowPieces
		}
		w.piece[(w.newest+1)%windowPieces] = 0
	}
}

// within returns the GPU time used in the last window of the given length. It works on a copy, so that reading changes
// nothing.
func (w window) within(now, length time.Duration) time.Duration {
	w.roll(now, length/windowPieces)
	var sum time.Duration
	for _, piece := range w.piece {
		sum += piece
	}
	return sum
}
