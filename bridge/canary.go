package bridge

import (
	"slices"
	"strings"
)

// Canary is with whom a daemon is tried before it manages everybody: jobs of these accounts, in these partitions. Who
// is outside is told so, and is Slurm's: what the gate has leased of it is handed back. The zero value is everybody.
type Canary struct {
	Partitions []string `json:"partitions,omitempty"` // empty: all that are managed
	Accounts   []string `json:"accounts,omitempty"`   // empty: all
}

// IsZero says that everybody is managed.
func (c Canary) IsZero() bool { return len(c.Partitions) == 0 && len(c.Accounts) == 0 }

// notInCanary is what a job is told that is not among them.
const notInCanary = "not in the canary"

// has says whether a job is among them. One that could start in another partition is not.
func (c Canary) has(j *Job) bool {
	if len(c.Accounts) > 0 && !slices.Contains(c.Accounts, j.Account) {
		return false
	}
	if len(c.Partitions) == 0 {
		return true
	}
	for part := range strings.SplitSeq(j.Partition, ",") {
		if !slices.Contains(c.Partitions, part) {
			return false
		}
	}
	return true
}

// Equal says that two are the same.
func (c Canary) Equal(o Canary) bool {
	return slices.Equal(c.Partitions, o.Partitions) && slices.Equal(c.Accounts, o.Accounts)
}
