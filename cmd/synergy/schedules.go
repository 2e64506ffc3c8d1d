package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/sim"
)

// synonyms are other names of policies and placements: those of the artifact's readme, its scheduler strings and the
// paper.
var synonyms = map[string]string{
	"fair":         "proportional",
	"first-fit":    "random",
	"consolidated": "consolidate",
}

// canonicalName is our name for a policy, an allocator or a placement.
func canonicalName(word string) string {
	if known, is := synonyms[word]; is {
		return known
	}
	return word
}

// canonicalNames are our names for policies, allocators or placements.
func canonicalNames(words []string) []string {
	var all []string
	for _, word := range words {
		all = append(all, canonicalName(word))
	}
	return all
}

// combineSchedules returns a schedule for each combination of a policy, an allocator and a placement.
func combineSchedules(policies, allocators, placements []string) []sim.Schedule {
	var all []sim.Schedule
	for _, p := range policies {
		for _, a := range allocators {
			for _, where := range placements {
				all = append(all, sim.Schedule{Policy: p, Allocator: a, Placement: where})
			}
		}
	}
	return all
}

// parseScheduler reads a scheduler in the spelling of the paper's artifact: the policy, and words behind a +, as
// SRTF+tune+place. Without an allocator it is greedy. The placement stays empty if none is named.
func parseScheduler(text string) (sim.Schedule, error) {
	parts := strings.Split(strings.ToLower(text), "+")
	schedule := sim.Schedule{Policy: parts[0]}
	for _, part := range parts[1:] {
		switch {
		case part == "place" && schedule.Placement == "":
			schedule.Placement = "consolidate"
		case slices.Contains([]string{"fair", "tune", "opt"}, part) && schedule.Allocator == "":
			schedule.Allocator = canonicalName(part)
		default:
			return sim.Schedule{},
				fmt.Errorf(
					"%q: +%s does not fit there: want POLICY, and perhaps one of +fair, +tune and +opt, and +place",
					text, part)
		}
	}
	if schedule.Allocator == "" {
		schedule.Allocator = "greedy"
	}
	return schedule, nil
}
