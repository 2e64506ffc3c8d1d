package snapshot

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// File is a snapshot by itself, with all that is needed to plan it again: in JSON the fields of the cluster, and these.
type File struct {
	policy.Cluster
	// Profiles are those of the jobs. nil, and not empty: the snapshot says of profiles only what they are called.
	Profiles Profiles `json:"profiles,omitzero"`
	// Policy and Allocator are those by which the round decided, as ParsePolicy and ParseAllocator know them; empty:
	// nobody said.
	Policy    string `json:"policy,omitempty"`
	Allocator string `json:"allocator,omitempty"`
	// Habits are how much of their time limits the site's jobs use, ascending from 0 to 1; nil: nobody has learned it.
	Habits []float64 `json:"habits,omitempty"`
}

// Profiles are the profiles of a snapshot's jobs, each once. Jobs that are in none have none.
type Profiles []Profiled

// Profiled is a profile and who has it. Jobs of one profile's name may have different ones: what was learned is an
// owner's own.
type Profiled struct {
	Jobs    []int                `json:"jobs"` // in the order of the snapshot
	Profile *sensitivity.Profile `json:"profile"`
}

// ProfilesOf are those of a cluster's jobs, in the order of their first jobs; never nil.
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
			place = list.place(p, texts)
			places[p] = place
		}
		if place >= 0 {
			list = list.with(place, Profiled{[]int{c.Jobs[i].ID}, p})
		}
	}
	return list
}

// place is where a profile is or will be, by what it says; -1: it cannot be said in JSON, which no valid one is.
func (ps Profiles) place(p *sensitivity.Profile, texts map[string]int) int {
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

func (ps Profiles) with(place int, one Profiled) Profiles {
	if place == len(ps) {
		return append(ps, one)
	}
	ps[place].Jobs = append(ps[place].Jobs, one.Jobs...)
	return ps
}

// rawProfiled is a profile that has yet to be believed.
type rawProfiled struct {
	Jobs    []int           `json:"jobs"`
	Profile json.RawMessage `json:"profile"`
}

// give gives the jobs of a cluster these profiles, and no others, where they are good: what sensitivity.Parse would
// read. Nothing is given where one is not, or where a job is unknown or has two.
func give(list []rawProfiled, c *policy.Cluster) error {
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

// isNull says that a field is not there, or says nothing.
func isNull(text json.RawMessage) bool {
	return len(text) == 0 || bytes.Equal(bytes.TrimSpace(text), []byte("null"))
}

// JSON is the file as Read reads it.
func (f File) JSON() ([]byte, error) {
	text, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("write snapshot: %w", err)
	}
	return text, nil
}
