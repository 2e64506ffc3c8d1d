package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/sim"
)

// The other names that things have: the artifact's readme, scheduler strings and paper use them.
var synonyms = map[string]string{
	"fair":         "proportional",
	"first-fit":    "random",
	"consolidated": "consolidate",
}

func meaning(word string) string {
	if known, is := synonyms[word]; is {
		return known
	}
	return word
}

func meanings(words []string) []string {
	var all []string
	for _, word := range words {
		all = append(all, meaning(word))
	}
	return all
}

// cross is every policy with every allocator with every placement.
func cross(policies, allocators, placements []string) []sim.Schedule {
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

// parseScheduler reads a scheduler as the paper's artifact spells it: the policy, and what follows it with a + in
// front, as in SRTF+tune+place. With nothing behind it, the policy is greedy. The placement stays empty where none is
// named.
func parseScheduler(text string) (sim.Schedule, error) {
	parts := strings.Split(strings.ToLower(text), "+")
	schedule := sim.Schedule{Policy: parts[0]}
	for _, part := range parts[1:] {
		switch {
		case part == "place" && schedule.Placement == "":
			schedule.Placement = "consolidate"
		case slices.Contains([]string{"fair", "tune", "opt"}, part) && schedule.Allocator == "":
			schedule.Allocator = meaning(part)
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
