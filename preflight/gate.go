package preflight

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// gate are the checks of job_submit.lua, and of the options of sbatch.
var gate = []check{
	{"gate", gates},
	{"gate's lease", gateLease},
	{"trusted_uids", trusted},
	{"gate's settings", gateSettings},
	{"options of sbatch", options},
}

const noLua = "put job_submit.lua and synergy_settings.lua beside slurm.conf, JobSubmitPlugins=lua into it, and the " +
	"partition into managed_partitions"

// gates compares the gate's partitions with the daemon's. In a partition that only the gate manages, a job would wait
// until its lease ends.
func gates(f *Facts) (found []finding) {
	if f.Gates.Why != "" {
		return append(gatesBySettings(f), skip("not tried: %s", f.Gates.Why))
	}
	for _, name := range names(f.Gates.Value) {
		found = append(found, judgeGate(name, f.Gates.Value[name], slices.Contains(f.Wanted.Partitions, name))...)
	}
	return found
}

// judgeGate judges the trial of one partition; ours says whether the daemon manages it.
func judgeGate(name string, g Gate, ours bool) (found []finding) {
	if g.Left != 0 {
		found = append(found, warn(fmt.Sprintf("scancel %d", g.Left),
			"the held job %d of this check is still in partition %s", g.Left, name))
	}
	manages := g.Annotated || g.Lua
	switch {
	case ours && manages:
		return append(found, ok("manages %s", name))
	case ours && g.Refused != "":
		return append(found, warn("let the daemon's user submit jobs there, or start the daemon with --alone",
			"a held job was refused in %s: %s", name, g.Refused))
	case ours && g.Away:
		return append(found,
			skip("lets everything in %s pass as long as the heartbeat is stale: check again when the daemon runs",
				name))
	case ours:
		return append(found, fail(noLua,
			"does not manage %s: Slurm would start jobs there before the daemon has seen them", name))
	case manages:
		return append(found, fail("take it out of managed_partitions, or add it to partitions in the configuration",
			"manages %s, which the daemon does not: jobs with our directive would wait there for a whole lease", name))
	}
	return found
}

// gatesBySettings compares the partitions by the gate's settings file, if no trial job may be submitted. A partition in
// the file is judged as if a trial job had been annotated there, and one that is not as if none had.
func gatesBySettings(f *Facts) (found []finding) {
	if f.Settings.Why != "" {
		return nil
	}
	for _, name := range f.Settings.Value.Partitions {
		found = append(found, judgeGate(name, Gate{Annotated: true}, slices.Contains(f.Wanted.Partitions, name))...)
	}
	for _, name := range f.Wanted.Partitions {
		if !slices.Contains(f.Settings.Value.Partitions, name) {
			found = append(found, judgeGate(name, Gate{}, true)...)
		}
	}
	return found
}

// annotated returns the trial of a managed partition that the gate annotated, or nil.
func annotated(f *Facts) *Gate {
	for _, name := range f.Wanted.Partitions {
		if g, tried := f.Gates.Value[name]; tried && g.Annotated {
			return &g
		}
	}
	return nil
}

// leaseTolerance is the tolerated difference between the gate's lease and the daemon's: a submission takes time, and
// Slurm counts whole seconds.
const leaseTolerance = 10 * time.Second

// gateLease compares the lease that the gate gave the trial job with the daemon's.
func gateLease(f *Facts) []finding {
	g := annotated(f)
	if g == nil {
		return []finding{skip("no job came through the gate")}
	}
	if lease := g.Lease.Round(time.Second); (lease - f.Wanted.Lease).Abs() > leaseTolerance {
		return []finding{warn("set lease_seconds of synergy_settings.lua and lease of the configuration the same",
			"is %s, and the daemon's %s", lease, f.Wanted.Lease)}
	}
	return []finding{ok("%s, as the daemon's", f.Wanted.Lease)}
}

// trusted requires that the gate lets the daemon's user change jobs.
func trusted(f *Facts) []finding {
	g := annotated(f)
	switch {
	case g == nil:
		return []finding{skip("no job came through the gate")}
	case g.Untrusted != "":
		return []finding{fail("name there the uid of user "+f.Wanted.User+
			" on slurmctld's host, in synergy_settings.lua, and touch job_submit.lua",
			"the gate keeps the daemon from changing jobs: %s", g.Untrusted)}
	}
	return []finding{ok("the daemon's user may change jobs")}
}

// gateSettings compares the paths that the gate reads with those that the daemon writes.
func gateSettings(f *Facts) (found []finding) {
	s := f.Settings.Value
	if f.Settings.Why != "" {
		return []finding{skip("%s", f.Settings.Why)}
	}
	for _, file := range []struct{ key, gates, ours string }{
		{"heartbeat", s.Heartbeat, f.Wanted.Heartbeat}, {"profiles_file", s.ProfilesFile, f.Wanted.ProfilesFile},
	} {
		if file.gates != "" && file.gates != file.ours {
			found = append(found, fail("name the same file in both",
				"the gate looks for the %s at %s, and the daemon writes %s", file.key, file.gates,
				orElse(file.ours, "none")))
		}
	}
	if len(found) == 0 {
		found = append(found, ok("%s names the files that the daemon writes, or none", s.Path))
	}
	return found
}

// options requires the filter cli_filter.lua where our SPANK plugin is: without it the plugin's options never get into
// a job's comment. It judges this host only. The hosts on which users submit cannot be seen from here.
func options(f *Facts) []finding {
	filters, known := f.Scontrol.Value["CliFilterPlugins"]
	switch {
	case f.Options.Why != "":
		return []finding{skip("%s", f.Options.Why)}
	case !f.Options.Value:
		return []finding{ok("none: this host has no plugin of ours, words go into --comment")}
	case f.Scontrol.Why != "" || !known:
		return []finding{skip("scontrol does not tell CliFilterPlugins")}
	case !hasPlugin(filters, "cli_filter", "lua"):
		return []finding{fail("CliFilterPlugins=lua in slurm.conf, and cli_filter.lua beside it",
			"this host has the plugin, and no filter that puts its options into the comment")}
	}
	return []finding{ok("by the plugin and the filter")}
}

// hasPlugin says whether a list contains a plugin, with or without its kind as prefix, since Slurm accepts both.
func hasPlugin(list, kind, name string) bool { return has(list, name) || has(list, kind+"/"+name) }

// has says whether a list separated by commas contains a word, in either case.
func has(list, word string) bool {
	return slices.ContainsFunc(strings.Split(list, ","),
		func(entry string) bool { return strings.EqualFold(strings.TrimSpace(entry), word) })
}
