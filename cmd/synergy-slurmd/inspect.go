package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/synergy-slurmd/synergy-slurmd/policy/plugin"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/library"
)

// inspect tells an administrator what the daemon would do with a configuration, and what is wrong with the profiles that it
// names. The daemon itself starts without them: a job whose profile cannot be read gets the proportional share.
func inspect(out io.Writer, f flags, config Config) error {
	fmt.Fprintf(out, "%s: %s, %s; rounds of %s, leases of %s, partitions %v\n",
		f.config, config.Policy.Name, config.Allocator.Name, f.round, config.Lease, config.Partitions)
	var problems []error
	if f.planner != "" {
		problems = append(problems, plugin.Inspect(f.planner, f.plannerSum))
	}
	problems = append(problems, inspectPlugin(f))
	for _, dir := range config.ProfileDirs {
		good, err := inspectProfiles(dir)
		fmt.Fprintf(out, "%s: %d profiles\n", dir, good)
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// inspectProfiles counts the good profiles of a directory and lists what is wrong with the others.
func inspectProfiles(dir string) (good int, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, fmt.Errorf("profile_dirs: %w", err)
	}
	shelf := library.New(dir)
	var problems []error
	for _, entry := range entries {
		if filepath.Ext(entry.Name()) != ".json" {
			continue
		}
		if _, err := shelf.Lookup(entry.Name()); err != nil {
			problems = append(problems, err)
			continue
		}
		good++
	}
	return good, errors.Join(problems...)
}
