package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/policy/plugin"
	"github.com/synergy-slurmd/synergy-slurmd/preflight"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/library"
	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// checkConfiguration prints what the daemon would do with a configuration, and returns what this host lacks for it. The
// daemon itself would start without some of that: a job whose profile cannot be read gets the proportional share.
func checkConfiguration(out io.Writer, f flags, config Config) error {
	fmt.Fprintf(out, "%s: %s, %s; rounds of %s, leases of %s, partitions %v%s\n",
		f.config, config.Policy.Name, config.Allocator.Name, f.round, config.Lease, config.Partitions,
		canaryOf(config))
	facts := preflight.Facts{Wanted: wanted(f, config), Here: here(f, config)}
	facts.Here.Writable = nil // a configuration may be checked by another user and on another host than the daemon's
	// A bare name is found on the PATH of the daemon's host, which need not be this one.
	if facts.Here.Scontrol.Why != "" && !strings.Contains(f.scontrol, "/") {
		facts.Here.Scontrol = preflight.Program{}
	}
	problems := unmatched(config)
	for _, line := range preflight.Local(facts) {
		if line.Verdict == preflight.Fail {
			problems = append(problems, fmt.Errorf("%s: %s: %s", line.Check, line.Text, line.Remedy))
			continue
		}
		fmt.Fprintln(out, line)
	}
	return errors.Join(problems...)
}

// wanted is the configuration in the types of package preflight.
func wanted(f flags, config Config) preflight.Wanted {
	return preflight.Wanted{User: f.user, Partitions: config.Partitions, Lease: config.Lease, Rate: config.Rate,
		Heartbeat: config.Heartbeat, ProfilesFile: config.ProfilesFile, Plugin: f.slurmPlugin,
		Sharing: sharingOf(config.Sharing), Canary: config.Canary.Accounts, Match: rulesOf(config.Match)}
}

// rulesOf is match of the configuration in the types of package preflight, numbered from 1 as in all messages.
func rulesOf(match []bridge.Match) (rules []preflight.Rule) {
	for i, m := range match {
		rules = append(rules, preflight.Rule{Number: i + 1, User: m.User, Account: m.Account, Partition: m.Partition,
			Profile: m.Profile})
	}
	return rules
}

// sharingOf is the section share of the configuration in the types of package preflight.
func sharingOf(s bridge.Sharing) preflight.Sharing {
	return preflight.Sharing{Memory: s.GPUMemory > 0, Most: share.MostJobs,
		ByFeature: slices.Sorted(maps.Keys(s.ByFeature)), ModeByFeature: slices.Sorted(maps.Keys(s.ModeByFeature)),
		Said: s.GPUMemory > 0 || s.Mode != "" || len(s.ByFeature)+len(s.ModeByFeature) > 0}
}

// here is what this host has of what the daemon needs.
func here(f flags, config Config) preflight.Here {
	h := preflight.Here{Programs: programs(f, config), Scontrol: scontrolHere(f)}
	for _, dir := range config.ProfileDirs {
		h.Profiles = append(h.Profiles, folderOf(dir))
	}
	h.Writable = placesOf(f, config)
	return h
}

// unmatched lists the rules of match whose profile cannot be read. The daemon would start, and nothing would be known
// of the jobs of such a rule.
func unmatched(config Config) (problems []error) {
	shelf := library.New(config.ProfileDirs...)
	for i := range config.Match {
		if name := config.Match[i].Profile; name != "" {
			if _, err := shelf.Lookup(name); err != nil {
				problems = append(problems, fmt.Errorf("match: rule %d: profile: %w", i+1, err))
			}
		}
	}
	return problems
}

// folderOf lists the valid profiles of a folder and what is wrong with the others.
func folderOf(dir string) preflight.Folder {
	folder := preflight.Folder{Path: dir}
	entries, err := os.ReadDir(dir)
	if err != nil {
		folder.Why = err.Error()
		return folder
	}
	shelf := library.New(dir)
	for _, entry := range entries {
		if filepath.Ext(entry.Name()) != ".json" {
			continue
		}
		if _, err := shelf.Lookup(entry.Name()); err != nil {
			folder.Wrong = append(folder.Wrong, err.Error())
			continue
		}
		folder.Names = append(folder.Names, entry.Name())
	}
	return folder
}

// programs are the site's own programs that the daemon runs. For an absolute path LookPath says whether this user may
// execute it.
func programs(f flags, config Config) (found []preflight.Program) {
	add := func(name, path string, err error) {
		program := preflight.Program{Name: name, Path: path}
		if err != nil {
			program.Why = err.Error()
		}
		found = append(found, program)
	}
	if argv := config.Hook.before; len(argv) > 0 {
		_, err := exec.LookPath(argv[0])
		add("checkpoint_hook.before", argv[0], err)
	}
	if argv := config.Hook.after; len(argv) > 0 {
		_, err := exec.LookPath(argv[0])
		add("checkpoint_hook.after", argv[0], err)
	}
	if f.planner != "" {
		add("--planner-plugin", f.planner, plugin.Inspect(f.planner, f.plannerSum))
	}
	if f.slurmPlugin != "" {
		add("--slurm-plugin", f.slurmPlugin, inspectPlugin(f))
	}
	if f.slurmConfig != "" {
		_, err := readSome(f.slurmConfig, 1)
		add("--slurm-plugin-config", f.slurmConfig, err)
	}
	return found
}

// scontrolHere is scontrol, which the daemon needs to requeue jobs and to split arrays; the zero Program if a plugin
// drives the workload manager.
func scontrolHere(f flags) preflight.Program {
	if f.slurmPlugin != "" {
		return preflight.Program{}
	}
	path, err := exec.LookPath(f.scontrol)
	if err != nil {
		return preflight.Program{Name: "scontrol", Path: f.scontrol, Why: err.Error()}
	}
	return preflight.Program{Name: "scontrol", Path: path}
}

// canaryOf names the partitions and accounts of the canary stage; empty: all jobs are managed.
func canaryOf(config Config) (text string) {
	if list := config.Canary.Partitions; len(list) > 0 {
		text += fmt.Sprintf(", canary of partitions %v", list)
	}
	if list := config.Canary.Accounts; len(list) > 0 {
		text += fmt.Sprintf(", canary of accounts %v", list)
	}
	return text
}
