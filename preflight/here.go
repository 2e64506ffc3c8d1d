package preflight

import (
	"slices"
	"strings"
	"time"
)

// local are the checks of the daemon's own host.
var local = []check{
	{"profiles", profiles},
	{"programs", programs},
	{"folders", folders},
	{"scontrol", scontrol},
}

// namedWrong is how many faulty profiles of a folder are listed.
const namedWrong = 3

// profiles requires readable profile folders without faulty files.
func profiles(f *Facts) (found []finding) {
	for _, dir := range f.Here.Profiles {
		switch {
		case dir.Why != "":
			found = append(found, fail("put the profiles there, readable for user "+f.Wanted.User+
				", or name another folder as profile_dirs", "%s", dir.Why))
		case len(dir.Wrong) > 0:
			named := strings.Join(dir.Wrong[:min(len(dir.Wrong), namedWrong)], "; ")
			found = append(found, fail("mend them or take them away: jobs that name them get the proportional share",
				"%s has %d that can be used, and %d that cannot: %s",
				dir.Path, len(dir.Names), len(dir.Wrong), named))
		case len(dir.Names) == 0:
			found = append(found, warn("copy those that you offer from etc/profiles, or measure your own",
				"%s has none", dir.Path))
		default:
			found = append(found, ok("%d in %s", len(dir.Names), dir.Path))
		}
	}
	return found
}

// programs requires that all configured programs can be run.
func programs(f *Facts) (found []finding) {
	for _, program := range f.Here.Programs {
		if program.Why != "" {
			found = append(found, fail("install it, executable for user "+f.Wanted.User+", or mend what names it",
				"%s: %s", program.Name, pathAnd(program.Path, program.Why)))
		} else {
			found = append(found, ok("%s is %s", program.Name, program.Path))
		}
	}
	return found
}

// pathAnd puts the path before what is wrong with it, unless the text already contains it.
func pathAnd(path, why string) string {
	if strings.Contains(why, path) {
		return why
	}
	return path + ": " + why
}

// folders requires that the daemon's user can write to all of its folders. A folder that the systemd unit makes may be
// missing until the daemon is started.
func folders(f *Facts) (found []finding) {
	for _, place := range f.Here.Writable {
		switch {
		case place.Why == "" && place.Root != "":
			found = append(found, warn("run this as the daemon's user, or give it the folder",
				"%s in %s, which root may write to and user %s may not", place.Name, place.Path, place.Root))
		case place.Why == "":
			found = append(found, ok("%s in %s", place.Name, place.Path))
		case place.Made:
			found = append(found, skip("%s in %s, which the unit makes: %s", place.Name, place.Path, place.Why))
		default:
			remedy := "make it, as user " + f.Wanted.User + "'s own, or name another place"
			if place.Near != "" {
				remedy = "did you mean " + place.Near + "? If not, " + remedy
			}
			found = append(found, fail(remedy, "%s: %s", place.Name, place.Why))
		}
	}
	return found
}

// scontrol requires the program scontrol, unless the API requeues jobs.
func scontrol(f *Facts) []finding {
	program := f.Here.Scontrol
	switch {
	case program.Path == "" && program.Why == "":
		return nil
	case program.Why == "":
		return []finding{ok("is %s", program.Path)}
	case f.Wanted.Requeues:
		return []finding{ok("is not needed: the API requeues jobs")}
	}
	return []finding{fail(
		"install Slurm's client on this host, or name the program with --scontrol: a job that does not leave by "+
			"itself is requeued with it",
		"%s", program.Why)}
}

// access are the checks of whether the daemon reaches Slurm and has the rights that it needs there.
var access = []check{
	{"token", token},
	{"slurm", slurm},
	{"clock", clock},
	{"operator", operator},
	{"partitions", partitions},
}

// soon is the rest of a token's life below which a warning is given: tokens are renewed by a timer, which may fail.
const soon = 15 * time.Minute

