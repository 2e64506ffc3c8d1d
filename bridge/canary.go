package bridge

import (
	"slices"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
)

// Canary restricts a daemon on trial to jobs of these accounts in these partitions. Other jobs with a directive are
// left to Slurm and told so, and the gate's lease is taken off them. The zero value manages all.
type Canary struct {
	Partitions []string `json:"partitions,omitempty"` // empty: all managed ones
	Accounts   []string `json:"accounts,omitempty"`   // empty: all
}

// IsZero says whether there is no restriction.
func (c Canary) IsZero() bool { return len(c.Partitions) == 0 && len(c.Accounts) == 0 }

// notInCanary is what jobs outside the canary are told.
const notInCanary = "not in the canary"

// includes says whether the daemon on trial manages a job. One that may also start in another partition is not
// included, since its start there would be outside the trial.
func (c Canary) includes(j *slurm.Job) bool {
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

// Equal says whether two canaries are the same.
func (c Canary) Equal(o Canary) bool {
	return slices.Equal(c.Partitions, o.Partitions) && slices.Equal(c.Accounts, o.Accounts)
}
