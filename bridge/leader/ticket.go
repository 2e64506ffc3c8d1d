// Package leader makes sure that at most one of several daemons acts. They meet in Slurm itself, since every daemon
// must reach it anyway: a *ticket* is a held job of the daemons' own user that is never meant to run. slurmctld numbers
// jobs in ascending order, so the tickets are a queue, and the holder of the first one leads. A cancelled ticket does
// not come back: cancelling is the fence.
//
// A daemon takes a ticket first and lists the others afterwards, so of two that start at once the second sees the
// first. A beat is an update by which a holder changes the content of its ticket, which shows the others that it is
// alive. The time to live (TTL) is how long a holder without a beat counts as alive. A leader trusts its last confirmed
// beat for three quarters of the time to live; the others wait for all of it. A ticket that another daemon cancelled
// still blocks later ones until its holder must have noticed, since the holder may act until then. slurmctld logs each
// beat in two lines, so there is at most one beat in five seconds, and a time to live is at least three such intervals.
//
// The package decides by tickets and by its own monotonic clock. It compares no wall clocks of different hosts, keeps
// no file, and writes to no job but tickets.
package leader

import (
	"context"
	"encoding/json"
	"time"
)

// Name is the job name of every ticket. Users may use the name, too: only jobs of the daemons' own user are tickets.
const Name = "synergy-slurmd-leader"

// Words are the content of a ticket, in its extra field.
type Words struct {
	Holder string `json:"holder"` // host and identity of the daemon
	// drawn by each process, so that two with the same identity by mistake notice each other
	Run   string `json:"run"`
	Beat  int    `json:"beat"`            // counts up while the holder lives
	TTL   int    `json:"ttl_s"`           // seconds without a beat after which the holder is dead
	Leads bool   `json:"leads,omitempty"` // the holder leads
	Left  bool   `json:"left,omitempty"`  // the holder no longer acts and gives the ticket back
}

// maxWords limits the bytes that are parsed. A host's name has at most 64.
const maxWords = 1024

// ParseWords reads the words in a ticket's extra field. They are zero if the field is longer than maxWords or is no
// JSON of this form. Such a ticket counts with the longest TTL, so that no live holder is taken for dead.
func ParseWords(extra string) Words {
	var w Words
	if len(extra) > maxWords || json.Unmarshal([]byte(extra), &w) != nil {
		return Words{}
	}
	return w
}

// String is the text for a ticket's extra field, which ParseWords reads.
func (w Words) String() string {
	text, err := json.Marshal(w)
	if err != nil {
		return "" // strings, numbers and booleans can always be marshalled
	}
	return string(text)
}

// Limits of the time without a beat after which a holder is dead. A longer one makes failover slow, a shorter one would
// take a busy slurmctld for a dead daemon.
const (
	MinTTL = 15 * time.Second
	MaxTTL = time.Minute
)

// TTLFor is the time to live for daemons with this round length: one round, within the limits.
func TTLFor(round time.Duration) time.Duration {
	return min(MaxTTL, max(MinTTL, round.Truncate(time.Second)))
}

// ttl is the TTL that the holder declared. If the words are not a daemon's or it is out of bounds, it is MaxTTL, so
// that no live holder is taken for dead.
func (w Words) ttl() time.Duration {
	said := time.Duration(w.TTL) * time.Second
	if w.Holder == "" || said < MinTTL || said > MaxTTL {
		return MaxTTL
	}
	return said
}

// Ticket is a ticket as Slurm shows it.
type Ticket struct {
	ID        int
	Words     Words // zero if the extra field is not a daemon's
	Live      bool  // pending, as it should be; otherwise it was cancelled, or released and run
	Submitted time.Time
	Ended     time.Time // by Slurm's clock, like Submitted; zero while it is live
}

// Tickets is all that the protocol needs of a workload manager. Implementations pass the suite in bridge/conformance.
// An error means that the outcome is unknown: a beat with an error may have been written.
type Tickets interface {
	// Take submits a ticket with these words and returns its ID.
	Take(ctx context.Context, words Words) (int, error)
	// List returns these tickets as they are now; without IDs all that Slurm knows, including those cancelled recently.
	// A ticket that Slurm has forgotten, or whose ID belongs to another user's job, is left out.
	List(ctx context.Context, ids ...int) ([]Ticket, error)
	// Beat writes words into a live ticket. With slurm.ErrGone and slurm.ErrNotPending it is not live, and nothing was
	// written.
	Beat(ctx context.Context, id int, words Words) error
	// Tear cancels a ticket. One that is over stays as it is.
	Tear(ctx context.Context, id int) error
}

// order is the position of another ticket relative to this daemon's.
type order int

const (
	ahead order = iota // the other one was taken first
	behind
	doubtful // IDs and times contradict each other: slurmctld restarted its job IDs, or its clock was set back
)

// orderOf says whether the other ticket was taken before or after this daemon's, by ID and submission time. It is
// doubtful where the two contradict each other. Equal times contradict nothing.
func orderOf(other, mine Ticket) order {
	lower, earlier, later := other.ID < mine.ID, other.Submitted.Before(mine.Submitted),
		other.Submitted.After(mine.Submitted)
	switch {
	case lower && !later:
		return ahead
	case !lower && !earlier:
		return behind
	}
	return doubtful
}