// token requires a readable, valid token of the daemon's user, and warns if it ends soon.
func token(f *Facts) []finding {
	const renew = "print a new one with scontrol token, into a file that only the daemon's user can read"
	user, left := f.Token.Value.User, f.Token.Value.Left.Round(time.Second)
	switch {
	case f.Wanted.Plugin != "":
		return []finding{skip("the plugin has credentials of its own")}
	case f.Token.Why != "":
		return []finding{fail(renew, "%s", f.Token.Why)}
	case left < 0:
		return []finding{fail(renew, "has ended %s ago", -left)}
	case user != "" && user != f.Wanted.User:
		return []finding{fail("print one for "+f.Wanted.User+", or name the other with --user",
			"is of user %s, and --user says %s", user, f.Wanted.User)}
	case left > 0 && left < soon:
		return []finding{warn("see that a timer renews it well before", "ends in %s", left)}
	case left == 0:
		return []finding{ok("can be read; it does not say when it ends")}
	}
	return []finding{ok("of user %s, ends in %s", user, left)}
}

// oldest is the first release of Slurm that the daemon supports.
const oldest = "24.11"

// slurm requires a controller that answers, has nodes, and is of a supported release. Releases are compared as text,
// since they are YY.MM.
func slurm(f *Facts) []finding {
	s := f.Slurm.Value
	switch {
	case f.Slurm.Why != "" && f.Wanted.Plugin != "":
		return []finding{fail("try it with synergy plugin check, and see what its configuration names", "%s",
			f.Slurm.Why)}
	case f.Slurm.Why != "":
		return []finding{fail(
			"see that slurmrestd and slurmctld run, that --slurmrestd names the former, and that the token is good",
			"%s", f.Slurm.Why)}
	case s.Release != "" && s.Release < oldest:
		return []finding{fail("a daemon for "+oldest+" or later cannot drive it", "is of Slurm %s", s.Release)}
	case s.Nodes == 0:
		return []finding{fail("see what sinfo says", "answers, and has no node")}
	}
	if f.Wanted.Plugin != "" {
		return []finding{ok("is behind a plugin, %s: %d nodes, %d jobs that wait or run", f.Wanted.Plugin, s.Nodes,
			s.Jobs)}
	}
	return []finding{ok("slurmrestd speaks %s, Slurm %s: %d nodes, %d jobs that wait or run", s.API,
		orElse(s.Release, "of unknown release"), s.Nodes, s.Jobs)}
}

// farApart is the difference of two clocks that gives a warning; the daemon warns in its log at the same value.
const farApart = 30 * time.Second

// clock warns if slurmctld's clock differs much from this host's.
func clock(f *Facts) []finding {
	ahead := f.Slurm.Value.Ahead.Round(time.Second)
	switch {
	case f.Slurm.Why != "":
		return []finding{skip("Slurm did not answer")}
	case ahead.Abs() > farApart:
		return []finding{warn(
			"run the same time service on both hosts; tokens and the heartbeat go by their own host's",
			"slurmctld's is %s ahead of ours", ahead)}
	}
	return []finding{ok("slurmctld's and ours differ by %s", ahead.Abs())}
}

// operator requires the admin level Operator or higher for the daemon's user.
func operator(f *Facts) []finding {
	switch level := f.Level.Value; {
	case f.Level.Why != "":
		return []finding{skip("%s", f.Level.Why)}
	case level != "Operator" && level != "Administrator":
		return []finding{fail("sacctmgr -i modify user "+f.Wanted.User+" set adminlevel=operator",
			"user %s has the level %s", f.Wanted.User, level)}
	default:
		return []finding{ok("user %s is %s", f.Wanted.User, level)}
	}
}

// partitions requires that the managed partitions exist and have GPUs.
func partitions(f *Facts) (found []finding) {
	if f.Partitions.Why != "" {
		return []finding{skip("%s", f.Partitions.Why)}
	}
	for _, name := range f.Wanted.Partitions {
		gpus, there := f.Partitions.Value[name]
		switch {
		case !there:
			found = append(
				found,
				fail(orNearest(name, names(f.Partitions.Value), "", "mend partitions in the configuration"),
					"the cluster has no %s; it has %s", name,
					strings.Join(names(f.Partitions.Value), ", ")),
			)
		case gpus == 0:
			found = append(found,
				warn("only jobs with GPUs can be managed; or GPUs are not counted: AccountingStorageTRES=gres/gpu",
					"%s has no GPU", name))
		default:
			found = append(found, ok("%s has %d GPUs", name, gpus))
		}
	}
	return found
}

// names returns the keys, sorted.
func names[V any](m map[string]V) []string {
	var all []string
	for name := range m {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

func orElse(text, instead string) string {
	if text == "" {
		return instead
	}
	return text
}
