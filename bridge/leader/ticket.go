// Package leader sees to it that of several daemons at most one acts. The place where they meet is Slurm itself, since
// every daemon must reach it anyway: a *ticket* is a held job of the daemons' own user that is never meant to run.
// slurmctld numbers jobs ascending, so the tickets are a queue, and whose ticket is the first leads. A ticket that was
// cancelled does not come back: cancelling is the fence.
//
// The package decides by tickets and by its own monotonic clock. It compares no wall clocks of different hosts, keeps
// no file, and writes to no job but tickets.
package leader

import (
	"context"
	"encoding/json"
	"time"
)

// Name is the job name of every ticket. Users may name their jobs so too: only those of the daemons' own user are
// tickets.
const Name = "synergy-slurmd-leader"

// Words are what a ticket carries in its extra field.
type Words struct {
	Holder string `json:"holder"` // host and identity of the daemon
	// drawn by each process: two that share an identity by mistake find each other out
	Run   string `json:"run"`
	Beat  int    `json:"beat"`            // goes up for as long as the holder lives
	TTL   int    `json:"ttl_s"`           // seconds without a beat after which the holder is dead
	Leads bool   `json:"leads,omitempty"` // the holder acts
	Left  bool   `json:"left,omitempty"`  // the holder has stopped to act, and gives the ticket back
}

// maxWords bounds what is read as words. A host's name has at most 64 bytes.
const maxWords = 1024

// ParseWords reads an extra field; the zero Words where it is not a daemon's.
func ParseWords(extra string) Words {
	var w Words
	if len(extra) > maxWords || json.Unmarshal([]byte(extra), &w) != nil {
		return Words{}
	}
	return w
}

func (w Words) String() string {
	text, err := json.Marshal(w)
	if err != nil {
		return "" // strings, numbers and booleans always have a text
	}
	return string(text)
}

// Bounds of the time without a beat after which a holder is dead. A wider one makes failover slow, a narrower one would
// take a slurmctld that is busy for a dead daemon.
const (
	MinTTL = 15 * time.Second
	MaxTTL = time.Minute
)

// TTLFor is the time to live of daemons that hold rounds so often: one round, within the bounds.
func TTLFor(round time.Duration) time.Duration {
	return min(MaxTTL, max(MinTTL, round.Truncate(time.Second)))
}

// ttl is what the holder promised. Words that somebody else wrote promise nothing, so the longest time is waited.
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
	Words     Words // zero where its extra field says nothing that a daemon would write
	Live      bool  // it waits, as it should; otherwise it was cancelled, or somebody released it and it has run
	Submitted time.Time
	Ended     time.Time // by the same clock, Slurm's; zero while it lives
}

// Tickets is all that the protocol needs of a workload manager. Both implementations pass the suite in
// bridge/conformance. An error means that nothing is known; a beat that answers with one may have been written all the
// same.
type Tickets interface {
	// Take makes a ticket with these words and returns its number.
	Take(ctx context.Context, words Words) (int, error)
	// List tells of these tickets as they are now; without numbers of all that Slurm knows, those that were cancelled
	// of late included. One that Slurm has forgotten, or that is another user's job, is left out.
	List(ctx context.Context, ids ...int) ([]Ticket, error)
	// Beat writes words into a live ticket. bridge.ErrGone and bridge.ErrNotPending: it is none any more, and nothing
	// was written.
	Beat(ctx context.Context, id int, words Words) error
	// Tear cancels a ticket. One that is over stays as it is.
	Tear(ctx context.Context, id int) error
}

// order is how two tickets stand to each other.
type order int

const (
	ahead order = iota // the other one was taken first
	behind
	doubtful // numbers and times contradict each other: slurmctld began its numbers anew, or its clock was turned back
)

// place says where the other ticket stands, seen from mine.
func place(other, mine Ticket) order {
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
