package snapshot

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// File is a self-contained snapshot with all that is needed to plan it again. In JSON it has the fields of the cluster
// and these.
type File struct {
	policy.Cluster
	// Profiles are the profiles of the jobs. nil (not empty): the snapshot has only the names of profiles.
	Profiles Profiles `json:"profiles,omitzero"`
	// Policy and Allocator are those of the round, as read by ParsePolicy and ParseAllocator; empty: unknown.
	Policy    string `json:"policy,omitempty"`
	Allocator string `json:"allocator,omitempty"`
	// Habits are the parts of their time limits that the site's jobs used, ascending, from 0 to 1; nil: unknown.
	Habits []float64 `json:"habits,omitempty"`
}

// Profiles are the distinct profiles of a snapshot's jobs. Jobs that are in none have no profile.
type Profiles []Profiled

// Profiled is a profile and the jobs that have it. Jobs with the same profile name may have different profiles, since
// learned profiles belong to one owner.
type Profiled struct {
	Jobs    []int                `json:"jobs"` // IDs, in the order of the snapshot
	Profile *sensitivity.Profile `json:"profile"`
}

// ProfilesOf returns the profiles of a cluster's jobs, each once, in the order of their first jobs; never nil. Profiles
// with equal JSON are listed as one, with the jobs of all.
func ProfilesOf(c *policy.Cluster) Profiles {
	list := Profiles{}
	places, texts := map[*sensitivity.Profile]int{}, map[string]int{}
	for i := range c.Jobs {
		p := c.Jobs[i].Profile
		if p == nil {
			continue
		}
		place, known := places[p]
		if !known {
			place = list.indexFor(p, texts)
			places[p] = place
		}
		if place >= 0 {
			list = list.withJobs(place, Profiled{[]int{c.Jobs[i].ID}, p})
		}
	}
	return list
}

// indexFor is the index in the list at which a profile is, or will be appended. texts has these indexes by the
// profile's JSON, since profiles with equal JSON are the same, and gets that of a new one. It is -1 for a profile that
// cannot be marshalled, which no valid one is.
func (ps Profiles) indexFor(p *sensitivity.Profile, texts map[string]int) int {
	text, err := json.Marshal(p)
	if err != nil {
		return -1
	}
	place, known := texts[string(text)]
	if !known {
		place = len(ps)
		texts[string(text)] = place
	}
	return place
}

// withJobs adds the jobs of one to the profile with index place, or appends one if that index is the end of the list.
func (ps Profiles) withJobs(place int, one Profiled) Profiles {
	if place == len(ps) {
		return append(ps, one)
	}
	ps[place].Jobs = append(ps[place].Jobs, one.Jobs...)
	return ps
}

// rawProfiled is a profile that is not validated yet.
type rawProfiled struct {
	Jobs    []int           `json:"jobs"`
	Profile json.RawMessage `json:"profile"`
}

// assignProfiles sets the profiles of a cluster's jobs to those listed, and to nil where none is. Each profile must be
// one that sensitivity.Parse accepts. On any error (a bad profile, an unknown job, a job with two profiles) it changes
// nothing.
func assignProfiles(list []rawProfiled, c *policy.Cluster) error {
	places := make(map[int]int, len(c.Jobs))
	for i := range c.Jobs {
		places[c.Jobs[i].ID] = i
	}
	of := make([]*sensitivity.Profile, len(c.Jobs))
	for i, p := range list {
		profile, err := sensitivity.Parse(p.Profile)
		if err != nil {
			return fmt.Errorf("profiles[%d].profile: %w", i, err)
		}
		for k, job := range p.Jobs {
			place, known := places[job]
			if !known || of[place] != nil {
				return fmt.Errorf("profiles[%d].jobs[%d] = %d: want a job of the snapshot that has no other profile",
					i, k, job)
			}
			of[place] = profile
		}
	}
	for i := range c.Jobs {
		c.Jobs[i].Profile = of[i]
	}
	return nil
}

// isNull reports whether a field of JSON is missing or null.
func isNull(text json.RawMessage) bool {
	return len(text) == 0 || bytes.Equal(bytes.TrimSpace(text), []byte("null"))
}

// JSON is the file in the form that Read reads.
func (f File) JSON() ([]byte, error) {
	text, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("write snapshot: %w", err)
	}
	return text, nil
}
